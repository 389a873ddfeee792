"""Streams of commits, of conditions, of findings and of changed rows.

In: options, and offsets from Spark. Out: every new row once, also one that is dated in the past,
across restarts. `Watch` looks which arrays have changed, `CommitStream` chooses the next batch,
tasks open its arrays, each once: the driver opens none. A task puts the record of its batch before
it gives the rows (see `stream_state`).

An array that cannot be read is left for a later batch. It is told in the driver's log, once for
each error, in the progress of the query (`latestOffset`), and by a row in a stream of findings.

On a disk, a folder tells when its names last changed: two questions for each array that nothing has
happened to, however many commits it has. A file that is written slowly changes no name; so an array
with a file that is still young is looked at in full. In a bucket, a look lists neighbours flat,
1,000 objects a request, and the files of `__commits` of each array that has no neighbours, or too
many objects.

A batch has at most `maxArraysPerTrigger` arrays, those first that have waited longest. The trigger
AvailableNow reads, in as many batches as it takes, what a look at its beginning has found changed.
"""

from __future__ import annotations

import hashlib
import logging
import operator
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

import numpy as np
import pyarrow as pa
from pyspark.sql.datasource import DataSourceStreamReader, InputPartition

from chronotile.check.findings import UNREADABLE, error_words, finding
from chronotile.errors import ArrayNotFoundError, ChronotileError
from chronotile.fleet.array_tables import BATCH_ROWS, READABLE, findings_table, twinned
from chronotile.fleet.change_table import changes_of
from chronotile.fleet.find_arrays import CONCURRENCY, find_all
from chronotile.fleet.options import choose
from chronotile.fleet.read_share import array_tables, in_order, window_of
from chronotile.fleet.shares import ListedArray, listed_places, packed
from chronotile.fleet.stream_state import FORGET_MS, Plans, Record, hashes, next_record
from chronotile.fleet.unchanged_arrays import GRAIN_MS
from chronotile.format.kinds import COMMIT_WORDS, COMMITS, EXTENSIONS, ROOT_FILES, WRITES
from chronotile.format.names import is_name
from chronotile.format.timestamps import now_ms
from chronotile.history import text_columns
from chronotile.rows.commit_changes import row_events
from chronotile.storage.place import Entry, Names
from chronotile.storage.prefetch import ahead
from chronotile.storage.store import MissingObjectError, open_store
from chronotile.visibility.rules import overlaps

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from chronotile.fleet.options import Options
    from chronotile.fleet.stream_state import Hashes, Index, Planned, Records
    from chronotile.log import Log
    from chronotile.storage.store import Store


Offset: TypeAlias = dict[str, Any]

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamLook:
    """The findings of one look."""

    marks: Mapping[str, str]
    """Array -> a text that changes with its commit files."""
    problems: Mapping[str, str]
    """Array or folder that could not be listed -> why, in words."""


class _KnownArray(NamedTuple):
    """The state of an array at the last look."""

    mark: str
    times: tuple[int | None, ...] | None
    """When its folders last changed; None if that does not tell of every change."""


class Watch:
    """Looks at a fleet, again and again."""

    def __init__(self, options: Options) -> None:
        self._options = options
        self._known: dict[str, _KnownArray] = {}
        self._stores: dict[str, Store] = {}
        self._is_flat = True

    def look(self) -> StreamLook:
        """Find the arrays, and the mark of each."""
        storage = self._options.storage_options
        found = find_all(self._options, known=self._known, flat=self._is_flat)
        places = list(listed_places(found.rows.to_batches()))
        marks = {one.uri: _mark(one.entries) for one in places if one.entries is not None}
        uris = tuple(one.uri for one in places if one.entries is None)
        # A list of `__commits` of each array takes fewer requests, if arrays are large.
        self._is_flat &= found.pages <= max(len(marks), 1)
        problems = {one.uri: f"cannot be listed: {one.message}" for one in found.problems}
        # Making a store takes longer than asking a disk whether the array is quiet.
        self._stores = {uri: self._stores.get(uri) or open_store(uri, storage) for uri in uris}
        stores = list(self._stores.values())
        is_quick = all(store.traits.pace == "quick" for store in stores)
        looks = ahead(self._one, stores, 1 if is_quick else CONCURRENCY)
        for store, known in zip(stores, looks, strict=True):
            if isinstance(known, _KnownArray):
                marks[store.uri] = known.mark
            else:
                problems[store.uri] = f"cannot be read: {error_words(known)}"
                self._known.pop(store.uri, None)
        if not problems:
            self._known = {uri: self._known[uri] for uri in uris}
        return StreamLook(marks=marks, problems=problems)

    def _one(self, store: Store) -> _KnownArray | Exception:
        try:
            known = self._known.get(store.uri)
            # As long as its folders have the same times, no commit file can have come.
            if (
                known is None
                or known.times is None
                or known.times != (store.change_time(COMMITS), store.change_time(""))
            ):
                known = self._known[store.uri] = _in_full(store)
        except Exception as error:  # one bad array must not stop the others
            return error
        return known


