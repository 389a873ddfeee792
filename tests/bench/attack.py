"""Random damage to random arrays, and what has to hold all the same: `make attack`.

In: a seed and a number of arrays. Out: what did not hold, and the seed that shows it again. Each
array is a random history that the engine wrote, then damaged once or twice. Held is:

  - what `check` calls fine, the engine reads;
  - what `repair` calls mended, the engine reads;
  - no maintenance changes what the engine read before;
  - no maintenance removes the last copy of a cell that a repair could have saved.

The engine runs in a process of its own: a damaged array can crash it, or hang it.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import random
import re
import select
import shutil
import socket
import subprocess
import sys
import tempfile
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self, TypeAlias

from support.engine_arrays import EngineArray
from support.histories import History

import chronotile as ct
from chronotile.errors import ChronotileError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from chronotile.change.plan import Report

Window: TypeAlias = tuple[int, int]
Answers: TypeAlias = dict[Window, Any]
KEY = "0123456789abcdef0123456789abcdef"
ALL: Window = (0, 1 << 60)
HANGS_S = 8.0
FRESH = 4
"""Processes that must crash on the same read before it counts."""
CRASHED = "error: the engine crashed"
CELLS = re.compile(r"^(a|d|t|dt|dci|x)\d*(_var|_validity)?\.tdb$")
LOSS = re.compile(r"time travel is lost from (\d+) to (\d+)")
FOLDERS = ("", "__commits", "__schema", "__meta", "__fragment_meta", "__fragments")
EXTENSIONS = (".wrt", ".del", ".upd", ".con", ".ign", ".vac", ".ok", ".meta", ".tmp", "")


class Judge:
    """The engine, in a process that may die."""

    def __init__(self) -> None:
        self._process: subprocess.Popen[str] | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._stop()

    def _stop(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.communicate()
            self._process = None

    def read(self, place: Path, victim: Victim, windows: list[Window]) -> Answers:
        """What the engine answers at some windows; a text where it fails."""
        return {window: self._ask(place, victim, window) for window in windows}

    def _running(self) -> subprocess.Popen[str]:
        if self._process is None:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "bench.attack", "--judge"],
                cwd=Path(__file__).parents[1],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                text=True,
            )
        return self._process

    def _ask(self, place: Path, victim: Victim, window: Window) -> Any:
        """One answer; a crash counts only if fresh processes show it again.

        A read of a damaged file can ruin the memory of the process, which then dies at a later
        read, or not at all.
        """
        for _ in range(FRESH):
            answer = self._ask_once(place, victim, window)
            if answer != CRASHED:
                break
        return answer

    def _ask_once(self, place: Path, victim: Victim, window: Window) -> Any:
        asked = {"uri": str(place), "sparse": victim.sparse, "key": victim.key, "at": window}
        while True:
            process = self._running()
            assert process.stdin is not None
            assert process.stdout is not None
            with contextlib.suppress(BrokenPipeError):
                process.stdin.write(json.dumps(asked) + "\n")
                process.stdin.flush()
                break
            self._stop()  # it crashed after its last answer
        ready, _, _ = select.select([process.stdout], [], [], HANGS_S)
        line = process.stdout.readline() if ready else ""
        if not line:
            self._stop()
            return CRASHED if ready else "error: the engine hangs"
        answer = json.loads(line)
        return answer if isinstance(answer, str) else tuple(map(tuple, answer))


def _judge() -> None:
    import tiledb

    for line in sys.stdin:
        asked = json.loads(line)
        array = EngineArray(asked["uri"], key=asked["key"])
        array.sparse = asked["sparse"]
        start, end = asked["at"]
        answer: Any = array.answer(start, end)
        if not isinstance(answer, str):
            try:
                with tiledb.open(array.uri, timestamp=(start, end), ctx=array.ctx) as opened:
                    answer = [*answer, ["meta", sorted(map(str, opened.meta.items()))]]
            except tiledb.TileDBError as error:
                answer = f"error: {error}"
        print(json.dumps(answer), flush=True)


@dataclass(frozen=True, slots=True)
class Victim:
    """A healthy array that damage is done to copies of."""

    place: Path
    sparse: bool
    key: str | None
    windows: tuple[Window, ...]


def make_victim(folder: Path, seed: int) -> Victim:
    """A random history, with metadata; one in eight is encrypted."""
    import tiledb

    key = KEY if seed % 8 == 7 else None
    made = History(seed, folder, key=key, ties=False)
    array = made.array
    for _ in range(12):
        made.step()
    for at in made.chance.sample(range(1, 3000), 2):
        with tiledb.open(array.uri, "w", timestamp=at, ctx=array.ctx) as opened:
            opened.meta["k"] = at
    if made.chance.random() < 0.4:
        with contextlib.suppress(tiledb.TileDBError):
            array.consolidate("fragment_meta")
    if made.chance.random() < 0.3:
        with contextlib.suppress(tiledb.TileDBError):
            array.consolidate("fragments")
    return Victim(array.folder, array.sparse, key, (ALL, *made.windows(3)))


class Vandal:
    """Does damage to one array, and says what."""

    def __init__(self, place: Path, chance: random.Random) -> None:
        self.place, self.chance = place, chance

    def strike(self) -> str:
        """One random kind of damage that finds something to damage."""
        kinds = ("flip", "digit", "cut", "lose", "rename", "copy", "half", "old", "strange")
        while True:
            kind = self.chance.choice(kinds)
            done: str | None = getattr(self, f"_{kind}")()
            if done is not None:
                return f"{kind}: {done}"

    def _files(self, *, cells: bool = False, log: bool = False) -> list[Path]:
        found = [p for p in sorted(self.place.rglob("*")) if p.is_file() and not p.is_symlink()]
        found = [p for p in found if p.name != "__lock.tdb"]
        if log:
            found = [p for p in found if p.parent.name in ("__commits", self.place.name)]
        return [p for p in found if cells or not CELLS.match(p.name)]

    def _folders(self) -> list[Path]:
        return sorted(p for p in (self.place / "__fragments").glob("*") if p.is_dir())

    def _pick(self, files: list[Path]) -> Path | None:
        return self.chance.choice(files) if files else None

    def _named(self, path: Path) -> str:
        return str(path.relative_to(self.place))

    def _flip(self) -> str | None:
        path = self._pick([p for p in self._files() if p.stat().st_size])
        if path is None:
            return None
        data = bytearray(path.read_bytes())
        at, bit = self.chance.randrange(len(data)), self.chance.randrange(8)
        data[at] ^= 1 << bit
        path.write_bytes(data)
        return f"bit {bit} of byte {at} of {self._named(path)}"

    def _digit(self) -> str | None:
        """Another digit in a line of a file of text."""
        texts = [p for p in self._files(log=True) if p.suffix in (".con", ".ign", ".vac")]
        path = self._pick(texts)
        if path is None:
            return None
        data = bytearray(path.read_bytes())
        places = [m.start() for m in re.finditer(rb"(?<=[0-9a-f_])[0-9a-f](?=[0-9a-f_.])", data)]
        if not places:
            return None
        at = self.chance.choice(places)
        data[at] = ord(self.chance.choice([c for c in "0123456789" if ord(c) != data[at]]))
        path.write_bytes(data)
        return f"byte {at} of {self._named(path)}"

    def _cut(self) -> str | None:
        path = self._pick([p for p in self._files(cells=True) if p.stat().st_size])
        if path is None:
            return None
        size = self.chance.randrange(path.stat().st_size)
        os.truncate(path, size)
        return f"{self._named(path)} to {size} bytes"

    def _lose(self) -> str | None:
        if self.chance.random() < 0.3 and (folder := self._pick(self._folders())):
            if self.chance.random() < 0.5:
                shutil.rmtree(folder)
                return self._named(folder)
            for path in folder.iterdir():
                path.unlink()
            return f"all of {self._named(folder)}"
        keep_one = len(list((self.place / "__schema").glob("__*_*"))) <= 1
        files = [p for p in self._files(cells=True) if not (keep_one and "__schema" in p.parts)]
        lost = self._pick(files)
        if lost is None:
            return None
        lost.unlink()
        return self._named(lost)

    def _rename(self) -> str | None:
        path = self._pick([*self._files(log=True), *self._folders()])
        if path is None:
            return None
        places = [m.start() for m in re.finditer(r"[0-9a-f]", path.name.partition(".")[0])]
        if not places:
            return None
        at = self.chance.choice(places)
        digit = self.chance.choice([c for c in "0123456789" if c != path.name[at]])
        new = path.with_name(path.name[:at] + digit + path.name[at + 1 :])
        if new.exists():
            return None
        path.rename(new)
        return f"{self._named(path)} to {new.name}"

    def _copy(self) -> str | None:
        files = self._files(log=True)
        path = self._pick(files)
        if path is None:
            return None
        if self.chance.random() < 0.5:
            other = self._pick([p for p in files if p != path])
            if other is None:
                return None
            shutil.copyfile(path, other)
            return f"{self._named(path)} over {self._named(other)}"
        at = self.chance.randint(1, 3000)
        text = f"__{at}_{at}_{self.chance.getrandbits(128):032x}_22"
        new = path.with_name(text + self.chance.choice(EXTENSIONS))
        shutil.copyfile(path, new)
        return f"{self._named(path)} to {new.name}"

    def _half(self) -> str | None:
        """A fragment with some of the files of another, with or without a commit."""
        source = self._pick(self._folders())
        if source is None:
            return None
        at = self.chance.randint(1, 3000)
        name = f"__{at}_{at}_{self.chance.getrandbits(128):032x}_22"
        target = source.with_name(name)
        target.mkdir()
        files = sorted(source.iterdir())
        for path in self.chance.sample(files, self.chance.randint(0, len(files))):
            shutil.copyfile(path, target / path.name)
        committed = self.chance.random() < 0.4
        if committed:
            (self.place / "__commits" / f"{name}.wrt").touch()
        return f"{self._named(target)}, {'committed' if committed else 'not committed'}"

    def _old(self) -> str | None:
        """A folder, or a file, of the layout of old in the root."""
        chance = self.chance
        at, uuid = chance.randint(1, 3000), f"{chance.getrandbits(128):032x}"
        names = [f"__{at}_{at}_{uuid}_{v}" for v in (4, 5, 8, 11)]
        name = chance.choice([*names, f"__{at}_{at}_{uuid}", f"__{uuid}_{at}"])
        kind = chance.choice([".ok", ".vac", ".meta", "folder", "folder", "fragment", "fragment"])
        target = self.place / (name if kind.startswith("f") else name + kind)
        if kind.startswith("."):
            target.touch()
            return self._named(target)
        source = self._pick(self._folders())
        target.mkdir()
        if kind == "fragment" and source is not None:
            for path in source.iterdir():
                shutil.copyfile(path, target / path.name)
        if chance.random() < 0.3:
            (self.place / f"{name}.ok").touch()
        return f"{kind} {self._named(target)}"

    def _strange(self) -> str | None:
        chance = self.chance
        folder = self.place / chance.choice(FOLDERS)
        folder.mkdir(exist_ok=True)
        at = chance.randint(1, 3000)
        stem = chance.choice([f"__{at}_{at}_{chance.getrandbits(128):032x}_22", "README", "x"])
        target = folder / (stem + chance.choice(EXTENSIONS))
        kind = chance.choice(["folder", "dangling", "socket", "link", "folder link", "file"])
        if target.exists():
            return None
        match kind:
            case "folder":
                target.mkdir()
            case "dangling":
                target.symlink_to("nowhere")
            case "link":
                same = [p for p in self._files() if p.suffix == target.suffix]
                target.symlink_to(chance.choice(same or self._files()))
            case "folder link":
                target.symlink_to(self.place / "__schema")
            case "file":
                target.write_bytes(chance.choice([b"", b"junk", b"junk\n", bytes(40)]))
            case "socket":
                with contextlib.chdir(folder), socket.socket(socket.AF_UNIX) as made:
                    made.bind(target.name)
        return f"{kind} {self._named(target)}"


COMMANDS: dict[str, Callable[[str, str | None], Report]] = {
    "consolidate": lambda uri, key: ct.consolidate(uri, key=key),
    "vacuum": lambda uri, key: ct.vacuum(uri, key=key),
    "vacuum --orphans": lambda uri, key: ct.vacuum(
        uri, orphans=True, orphans_age_ms=-60_000, key=key
    ),
    "repair": lambda uri, key: ct.repair(uri, key=key),
}


def copy_array(source: Path, target: Path) -> Path:
    """A copy, links and sockets as they are."""
    shutil.rmtree(target, ignore_errors=True)
    subprocess.run(["cp", "-a", str(source), str(target)], check=True)
    for extra in (".quarantine", ".reports"):
        shutil.rmtree(f"{target}{extra}", ignore_errors=True)
    return target


class Attack:
    """One damaged array, and what must hold of it."""

    def __init__(self, judge: Judge, victim: Victim, folder: Path, seed: int) -> None:
        self.judge, self.victim, self.folder = judge, victim, folder
        self.chance = random.Random(seed)
        self.damaged = copy_array(victim.place, folder / "damaged")
        vandal = Vandal(self.damaged, self.chance)
        self.damage = [vandal.strike() for _ in range(self.chance.choice([1, 1, 1, 2]))]
        self.windows = list(victim.windows)
        self.before = judge.read(self.damaged, victim, self.windows)
        self.pristine: Answers = {}

    def failures(self) -> Iterator[str]:
        """What did not hold."""
        yield from self._checked()
        saved = self._run("repair", self.folder / "repaired")
        yield from self._repaired(saved)
        for command in COMMANDS:
            if command != "repair":
                yield from self._maintained(command, saved)

    def _checked(self) -> Iterator[str]:
        try:
            log = ct.open_log(str(self.damaged), key=self.victim.key)
            found = log.check()
            # What is behind a link is not looked at, and that is said.
            errors = [f.code for f in found if f.severity == "error" or "link" in f.message]
        except ChronotileError as error:
            errors = [str(error)]
        if not errors and isinstance(self.before[ALL], str):
            yield f"check is silent, and the engine says: {self.before[ALL]}"

    def _run(self, command: str, place: Path) -> Report | None:
        copy_array(self.damaged, place)
        return self._again(command, place)

    def _again(self, command: str, place: Path) -> Report | None:
        try:
            return COMMANDS[command](str(place), self.victim.key)
        except ChronotileError:
            return None

    def _repaired(self, report: Report | None) -> Iterator[str]:
        after = self.judge.read(self.folder / "repaired", self.victim, self.windows)
        self.saved = after[ALL]
        if report is not None and not report.findings and isinstance(self.saved, str):
            yield f"repair calls it mended, and the engine says: {self.saved}"
        yield from self._changes("repair", after, report)

    def _changes(self, command: str, after: Answers, report: Report | None) -> Iterator[str]:
        lost = [
            (int(m[1]), int(m[2]))
            for note in (report.notes if report else ())
            for m in LOSS.finditer(note)
        ]
        for window, answer in self.before.items():
            if isinstance(answer, str) or answer == after[window]:
                continue
            if any(first <= time <= last for first, last in lost for time in window):
                continue
            if command == "repair" and after[window] == self._healthy(window):
                continue
            yield f"{command} changed {window}: {answer} became {after[window]}"

    def _healthy(self, window: Window) -> Any:
        if window not in self.pristine:
            self.pristine |= self.judge.read(self.victim.place, self.victim, [window])
        return self.pristine[window]

    def _maintained(self, command: str, saved: Report | None) -> Iterator[str]:
        place = self.folder / "maintained"
        report = self._run(command, place)
        if report is None or not report.steps:
            return
        after = self.judge.read(place, self.victim, self.windows)
        yield from self._changes(command, after, report)
        if saved is not None and not isinstance(self.saved, str):
            self._again("repair", place)
            now = self.judge.read(place, self.victim, [ALL])[ALL]
            if isinstance(now, str) or not set(map(repr, self.saved)) <= set(map(repr, now)):
                yield f"{command} lost what a repair had saved: {self.saved} became {now}"


def attack(first: int, arrays: int, histories: int, say: Callable[[str], None]) -> list[str]:
    """Attacks arrays; gives what did not hold."""
    found: list[str] = []
    kinds: Counter[str] = Counter()
    with tempfile.TemporaryDirectory() as text, Judge() as judge:
        folder = Path(text)
        made: dict[int, Victim] = {}
        for seed in range(first, first + arrays):
            number = seed % histories
            if number not in made:
                made[number] = make_victim(folder / f"victim-{number}", number)
            one = Attack(judge, made[number], folder, seed)
            kinds.update(damage.partition(":")[0] for damage in one.damage)
            kinds["unreadable"] += isinstance(one.before[ALL], str)
            for failure in one.failures():
                line = f"seed {seed} ({'; '.join(one.damage)}): {failure}"
                found.append(line)
                say(line)
    say(f"{arrays} arrays, {len(found)} exceptions; {dict(kinds)}")
    return found


def main() -> int:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--judge", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--arrays", type=int, default=2000)
    parser.add_argument("--histories", type=int, default=64)
    asked = parser.parse_args()
    if asked.judge:
        _judge()
        return 0
    return (
        1
        if attack(asked.first, asked.arrays, asked.histories, lambda t: print(t, flush=True))
        else 0
    )


if __name__ == "__main__":
    sys.exit(main())
