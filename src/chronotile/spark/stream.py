"""Streams of commits.

In: options, and offsets from Spark. Out: every new commit once, also one that is dated in the
past, across restarts. `stream_state` keeps what was read; each task opens the arrays that it reads.

Listings plan a batch: an array with an unchanged listing is not opened. A commit is new if its name
is new; a commit that moves from a file of its own into a `.con` is not. An array that cannot be
read is left for a later batch; the driver's log says so, once for each error. A commit that is
vacuumed away between plan and reading is gone from the log and from the stream.
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
from chronotile.spark.shares import find_fleet, packed
from chronotile.spark.stream_state import hashes, listing_fingerprint, memory_of, without
from chronotile.spark.tables import ArrayTables
from chronotile.storage.store import open_store
from chronotile.visibility.rules import overlaps

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from chronotile.log import Log
    from chronotile.spark.options import Options
    from chronotile.spark.stream_state import Hashes, Offset, Seen

_log = logging.getLogger(__name__)

COMMITS_IN_PARTITION = 1 << 17
ARRAYS_IN_PARTITION = 64


@dataclass
class CommitPartition(InputPartition):
    """The arrays of one task, each with the hashes of the commits to read."""

    commits: tuple[tuple[str, bytes], ...]


def commit_hashes(log: Log) -> Hashes:
    """The hash of each commit record of a log, row by row."""
    table = log.history.table
    names = text_columns.names(table, np.arange(len(table))).to_pylist()
    extensions = [EXTENSIONS[ext] for ext in table.uris.ext.tolist()]
    return hashes(map(operator.add, names, extensions))


class CommitStream(DataSourceStreamReader):
    """Plans and reads the batches of one stream."""

    def __init__(self, options: Options) -> None:
        self.options = options
        self._memory = memory_of(options)
        self._known: dict[str, tuple[str | None, Hashes]] = {}
        """Array -> (fingerprint of its listing, its commits) as last read."""
        self._warned: dict[str, str] = {}
        """Array or folder that could not be read last time -> the warning."""

    def initialOffset(self) -> Offset:  # noqa: N802 - Spark's name
        """The offset before all commits: the first batch brings all that exist."""
        return self._memory.first()

    def latestOffset(self, start: Offset | None = None, limit: object = None) -> Offset:  # noqa: N802
        """The end of the next batch; the start, if there is nothing new.

        Spark passes the start from version 4.2 on; before that the folder tells it.
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
        new = without(self._all_commits(), self._memory.seen(start))
        return self._memory.plan(start, new) if new else start

    def partitions(self, start: Offset, end: Offset) -> Sequence[InputPartition]:
        """The commits between two offsets, a few arrays to a task."""
        new = sorted(without(self._memory.seen(end), self._memory.seen(start)).items())
        groups = packed(new, ARRAYS_IN_PARTITION, lambda pair: len(pair[1]), COMMITS_IN_PARTITION)
        return [CommitPartition(tuple((a, h.tobytes()) for a, h in group)) for group in groups]

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
            commits = dict(zip(uris, pool.map(self._commits, uris), strict=True))
        warnings = {array: one for array, one in commits.items() if isinstance(one, str)}
        warnings |= {p.uri: f"{p.uri} cannot be listed: {p.message}" for p in fleet.problems}
        for place, warning in warnings.items():
            if self._warned.get(place) != warning:
                _log.warning("left for a later batch: %s", warning)
        self._warned = warnings
        return {array: one for array, one in commits.items() if not isinstance(one, str)}

    def _commits(self, array: str) -> Hashes | str:
        """The commits of an array, or a warning if it cannot be read."""
        try:
            store, began_ms = open_store(array, self.options.storage_options), now_ms()
            fingerprint = listing_fingerprint(store, list_array(store), began_ms)
            known = self._known.get(array)
            if known is None or fingerprint is None or known[0] != fingerprint:
                log = open_array(array, self.options)
                fingerprint = listing_fingerprint(store, log.history.listing, began_ms)
                known = self._known[array] = (fingerprint, np.unique(commit_hashes(log)))
        except Exception as error:  # one bad array must not stop the others
            return f"{array} cannot be read: {words(error)}"
        return known[1]


def _rows(log: Log, wanted: Hashes, options: Options) -> pa.Table:
    """The rows of the wanted commits, one each."""
    if options.table == "conditions":
        table = ArrayTables(log, options.start, options.end).table("conditions")
        extensions = dict(zip(COMMIT_WORDS, EXTENSIONS, strict=True))
        pairs = zip(table["name"].to_pylist(), table["kind"].to_pylist(), strict=True)
        own = hashes(name + extensions[kind] for name, kind in pairs)
        return table.filter(pa.array(np.isin(own, wanted)))
    own, uris = commit_hashes(log), log.history.table.uris
    chosen = np.zeros(len(own), bool)
    chosen[np.unique(own, return_index=True)[1]] = True
    chosen &= np.isin(own, wanted) & overlaps(uris.t1, uris.t2, options.start, options.end)
    return ArrayTables(log).table("commits").filter(pa.array(chosen))
