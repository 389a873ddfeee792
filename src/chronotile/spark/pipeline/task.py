"""What one task of the pipeline does.

In: a bucket of the fleet, and where the tables go. Out: files of all tables, written in one pass
over the bucket's arrays, and `Done`, which tells the driver about them. Each task opens what it
needs. Rows of arrays that have not changed are repeated from the last run; if nothing of a bucket
has changed, the task writes no file, and the run has the last one's.

A task tries again the arrays that it could not read, at the end of the share, unless it could read
none. It names those that still fail to the driver, and writes nothing about them: only the driver
knows how other tasks fared. A last task for the bucket then writes what an older run read of them.
"""

from __future__ import annotations

import threading
import time
from collections import Counter
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeAlias

from chronotile.check.findings import finding
from chronotile.dataset.check_all import UNREADABLE, may_pass, words
from chronotile.errors import ArrayNotFoundError, ChangedError, ChronotileError
from chronotile.format.timestamps import now_ms
from chronotile.history.listing import folder_times
from chronotile.spark.known_listing import known_store
from chronotile.spark.pipeline.bucket_writer import BucketWriter
from chronotile.spark.pipeline.buckets import NO_BUCKET
from chronotile.spark.pipeline.interrupted_run import note_done
from chronotile.spark.pipeline.older_run_rows import WRITTEN, hidden_below, rows_of_unread
from chronotile.spark.pipeline.run_columns import CHANGES, changed_findings
from chronotile.spark.pipeline.run_summary import Totals
from chronotile.spark.pipeline.unchanged_arrays import (
    NOTHING,
    Noted,
    is_unchanged,
    note,
)
from chronotile.spark.pipeline.unreadable_limit import Unread
from chronotile.spark.source.read_share import array_tables, in_order
from chronotile.storage.place import MissingObjectError
from chronotile.storage.store import open_store
from chronotile.tables.array_tables import SCHEMAS, findings_rows, tables_of_unreadable
from chronotile.tables.gathered_rows import Columns, Rows, rows_of
from chronotile.tables.measured_array import MeasuredArray, measure_array

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping

    import pyarrow as pa

    from chronotile.check.engine_open_cost import OpenCost
    from chronotile.dataset.find_arrays import Unlisted
    from chronotile.spark.bucket_share import BucketShare, Place
    from chronotile.spark.pipeline.older_run_rows import OlderBucket
    from chronotile.spark.pipeline.runs import Part, Run
    from chronotile.spark.source.options import Options
    from chronotile.storage.store import Entry, Store
    from chronotile.tables.gathered_rows import Piece

    _Tables: TypeAlias = Mapping[str, Iterable[Piece]]

AGAIN_S = 1.0
"""Seconds to wait before a task tries again the arrays that it could not read."""
UNREAD_MAX = 10_000
"""Unreadable arrays of which the driver hears by name; more of them end every run."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Task:
    """The work of one task."""

    share: BucketShare
    options: Options
    run: Run
    older: OlderBucket | None = None
    """What the last run holds of the bucket, if this one uses it."""
    since_last: bool = False
    """Skip arrays that have not changed."""
    is_whole: bool = False
    """Whether the share has all arrays of the bucket, so that those it lacks are gone."""
    problems: tuple[Unlisted, ...] = ()
    """Folders that could not be listed: arrays below them are looked for in the last run."""
    given_up: Mapping[str, str] = field(default_factory=dict)
    """For `write_unread`: array -> why it could not be read."""
    hidden: frozenset[str] = frozenset()
    """The arrays among these that only the last run knows."""
    fresh_ms: int | None = None
    """With an inventory: look for commits that are newer than this."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Done:
    """What some tasks have done."""

    parts: tuple[Part, ...] = ()
    same: tuple[int, ...] = ()
    """Buckets in which nothing has changed."""
    totals: Totals = field(default_factory=Totals)
    unchanged: int = 0
    unread: tuple[Unread, ...] = ()
    """Arrays that could not be read: the first of them, if there are very many."""
    unread_count: int = 0
    hidden: tuple[Unread, ...] = ()
    """Arrays that only the last run knows, as a folder could not be listed; likewise."""
    hidden_count: int = 0
    read: int = 0
    files_read: int = 0
    reads: int = 0


