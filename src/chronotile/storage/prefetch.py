"""Work that threads do before the caller needs it.

In: a function and its arguments. Out: its answers, in order. Knows nothing of the work.
"""

from __future__ import annotations

import os
import queue
import threading
from collections import deque
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TYPE_CHECKING, Generic, Self, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterable

T = TypeVar("T")
U = TypeVar("U")

_PATIENCE_S = 0.5
"""How long an idle thread waits before it looks whether the program has ended."""


def cores() -> int:
    """How many cores this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def ahead(work: Callable[[T], U], items: Iterable[T], threads: int) -> Generator[U, None, None]:
    """Do the work in threads, at most a few items ahead of the caller.

    If the caller stops early, no thread stays behind. With one thread, no work is done ahead.

    >>> list(ahead(abs, [-1, 2, -3], threads=2))
    [1, 2, 3]
    """
    if threads <= 1:
        yield from map(work, items)
        return
    waiting: deque[Future[U]] = deque()
    pool = ThreadPoolExecutor(threads, thread_name_prefix="chronotile")
    try:
        for item in items:
            waiting.append(pool.submit(work, item))
            if len(waiting) >= 2 * threads:
                yield waiting.popleft().result()
        while waiting:
            yield waiting.popleft().result()
    finally:
        pool.shutdown(wait=True, cancel_futures=True)


class OneAhead(Generic[T]):
    """The items of a generator, of which a thread makes the next while the caller uses one.

    Once it is closed, the generator is too, and no thread stays behind. One that is merely given up
    makes nobody wait: its thread closes the generator by itself, at the latest when the program
    ends.

    >>> with OneAhead(number for number in range(3)) as items:
    ...     list(items)
    [0, 1, 2]
    """

    def __init__(self, items: Generator[T, None, None]) -> None:
        # These queues may be used while garbage is collected, in whatever thread.
        self._asked: queue.SimpleQueue[bool] = queue.SimpleQueue()
        self._made: queue.SimpleQueue[Future[T]] = queue.SimpleQueue()
        arguments = (items, self._asked, self._made)
        self._thread = threading.Thread(target=_make, args=arguments, name="chronotile-ahead")
        self._thread.start()
        self._asked.put(True)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._asked.put(False)
        if threading.current_thread() is not self._thread:
            self._thread.join()

    def __del__(self) -> None:
        self._asked.put(False)

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> T:
        item = self._made.get().result()
        self._asked.put(True)
        return item


def _make(
    items: Generator[T, None, None],
    asked: queue.SimpleQueue[bool],
    made: queue.SimpleQueue[Future[T]],
) -> None:
    """Make an item each time that one is asked for, until there is none, or nobody wants it."""
    try:
        while _is_wanted(asked):
            answer: Future[T] = Future()
            try:
                answer.set_result(next(items))
            except BaseException as error:
                answer.set_exception(error)
                return
            finally:
                made.put(answer)
    finally:
        items.close()


def _is_wanted(asked: queue.SimpleQueue[bool]) -> bool:
    while threading.main_thread().is_alive():
        try:
            return asked.get(timeout=_PATIENCE_S)
        except queue.Empty:
            continue
    return False
