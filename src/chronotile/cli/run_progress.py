"""The progress of a long run, on standard error.

In: steps of the work. Out: a bar on a terminal; elsewhere, as in the log of a scheduler, a line
when a step begins, a line now and then while it goes on, and none that says the same again.
"""

from __future__ import annotations

import time
from contextlib import contextmanager
from typing import TYPE_CHECKING, TypeAlias

from chronotile.cli.options import say

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from rich.console import Console

    Step: TypeAlias = Callable[[str, int, int], None]
    """Called with (what is under way, tasks done, all tasks)."""

LINE_S = 10.0
"""Seconds between two lines on the same step."""


@contextmanager
def run_progress(lines: bool | None = None) -> Iterator[Step]:
    """Show progress until the block ends.

    Args:
        lines: Whether to write lines if standard error is no terminal.
    """
    from rich.console import Console

    console = Console(stderr=True)
    if console.is_terminal:
        with _bar(console) as step:
            yield step
    elif lines:
        yield ProgressLines(say)
    else:
        yield lambda *_: None


class ProgressLines:
    """Progress as lines.

    >>> step = ProgressLines(print)
    >>> for done in (0, 0, 1, 2, 3): step("reading", done, 3)
    reading: 0 of 3 tasks
    reading: 3 of 3 tasks
    """

    def __init__(
        self, write: Callable[[str], None], clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._write, self._clock = write, clock
        self._words, self._at, self._last = "", 0.0, ""

    def __call__(self, words: str, done: int, total: int) -> None:
        """Write a line, if there is something new to say."""
        line = f"{words}: {done} of {total} tasks" if total else words
        is_over = 0 < total == done
        is_due = words != self._words or is_over or self._clock() >= self._at + LINE_S
        if is_due and line != self._last:
            self._write(line)
            self._words, self._at, self._last = words, self._clock(), line


@contextmanager
def _bar(console: Console) -> Iterator[Step]:
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn
    from rich.progress import TimeElapsedColumn as Elapsed

    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), Elapsed())
    with Progress(*columns, console=console, transient=True) as bar:
        task = bar.add_task("starting Spark", total=None)

        def step(words: str, done: int, total: int) -> None:
            bar.update(task, description=words, completed=done, total=total or None)

        yield step
