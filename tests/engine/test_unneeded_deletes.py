"""`vacuum --deletes`: which deletes may go, with the engine as the judge."""

from __future__ import annotations

import os
import random
import subprocess
import sys
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import pytest
import tiledb
from support.engine_arrays import EngineArray

import chronotile as ct
from chronotile.array import Array
from chronotile.errors import ChangedError
from chronotile.storage.store import open_store

if TYPE_CHECKING:
    from collections.abc import Callable

TESTS = Path(__file__).parents[1]
PURGE = {"sm__consolidation__purge_deleted_cells": "true"}
LATE = 1 << 60
HISTORIES = 40


def consolidate_apart(uris: list[str]) -> int:
    """The engine's consolidation of all fragments, in a process that may crash; its status."""
    program = (
        "import contextlib, tiledb\n"
        "from support.engine_arrays import EngineArray\n"
        f"for uri in {uris!r}:\n"
        "  with contextlib.suppress(tiledb.TileDBError): EngineArray(uri).consolidate('fragments')"
    )
    environment = os.environ | {"PYTHONPATH": os.pathsep.join([str(TESTS), *sys.path])}
    command = [sys.executable, "-c", program]
    return subprocess.run(command, env=environment, capture_output=True, check=False).returncode


def purged(folder: Path) -> EngineArray:
    array = EngineArray(folder / "array").create()
    array.write(10, {1: 1, 2: 2, 3: 3})
    array.write(20, {4: 4, 5: 5})
    array.delete(25, "a < 3")
    array.write(30, {6: 1, 7: 7})
    array.consolidate("fragments", (0, 27), **PURGE)
    return array


def test_a_purged_delete_goes_and_says_why(tmp_path: Path) -> None:
    array = purged(tmp_path)
    windows = [(0, end) for end in (15, 22, 27, 35, LATE)] + [(26, LATE)]
    kept = ct.vacuum(array.uri, deletes=True, mode="commits")
    assert not kept.steps
    assert "may hold cells as old as it" in kept.notes[0]
    planned = ct.vacuum(array.uri, deletes=True, dry_run=True)
    assert planned.steps[-1].path.endswith(".del")
    assert planned.steps[-1].reason == "1 fragment purged of it, 1 other out of its reach"
    array.vacuum("fragments")
    before = array.answers(windows)
    report = ct.vacuum(array.uri, deletes=True)
    assert [step.op for step in report.steps] == ["remove"]
    assert array.files("__commits", "*.del") == []
    assert array.answers(windows) == before
    assert {f.code for f in ct.open_log(array.uri).check()} == set()
    assert consolidate_apart([array.uri]) == 0
    assert array.answers(windows) == before
    assert not ct.vacuum(array.uri, deletes=True, mode="commits").steps


def test_one_run_removes_the_sources_and_then_the_delete(tmp_path: Path) -> None:
    array = purged(tmp_path)
    ct.vacuum(array.uri, deletes=True)
    assert array.files("__commits", "*.del") == []
    assert array.rows(0, LATE) == {3: 3, 4: 4, 5: 5, 6: 1, 7: 7}


def test_a_delete_in_a_con_goes_too(tmp_path: Path) -> None:
    """A new `.con` holds the rest; the engine can consolidate commits again (F1)."""
    array = purged(tmp_path)
    array.vacuum("fragments")
    ct.consolidate(array.uri)
    ct.vacuum(array.uri)
    before = array.answers([(0, LATE), (0, 22)])
    planned = ct.vacuum(array.uri, deletes=True, dry_run=True)
    report = ct.vacuum(array.uri, deletes=True)
    assert [step.op for step in report.steps] == ["put", "remove", "remove"]
    assert len(planned.steps) == 3
    assert ct.open_log(array.uri).view(0, LATE).deletes == ()
    assert array.answers([(0, LATE), (0, 22)]) == before
    array.write(40, {9: 9})
    array.consolidate("commits")
    assert len(array.rows(0, LATE)) == 6


def test_another_vacuum_keeps_the_con_without_the_delete(tmp_path: Path) -> None:
    """It holds less than the one that is about to go, and was made for that."""
    array = purged(tmp_path)
    array.vacuum("fragments")
    ct.consolidate(array.uri)
    ct.vacuum(array.uri)
    before = array.answers([(0, LATE), (0, 22)])
    crossed: list[str] = []

    def other(step: str, path: str) -> None:
        if step == "remove" and path.endswith(".con") and not crossed:
            crossed.append(path)
            ct.vacuum(array.uri)

    store = open_store(array.uri, on_operation=other)
    Array(store).vacuum(deletes=True)
    assert crossed
    assert array.answers([(0, LATE), (0, 22)]) == before
    assert len(array.files("__commits")) == 1


def test_what_is_not_purged_keeps_its_delete(tmp_path: Path) -> None:
    array = EngineArray(tmp_path / "array").create()
    array.write(10, {1: 1, 2: 2, 3: 3})
    array.write(20, {4: 4})
    array.delete(25, "a < 3")
    array.consolidate("fragments", (0, 27))
    report = ct.vacuum(array.uri, deletes=True)
    assert "keeps the removed cells" in " ".join(report.notes)
    assert len(array.files("__commits", "*.del")) == 1
    array.delete(30, "a == 4")
    assert "may hold cells as old" in " ".join(ct.vacuum(array.uri, deletes=True).notes)


