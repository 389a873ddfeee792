"""Spark's timestamps beside columns of ms.

In: a table with columns of ms since the epoch. Out: the same, with a twin of type TIMESTAMP for
each of these, at the end. Touches no storage.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa

from chronotile.history import text_columns
from chronotile.history.text_columns import TWIN

if TYPE_CHECKING:
    from collections.abc import Iterator

TIMESTAMP = pa.timestamp("us", tz="UTC")
"""Spark's TIMESTAMP."""
MS = ("t1", "t2", "visible_from", "visible_until", "first_timestamp", "last_timestamp")
"""Columns of ms since the epoch."""


def with_twins(schema: pa.Schema) -> pa.Schema:
    """The columns of a table, and their twins.

    >>> with_twins(pa.schema([("t1", pa.int64()), ("name", pa.string())])).names
    ['t1', 'name', 't1_time']
    """
    return pa.schema([*schema, *_twins(schema)])


def _twins(schema: pa.Schema) -> Iterator[pa.Field]:
    for name in schema.names:
        if name in MS and f"{name}{TWIN}" not in schema.names:
            yield pa.field(f"{name}{TWIN}", TIMESTAMP)


def twinned(table: pa.Table | pa.RecordBatch) -> pa.Table | pa.RecordBatch:
    """A table, or a batch, with the twins that it lacks.

    >>> twinned(pa.table({"t1": [0, None, 2**60]}))["t1_time"].null_count
    2
    """
    for field in _twins(table.schema):
        times = timestamps(table.column(field.name.removesuffix(TWIN)))
        table = table.append_column(field, times)
    return table


def timestamps(ms: pa.ChunkedArray | pa.Array) -> pa.ChunkedArray | pa.Array:
    """Times in ms as Spark's TIMESTAMP.

    Null where the ms are, and after the year 9999, where calendars end.
    """
    return text_columns.timestamps(ms).cast(TIMESTAMP)
