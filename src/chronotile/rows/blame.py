"""Every commit that had to do with a row: who wrote, changed or removed it, in order.

In: an array, values that the row has in some fields. Out: a table, a line each event, with the row
as it was after it; or before it, if the event removed it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import pyarrow as pa

from chronotile.conditions.tree import AllOf
from chronotile.conditions.truth import rows_asked_for
from chronotile.conditions.update_values import parse_row
from chronotile.errors import PredicateError
from chronotile.rows.cells.cell_columns import shown
from chronotile.rows.cells.cell_source import cell_source
from chronotile.rows.cells.engine import Range
from chronotile.rows.cells.newest_cells import coordinate_codes, next_times
from chronotile.rows.cells.written_by import Writers
from chronotile.rows.changes_in_force import changes_in_force
from chronotile.rows.differences.row_pairs import with_heads
from chronotile.rows.open_for_rows import last_time, schema_in_force
from chronotile.rows.play_changes import Play

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy.typing as npt

    from chronotile.conditions.tree import Compare, Condition
    from chronotile.format.schema import Schema
    from chronotile.log import Log
    from chronotile.rows.changes_in_force import Change

EVENTS = ("wrote", "changed", "removed")


class _Event(NamedTuple):
    """Rows that one commit wrote, changed or removed, as they were then."""

    t: int
    rank: int
    """Within its millisecond: updates, then writes, then deletes."""
    event: str
    commit: str | None
    rows: npt.NDArray[np.intp]
    columns: tuple[pa.Array, ...]


def blame_of(log: Log, row: Mapping[str, object] | Sequence[str]) -> pa.Table:
    """List every commit that wrote, changed or removed a row, in order; see `Array.blame`.

    Returns:
        Columns `event` (`wrote`, `changed`, `removed`), `commit`, `t`, then dimensions and
        attributes: after the event; before it, if the row was removed.

    Raises:
        PredicateError: A field or value does not fit the schema.
    """
    end = last_time(log)
    schema_file = schema_in_force(log, end)
    schema = schema_file.schema
    assert schema is not None
    texts = [f"{n}={v}" for n, v in row.items()] if isinstance(row, Mapping) else list(row)
    leaves = parse_row(texts, schema)
    if not leaves:
        raise PredicateError("row", "expected at least one field with its value, found none")
    changes = changes_in_force(log.view(0, end), schema).changes
    source = cell_source(log, schema_file, end, changes, every_version=True)
    # Every version of a place must be at hand at once: dimensions narrow that down.
    batches = list(source.batches(schema.fields, _ranges(schema, leaves)))
    columns = [
        pa.concat_arrays([batch.columns[at] for batch in batches]) if batches else None
        for at in range(len(schema.fields))
    ]
    times = np.concatenate([np.empty(0, np.uint64), *(batch.times for batch in batches)])
    places = columns[: len(schema.dimensions)]
    names = Writers(log, schema_file).names(times, columns) if batches else times.astype(object)
    is_overwritten = batches and not schema.allows_duplicates
    until = next_times(places, times, names) if is_overwritten else None
    chosen, start = [], 0
    events: list[_Event] = []
    for batch in batches:
        stop = start + len(batch.times)
        kept = None if until is None else until[start:stop]
        play = Play(schema.fields, batch.columns, batch.times, batch.lacks, kept)
        had = _events(play, changes, AllOf(parts=leaves), names[start:stop], start, events)
        chosen.append(had)
        start = stop
    wanted_rows = np.concatenate([np.empty(0, bool), *chosen])
    if until is not None:
        wanted_rows = _of_whole_places(places, wanted_rows)
    return _table(log.array, schema, events, wanted_rows)


def _events(
    play: Play,
    changes: Sequence[Change],
    wanted: Condition,
    writers: npt.NDArray[np.object_],
    start: int,
    events: list[_Event],
) -> npt.NDArray[np.bool_]:
    """Play changes and note what each does; give the rows that were ever as wanted."""

    def now() -> npt.NDArray[np.bool_]:
        return np.broadcast_to(rows_asked_for(wanted, play.asked), len(times))

    times = play.times
    had = now().copy()
    for time, writer in dict.fromkeys(zip(times.tolist(), writers.tolist(), strict=True)):
        rows = np.flatnonzero((times == np.uint64(time)) & (writers == writer))
        events.append(_Event(time, 1, EVENTS[0], writer, rows + start, play.cells(rows)))
    for number, change in enumerate(changes):
        rows = play.act(number, change)
        if len(rows):
            rank, event = (0, EVENTS[1]) if change.is_update else (2, EVENTS[2])
            cells = play.cells(rows)
            events.append(_Event(change.t, rank, event, change.name, rows + start, cells))
            had |= now()
    return had


def _of_whole_places(
    places: Sequence[pa.Array], wanted: npt.NDArray[np.bool_]
) -> npt.NDArray[np.bool_]:
    """All rows of the places of which some row is wanted."""
    codes = np.stack([coordinate_codes([column]).astype(object) for column in places], axis=1)
    keys = [tuple(row) for row in codes.tolist()]
    found = {key for key, is_wanted in zip(keys, wanted.tolist(), strict=True) if is_wanted}
    return np.array([key in found for key in keys], bool)


def _table(
    where: str, schema: Schema, events: Sequence[_Event], wanted: npt.NDArray[np.bool_]
) -> pa.Table:
    head = [("event", pa.string()), ("commit", pa.string()), ("t", pa.uint64())]
    kind = with_heads(head, schema)
    tables = []
    for item in sorted(events, key=lambda one: (one.t, one.rank, one.commit or "")):
        mask = pa.array(wanted[item.rows])
        cells = [
            shown(field, column.filter(mask), where)
            for field, column in zip(schema.fields, item.columns, strict=True)
        ]
        count = len(cells[0])
        said = [[item.event] * count, [item.commit] * count, [item.t] * count]
        heads = [pa.array(same, one) for same, (_, one) in zip(said, head, strict=True)]
        tables.append(pa.table([*heads, *cells], schema=kind))
    return pa.concat_tables(tables) if tables else kind.empty_table()


def _ranges(schema: Schema, leaves: Sequence[Compare]) -> tuple[Range, ...]:
    return tuple(
        Range(at, leaf.value, leaf.value, dimension.is_var)
        for at, dimension in enumerate(schema.dimensions)
        for leaf in leaves
        if leaf.field == dimension.name
    )
