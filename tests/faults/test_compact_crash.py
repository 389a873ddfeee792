"""A compact that is killed with signal 9, and one that somebody else works beside.

Whatever the moment: every window reads as before, no row is lost and none doubled, and the same
command, run again, merges what is left. The same with an engine that writes, consolidates or
vacuums, with our own vacuum and with a second compact, at each step, and with an engine that looked
at one step and acts at a later one.
"""

from __future__ import annotations

import itertools
import os
import random
import re
import shutil
from contextlib import suppress
from typing import TYPE_CHECKING

import numpy as np
import pytest
from support.array_places import Files, InBucket, OnDisk, Place, read_all
from support.crashing import Crasher, crasher
from support.engine_arrays import EngineArray
from support.full_disk import on_full_disk

import chronotile as ct
from chronotile.array import Array
from chronotile.check.findings import RefusedError
from chronotile.errors import ChangedError
from chronotile.storage.store import open_store

if TYPE_CHECKING:
    import pathlib
    from collections.abc import Callable, Iterable, Iterator

    from support.engine_arrays import Answer, Window
    from support.servers import S3Server

COMPACT = 'compact {"quiet": 0}'
KINDS = ("sparse", "duplicates", "dense")
NOW = (0, 1 << 60)
WINDOWS = [NOW, (0, 15), (0, 35), (25, 1 << 60), (11, 29)]
MOST = int(os.environ.get("CHRONOTILE_KILLS", "4"))
"""Steps to act at, spread over all; `CHRONOTILE_KILLS=1000` takes every one."""
IS_LONG = MOST > 10


@pytest.fixture(scope="module")
def killed() -> Iterator[Crasher]:
    with crasher() as running:
        yield running


def made(folder: pathlib.Path, kind: str) -> EngineArray:
    array = EngineArray(folder).create(sparse=kind != "dense", duplicates=kind == "duplicates")
    for at in (10, 20, 30, 40):
        array.write(at, {1: at, 2: at + 1})
    if kind != "dense":
        array.delete(35, "a == 21")
    return array


def spread(total: int) -> list[int]:
    return sorted({int(at) for at in np.linspace(1, total, min(MOST, total))})


def state(files: Files) -> list[str]:
    """What is there, whatever the names that chance gave: all that matters of a kill."""
    return sorted(re.sub(r"[0-9a-f]{8,}|\d{10,}", "…", path) for path in files)


def crash_everywhere(killed: Crasher, place: Place, files: Files, *, sparse: bool) -> int:
    def answers() -> dict[Window, Answer]:
        array = place.array
        array.sparse = sparse
        return array.answers(WINDOWS)

    def shown() -> int:
        return len(ct.open_log(place.uri, storage_options=place.options).view().fragments)

    place.reset(files)
    before = answers()
    _, total = killed.run(COMPACT, place.uri, place.options)
    assert answers() == before
    assert shown() == 1
    known: list[list[str]] = []
    for at in spread(total):
        place.reset(files)
        died, _ = killed.run(COMPACT, place.uri, place.options, die_at=at)
        assert died, f"it ended before step {at} of {total}"
        if (left := state(place.files())) in known:
            continue
        known.append(left)
        assert answers() == before, f"killed at step {at} of {total}"
        killed.run(COMPACT, place.uri, place.options)
        assert answers() == before, f"killed at step {at} of {total}, then run again"
        assert shown() == 1, f"killed at step {at} of {total}, then run again"
        assert not any("scratch" in path for path in place.files()), f"killed at step {at}"
        found = ct.open_log(place.uri, storage_options=place.options).check()
        assert [one for one in found if one.severity == "error"] == []
        if sparse:
            ct.vacuum(place.uri, mode="all", orphans=True, storage_options=place.options)
            assert answers() == before, f"killed at step {at} of {total}, run again and vacuumed"
    return total


@pytest.mark.parametrize("kind", KINDS)
def test_killed_anywhere_it_goes_on(killed: Crasher, tmp_path: pathlib.Path, kind: str) -> None:
    files = read_all(made(tmp_path / "made", kind).folder)
    place = OnDisk(tmp_path / "array")
    assert crash_everywhere(killed, place, files, sparse=kind != "dense") > 15


def test_killed_in_a_bucket(
    killed: Crasher, tmp_path: pathlib.Path, s3: S3Server, bucket: str
) -> None:
    files = read_all(made(tmp_path / "made", "duplicates").folder)
    assert crash_everywhere(killed, InBucket(s3, bucket), files, sparse=True) > 20


