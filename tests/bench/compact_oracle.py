"""The judge of compact: random histories, merged, taken back or vacuumed, and gone on with.

In: a first seed and a number of histories. Out: figures as JSON, with every difference. The engine
is the judge, cell by cell: after `compact` every window reads as before; after an undo, and after a
vacuum, too (of dense arrays all but those that the vacuum announces; of a purge those that end
after the last delete). Then the engine writes, deletes, consolidates and vacuums, and reads what it
should. Each array of the corpus is judged in the same way, first.

The engine works in a process of its own. A crash of it is a difference, unless it comes before a
compact: on some histories it crashes anyway. `make compact-oracle` runs this file, and so does a
test, for fewer histories.
"""

from __future__ import annotations

import argparse
import faulthandler
import json
import random
import shutil
import subprocess
import sys
import tempfile
from collections import Counter
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import tiledb
from support.corpus_cases import CASES
from support.engine_answers import announced, cuts
from support.engine_arrays import EngineArray
from support.histories import FAR, History, times_of

from chronotile.array import Array
from chronotile.change.transition import wait_until
from chronotile.check.findings import RefusedError
from chronotile.format.timestamps import now_ms
from chronotile.storage.store import open_store

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from support.corpus_cases import Case
    from support.engine_arrays import Answer, Window

    from chronotile.change.plan import Report

BEGUN = "compact"
NOW = (0, FAR)
WINDOWS = 24
KEY = "0123456789abcdef0123456789abcdef"


class Life(History):
    """A history whose schema changes half way."""

    def evolve(self) -> str:
        """Add an attribute, or drop one."""
        change = tiledb.ArraySchemaEvolution(self.array.ctx)
        if self.chance.random() < 0.5:
            change.drop_attribute("f")
            self.fields = [one for one in self.fields if one.name != "f"]
            done = "dropped"
        else:
            change.add_attribute(tiledb.Attr("g", dtype=np.int16, nullable=True))
            done = "added"
        change.timestamp(now_ms())
        change.array_evolve(self.uri)
        self.times.append(now_ms() + 1)
        self.pace, self.in_order = "milliseconds", True
        if done == "added":
            with self.reader() as reader:
                reader.look(0, FAR)
                _, self.fields = reader.fields()
        return done

    def _value(self, name: str) -> Any:
        return self.chance.choice((None, 1, 2)) if name == "g" else super()._value(name)

    def _predicate(self) -> str:
        names = {one.name for one in self.fields}
        if "g" in names and self.chance.random() < 0.3:
            return f"g == {self.chance.randint(1, 2)}"
        found = super()._predicate()
        while "f" not in names and "f " in found:
            found = super()._predicate()
        return found

    def _consolidated(self, new: set[str]) -> None:
        """Hold no model: the engine says what it reads."""


