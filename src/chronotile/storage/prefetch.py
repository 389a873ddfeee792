"""Work that threads do before the caller needs it.

In: a function and its arguments. Out: its answers, in order. Knows nothing of the work.
"""

from __future__ import annotations

import os
from collections import deque
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterable
    from concurrent.futures import Future

T = TypeVar("T")
U = TypeVar("U")


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
    from concurrent.futures import ThreadPoolExecutor

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
