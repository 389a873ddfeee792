"""Every commit that had to do with a row: who wrote, changed or removed it, in order.

In: a log, values that the row has in some fields. Out: a table, a line for each event, with the row
as it was after it; or before it, if the event removed it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import pyarrow as pa

from chronotile.check.findings import RefusedError
from chronotile.conditions.tree import AllOf
from chronotile.conditions.update_values import parse_row
from chronotile.errors import PredicateError
from chronotile.rows.cell_source import cell_source
from chronotile.rows.deletes_and_updates import CellBatch
from chronotile.rows.diff import with_heads
from chronotile.rows.engine import Range
from chronotile.rows.engine_cells import all_shown
from chronotile.rows.places import is_among, next_times
from chronotile.rows.read_rows import told_of_damage
from chronotile.rows.snapshot import last_time, snapshot
from chronotile.rows.written_by import Writers
from chronotile.safe_text import shell_word

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy.typing as npt

    from chronotile.conditions.tree import Compare, Condition
    from chronotile.conditions.truth import Mask
    from chronotile.format.schema import Schema
    from chronotile.log import Log
    from chronotile.rows.snapshot import RowChange


WROTE, CHANGED, REMOVED = "wrote", "changed", "removed"
BLAME_HEADS = (("event", pa.string()), ("commit", pa.string()), ("t", pa.uint64()))
"""The columns of a blame before the fields."""


class _Touched(NamedTuple):
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
        RefusedError: The array is dense.
    """
    with told_of_damage(log):
        return _blame(log, row)


def _blame(log: Log, row: Mapping[str, object] | Sequence[str]) -> pa.Table:
    at = snapshot(log, last_time(log))
    schema = at.schema
    if schema.dense:
        array = shell_word(log.array)
        problem = "the array is dense: blame can only follow the rows of a sparse array"
        hint = f"to list the cells that changed: chronotile diff {array} 0 now --rows"
        raise RefusedError(log.array, f"{problem}; {hint}")
    texts = [f"{n}={v}" for n, v in row.items()] if isinstance(row, Mapping) else list(row)
    leaves = parse_row(texts, schema)
    if not leaves:
        raise PredicateError("row", "expected at least one field with its value, found none")
    source = cell_source(at, every_version=True)
    # Every version of a place must be at hand at once: dimensions narrow that down.
    batches = list(source.batches(schema.fields, _ranges(schema, leaves)))
    if not batches:
        return with_heads(BLAME_HEADS, schema).empty_table()
    every = zip(*(cells.columns for cells in batches), strict=True)
    columns = [pa.concat_arrays(same) for same in every]
    times = np.concatenate([cells.times for cells in batches])
    places = columns[: len(schema.dimensions)]
    writers = Writers(at).names(times, columns)
    until = None if schema.allows_duplicates else next_times(places, times, writers)
    touched: list[_Touched] = []
    wanted = np.zeros(len(times), bool)
    start = 0
    for cells in batches:
        here = slice(start, start + len(cells))
        batch = CellBatch(schema.fields, cells, None if until is None else until[here])
        condition = AllOf(parts=leaves)
        wanted[here] = _touch(batch, at.changes, condition, writers[here], start, touched)
        start += len(cells)
    if until is not None:
        # A row has a place: all that was ever there belongs to it.
        wanted = is_among(places, [column.filter(pa.array(wanted)) for column in places])
    return _table(log.array, schema, touched, wanted)


def _touch(
    batch: CellBatch,
    changes: Sequence[RowChange],
    wanted: Condition,
    writers: npt.NDArray[np.object_],
    start: int,
    touched: list[_Touched],
) -> Mask:
    """Play changes and note what each does; mask the rows that were ever as wanted."""
    times, was_wanted = batch.times, batch.asked(wanted).copy()
    for time, writer in dict.fromkeys(zip(times.tolist(), writers.tolist(), strict=True)):
        rows = np.flatnonzero((times == np.uint64(time)) & (writers == writer))
        touched.append(_Touched(time, 1, WROTE, writer, rows + start, batch.cells(rows)))
    for number, change in enumerate(changes):
        rows = batch.act(number, change)
        if len(rows):
            rank, event = (0, CHANGED) if change.is_update else (2, REMOVED)
            cells = batch.cells(rows)
            touched.append(_Touched(change.t, rank, event, change.name, rows + start, cells))
            was_wanted |= batch.asked(wanted)
    return was_wanted


def _table(where: str, schema: Schema, touched: Sequence[_Touched], wanted: Mask) -> pa.Table:
    kind = with_heads(BLAME_HEADS, schema)
    tables = []
    for item in sorted(touched, key=lambda one: (one.t, one.rank, one.commit or "")):
        mask = pa.array(wanted[item.rows])
        cells = all_shown(schema.fields, [one.filter(mask) for one in item.columns], where)
        values = (item.event, item.commit, item.t)
        heads = [
            pa.array([value] * len(cells[0]), type_)
            for value, (_, type_) in zip(values, BLAME_HEADS, strict=True)
        ]
        tables.append(pa.table([*heads, *cells], schema=kind))
    return pa.concat_tables(tables)


def _ranges(schema: Schema, leaves: Sequence[Compare]) -> tuple[Range, ...]:
    return tuple(
        Range(at, leaf.value, leaf.value, dimension.is_var)
        for at, dimension in enumerate(schema.dimensions)
        for leaf in leaves
        if leaf.field == dimension.name
    )
