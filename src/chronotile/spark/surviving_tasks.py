"""Jobs of Spark that one bad item cannot end.

In: a function, and items: one task calls it with one item. Out: the results, however many processes
died on the way. Knows nothing of what the items are.

Spark ends a job when one of its tasks has died a few times, as when memory runs out, and loses what
the other tasks returned. Here every task sends its result to the driver when it is done. An item
whose task has died is split, and its pieces run, and so on down to an item that cannot be split;
that runs once more alone, and is then given up. Everything else goes on.

An error that the function raises is no death: the item is tried once more, and then the job ends.
"""

from __future__ import annotations

import re
import threading
import uuid
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, Generic, NamedTuple, TypeVar

from pyspark.accumulators import AccumulatorParam

from chronotile.dataset.check_all import words
from chronotile.errors import ChronotileError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from pyspark import SparkContext
    from pyspark.sql import SparkSession

T = TypeVar("T")
R = TypeVar("R")

_POLL_S = 0.2
_ATTEMPTS = 2
"""How often to try an item if the function raises."""
# A task that dies leaves no traceback of Python. One that raises before it calls the function, as
# without this package, leaves one, and so would every other task.
_DIED = re.compile(r"Task (\d+) in stage [\d.]+ failed \d+ times?")
_RAISED = "api.python.PythonException"


class TaskError(RuntimeError):
    """A task raised an error that is not ours."""


class Result(NamedTuple):
    """What one task returned, or raised."""

    value: Any
    error: Exception | None = None


class _Unit(NamedTuple):
    """One item, and how often the function has raised on it."""

    item: Any
    tries: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Care(Generic[T, R]):
    """What to do with items whose tasks die."""

    split: Callable[[T], Sequence[T]]
    """Splits an item into smaller ones; none if it cannot be split."""
    give_up: Callable[[T], R]
    """Makes the result of an item that kills its task even alone; it may raise."""


def run_job(
    spark: SparkSession,
    work: Callable[[T], R],
    items: Sequence[T],
    progress: Callable[[int, int], None],
    care: Care[T, R] | None = None,
) -> list[R]:
    """Calls a function with each item, in a task each, and returns the results in any order.

    Args:
        spark: The session.
        work: The function; it can be pickled.
        items: The items.
        progress: Called now and then with (tasks done, all tasks).
        care: What to do with items whose tasks die; without it, a death ends the job.

    Raises:
        ChronotileError: The function raised it.
        TaskError: The function raised another error.
    """
    if not items:
        return []
    done: list[R] = []
    groups = [[_Unit(item) for item in items]]
    while groups:
        group = groups.pop()
        if not group:
            continue
        total = len(done) + len(group) + sum(map(len, groups))
        show = partial(_show, progress, len(done), total)
        results, death = _run(spark, work, [unit.item for unit in group], show)
        died, cause = death or (None, None)
        left = [unit for n, unit in enumerate(group) if n not in results and n != died]
        for index, result in results.items():
            if result.error is None:
                done.append(result.value)
            elif group[index].tries + 1 < _ATTEMPTS:
                left.append(group[index]._replace(tries=group[index].tries + 1))
            else:
                raise result.error
        groups.append(left)
        if died is None or cause is None or died in results:
            continue
        if care is None:
            raise cause
        culprit = group[died]
        pieces = care.split(culprit.item)
        if pieces:
            groups.append([_Unit(piece) for piece in pieces])
        elif len(group) > 1:
            groups.append([culprit])
        else:
            done.append(care.give_up(culprit.item))
    progress(len(done), len(done))
    return done


def _show(progress: Callable[[int, int], None], before: int, total: int, running: int) -> None:
    progress(min(before + running, total), total)


class _Results(AccumulatorParam[dict[int, Result]]):
    """Gathers results: Spark adds that of a task once, and only if the task ended well."""

    def zero(self, value: dict[int, Result]) -> dict[int, Result]:
        del value
        return {}

    def addInPlace(  # noqa: N802 - Spark's name
        self, value1: dict[int, Result], value2: dict[int, Result]
    ) -> dict[int, Result]:
        value1.update(value2)
        return value1


def _result(work: Callable[[T], R], item: T) -> Result:
    try:
        return Result(work(item))
    except ChronotileError as error:
        return Result(None, error)
    except Exception as error:  # the driver raises it
        return Result(None, TaskError(words(error)))


def _run(
    spark: SparkSession, work: Callable[[T], R], items: list[T], show: Callable[[int], None]
) -> tuple[dict[int, Result], tuple[int, Exception] | None]:
    """Runs one job; returns the results, and which task died, if one did."""
    context = spark.sparkContext
    results = context.accumulator({}, _Results())

    def each(pair: tuple[int, T]) -> None:
        index, item = pair
        results.add({index: _result(work, item)})

    group = f"chronotile-{uuid.uuid4().hex}"
    context.setJobGroup(group, "chronotile", interruptOnCancel=False)
    over = threading.Event()
    watcher = threading.Thread(target=_watch, args=(context, group, show, over), daemon=True)
    watcher.start()
    death = None
    try:
        context.parallelize(list(enumerate(items)), len(items)).foreach(each)
    except BaseException as cause:
        context.cancelJobGroup(group)
        died = _DIED.search(str(cause))
        if not isinstance(cause, Exception) or died is None or _RAISED in str(cause):
            raise
        death = int(died[1]), cause
    finally:
        context.setLocalProperty("spark.jobGroup.id", None)  # type: ignore[arg-type]  # unsets it
        over.set()
        watcher.join()
    return dict(results.value), death


def _watch(
    context: SparkContext, group: str, show: Callable[[int], None], over: threading.Event
) -> None:
    tracker = context.statusTracker()
    while not over.wait(_POLL_S):
        done = 0
        for job in tracker.getJobIdsForGroup(group):
            info = tracker.getJobInfo(job)
            for stage in info.stageIds if info else ():
                details = tracker.getStageInfo(stage)
                done += details.numCompletedTasks if details else 0
        show(done)
