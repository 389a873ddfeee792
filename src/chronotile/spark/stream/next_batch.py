"""How the driver of a stream chooses the next batch.

In: the offset that a batch begins at, a look at the fleet, and the most arrays that it may have.
Out: the offset that it ends at, and the partitions between two offsets. The driver opens nothing:
it plans arrays whose commit files have changed, and tasks find out what is new.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from chronotile.spark.source.shares import packed
from chronotile.spark.stream.batch_plans import INDEX_EVERY, Plans
from chronotile.spark.stream.task import ArrayPartition

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyspark.sql.datasource import InputPartition

    from chronotile.spark.source.options import Options
    from chronotile.spark.stream.batch_plans import Index
    from chronotile.spark.stream.changed_arrays import Look
    from chronotile.spark.stream.offsets import Offset

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
        """The offset before the first batch."""
        return self._plans.first()

    def latest(self) -> Offset:
        """The last batch that was planned."""
        return self._plans.latest()

    def planned(self, start: Offset) -> Offset | None:
        """The next batch, if it was planned before."""
        return self._plans.planned(start)

    def next(self, start: Offset, look: Look, most: int | None) -> Offset:
        """The end of the next batch; the start, if there is nothing new."""
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

    def _changed(self, index: Index, look: Look) -> list[str]:
        """The arrays that may have something new, those that have waited longest first."""
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

    def _tidy(self, number: int, look: Look) -> None:
        if number % INDEX_EVERY == 0 and number > self._tidied:
            self._plans.tidy(number, look.marks if look.complete else None)
            self._tidied = number

    def partitions(self, start: Offset, end: Offset) -> Sequence[InputPartition]:
        """The arrays between two offsets, a few to a task."""
        groups = packed(self._plans.batch(start, end), ARRAYS_IN_PARTITION)
        return [ArrayPartition(int(end["batch"]), group) for group in groups]