@pytest.mark.parametrize("kind", KINDS if IS_LONG else KINDS[1:2])
def test_killed_anywhere_it_can_be_undone(
    killed: Crasher, tmp_path: pathlib.Path, kind: str
) -> None:
    array = made(tmp_path / "made", kind)
    place, files = OnDisk(tmp_path / "array"), read_all(array.folder)
    before = array.answers(WINDOWS)
    place.reset(files)
    _, total = killed.run(COMPACT, place.uri)
    for at in spread(total):
        place.reset(files)
        killed.run(COMPACT, place.uri, die_at=at)
        with suppress(RefusedError):  # it had not begun
            ct.undo(place.uri)
        found = EngineArray(place.uri)
        found.sparse = array.sparse
        assert found.answers(WINDOWS) == before, f"killed at step {at} of {total}, then undone"
        assert len(ct.open_log(place.uri).view().fragments) == 4, f"killed at {at}, then undone"


def write(array: EngineArray) -> None:
    array.write(50, {5: 5, 6: 6})


def write_between(array: EngineArray) -> None:
    array.write(22, {2: 7, 3: 8})


def consolidate(array: EngineArray) -> None:
    array.consolidate("fragments")


def consolidate_and_vacuum(array: EngineArray) -> None:
    array.consolidate("fragments")
    array.vacuum("fragments")


def vacuum(array: EngineArray) -> None:
    array.vacuum("fragments")


def our_vacuum(array: EngineArray) -> None:
    ct.vacuum(array.uri, mode="fragments")


def second(array: EngineArray) -> None:
    with suppress(RefusedError, ChangedError):
        ct.open(array.uri).compact(quiet=0)


def delete(array: EngineArray) -> None:
    if array.sparse:
        array.delete(45, "a == 11")


def remove(array: EngineArray) -> None:
    array.delete_fragments(0, 12)


ACTS: dict[str, Callable[[EngineArray], None]] = {
    act.__name__: act
    for act in (
        write,
        write_between,
        delete,
        remove,
        consolidate,
        consolidate_and_vacuum,
        vacuum,
        our_vacuum,
        second,
    )
}


class Beside:
    """Somebody who looks at one step of a compact, and acts at another."""

    def __init__(self, array: EngineArray, act: Callable[[EngineArray], None]) -> None:
        self.array, self.act = array, act
        self.looks_at = self.acts_at = 0
        self.steps, self.is_busy = 0, False
        self.aside = EngineArray(array.folder.with_name("aside"))
        self.aside.sparse = array.sparse
        self.new: Files = {}
        self.gone: list[str] = []

    def compact(self, looks_at: int, acts_at: int) -> None:
        self.looks_at, self.acts_at, self.steps = looks_at, acts_at, 0
        store = open_store(self.array.uri, on_operation=self)
        with suppress(ChangedError, RefusedError):
            Array(store).compact(quiet=0)
        # It may have ended before it came to that.
        while self.steps < acts_at:
            self("put", "")

    def __call__(self, operation: str, _: str) -> None:
        if self.is_busy or operation.partition(".")[0] not in ("put", "copy", "remove"):
            return
        self.steps += 1
        self.is_busy = True
        if self.steps == self.looks_at == self.acts_at:
            self.act(self.array)
        elif self.steps == self.looks_at and self._is_veiled():
            self.looks_at += 1
        elif self.steps == self.looks_at:
            self._look()
        elif self.steps == self.acts_at:
            self._finish()
        self.is_busy = False

    def _is_veiled(self) -> bool:
        """Tell whether a new fragment has its `.vac` and no commit yet.

        A vacuum of the engine that looks just then, and removes the `.vac` after all is done, shows
        rows of an array with duplicates twice. No order of files prevents it, and no row is lost.
        """
        files = {path.name for path in self.array.commits_folder.iterdir()}
        return any(f"{file[:-4]}.wrt" not in files for file in files if file.endswith(".vac"))

    def _look(self) -> None:
        """Act on a copy; a fragment that it makes is there at once, on a disk."""
        shutil.rmtree(self.aside.uri, ignore_errors=True)
        shutil.copytree(self.array.uri, self.aside.uri)
        before = read_all(self.aside.folder)
        self.act(self.aside)
        after = read_all(self.aside.folder)
        self.gone = [path for path in before if path not in after]
        fresh = {path: data for path, data in after.items() if before.get(path) != data}
        self.new = {path: data for path, data in fresh.items() if "__fragments" not in path}
        self._put({path: data for path, data in fresh.items() if "__fragments" in path})

    def _finish(self) -> None:
        self._put(self.new)
        for path in self.gone:
            (self.array.folder / path).unlink(missing_ok=True)
            with suppress(OSError):
                (self.array.folder / path).parent.rmdir()

    def _put(self, files: Files) -> None:
        for path, data in files.items():
            (self.array.folder / path).parent.mkdir(parents=True, exist_ok=True)
            (self.array.folder / path).write_bytes(data)


