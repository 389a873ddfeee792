"""Work that threads do ahead of who needs it.

In: a function and what to call it with. Out: its answers, in order. Knows nothing of the work.
"""

from __future__ import annotations

import os
from collections import deque
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterable

T = TypeVar("T")
U = TypeVar("U")


def cores() -> int:
    """How many cores this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def ahead(work: Callable[[T], U], items: Iterable[T], threads: int) -> Generator[U, None, None]:
    """Does the work in threads, no more than a few items ahead of the caller.

    Whoever stops early leaves nothing running; with one thread nothing is done ahead at all.

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
