"""The rows that one commit changed: those of a delete or an update, and a feed, event by event.

In: a log; the name of a delete or an update, or an event. Out: the rows as they were right before
it; or tables of changes, as a diff has them. Later changes of the same rows do not matter.

An event is a write, a delete or an update; a merged fragment is none, as it only repeats. An update
that has been applied, and the fragment and delete that stand for it, have one name: they are
one event. A write is compared with the rows that an open right before it sees, so a commit that is
dated in the past counts as of its own time, whatever came later.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import pyarrow as pa

from chronotile.conditions.stored_conditions import is_harmless
from chronotile.conditions.tree import AllOf
from chronotile.conditions.update_values import parse_row
from chronotile.errors import ChronotileError, WrongCallError
from chronotile.format.kinds import DEL, OK, UPD
from chronotile.format.names import MAX_TIMESTAMP, uuid_of
from chronotile.rows.cell_source import cell_source
from chronotile.rows.deletes_and_updates import CellBatch
from chronotile.rows.diff import Pairs, after_table, dense_pairs, pairs_table, side_by_side
from chronotile.rows.engine_cells import all_shown, shown_type
from chronotile.rows.snapshot import last_time, snapshot
from chronotile.safe_text import shell_word
from chronotile.visibility.view import Update, tile_commits

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    import numpy.typing as npt

    from chronotile.conditions.tree import Compare
    from chronotile.log import Log
    from chronotile.rows.snapshot import RowChange, Snapshot


@dataclass(frozen=True, slots=True, kw_only=True)
class RemovedRows:
    """The rows that one change took, to be read batch by batch."""

    at: Snapshot
    """The array right before the change; its changes are those that acted earlier."""
    change: RowChange
    wanted: tuple[Compare, ...] = ()
    """Only rows that hold these values."""

    @property
    def schema(self) -> pa.Schema:
        """The Arrow schema of the rows."""
        return pa.schema([pa.field(f.name, shown_type(f)) for f in self.at.schema.fields])

    def cells_hit(self) -> Iterator[tuple[CellBatch, npt.NDArray[np.intp]]]:
        """Give cells as they are right before the change, and the rows that it hits."""
        # An update acts on the rows that were written before its own millisecond.
        end = self.change.t - self.change.is_update
        if end < 0:
            return
        fields, wanted = self.at.schema.fields, AllOf(parts=self.wanted)
        acting = replace(self.at, end=end, changes=(*self.at.changes, self.change))
        for cells in cell_source(acting).batches(fields):
            batch = CellBatch(fields, cells).act_all(self.at.changes)
            rows = batch.hit_by(self.change)
            rows = rows[batch.asked(wanted)[rows]]
            if len(rows):
                yield batch, rows

    def count(self) -> int:
        """Count the rows."""
        return sum(len(rows) for _, rows in self.cells_hit())

    def as_deletes(self) -> RemovedRows:
        """Take every update for a delete, as the engine does."""
        changes = (*self.at.changes, self.change)
        *earlier, change = (replace(one, values=None) for one in changes)
        return replace(self, at=replace(self.at, changes=tuple(earlier)), change=change)

    def batches(self) -> Iterator[pa.RecordBatch]:
        """Read the rows."""
        for batch, rows in self.cells_hit():
            cells = all_shown(self.at.schema.fields, batch.cells(rows), self.at.log.array)
            yield pa.RecordBatch.from_arrays(cells, schema=self.schema)

    def table(self) -> pa.Table:
        """Read all rows at once."""
        return pa.Table.from_batches(self.batches(), schema=self.schema)


def removed_of(log: Log, name: str, values: Sequence[str] = ()) -> RemovedRows:
    """Find the rows that one change of a log took; only those with some `field=value`.

    Raises:
        ChronotileError: There is no such delete or update, or the engine cannot read it.
    """
    wanted = name.rpartition("/")[2].removesuffix(".del").removesuffix(".upd")
    every = log.view(0, last_time(log))
    # An update that was applied may share its name with the delete of its old rows.
    commits = [*every.updates] if name.endswith(".upd") else [*every.deletes, *every.updates]
    short = [one for one in commits if wanted and (uuid_of(one.name) or "").startswith(wanted)]
    fitting = [one for one in commits if one.name == wanted] or short
    names = sorted({one.name for one in fitting})
    if len(names) != 1:
        problem = f"no delete or update has the name {name[:80]!r}"
        if names:
            problem = f"{name[:80]!r} begins the names of {len(names)} deletes and updates: "
            problem += f"{names[0]}, {names[1]}{', …' if len(names) > 2 else ''}"
        hint = f"to list them: chronotile log {shell_word(log.array)} --kind delete"
        raise WrongCallError(log.array, f"{problem}; {hint}")
    commit, is_update = fitting[0], isinstance(fitting[0], Update)
    return _removed(snapshot(log, commit.t2), commit.name, values, is_update=is_update)


def _removed(
    at: Snapshot, name: str, values: Sequence[str] = (), *, is_update: bool
) -> RemovedRows:
    for number, change in enumerate(at.changes):
        if change.name == name and change.is_update == is_update:
            before = replace(at, changes=at.changes[:number])
            return RemovedRows(at=before, change=change, wanted=parse_row(values, at.schema))
    raise ChronotileError(at.log.array, f"expected a commit that can be read: {at.notes}")


class RowEvent(NamedTuple):
    """A commit, or several of one name, that changed rows."""

    t: int
    name: str
    write: int | None = None
    """The row of the fragment's commit in the log's table."""
    delete: bool = False
    update: bool = False

    @property
    def order(self) -> tuple[int, int, str]:
        """When it acts: within a millisecond updates, then writes, then deletes."""
        rank = 1 if self.write is not None else 0 if self.update else 2
        return self.t, rank, self.name


def row_events(log: Log, start: int = 0, end: int = MAX_TIMESTAMP) -> list[RowEvent]:
    """List the events of a window, in order of time. Reads no rows, and asks no engine."""
    table, rules = log.history.table, log.rules
    merged = {vacuum.name.text for vacuum in log.history.vacuums}
    events: dict[str, RowEvent] = {}
    for row in rules.fragment_rows[~rules.missing].tolist():
        name, t1, t2 = table.name(row), int(table.uris.t1[row]), int(table.uris.t2[row])
        if t1 == t2 and name not in merged and table.uris.ext[row] <= OK:
            events[name] = RowEvent(t1, name, row)
    for commit, row in tile_commits(rules, MAX_TIMESTAMP):
        if commit.schema is not None and is_harmless(commit.stored, commit.schema):
            continue
        event = events.get(commit.name, RowEvent(commit.t2, commit.name))
        kind = int(table.uris.ext[row])
        events[commit.name] = event._replace(
            delete=event.delete or kind == DEL, update=event.update or kind == UPD
        )
    chosen = (event for event in events.values() if start <= event.t <= end)
    return sorted(chosen, key=lambda event: event.order)


def commit_changes(log: Log, event: RowEvent) -> Iterator[pa.Table]:
    """Read the changes of one event.

    Raises:
        ReadError: Cells cannot be read.
    """
    at = snapshot(log, event.t)
    for pairs in _pairs(at, event):
        yield pairs_table(log.array, at.schema, pairs)


def _pairs(at: Snapshot, event: RowEvent) -> Iterator[Pairs]:
    if at.schema.dense:
        for pairs in dense_pairs(at, max(event.t, 1) - 1):
            yield pairs.take(np.flatnonzero([name == event.name for name in pairs.commits]))
    elif event.write is not None:
        yield from _written(at, event)
    elif event.update:
        yield from _changed(_removed(at, event.name, is_update=True))
    if event.delete:
        yield from _changed(_removed(at, event.name, is_update=False))


def _changed(removed: RemovedRows) -> Iterator[Pairs]:
    """Compare the rows before and after a delete or an update."""
    change = removed.change
    for batch, rows in removed.cells_hit():
        before = batch.cells(rows)
        batch.act(0, change)
        count = len(rows)
        there, times = np.full(count, change.is_update), np.full(count, change.t, np.uint64)
        names: list[str | None] = [change.name] * count
        yield Pairs(before, np.ones(count, bool), batch.cells(rows), there, names, times)


def _written(at: Snapshot, event: RowEvent) -> Iterator[Pairs]:
    """Compare the rows of a write with those that were there before."""
    assert event.write is not None
    earlier = tuple(
        change
        for change in at.changes
        if change.t < event.t or (change.is_update and not change.is_written)
    )
    source = cell_source(replace(at, changes=()), rows=[event.write])
    for cells in source.batches(at.schema.fields):
        count = len(cells)
        there, none = np.ones(count, bool), np.zeros(count, bool)
        names: list[str | None] = [event.name] * count
        if at.schema.allows_duplicates or event.t == 0:
            yield Pairs(cells.columns, none, cells.columns, there, names, cells.times)
        else:
            after = after_table(at.schema, cells.columns, there, names, cells.times)
            yield side_by_side(replace(at, end=event.t - 1, changes=earlier), after)