def judge(tmp_path: pathlib.Path, kind: str, act: str, pairs: Iterable[tuple[int, int]]) -> None:
    """Run the act at each pair of steps: as if it had come before the compact, or after it."""
    array = made(tmp_path / "array", kind)
    files = read_all(array.folder)
    wanted: list[dict[Window, Answer]] = []
    for name, verbs in (("before", (ACTS[act],)), ("after", (second, ACTS[act]))):
        alone = EngineArray(shutil.copytree(array.uri, tmp_path / name))
        alone.sparse = array.sparse
        for verb in verbs:
            verb(alone)
        wanted.append(alone.answers(WINDOWS))
    place = OnDisk(tmp_path / "array")
    for looks_at, acts_at in pairs:
        place.reset(files)
        Beside(array, ACTS[act]).compact(looks_at, acts_at)
        where = f"{act} looked at step {looks_at}, acted at {acts_at}"
        now = array.answers(WINDOWS)
        assert now in wanted, where
        found = ct.open_log(array.uri).check()
        assert [one for one in found if one.severity == "error"] == [], where
        if IS_LONG:
            second(array)
            assert array.answers(WINDOWS) == now, f"{where}, then compact once more"
        consolidate_and_vacuum(array)
        assert array.answer(*NOW) == now[NOW], f"{where}, then merged by the engine"


def steps_of(tmp_path: pathlib.Path, kind: str) -> int:
    beside = Beside(made(tmp_path / "counted", kind), write)
    beside.compact(0, 0)
    return beside.steps


def some(acts: Iterable[str]) -> list[tuple[str, str]]:
    """Give each act with one kind of array; with every kind, if there is time."""
    pairs = itertools.product(enumerate(acts), enumerate(KINDS))
    return [(kind, act) for (i, act), (j, kind) in pairs if IS_LONG or (i + j) % 3 == 1]


@pytest.mark.parametrize(("kind", "act"), some(ACTS))
def test_somebody_beside_it(tmp_path: pathlib.Path, kind: str, act: str) -> None:
    total = steps_of(tmp_path, kind)
    steps = range(1, total + 1)
    # In short, two of the last ones: there it is shown.
    chosen = steps if IS_LONG else random.Random(act).sample(steps[-8:], 2)
    judge(tmp_path, kind, act, [(at, at) for at in chosen])


@pytest.mark.parametrize("kind", KINDS if IS_LONG else ["duplicates"])
def test_a_compact_that_is_broken_off_after_a_vacuum_beside_it(
    tmp_path: pathlib.Path, kind: str
) -> None:
    total = steps_of(tmp_path, kind)
    array = made(tmp_path / "array", kind)
    files, before = read_all(array.folder), array.answers(WINDOWS)
    for at in range(total - 7, total + 1):
        OnDisk(tmp_path / "array").reset(files)
        beside = Beside(array, our_vacuum)
        beside.looks_at = beside.acts_at = at

        def stop(operation: str, path: str, beside: Beside = beside, at: int = at) -> None:
            is_due = not beside.is_busy and beside.steps < at
            beside(operation, path)
            if is_due and beside.steps == at:
                raise KeyboardInterrupt

        with suppress(KeyboardInterrupt):
            Array(open_store(array.uri, on_operation=stop)).compact(quiet=0)
        second(array)
        # A vacuum ends time travel inside of a merged fragment of a dense array.
        windows = WINDOWS if array.sparse else [NOW]
        wanted = {window: before[window] for window in windows}
        assert array.answers(windows) == wanted, f"vacuumed and broken off at {at}"


LATER = ("consolidate", "vacuum", "consolidate_and_vacuum")


@pytest.mark.parametrize(("kind", "act"), some(LATER))
def test_an_engine_that_looks_and_acts_later(tmp_path: pathlib.Path, kind: str, act: str) -> None:
    pairs = [*itertools.combinations(range(1, steps_of(tmp_path, kind) + 2), 2)]
    chance = random.Random(f"{kind} {act}")
    judge(tmp_path, kind, act, chance.sample(pairs, min(len(pairs), 60 if IS_LONG else 2)))


def test_a_compact_on_a_full_disk_leaves_the_array_as_it_was(tmp_path: pathlib.Path) -> None:
    array = EngineArray(tmp_path / "array").create(upper=99_999)
    for at in (10, 20):
        array.write(at, {x: x * 40_503 % 2**31 for x in range(at, 20_000)})
    before, files = array.answers(WINDOWS), array.files("__fragments")
    ended = on_full_disk("compact", array.uri, "--quiet", "0s")
    assert ended.returncode == 0, ended.stderr
    assert "nothing to do" in ended.stdout
    assert "1 more are left alone" in ended.stdout
    assert "File too large" in ended.stdout
    assert (array.answers(WINDOWS), array.files("__fragments")) == (before, files)
    assert not array.files("__chronotile/scratch")
    assert not [one for one in ct.open_log(array.uri).check() if one.severity == "error"]
    ct.open(array.uri).compact(quiet=0)
    assert array.answers(WINDOWS) == before
    assert len(ct.open_log(array.uri).view().fragments) == 1
