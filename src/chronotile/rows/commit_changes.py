"""What one commit did to the rows: a feed of changes, event by event.

In: a log, an event. Out: tables of changes, as a diff has them. An event is a write, a delete or an
update; a merged fragment is none, as it only repeats. An update that has been carried out, and the
fragment and delete that stand for it, have one name: they are one event.

A write is compared with what an open right before it sees, so a commit that is dated in the past is
told as of its own time, whatever came later.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import pyarrow as pa

from chronotile.conditions.match_nothing import is_harmless
from chronotile.conditions.tree import AllOf
from chronotile.conditions.truth_columns import rows_asked_for
from chronotile.conditions.update_values import parse_row
from chronotile.errors import ChronotileError
from chronotile.format.kinds import DEL, OK, UPD
from chronotile.format.names import MAX_TIMESTAMP
from chronotile.log.short_ids import uuid_of
from chronotile.rows.cell_source import cell_source
from chronotile.rows.changes_in_force import changes_in_force, last_time, schema_in_force
from chronotile.rows.engine_cells import shown, shown_type
from chronotile.rows.play_changes import Play
from chronotile.rows.row_diff import Pairs, dense_pairs, pairs_table, rows_at, said, side_by_side
from chronotile.visibility.view import Update, tile_commits

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    import numpy.typing as npt

    from chronotile.conditions.tree import Compare
    from chronotile.format.schema import Schema
    from chronotile.history.read_history import SchemaFile
    from chronotile.log import Log
    from chronotile.rows.changes_in_force import Change
    from chronotile.rows.engine import Range


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
    """The events of a window, in order of time. Reads no rows, and asks no engine."""
    table, rules = log.history.table, log.rules
    merged = {vacuum.name.text for vacuum in log.history.vacuums}
    found: dict[str, RowEvent] = {}
    for row in rules.fragments[~rules.missing].tolist():
        name, t1, t2 = table.name(row), int(table.uris.t1[row]), int(table.uris.t2[row])
        if t1 == t2 and name not in merged and table.uris.ext[row] <= OK:
            found[name] = RowEvent(t1, name, row)
    for commit, row in tile_commits(rules, MAX_TIMESTAMP):
        if commit.schema is not None and is_harmless(commit.stored, commit.schema):
            continue
        event = found.get(commit.name, RowEvent(commit.t2, commit.name))
        kind = int(table.uris.ext[row])
        found[commit.name] = event._replace(
            delete=event.delete or kind == DEL, update=event.update or kind == UPD
        )
    chosen = (event for event in found.values() if start <= event.t <= end)
    return sorted(chosen, key=lambda event: event.order)


def commit_changes(log: Log, event: RowEvent, ranges: Sequence[Range] = ()) -> Iterator[pa.Table]:
    """The changes of one event, somewhere or everywhere.

    Raises:
        NoEngineError: The engine is not installed.
        ReadError: Cells cannot be read.
    """
    schema_file = schema_in_force(log, event.t)
    schema = schema_file.schema
    assert schema is not None
    if schema.dense:
        found = _of_event(dense_pairs(log, schema_file, max(event.t, 1) - 1, event.t), event)
    elif event.write is not None:
        found = _written(log, schema_file, event, ranges)
    elif event.update:
        found = _changed(log, f"{event.name}.upd", ranges)
    else:
        found = iter(())
    for pairs in found:
        yield pairs_table(log.array, schema, pairs)
    if event.delete:
        for pairs in _changed(log, f"{event.name}.del", ranges):
            yield pairs_table(log.array, schema, pairs)


def _of_event(found: Iterator[Pairs], event: RowEvent) -> Iterator[Pairs]:
    """Only what one event did, of several of a millisecond."""
    for pairs in found:
        rows = pa.array(np.flatnonzero([name == event.name for name in pairs.commits]))
        at = np.asarray(rows)
        yield Pairs(
            tuple(column.take(rows) for column in pairs.before),
            pairs.was[at],
            tuple(column.take(rows) for column in pairs.after),
            pairs.is_there[at],
            [event.name] * len(at),
            pairs.times[at],
        )


def _changed(log: Log, file: str, ranges: Sequence[Range]) -> Iterator[Pairs]:
    """What a delete removed, or an update set."""
    taken = removed_of(log, file)
    for play, hit in taken.plays(ranges):
        before = play.cells(hit)
        play.act(0, taken.change)
        after = play.cells(hit)
        count = len(hit)
        there = np.full(count, taken.change.is_update)
        times = np.full(count, taken.change.t, np.uint64)
        names: list[str | None] = [taken.change.name] * count
        yield Pairs(before, np.ones(count, bool), after, there, names, times)


def _written(
    log: Log, schema_file: SchemaFile, event: RowEvent, ranges: Sequence[Range]
) -> Iterator[Pairs]:
    """What a write put, with what was there before."""
    schema = schema_file.schema
    assert schema is not None
    assert event.write is not None
    in_force = changes_in_force(log.view(0, event.t), schema).changes
    changes = [
        change
        for change in in_force
        if change.t < event.t or (change.is_update and not change.is_written)
    ]
    names = [field.name for field in schema.fields]
    source = cell_source(log, schema_file, event.t, (), rows=[event.write])
    for batch in source.batches(schema.fields, ranges):
        count = len(batch.times)
        there, none = np.ones(count, bool), np.zeros(count, bool)
        commits: list[str | None] = [event.name] * count
        if schema.allows_duplicates or event.t == 0:
            yield Pairs(batch.columns, none, batch.columns, there, commits, batch.times)
            continue
        cells = dict(zip(names, batch.columns, strict=True))
        after = pa.table(cells | said(commits, batch.times, there))
        places = after.select(names[: len(schema.dimensions)])
        before = rows_at(log, schema_file, event.t - 1, places, changes)
        yield side_by_side(schema, after, before)


@dataclass(frozen=True, slots=True, kw_only=True)
class RemovedRows:
    """What one change took, to be read batch by batch."""

    log: Log
    change: Change
    schema_file: SchemaFile
    before: tuple[Change, ...]
    """What acted before it."""
    wanted: tuple[Compare, ...] = ()
    """Only rows that hold these values."""

    @property
    def _schema(self) -> Schema:
        assert self.schema_file.schema is not None
        return self.schema_file.schema

    @property
    def schema(self) -> pa.Schema:
        """The Arrow schema of the rows."""
        return pa.schema([pa.field(f.name, shown_type(f)) for f in self._schema.fields])

    def plays(self, ranges: Sequence[Range] = ()) -> Iterator[tuple[Play, npt.NDArray[np.intp]]]:
        """Cells as they are right before the change, and which of them it hits."""
        # An update acts on the rows of before its own millisecond.
        end = self.change.t - self.change.is_update
        if end < 0:
            return
        fields = self._schema.fields
        source = cell_source(self.log, self.schema_file, end, [*self.before, self.change])
        for batch in source.batches(fields, ranges):
            play = Play(fields, batch.columns, batch.times, batch.lacks)
            for number, change in enumerate(self.before):
                play.act(number, change)
            hit = play.hit_by(self.change)
            mask = rows_asked_for(AllOf(parts=self.wanted), play.asked)
            wanted = hit[np.broadcast_to(mask, len(play.times))[hit]]
            if len(wanted):
                yield play, wanted

    def batches(self) -> Iterator[pa.RecordBatch]:
        """The rows."""
        for play, hit in self.plays():
            cells = [
                shown(field, column, self.log.array)
                for field, column in zip(self._schema.fields, play.cells(hit), strict=True)
            ]
            yield pa.RecordBatch.from_arrays(cells, schema=self.schema)

    def table(self) -> pa.Table:
        """Read all rows at once."""
        return pa.Table.from_batches(self.batches(), schema=self.schema)


def removed_of(log: Log, name: str, values: Sequence[str] = ()) -> RemovedRows:
    """Find what one change of a log took; only rows with some `field=value`.

    Raises:
        ChronotileError: There is no such delete or update, or the engine cannot read it.
    """
    wanted = name.rpartition("/")[2].removesuffix(".del").removesuffix(".upd")
    every = log.view(0, last_time(log))
    # An update that was carried out may share its name with the delete of its old rows.
    kinds = (every.updates,) if name.endswith(".upd") else (every.deletes, every.updates)
    changes = [one for kind in kinds for one in kind]
    short = [one for one in changes if wanted and (uuid_of(one.name) or "").startswith(wanted)]
    found = [one for one in changes if one.name == wanted] or short
    if len({one.name for one in found}) != 1:
        problem = f"expected the name of a delete or an update, found {name[:80]!r}"
        raise ChronotileError(log.array, f"{problem}: `chronotile log` lists them")
    wanted = found[0].name
    schema_file = schema_in_force(log, found[0].t2)
    assert schema_file.schema is not None
    in_force = changes_in_force(log.view(0, found[0].t2), schema_file.schema)
    is_update = isinstance(found[0], Update)
    at = next(
        (
            number
            for number, one in enumerate(in_force.changes)
            if one.name == wanted and one.is_update == is_update
        ),
        None,
    )
    if at is None:
        raise ChronotileError(log.array, f"expected a commit that can be read: {in_force.notes}")
    return RemovedRows(
        log=log,
        change=in_force.changes[at],
        schema_file=schema_file,
        before=in_force.changes[:at],
        wanted=parse_row(values, schema_file.schema),
    )
