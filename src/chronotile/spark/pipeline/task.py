"""What one task of the pipeline does.

In: a bucket of the fleet, and where the tables go. Out: files of all tables, written in one pass
over the bucket's arrays, and `Done`, which tells the driver about them. Each task opens what it
needs. Rows of arrays that have not changed are repeated from the last run; if nothing of a bucket
has changed, the task writes no file, and the store keeps those that it has.

A task tries again the arrays that it could not read, at the end of the share, unless it could read
none. Of those that still fail it repeats the rows of an older run, and names them to the driver,
which commits nothing if they are too many. A task to which the storage gives nothing stops early.
"""

from __future__ import annotations

import json
import threading
import time
from collections import Counter
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, TypeAlias

import pyarrow as pa

from chronotile import __version__
from chronotile.change.operations import list_operations
from chronotile.check.findings import UNREADABLE, finding
from chronotile.check.unread_arrays import may_pass, words
from chronotile.errors import ArrayNotFoundError, ChangedError, ChronotileError
from chronotile.format.kinds import OWN
from chronotile.format.timestamps import now_ms
from chronotile.history.listing import folder_times
from chronotile.spark.known_listing import known_store
from chronotile.spark.pipeline.bucket_writer import BucketWriter
from chronotile.spark.pipeline.delta_store import LAST, DataFile
from chronotile.spark.pipeline.older_rows import findings_on_unread, hidden_below
from chronotile.spark.pipeline.run_summary import (
    Totals,
    sum_totals,
    totals_of,
    totals_of_findings,
)
from chronotile.spark.pipeline.unchanged_arrays import NOTHING, Noted, is_unchanged, note
from chronotile.spark.pipeline.unreadable_limit import Unread
from chronotile.spark.source.read_share import array_tables, in_order
from chronotile.storage.place import MissingObjectError
from chronotile.storage.store import open_store
from chronotile.tables.array_tables import SCHEMAS, findings_rows, tables_of_unreadable
from chronotile.tables.gathered_rows import Columns, Rows, rows_of
from chronotile.tables.measured_array import MeasuredArray, measure_array

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from chronotile.dataset.find_arrays import Unlisted
    from chronotile.spark.bucket_share import BucketShare, Place
    from chronotile.spark.pipeline.delta_store import Run
    from chronotile.spark.pipeline.older_rows import OlderBucket
    from chronotile.spark.source.options import Options
    from chronotile.storage.store import Entry, Store
    from chronotile.tables.gathered_rows import Piece

    _Tables: TypeAlias = Mapping[str, Iterable[Piece]]