def _in_full(store: Store) -> _KnownArray:
    """List the commit files, and ask for size and time of those that can be read."""
    began_ms, has_times = now_ms(), store.traits.has_change_times
    commits = store.list_names(COMMITS)
    # No new engine puts commits into the root, and in a bucket its list is a request.
    root = store.list_names("") if has_times or not commits.files else Names()
    entries = [*commits.entries, *root.entries, *(Entry(f"{name}/") for name in root.folders)]
    is_settled = has_times
    for folder, names in ((f"{COMMITS}/", commits), ("", root)) if has_times else ():
        for path in (f"{folder}{name}" for name in names.files):
            entry, is_old = Entry(path), True
            if _is_commit(path) and not path.endswith(WRITES):
                entry, is_old = _stamp(store, path, began_ms)
            entries.append(entry)
            is_settled &= is_old
    times = (commits.change_time, root.change_time)
    return _KnownArray(_mark(entries), times if is_settled and None not in times else None)


def _is_commit(path: str) -> bool:
    """Tell whether a path of an array is a commit file, or before version 12 a fragment."""
    folder, _, name = path.rstrip("/").rpartition("/")
    is_old = is_name(name) if path.endswith("/") else name.endswith(ROOT_FILES[:2])
    return folder == COMMITS or (not folder and is_old)


def _mark(entries: Iterable[Entry]) -> str:
    """Give a text that changes with the commit files among the files of an array."""
    lines = (
        f"{entry.path} {'' if entry.path.endswith('/') else f'{entry.size} {entry.etag}'}\n"
        for entry in entries
        if _is_commit(entry.path)
    )
    text = "".join(sorted(lines))
    return hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=12).hexdigest()


def _stamp(store: Store, path: str, began_ms: int) -> tuple[Entry, bool]:
    """Ask for size and time of a file; tell whether a further change would change them."""
    try:
        entry = store.head(path)
    except MissingObjectError:
        return Entry(path), False
    is_old = entry.modified_ms is not None and entry.modified_ms <= began_ms - GRAIN_MS
    return entry._replace(path=path), is_old


@dataclass
class ArrayPartition(InputPartition):
    """The arrays of one task, which finds out what is new in them."""

    batch: int
    arrays: tuple[Planned, ...]


def _new_rows(one: Planned, batch: int, records: Records, options: Options) -> pa.Table | None:
    if one.problem is not None:
        return _told(one, one.problem, options)
    record = records.read(one.array, batch)
    if record is None:
        before = _before(one, records)
        try:
            log = options.open_array(one.array)
            own, rows = contents(log, options)
        except Exception as error:  # one bad array must not stop a stream
            unread = f"cannot be read: {error_words(error)}"
            record = records.put(Record(array=one.array, unread=unread), batch)
            if record.unread is None:
                raise
        else:
            forget_ms = 0 if options.table == "findings" else FORGET_MS
            made = next_record(one.array, before, own, now_ms(), forget_ms)
            record = records.put(made, batch)
            if record.unread is None:
                return _chosen(log, own, rows, record.new, options)
    if record.unread is not None:
        _log.warning("left for a later batch: %s %s", one.array, record.unread)
        return _told(one, record.unread, options)
    return _given(one.array, record.new, options)


