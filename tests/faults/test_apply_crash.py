"""Updates that are carried out, killed at every step, taken back, and met by other writers."""

from __future__ import annotations

import shutil
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import pytest
from support.crashing import Crasher, crasher
from support.engine_arrays import EngineArray

import chronotile as ct
from chronotile import apply_updates
from chronotile.array import Array
from chronotile.errors import ChangedError, ChronotileError
from chronotile.storage.store import open_store

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from support.engine_arrays import Answer, Window

WINDOWS = [(0, 19), (0, 20), (0, 30), (0, 99), (12, 99), (21, 99)]
FEW = [(0, 25), (0, 99), (12, 99)]


@pytest.fixture(scope="module")
def killed() -> Iterator[Crasher]:
    with crasher() as running:
        yield running


def made(
    folder: Path, *, duplicates: bool = False, merged: bool = False, in_con: bool = False
) -> EngineArray:
    """Two updates, one of them on what the other has set, and a delete behind them."""
    array = EngineArray(folder).create(duplicates=duplicates)
    array.write(10, {1: 1, 2: 2, 3: 3})
    array.write(15, {4: 2})
    array.commit(20, "a == 2", a=5)
    array.commit(30, "a == 5 and x == 4", a=7)
    if merged:
        array.consolidate("fragments")
        array.vacuum("fragments")
    array.write(40, {6: 6})
    array.delete(50, "a == 3")
    if in_con:
        ct.consolidate(array.uri, updates=True)
        ct.vacuum(array.uri, updates=True)
        assert not array.files("__commits", "*.upd")
    return array


def rows_at(uri: str, windows: list[Window] = WINDOWS) -> dict[Window, list[tuple[Any, ...]]]:
    return {
        window: sorted(
            tuple(row.values())
            for row in ct.read_rows(uri, start=window[0], end=window[1]).to_pylist()
        )
        for window in windows
    }


def in_order(answers: dict[Window, Answer]) -> dict[Window, list[tuple[Any, ...]]]:
    """What the engine answered, as (x, a)."""
    return {window: sorted((x, a) for a, x in map(tuple, rows)) for window, rows in answers.items()}


@pytest.mark.parametrize("kind", ["plain", "duplicates", "merged", "in_con"])
def test_killed_at_every_step_it_is_finished_by_the_next_run(
    tmp_path: Path, killed: Crasher, kind: str
) -> None:
    made_so = {} if kind == "plain" else {kind: True}
    origin = made(tmp_path / "origin", **made_so).folder
    wanted, place = rows_at(str(origin)), tmp_path / "array"
    few = rows_at(str(origin), FEW)
    seen = in_order(EngineArray(origin).answers(WINDOWS))
    die_at, was_killed = 0, True
    while was_killed:
        die_at += 1
        for folder in (place, tmp_path / "array.quarantine"):
            shutil.rmtree(folder, ignore_errors=True)
        shutil.copytree(origin, place)
        was_killed, _ = killed.run("apply", str(place), die_at=die_at)
        half = in_order(EngineArray(place).answers(WINDOWS))
        for window, rows in half.items():
            assert {row for row in seen[window] if row in wanted[window]} <= set(rows), die_at
        assert rows_at(str(place), FEW) == few, die_at
        if was_killed and die_at % 3:
            continue  # the next run takes a while: every third is enough
        killed.run("apply", str(place))
        assert in_order(EngineArray(place).answers(WINDOWS)) == wanted, die_at
        assert not list((place / "__commits").glob("*.upd")) or kind == "merged"
        assert not [item.code for item in ct.open_log(str(place)).check() if "con" in item.code]
    assert die_at > 20


@pytest.mark.parametrize("kind", ["duplicates", "in_con"])
def test_an_undo_brings_the_updates_back(tmp_path: Path, kind: str) -> None:
    array = made(tmp_path / "array", **{kind: True})
    before, wanted = array.answers(WINDOWS), rows_at(array.uri)
    files = sorted(array.files("__commits"))
    plan = apply_updates(array.uri, dry_run=True)
    # A new `.con` has a name of its own each time.
    again = apply_updates(array.uri, dry_run=True)
    assert [(step.op, step.data) for step in plan.steps] == [
        (step.op, step.data) for step in again.steps
    ]
    assert array.answers(WINDOWS) == before
    done = apply_updates(array.uri)
    assert [step.op for step in done.steps] == [step.op for step in plan.steps]
    assert in_order(array.answers(WINDOWS)) == wanted
    ct.undo(array.uri, done.to_dict())
    assert sorted(array.files("__commits")) == files
    assert array.answers(WINDOWS) == before
    assert rows_at(array.uri) == wanted
    apply_updates(array.uri)
    assert in_order(array.answers(WINDOWS)) == wanted


def test_a_merged_array_is_still_consolidated_by_the_engine(tmp_path: Path) -> None:
    """F14: without a stand-in for the update this crashes the process."""
    array = made(tmp_path / "array", merged=True)
    wanted = rows_at(array.uri)
    apply_updates(array.uri)
    array.consolidate("fragments")
    array.vacuum("fragments")
    at_last = {window: rows for window, rows in wanted.items() if window == (0, 99)}
    assert in_order(array.answers(at_last)) == at_last


def test_an_update_in_a_con_is_left_alone_where_it_cannot_be_carried_out_unseen(
    tmp_path: Path,
) -> None:
    """With duplicates old and new rows would both show; and a merged fragment needs it (F14)."""
    for kind, why in (("duplicates", "allows duplicates"), ("merged", "has applied it")):
        array = made(tmp_path / kind, **{kind: True}, in_con=True)
        before = array.answers(WINDOWS)
        done = apply_updates(array.uri)
        assert not done.steps
        assert sum("is left alone" in note and why in note for note in done.notes) == 2
        assert array.answers(WINDOWS) == before


@pytest.mark.parametrize("operation", ["put", "remove"])
def test_a_maintainer_that_writes_the_con_anew_meanwhile_loses_nothing(
    tmp_path: Path, operation: str
) -> None:
    array = made(tmp_path / "array", in_con=True)
    wanted = rows_at(array.uri)
    came: list[str] = []

    def hook(done: str, path: str) -> None:
        if done == operation and path.endswith(".con") and not came:
            came.append(path)
            array.write(45, {8: 8})
            ct.consolidate(array.uri, updates=True)
            ct.vacuum(array.uri, updates=True)

    with suppress(ChronotileError):
        Array(open_store(array.uri, on_operation=hook)).apply()
    assert came
    for window in wanted:
        wanted[window] += [(8, 8)] * (window[1] >= 45)
    assert {window: sorted(rows) for window, rows in wanted.items()} == rows_at(array.uri)
    apply_updates(array.uri)
    assert in_order(array.answers(WINDOWS)) == {w: sorted(rows) for w, rows in wanted.items()}
    assert not ct.open_log(array.uri).view().updates


def test_a_write_that_comes_meanwhile_stops_it(tmp_path: Path) -> None:
    array = made(tmp_path / "array")
    came: list[str] = []

    def hook(operation: str, path: str) -> None:
        if operation == "put" and path.startswith("__fragments") and not came:
            came.append(path)
            array.write(11, {9: 2})

    with pytest.raises(ChangedError, match="try again"):
        Array(open_store(array.uri, on_operation=hook)).apply()
    apply_updates(array.uri)
    assert (9, 5) in in_order(array.answers([(0, 99)]))[0, 99]
