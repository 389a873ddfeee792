"""What one commit did to the rows: a feed of changes, event by event.

In: a log, an event. Out: tables of changes, as a diff has them. An event is a write, a delete or an
update; a merged fragment is none, as it only repeats. An update that has been carried out, and the
fragment and delete that stand for it, have one name: they are one event.

A write is compared with what an open right before it sees, so a commit that is dated in the past is
told as of its own time, whatever came later.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import pyarrow as pa

from chronotile.conditions.delete import is_harmless
from chronotile.format.kinds import DEL, OK, UPD
from chronotile.format.names import MAX_TIMESTAMP
from chronotile.rows.cells.cell_source import cell_source
from chronotile.rows.changes_in_force import changes_in_force
from chronotile.rows.differences.dense_diff import dense_pairs
from chronotile.rows.differences.row_diff import rows_at, said, side_by_side
from chronotile.rows.differences.row_pairs import Pairs, pairs_table
from chronotile.rows.open_for_rows import schema_in_force
from chronotile.rows.removed_rows import removed_of
from chronotile.visibility.view import tile_commits

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from chronotile.history.read_history import SchemaFile
    from chronotile.log import Log
    from chronotile.rows.cells.engine import Range


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
