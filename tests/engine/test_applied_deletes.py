"""Deletes that fragments have applied (F14): what may leave the array, and what takes its place."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
import tiledb
from support.engine_arrays import EngineArray

import chronotile as ct
from chronotile.array import Array
from chronotile.check.findings import RefusedError
from chronotile.cli import sample
from chronotile.cli.program import main
from chronotile.format.timestamps import now_ms, time_text
from chronotile.storage.store import open_store

KEY = "0123456789abcdeF0123456789abcdeF"
TESTS = Path(__file__).parents[1]
PURGE = {"sm__consolidation__purge_deleted_cells": "true"}
WINDOWS = [(0, end) for end in (15, 22, 27, 35, 1 << 60)] + [(12, 1 << 60), (26, 1 << 60)]


def consolidates(array: EngineArray, key: str | None = None) -> int:
    """The engine's consolidation of all fragments, in a process that may crash; its status."""
    program = (
        "from support.engine_arrays import EngineArray\n"
        f"EngineArray({array.uri!r}, key={key!r}).consolidate('fragments')"
    )
    paths = os.pathsep.join([str(TESTS), *sys.path])
    environment = os.environ | {"PYTHONPATH": paths}
    command = [sys.executable, "-c", program]
    return subprocess.run(command, env=environment, capture_output=True, check=False).returncode


def codes(array: EngineArray, key: str | None = None) -> set[str]:
    return {f.code for f in ct.open_log(array.uri, key=key).check() if f.severity != "info"}


def applied(
    folder: Path, *, purge: bool = False, key: str | None = None, **more: object
) -> EngineArray:
    """Two writes and a delete, merged into a fragment that has applied it; then a third write."""
    array = EngineArray(folder / "array", key=key).create(**more)  # type: ignore[arg-type]
    array.write(10, {1: 1, 2: 2, 3: 3})
    array.write(20, {4: 4, 5: 5})
    array.delete(25, "a < 3")
    array.write(30, {6: 1, 7: 7})
    array.consolidate("fragments", (0, 27), **(PURGE if purge else {}))
    array.vacuum("fragments")
    return array


def the_delete(array: EngineArray) -> Path:
    (file,) = array.commits_folder.glob("*.del")
    return file


@pytest.mark.parametrize("key", [None, KEY])
def test_a_lost_delete_is_found_and_mended(tmp_path: Path, key: str | None) -> None:
    array = applied(tmp_path, key=key)
    before, lost = array.answers(WINDOWS), the_delete(array)
    lost.unlink()
    assert codes(array, key) == {"delete-lost"}
    report = ct.repair(array.uri, key=key)
    assert report.findings == ()
    assert [(step.op, step.path) for step in report.steps] == [("put", f"__commits/{lost.name}")]
    assert "what it removed stays away" in report.notes[0]
    assert codes(array, key) == set()
    assert ct.open_log(array.uri, key=key).view().deletes[0].text == "x < 0"
    assert array.answers(WINDOWS) == before
    assert consolidates(array, key) == 0
    assert array.answers(WINDOWS) == before


def test_without_the_repair_the_engine_crashes(tmp_path: Path) -> None:
    """What the finding warns of; an engine that no longer does this makes the repair needless."""
    array = applied(tmp_path)
    the_delete(array).unlink()
    assert consolidates(array) == -signal.SIGSEGV


def test_an_update_that_was_applied_is_needed_too(tmp_path: Path) -> None:
    """The engine takes it for a delete (F11), and notes it as one."""
    settings = {"sm.allow_updates_experimental": "true"}
    array = EngineArray(tmp_path / "array", settings=settings).create()
    array.write(10, {1: 1, 3: 3})
    array.write(20, {4: 4})
    array.commit(25, "a < 3", a=7)
    array.consolidate("fragments", (0, 27))
    array.vacuum("fragments")
    array.write(30, {5: 5})
    (file,) = array.commits_folder.glob("*.upd")
    before = array.answers(WINDOWS)
    file.unlink()
    assert codes(array) == {"delete-lost"}
    report = ct.repair(array.uri)
    assert [step.path for step in report.steps] == [f"__commits/{file.name}"]
    assert "delete-lost" not in codes(array)
    assert array.answers(WINDOWS) == before
    assert consolidates(array) == 0
    assert array.answers(WINDOWS) == before


def test_after_a_purge_the_delete_may_go(tmp_path: Path) -> None:
    array = applied(tmp_path, purge=True)
    before = array.answers(WINDOWS)
    the_delete(array).unlink()
    assert codes(array) == set()
    assert ct.repair(array.uri).steps == ()
    assert array.answers(WINDOWS) == before
    assert consolidates(array) == 0
    assert array.answers(WINDOWS) == before


