"""Real timestamps beside milliseconds.

In: an Arrow table with columns of ms. Out: the same table, with a twin of type timestamp behind
them for each. Knows nothing of what the columns mean.
"""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc

from chronotile.format.timestamps import LAST_CALENDAR_MS

TWIN = "_time"
"""How the name of a twin ends: `t1` has the twin `t1_time`."""
TIMESTAMP = pa.timestamp("ms", tz="UTC")


def with_times(table: pa.Table) -> pa.Table:
    """Add a twin for each column of unsigned 64-bit ms, after all other columns.

    A twin is null where the ms are, and after the year 9999, where calendars end.

    >>> import pyarrow as pa
    >>> table = with_times(pa.table({"t1": pa.array([1714550400000, 2**64 - 1], pa.uint64())}))
    >>> [str(moment) for moment in table["t1_time"].to_pylist()]
    ['2024-05-01 08:00:00+00:00', 'None']
    """
    for name in list(table.schema.names):
        if table.schema.field(name).type == pa.uint64():
            table = table.append_column(f"{name}{TWIN}", timestamps(table[name]))
    return table


def timestamps(ms: pa.ChunkedArray | pa.Array) -> pa.ChunkedArray | pa.Array:
    """The timestamps of a column of 64-bit ms, with or without a sign.

    Null where the ms are, and after the year 9999, where calendars end.
    """
    if (pc.max(ms).as_py() or 0) <= LAST_CALENDAR_MS:
        # The same bits, as all but odd columns are.
        if isinstance(ms, pa.Array):
            return ms.view(TIMESTAMP)
        return pa.chunked_array([chunk.view(TIMESTAMP) for chunk in ms.chunks], TIMESTAMP)
    # A scalar that is made while this module loads would make pyarrow load pandas.
    last = pa.scalar(LAST_CALENDAR_MS, ms.type)
    within = pc.if_else(pc.less_equal(ms, last), ms, pa.scalar(None, ms.type))
    return within.cast(pa.int64()).cast(TIMESTAMP)
