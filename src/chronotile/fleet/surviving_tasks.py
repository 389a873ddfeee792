"""Jobs of Spark that one bad item cannot end.

In: a function, and items: one task calls it with one item. Out: the results, however many processes
died on the way. Knows nothing of what the items are, and runs on Spark Connect as well; without a
session, in a few processes of this machine.

Spark ends a job when one of its tasks has died a few times, as when memory runs out, and loses what
the other tasks returned. Here every task leaves its result, as JSON, in a folder when it is done.
An item whose task has died is split, and its pieces run, and so on down to an item that cannot be
split; that runs once more alone, and is then given up. Everything else goes on.

An error that the function raises is no death: the item is tried once more, and then the job ends.
"""

from __future__ import annotations

import dataclasses
import json
import multiprocessing
import os
import re
import threading
import uuid
from concurrent.futures import ProcessPoolExecutor
from contextlib import nullcontext, suppress
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, Generic, NamedTuple, TypeVar

from chronotile import errors
from chronotile.check.unread_arrays import words
from chronotile.errors import ChronotileError
from chronotile.storage.store import ObjectExistsError, Store

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from pyspark.sql import SparkSession


T = TypeVar("T")
R = TypeVar("R")

_POLL_S = {"quick": 0.2, "slow": 2.0}
"""Pace -> seconds between two looks at how many tasks are done; those at a bucket cost money."""
FEW = 512
"""Arrays up to which starting processes takes longer than the work."""
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


class _Unit(NamedTuple):
    """One item, and how often the function has raised on it."""

    item: Any
    tries: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Care(Generic[T, R]):
    """The care for items whose tasks die."""

    split: Callable[[T], Sequence[T]]
    """Splits an item into smaller ones; none if it cannot be split."""
    give_up: Callable[[T], R]
    """Makes the result of an item that kills its task even alone; it may raise."""


def run_job(
    spark: SparkSession | None,
    work: Callable[[T], R],
    items: Sequence[T],
    decode: Callable[[Any], R],
    progress: Callable[[int, int], None],
    results: Results,
    care: Care[T, R] | None = None,
) -> list[R]:
    """Call a function with each item, in a task each, and return the results in any order.

    Args:
        spark: The session; None for processes of this machine.
        work: The function; it can be pickled, and what it returns can be JSON.
        items: The items.
        decode: Makes a result of its JSON form.
        progress: Called now and then with (tasks done, all tasks).
        results: A folder for what tasks return.
        care: What to do with items whose tasks die; without it, a death ends the job.

    Raises:
        ChronotileError: The function raised it.
        TaskError: The function raised another error.
    """
    if not items:
        return []
    if spark is None:
        return _run_here(work, items, progress)
    done: list[R] = []
    groups = [[_Unit(item) for item in items]]
    while groups:
        group = groups.pop()
        if not group:
            continue
        total = len(done) + len(group) + sum(map(len, groups))
        show = partial(_show, progress, len(done), total)
        texts, death = _run(spark, work, [unit.item for unit in group], show, results.new())
        died, cause = death or (None, None)
        left = [unit for n, unit in enumerate(group) if n not in texts and n != died]
        for index, text in texts.items():
            document = json.loads(text)
            if "error" not in document:
                done.append(decode(document["value"]))
            elif group[index].tries + 1 < _ATTEMPTS:
                left.append(group[index]._replace(tries=group[index].tries + 1))
            else:
                raise _error(*document["error"])
        groups.append(left)
        if died is None or cause is None or died in texts:
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


def _run_here(
    work: Callable[[T], R], items: Sequence[T], progress: Callable[[int, int], None]
) -> list[R]:
    """Run a job in processes of this machine, or in this one if there is little to do."""
    done: list[R] = []
    # A fresh process inherits no thread and no lock.
    context = multiprocessing.get_context("spawn")
    workers = min(os.cpu_count() or 1, len(items))
    is_small = workers == 1 or sum(getattr(item, "size", 1) for item in items) <= FEW
    pool = nullcontext(None) if is_small else ProcessPoolExecutor(workers, mp_context=context)
    with pool as executor:
        for result in map(work, items) if executor is None else executor.map(work, items):
            done.append(result)
            progress(len(done), len(items))
    return done


def _show(progress: Callable[[int, int], None], before: int, total: int, running: int) -> None:
    progress(min(before + running, total), total)


def _result(work: Callable[[T], Any], item: T) -> str:
    """Give the result, or the error, of a task as JSON."""
    try:
        return json.dumps({"value": work(item)}, default=dataclasses.asdict)
    except ChronotileError as error:
        return json.dumps({"error": [type(error).__name__, error.where, error.problem]})
    except Exception as error:  # the driver raises it
        return json.dumps({"error": ["", "", words(error)]})


def _error(name: str, where: str, problem: str) -> Exception:
    kind = getattr(errors, name, ChronotileError) if name else None
    is_ours = isinstance(kind, type) and issubclass(kind, ChronotileError)
    return kind(where, problem) if kind is not None and is_ours else TaskError(problem)


def _run(
    spark: SparkSession,
    work: Callable[[T], R],
    items: list[T],
    show: Callable[[int], None],
    results: Results,
) -> tuple[dict[int, str], tuple[int, Exception] | None]:
    """Run one job; return the results, and which task died, if one did."""

    def each(index: int, item: T) -> str:
        text = _result(work, item)
        results.put(index, text)
        return text

    tag = f"chronotile-{uuid.uuid4().hex}"
    spark.addTag(tag)
    over = threading.Event()
    watcher = threading.Thread(target=_watch, args=(results, show, over), daemon=True)
    watcher.start()
    try:
        from chronotile.fleet.session import in_tasks

        texts = in_tasks(spark, items, each)
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
    return dict(texts), None


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