def broken_by_a_drop(folder: Path, *, in_con: bool, other: bool) -> tuple[EngineArray, int]:
    """A delete on a field that is then dropped (F8), applied by one fragment, or not by all."""
    array = EngineArray(folder / "array").create(
        attrs=[tiledb.Attr("a", dtype=np.int32), tiledb.Attr("b", dtype=np.int32)]
    )
    now = int(ct.open_log(array.uri).history.schemas[-1].name.t2)  # type: ignore[union-attr]
    for at, xs in ((10, [1, 2]), (20, [3, 4])):
        values = np.array(xs, np.int32)
        array.write_columns(now + at, xs, {"a": values, "b": values * 10})
    array.delete(now + 30, "b == 10 or b == 50")
    array.consolidate("fragments", (0, now + 35))
    array.vacuum("fragments")
    if other:
        values = np.array([5, 6], np.int32)
        array.write_columns(now + 25, [5, 6], {"a": values, "b": values * 10})
    if in_con:
        array.consolidate("commits")
        array.vacuum("commits")
    array.evolve(drop="b")
    return array, now


@pytest.mark.parametrize("other", [False, True])
@pytest.mark.parametrize("in_con", [False, True])
def test_a_broken_delete_is_replaced_by_a_harmless_one(
    tmp_path: Path, in_con: bool, other: bool
) -> None:
    array, _ = broken_by_a_drop(tmp_path, in_con=in_con, other=other)
    assert "delete-dropped-field" in codes(array)
    assert isinstance(array.answer(), str)
    planned = ct.repair(array.uri, dry_run=True)
    report = ct.repair(array.uri)
    assert [step.path for step in planned.steps if step.op == "move"] == [
        step.path for step in report.steps if step.op == "move"
    ]
    assert report.findings == ()
    (note,) = (note for note in report.notes if "matches no row" in note)
    assert "come back, except in fragments that have applied it" in note
    # Row 1 was removed by the merged fragment; row 5 is in a fragment that never applied it.
    kept = ((2, 2), (3, 3), (4, 4)) + (((5, 5), (6, 6)) if other else ())
    assert array.answer() == kept
    assert not codes(array) & {"delete-dropped-field", "delete-lost", "tile-corrupt"}
    assert consolidates(array) == 0
    assert array.answer() == kept


def test_the_repair_can_be_undone(tmp_path: Path) -> None:
    array, _ = broken_by_a_drop(tmp_path, in_con=False, other=False)
    files = {path.name: path.read_bytes() for path in array.commits_folder.iterdir()}
    report = ct.repair(array.uri)
    ct.undo(array.uri, report)
    assert {p.name: p.read_bytes() for p in array.commits_folder.iterdir()} == files


def test_a_damaged_delete_that_was_applied_is_replaced_too(tmp_path: Path) -> None:
    array = applied(tmp_path)
    before, file = array.answers(WINDOWS), the_delete(array)
    data = bytearray(file.read_bytes())
    data[-3] ^= 0xFF
    file.write_bytes(data)
    assert "tile-corrupt" in codes(array)
    assert ct.repair(array.uri).findings == ()
    assert codes(array) == set()
    assert array.answers(WINDOWS) == before
    assert consolidates(array) == 0


DIMENSIONS = {
    "negative": tiledb.Dim("x", domain=(-50, 99), tile=10, dtype=np.int64),
    "whole": tiledb.Dim("x", domain=(-(2**63), 2**63 - 101), tile=100, dtype=np.int64),
    "float": tiledb.Dim("x", domain=(-1e300, 1e300), tile=None, dtype=np.float64),
    "text": tiledb.Dim("x", domain=(None, None), tile=None, dtype="ascii"),
}


@pytest.mark.parametrize("kind", DIMENSIONS)
def test_a_harmless_delete_removes_no_row(tmp_path: Path, kind: str) -> None:
    """Of any dimension: with the least value that it has, and the empty text."""
    array = EngineArray(tmp_path / "array").create(dims=[DIMENSIONS[kind]])
    least = {"negative": -50, "whole": -(2**63), "float": -1e300, "text": b""}[kind]
    places = [least, *([b"a", b"b"] if kind == "text" else [0, 7])]
    with tiledb.open(array.uri, "w", timestamp=10, ctx=array.ctx) as opened:
        opened[np.array(places)] = np.array([1, 2, 3], np.int32)
    array.delete(20, "a == 2")
    array.consolidate("fragments", (0, 30), sm__consolidation__step_min_frags="1")
    with tiledb.open(array.uri, "w", timestamp=15, ctx=array.ctx) as opened:
        opened[np.array(places[:1])] = np.array([9], np.int32)
    array.consolidate("fragments", (0, 30))
    before = array.answer()
    assert len(before) == 2
    the_delete(array).unlink()
    assert ct.repair(array.uri).findings == ()
    assert array.answer() == before
    with tiledb.open(array.uri, "w", timestamp=16, ctx=array.ctx) as opened:
        opened[np.array(places)] = np.array([4, 5, 6], np.int32)
    assert len(array.answer()) == 3
    assert consolidates(array) == 0
    assert len(array.answer()) == 3


