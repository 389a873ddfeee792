"""Jobs of Spark that one bad item cannot end.

In: a function, and items: one task calls it with one item. Out: the results, however many processes
died on the way. Knows nothing of what the items are, and runs on Spark Connect as well.

Spark ends a job when one of its tasks has died a few times, as when memory runs out, and loses what
the other tasks returned. Here every task leaves its result in a folder when it is done. An item
whose task has died is split, and its pieces run, and so on down to an item that cannot be split;
that runs once more alone, and is then given up. Everything else goes on.

An error that the function raises is no death: the item is tried once more, and then the job ends.
"""

from __future__ import annotations

import pickle
import re
import threading
import uuid
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, Generic, NamedTuple, TypeVar

from chronotile.dataset.check_all import words
from chronotile.errors import ChronotileError
from chronotile.spark.frames import in_tasks
from chronotile.storage.store import ObjectExistsError, Store

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from pyspark.sql import SparkSession

T = TypeVar("T")
R = TypeVar("R")

_POLL_S = {"quick": 0.2, "slow": 2.0}
"""Pace -> seconds between two looks at how many tasks are done; those at a bucket cost money."""
_ATTEMPTS = 2
"""How often to try an item if the function raises."""
# A task that dies leaves no traceback of Python. One that raises before it calls the function, as
# without this package, leaves one, and so would every other task.
_DIED = re.compile(r"Task (\d+) in stage [\d.]+ failed \d+ times?")
_RAISED = "api.python.PythonException"
_ERROR = re.compile(r"[A-Za-z_][\w.]*(Error|Exception|Exit|Interrupt): ")


class TaskError(RuntimeError):
    """A task raised an error that is not ours."""


class Results(NamedTuple):
    """Where the tasks of a job leave what they return."""

    store: Store
    folder: str

    def new(self) -> Results:
        """A folder of its own."""
        return Results(self.store, f"{self.folder}/{uuid.uuid4().hex}")

    def put(self, index: int, data: bytes) -> None:
        """Leaves the result of an item; the first one counts if the task runs twice."""
        with suppress(ObjectExistsError):
            self.store.put_if_absent(f"{self.folder}/{index}", data)

    def indices(self) -> list[int]:
        """The items that are done."""
        names = self.store.list_names(self.folder).files
        return [int(name) for name in names if name.isdigit()]

    def read(self) -> dict[int, Result]:
        """Item -> its result."""
        paths = [f"{self.folder}/{index}" for index in self.indices()]
        found = {}
        for path, data in self.store.read_many(paths):
            if isinstance(data, ChronotileError):
                raise data
            found[int(path.rpartition("/")[2])] = _load(data)
        return found


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
    results: Results,
    care: Care[T, R] | None = None,
) -> list[R]:
    """Calls a function with each item, in a task each, and returns the results in any order.

    Args:
        spark: The session.
        work: The function; it can be pickled.
        items: The items.
        progress: Called now and then with (tasks done, all tasks).
        results: A folder for what tasks return.
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
        found, death = _run(spark, work, [unit.item for unit in group], show, results.new())
        died, cause = death or (None, None)
        left = [unit for n, unit in enumerate(group) if n not in found and n != died]
        for index, result in found.items():
            if result.error is None:
                done.append(result.value)
            elif group[index].tries + 1 < _ATTEMPTS:
                left.append(group[index]._replace(tries=group[index].tries + 1))
            else:
                raise result.error
        groups.append(left)
        if died is None or cause is None or died in found:
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


def _result(work: Callable[[T], R], item: T) -> Result:
    try:
        return Result(work(item))
    except ChronotileError as error:
        return Result(None, error)
    except Exception as error:  # the driver raises it
        return Result(None, TaskError(words(error)))


def _load(data: bytes) -> Result:
    # This package's own tasks wrote it, in a folder of this run.
    loaded: Result = pickle.loads(data)
    return loaded


def _run(
    spark: SparkSession,
    work: Callable[[T], R],
    items: list[T],
    show: Callable[[int], None],
    results: Results,
) -> tuple[dict[int, Result], tuple[int, Exception] | None]:
    """Runs one job; returns the results, and which task died, if one did."""

    def each(index: int) -> bytes:
        data = pickle.dumps(_result(work, items[index]))
        results.put(index, data)
        return data

    tag = f"chronotile-{uuid.uuid4().hex}"
    spark.addTag(tag)
    over = threading.Event()
    watcher = threading.Thread(target=_watch, args=(results, show, over), daemon=True)
    watcher.start()
    try:
        found = in_tasks(spark, len(items), each)
    except BaseException as cause:
        spark.interruptTag(tag)
        died = _DIED.search(str(cause))
        if not isinstance(cause, Exception) or died is None or _RAISED in str(cause):
            raise
        return results.read(), (int(died[1]), cause)
    finally:
        spark.removeTag(tag)
        over.set()
        watcher.join()
    return {index: _load(data) for index, data in found}, None


def _watch(results: Results, show: Callable[[int], None], over: threading.Event) -> None:
    pause_s = _POLL_S[results.store.traits.pace]
    while not over.wait(pause_s):
        with suppress(ChronotileError):
            show(len(results.indices()))


def last_error(cause: Exception) -> str:
    """The error of a task, out of the traceback that Spark passes on."""
    lines = [line for line in str(cause).splitlines() if line.strip()]
    errors = [line for line in lines if _ERROR.match(line)]
    return (errors or lines or [type(cause).__name__])[-1][:500]
