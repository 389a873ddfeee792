"""Maintenance of a fleet.

In: the findings of a run. Out: which arrays need maintenance, and for each what `consolidate` and
`vacuum` did, or would do, as a table. An array that they refuse is a row like any other.

What is about to be done to an array is written down first, by name, in the output; the report of
what was done takes its place. A record that still says `begun` is of maintenance that was broken
off. The plan of a dry run is that of the run: of `vacuum`, for the array as it would be with the
`.con` that `consolidate` would put.

Only commits are vacuumed unless fragments are asked for: removing replaced fragments can end the
time travel of a dense array, which is nothing to do to a whole fleet unasked.
"""

from __future__ import annotations

import hashlib
import secrets
from collections import Counter
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from chronotile.change.consolidate import consolidate
from chronotile.change.sound_array import begun_json
from chronotile.change.vacuum import vacuum
from chronotile.errors import ChronotileError
from chronotile.storage.overlay import overlaid
from chronotile.storage.store import open_store

if TYPE_CHECKING:
    from collections.abc import Iterable

    from chronotile.change.change_report import Report
    from chronotile.change.vacuum import Mode
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
"""`outcome` is `done`, `planned` (of a dry run), `nothing` or `refused`; `notes` says why. Where a
task was lost after it had done its work, the one that ran again says `nothing`: the record tells
what the first one did."""


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
    array: str, options: Options, run: Run, *, dry_run: bool, fragments: bool
) -> list[dict[str, Any]]:
    """Consolidates and vacuums one array; gives a row of the report for each."""
    store = open_store(array, options.storage_options)
    mode: Mode = "all" if fragments else "commits"
    rows = []
    for command in ("consolidate", "vacuum"):
        try:
            key, record = options.read_key(), _Record(run, array)
            if command == "consolidate":
                report = consolidate(array, dry_run=dry_run, key=key, store=store, before=record)
                new = {step.path: step.data or b"" for step in report.steps}
                store = overlaid(store, new) if dry_run and new else store
            else:
                report = vacuum(
                    array, mode=mode, dry_run=dry_run, key=key, store=store, before=record
                )
            record.finish(report)
        except Exception as error:  # one bad array never stops a fleet
            rows.append(_refused(array, command, error, dry_run=dry_run))
            break  # nothing is removed from an array that could not be consolidated
        rows.append(_row(array, report))
    return rows


class _Record:
    """What is about to be done to one array, and then what was done, in the output."""

    def __init__(self, run: Run, array: str) -> None:
        self._run = run
        # A task that is run twice leaves a record of either time.
        name = hashlib.blake2b(array.encode(), digest_size=8).hexdigest()
        self._name = f"{name}-{secrets.token_hex(4)}"
        self._begun: str | None = None

    def __call__(self, planned: Report) -> None:
        name = f"{self._name}-{planned.command}-begun.json"
        self._begun = self._run.record(name, begun_json(planned))

    def finish(self, done: Report) -> None:
        if self._begun is not None:
            self._run.record(f"{self._name}-{done.command}.json", done.to_json(), self._begun)


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


def broken_off(array: str, words: str, dry_run: bool) -> dict[str, Any]:
    """The row of an array whose maintenance came to no end."""
    return _refused(array, "maintain", ChronotileError(array, words), dry_run=dry_run)


def _refused(array: str, command: str, error: Exception, *, dry_run: bool) -> dict[str, Any]:
    counts = dict.fromkeys(("put", "removed", "bytes_put", "bytes_removed"), 0)
    head = {"array": array, "command": command, "dry_run": dry_run, "outcome": "refused"}
    return {**head, **counts, "notes": [str(error) or type(error).__name__]}


def write_report(run: Run, rows: list[dict[str, Any]]) -> Any:
    """Writes the report as a table of the run."""
    return run.write("maintenance", pa.Table.from_pylist(rows, schema=MAINTENANCE))
