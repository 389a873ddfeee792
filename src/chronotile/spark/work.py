"""What one task of the pipeline does.

In: a share of the fleet, and where the tables go. Out: files of all tables, made in one pass over
the share's arrays, and `Done`, which tells the driver of them. Each task opens what it needs.
"""

from __future__ import annotations

import threading
from collections import Counter
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import pyarrow as pa

from chronotile.history import read_history
from chronotile.listing import list_array
from chronotile.log import Log
from chronotile.spark.costs import requests_after_maintenance
from chronotile.spark.reading import folder_findings, in_order
from chronotile.spark.rows import SCHEMAS, Rows, tables_of_unreadable
from chronotile.spark.seen import listing_mark
from chronotile.spark.totals import Totals, totals_of
from chronotile.store import open_store

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from chronotile.spark.options import Options
    from chronotile.spark.planning import Share
    from chronotile.spark.runs import Part, Run

LISTINGS = pa.schema(
    [("array", pa.string()), ("listing", pa.string()), ("requests_after", pa.int64())]
)
"""What the next run needs to know of an array: a mark of its listing, null where it was not read
as it should be."""

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
    read: int = 0
    files_read: int = 0
    reads: int = 0

    def __add__(self, other: Done) -> Done:
        return Done(
            parts=self.parts + other.parts,
            totals=self.totals + other.totals,
            unchanged=self.unchanged + other.unchanged,
            read=self.read + other.read,
            files_read=self.files_read + other.files_read,
            reads=self.reads + other.reads,
        )


def run_task(task: Task) -> Done:
    """Reads a share and writes its part of every table."""
    reads = _Reads()
    tables: dict[str, list[pa.Table]] = {name: [] for name in WRITTEN}
    unchanged: list[str] = []
    for array, found in in_order(lambda a: _tables(a, task, reads), task.share.arrays):
        if found is None:
            unchanged.append(array)
            continue
        for name, table in found.items():
            tables[name].append(table)
    tables["findings"].append(folder_findings(task.share))
    done = write_tables(task.run, tables)
    return replace(
        done,
        unchanged=tuple(unchanged),
        read=len(task.share.arrays) - len(unchanged),
        files_read=len(reads.counts),
        reads=reads.counts.total(),
    )


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


def _tables(array: str, task: Task, reads: _Reads) -> dict[str, pa.Table] | None:
    """Every table of one array; None if its listing is what it was."""
    mark: str | None = None
    try:
        store = open_store(array, task.options.storage_options)
        known = task.marks.get(array)
        if known is not None and listing_mark(list_array(store)) == known:
            return None
        watched = store.watched(lambda what, path: reads.hook(array, what, path))
        log = Log(read_history(array, key=task.options.read_key(), store=watched))
        rows = Rows(log)
        found = {name: rows.table(name) for name in SCHEMAS}
        mark = listing_mark(log.history.listing)
        after: int | None = requests_after_maintenance(log.history)
    except Exception as error:  # one bad array, whatever is bad in it, never stops a fleet
        found = tables_of_unreadable(array, error)
        after = None
    row = {"array": array, "listing": mark, "requests_after": after}
    return {**found, "listings": pa.Table.from_pylist([row], schema=LISTINGS)}


@dataclass(frozen=True, slots=True, kw_only=True)
class Carry:
    """Files of one table of the last run, to be carried over."""

    table: str
    parts: tuple[Part, ...]
    old: Run
    run: Run


def carry(task: Carry, kept: frozenset[str]) -> Done:
    """Writes the rows of the arrays that have not changed, into one file."""
    wanted = pa.array(sorted(kept), pa.string())
    tables = [
        table.filter(pa.compute.is_in(table["array"], wanted))
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