def test_the_log_tells_where_a_delete_is_applied(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    array = applied(tmp_path)
    array.write(12, {8: 1})
    array.delete(40, "a == 7")
    assert sorted(ct.open_log(array.uri).applied_in.values()) == [1]
    assert main(["log", array.uri, "--kind", "delete"]) == 0
    words = capsys.readouterr().out
    assert (
        "deleted rows where `a < 3`; in force in 2 fragments, applied in 1 of them by a merge"
        in words
    )
    assert words.count("applied in") == 1
    assert main(["log", array.uri, "--kind", "delete", "--no-size"]) == 0
    assert "applied in" not in capsys.readouterr().out


def test_for_ever_rows_that_a_merge_took_stay_away(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    array = EngineArray(sample.unpack(tmp_path).array)
    assert len(array.answer()) == 204
    opened = Array(open_store(array.uri))
    planned = opened.undelete("1edafe", ever=True, dry_run=True)
    report = opened.undelete("1edafe", ever=True)
    assert report.rows == planned.rows == {"restored": 12}
    assert planned.notes[0].startswith("12 of 21 rows come back; 9 stay away: __1715331600000_")
    assert planned.notes[0].endswith("; without --ever all 21 come back")
    assert "rows, diff and blame refuse" in planned.notes[1]
    assert len(array.answer()) == 216
    assert main(["log", array.uri, "--kind", "delete"]) == 0
    words = capsys.readouterr().out
    assert "    a stand-in that matches no row: a merged fragment refers to this delete\n" in words
    assert main(["explain", array.uri]) == 0
    assert "1edafe" not in capsys.readouterr().out
    assert main(["rows", array.uri, "--count"]) == 3
    refused = capsys.readouterr().err
    assert "cannot tell which rows the update __1715252400000_" in refused
    assert f"to apply the update: chronotile apply {array.uri};" in refused
    opened.apply()
    assert main(["rows", array.uri, "--count"]) == 0
    assert capsys.readouterr().out == "217\n"
    assert len(array.answer()) == 217


def test_rows_that_another_delete_hides_too_are_told(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    array = EngineArray(sample.unpack(tmp_path).array)
    report = Array(open_store(array.uri)).undelete("6b6ae8")
    assert report.rows == {"restored": 12}
    assert "removed 14 rows: 2 of them stay hidden, as a later write" in report.notes[0]
    assert len(array.answer()) == 216
    assert main(["check", array.uri]) == 1
    told = capsys.readouterr().out
    assert f"nothing to run: the undelete of {time_text(report.at_ms)[:16]}" in told
    assert "to bring them back: " in told  # of the other delete
    assert main(["explain", array.uri, "6b6ae8"]) == 0
    back = f"(operation {report.operation}) brought the rows back; it acts only in windows before"
    assert back in capsys.readouterr().out
    ct.undo(array.uri)
    assert main(["explain", array.uri, "6b6ae8"]) == 0
    assert "in force: committed" in capsys.readouterr().out


def test_of_rows_that_are_back_none_comes_for_ever(tmp_path: Path) -> None:
    opened = Array(open_store(str(sample.unpack(tmp_path).array)))
    assert opened.undelete("1edafe").rows == {"restored": 21}
    planned = opened.undelete("1edafe", ever=True, dry_run=True)
    assert planned.rows == {"restored": 0}
    assert planned.notes[0].startswith("no row comes back now: ")


def test_rows_of_before_a_field_was_added_are_counted(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """F15: `delete` and `update` refuse; `log`, `explain` and `check` tell how many cells."""
    array = EngineArray(tmp_path / "array").create()
    array.write(10, {1: 1, 2: 2, 3: 3})
    array.write(20, {4: 4})
    evolution = tiledb.ArraySchemaEvolution(array.ctx)
    evolution.add_attribute(tiledb.Attr("b", dtype=np.int32))
    evolution.array_evolve(array.uri)
    words = "rows written before b was added, in 2 fragments: up to 4 cells"
    with pytest.raises(RefusedError) as refused:
        ct.write_delete(array.uri, "b == 7")
    assert words in str(refused.value)
    with pytest.raises(RefusedError) as refused:
        ct.write_update(array.uri, "b == 7", {"a": 1}, experimental=True)
    assert words in str(refused.value)
    ct.write_delete(array.uri, "b == 7", allow_older_loss=True)
    (found,) = (f for f in ct.open_log(array.uri).check() if f.code == "delete-hits-older")
    assert words in found.message
    for command in ("log", "explain"):
        main([command, array.uri])
        assert words in capsys.readouterr().out


@pytest.mark.parametrize("duplicates", [False, True])
@pytest.mark.parametrize("vacuumed", [False, True])
def test_a_merge_after_a_delete_on_a_later_field_keeps_its_rows_in_view(
    tmp_path: Path, *, duplicates: bool, vacuumed: bool
) -> None:
    """F15: the merge fills the field, so that its cells look as if the delete had kept them."""
    array = EngineArray(tmp_path / "array").create(duplicates=duplicates)
    base = now_ms()
    array.write(base + 1, {1: 1, 2: 2, 3: 3})
    array.write(base + 2, {3: 30, 4: 4})
    array.consolidate("fragments")  # these cells have two versions of x = 3
    array.evolve(add=tiledb.Attr("b", dtype=np.int32), at=base + 3)
    time.sleep(0.01)
    columns = {name: np.array([5, 7], np.int32) for name in ("a", "b")}
    array.write_columns(base + 4, [5, 7], columns)
    array.delete(base + 5, "b == 7")
    array.consolidate("fragments")
    if vacuumed:
        array.vacuum("fragments")
    removed = 5 + duplicates
    assert len(array.answer()) == 1
    opened = Array(open_store(array.uri))
    reader = opened.row_reader()
    assert sum(map(len, reader.batches(played=True))) == 1
    gone = opened.diff(base + 4, base + 5, rows=True)
    assert gone["change"].to_pylist() == ["delete"] * removed
    assert set(opened.blame(["x=1"])["event"].to_pylist()) == {"wrote", "removed"}
    delete = the_delete(array).stem
    assert len(opened.removed_rows(delete)) == removed
    assert opened.undelete(delete).rows == {"restored": removed}
    assert len(array.answer()) == 1 + removed


def test_an_undelete_that_brings_no_row_back_is_refused(tmp_path: Path) -> None:
    """Another delete hides the rows too, or they have been written again since."""
    array = EngineArray(tmp_path / "array").create()
    array.write(10, {1: 1, 2: 2, 3: 3, 4: 4})
    array.delete(20, "a < 3")
    array.delete(30, "a < 4")
    first, second = (path.stem for path in sorted(array.commits_folder.glob("*.del")))
    opened = Array(open_store(array.uri))
    with pytest.raises(RefusedError) as refused:
        opened.undelete(first)
    assert f"{second} hides the rows of {first} too" in str(refused.value)
    hint = f"to bring its own rows back first: chronotile undelete {array.uri} {second}"
    assert refused.value.to_dict()["hint"] == hint
    assert opened.undelete(second).rows == {"restored": 1}
    assert opened.undelete(first).rows == {"restored": 2}

    array = EngineArray(tmp_path / "same").create()
    array.write(10, {1: 1, 2: 2})
    array.delete(20, "a == 1")
    array.delete(30, "a == 1")
    first, second = (path.stem for path in sorted(array.commits_folder.glob("*.del")))
    opened = Array(open_store(array.uri))
    with pytest.raises(RefusedError, match=f"chronotile undelete .* {second} --ever"):
        opened.undelete(second)
    array.write(40, {1: 5})
    with pytest.raises(RefusedError, match="later writes or a restore took what"):
        opened.undelete(second)


@pytest.mark.parametrize("merged", [False, True])
def test_an_update_that_was_carried_out_is_not_undeleted(tmp_path: Path, *, merged: bool) -> None:
    array = EngineArray(tmp_path / "array").create()
    array.write(10, {1: 1, 2: 2})
    array.write(11, {3: 3})
    array.commit(20, "a == 1", a=9)
    (update,) = (path.stem for path in array.commits_folder.glob("*.upd"))
    if merged:
        array.consolidate("fragments")
    opened = Array(open_store(array.uri))
    report = opened.apply()
    with pytest.raises(RefusedError) as refused:
        opened.undelete(update)
    undo = f"to take that back: chronotile undo {array.uri} {report.operation}"
    assert refused.value.to_dict()["hint"] == undo
