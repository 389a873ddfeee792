"""What a run adds to the tables that it writes.

In: a table of an array, and the run. Out: the same rows with real timestamps beside the ms, and the
run that read them; the tables that tell of runs, and of findings that came and went. Touches no
storage.

`run_id` and `run_at` name the run that read a row. A later run that repeats the row, as the array
has not changed or cannot be read, leaves them as they are.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pyarrow as pa

from chronotile.tables.array_tables import SCHEMAS
from chronotile.tables.time_twins import TIMESTAMP, twinned, with_twins

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from chronotile.spark.pipeline.run_summary import Totals
    from chronotile.tables.gathered_rows import Piece

_RUN = [pa.field("run_id", pa.string()), pa.field("run_at", TIMESTAMP)]


DRESSED: dict[str, pa.Schema] = {
    name: pa.schema([*with_twins(one), *_RUN]) for name, one in SCHEMAS.items()
}
"""Table -> its columns as a run writes it."""

DRESSED["findings_changes"] = CHANGES = pa.schema([("change", pa.string()), *DRESSED["findings"]])
"""Of `findings_changes`: findings that are `new` since the last run, or `resolved`. A finding is
the same if code, array and path are, whatever its message says."""

RUNS = pa.schema(
    [
        *_RUN,
        *((name, pa.int64()) for name in ("arrays", "arrays_read", "arrays_unchanged")),
        *((name, pa.int64()) for name in ("arrays_unreadable", "commits", "fragments")),
        *((name, pa.int64()) for name in ("arrays_measured", "bytes", "log_bytes")),
        *((name, pa.int64()) for name in ("engine_open_requests", "open_requests")),
        ("engine_open_requests_after_maintenance", pa.int64()),
        *((name, pa.int64()) for name in ("errors", "warnings", "infos")),
        *((name, pa.int64()) for name in ("new_findings", "resolved_findings")),
    ]
)
"""Of `run_history`: a row for each run, also for those whose other tables are gone."""

RUNS_MAX = 10_000
"""Rows that `run_history` keeps."""


def dressed(name: str, table: pa.Table, run: str, run_ms: int) -> pa.Table:
    """A table of `SCHEMAS` with what a run adds; one that has it already stays as it is.

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
    """Whether rows have what a run adds: those of an older run."""
    return isinstance(piece, pa.Table) and "run_id" in piece.column_names


def changed_findings(
    old: Iterable[Mapping[str, Any]], new: Iterable[Mapping[str, Any]]
) -> pa.Table:
    """The findings that are new, and those that are resolved.

    >>> one = {"code": "x", "array": "a", "path": "p"}
    >>> changed_findings([one], [dict(one, path="q")])["change"].to_pylist()
    ['new', 'resolved']
    """
    before, now = ({_identity(row): row for row in rows} for rows in (old, new))
    rows = [{**row, "change": "new"} for key, row in now.items() if key not in before]
    rows += [{**row, "change": "resolved"} for key, row in before.items() if key not in now]
    names = CHANGES.names[: -len(_RUN)]
    plain = pa.schema([CHANGES.field(name) for name in names])
    return pa.Table.from_pylist([{n: row.get(n) for n in names} for row in rows], schema=plain)


def _identity(row: Mapping[str, Any]) -> tuple[Any, ...]:
    return row["code"], row["array"], row["path"]


def run_row(run: str, run_ms: int, totals: Totals, counts: Mapping[str, Any]) -> pa.Table:
    """The row of `run_history` on one run."""
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
    return pa.Table.from_pylist([row], schema=RUNS)
