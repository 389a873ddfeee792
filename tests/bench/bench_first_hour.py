"""Figures of the first hour: how soon a long history is on the screen, and a fleet in tables.

In: a folder. Out: times, said to the caller. Asserts nothing.
"""

from __future__ import annotations

import contextlib
import io
import itertools
import time
from typing import TYPE_CHECKING

import chronotile as ct
from chronotile.cli.program import main
from chronotile.log.story import Story, Window

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

SCREEN = 12
"""Events on a screen."""


def history(array: Path, say: Callable[..., None]) -> None:
    """The first screen, and all text, of a log of 100,000 commits."""
    log = ct.open_log(array)
    began = time.perf_counter()
    list(itertools.islice(Story(log, log.view()).events(Window()), SCREEN))
    screen = time.perf_counter() - began
    began = time.perf_counter()
    with contextlib.redirect_stdout(io.StringIO()):
        main(["log", str(array)])
    whole = time.perf_counter() - began
    say("first screen of 100,000 commits", "0.5 s after the open", ours_s=screen)
    say("all of 100,000 commits as text, with the open", "2 s", ours_s=whole)
