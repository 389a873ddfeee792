"""Jobs of Spark that one bad item cannot end.

In: a function, and items: one task calls it with one item; perhaps a second function that gets all
results. Out: what that returns, or the results, however many processes died on the way. Knows
nothing of what the items are; without a session, a few processes of this machine run them.

A job is a write of Spark's: its tasks work, and its commit, which Spark calls once on its driver,
ends it. Spark ends a job when one of its tasks has died a few times, as when memory runs out, and
loses what the other tasks returned. So every task leaves its result, as JSON, in a folder. An item
whose task has died is split, and its pieces run, down to an item that cannot be split; that runs
once more alone, and another item then takes its place. The job that has no item left to run after
it commits for all of them.

An error that the function raises is no death: it ends the job.
"""

from __future__ import annotations

import dataclasses
import json
import multiprocessing
import os
import pickle
import re
import threading
import uuid
from concurrent.futures import ProcessPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, Generic, NamedTuple, TypeVar

import pyarrow as pa

from chronotile.check.findings import error_words
from chronotile.errors import ChronotileError
from chronotile.storage.store import ObjectExistsError, Store

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from pyspark.sql import SparkSession


T = TypeVar("T")
U = TypeVar("U")

_POLL_S = {"quick": 0.2, "slow": 2.0}
"""Pace -> seconds between two looks at how many tasks are done; those at a bucket cost money."""
KILLED = "each process that tried was killed, as where memory runs out"
"""Why an item is given up whose task dies even alone."""
FEW = 512
"""Arrays up to which starting processes takes longer than the work."""
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
        """Name a folder of its own."""
        return Results(self.store, f"{self.folder}/{uuid.uuid4().hex}")

    def put(self, index: int, text: str) -> None:
        """Leave the result of an item; the first one counts if the task runs twice."""
        with suppress(ObjectExistsError):
            self.store.put_if_absent(f"{self.folder}/{index}", text.encode())

    def indices(self) -> list[int]:
        """List the items that are done."""
        names = self.store.list_names(self.folder).files
        return [int(name) for name in names if name.isdigit()]

    def read(self) -> dict[int, str]:
        """Read the result of each item."""
        paths = [f"{self.folder}/{index}" for index in self.indices()]
        results = {}
        for path, data in self.store.read_many(paths):
            if isinstance(data, ChronotileError):
                raise data
            results[int(path.rpartition("/")[2])] = bytes(data).decode()
        return results


class _Death(NamedTuple):
    task: int
    cause: Exception


@dataclass(frozen=True, slots=True, kw_only=True)
class Care(Generic[T]):
    """The care for items whose tasks die."""

    split: Callable[[T], Sequence[T]]
    """Splits an item into smaller ones; none if it cannot be split."""
    give_up: Callable[[T], T]
    """Makes the item that stands for one that kills its task even alone; it may raise."""


def run_job(
    spark: SparkSession | None,
    items: Sequence[T],
    progress: Callable[[int, int], None],
    results: Results,
    *,
    work: Callable[[T], Any],
    care: Care[T] | None = None,
    commit: Callable[[list[Any]], Any] = list,
) -> Any:
    """Call `work` with each item, in a task each, and `commit` with all results.

    Both functions can be pickled, and what they return can be JSON.

    Args:
        spark: The session; None for processes of this machine.
        items: The items.
        progress: Called now and then with (tasks done, all tasks).
        results: A folder for what tasks return.
        work: The function that gets an item, in a task.
        care: What to do with items whose tasks die; without it, a death ends the job.
        commit: Gets all results, in any order, on Spark's driver; what it returns is returned.

    Raises:
        ChronotileError: A function raised it.
        TaskError: A function raised another error.
    """
    if spark is None or not items:
        return commit(_run_here(work, items, progress))
    done: list[Any] = []
    groups = [[*items]]
    while groups:
        group, own = groups.pop(), results.new()
        total = len(done) + len(group) + sum(map(len, groups))
        show = partial(_show, progress, len(done), total)
        commit_last = partial(_commit_last, None if groups else commit, done)
        ended, death = _attempt(spark, work, group, commit_last, show, own)
        if death is None and not groups:
            progress(total, total)
            return ended
        if death is None:
            done += ended
            continue
        texts = own.read()
        done += map(answer_in, texts.values())
        ran = {*texts, death.task}
        left = [item for n, item in enumerate(group) if n not in ran]
        groups += [left] if left else []
        if death.task not in texts:
            if care is None:
                raise death.cause
            groups.append(_in_place_of(group[death.task], care, alone=len(group) == 1))
    # The task that ran last had left its result when it died.
    return commit(done)


def _in_place_of(item: T, care: Care[T], *, alone: bool) -> list[T]:
    """Give what to run in place of an item whose task died."""
    if pieces := care.split(item):
        return [*pieces]
    return [care.give_up(item)] if alone else [item]


