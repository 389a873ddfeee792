"""Maintenance of a fleet.

In: the findings of a run. Out: which arrays need maintenance, and for each what `consolidate` and
`vacuum` did, or would do, as a table. An array that they refuse is a row like any other.

Only commits are vacuumed unless fragments are asked for: removing replaced fragments can end the
time travel of a dense array, which is nothing to do to a whole fleet unasked.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from chronotile.consolidation import consolidate
from chronotile.vacuuming import vacuum

if TYPE_CHECKING:
    from collections.abc import Iterable

    from chronotile.plans import Report
    from chronotile.spark.options import Options
    from chronotile.spark.runs import Run

NEEDS = frozenset(
    {
        "many-loose-commits",
        "con-superseded",
        "con-name-range",
        "delete-duplicate",
        "delete-ignored",
    }
)
"""Findings that consolidating and vacuuming commits does away with."""

NEEDS_FRAGMENTS = frozenset({"vac-absolute"})
"""Those that vacuuming fragments does away with."""

MAINTENANCE = pa.schema(
    [
        ("array", pa.string()),
        ("command", pa.string()),
        ("dry_run", pa.bool_()),
        ("outcome", pa.string()),
        ("put", pa.int64()),
        ("removed", pa.int64()),
        ("bytes_put", pa.int64()),
        ("bytes_removed", pa.int64()),
        ("notes", pa.list_(pa.string())),
    ]
)
"""`outcome` is `done`, `planned` (of a dry run), `nothing` or `refused`; `notes` says why."""


def arrays_in_need(findings: Iterable[pa.Table], *, fragments: bool) -> tuple[str, ...]:
    """The arrays with a finding that maintenance does away with, sorted.

    >>> table = pa.table({"code": ["many-loose-commits", "tile-corrupt"], "array": ["a", "b"]})
    >>> arrays_in_need([table], fragments=False)
    ('a',)
    """
    codes = NEEDS | NEEDS_FRAGMENTS if fragments else NEEDS
    found: set[str] = set()
    for table in findings:
        pairs = zip(table["code"].to_pylist(), table["array"].to_pylist(), strict=True)
        found |= {array for code, array in pairs if code in codes}
    return tuple(sorted(found))


def maintain(
    array: str, options: Options, *, dry_run: bool, fragments: bool
) -> list[dict[str, Any]]:
    """Consolidates and vacuums one array; gives a row of the report for each."""
    key, storage = options.read_key(), options.storage_options
    rows = []
    for command in ("consolidate", "vacuum"):
        try:
            if command == "consolidate":
                report = consolidate(array, dry_run=dry_run, key=key, storage_options=storage)
            else:
                report = vacuum(
                    array,
                    mode="all" if fragments else "commits",
                    dry_run=dry_run,
                    key=key,
                    storage_options=storage,
                )
        except Exception as error:  # one bad array never stops a fleet
            rows.append(_refused(array, command, error, dry_run=dry_run))
            break  # nothing is removed from an array that could not be consolidated
        rows.append(_row(array, report))
    return rows


def _row(array: str, report: Report) -> dict[str, Any]:
    ops = Counter(step.op for step in report.steps)
    sizes: Counter[str] = Counter()
    for step in report.steps:
        sizes[step.op] += step.size or 0
    return {
        "array": array,
        "command": report.command,
        "dry_run": report.dry_run,
        "outcome": ("planned" if report.dry_run else "done") if report.steps else "nothing",
        "put": ops["put"],
        "removed": ops["remove"],
        "bytes_put": sizes["put"],
        "bytes_removed": sizes["remove"],
        "notes": list(report.notes),
    }


def _refused(array: str, command: str, error: Exception, *, dry_run: bool) -> dict[str, Any]:
    counts = dict.fromkeys(("put", "removed", "bytes_put", "bytes_removed"), 0)
    head = {"array": array, "command": command, "dry_run": dry_run, "outcome": "refused"}
    return {**head, **counts, "notes": [str(error) or type(error).__name__]}


def write_report(run: Run, rows: list[dict[str, Any]]) -> Any:
    """Writes the report as a table of the run."""
    return run.write("maintenance", pa.Table.from_pylist(rows, schema=MAINTENANCE))