def _before(one: Planned, records: Records) -> Record | None:
    if one.before is None:
        return None
    record = records.read(one.array, one.before)
    if record is None:
        problem = f"expected what batch {one.before} left of {one.array}, found nothing"
        raise ChronotileError(records.place, f"{problem}: the state belongs to another checkpoint")
    return record


def _given(array: str, wanted: Hashes, options: Options) -> pa.Table | None:
    """Give the rows of what was chosen before; an array that has gone meanwhile has none."""
    try:
        log = options.open_array(array)
    except ArrayNotFoundError as error:
        _log.warning("%s: its new commits are gone with it", error)
        return None
    own, rows = contents(log, options)
    return _chosen(log, own, rows, wanted, options)


def _chosen(log: Log, own: Hashes, rows: pa.Table, wanted: Hashes, options: Options) -> pa.Table:
    """Give the first row of each hash; of changes those are events, and what they did is read."""
    first = np.zeros(len(own), bool)
    first[np.unique(own, return_index=True)[1]] = True
    chosen = rows.filter(pa.array(first & np.isin(own, wanted)))
    if options.table != "changes":
        return chosen
    columns = options.row_columns
    names = set(chosen["name"].to_pylist())
    told = changes_of(log, names, columns) if names else ()
    return pa.concat_tables([(columns or READABLE["changes"]).empty_table(), *told])


def contents(log: Log, options: Options) -> tuple[Hashes, pa.Table]:
    """Give the rows of an array that a stream can give, each with its hash, row by row."""
    window = window_of(log, options)
    tables = array_tables(log, options)
    if options.table == "commits":
        commits = log.history.table
        inside = np.flatnonzero(overlaps(commits.uris.t1, commits.uris.t2, *window))
        names = text_columns.names(commits, inside).to_pylist()
        extensions = [EXTENSIONS[ext] for ext in commits.uris.ext[inside].tolist()]
        return hashes(map(operator.add, names, extensions)), tables.table("commits")
    if options.table == "changes":
        names = [event.name for event in row_events(log, *window)]
        return hashes(names), pa.table({"name": pa.array(names, pa.string())})
    table = tables.table(options.table)
    if options.table == "findings":
        pairs = zip(table["code"].to_pylist(), table["path"].to_pylist(), strict=True)
        return hashes(f"{code} {path}" for code, path in pairs), table
    by_kind = dict(zip(COMMIT_WORDS, EXTENSIONS, strict=True))
    named = zip(table["name"].to_pylist(), table["kind"].to_pylist(), strict=True)
    return hashes(name + by_kind[kind] for name, kind in named), table


def _told(one: Planned, problem: str, options: Options) -> pa.Table | None:
    """Give the row on an array that cannot be read; none if it was told before."""
    if options.table != "findings" or problem == one.told:
        return None
    item = finding(one.array, UNREADABLE, "", f"it {problem}")
    return findings_table((item,))


ARRAYS_IN_PARTITION = 64
RETRY_S = 60.0
"""Seconds between two tries at an array that cannot be read."""


try:
    from pyspark.sql.streaming.datasource import (
        ReadAllAvailable,
        ReadLimit,
        ReadMaxFiles,
        SupportsTriggerAvailableNow,
    )

    class _Reader(DataSourceStreamReader, SupportsTriggerAvailableNow):
        """A reader whose batches can be bounded."""

except ImportError:  # before Spark 4.2, which reads all that is new in one batch

    class _Reader(DataSourceStreamReader):  # type: ignore[no-redef]
        """A reader whose batches are as large as they come."""


