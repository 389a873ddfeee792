"""Maintenance of a fleet.

In: the findings of a run. Out: which arrays need maintenance, and a table of what `consolidate` and
`vacuum` did, or would do, to each. An array that they refuse is a row like any other.

Before a change, a record in the output names the files that it puts and removes; the report of the
change replaces the record. A record that still says `begun` belongs to maintenance that was killed.
A dry run plans what the run then does: it plans `vacuum` for the array with the `.con` that
`consolidate` would put.

Maintenance vacuums only commits, unless the user asks for fragments: without replaced fragments, a
dense array loses time travel.
"""

from __future__ import annotations

import hashlib
import secrets
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc

from chronotile.change.consolidate import consolidate
from chronotile.change.vacuum import vacuum
from chronotile.errors import ChronotileError
from chronotile.spark.tables import columns
from chronotile.storage.overlay import overlaid
from chronotile.storage.store import open_store

if TYPE_CHECKING:
    from collections.abc import Iterable

    from chronotile.change.change_report import Report
    from chronotile.change.vacuum import Mode
    from chronotile.spark.options import Options
    from chronotile.spark.runs import Run

MENDED_BY_COMMITS = (
    "many-loose-commits",
    "con-superseded",
    "con-name-range",
    "delete-duplicate",
    "delete-ignored",
)
"""Findings that go when commits are consolidated and vacuumed."""

MENDED_BY_FRAGMENTS = ("vac-absolute",)
"""Findings that go when fragments are vacuumed."""

MAINTENANCE = columns(
    "array string, command string, dry_run boolean, outcome string, put bigint, removed bigint, "
    "bytes_put bigint, bytes_removed bigint, notes array<string>"
)
"""`outcome` is `done`, `planned` (of a dry run), `nothing` or `refused`; `notes` says why. If a
task is lost after its work is done, the task that runs again reports `nothing`; the record tells
what the first one did."""


def arrays_in_need(findings: Iterable[pa.Table], *, fragments: bool) -> tuple[str, ...]:
    """The arrays with a finding that maintenance mends, sorted.

    >>> table = pa.table({"code": ["many-loose-commits", "tile-corrupt"], "array": ["a", "b"]})
    >>> arrays_in_need([table], fragments=False)
    ('a',)
    """
    mended = pa.array((*MENDED_BY_COMMITS, *(MENDED_BY_FRAGMENTS if fragments else ())))
    arrays: set[str] = set()
    for table in findings:
        arrays.update(table.filter(pc.is_in(table["code"], mended))["array"].to_pylist())
    return tuple(sorted(arrays))


def maintain(
    array: str, options: Options, run: Run, *, dry_run: bool, fragments: bool
) -> list[dict[str, Any]]:
    """Consolidates and vacuums one array; returns a row of the report for each command."""
    store = open_store(array, options.storage_options)
    mode: Mode = "all" if fragments else "commits"
    rows = []
    for command in ("consolidate", "vacuum"):
        try:
            key, record = options.read_key(), _Record(run, array)
            if command == "consolidate":
                report = consolidate(array, dry_run=dry_run, key=key, store=store, before=record)
                new = {step.path: step.data for step in report.steps}
                store = overlaid(store, new) if dry_run and new else store
            else:
                report = vacuum(
                    array, mode=mode, dry_run=dry_run, key=key, store=store, before=record
                )
            record.finish(report)
        except Exception as error:  # one bad array must not stop a fleet
            rows.append(_refused(array, command, error, dry_run=dry_run))
            break  # vacuum removes nothing from an array that could not be consolidated
        rows.append(_row(array, report))
    return rows


class _Record:
    """A file of the output: what a command is about to do to an array, then what it did."""

    def __init__(self, run: Run, array: str) -> None:
        self._run = run
        # A task that runs twice leaves a record of each time.
        name = hashlib.blake2b(array.encode(), digest_size=8).hexdigest()
        self._name = f"{name}-{secrets.token_hex(4)}"
        self._begun: str | None = None

    def __call__(self, planned: Report) -> None:
        name = f"{self._name}-{planned.command}-begun.json"
        self._begun = self._run.record(name, planned.begun_json())

    def finish(self, done: Report) -> None:
        if self._begun is not None:
            self._run.record(f"{self._name}-{done.command}.json", done.to_json(), self._begun)


def _row(array: str, report: Report) -> dict[str, Any]:
    sizes: dict[str, list[int]] = {"put": [], "remove": []}
    for step in report.steps:
        sizes.setdefault(step.op, []).append(step.size or 0)
    return {
        "array": array,
        "command": report.command,
        "dry_run": report.dry_run,
        "outcome": ("planned" if report.dry_run else "done") if report.steps else "nothing",
        "put": len(sizes["put"]),
        "removed": len(sizes["remove"]),
        "bytes_put": sum(sizes["put"]),
        "bytes_removed": sum(sizes["remove"]),
        "notes": list(report.notes),
    }


def broken_off(array: str, words: str, dry_run: bool) -> dict[str, Any]:
    """The row of an array whose maintenance never ended."""
    return _refused(array, "maintain", ChronotileError(array, words), dry_run=dry_run)


def _refused(array: str, command: str, error: Exception, *, dry_run: bool) -> dict[str, Any]:
    counts = dict.fromkeys(("put", "removed", "bytes_put", "bytes_removed"), 0)
    head = {"array": array, "command": command, "dry_run": dry_run, "outcome": "refused"}
    return {**head, **counts, "notes": [str(error) or type(error).__name__]}
