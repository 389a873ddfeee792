"""What one task of the pipeline does.

In: a share of the fleet, and where the tables go. Out: files of all tables, written in one pass
over the share's arrays, and `Done`, which tells the driver about them. Each task opens what it
needs.

A task tries again the arrays that it could not read, at the end of the share, unless it could read
none. It names those that still fail to the driver, and writes nothing about them: only the driver
knows how other tasks fared, and what an earlier run read of the array.
"""

from __future__ import annotations

import threading
import time
from collections import Counter
from dataclasses import dataclass, field, fields, replace
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc

from chronotile.check.findings import finding
from chronotile.dataset.check_all import UNREADABLE, may_pass, words
from chronotile.errors import ArrayNotFoundError, ChronotileError
from chronotile.format.timestamps import now_ms
from chronotile.history.listing import list_array
from chronotile.spark.older_run_rows import as_stale, with_columns_of_now
from chronotile.spark.read_share import folder_findings, in_order
from chronotile.spark.request_costs import requests_after_maintenance
from chronotile.spark.run_summary import Totals, totals_of
from chronotile.spark.stream_state import listing_fingerprint
from chronotile.spark.tables import (
    SCHEMAS,
    ArrayTables,
    columns,
    findings_table,
    tables_of_unreadable,
)
from chronotile.spark.unreadable_limit import Unread
from chronotile.storage.store import open_store

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from chronotile.spark.options import Options
    from chronotile.spark.runs import Part, Run
    from chronotile.spark.shares import Share

LISTINGS = columns("array string, listing string, requests_after bigint")
"""What the next run needs to know of an array. `listing` is the fingerprint of its listing; null if
the array could not be read properly, or was written only just before."""

AGAIN_S = 1.0
"""Seconds to wait before a task tries again the arrays that it could not read."""

WRITTEN: dict[str, pa.Schema] = {**SCHEMAS, "listings": LISTINGS}
"""Every table that a run writes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Task:
    """The work of one task."""

    share: Share
    fingerprints: Mapping[str, str]
    """Array -> its listing's fingerprint in the last run; if it is the same, skip the array."""
    options: Options
    run: Run


@dataclass(frozen=True, slots=True, kw_only=True)
class Done:
    """What one task has done."""

    parts: tuple[Part, ...] = ()
    totals: Totals = field(default_factory=Totals)
    unchanged: tuple[str, ...] = ()
    unread: tuple[Unread, ...] = ()
    read: int = 0
    files_read: int = 0
    reads: int = 0

    def __add__(self, other: Done) -> Done:
        names = [one.name for one in fields(self)]
        return Done(**{name: getattr(self, name) + getattr(other, name) for name in names})


def run_task(task: Task) -> Done:
    """Reads a share and writes its part of every table."""
    reads = _Reads()
    arrays: list[dict[str, pa.Table]] = []
    unchanged: list[str] = []
    waiting = task.share.arrays
    failed: dict[str, Exception] = {}
    for attempt in range(2):
        failed = {}
        for array, outcome in in_order(lambda a: _outcome(a, task, reads), waiting):
            if isinstance(outcome, Exception):
                failed[array] = outcome
            elif outcome is None:
                unchanged.append(array)
            else:
                arrays.append(outcome)
        # A list may miss what was just written: then an array looks as if it were gone.
        gone = any(not may_pass(error) for error in failed.values())
        if attempt or not failed or (len(failed) == len(waiting) and not gone):
            break
        time.sleep(AGAIN_S)
        waiting = tuple(failed)
    unread = [Unread(array, words(error)) for array, error in failed.items() if may_pass(error)]
    damaged = [(array, error) for array, error in failed.items() if not may_pass(error)]
    arrays += [_tables_without(array, error, task) for array, error in damaged]
    done = write_tables(task.run, [*arrays, {"findings": folder_findings(task.share)}])
    return replace(
        done,
        unchanged=tuple(unchanged),
        unread=tuple(unread),
        read=len(task.share.arrays) - len(unchanged) - len(unread),
        files_read=len(reads.counts),
        reads=reads.counts.total(),
    )


