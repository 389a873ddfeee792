"""Streams of commits, of conditions, and of findings.

In: options, and offsets from Spark. Out: every new row once, also one that is dated in the past,
across restarts. `changed_arrays` looks which ones have changed, a planner (`next_batch`)
chooses the next batch, tasks (`task`) open its arrays.

A commit is new if its name is new; a commit that moves from a file of its own into a `.con` is not.
An array that cannot be read is left for a later batch. It is told in the driver's log, once for
each error, in the progress of the query (`latestOffset`), and by a row in a stream of findings. A
commit that is vacuumed away between plan and reading is gone from the log and from the stream.

A batch has at most `maxArraysPerTrigger` arrays, those first that have waited longest. The trigger
AvailableNow reads, in as many batches as it takes, what a look at its beginning has found changed.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from pyspark.sql.datasource import DataSourceStreamReader

from chronotile.spark.source.chosen_columns import choose
from chronotile.spark.stream.changed_arrays import Watch
from chronotile.spark.stream.next_batch import Planner
from chronotile.spark.stream.task import ArrayPartition, read_arrays
from chronotile.tables.array_tables import BATCH_ROWS
from chronotile.tables.time_twins import twinned

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    import pyarrow as pa
    from pyspark.sql.datasource import InputPartition

    from chronotile.spark.source.options import Options
    from chronotile.spark.stream.changed_arrays import Look
    from chronotile.spark.stream.offsets import Offset

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
        self._target: Look | None = None
        """What AvailableNow has found at its beginning."""
        self._latest: Offset | None = None
        self._arrays = 0
        self._warned: dict[str, str] = {}
        """Array or folder that could not be read last time -> the warning."""

    def initialOffset(self) -> Offset:  # noqa: N802 - Spark's name
        """The offset before all commits: the first batch brings all that exist."""
        return self._planner.first()

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802
        """The most arrays of a batch; Spark knows limits on files, rows and bytes only."""
        most = self.options.max_arrays
        return ReadAllAvailable() if most is None else ReadMaxFiles(most)

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802
        """Looks once; what changes later is left for the next query."""
        self._target = self._watch.look()

    def latestOffset(self, start: Offset | None = None, limit: object = None) -> Offset:  # noqa: N802
        """The end of the next batch; the start, if there is nothing new.

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
        """What the progress of the query shows: the offset, and how much could not be read."""
        if self._latest is None:
            return None
        counts = {"arrays": self._arrays, "unreadable": len(self._warned)}
        return {**self._latest, **counts, "waiting": self._planner.waiting}

    def partitions(self, start: Offset, end: Offset) -> Sequence[InputPartition]:
        """What is new between two offsets, a few arrays to a task."""
        return self._planner.partitions(start, end)

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """The rows of one partition."""
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
