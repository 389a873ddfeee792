"""Streams of commits.

In: options, and offsets from Spark. Out: every new commit once, also one that is dated in the
past, across restarts. `stream_state` keeps what was read; each task opens the arrays that it reads.

A batch is planned from listings: an array whose listing is as it was is not opened. A commit is
new if its name is; that it moves from a file of its own into a `.con` makes it no new commit. An
array that cannot be read is told in the driver's log, once for each way in which it fails, and
left for a later batch. A commit that is vacuumed away between plan
and reading, is gone from the log and from the stream.
"""

from __future__ import annotations

import logging
import operator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
from pyspark.sql.datasource import DataSourceStreamReader, InputPartition

from chronotile.dataset.check_all import words
from chronotile.dataset.find_arrays import CONCURRENCY
from chronotile.errors import ArrayNotFoundError, ChronotileError
from chronotile.format.kinds import COMMIT_WORDS, EXTENSIONS
from chronotile.format.timestamps import now_ms
from chronotile.history import text_columns
from chronotile.history.listing import list_array
from chronotile.spark.read_share import BATCH_ROWS, open_array
from chronotile.spark.shares import find_fleet
from chronotile.spark.stream_state import less, listing_mark, marks, memory_of
from chronotile.spark.tables import Rows
from chronotile.storage.store import open_store
from chronotile.visibility.rules import overlaps

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from chronotile.log import Log
    from chronotile.spark.options import Options
    from chronotile.spark.stream_state import Marks, Offset, Seen

_log = logging.getLogger(__name__)

COMMITS_IN_PARTITION = 1 << 17
ARRAYS_IN_PARTITION = 64


@dataclass
class CommitPartition(InputPartition):
    """Arrays, each with the commits that one task gives."""

    commits: tuple[tuple[str, bytes], ...]


def commit_marks(log: Log) -> Marks:
    """The mark of each commit record of a log, row by row."""
    table = log.history.table
    names = text_columns.names(table, np.arange(len(table))).to_pylist()
    ends = [EXTENSIONS[ext] for ext in table.uris.ext.tolist()]
    return marks(map(operator.add, names, ends))


class CommitStream(DataSourceStreamReader):
    """Plans and reads the batches of one stream."""

    def __init__(self, options: Options) -> None:
        self.options = options
        self._memory = memory_of(options)
        self._found: dict[str, tuple[str | None, Marks]] = {}
        """Array -> (mark of its listing, its commits) when it was last looked at."""
        self._told: dict[str, str] = {}
        """What could not be read at the last look -> what was said of it."""

    def initialOffset(self) -> Offset:  # noqa: N802 - Spark's name
        """Before all commits: the first batch brings what is there."""
        return self._memory.first()

    def latestOffset(self, start: Offset | None = None, limit: object = None) -> Offset:  # noqa: N802
        """The end of the next batch; the start, if there is nothing new.

        Spark gives the start from version 4.2 on; before that the folder tells it.
        """
        del limit
        if start is None:
            start = self._memory.latest()
        if start is None:
            problem = "expected a folder, as Spark before 4.2 does not say where a batch starts"
            raise ChronotileError("option 'state'", problem)
        planned = self._memory.planned(start)
        if planned is not None:
            return planned
        new = less(self._all_commits(), self._memory.seen(start))
        return self._memory.plan(start, new) if new else start

    def partitions(self, start: Offset, end: Offset) -> Sequence[InputPartition]:
        """The commits between two offsets, a few arrays to a task."""
        new = less(self._memory.seen(end), self._memory.seen(start))
        return [CommitPartition(tuple(group)) for group in _groups(new)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """The rows of some commits."""
        assert isinstance(partition, CommitPartition)
        for array, wanted in partition.commits:
            try:
                log = open_array(array, self.options)
            except ArrayNotFoundError as error:
                _log.warning("%s: its new commits are gone with it", error)
                continue
            table = _rows(log, np.frombuffer(wanted, np.uint64), self.options)
            yield from table.to_batches(BATCH_ROWS)

    def _all_commits(self) -> Seen:
        fleet = find_fleet(self.options, weigh=False)
        uris = fleet.uris
        with ThreadPoolExecutor(CONCURRENCY, thread_name_prefix="chronotile-stream") as pool:
            found = dict(zip(uris, pool.map(self._commits, uris), strict=True))
        failed = {array: got for array, got in found.items() if isinstance(got, str)}
        failed |= {one.uri: f"{one.uri} cannot be listed: {one.message}" for one in fleet.problems}
        for place, said in failed.items():
            if self._told.get(place) != said:
                _log.warning("left for a later batch: %s", said)
        self._told = failed
        return {array: got for array, got in found.items() if not isinstance(got, str)}

    def _commits(self, array: str) -> Marks | str:
        """The commits of an array, or why they cannot be told."""
        try:
            store, began_ms = open_store(array, self.options.storage_options), now_ms()
            mark = listing_mark(store, list_array(store), began_ms)
            known = self._found.get(array)
            if known is None or mark is None or known[0] != mark:
                log = open_array(array, self.options)
                mark = listing_mark(store, log.history.listing, began_ms)
                known = (mark, np.unique(commit_marks(log)))
                self._found[array] = known
        except Exception as error:  # one array, whatever comes of it, never stops the others
            return f"{array} cannot be read: {words(error)}"
        return known[1]


def _groups(new: Seen) -> Iterator[list[tuple[str, bytes]]]:
    group: list[tuple[str, bytes]] = []
    room = COMMITS_IN_PARTITION
    for array, wanted in sorted(new.items()):
        if group and (len(wanted) > room or len(group) == ARRAYS_IN_PARTITION):
            yield group
            group, room = [], COMMITS_IN_PARTITION
        group.append((array, wanted.tobytes()))
        room -= len(wanted)
    if group:
        yield group


def _rows(log: Log, wanted: Marks, options: Options) -> pa.Table:
    """The rows of the wanted commits, one each."""
    if options.table == "conditions":
        table = Rows(log, options.start, options.end).table("conditions")
        ends = dict(zip(COMMIT_WORDS, EXTENSIONS, strict=True))
        pairs = zip(table["name"].to_pylist(), table["kind"].to_pylist(), strict=True)
        return table.filter(pa.array(np.isin(marks(n + ends[k] for n, k in pairs), wanted)))
    found, uris = commit_marks(log), log.history.table.uris
    chosen = np.zeros(len(found), bool)
    chosen[np.unique(found, return_index=True)[1]] = True
    chosen &= np.isin(found, wanted) & overlaps(uris.t1, uris.t2, options.start, options.end)
    return Rows(log).table("commits").filter(pa.array(chosen))