def write_tables(run: Run, arrays: Sequence[Mapping[str, pa.Table]]) -> Done:
    """Writes the tables of some arrays: one file for each table that has rows."""
    parts, totals = [], Totals()
    for name, schema in WRITTEN.items():
        table = pa.concat_tables(
            [schema.empty_table(), *(tables[name] for tables in arrays if name in tables)]
        )
        if len(table):
            parts.append(run.write(name, table))
            totals += totals_of(name, table)
    return Done(parts=tuple(parts), totals=totals)


class _Reads:
    """Counts how often each file was read."""

    def __init__(self) -> None:
        self.counts: Counter[str] = Counter()
        self._lock = threading.Lock()

    def hook(self, array: str, operation: str, path: str) -> None:
        if operation == "read":
            with self._lock:
                self.counts[f"{array}/{path}"] += 1


def _outcome(array: str, task: Task, reads: _Reads) -> dict[str, pa.Table] | Exception | None:
    """Every table of one array; None if it is unchanged; an error if another try may succeed."""
    try:
        return _tables(array, task, reads)
    except Exception as error:  # one bad array must not stop a fleet
        if may_pass(error) or isinstance(error, ArrayNotFoundError):
            return error
        return _tables_without(array, error, task)


def _tables(array: str, task: Task, reads: _Reads) -> dict[str, pa.Table] | None:
    store, began_ms = open_store(array, task.options.storage_options), now_ms()
    # Cells can go bad while the listing stays the same.
    known = None if task.options.check == "deep" else task.fingerprints.get(array)
    if known is not None and listing_fingerprint(store, list_array(store), began_ms) == known:
        return None
    watched = store.watched(lambda what, path: reads.hook(array, what, path))
    log = task.options.open_log(watched)
    tables = ArrayTables(log, check=task.options.check, cells=task.options.cells)
    made = {name: tables.table(name) for name in SCHEMAS}
    fingerprint = listing_fingerprint(store, log.history.listing, began_ms)
    after = requests_after_maintenance(log.history)
    return {**made, "listings": _listing(array, fingerprint, after)}


def _listing(
    array: str, fingerprint: str | None = None, requests_after: int | None = None
) -> pa.Table:
    row = {"array": array, "listing": fingerprint, "requests_after": requests_after}
    return pa.Table.from_pylist([row], schema=LISTINGS)


def _tables_without(array: str, error: Exception, task: Task) -> dict[str, pa.Table]:
    """The tables of an array that is damaged or gone."""
    if isinstance(error, ArrayNotFoundError) and _is_gone(array, task):
        gone = "it is gone: it was there when the fleet was listed"
        item = finding(array, UNREADABLE, "", gone, severity="warning")
        return {"findings": findings_table((item,))}
    return {**tables_of_unreadable(array, error), "listings": _listing(array)}


def _is_gone(array: str, task: Task) -> bool:
    try:
        return not open_store(array, task.options.storage_options).exists()
    except ChronotileError:
        return False


@dataclass(frozen=True, slots=True, kw_only=True)
class Carry:
    """Files of one table of the last run that the new run takes over."""

    table: str
    parts: tuple[Part, ...]
    old: Run
    run: Run


def carry(task: Carry, kept: frozenset[str], stale: frozenset[str] = frozenset()) -> Done:
    """Writes the rows of some arrays again, into one file.

    Args:
        task: Where the rows are.
        kept: The arrays that have not changed.
        stale: The arrays that could not be read.
    """
    wanted = pa.array(sorted(kept | stale), pa.string())
    unread = pa.array(sorted(stale), pa.string())
    tables = [
        as_stale(task.table, table.filter(pc.is_in(table["array"], wanted)), unread, task.old.name)
        for table in (with_columns_of_now(task.table, task.old.read(part)) for part in task.parts)
    ]
    return write_tables(task.run, [{task.table: table} for table in tables])


def read_fingerprints(run: Run) -> dict[str, str]:
    """Array -> the fingerprint of its listing in a run."""
    known: dict[str, str] = {}
    for table in run.tables("listings"):
        table = table.filter(pc.field("listing").is_valid())
        known |= dict(zip(table["array"].to_pylist(), table["listing"].to_pylist(), strict=True))
    return known