def _run_here(
    work: Callable[[T], Any], items: Sequence[T], progress: Callable[[int, int], None]
) -> list[Any]:
    """Run a job in processes of this machine, or in this one if there is little to do."""
    done: list[Any] = []
    is_small = sum(getattr(item, "size", 1) for item in items) <= FEW
    for result in in_processes(work, items, alone=is_small):
        done.append(json.loads(json.dumps(result, default=dataclasses.asdict)))
        progress(len(done), len(items))
    return done


def in_processes(work: Callable[[T], U], items: Sequence[T], *, alone: bool) -> Iterator[U]:
    """Call a function with each item, in order, in a process for each core, or in this one."""
    workers = min(os.cpu_count() or 1, len(items))
    if alone or workers <= 1:
        yield from map(work, items)
        return
    # A fresh process inherits no thread and no lock.
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(workers, mp_context=context) as pool:
        yield from pool.map(work, items)


def _show(progress: Callable[[int, int], None], before: int, total: int, running: int) -> None:
    progress(min(before + running, total), total)


def answer_of(function: Callable[[T], Any], given: T) -> str:
    """Call a function; give what it returns, or its error, as JSON."""
    try:
        return json.dumps({"value": function(given)}, default=dataclasses.asdict)
    except ChronotileError as error:
        return json.dumps({"error": [type(error).__name__, error.where, error.problem]})
    except Exception as error:  # the driver raises it
        return json.dumps({"error": ["", "", error_words(error)]})


def answer_in(text: str) -> Any:
    """Give what the function returned, or raise its error.

    >>> answer_in(answer_of(len, "abc"))
    3
    """
    document = json.loads(text)
    if "error" not in document:
        return document["value"]
    name, where, problem = document["error"]
    kinds = {one.__name__: one for one in _all_kinds(ChronotileError)}
    raise kinds[name](where, problem) if name in kinds else TaskError(problem)


def _all_kinds(kind: type[ChronotileError]) -> Iterator[type[ChronotileError]]:
    yield kind
    for one in kind.__subclasses__():
        yield from _all_kinds(one)


_ITEM = pa.schema([("number", pa.int64()), ("item", pa.binary())])


def _attempt(
    spark: SparkSession,
    work: Callable[[T], Any],
    items: list[T],
    commit: Callable[[list[tuple[int, str]]], Any],
    show: Callable[[int], None],
    results: Results,
) -> tuple[Any, _Death | None]:
    """Run one write of Spark's; give what `commit` returned, or which task died."""
    from chronotile.fleet.session import rows_in_tasks, sink

    numbered = [(number, pickle.dumps(item)) for number, item in enumerate(items)]
    frame = rows_in_tasks(spark, numbered, _as_row, _ITEM)
    tag = f"chronotile-{uuid.uuid4().hex}"
    spark.addTag(tag)
    over = threading.Event()
    watcher = threading.Thread(target=_watch, args=(results, show, over), daemon=True)
    watcher.start()
    try:
        task, path = partial(_in_task, work, results), f"{results.folder}/end"
        return sink(frame, work=task, commit=commit, store=results.store, path=path), None
    except BaseException as cause:
        spark.interruptTag(tag)
        died = _DIED.search(str(cause))
        if not isinstance(cause, Exception) or died is None or _RAISED in str(cause):
            raise
        return None, _Death(int(died[1]), cause)
    finally:
        spark.removeTag(tag)
        over.set()
        watcher.join()


def _as_row(numbered: tuple[int, bytes]) -> Iterator[pa.RecordBatch]:
    yield pa.record_batch([[one] for one in numbered], schema=_ITEM)


def _in_task(
    work: Callable[[Any], Any], results: Results, rows: Iterator[pa.RecordBatch]
) -> tuple[int, str]:
    """Do the work of the one row that a task gets."""
    ((number, item),) = ((row["number"], row["item"]) for one in rows for row in one.to_pylist())
    text = answer_of(work, pickle.loads(item))
    results.put(number, text)
    return number, text


def _commit_last(
    commit: Callable[[list[Any]], Any] | None, earlier: list[Any], texts: list[tuple[int, str]]
) -> Any:
    """Commit, if this attempt is the last one; else give its results."""
    values = [answer_in(text) for _, text in texts]
    return values if commit is None else commit([*earlier, *values])


def _watch(results: Results, show: Callable[[int], None], over: threading.Event) -> None:
    pause_s = _POLL_S[results.store.traits.pace]
    while not over.wait(pause_s):
        with suppress(ChronotileError):
            show(len(results.indices()))


def last_error(cause: Exception) -> str:
    """Take the error of a task out of the traceback that Spark passes on."""
    lines = [line for line in str(cause).splitlines() if line.strip()]
    found = [line for line in lines if _ERROR.match(line)]
    return (found or lines or [type(cause).__name__])[-1][:500]
