"""Jobs of Spark that one bad item cannot end.

In: a function, and items that it is called with, a task each. Out: what came of each, however
many processes died on the way. Knows nothing of what the items are.

Spark ends a job once one of its tasks has died a few times, as when memory runs out, and all that
the others gave is lost. Here every task tells the driver by itself when it is done. An item whose
task has died is split, its pieces are run, and so on down to what cannot be split; that is run
once more alone, and then given up. Everything else goes on.

An error that the function raises is no death: it is tried once more, and then ends the job.
"""

from __future__ import annotations

import re
import threading
import uuid
from dataclasses import dataclass
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
"""How often an item is tried whose function raises."""
# A task that dies leaves no traceback of Python; one that raises before it gets to the function,
# as where this package is not installed, does, and so would every other.
_DIED = re.compile(r"Task (\d+) in stage [\d.]+ failed \d+ times?")
_RAISED = "api.python.PythonException"


class TaskError(RuntimeError):
    """A task raised what is not an error of ours."""


class Told(NamedTuple):
    """What one task has to tell."""

    value: Any
    error: ChronotileError | str | None = None


class _Unit(NamedTuple):
    """One item, and how often it was tried."""

    item: Any
    tries: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Care(Generic[T, R]):
    """What is done about items whose tasks die."""

    split: Callable[[T], Sequence[T]]
    """Smaller items that are the same together; none if it cannot be split."""
    give_up: Callable[[T], R]
    """What stands for an item that kills its task even alone; it may raise."""


def run_job(
    spark: SparkSession,
    work: Callable[[T], R],
    items: Sequence[T],
    progress: Callable[[int, int], None] | None = None,
    care: Care[T, R] | None = None,
) -> list[R]:
    """Does something to each item, a task each, and gives what came of it, in no order.

    Args:
        spark: The session.
        work: A function that can be pickled.
        items: What it is given.
        progress: Called now and then with (tasks done, tasks in all).
        care: What is done about items whose tasks die; without it one of them ends the job.

    Raises:
        ChronotileError: The function raised it.
        TaskError: It raised something else.
    """
    if not items:
        return []
    done: list[R] = []
    groups = [[_Unit(item) for item in items]]
    while groups:
        group = groups.pop()
        if not group:
            continue
        shown = _Shown(progress, len(done), len(done) + len(group) + sum(map(len, groups)))
        told, death = _run(spark, work, [unit.item for unit in group], shown)
        at, cause = death or (None, None)
        left = [unit for n, unit in enumerate(group) if n not in told and n != at]
        for index, one in told.items():
            if one.error is None:
                done.append(one.value)
            elif group[index].tries + 1 < _ATTEMPTS:
                left.append(group[index]._replace(tries=group[index].tries + 1))
            else:
                raise _raised(one.error)
        groups.append(left)
        if at is None or cause is None or at in told:
            continue
        if care is None:
            raise cause
        culprit = group[at]
        pieces = care.split(culprit.item)
        if pieces:
            groups.append([_Unit(piece) for piece in pieces])
        elif len(group) > 1:
            groups.append([culprit])
        else:
            done.append(care.give_up(culprit.item))
    if progress is not None:
        progress(len(done), len(done))
    return done


class _Gathered(AccumulatorParam[dict[int, Told]]):
    """Adds up what tasks tell; Spark adds what a task told once, and only if it ended well."""

    def zero(self, value: dict[int, Told]) -> dict[int, Told]:
        del value
        return {}

    def addInPlace(  # noqa: N802 - Spark's name
        self, value1: dict[int, Told], value2: dict[int, Told]
    ) -> dict[int, Told]:
        value1.update(value2)
        return value1


def _tell(work: Callable[[T], R], item: T) -> Told:
    try:
        return Told(work(item))
    except ChronotileError as error:
        return Told(None, error)
    except Exception as error:  # sent to the driver, which raises it
        return Told(None, words(error))


def _raised(error: ChronotileError | str) -> Exception:
    return error if isinstance(error, ChronotileError) else TaskError(error)


class _Shown(NamedTuple):
    """Where a job stands in the whole."""

    progress: Callable[[int, int], None] | None
    before: int
    total: int


def _run(
    spark: SparkSession, work: Callable[[T], R], items: list[T], shown: _Shown
) -> tuple[dict[int, Told], tuple[int, Exception] | None]:
    """Runs one job; gives what its tasks told, and which of them died, if one did."""
    context = spark.sparkContext
    gathered = context.accumulator({}, _Gathered())

    def each(pair: tuple[int, T]) -> None:
        index, item = pair
        gathered.add({index: _tell(work, item)})

    group = f"chronotile-{uuid.uuid4().hex}"
    context.setJobGroup(group, "chronotile", interruptOnCancel=False)
    over = threading.Event()
    watcher = threading.Thread(target=_watch, args=(context, group, shown, over), daemon=True)
    if shown.progress is not None:
        watcher.start()
    death = None
    try:
        context.parallelize(list(enumerate(items)), len(items)).foreach(each)
    except Exception as cause:
        context.cancelJobGroup(group)
        found = _DIED.search(str(cause))
        if found is None or _RAISED in str(cause):
            raise
        death = int(found[1]), cause
    except BaseException:
        context.cancelJobGroup(group)
        raise
    finally:
        context.setLocalProperty("spark.jobGroup.id", None)  # type: ignore[arg-type]  # unsets it
        over.set()
        if shown.progress is not None:
            watcher.join()
    return dict(gathered.value), death


def _watch(context: SparkContext, group: str, shown: _Shown, over: threading.Event) -> None:
    tracker = context.statusTracker()
    while not over.wait(_POLL_S):
        done = 0
        for job in tracker.getJobIdsForGroup(group):
            info = tracker.getJobInfo(job)
            for stage in info.stageIds if info else ():
                details = tracker.getStageInfo(stage)
                done += details.numCompletedTasks if details else 0
        if shown.progress is not None:
            shown.progress(min(shown.before + done, shown.total), shown.total)
