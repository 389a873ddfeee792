"""Cells out of the engine, batch by batch.

In: an open engine, the fields to read, ranges. Out: batches of columns as stored, each with the
time that every cell was written if that is asked for. Memory holds one batch at a time. Knows no
commit.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from chronotile.errors import ReadError
from chronotile.rows.cells.cell_columns import from_buffers
from chronotile.rows.cells.engine import (
    COMPLETED,
    GLOBAL_ORDER,
    INCOMPLETE,
    READ,
    ROW_MAJOR,
    TIMES,
    UNORDERED,
    Buffers,
)

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    import numpy.typing as npt

    from chronotile.format.schema import Field
    from chronotile.history.read_history import History
    from chronotile.rows.cells.engine import Engine, Query, Range

BATCH_BYTES = 64 << 20
"""Room for the cells of one batch."""
_MOST_ROWS = 1 << 20
_LEN_VAR = 32
"""Bytes of a cell of variable length, to begin with."""
_LARGEST = 1 << 32
"""No cell is larger."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Cells:
    """A batch of cells: columns as stored, in the order of the fields that were asked for."""

    columns: tuple[pa.Array, ...]
    times: npt.NDArray[np.uint64] | None
    """When each was written, if that was asked for."""
    count: int


def read_cells(
    engine: Engine,
    fields: Sequence[Field],
    *,
    times: bool = False,
    layout: int = UNORDERED,
    ranges: Sequence[Range] = (),
    batch_bytes: int = BATCH_BYTES,
) -> Iterator[Cells]:
    """Read the cells of an open array.

    Args:
        engine: With the array open at a window.
        fields: What to read.
        times: Whether to read the time of each cell too.
        layout: The order of the cells, of `layout_of`.
        ranges: Where to read; everywhere if there are none.
        batch_bytes: Room for one batch.
    """
    widths = [_width(field) for field in fields]
    rows = max(1, min(_MOST_ROWS, batch_bytes // max(1, sum(widths) + 8 * times)))
    room = {field.name: rows * _LEN_VAR for field in fields if field.is_var}
    with engine.query(READ, layout, ranges) as query:
        while True:
            held = _offer(query, fields, rows, room, times=times)
            status = query.submit()
            if status not in (COMPLETED, INCOMPLETE):
                raise ReadError("engine", f"expected a read that goes on, found status {status}")
            cells = _taken(query, fields, held, times=times)
            if cells.count:
                yield cells
            if status == COMPLETED:
                return
            if not cells.count:
                rows, room = rows * 2, {name: size * 2 for name, size in room.items()}
                if max(room.values(), default=rows) > _LARGEST:
                    raise ReadError("engine", "expected cells that fit in memory, found larger")


def layout_of(history: History, *, every_version: bool = False) -> int:
    """The order in which an array is read: the cheapest that does not crash the engine.

    Its reader for arrays with duplicates crashes where a fragment lacks a field of variable length
    that was added later (libtiledb 2.30): such arrays are read in global order.
    """
    schemas = [item.schema for item in history.schemas if item.schema is not None]
    if history.dense:
        return ROW_MAJOR
    duplicates = every_version or any(schema.allows_duplicates for schema in schemas)
    return GLOBAL_ORDER if duplicates and len(schemas) > 1 else UNORDERED


def _width(field: Field) -> int:
    return (_LEN_VAR + 8 if field.is_var else field.cell_size or 1) + field.nullable


def _offer(
    query: Query, fields: Sequence[Field], rows: int, room: dict[str, int], *, times: bool
) -> dict[str, Buffers]:
    # New buffers each time: those of the batch before belong to its Arrow arrays.
    held = {}
    for field in fields:
        size = room[field.name] if field.is_var else rows * (field.cell_size or 1)
        held[field.name] = Buffers(
            _space(size),
            _space((rows + 1) * 8).view(np.uint64) if field.is_var else None,
            _space(rows) if field.nullable else None,
        )
    if times:
        held[TIMES] = Buffers(_space(rows * 8))
    for name, buffers in held.items():
        query.set(name, buffers)
    return held


def _space(size: int) -> npt.NDArray[np.uint8]:
    # Arrow keeps what it frees for the next batch; numpy gives it back, and fresh pages cost time.
    return np.frombuffer(pa.allocate_buffer(size), np.uint8)


def _taken(
    query: Query, fields: Sequence[Field], held: dict[str, Buffers], *, times: bool
) -> Cells:
    count = 0
    columns = []
    for field in fields:
        data, offsets, _ = query.sizes(field.name)
        count = max(0, offsets // 8 - 1) if field.is_var else data // (field.cell_size or 1)
        columns.append(from_buffers(field, held[field.name], count))
    written = None
    if times:
        written = held[TIMES].data.view(np.uint64)
        count = query.sizes(TIMES)[0] // 8
        written = written[:count]
    return Cells(columns=tuple(columns), times=written, count=count)
