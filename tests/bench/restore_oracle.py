"""The oracle of the time machine: random histories, restored, undone, and gone on with.

In: a first seed and a number of windows. Out: figures as JSON on one line, with every difference.
The engine is the judge, cell by cell, metadata included: after a restore every window that ends
before it reads as before, and now reads as then; after an undo all windows read as before; after
further writes, deletes, a consolidation and a vacuum by the engine, now reads as it should.

The engine works in this process: a crash of it is a failure of the run. `make oracle` runs this
file, and so does a test, for fewer windows.
"""

from __future__ import annotations

import argparse
import json
import random
import shutil
import sys
import tempfile
from collections import Counter
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import tiledb
from support.histories import History

import chronotile as ct
from chronotile.change.past_state import UnreachableError
from chronotile.check.findings import RefusedError

if TYPE_CHECKING:
    from support.engine_arrays import EngineArray, Window

    from chronotile.change.plan import Report

LATER = 1_900_000_000_000
"""A time after every restore."""
NOW = (0, 4_000_000_000_000)
WINDOWS = 24
KEYS = ("k", "l", "m")


def look(array: EngineArray, window: Window) -> object:
    """All that the engine reads at a window: cells, then metadata; or its error."""
    rows = array.answer(*window)
    if isinstance(rows, str):
        return rows.replace(array.uri, "")
    with tiledb.open(array.uri, timestamp=window, ctx=array.ctx) as opened:
        return rows, sorted(opened.meta.items())


class Run:
    """One run over many histories."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.counts: Counter[str] = Counter()
        self.windows = 0
        self.differences: list[str] = []

    def live(self, seed: int) -> None:
        """Makes one history, and restores it to a few moments."""
        history = History(seed, self.folder / str(seed), ties=False)
        chance = random.Random(seed)
        for _ in range(chance.randint(4, 12)):
            history.step()
        array = history.array
        for at in chance.choices(history.times, k=3):
            with tiledb.open(array.uri, "w", timestamp=at, ctx=array.ctx) as opened:
                opened.meta[chance.choice(KEYS)] = chance.randint(0, 9)
        if chance.random() < 0.2:
            array.evolve(drop="f")
            self.counts["evolved"] += 1
        windows = [window for window in history.windows(WINDOWS) if window[1] < LATER]
        moments = sorted({*history.times, *(time + 1 for time in history.times)})
        for moment in chance.sample(moments, min(3, len(moments))):
            if not self._restored(history, windows, moment, chance):
                break
        shutil.rmtree(self.folder / str(seed))

    def _restored(
        self, history: History, windows: list[Window], moment: int, chance: random.Random
    ) -> bool:
        """Restores to a moment, and compares; false if the array has gone on since."""
        array = history.array
        before = {window: look(array, window) for window in (*windows, NOW)}
        then = look(array, (0, moment))
        if isinstance(then, str):
            self.counts["unreadable then"] += 1
            return True
        try:
            report = ct.restore(array.uri, moment)
        except UnreachableError:
            self.counts["unreachable"] += 1
            return True
        except RefusedError as error:
            self.counts[f"refused: {error.problem.split(',')[0]}"] += 1
            return True
        way = way_of(report)
        self.counts[f"{'dense' if history.dense else 'sparse'} {way}"] += 1
        self.counts["duplicates"] += history.duplicates
        where = f"seed {history.seed}, to {moment}, {way}"
        self._compare(array, {**before, NOW: then}, f"{where}: restored")
        turn = chance.random()
        if way == "nothing" or turn > 0.75:
            return True
        if turn < 0.5:
            ct.undo(array.uri, report)
            self.counts["undone"] += 1
            self._compare(array, before, f"{where}: undone")
            return True
        self._go_on(history, {window: before[window] for window in windows}, where)
        return False

    def _compare(self, array: EngineArray, wanted: dict[Window, object], words: str) -> None:
        self.windows += len(wanted)
        self.differences += [
            f"{words}, at {window}: {answer} became {now}"
            for window, answer in wanted.items()
            if (now := look(array, window)) != answer
        ]

    def _go_on(self, history: History, before: dict[Window, Any], where: str) -> None:
        array = history.array
        if str(look(array, NOW)).startswith("error"):
            return
        # Fields that were dropped are back; those that the history knows are all there.
        history.times, history.pace, history.in_order = [LATER], "milliseconds", True
        for _ in range(2):
            history.write(history._time())
        if not history.dense:
            array.delete(LATER + 500, history._place_predicate())
        wanted = look(array, NOW)
        array.consolidate("fragments")
        # A fragment that is misnamed shows too much, until it is merged again (F4).
        exact = not any(held.is_misnamed(name) for name, held in history.held.items())
        self._compare(array, (before if exact else {}) | {NOW: wanted}, f"{where}: consolidated")
        with suppress(tiledb.TileDBError):  # timestamps of several lengths (F3)
            array.vacuum("fragments")
        self._compare(array, {NOW: wanted}, f"{where}: vacuumed")
        self.counts["gone on"] += 1


def way_of(report: Report) -> str:
    """How a restore was done, in one word."""
    ops = {step.op for step in report.steps}
    if not ops:
        return "nothing"
    if any(step.path.endswith(".del") for step in report.steps):
        return "replay"
    return "flip" if "replace" in ops else "again" if ops & {"copy", "link"} else "hide"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--windows", type=int, default=20_000)
    parser.add_argument("--seed", type=int, default=0)
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        run, seed = Run(Path(folder)), asked.seed
        while run.windows < asked.windows:
            run.live(seed)
            seed += 1
    figures = {"windows": run.windows, "histories": seed - asked.seed, **run.counts}
    print(json.dumps(figures | {"differences": run.differences}, indent=2))
    return 1 if run.differences else 0


if __name__ == "__main__":
    sys.exit(main())