class CommitStream(_Reader):
    """Plans and reads the batches of one stream."""

    def __init__(self, options: Options) -> None:
        assert options.state is not None
        self.options = options
        self._watch = Watch(options)
        self._plans = Plans(options.state, options.storage)
        self._target: StreamLook | None = None
        """What AvailableNow has found at its beginning."""
        self._latest: int | None = None
        self._arrays = self._waiting = 0
        self._retry_s: dict[str, float] = {}
        """Array that could not be read -> when to try again."""
        self._warned: dict[str, str] = {}
        """Array or folder that could not be read last time -> the warning."""

    def initialOffset(self) -> Offset:  # noqa: N802 - Spark's name
        """Give the offset before all commits: the first batch brings all that exist."""
        return {"batch": 0}

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802
        """Give the most arrays of a batch; Spark knows limits on files, rows and bytes only."""
        most = self.options.max_arrays
        return ReadAllAvailable() if most is None else ReadMaxFiles(most)

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802
        """Look once; what changes later is left for the next query."""
        self._target = self._watch.look()

    def latestOffset(self, start: Offset | None = None, limit: object = None) -> Offset:  # noqa: N802
        """Give the end of the next batch; the start, if there is nothing new.

        Spark passes the start from version 4.2 on; before that the folder tells it.
        """
        number = self._plans.latest() if start is None else _number(start)
        if self._plans.is_planned(number + 1):
            self._latest = number + 1
        else:
            look = self._target or self._watch.look()
            self._latest = self._next(number, look, getattr(limit, "max_files", None))
            self._arrays = len(look.marks)
        return {"batch": self._latest}

    def _next(self, number: int, look: StreamLook, most: int | None) -> int:
        """Plan the batch after a batch, if there is something new; give the last one."""
        index, tells = self._plans.index(number), self.options.table == "findings"
        # A folder that can be listed again is no problem any more; an array has to be read first.
        for place in [p for p in index.problems if p not in look.marks and p not in look.problems]:
            del index.problems[place]
        unread = {a: why for a, why in index.problems.items() if a in look.marks}
        self._tell({**look.problems, **unread})
        changed = self._changed(index, look)
        chosen = changed[:most]
        self._waiting = len(changed) - len(chosen)
        news = {
            place: why
            for place, why in (look.problems.items() if tells else ())
            if index.problems.get(place) != why
        }
        if not chosen and not news:
            return number
        due = time.monotonic() + RETRY_S
        self._retry_s |= {array: due for array in chosen if array in unread}
        arrays = {array: look.marks[array] for array in chosen}
        return self._plans.plan(number, arrays, news, None if look.problems else look.marks)

    def _changed(self, index: Index, look: StreamLook) -> list[str]:
        """Give the arrays that may have something new, those that have waited longest first."""
        now, entries = time.monotonic(), index.entries
        turns = []
        for array, mark in look.marks.items():
            entry = entries.get(array)
            if entry is not None and entry.mark == mark:
                continue
            if array in index.problems and self._retry_s.get(array, 0.0) > now:
                continue
            turns.append((entry.batch if entry else -1, array))
        return [array for _, array in sorted(turns)]

    def reportLatestOffset(self) -> Offset | None:  # noqa: N802
        """Tell what the progress of the query shows: the offset, and how much could not be read."""
        if self._latest is None:
            return None
        counts = {"arrays": self._arrays, "unreadable": len(self._warned)}
        return {"batch": self._latest, **counts, "waiting": self._waiting}

    def partitions(self, start: Offset, end: Offset) -> Sequence[InputPartition]:
        """Tell what is new between two offsets, a few arrays to a task."""
        groups = packed(self._plans.batch(_number(start), _number(end)), ARRAYS_IN_PARTITION)
        return [ArrayPartition(_number(end), group) for group in groups]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Give the rows of one partition."""
        assert isinstance(partition, ArrayPartition)
        options, records = self.options, self._plans.records
        planned = {one.array: one for one in partition.arrays}

        def rows(place: ListedArray) -> pa.Table | None:
            return _new_rows(planned[place.uri], partition.batch, records, options)

        for _, table in in_order(rows, map(ListedArray, planned)):
            if table is not None and len(table):
                # Fields of an array may be called as columns of ms are.
                told = table if options.table == "changes" else twinned(table)
                yield from choose(options, told).to_batches(BATCH_ROWS)

    def _tell(self, problems: Mapping[str, str]) -> None:
        warnings = {place: f"{place} {why}" for place, why in problems.items()}
        for place, warning in warnings.items():
            if self._warned.get(place) != warning:
                _log.warning("left for a later batch: %s", warning)
        self._warned = warnings


def _number(offset: Offset) -> int:
    """Read the number of a batch, which an offset of an earlier version lacks."""
    if "batch" not in offset:
        problem = "expected the number of a batch, found an offset of an earlier version"
        raise ChronotileError("checkpoint", f"{problem}: give the query a new checkpointLocation")
    return int(offset["batch"])
