"""Writes that come after an undelete or a restore, and are dated before it."""

from __future__ import annotations

import re
import shutil
from typing import TYPE_CHECKING

import pytest
from support.engine_arrays import EngineArray

import chronotile as ct
from chronotile.array import Array
from chronotile.cli import main
from chronotile.errors import ChangedError
from chronotile.format.timestamps import now_ms
from chronotile.storage.store import open_store

if TYPE_CHECKING:
    import pathlib

    from chronotile.change.plan import Report

NOW = (0, 1 << 60)
TIME = 1_700_000_000_000


def deleted(folder: pathlib.Path, *moments: int) -> EngineArray:
    """An array with deletes of single rows, at some moments."""
    array = EngineArray(folder).create()
    array.write(TIME, {1: 1, 2: 2, 3: 3})
    for at, moment in enumerate(moments, 1):
        array.delete(TIME + moment, f"a == {at}")
    return array


def delete_at(array: EngineArray, moment: int) -> str:
    (name,) = (d.name for d in ct.open_log(array.uri).view().deletes if d.t1 == TIME + moment)
    return name


def has_wipe(report: Report) -> bool:
    said = any("takes a delete of everything" in note for note in report.notes)
    assert said == any(step.reason == "deletes all before" for step in report.steps)
    return said


def codes(array: EngineArray) -> list[str]:
    return [item.code for item in ct.open_log(array.uri).check()]


@pytest.mark.parametrize("command", ["undelete", "restore"])
def test_a_write_of_an_earlier_time_shows_where_a_vac_can_hide(
    tmp_path: pathlib.Path, command: str, capsys: pytest.CaptureFixture[str]
) -> None:
    array = deleted(tmp_path / "array", 10)
    history = array.answer(0, TIME + 10)
    if command == "undelete":
        report = ct.undelete(array.uri, delete_at(array, 10))
    else:
        report = ct.restore(array.uri, TIME + 5)
    assert not has_wipe(report)
    assert array.answer(*NOW) == ((1, 1), (2, 2), (3, 3))
    array.write(TIME + 7, {7: 7})
    assert array.answer(*NOW) == ((1, 1), (2, 2), (3, 3), (7, 7))
    assert array.answer(0, TIME + 10) == (*history, (7, 7)), "it is a write of that time"
    assert codes(array) == []
    assert main(["explain", array.uri]) == 0
    assert f"hidden by the {command} of " in capsys.readouterr().out
    for _ in range(2):
        array.consolidate("fragments")
        array.vacuum("fragments")
        assert array.answer(*NOW) == ((1, 1), (2, 2), (3, 3), (7, 7))


def test_a_write_that_a_delete_of_everything_hides_is_named(
    tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Another delete must be applied again: it must show in the same step as the rows."""
    array = deleted(tmp_path / "array", 10, 20)
    name = delete_at(array, 20)
    assert has_wipe(ct.undelete(array.uri, name, dry_run=True))
    report = ct.undelete(array.uri, name)
    assert has_wipe(report)
    assert array.answer(*NOW) == ((2, 2), (3, 3))
    assert "late-write-hidden" not in codes(array)
    array.write(report.at_ms + 1_000, {5: 5})
    assert array.answer(*NOW) == ((2, 2), (3, 3), (5, 5))
    assert "late-write-hidden" not in codes(array)
    array.write(TIME + 15, {7: 7})
    assert array.answer(*NOW) == ((2, 2), (3, 3), (5, 5)), "the engine hides it"
    (found,) = (i for i in ct.open_log(array.uri).check() if i.code == "late-write-hidden")
    (late,) = array.files("__fragments", f"__{TIME + 15}_*")
    assert found.path == f"__fragments/{late}"
    assert found.message.startswith("1 write came after the delete of everything of ")
    assert main(["explain", array.uri]) == 0
    said = " ".join(capsys.readouterr().out.split())
    assert f"and is dated before it: no row of {late} shows" in said
    assert "it matches every row: no write that is dated" in said
    assert main(["explain", array.uri, late]) == 0
    assert f"no row of {late} shows" in " ".join(capsys.readouterr().out.split())
    assert main(["explain", array.uri, late, "--end", str(TIME + 15)]) == 0
    assert f"no row of {late} shows" not in " ".join(capsys.readouterr().out.split())
    command = re.match(r"to see its rows: chronotile (rows .*); .* after (\d+)$", found.hint)
    assert command is not None
    assert main([*command[1].split(), "--format", "csv"]) == 0
    assert capsys.readouterr().out.split()[1:] == ["7,7"]
    array.write(max(int(command[2]), now_ms()) + 2_000, {7: 7})
    assert array.answer(*NOW) == ((2, 2), (3, 3), (5, 5), (7, 7))


def test_what_a_delete_of_everything_was_meant_to_hide_is_no_finding(
    tmp_path: pathlib.Path,
) -> None:
    array = deleted(tmp_path / "array", 10)
    array.delete(TIME + 30, "x >= 0")
    array.write(TIME + 40, {4: 4})
    assert codes(array) == []
    array.consolidate("commits")
    array.vacuum("commits")
    assert "late-write-hidden" not in codes(array)
    array.write(TIME + 25, {5: 5})
    assert array.answer(*NOW) == ((4, 4),)
    assert "late-write-hidden" in codes(array)


def test_a_write_under_way_is_told_before_a_delete_of_everything(tmp_path: pathlib.Path) -> None:
    array = deleted(tmp_path / "array", 10, 20)
    aside = EngineArray(shutil.copytree(array.uri, tmp_path / "aside"))
    aside.write(TIME + 15, {7: 7})
    (late,) = aside.files("__fragments", f"__{TIME + 15}_*")
    shutil.copytree(aside.folder / "__fragments" / late, array.folder / "__fragments" / late)
    notes = ct.undelete(array.uri, delete_at(array, 20), dry_run=True).notes
    words = "has no commit: if it is a write under way, it would never show"
    assert f"__fragments/{late} {words}" in notes


def test_a_write_that_comes_just_before_a_delete_of_everything_is_kept(
    tmp_path: pathlib.Path,
) -> None:
    array = deleted(tmp_path / "array", 10, 20)
    before, cons = array.answer(*NOW), list[str]()

    def write(operation: str, path: str) -> None:
        if operation == "put" and path.endswith(".con"):
            cons.append(path)
            if len(cons) == 2:
                array.write(TIME + 15, {7: 7})

    store = open_store(array.uri, on_operation=write)
    with pytest.raises(ChangedError, match="it would never show; the change is taken back"):
        Array(store).undelete(delete_at(array, 20))
    assert array.answer(*NOW) == (*before, (7, 7))
    ct.undelete(array.uri, delete_at(array, 20))
    assert array.answer(*NOW) == ((2, 2), (3, 3), (7, 7))
