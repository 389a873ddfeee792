"""Rows of the table `changes` as columns of their own, where all come from one array.

In: a schema of TileDB, or changed rows of one. Out: the columns that Spark gets, and tables of just
these. Spark has no unsigned numbers, no nanoseconds and no labels: the next wider type, a count of
the units and text stand for them. A field that an older schema lacks is NULL.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa

from chronotile.errors import ReadError
from chronotile.rows.row_diff import with_heads
from chronotile.tables.array_tables import ROW_TABLES
from chronotile.tables.gathered_rows import LAST
from chronotile.tables.time_twins import timestamps

if TYPE_CHECKING:
    from chronotile.format.schema import Schema

_HEAD = [(field.name, field.type) for field in ROW_TABLES["changes"]][:-2]
"""The columns before the fields: all but the two of JSON."""
_WIDER = {
    pa.uint8(): pa.int16(),
    pa.uint16(): pa.int32(),
    pa.uint32(): pa.int64(),
    pa.uint64(): pa.decimal128(20, 0),
    pa.large_string(): pa.string(),
    pa.large_binary(): pa.binary(),
}


def change_columns(schema: Schema) -> pa.Schema:
    """The columns of a table of changes, with those of one array."""
    return pa.schema([(one.name, _spark_type(one.type)) for one in with_heads(_HEAD, schema)])


def _spark_type(kind: pa.DataType) -> pa.DataType:
    if pa.types.is_dictionary(kind):
        return _spark_type(kind.value_type)
    if pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind):
        return pa.list_(_spark_type(kind.value_type))
    if pa.types.is_duration(kind) or kind == pa.timestamp("ns"):
        return pa.int64()
    if pa.types.is_timestamp(kind):
        return kind if kind.tz else pa.timestamp("us")
    return _WIDER.get(kind, kind)


def in_columns(array: str, batch: pa.RecordBatch, schema: Schema, columns: pa.Schema) -> pa.Table:
    """Changed rows of one schema, in the columns that Spark was promised.

    Raises:
        ReadError: A field had another type once, and its values do not fit.
    """
    heads = len(_HEAD)
    names = with_heads(_HEAD, schema).names
    cells = dict(zip(names[heads:], batch.columns[-len(schema.fields) :], strict=True))
    count = len(batch)
    ms = pa.array([min(t, LAST) for t in batch.column("t").to_pylist()], pa.int64())
    known = {
        "array": pa.repeat(pa.scalar(array), count),
        "change": batch.column("change"),
        "commit": batch.column("commit"),
        "t": ms,
        "t_time": timestamps(ms),
        **cells,
    }
    made = []
    for field in columns:
        column = known.get(field.name)
        if column is None:
            made.append(pa.nulls(count, field.type))
            continue
        try:
            made.append(_cast(column, field.type))
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as cause:
            problem = f"expected cells of {field.type}, found {column.type}: {cause}"
            raise ReadError(f"{array}: {field.name}", f"{problem}; the option rows=json") from cause
    return pa.Table.from_arrays(made, schema=columns)


def _cast(column: pa.Array, kind: pa.DataType) -> pa.Array:
    if pa.types.is_dictionary(column.type):
        column = column.dictionary_decode()
    return column if column.type == kind else column.cast(kind)