def sum_of(done: Iterable[Done]) -> Done:
    """What several tasks have done together.

    >>> sum_of([Done(read=1, same=(3,)), Done(read=2)])  # doctest: +ELLIPSIS
    Done(parts=(), same=(3,), ..., read=3, files_read=0, reads=0)
    """
    every = tuple(done)
    totals = Totals()
    for one in every:
        totals += one.totals
    counts = ("unchanged", "unread_count", "hidden_count", "read", "files_read", "reads")
    sums = {name: sum(getattr(one, name) for one in every) for name in counts}
    return Done(
        parts=tuple(part for one in every for part in one.parts),
        same=tuple(bucket for one in every for bucket in one.same),
        totals=totals,
        unread=tuple(unread for one in every for unread in one.unread)[:UNREAD_MAX],
        hidden=tuple(hidden for one in every for hidden in one.hidden)[:UNREAD_MAX],
        **sums,
    )


def run_task(task: Task) -> Done:
    """Reads the arrays of a bucket and writes its part of every table."""
    done = _Bucket(task).done()
    note_done(task.run, task.share.bucket, done.parts)
    return done


def write_unread(task: Task) -> Done:
    """Writes what an older run read of arrays that could not be read now."""
    older = task.older
    writer = BucketWriter(task.run, task.share.bucket, WRITTEN, "listings")
    known = older.known() if older is not None else {}
    stale = [array for array in task.given_up if array in known]
    if older is not None and stale:
        for name, rows in older.rows((), stale):
            writer.add({name: rows})
    rows = rows_of_unread(task.given_up, known, task.hidden)
    writer.add(rows)
    changes: tuple[Part, ...] = ()
    if older is not None:
        old = [row for row in older.findings() if row["array"] in task.given_up]
        new = [row for row in old if row["array"] in stale] + rows["findings"].to_pylist()
        changes = write_changes(task.run, changed_findings(old, new))
    return Done(parts=(*writer.close(), *changes), totals=writer.totals)


def write_changes(run: Run, rows: pa.Table) -> tuple[Part, ...]:
    """Writes rows of `findings_changes`, which no later run repeats."""
    writer = BucketWriter(run, NO_BUCKET, {"findings_changes": CHANGES}, "")
    writer.add({"findings_changes": rows})
    return writer.close()


def write_tables(run: Run, tables: Mapping[str, pa.Table]) -> tuple[tuple[Part, ...], Totals]:
    """Writes rows that belong to no bucket."""
    writer = BucketWriter(run, NO_BUCKET, WRITTEN, "listings")
    writer.add(tables)
    return writer.close(), writer.totals


