"""Cells of the engine: read batch by batch, as buffers, as Arrow arrays stored or shown.

In: an open engine and the fields to read; a `Field` and cells in one of three forms. Out: batches
of columns as stored, or the cells in another form. *As stored* keeps what a condition compares:
numbers, dates as their count of units, labels as their index, anything else as bytes. *As shown*
is what users get: text, timestamps, labels. Memory holds one batch at a time. Knows no commit and
no condition.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from chronotile.errors import ReadError
from chronotile.format.cell_values import decode, is_text
from chronotile.format.datatypes import Datatype
from chronotile.format.schema import Field
from chronotile.rows.engine import (
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

    from chronotile.history.read_history import History
    from chronotile.rows.engine import Engine, Query, Range

_UNITS = {"SEC": "s", "MS": "ms", "US": "us", "NS": "ns"}
_SECONDS = {"MIN": 60, "HR": 3600, "DAY": 86_400, "WEEK": 604_800}
_CALENDAR = {"MONTH": "M", "YEAR": "Y"}
_UTF8 = (Datatype.STRING_ASCII, Datatype.STRING_UTF8, Datatype.CHAR, Datatype.GEOM_WKT)


def stored_type(field: Field) -> pa.DataType:
    """Return the Arrow type of cells as stored.

    >>> from chronotile.format.schema import Field
    >>> stored_type(Field(name="d", datatype=Datatype.DATETIME_DAY))
    DataType(int64)
    """
    if field.is_number:
        return pa.from_numpy_dtype(np.dtype(f"<{field.datatype.code}"))
    return pa.large_binary() if field.is_var else pa.binary(field.cell_size or 0)


def shown_type(field: Field) -> pa.DataType:
    """Return the Arrow type of cells as shown."""
    if field.enumeration is not None:
        return pa.dictionary(stored_type(field), _value_type(field.enumeration.datatype))
    if field.is_number or is_text(field.datatype) or field.datatype.code is None:
        return _value_type(field.datatype)
    item = _value_type(field.datatype)
    return pa.large_list(item) if field.is_var else pa.list_(item, field.cell_val_num)


def _value_type(datatype: Datatype) -> pa.DataType:
    if is_text(datatype):
        return pa.large_string()
    if datatype.code is None:
        return pa.large_binary()
    if datatype is Datatype.BOOL:
        return pa.bool_()
    if datatype.is_temporal:
        unit = datatype.name.partition("_")[2]
        if datatype.is_time:
            return pa.duration(_UNITS[unit]) if unit in _UNITS else pa.int64()
        if unit in _UNITS:
            return pa.timestamp(_UNITS[unit])
        return pa.timestamp("s") if unit in {*_SECONDS, *_CALENDAR} else pa.int64()
    return pa.from_numpy_dtype(np.dtype(f"<{datatype.code}"))


def from_buffers(field: Field, buffers: Buffers, count: int) -> pa.Array:
    """Make cells as stored of buffers that the engine has filled, without a copy."""
    valid = None
    if buffers.validity is not None and not buffers.validity[:count].all():
        valid = pa.py_buffer(np.packbits(buffers.validity[:count], bitorder="little"))
    parts = [valid, pa.py_buffer(buffers.data)]
    if buffers.offsets is not None:
        parts.insert(1, pa.py_buffer(buffers.offsets))
    return pa.Array.from_buffers(stored_type(field), count, parts)


def to_buffers(field: Field, cells: pa.Array) -> Buffers:
    """Make the buffers from which the engine writes cells as stored."""
    cells = cells.combine_chunks() if isinstance(cells, pa.ChunkedArray) else cells
    validity = None
    if field.nullable:
        validity = np.asarray(cells.is_valid()).astype(np.uint8)
    if field.is_var:
        ends = np.zeros(len(cells) + 1, np.uint64)
        lengths = pc.fill_null(pc.binary_length(cells), 0)
        ends[1:] = np.cumsum(np.asarray(lengths), dtype=np.uint64)
        data = b"".join(one or b"" for one in cells.to_pylist())
        # No bytes still need an address.
        return Buffers(np.frombuffer(data or b"\0", np.uint8)[: len(data)], ends, validity)
    if field.is_number:
        filled = pc.fill_null(cells, pa.scalar(0, cells.type)) if cells.null_count else cells
        data_array = np.ascontiguousarray(np.asarray(filled))
        return Buffers(data_array.view(np.uint8), None, validity)
    width = field.cell_size or 0
    joined = b"".join(one if one is not None else bytes(width) for one in cells.to_pylist())
    return Buffers(np.frombuffer(joined, np.uint8), None, validity)


def all_shown(fields: Sequence[Field], columns: Sequence[pa.Array], where: str) -> list[pa.Array]:
    """Make columns as shown of columns as stored; see `shown`."""
    return [shown(field, cells, where) for field, cells in zip(fields, columns, strict=True)]


def shown(field: Field, cells: pa.Array, where: str) -> pa.Array:
    """Make cells as shown of cells as stored.

    Raises:
        ReadError: Text is not of its encoding, or a date is beyond what Arrow can hold.
    """
    if field.enumeration is not None:
        labels = _labels(field)
        known = pc.and_(
            pc.greater_equal(cells, pa.scalar(0, cells.type)),
            pc.less(cells.cast(pa.int64()), pa.scalar(len(labels), pa.int64())),
        )
        indices = pc.if_else(known, cells, pa.scalar(None, cells.type))
        return pa.DictionaryArray.from_arrays(indices, labels)
    if field.is_number:
        return _shown_numbers(field, cells, where)
    if field.datatype in _UTF8:
        return _shown_text(field, cells, where)
    if is_text(field.datatype) or field.datatype.code is None:
        values = [None if one is None else decode(field, one) for one in cells.to_pylist()]
        return pa.array(values, shown_type(field))
    return _shown_lists(field, cells)


def _labels(field: Field) -> pa.Array:
    assert field.enumeration is not None
    kind = _value_type(field.enumeration.datatype)
    labels = field.enumeration.labels
    if pa.types.is_temporal(kind):
        return pa.array(labels, pa.int64()).cast(kind)
    return pa.array(labels, kind)


def _shown_numbers(field: Field, cells: pa.Array, where: str) -> pa.Array:
    datatype, kind = field.datatype, shown_type(field)
    if datatype is Datatype.BOOL:
        return pc.not_equal(cells, pa.scalar(0, pa.uint8()))
    if not datatype.is_datetime or kind == pa.int64() or kind.unit != "s":
        return cells if kind == cells.type else cells.view(kind)
    unit = datatype.name.partition("_")[2]
    if unit in _UNITS:
        return cells.view(kind)
    try:
        if unit in _SECONDS:
            return pc.multiply_checked(cells, _SECONDS[unit]).view(kind)
        if pc.any(pc.greater(pc.abs(cells), 10**10)).as_py():
            raise pa.ArrowInvalid("overflow")  # noqa: TRY301
    except pa.ArrowInvalid as cause:
        problem = f"expected {datatype.name} that seconds of 64 bits can hold, found a larger one"
        raise ReadError(f"{where}: {field.name}", f"{problem}; leave the field out") from cause
    counts = np.asarray(cells.fill_null(0))
    moments = counts.astype(f"datetime64[{_CALENDAR[unit]}]").astype("datetime64[s]")
    return pa.array(moments.view(np.int64), mask=np.asarray(cells.is_null())).view(kind)


def _shown_text(field: Field, cells: pa.Array, where: str) -> pa.Array:
    var = cells if field.is_var else cells.cast(pa.large_binary())
    text = var.view(pa.large_string())
    try:
        text.validate(full=True)
    except pa.ArrowInvalid as cause:
        problem = f"expected text of {field.datatype.name}, found bytes that are none"
        raise ReadError(f"{where}: {field.name}", f"{problem}; leave the field out") from cause
    return text


def _shown_lists(field: Field, cells: pa.Array) -> pa.Array:
    listed = [
        None if one is None else list(decode(field, one) or ())  # type: ignore[arg-type]
        for one in cells.to_pylist()
    ]
    kind = shown_type(field)
    if pa.types.is_temporal(kind.value_type):
        raw = pa.large_list(pa.int64()) if field.is_var else pa.list_(pa.int64(), kind.list_size)
        return pa.array(listed, raw).cast(kind)
    return pa.array(listed, kind)


BATCH_BYTES = 64 << 20
"""Room for the cells of one batch."""
_MOST_ROWS = 1 << 20
_LEN_VAR = 32
"""Bytes of a cell of variable length, to begin with."""
_LARGEST = 1 << 32
"""No cell is larger."""
_TIMES = Field(name=TIMES, datatype=Datatype.UINT64)


@dataclass(frozen=True, slots=True)
class Cells:
    """A batch of cells, as they were written."""

    columns: tuple[pa.Array, ...]
    """As stored, in the order of the fields that were asked for."""
    times: npt.NDArray[np.uint64]
    """When each was written; empty if nobody asked."""
    lacks: frozenset[str] = frozenset()
    """The fields that their fragments were written without (F15)."""

    def __len__(self) -> int:
        return len(self.columns[0])


def read_cells(
    engine: Engine,
    fields: Sequence[Field],
    *,
    times: bool = False,
    layout: int = UNORDERED,
    ranges: Sequence[Range] = (),
) -> Iterator[Cells]:
    """Read the cells of an open array, batch by batch.

    `times` reads the time of each cell too. The layout is that of `layout_of`. Without ranges the
    whole array is read.
    """
    wanted = [*fields, _TIMES] if times else list(fields)
    rows = max(1, min(_MOST_ROWS, BATCH_BYTES // max(1, sum(map(_width, wanted)))))
    len_var = rows * _LEN_VAR
    with engine.query(READ, layout, ranges) as query:
        while True:
            # New buffers each time: those of the batch before belong to its Arrow arrays.
            buffers = [_buffers(field, rows, len_var) for field in wanted]
            for field, room in zip(wanted, buffers, strict=True):
                query.set(field.name, room)
            status = query.submit()
            if status not in (COMPLETED, INCOMPLETE):
                raise ReadError("engine", f"expected a read that goes on, found status {status}")
            columns = [
                from_buffers(field, room, _count(query, field))
                for field, room in zip(wanted, buffers, strict=True)
            ]
            written = np.asarray(columns.pop()) if times else np.empty(0, np.uint64)
            cells = Cells(tuple(columns), written)
            if len(cells):
                yield cells
            if status == COMPLETED:
                return
            if not len(cells):
                rows, len_var = rows * 2, len_var * 2
                if len_var > _LARGEST:
                    raise ReadError("engine", "expected cells that fit in memory, found larger")


def layout_of(history: History, *, every_version: bool = False) -> int:
    """Return the order in which to read an array: the cheapest that does not crash the engine.

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


def _buffers(field: Field, rows: int, len_var: int) -> Buffers:
    return Buffers(
        _space(len_var if field.is_var else rows * (field.cell_size or 1)),
        _space((rows + 1) * 8).view(np.uint64) if field.is_var else None,
        _space(rows) if field.nullable else None,
    )


def _space(size: int) -> npt.NDArray[np.uint8]:
    # Arrow keeps what it frees for the next batch; numpy gives it back, and fresh pages cost time.
    return np.frombuffer(pa.allocate_buffer(size), np.uint8)


def _count(query: Query, field: Field) -> int:
    data, offsets, _ = query.sizes(field.name)
    return max(0, offsets // 8 - 1) if field.is_var else data // (field.cell_size or 1)
