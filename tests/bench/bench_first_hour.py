"""Figures of the first hour: how soon a long history is on the screen, and a fleet in tables.

In: a folder. Out: times, said to the caller. Asserts nothing.
"""

from __future__ import annotations

import contextlib
import io
import itertools
import resource
import shutil
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

import chronotile as ct
from chronotile.cli.program import main
from chronotile.show.story import EventFilter

if TYPE_CHECKING:
    from collections.abc import Callable

SCREEN = 12
"""Events on a screen."""
ARRAYS = 404
"""Arrays of a fleet: those of the corpus, and some of them again."""
CORPUS = Path(__file__).parents[1] / "corpus"
ROUNDS = 3


def history(array: Path, say: Callable[..., None]) -> None:
    """The first screen, and all text, of a log of 100,000 commits."""
    screen, whole, cpu = float("inf"), float("inf"), float("inf")
    for _ in range(ROUNDS):
        log = ct.open_log(array)
        began = time.perf_counter()
        list(itertools.islice(log.story(sizes=False, look=True).events(EventFilter()), SCREEN))
        screen = min(screen, time.perf_counter() - began)
        began, busy = time.perf_counter(), time.process_time()
        with contextlib.redirect_stdout(io.StringIO()):
            main(["log", str(array)])
        whole = min(whole, time.perf_counter() - began)
        cpu = min(cpu, time.process_time() - busy)
    say("first screen of 100,000 commits", "0.5 s after the open", ours_s=screen)
    say("all of 100,000 commits as text, with the open", "2 s", ours_s=whole, cpu_s=cpu)


def fleet(folder: Path, say: Callable[..., None]) -> None:
    """The tables of 404 arrays that engines wrote, with sizes, as a command with its start."""
    found = sorted(path.parent for path in CORPUS.rglob("__schema") if "__labels" not in str(path))
    found += sorted(path.parent for path in CORPUS.rglob("__array_schema.tdb"))
    arrays = dict.fromkeys(found)
    root = folder / "fleet"
    for number, array in zip(range(ARRAYS), itertools.cycle(arrays), strict=False):
        shutil.copytree(array, root / f"{number:03d}", symlinks=True)
    command = [sys.executable, "-m", "chronotile", "tables", str(root), "--out"]
    wall, cores = float("inf"), float("inf")
    for number in range(ROUNDS):
        before, began = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
        done = subprocess.run([*command, str(folder / f"tables-{number}")], check=False)
        assert done.returncode in (0, 3), "3: some of the corpus is damaged or encrypted"
        wall = min(wall, time.perf_counter() - began)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        spent = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
        cores = min(cores, spent)
    say(f"tables of {ARRAYS} arrays, with sizes", "5 s", ours_s=wall, cpu_s=cores)