class _Bucket:
    """One bucket, array by array."""

    def __init__(self, task: Task) -> None:
        self._task = task
        self._reads = _Reads()
        self._writer = BucketWriter(task.run, task.share.bucket, WRITTEN, "listings")
        self._unchanged: list[str] = []
        self._findings: list[dict[str, Any]] = []
        self._noted: dict[str, Noted] = {}
        self._before = Totals()
        if task.older is not None and task.since_last:
            self._noted, self._before = task.older.noted()

    def done(self) -> Done:
        task, older = self._task, self._task.older
        places = {place.uri: place for place in task.share.places(task.run)}
        failed = self._read(places)
        unread = {array: words(error) for array, error in failed.items() if may_pass(error)}
        for array, error in failed.items():
            if array not in unread:
                self._add(self._without(array, error))
        hidden: dict[str, Unread] = {}
        if older is not None and task.problems:
            hidden = hidden_below(task.problems, older.known(), places)
        if self._is_same(len(places), len(unread) + len(hidden)):
            same = (task.share.bucket,)
            return Done(same=same, totals=self._before, unchanged=len(self._unchanged))
        if older is not None and self._unchanged:
            for name, rows in older.rows(self._unchanged, ()):
                self._writer.add({name: rows})
        changes = self._changes(places, {*unread, *hidden})
        return Done(
            parts=(*self._writer.close(), *changes),
            totals=self._writer.totals,
            unchanged=len(self._unchanged),
            unread=tuple(Unread(*pair) for pair in list(unread.items())[:UNREAD_MAX]),
            unread_count=len(unread),
            hidden=tuple(hidden.values())[:UNREAD_MAX],
            hidden_count=len(hidden),
            read=len(places) - len(self._unchanged) - len(unread),
            files_read=len(self._reads.counts),
            reads=self._reads.counts.total(),
        )

    def _add(self, tables: _Tables) -> None:
        for name, pieces in tables.items():
            for piece in pieces:
                self._writer.add({name: piece})
                if name == "findings" and self._task.older is not None:
                    assert not isinstance(piece, Columns)
                    self._findings += rows_of(piece)

    def _changes(self, there: Collection[str], left: Collection[str]) -> tuple[Part, ...]:
        """Writes which findings came and went, on the arrays that were read or are gone."""
        task, older = self._task, self._task.older
        if older is None:
            return ()
        same = {*self._unchanged, *left}
        old = [
            row
            for row in older.findings()
            if row["array"] not in same and (row["array"] in there or task.is_whole)
        ]
        return write_changes(task.run, changed_findings(old, self._findings))

    def _is_same(self, arrays: int, lost: int) -> bool:
        """Whether the last run's files of this bucket are right as they are."""
        older = self._task.older
        if older is None or not self._task.since_last or lost:
            return False
        return arrays == len(self._unchanged) == len(self._noted) and older.can_stay

    def _read(self, places: Mapping[str, Place]) -> dict[str, Exception]:
        """Reads arrays, and writes their rows; returns those that fail twice."""
        failed: dict[str, Exception] = {}
        waiting = tuple(places)
        for attempt in range(2):
            failed = {}
            for array, outcome in in_order(lambda uri: self._outcome(places[uri]), waiting):
                if isinstance(outcome, Exception):
                    failed[array] = outcome
                elif outcome is None:
                    self._unchanged.append(array)
                else:
                    self._add(outcome)
            # A list may miss what was just written: then an array looks as if it were gone.
            gone = any(not may_pass(error) for error in failed.values())
            if attempt or not failed or (len(failed) == len(waiting) and not gone):
                break
            time.sleep(AGAIN_S)
            waiting = tuple(failed)
        return failed

    def _outcome(self, place: Place) -> _Tables | Exception | None:
        """The rows of an array; None if it is unchanged; an error if another try may succeed."""
        try:
            if place.entries is not None:
                with suppress(MissingObjectError, ChangedError):
                    return self._by_inventory(place)
            return self._tables(self._store(place.uri))
        except Exception as error:  # one bad array must not stop a fleet
            if may_pass(error) or isinstance(error, ArrayNotFoundError):
                return error
            return self._without(place.uri, error)

    def _store(self, array: str) -> Store:
        store = open_store(array, self._task.options.storage_options)
        return store.watched(lambda what, path: self._reads.hook(store.uri, what, path))

    def _by_inventory(self, place: Place) -> _Tables | None:
        """Reads an array by a listing that is known; if that is outdated, by another."""
        store, after = self._store(place.uri), self._task.fresh_ms
        entries = place.entries or ()
        known = known_store(store, entries, after)
        return self._tables(known, None if known is store else entries)

    def _tables(self, store: Store, known: tuple[Entry, ...] | None = None) -> _Tables | None:
        options, array, began_ms = self._task.options, store.uri, now_ms()
        # Cells can go bad while the listing stays the same.
        noted = None if options.check == "deep" else self._noted.get(array)
        if noted is not None and is_unchanged(store, noted, began_ms):
            return None
        times = folder_times(store) if options.sizes else None
        opened = MeasuredArray(store, known)
        if options.sizes and known is None:
            opened = measure_array(store)
        log = options.open_log(opened.store)
        tables = array_tables(log, options, opened.entries if options.sizes else None)
        made = {name: tables.pieces(name) for name in SCHEMAS}
        now = note(store, log.history.listing, began_ms, times)
        return {**made, "listings": [_listing(array, now, tables.engine_open)]}

    def _without(self, array: str, error: Exception) -> _Tables:
        """The rows of an array that is damaged or gone."""
        if isinstance(error, ArrayNotFoundError) and self._is_gone(array):
            gone = "it is gone: it was there when the fleet was listed"
            item = finding(array, UNREADABLE, "", gone, severity="warning")
            return {"findings": [findings_rows((item,))], "listings": [_listing(array)]}
        made = tables_of_unreadable(array, error)
        return {**{name: [made[name]] for name in SCHEMAS}, "listings": [_listing(array)]}

    def _is_gone(self, array: str) -> bool:
        try:
            return not open_store(array, self._task.options.storage_options).exists()
        except ChronotileError:
            return False


class _Reads:
    """Counts how often each file was read."""

    def __init__(self) -> None:
        self.counts: Counter[str] = Counter()
        self._lock = threading.Lock()

    def hook(self, array: str, operation: str, path: str) -> None:
        if operation == "read":
            with self._lock:
                self.counts[f"{array}/{path}"] += 1


def _listing(array: str, noted: Noted = NOTHING, engine_open: OpenCost | None = None) -> Rows:
    after = engine_open and engine_open.requests_after_maintenance
    return Rows([{"array": array, **noted._asdict(), "requests_after": after}])