class Run:
    """One run over many arrays."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.counts: Counter[str] = Counter()
        self.differences: list[str] = []

    def live(self, seed: int) -> None:
        """Live through one history, and judge it."""
        chance = random.Random(seed)
        key = KEY if chance.random() < 0.15 else None
        history = Life(seed, self.folder / str(seed), key=key, ties=chance.random() < 0.15)
        # The engine crashes on reads of what it merged from writes that met in one ms (F16).
        history.meets = False
        for _ in range(chance.randint(3, 10)):
            history.step()
        # The engine puts the new schema of an encrypted array without encryption.
        if key is None and chance.random() < 0.4:
            self.counts[f"an attribute {history.evolve()}"] += 1
            for _ in range(chance.randint(2, 8)):
                history.step()
        kind = "dense" if history.dense else "duplicates" if history.duplicates else "sparse"
        self.counts |= {"histories": self.counts["histories"] + 1, kind: self.counts[kind] + 1}
        self.counts["encrypted"] += key is not None
        judged = _Judged(self, history.array, key, f"seed {seed} ({kind})", chance, history)
        wait_until(max(history.times))
        judged.judge(history.windows(WINDOWS))
        shutil.rmtree(self.folder / str(seed))

    def of_corpus(self, case: Case, chance: random.Random) -> None:
        """Judge a copy of an array of the corpus, of whatever version."""
        folder = self.folder / case.name
        array = EngineArray(case.copy_to(folder), key=case.expected["key"])
        array.sparse = case.expected["array_type"] == "sparse"
        windows = [(window["start"], window["end"]) for window in case.expected["windows"]]
        self.counts["of the corpus"] += 1
        judged = _Judged(self, array, case.expected["key"], case.name, chance)
        judged.judge(windows[:WINDOWS])
        shutil.rmtree(folder)


def _times(commit: str) -> tuple[int, int]:
    return times_of(commit.rpartition("/")[2])


class _Judged:
    """One array and what the engine reads of it."""

    def __init__(
        self,
        run: Run,
        array: EngineArray,
        key: str | None,
        where: str,
        chance: random.Random,
        history: Life | None = None,
    ) -> None:
        self.run, self.array, self.where, self.chance = run, array, where, chance
        self.history = history
        self.handle = Array(open_store(array.uri), None if key is None else key.encode())

    def judge(self, windows: Sequence[Window]) -> None:
        """Merge, and go on in one of several ways."""
        before = self.array.answers([*windows, NOW])
        copy = EngineArray(self.run.folder / "copy")
        copy.settings, copy.ctx, copy.sparse = (
            self.array.settings,
            self.array.ctx,
            self.array.sparse,
        )
        shutil.rmtree(copy.uri, ignore_errors=True)
        shutil.copytree(self.array.uri, copy.uri)
        _say(BEGUN)
        report = self._compact()
        if report is None:
            return
        merged = sum(step.path.startswith("__fragments/") for step in report.steps)
        self.run.counts["merged fragments"] += merged
        self.run.counts["sources"] += len(report.hidden)
        for note in report.notes:
            if "left alone" in note:
                why = note.partition("left alone")[2].partition(": ")[2]
                self.run.counts[f"left: {why[:140]}"] += 1
            if "merged wrongly" in note or "bad file" in note or "ended with status" in note:
                self.run.differences.append(f"{self.where}: {note}")
        if report.losses:
            last = max(one.t1 for one in self.handle.log.view().deletes)
            before = {window: answer for window, answer in before.items() if window[1] >= last}
        self._compare(before, "compacted")
        if not merged:
            return
        if self.chance.random() < 0.4:
            self.handle.undo()
            self.run.counts["undone"] += 1
            self._compare(before, "undone")
            return
        lost: list[tuple[int, int]] = []
        if self.chance.random() < 0.5:
            lost = announced(self.handle.vacuum("fragments").notes)
        elif self._engine(EngineArray.vacuum, "vacuum by the engine", copy, "fragments"):
            lost = [*map(_times, report.added)] * (not self.array.sparse)
        self.run.counts["windows lost, as announced"] += len(lost)
        kept = [window for window in before if not any(cuts(window, one) for one in lost)]
        self._compare({window: before[window] for window in kept}, "vacuumed")
        self._go_on(copy)

    def _compact(self) -> Report | None:
        options: dict[str, Any] = {
            "target_bytes": self.chance.choice(("1GB", "1GB", "12kB", "30kB")),
            "purge": self.chance.random() < 0.2,
        }
        try:
            report = self.handle.compact(quiet=0, **options)
        except RefusedError as error:
            self.run.counts[f"refused: {error.problem.split(',')[0][:60]}"] += 1
            return None
        self.run.counts["purged"] += bool(report.losses)
        return report

    def _compare(self, wanted: dict[Window, Answer], words: str) -> None:
        self.run.counts["windows"] += len(wanted)
        for window, answer in wanted.items():
            now = self.array.answer(*window)
            if now != answer and not (isinstance(now, str) and isinstance(answer, str)):
                self.run.differences.append(
                    f"{self.where}: {words}, at {window}: {answer} became {now}"
                )

    def _engine(self, do: Any, words: str, copy: EngineArray, mode: str) -> bool:
        """Let the engine do something; what it refuses must be refused without us, too."""
        try:
            do(self.array, mode)
        except tiledb.TileDBError as error:
            try:
                if mode == "commits":
                    # What the engine merged itself decides, too, whether it can sort them (F3).
                    EngineArray.consolidate(copy, "fragments")
                    EngineArray.vacuum(copy, "fragments")
                do(copy, mode)
            except tiledb.TileDBError:
                self.run.counts[f"{words}: refused anyway"] += 1
            else:
                self.run.differences.append(f"{self.where}: {words}: {error}")
            return False
        return True

    def _go_on(self, copy: EngineArray) -> None:
        """Let the engine work on the array, and compare it with the copy that nobody compacted."""
        if isinstance(self.array.answer(*NOW), str):
            return
        if self.history is not None:
            self._write(self.history, copy)
        wanted = self.array.answer(*NOW)
        for mode in ("fragments", "commits"):
            for verb in (EngineArray.consolidate, EngineArray.vacuum):
                words = f"{verb.__name__} of {mode} by the engine"
                if not self._engine(verb, words, copy, mode):
                    break
                if self.array.answer(*NOW) != wanted:
                    self._compare({NOW: self._without_us(copy, mode)}, words)
                    return
        self.run.counts["gone on"] += 1

    def _without_us(self, copy: EngineArray, mode: str) -> Answer:
        """Let the engine do the same to the copy: on a damaged array that changes rows anyway."""
        for verb in (EngineArray.consolidate, EngineArray.vacuum):
            with suppress(tiledb.TileDBError):
                verb(copy, mode)
        self.run.counts["the engine changes rows"] += 1
        return copy.answer(*NOW)

    def _write(self, history: Life, copy: EngineArray) -> None:
        """Let the engine write and delete the same in both."""
        history.ties = history.meets = True
        state, now = history.chance.getstate(), now_ms()
        for array in (copy, self.array):
            history.array = array
            history.chance.setstate(state)
            for at in (now, now + 10):
                history.write(at)
            if not history.dense:
                array.commit(now + 5, history._place_predicate())
        wait_until(now + 10)
        self._compare({NOW: copy.answer(*NOW)}, "written to")


def work(numbers: Iterable[int], corpus: int) -> None:
    """Judge arrays, and print a line after each, and one before its compact."""
    faulthandler.enable()
    cases = [*CASES.values()][::corpus] if corpus else []
    with tempfile.TemporaryDirectory() as folder:
        for number in numbers:
            run = Run(Path(folder))
            if number < 0:
                case = cases[number]
                run.of_corpus(case, random.Random(case.name))
            else:
                run.live(number)
            _say(dict(run.counts) | {"differences": run.differences})


def _say(line: Any) -> None:
    print(json.dumps(line), flush=True)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--histories", type=int, default=300)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--corpus", type=int, default=1, help="judge every so many-th array of it")
    parser.add_argument("--done", type=int, help=argparse.SUPPRESS)
    asked = parser.parse_args()
    # Arrays of the corpus have the numbers before 0.
    of_corpus = range(-len([*CASES][:: asked.corpus]), 0)
    waiting = [*of_corpus, *range(asked.seed, asked.seed + asked.histories)]
    if asked.done is not None:
        work(waiting[asked.done :], asked.corpus)
        return 0
    counts: Counter[str] = Counter()
    differences: list[str] = []
    done = 0
    while done < len(waiting):
        call = [sys.executable, "-m", "bench.compact_oracle", *sys.argv[1:], "--done", str(done)]
        is_begun = False
        with subprocess.Popen(call, stdout=subprocess.PIPE, text=True) as process:
            assert process.stdout is not None
            for line in map(json.loads, process.stdout):
                is_begun = line == BEGUN
                if not is_begun:
                    differences += line.pop("differences")
                    counts.update(line)
                    done += 1
        if process.returncode:
            if is_begun or process.returncode > 0:
                differences.append(f"{waiting[done]} ended with status {process.returncode}")
            counts["the engine crashed before a compact"] += not is_begun
            done += 1
    print(json.dumps(dict(counts) | {"differences": differences}, indent=2))
    return 1 if differences else 0


if __name__ == "__main__":
    sys.exit(main())