AGAIN_S = 1.0
"""Seconds to wait before a task tries again the arrays that it could not read."""
UNREAD_MAX = 10_000
"""Unreadable arrays of which the driver hears by name; more of them end every run."""
BRAKE = 8
"""Arrays that a task tries before it stops, if it could read none of them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Task:
    """The work of one task."""

    share: BucketShare
    options: Options
    run: Run
    older: OlderBucket | None = None
    """What the store holds of the bucket."""
    since_last: bool = False
    """Skip arrays that have not changed."""
    problems: tuple[Unlisted, ...] = ()
    """Folders that could not be listed: arrays below them are looked for in the last run."""
    given_up: Mapping[str, str] = field(default_factory=dict)
    """Array that is not tried -> why."""
    fresh_ms: int | None = None
    """With an inventory: look for commits that are newer than this."""
    allowed: int = 0
    """Arrays of the fleet that may be unreadable."""

    @property
    def size(self) -> int:
        """The number of arrays."""
        return self.share.size


@dataclass(frozen=True, slots=True, kw_only=True)
class Done:
    """What some tasks have done."""

    files: tuple[DataFile, ...] = ()
    changed: tuple[int, ...] = ()
    """Buckets whose rows are replaced."""
    totals: Totals = field(default_factory=Totals)
    unchanged: int = 0
    unread: tuple[Unread, ...] = ()
    """Arrays that could not be read or listed: the first of them, if there are very many."""
    unread_count: int = 0
    hidden: int = 0
    """Those of them that only the store knows, as a folder could not be listed."""
    read: int = 0
    files_read: int = 0
    reads: int = 0

    @classmethod
    def from_json(cls, document: Mapping[str, Any]) -> Done:
        """Make a result of its JSON form."""
        return cls(
            **{
                **document,
                "files": tuple(DataFile(*one) for one in document["files"]),
                "changed": tuple(document["changed"]),
                "totals": Totals.from_json(document["totals"]),
                "unread": tuple(Unread(*one) for one in document["unread"]),
            }
        )


def sum_of(done: Iterable[Done]) -> Done:
    """Add what several tasks have done.

    >>> sum_of([Done(read=1, changed=(3,)), Done(read=2)])  # doctest: +ELLIPSIS
    Done(files=(), changed=(3,), ..., read=3, files_read=0, reads=0)
    """
    every = tuple(done)
    counts = ("unchanged", "unread_count", "hidden", "read", "files_read", "reads")
    sums = {name: sum(getattr(one, name) for one in every) for name in counts}
    return Done(
        files=tuple(file for one in every for file in one.files),
        changed=tuple(dict.fromkeys(bucket for one in every for bucket in one.changed)),
        totals=sum_totals(one.totals for one in every),
        unread=tuple(unread for one in every for unread in one.unread)[:UNREAD_MAX],
        **sums,
    )


def run_task(task: Task) -> Done:
    """Read the arrays of a bucket and write its part of every table."""
    return _Bucket(task).done()


def write_rows(run: Run, bucket: int, tables: Mapping[str, pa.Table]) -> tuple[DataFile, ...]:
    """Write rows that no array of a bucket gave."""
    writer = BucketWriter(run, bucket)
    for name, table in tables.items():
        writer.add(name, table)
    return writer.close()


class _Bucket:
    """One bucket, array by array."""

    def __init__(self, task: Task) -> None:
        self._task = task
        self._reads = _Reads()
        self._writer = BucketWriter(task.run, task.share.bucket)
        self._unchanged: list[str] = []
        self._totals: list[Totals] = []
        self._noted: dict[str, Noted] = task.older.noted() if task.older is not None else {}
        self._asked = task.options.asked(__version__)

    def done(self) -> Done:
        task, older = self._task, self._task.older
        places = {place.uri: place for place in task.share.places(task.run)}
        failed = self._read(places)
        unread = {array: words(error) for array, error in failed.items() if may_pass(error)}
        for array, error in failed.items():
            if array not in unread:
                self._add(self._without(array, error))
        hidden: dict[str, str] = {}
        if task.problems:
            hidden = hidden_below(task.problems, self._noted, places)
        unread |= task.given_up
        lost = {**unread, **hidden}
        is_same = len(places) == len(self._unchanged) == len(self._noted) and not lost
        if is_same and older is not None and older.can_stay:
            return Done(totals=self._of_noted(places), unchanged=len(places))
        self._repeat(unread, hidden)
        return Done(
            files=self._writer.close(),
            changed=(task.share.bucket,),
            totals=sum_totals([*self._totals, self._of_noted(self._unchanged)]),
            unchanged=len(self._unchanged),
            unread=tuple(Unread(*pair) for pair in list(lost.items())[:UNREAD_MAX]),
            unread_count=len(lost),
            hidden=len(hidden),
            read=len(places) - len(self._unchanged) - len(unread) + len(task.given_up),
            files_read=len(self._reads.counts),
            reads=self._reads.counts.total(),
        )

    def _of_noted(self, arrays: Iterable[str]) -> Totals:
        texts = (self._noted[array].totals for array in arrays if array in self._noted)
        return sum_totals(Totals.from_json(json.loads(text)) for text in texts if text)

    def _repeat(self, unread: Mapping[str, str], hidden: Mapping[str, str]) -> None:
        """Write the rows that an older run has of unchanged and of unreadable arrays."""
        older, lost = self._task.older, {**unread, **hidden}
        read_in = older.read_in() if older is not None and lost else {}
        stale = [array for array in lost if array in read_in]
        if older is not None and (self._unchanged or stale):
            for name, rows in older.rows(self._unchanged, stale):
                self._writer.add(name, rows)
        findings = findings_on_unread(lost, read_in)
        blank = [
            {"array": array, "errors": 1, "warnings": 0, "infos": 0}
            for array in unread
            if array not in read_in
        ]
        self._writer.add("findings", findings)
        self._writer.add("arrays", pa.Table.from_pylist(blank, schema=SCHEMAS["arrays"]))
        self._writer.add(LAST, Rows([{"array": row["array"]} for row in blank]))
        rows_of_findings = findings.to_pylist()
        self._totals += [self._of_noted(stale), totals_of_findings(rows_of_findings)]
        self._totals.append(Totals(arrays=len(blank)))

    def _add(self, tables: _Tables) -> None:
        for name, pieces in tables.items():
            for piece in pieces:
                self._writer.add(name, piece)

    def _read(self, places: Mapping[str, Place]) -> dict[str, Exception]:
        """Read arrays, and write their rows; return those that fail twice."""
        failed: dict[str, Exception] = {}
        waiting = tuple(places)
        for attempt in range(2):
            failed = {}
            outcomes = in_order(lambda uri: self._outcome(places[uri]), waiting)
            for tried, (array, outcome) in enumerate(outcomes, 1):
                if isinstance(outcome, Exception):
                    failed[array] = outcome
                    refused = sum(map(may_pass, failed.values()))
                    if refused == tried > max(BRAKE, self._task.allowed):
                        return failed
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
        noted = self._noted.get(array) if self._task.since_last else None
        if (
            noted is not None
            and options.check != "deep"
            and options.is_answered_by(noted.asked, __version__)
            and is_unchanged(store, noted, began_ms)
        ):
            return None
        times = folder_times(store) if options.sizes else None
        opened = MeasuredArray(store, known)
        if options.sizes and known is None:
            opened = measure_array(store)
        log = options.open_log(opened.store)
        tables = array_tables(log, options, opened.entries if options.sizes else None)
        made = {name: tables.pieces(name) for name in SCHEMAS}
        now = note(store, log.history.listing, began_ms, times)
        after = tables.engine_open.requests_after_maintenance if tables.engine_open else 0
        made["operations"] = self._operations(store, known)
        made[LAST] = [self._listing(array, made, now, after)]
        return made

    def _operations(self, store: Store, known: tuple[Entry, ...] | None) -> list[Rows]:
        """List the changes of ours that an array keeps a record of."""
        if known is not None and not any(entry.path.startswith(OWN) for entry in known):
            return []
        rows = [
            {
                "array": store.uri,
                "id": one.id,
                "time": datetime.fromtimestamp(one.at_ms / 1000, UTC),
                "command": one.command,
                "state": one.state,
            }
            for one in list_operations(open_store(store.uri, self._task.options.storage_options))
        ]
        return [Rows(rows)]

    def _listing(
        self, array: str, made: _Tables, noted: Noted = NOTHING, requests_after: int = 0
    ) -> Rows:
        """Make the row that the next run goes by."""
        (row,) = (row for piece in made["arrays"] for row in _rows(piece))
        findings = [row for piece in made["findings"] for row in _rows(piece)]
        totals = totals_of(row, findings, requests_after)
        self._totals.append(totals)
        own = noted._replace(asked=self._asked, totals=totals.to_text())
        return Rows([{"array": array, **own._asdict()}])

    def _without(self, array: str, error: Exception) -> _Tables:
        """Make the rows of an array that is damaged or gone."""
        if isinstance(error, ArrayNotFoundError) and self._is_gone(array):
            gone = "it is gone: it was there when the fleet was listed"
            item = finding(array, UNREADABLE, "", gone, severity="warning")
            rows = findings_rows((item,))
            totals = totals_of_findings(rows.rows)
            self._totals.append(totals)
            listing = {"array": array, "asked": self._asked, "totals": totals.to_text()}
            return {"findings": [rows], LAST: [Rows([listing])]}
        whole = tables_of_unreadable(array, error)
        made: dict[str, list[Piece]] = {name: [whole[name]] for name in SCHEMAS}
        return {**made, LAST: [self._listing(array, made)]}

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


def _rows(piece: Piece) -> list[dict[str, Any]]:
    assert not isinstance(piece, Columns)
    return rows_of(piece)
