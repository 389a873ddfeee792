"""What one task of the pipeline does.

In: a share of the fleet, and where the tables go. Out: files of all tables, made in one pass over
the share's arrays, and `Done`, which tells the driver of them. Each task opens what it needs.

An array that cannot be read is tried again when the share is done, unless nothing of it could be.
What is still not read then, is told to the driver and written nowhere: only the driver knows how
the others fared, and what was read of the array before.
"""

from __future__ import annotations

import threading
import time
from collections import Counter
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc

from chronotile.check.findings import finding
from chronotile.dataset.check_all import UNREADABLE, may_pass, words
from chronotile.errors import ArrayNotFoundError, ChronotileError
from chronotile.format.timestamps import now_ms
from chronotile.history.listing import list_array
from chronotile.history.reading import read_history
from chronotile.log import Log
from chronotile.spark.limits import Unread
from chronotile.spark.read_share import folder_findings, in_order
from chronotile.spark.request_costs import requests_after_maintenance
from chronotile.spark.run_summary import Totals, totals_of
from chronotile.spark.stale import as_stale
from chronotile.spark.stream_state import listing_mark
from chronotile.spark.tables import SCHEMAS, Rows, findings_table, tables_of_unreadable
from chronotile.storage.store import open_store

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from chronotile.spark.options import Options
    from chronotile.spark.runs import Part, Run
    from chronotile.spark.shares import Share

LISTINGS = pa.schema(
    [("array", pa.string()), ("listing", pa.string()), ("requests_after", pa.int64())]
)
"""What the next run needs to know of an array: a mark of its listing, null where it was not read
as it should be, or where it was only just written."""

AGAIN_S = 1.0
"""Seconds to wait before the arrays of a share that could not be read are tried again."""

WRITTEN: dict[str, pa.Schema] = {**SCHEMAS, "listings": LISTINGS}
"""Every table that a run writes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Task:
    """What one task is asked to do."""

    share: Share
    marks: Mapping[str, str]
    """Array -> its listing's mark in the last run; one that still has it is not read."""
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
        return Done(
            parts=self.parts + other.parts,
            totals=self.totals + other.totals,
            unchanged=self.unchanged + other.unchanged,
            unread=self.unread + other.unread,
            read=self.read + other.read,
            files_read=self.files_read + other.files_read,
            reads=self.reads + other.reads,
        )


def run_task(task: Task) -> Done:
    """Reads a share and writes its part of every table."""
    reads = _Reads()
    tables: dict[str, list[pa.Table]] = {name: [] for name in WRITTEN}
    unchanged: list[str] = []
    waiting = task.share.arrays
    failed: dict[str, Exception] = {}
    for attempt in range(2):
        failed = {}
        for array, found in in_order(lambda a: _outcome(a, task, reads), waiting):
            if isinstance(found, Exception):
                failed[array] = found
            elif found is None:
                unchanged.append(array)
            else:
                _add(tables, found)
        if attempt or not failed or (len(failed) == len(waiting) and not _lost(failed)):
            break
        time.sleep(AGAIN_S)
        waiting = tuple(failed)
    unread = [Unread(array, words(error)) for array, error in failed.items() if may_pass(error)]
    for array, error in failed.items():
        if not may_pass(error):
            _add(tables, _tables_without(array, error, task))
    tables["findings"].append(folder_findings(task.share))
    done = write_tables(task.run, tables)
    return replace(
        done,
        unchanged=tuple(unchanged),
        unread=tuple(unread),
        read=len(task.share.arrays) - len(unchanged) - len(unread),
        files_read=len(reads.counts),
        reads=reads.counts.total(),
    )


def _lost(failed: Mapping[str, Exception]) -> bool:
    """Whether some arrays look as if they were none: as when a list misses what is new."""
    return any(not may_pass(error) for error in failed.values())


def _add(tables: dict[str, list[pa.Table]], found: Mapping[str, pa.Table]) -> None:
    for name, table in found.items():
        tables[name].append(table)