def test_a_young_delete_stays(tmp_path: Path) -> None:
    array = EngineArray(tmp_path / "array").create()
    ct.write_delete(array.uri, "a < 3")
    report = ct.vacuum(array.uri, deletes=True)
    assert not report.steps
    assert "a write may be under way" in report.notes[0]
    assert len(ct.vacuum(array.uri, deletes=True, orphans_age_ms=0).steps) == 1


def test_a_late_write_keeps_the_delete(tmp_path: Path) -> None:
    """Also one that is not committed yet."""
    array = purged(tmp_path)
    array.vacuum("fragments")
    array.write(12, {8: 1})
    (commit,) = array.commits_folder.glob("__12_12*.wrt")
    commit.unlink()
    assert not ct.vacuum(array.uri, deletes=True).steps
    commit.touch()
    assert not ct.vacuum(array.uri, deletes=True).steps
    assert 8 not in array.rows(0, LATE)


def test_a_write_that_comes_meanwhile_stops_it(tmp_path: Path) -> None:
    """It is as old as the delete, and holds a row that the delete removes."""
    array = purged(tmp_path)
    array.vacuum("fragments")
    ct.consolidate(array.uri)

    def hook(operation: str, path: str) -> None:
        if operation == "put" and path.endswith(".con") and not array.files("__commits", "__12_*"):
            array.write(12, {8: 1})

    store = open_store(array.uri, on_operation=hook)
    with pytest.raises(ChangedError, match="found __12_12_"):
        Array(store).vacuum(mode="fragments", deletes=True)
    assert len(array.files("__commits", "*.del")) == 1
    assert 8 not in array.rows(0, LATE)
    assert not ct.vacuum(array.uri, mode="fragments", deletes=True).steps


class Outcome(NamedTuple):
    uri: str
    gone: int
    kept: int
    differences: list[str]


def live(seed: int, folder: Path) -> EngineArray:
    """Writes and deletes in any order of time; consolidations with and without a purge."""
    dice = random.Random(seed)
    array = EngineArray(folder / str(seed)).create(
        duplicates=dice.random() < 0.3, capacity=dice.choice([2, 100])
    )
    times = dice.sample(range(10, 100), 40)
    if dice.random() < 0.7:
        times.sort()
    for at in times[: dice.randrange(6, 14)]:
        roll = dice.random()
        if roll < 0.45:
            array.write(at, {dice.randrange(8): dice.randrange(6) for _ in range(3)})
        elif roll < 0.65:
            array.delete(at, dice.choice(["a < 2", "x > 4", "a == 3 or x == 1", "a > 9"]))
        elif roll < 0.9:
            more = PURGE if dice.random() < 0.7 else {}
            window = (0, 200) if dice.random() < 0.6 else (0, at)
            # The engine refuses to write a fragment without cells.
            with suppress(tiledb.TileDBError):
                array.consolidate("fragments", window, **more)
            if dice.random() < 0.6:
                array.vacuum("fragments")
        elif dice.random() < 0.5:
            ct.consolidate(array.uri)
        else:
            ct.consolidate(array.uri)
            ct.vacuum(array.uri, mode="commits", loose_deletes=dice.random() < 0.3)
    return array


def outcome(seed: int, folder: Path) -> Outcome:
    array = live(seed, folder)
    moments = [0, *range(9, 101, 7), 300]
    windows = [(0, end) for end in moments] + [(start, 300) for start in moments[1:-1:2]]
    before = array.answers(windows)
    count = len(ct.open_log(array.uri).view(0, LATE).deletes)
    ct.vacuum(array.uri, mode="commits", deletes=True)
    left = len(ct.open_log(array.uri).view(0, LATE).deletes)
    after = array.answers(windows)
    found = [f"{w}: {before[w]} became {after[w]}" for w in windows if before[w] != after[w]]
    lost = {f.code for f in ct.open_log(array.uri).check()} & {"delete-lost", "tile-corrupt"}
    return Outcome(array.uri, count - left, left, [*found, *lost])


@pytest.fixture(scope="module")
def outcome_of(tmp_path_factory: pytest.TempPathFactory) -> Callable[[int], Outcome]:
    folder = tmp_path_factory.mktemp("deletes")
    return cache(lambda seed: outcome(seed, folder))


@pytest.mark.parametrize("seed", range(HISTORIES))
def test_every_window_reads_the_same(seed: int, outcome_of: Callable[[int], Outcome]) -> None:
    assert outcome_of(seed).differences == []


def test_enough_went_and_the_engine_can_go_on(outcome_of: Callable[[int], Outcome]) -> None:
    """Without these numbers the comparison would prove less than it seems to."""
    outcomes = [outcome_of(seed) for seed in range(HISTORIES)]
    assert sum(one.gone for one in outcomes) >= 15
    assert sum(one.kept for one in outcomes) >= 15
    assert consolidate_apart([one.uri for one in outcomes if one.gone]) == 0


def test_a_delete_that_is_needed_is_missed(tmp_path: Path) -> None:
    """The comparison sees it if a delete goes that should have stayed."""
    array = EngineArray(tmp_path / "array").create()
    array.write(10, {1: 1, 5: 5})
    array.delete(20, "a < 3")
    before = array.answer()
    (file,) = array.commits_folder.glob("*.del")
    file.unlink()
    assert array.answer() != before
