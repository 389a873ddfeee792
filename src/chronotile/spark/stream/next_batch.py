"""How the driver of a stream chooses the next batch.

In: the offset that a batch begins at, a look at the fleet, and the most arrays that it may have.
Out: the offset that it ends at, and the partitions between two offsets. There is a planner for each
place of the state:

- `OffsetPlanner`: in the offset. The driver opens arrays that have changed, to know their commits;
  it has to hold them all anyway, and there are 100,000 at most.
- `FolderPlanner`: in a folder. The driver opens nothing: it plans arrays whose commit files have
  changed, and tasks find out what is new.
"""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, TypeAlias

import numpy as np

from chronotile.dataset.check_all import words
from chronotile.dataset.find_arrays import CONCURRENCY
from chronotile.errors import ChronotileError
from chronotile.spark.source.read_share import open_array
from chronotile.spark.source.shares import packed
from chronotile.spark.stream.batch_plans import INDEX_EVERY, Plans
from chronotile.spark.stream.offsets import OffsetMemory, without
from chronotile.spark.stream.task import ArrayPartition, CommitPartition, contents

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from pyspark.sql.datasource import InputPartition

    from chronotile.spark.source.options import Options
    from chronotile.spark.stream.batch_plans import Index
    from chronotile.spark.stream.changed_arrays import Look
    from chronotile.spark.stream.offsets import Hashes, Offset, Seen

    Planner: TypeAlias = "OffsetPlanner | FolderPlanner"

COMMITS_IN_PARTITION = 1 << 17
ARRAYS_IN_PARTITION = 64
RETRY_S = 60.0
"""Seconds between two tries at an array that cannot be read."""


def planner_of(options: Options) -> Planner:
    """The planner for the place that the options name."""
    return OffsetPlanner(options) if options.state is None else FolderPlanner(options)


class OffsetPlanner:
    """Plans commits."""

    def __init__(self, options: Options) -> None:
        self._options = options
        self._memory = OffsetMemory()
        self._known: dict[str, tuple[str, Hashes]] = {}
        """Array -> its mark, and its commits, as last read."""
        self._turns: dict[str, int] = {}
        """Array -> when it had its last turn."""
        self.problems: dict[str, str] = {}
        """Array that could not be read -> why."""
        self.waiting = 0
        """Arrays with something new that are left for a later batch."""

    def first(self) -> Offset:
        """The offset before all commits."""
        return self._memory.first()

    def latest(self) -> Offset:
        """Only Spark knows the last offset."""
        problem = "expected a folder, as Spark before 4.2 does not say where a batch starts"
        raise ChronotileError("option 'state'", problem)

    def planned(self, start: Offset) -> Offset | None:
        """None: nothing is kept outside of the offset."""
        self._memory.seen(start)
        return None

    def next(self, start: Offset, look: Look, most: int | None) -> Offset:
        """The end of the next batch; the start, if there is nothing new."""
        present = self._commits(look.marks)
        new = without(present, self._memory.seen(start))
        chosen = sorted(new, key=lambda array: (self._turns.get(array, 0), array))[:most]
        self.waiting = len(new) - len(chosen)
        turn = max(self._turns.values(), default=0) + 1
        self._turns |= dict.fromkeys(chosen, turn)
        if not chosen:
            return start
        return self._memory.plan(start, {array: new[array] for array in chosen}, present)

    def partitions(self, start: Offset, end: Offset) -> Sequence[InputPartition]:
        """The commits between two offsets, a few arrays to a task."""
        return commit_partitions(without(self._memory.seen(end), self._memory.seen(start)))

    def _commits(self, marks: Mapping[str, str]) -> Seen:
        stale = [a for a, mark in marks.items() if self._known.get(a, ("",))[0] != mark]
        with ThreadPoolExecutor(CONCURRENCY, thread_name_prefix="chronotile-stream") as pool:
            outcomes = dict(zip(stale, pool.map(self._opened, stale), strict=True))
        self.problems = {a: one for a, one in outcomes.items() if isinstance(one, str)}
        self._known |= {
            a: (marks[a], one) for a, one in outcomes.items() if not isinstance(one, str)
        }
        return {a: self._known[a][1] for a in marks if a in self._known and a not in self.problems}

    def _opened(self, array: str) -> Hashes | str:
        try:
            return np.unique(contents(open_array(array, self._options), self._options)[0])
        except Exception as error:  # one bad array must not stop the others
            return f"cannot be read: {words(error)}"


class FolderPlanner:
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
        batch = self._plans.batch(start, end)
        if isinstance(batch, dict):
            return commit_partitions(batch)
        return [
            ArrayPartition(int(end["batch"]), group) for group in packed(batch, ARRAYS_IN_PARTITION)
        ]


def commit_partitions(new: Seen) -> Sequence[InputPartition]:
    """Commits, a few arrays to a task."""
    items = sorted(new.items())
    groups = packed(items, ARRAYS_IN_PARTITION, lambda pair: len(pair[1]), COMMITS_IN_PARTITION)
    return [CommitPartition(tuple((a, h.tobytes()) for a, h in group)) for group in groups]