def write_tables(run: Run, tables: Mapping[str, Iterable[pa.Table]]) -> Done:
    """Writes one file a table, if it has rows."""
    parts, totals = [], Totals()
    for name, found in tables.items():
        table = pa.concat_tables([WRITTEN[name].empty_table(), *found])
        if len(table):
            parts.append(run.write(name, table))
            totals += totals_of(name, table)
    return Done(parts=tuple(parts), totals=totals)


class _Reads:
    """How often each file was read."""

    def __init__(self) -> None:
        self.counts: Counter[str] = Counter()
        self._lock = threading.Lock()

    def hook(self, array: str, operation: str, path: str) -> None:
        if operation == "read":
            with self._lock:
                self.counts[f"{array}/{path}"] += 1


def _outcome(array: str, task: Task, reads: _Reads) -> dict[str, pa.Table] | Exception | None:
    """Every table of one array; None if its listing is what it was; or what another try may mend.

    Where a list misses a name that was just written, an array can look as if it were none.
    """
    try:
        return _tables(array, task, reads)
    except Exception as error:  # one bad array, whatever is bad in it, never stops a fleet
        if may_pass(error) or isinstance(error, ArrayNotFoundError):
            return error
        return _tables_without(array, error, task)


def _tables(array: str, task: Task, reads: _Reads) -> dict[str, pa.Table] | None:
    store, began_ms = open_store(array, task.options.storage_options), now_ms()
    known = task.marks.get(array)
    if known is not None and listing_mark(store, list_array(store), began_ms) == known:
        return None
    watched = store.watched(lambda what, path: reads.hook(array, what, path))
    log = Log(read_history(array, key=task.options.read_key(), store=watched))
    rows = Rows(log)
    found = {name: rows.table(name) for name in SCHEMAS}
    mark = listing_mark(store, log.history.listing, began_ms)
    after = requests_after_maintenance(log.history)
    return {**found, "listings": _listing(array, mark, after)}


def _listing(array: str, mark: str | None, after: int | None) -> pa.Table:
    row = {"array": array, "listing": mark, "requests_after": after}
    return pa.Table.from_pylist([row], schema=LISTINGS)


def _tables_without(array: str, error: Exception, task: Task) -> dict[str, pa.Table]:
    """What the tables say of an array that is not as it should be, or not there at all."""
    if isinstance(error, ArrayNotFoundError) and _is_gone(array, task):
        gone = "it is gone: it was there when the fleet was looked through"
        found = finding(array, UNREADABLE, "", gone, severity="warning")
        return {"findings": findings_table((found,))}
    return {**tables_of_unreadable(array, error), "listings": _listing(array, None, None)}


def _is_gone(array: str, task: Task) -> bool:
    try:
        return not open_store(array, task.options.storage_options).exists()
    except ChronotileError:
        return False


@dataclass(frozen=True, slots=True, kw_only=True)
class Carry:
    """Files of one table of the last run, to be carried over."""

    table: str
    parts: tuple[Part, ...]
    old: Run
    run: Run


def carry(task: Carry, kept: frozenset[str], stale: frozenset[str] = frozenset()) -> Done:
    """Writes the rows of some arrays anew, into one file.

    Args:
        task: Where the rows are.
        kept: The arrays that have not changed.
        stale: Those that could not be read.
    """
    wanted = pa.array(sorted(kept | stale), pa.string())
    marked = pa.array(sorted(stale), pa.string())
    tables = [
        as_stale(task.table, table.filter(pc.is_in(table["array"], wanted)), marked, task.old.name)
        for table in (task.old.read(part) for part in task.parts)
    ]
    return write_tables(task.run, {task.table: tables})


def read_marks(run: Run) -> dict[str, str]:
    """The marks of the arrays of a run."""
    marks: dict[str, str] = {}
    for part in run.parts():
        if part.table == "listings":
            table = run.read(part)
            pairs = zip(table["array"].to_pylist(), table["listing"].to_pylist(), strict=True)
            marks |= {array: mark for array, mark in pairs if mark is not None}
    return marks
