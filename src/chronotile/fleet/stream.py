"""Streams of commits, of conditions, of findings and of changed rows.

In: options, and offsets from Spark. Out: every new row once, also one that is dated in the past,
across restarts. `Watch` looks which arrays have changed, `Planner` chooses the next batch, tasks
(`read_batch`) open its arrays: the driver opens none.

A commit is new if its name is new; a commit that moves from a file of its own into a `.con` is not.
An array that cannot be read is left for a later batch. It is told in the driver's log, once for
each error, in the progress of the query (`latestOffset`), and by a row in a stream of findings. A
commit that is vacuumed away between plan and reading is gone from the log and from the stream.

On a disk, a folder tells when its names last changed: two questions for each array that nothing has
happened to, however many commits it has. A file that is written slowly, or again, changes no name;
so an array with a file that is still young is looked at in full, and so is every array now and
then. In a bucket, a look lists the files of `__commits`, 1,000 in a request.

A batch has at most `maxArraysPerTrigger` arrays, those first that have waited longest. The trigger
AvailableNow reads, in as many batches as it takes, what a look at its beginning has found changed.
"""

from __future__ import annotations

import hashlib
import logging
import random
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from pyspark.sql.datasource import DataSourceStreamReader

from chronotile.check.unread_arrays import words
from chronotile.fleet.array_tables import BATCH_ROWS, twinned
from chronotile.fleet.batch_plans import INDEX_EVERY, Plans
from chronotile.fleet.find_arrays import CONCURRENCY, find_arrays
from chronotile.fleet.options import choose
from chronotile.fleet.read_batch import ArrayPartition, read_arrays
from chronotile.fleet.shares import packed
from chronotile.fleet.unchanged_arrays import GRAIN_MS
from chronotile.format.kinds import COMMITS, ROOT_FILES, WRITES
from chronotile.format.names import is_name
from chronotile.format.timestamps import now_ms
from chronotile.storage.store import MissingObjectError, open_store

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    import pyarrow as pa
    from pyspark.sql.datasource import InputPartition

    from chronotile.fleet.batch_plans import Index
    from chronotile.fleet.options import Options
    from chronotile.fleet.unchanged_arrays import Offset
    from chronotile.storage.store import Store


