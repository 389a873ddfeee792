"""Maintenance of one array of a fleet.

In: an array, and the rule of a policy. Out: rows of what `consolidate` and `vacuum` did, or would
do, to it, command by command and file by file. An array that they refuse is a row like any other.

Before a change, a record in the output names the files that it puts and removes; the report of the
change replaces the record. A record that still says `begun` belongs to maintenance that was killed.
A dry run plans what the run then does: it plans `vacuum` for the array with the files that
`consolidate` would put.
"""

from __future__ import annotations

import hashlib
import secrets
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from chronotile.array import Array
from chronotile.errors import ChronotileError
from chronotile.storage.overlay import overlaid
from chronotile.storage.store import open_store
from chronotile.tables.array_tables import columns

if TYPE_CHECKING:
    from chronotile.change.plan import Report
    from chronotile.spark.maintenance.policy import Rule
    from chronotile.spark.pipeline.runs import Run
    from chronotile.spark.source.options import Options
    from chronotile.storage.store import Store

MAINTENANCE = columns(
    "array string, command string, dry_run boolean, outcome string, put bigint, removed bigint, "
    "bytes_put bigint, bytes_removed bigint, notes array<string>"
)
"""`outcome` is `done`, `planned` (of a dry run), `nothing`, `refused`, `left` (a limit) or
`stopped` (the stop switch); `notes` says why. If a task is lost after its work is done, the task
that runs again reports `nothing`; the record tells what the first one did."""

MAINTENANCE_FILES = columns(
    "array string, command string, dry_run boolean, op string, path string, size bigint, "
    "reason string"
)
"""Each file that was put or removed, or would be, by name."""


@dataclass(frozen=True, slots=True)
class Maintained:
    """What was done to an array."""

    rows: tuple[dict[str, Any], ...]
    """Rows of `MAINTENANCE`."""
    files: tuple[dict[str, Any], ...] = ()
    """Rows of `MAINTENANCE_FILES`."""

    @property
    def removed(self) -> tuple[int, int]:
        """Files and bytes that were removed."""
        return sum(r["removed"] for r in self.rows), sum(r["bytes_removed"] for r in self.rows)


def maintain(array: str, options: Options, run: Run, rule: Rule, *, dry_run: bool) -> Maintained:
    """Consolidates and vacuums one array, as its rule says."""
    store = open_store(array, options.storage_options)
    rows: list[dict[str, Any]] = []
    files: list[dict[str, Any]] = []
    for command, mode in (("consolidate", rule.consolidate), ("vacuum", rule.vacuum)):
        if mode is None:
            continue
        try:
            record = _Record(run, array)
            report = _change(command, store, options, rule, record, dry_run=dry_run)
            record.finish(report)
        except Exception as error:  # one bad array must not stop a fleet
            rows.append(_without_steps(array, command, "refused", _words(error), dry_run=dry_run))
            break  # vacuum removes nothing from an array that could not be consolidated
        rows.append(_row(array, report))
        files += _files(array, report)
        new = {step.path: step.data for step in report.steps if step.op == "put"}
        store = overlaid(store, new) if dry_run and new else store
    return Maintained(tuple(rows), tuple(files))


def _change(
    command: str, store: Store, options: Options, rule: Rule, record: _Record, *, dry_run: bool
) -> Report:
    array = Array(store, options.read_key())
    if command == "consolidate":
        assert rule.consolidate is not None
        return array.consolidate(rule.consolidate, dry_run=dry_run, before=record)
    assert rule.vacuum is not None
    return array.vacuum(
        rule.vacuum,
        dry_run=dry_run,
        orphans=rule.orphans,
        orphan_age=rule.age_ms / 3_600_000,
        deletes=rule.deletes,
        keep=rule.keep,
        keep_days=rule.keep_days,
        before=record,
    )


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


def _files(array: str, report: Report) -> list[dict[str, Any]]:
    head = {"array": array, "command": report.command, "dry_run": report.dry_run}
    return [
        {**head, "op": one.op, "path": one.path, "size": one.size, "reason": one.reason}
        for one in report.steps
    ]


def broken_off(array: str, words: str, dry_run: bool) -> Maintained:
    """The row of an array whose maintenance never ended."""
    return passed_over(array, "refused", str(ChronotileError(array, words)), dry_run=dry_run)


def passed_over(array: str, outcome: str, why: str, *, dry_run: bool) -> Maintained:
    """The row of an array that nothing was done to."""
    return Maintained((_without_steps(array, "maintain", outcome, why, dry_run=dry_run),))


def _without_steps(
    array: str, command: str, outcome: str, why: str, *, dry_run: bool
) -> dict[str, Any]:
    counts = dict.fromkeys(("put", "removed", "bytes_put", "bytes_removed"), 0)
    head = {"array": array, "command": command, "dry_run": dry_run, "outcome": outcome}
    return {**head, **counts, "notes": [why]}


def _words(error: Exception) -> str:
    return str(error) or type(error).__name__
