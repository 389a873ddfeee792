"""What a run adds to the tables that it writes.

In: a table of an array, and the run. Out: the same rows with real timestamps beside the ms, and the
run that read them; the columns of every table in the store. Touches no storage.

`run_id` and `run_at` name the run that read a row. A later run that repeats the row, as the array
has not changed or cannot be read, leaves them as they are. `bucket` is the part of the fleet that
the array is in.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pyarrow as pa

from chronotile.tables.array_tables import SCHEMAS, columns
from chronotile.tables.time_twins import TIMESTAMP, twinned, with_twins

if TYPE_CHECKING:
    from collections.abc import Mapping

    from chronotile.spark.pipeline.run_summary import Totals
    from chronotile.tables.gathered_rows import Piece

_RUN = [pa.field("run_id", pa.string()), pa.field("run_at", TIMESTAMP)]
_BUCKET = pa.field("bucket", pa.int64())

PLAIN: dict[str, pa.Schema] = {
    **SCHEMAS,
    "operations": columns("array string, id string, time timestamp, command string, state string"),
}
"""Table -> its columns, without what a run adds. `operations` has a row for each change of ours to
an array, as far as the array keeps its record."""

DRESSED: dict[str, pa.Schema] = {
    name: pa.schema([*with_twins(one), *_RUN, _BUCKET]) for name, one in PLAIN.items()
}
"""Table -> its columns as a run writes it."""

LISTINGS = pa.schema(
    [*columns("array string, listing string, marks string, asked string, totals string"), _BUCKET]
)
"""What the next run needs to know of an array: `listing` and `marks` as `unchanged_arrays.Noted`
explains, null if the array could not be read properly; `asked`, the options of the run that read
it; `totals`, what the array adds to a summary."""

RUN_HISTORY = pa.schema(
    [
        *_RUN,
        *((name, pa.int64()) for name in ("arrays", "arrays_read", "arrays_unchanged")),
        *((name, pa.int64()) for name in ("arrays_unreadable", "commits", "fragments")),
        *((name, pa.int64()) for name in ("arrays_measured", "bytes", "log_bytes")),
        *((name, pa.int64()) for name in ("engine_open_requests", "open_requests")),
        ("engine_open_requests_after_maintenance", pa.int64()),
        *((name, pa.int64()) for name in ("errors", "warnings", "infos")),
        ("versions", pa.map_(pa.string(), pa.int64())),
    ]
)
"""Of `run_history`: a row for each complete run that has changed a table, with the version of each
table."""


def dressed(name: str, table: pa.Table, run: str, run_ms: int) -> pa.Table:
    """Give a table of `PLAIN` with what a run adds; one that has it already stays as it is.

    >>> table = SCHEMAS["commits"].empty_table()
    >>> dressed("commits", table, "r", 0).schema.names[-4:]
    ['t1_time', 't2_time', 'run_id', 'run_at']
    """
    if name not in DRESSED or is_of_run(table):
        return table
    table = twinned(table)
    at = pa.scalar(run_ms * 1000, pa.int64()).cast(TIMESTAMP)
    for field, value in zip(_RUN, (pa.scalar(run), at), strict=True):
        table = table.append_column(field, pa.repeat(value, len(table)))
    return table


def is_of_run(piece: Piece) -> bool:
    """Tell whether rows have what a run adds: those of an older run."""
    return isinstance(piece, pa.Table) and "run_id" in piece.column_names


def run_row(run: str, run_ms: int, totals: Totals, counts: Mapping[str, Any]) -> dict[str, Any]:
    """Make the row of `run_history` on one run."""
    at = pa.scalar(run_ms * 1000, pa.int64()).cast(TIMESTAMP).as_py()
    row: dict[str, Any] = {"run_id": run, "run_at": at, **counts}
    summed = ("arrays", "commits", "fragments", "log_bytes")
    row |= {name: getattr(totals, name) for name in summed}
    row["arrays_measured"] = totals.measured
    row["bytes"] = totals.bytes if totals.measured else None
    row["engine_open_requests"] = totals.engine_open_requests
    row["engine_open_requests_after_maintenance"] = totals.engine_requests_after
    row["open_requests"] = totals.open_requests
    for severity in ("error", "warning", "info"):
        row[f"{severity}s"] = sum(n for one, _, n in totals.findings if one == severity)
    return row