FULL_LOOK_S = 600.0
"""Seconds after which an array of a disk is looked at in full, at the latest."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamLook:
    """The commits that one look found."""

    marks: Mapping[str, str]
    """Array -> a text that changes with its commit files."""
    problems: Mapping[str, str]
    """Array or folder that could not be listed -> why, in words."""

    @property
    def complete(self) -> bool:
        """Tell whether an array that is not among the marks is gone."""
        return not self.problems


class _Known(NamedTuple):
    """The state of an array at the last look."""

    mark: str
    times: tuple[int | None, ...] | None
    """When its folders last changed; None if that does not tell of every change."""
    until: float
    """When to look in full again."""
    has_old_files: bool
    """Whether commits lie in the root, as before format version 12."""


class Watch:
    """Looks at a fleet, again and again."""

    def __init__(self, options: Options) -> None:
        self._options = options
        self._known: dict[str, _Known] = {}
        self._stores: dict[str, Store] = {}
        self._chance = random.Random()

    def look(self) -> StreamLook:
        """Find the arrays, and the mark of each.

        Raises:
            ArrayNotFoundError: A root does not exist.
            StorageError: A root cannot be listed.
        """
        listed, storage = self._options.arrays is not None, self._options.storage_options
        roots = self._options.uris() if listed else self._options.roots
        fleet = find_arrays(
            roots,
            storage,
            missing_ok=listed,
            known=self._known,
            follow=True,
            key=self._options.key,
        )
        problems = {one.uri: f"cannot be listed: {one.message}" for one in fleet.problems}
        marks: dict[str, str] = {}
        # Making a store takes longer than asking a disk whether the array is quiet.
        self._stores = {
            uri: self._stores.get(uri) or open_store(uri, storage) for uri in fleet.uris
        }
        stores = list(self._stores.values())
        for store, known in zip(stores, self._all(stores), strict=True):
            if isinstance(known, _Known):
                marks[store.uri] = known.mark
            else:
                problems[store.uri] = f"cannot be read: {words(known)}"
                self._known.pop(store.uri, None)
        if not problems:
            self._known = {uri: self._known[uri] for uri in marks}
        return StreamLook(marks=marks, problems=problems)

    def _all(self, stores: list[Store]) -> list[_Known | Exception]:
        if all(store.traits.pace == "quick" for store in stores):
            return [self._one(store) for store in stores]
        with ThreadPoolExecutor(CONCURRENCY, thread_name_prefix="chronotile-watch") as pool:
            return list(pool.map(self._one, stores))

    def _one(self, store: Store) -> _Known | Exception:
        try:
            known = self._known.get(store.uri)
            if known is None or not _is_quiet(store, known):
                spread = self._chance.uniform(0.5, 1.0)
                known = _in_full(store, known, time.monotonic() + spread * FULL_LOOK_S)
                self._known[store.uri] = known
        except Exception as error:  # one bad array must not stop the others
            return error
        return known


def _is_quiet(store: Store, known: _Known) -> bool:
    """Tell whether no commit file can have come since the last look."""
    if known.times is None or time.monotonic() > known.until:
        return False
    return known.times == (store.change_time(""), store.change_time(COMMITS))


def _in_full(store: Store, known: _Known | None, until: float) -> _Known:
    """List the commit files, and asks for size and time of those that can be read."""
    began_ms, has_times = now_ms(), store.traits.has_change_times
    digest = hashlib.blake2b(digest_size=12)
    # A bucket takes a request for the root, where no new engine puts commits.
    with_root = has_times or known is None or known.has_old_files or time.monotonic() > known.until
    if known is not None and not with_root:
        until = known.until
    times, is_settled, has_old_files = [], has_times, False
    for folder in ("", COMMITS) if with_root else (COMMITS,):
        names = store.list_names(folder)
        times.append(names.change_time)
        wanted = sorted(name for name in names.files if folder or name.endswith(ROOT_FILES[:2]))
        if not folder:
            old = [name for name in names.folders if is_name(name)]
            has_old_files = bool(wanted or old)
            wanted += sorted(old)
        stamps = {one.path.rpartition("/")[2]: f"{one.size} {one.etag}" for one in names.entries}
        for name in wanted:
            if has_times and not name.endswith(WRITES) and not is_name(name):
                stamps[name], is_old = _stamp(store, f"{folder}/{name}".lstrip("/"), began_ms)
                is_settled &= is_old
            line = f"{folder}/{name} {stamps.get(name, '')}\n"
            digest.update(line.encode("utf-8", "surrogatepass"))
    trusted = tuple(times) if is_settled and None not in times else None
    return _Known(digest.hexdigest(), trusted, until, has_old_files)


def _stamp(store: Store, path: str, began_ms: int) -> tuple[str, bool]:
    """Size and time of a file, and whether a further change would change them."""
    try:
        entry = store.head(path)
    except MissingObjectError:
        return "gone", False
    is_old = entry.modified_ms is not None and entry.modified_ms <= began_ms - GRAIN_MS
    return f"{entry.size} {entry.etag}", is_old


ARRAYS_IN_PARTITION = 64
RETRY_S = 60.0
"""Seconds between two tries at an array that cannot be read."""


class Planner:
    """Plans arrays."""

    def __init__(self, options: Options) -> None:
        assert options.state is not None
        self._tells = options.table == "findings"
        self._plans = Plans(options.state, options.storage)
        self._retry_s: dict[str, float] = {}
        """Array that could not be read -> when to try again."""
        self._tidied = 0
        self.problems: dict[str, str] = {}
        self.waiting = 0

    def first(self) -> Offset:
        """Give the offset before the first batch."""
        return self._plans.first()

    def latest(self) -> Offset:
        """Give the last batch that was planned."""
        return self._plans.latest()

    def planned(self, start: Offset) -> Offset | None:
        """Give the next batch, if it was planned before."""
        return self._plans.planned(start)

    def next(self, start: Offset, look: StreamLook, most: int | None) -> Offset:
        """Give the end of the next batch; the start, if there is nothing new."""
        index = self._plans.index(start)
        self._tidy(index.number, look)
        # A folder that can be listed again is no problem any more; an array has to be read first.
        for place in [p for p in index.problems if p not in look.marks and p not in look.problems]:
            del index.problems[place]
        self.problems = {a: why for a, why in index.problems.items() if a in look.marks}
        changed = self._changed(index, look)
        chosen = changed[:most]
        self.waiting = len(changed) - len(chosen)
        news = {
            place: why
            for place, why in (look.problems.items() if self._tells else ())
            if index.problems.get(place) != why
        }
        if not chosen and not news:
            return start
        due = time.monotonic() + RETRY_S
        self._retry_s |= {array: due for array in chosen if array in self.problems}
        return self._plans.plan(start, {array: look.marks[array] for array in chosen}, news)

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

    def _tidy(self, number: int, look: StreamLook) -> None:
        if number % INDEX_EVERY == 0 and number > self._tidied:
            self._plans.tidy(number, look.marks if look.complete else None)
            self._tidied = number

    def partitions(self, start: Offset, end: Offset) -> Sequence[InputPartition]:
        """Give the arrays between two offsets, a few to a task."""
        groups = packed(self._plans.batch(start, end), ARRAYS_IN_PARTITION)
        return [ArrayPartition(int(end["batch"]), group) for group in groups]


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


_log = logging.getLogger(__name__)


class CommitStream(_Reader):
    """Plans and reads the batches of one stream."""

    def __init__(self, options: Options) -> None:
        self.options = options
        self._watch = Watch(options)
        self._planner = Planner(options)
        self._target: StreamLook | None = None
        """What AvailableNow has found at its beginning."""
        self._latest: Offset | None = None
        self._arrays = 0
        self._warned: dict[str, str] = {}
        """Array or folder that could not be read last time -> the warning."""

    def initialOffset(self) -> Offset:  # noqa: N802 - Spark's name
        """Give the offset before all commits: the first batch brings all that exist."""
        return self._planner.first()

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
        if start is None:
            start = self._planner.latest()
        self._latest = self._planner.planned(start)
        if self._latest is None:
            look = self._target or self._watch.look()
            most = getattr(limit, "max_files", None)
            self._latest = self._planner.next(start, look, most)
            self._arrays = len(look.marks)
            self._tell({**look.problems, **self._planner.problems})
        return self._latest

    def reportLatestOffset(self) -> Offset | None:  # noqa: N802
        """Tell what the progress of the query shows: the offset, and how much could not be read."""
        if self._latest is None:
            return None
        counts = {"arrays": self._arrays, "unreadable": len(self._warned)}
        return {**self._latest, **counts, "waiting": self._planner.waiting}

    def partitions(self, start: Offset, end: Offset) -> Sequence[InputPartition]:
        """Tell what is new between two offsets, a few arrays to a task."""
        return self._planner.partitions(start, end)

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Give the rows of one partition."""
        assert isinstance(partition, ArrayPartition)
        for table in read_arrays(partition, self.options):
            # Fields of an array may be called as columns of ms are.
            told = table if self.options.table == "changes" else twinned(table)
            yield from choose(self.options, told).to_batches(BATCH_ROWS)

    def _tell(self, problems: Mapping[str, str]) -> None:
        warnings = {place: f"{place} {why}" for place, why in problems.items()}
        for place, warning in warnings.items():
            if self._warned.get(place) != warning:
                _log.warning("left for a later batch: %s", warning)
        self._warned = warnings
