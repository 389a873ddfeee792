"""Restore, undelete, undo and publish, judged by the engine."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import time
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import pytest
import tiledb
from support.engine_arrays import EngineArray
from support.spec_files import ROOT
from support.verbs import restore_rows

import chronotile as ct
from chronotile.array import Array
from chronotile.change.operations import Who, begin, list_operations
from chronotile.change.past_state import UnreachableError
from chronotile.check.findings import RefusedError
from chronotile.errors import ChangedError, KeyNeededError
from chronotile.format.timestamps import now_ms
from chronotile.storage.store import open_store

if TYPE_CHECKING:
    import pathlib
    from collections.abc import Callable

    from chronotile.change.plan import Report

NOW = (0, 1 << 60)


def test_random_histories_restored_undone_and_gone_on_with() -> None:
    """In a process of its own: a crash of the engine is a failure."""
    done = subprocess.run(
        [sys.executable, "-m", "bench.restore_oracle", "--windows", "2000"],
        env=os.environ | {"PYTHONPATH": str(ROOT / "tests")},
        capture_output=True,
        text=True,
        check=False,
        timeout=500,
    )
    assert done.returncode == 0, (done.stdout + done.stderr)[-2000:]
    figures = json.loads(done.stdout)
    assert figures["windows"] >= 2000
    ways = ("sparse hide", "sparse flip", "sparse again", "sparse replay", "dense hide")
    for what in (*ways, "dense flip", "dense again", "undone", "gone on", "evolved", "duplicates"):
        assert figures[what] > 0, what


@pytest.fixture
def array(tmp_path: pathlib.Path) -> EngineArray:
    array = EngineArray(tmp_path / "array").create()
    array.write(10, {1: 1, 2: 2, 3: 3})
    array.delete(15, "a == 1")
    array.write(20, {2: 20, 4: 40})
    array.delete(30, "a >= 3")
    array.write(40, {9: 9})
    return array


def delete_at(array: EngineArray, moment: int) -> str:
    (name,) = (item.name for item in ct.open_log(array.uri).view().deletes if item.t1 == moment)
    return name


def undone(array: EngineArray, report: Report) -> Report:
    return ct.undo(array.uri, report)


def test_a_restore_tells_what_goes_out_of_sight_and_comes_back(tmp_path: pathlib.Path) -> None:
    array = EngineArray(tmp_path / "array").create()
    for moment in (10, 20):
        array.write(moment, {moment: 1, moment + 1: 2})
    array.consolidate("fragments")
    facts = {row["name"]: row for row in ct.open_log(array.uri).fragments().to_pylist()}
    merged = next(row for row in facts.values() if row["t1"] != row["t2"])
    first = next(row for row in facts.values() if row["t2"] == 10)
    notes = ct.restore(array.uri, 10, dry_run=True).notes
    assert f"hides 1 fragment with 4 cells and {merged['bytes']:,} bytes" in notes
    assert f"shows again 1 fragment with 2 cells and {first['bytes']:,} bytes" in notes


def test_the_rows_of_a_delete_come_back(array: EngineArray, tmp_path: pathlib.Path) -> None:
    windows = [(0, end) for end in (10, 15, 20, 29, 30, 40)]
    before = array.answers((*windows, NOW))
    ct.undelete(array.uri, delete_at(array, 30))
    assert array.answers(windows) == {window: before[window] for window in windows}
    assert array.answer(*NOW) == ((20, 2), (3, 3), (40, 4), (9, 9))
    real = 1_700_000_000_000  # the engine stumbles over times of several lengths (F3)
    array = EngineArray(tmp_path / "real").create()
    array.write(real, {2: 20, 3: 3, 4: 40, 9: 9})
    array.delete(real + 1, "a >= 3")
    report = ct.undelete(array.uri, delete_at(array, real + 1))
    array.consolidate("commits")  # it finds the file of each delete (F1)
    assert array.answer(*NOW) == ((20, 2), (3, 3), (40, 4), (9, 9))
    with pytest.raises(RefusedError, match=r"another file holds .* too: it was consolidated since"):
        undone(array, report)


def test_for_ever_a_delete_leaves_every_window(array: EngineArray) -> None:
    before = array.answers([(0, 35), NOW])
    report = ct.undelete(array.uri, delete_at(array, 30), ever=True)
    assert array.answer(0, 35) == ((20, 2), (3, 3), (40, 4))
    assert array.answer(*NOW) == ((20, 2), (3, 3), (40, 4), (9, 9))
    undone(array, report)
    assert array.answers([(0, 35), NOW]) == before
    array.consolidate("commits")
    array.vacuum("commits")
    report = ct.undelete(array.uri, delete_at(array, 30), ever=True)
    assert array.answer(*NOW) == ((20, 2), (3, 3), (40, 4), (9, 9))
    undone(array, report)
    assert array.answers([(0, 35), NOW]) == before


def test_a_delete_that_was_applied_keeps_its_name(array: EngineArray) -> None:
    """F14: without its file the engine's next consolidation would crash."""
    array.consolidate("fragments", (0, 50))
    array.vacuum("fragments")
    name = delete_at(array, 30)
    with pytest.raises(UnreachableError, match="has applied"):
        ct.undelete(array.uri, name, commits_only=True)
    way = rf"no row would come back for ever: .*: chronotile undelete {array.uri} {name}$"
    with pytest.raises(RefusedError, match=way):
        ct.undelete(array.uri, name, ever=True)
    assert ct.undelete(array.uri, name, dry_run=True).rows == {"restored": 3}
    array.write(25, {6: 6})
    before = array.answer(*NOW)
    report = ct.undelete(array.uri, name, ever=True)
    assert report.rows == {"restored": 1}
    counted, note = report.notes
    assert counted.startswith("1 of 4 rows come back; 3 stay away: __")
    assert "come back, except in fragments that have applied it" in note
    assert array.answer(*NOW) == tuple(sorted((*before, (6, 6)), key=repr))
    script = f"import tiledb; tiledb.consolidate({array.uri!r})"
    subprocess.run([sys.executable, "-c", script], check=True, timeout=60)
    assert array.answer(*NOW) == tuple(sorted((*before, (6, 6)), key=repr))


@pytest.mark.parametrize("duplicates", [False, True])
def test_just_the_rows_of_a_delete_are_written_again(
    tmp_path: pathlib.Path, duplicates: bool
) -> None:
    """What later writes and deletes did to them stays."""
    array = EngineArray(tmp_path / "array").create(duplicates=duplicates)
    array.write(10, {1: 1, 2: 2, 3: 3, 4: 4, 5: 5})
    array.delete(20, "a >= 2")
    array.write(30, {2: 20, 3: 30})
    array.delete(40, "a == 30 or a == 4")
    array.consolidate("fragments")
    array.vacuum("fragments")
    array.write(50, {9: 9})
    windows = [(0, end) for end in (10, 20, 30, 40, 50)]
    before = array.answers((*windows, NOW))
    name = delete_at(array, 20)
    planned = ct.undelete(array.uri, name, dry_run=True)
    back = ((2, 2), (3, 3), (5, 5)) if duplicates else ((5, 5),)
    assert planned.rows == {"restored": len(back)}
    report = ct.undelete(array.uri, name)
    assert report.rows == planned.rows
    assert array.answer(*NOW) == tuple(sorted((*before[NOW], *back), key=repr))
    assert array.answers(windows) == {window: before[window] for window in windows}
    assert ct.undelete(array.uri, delete_at(array, 40), dry_run=True).rows == {"restored": 1}
    again = ct.undelete(array.uri, name)
    assert not again.steps
    assert again.notes == (
        f"undelete {report.operation} brought back the rows that {name} removed",
    )
    ct.undo(array.uri)
    assert array.answers((*windows, NOW)) == before


def test_rows_written_again_keep_the_values_of_a_dropped_attribute(tmp_path: pathlib.Path) -> None:
    """The engine shows them once the attribute is added again."""
    attrs = [tiledb.Attr(name, dtype=np.int32) for name in "ab"]
    array = EngineArray(tmp_path / "array").create(attrs=attrs)
    for at in (10, 11):
        value = np.array([at, at + 10], np.int32)
        array.write_columns(at, [at, at + 10], {"a": value, "b": value})
    array.delete(20, "a == 20")
    array.consolidate("fragments")
    array.vacuum("fragments")
    time.sleep(0.002)
    array.evolve(drop="b")
    report = ct.undelete(array.uri, delete_at(array, 20))
    assert report.rows == {"restored": 1}
    assert any("TileDB writes 1 row again" in note for note in report.notes)
    time.sleep(0.002)
    array.evolve(add=attrs[1])
    assert array.answer(*NOW) == tuple((x, x, x) for x in (10, 11, 20, 21))


def test_cells_with_times_of_their_own_cannot_move(array: EngineArray) -> None:
    array.consolidate("fragments", (0, 50))
    array.vacuum("fragments")
    array.delete(60, "a == 9")
    with pytest.raises(UnreachableError, match="holds cells with the times") as caught:
        ct.restore(array.uri, 50, commits_only=True)
    assert str(caught.value).endswith(f"chronotile restore {array.uri} --to 50 --rewrite")
    near = r"nearest times that can be had are 9 \(.*first write\); to have TileDB write the rows: "
    with pytest.raises(UnreachableError, match=near):
        ct.restore(array.uri, 25, commits_only=True)
    ct.undelete(array.uri, delete_at(array, 60), ever=True)
    assert (9, 9) in array.answer(*NOW)


def test_the_parts_of_a_merged_dense_fragment_must_be_there(tmp_path: pathlib.Path) -> None:
    array = EngineArray(tmp_path / "array").create(sparse=False)
    for at in (10, 20, 30):
        array.write(at, {1: at, 2: at})
    array.consolidate("fragments")
    array.vacuum("fragments")
    with pytest.raises(UnreachableError, match=r"without it .* 9 \(.* or 30 "):
        ct.restore(array.uri, 20)


@pytest.mark.parametrize("vacuumed", [False, True])
def test_a_merged_fragment_cannot_move_past_a_delete(
    tmp_path: pathlib.Path, vacuumed: bool
) -> None:
    """The engine passes over deletes that are older than a fragment's name."""
    array = EngineArray(tmp_path / "array").create()
    array.write(10, {1: 1, 2: 2})
    array.write(20, {3: 3})
    array.consolidate("fragments")
    if vacuumed:
        array.vacuum("fragments")
    (merged,) = array.files("__fragments", "__10_20_*")
    array.delete(30, "a == 1")
    array.write(40, {4: 4})
    array.consolidate("fragments")
    copy = EngineArray(tmp_path / "copy")
    shutil.copytree(array.uri, copy.uri)
    again = merged.replace("__10_20_", "__50_50_")
    (copy.folder / "__fragments" / merged).rename(copy.folder / "__fragments" / again)
    (copy.commits_folder / f"{merged}.wrt").rename(copy.commits_folder / f"{again}.wrt")
    assert copy.answer(45, 50) == ((1, 1), (2, 2), (3, 3))
    assert copy.answer(0, 50) == ((1, 1), (2, 2), (3, 3), (4, 4)), "though its cells are older"
    then = array.answer(0, 35)
    assert then == ((2, 2), (3, 3))
    if vacuumed:
        with pytest.raises(UnreachableError, match="--rewrite"):
            ct.restore(array.uri, 35, commits_only=True)
    ct.restore(array.uri, 35)
    assert array.answer(*NOW) == then


def test_schema_and_metadata_come_back_and_tags_stay(tmp_path: pathlib.Path) -> None:
    attrs = [tiledb.Attr("a", dtype=np.int32), tiledb.Attr("b", dtype=np.int32)]
    array = EngineArray(tmp_path / "array").create(attrs=attrs)
    array.write_raw(now_ms(), x=[1], a=[1], b=[1])
    set_meta(array, k=1, gone=2)
    moment = now_ms() + 1
    while now_ms() <= moment:
        pass
    then = array.answer(0, moment)
    set_meta(array, k=2, new=3)
    with tiledb.open(array.uri, "w", ctx=array.ctx) as opened:
        del opened.meta["gone"]
        opened.meta["chronotile.tag.v1"] = moment
    array.evolve(drop="b")
    array.write_raw(now_ms(), x=[2], a=[2])
    now, meta = array.answer(*NOW), read_meta(array)
    report = ct.restore(array.uri, moment)
    assert array.answer(*NOW) == then != now
    assert read_meta(array) == {"k": 1, "gone": 2, "chronotile.tag.v1": moment}
    assert ct.restore(array.uri, moment).steps == ()
    undone(array, report)
    assert array.answer(*NOW) == now
    assert read_meta(array) == meta
    report = ct.restore(array.uri, moment)
    later = now_ms() + 50
    array.write_raw(later, x=[3], a=[3], b=[3])
    restored = array.answer(*NOW)
    undone(array, report)
    wanted = tuple(sorted((*now, (3, 3)), key=repr))
    assert array.answer(*NOW) == array.answer(0, later) == wanted
    assert array.answer(0, later - 1) == now
    array.write_raw(later + 1, x=[4], a=[4])
    ct.undo(array.uri, ct.open(array.uri).operations()["id"][0].as_py())
    assert array.answer(0, later) == restored
    ct.undo(array.uri)
    assert array.answer(0, later) == wanted


def test_metadata_that_was_merged_can_stay_as_it_is(tmp_path: pathlib.Path) -> None:
    array = EngineArray(tmp_path / "array").create()
    array.write(now_ms(), {1: 1})
    set_meta(array, k=1)
    moment = now_ms() + 1
    while now_ms() <= moment:
        pass
    then = array.answer(0, moment)
    set_meta(array, k=2)
    array.write(now_ms(), {2: 2})
    array.consolidate("array_meta")
    array.vacuum("array_meta")
    with pytest.raises(RefusedError, match="; to leave the metadata as it is, add --keep-metadata"):
        ct.restore(array.uri, moment)
    ct.restore(array.uri, moment, keep_metadata=True)
    assert array.answer(*NOW) == then
    assert read_meta(array) == {"k": 2}


def set_meta(array: EngineArray, **values: int) -> None:
    with tiledb.open(array.uri, "w", ctx=array.ctx) as opened:
        for key, value in values.items():
            opened.meta[key] = value


def read_meta(array: EngineArray) -> dict[str, object]:
    with tiledb.open(array.uri, ctx=array.ctx) as opened:
        return dict(opened.meta.items())


def test_a_delete_on_a_newer_field_stands_in_the_way(tmp_path: pathlib.Path) -> None:
    attrs = [tiledb.Attr("a", dtype=np.int32), tiledb.Attr("b", dtype=np.int32)]
    array = EngineArray(tmp_path / "array").create(attrs=attrs)
    moment = now_ms()
    while now_ms() == moment:
        pass
    evolution = tiledb.ArraySchemaEvolution(array.ctx)
    evolution.add_attribute(tiledb.Attr("c", dtype=np.int32))
    evolution.array_evolve(array.uri)
    array.write_raw(now_ms() + 1, x=[1], a=[1], b=[1], c=[1])
    array.delete(now_ms() + 2, "c == 1")
    with pytest.raises(
        RefusedError, match=r"names 'c'; to take it out: chronotile undelete .* --ever"
    ):
        ct.restore(array.uri, moment)


def test_what_an_undo_refuses(array: EngineArray) -> None:
    with pytest.raises(RefusedError, match="nothing to undo"):
        ct.undo(array.uri)
    restored = ct.restore(array.uri, 20)
    assert ct.undo(array.uri, dry_run=True).steps
    done = ct.undo(array.uri)
    assert done.undoes == restored.operation
    redo = f"chronotile undo {array.uri} {done.operation}"
    undone = f"every change is undone; to redo the restore {restored.operation}: {redo}$"
    with pytest.raises(RefusedError, match=undone):
        ct.undo(array.uri)
    with pytest.raises(RefusedError, match="is undone already"):
        ct.undo(array.uri, restored)
    restored = replace(restored, operation=None)
    other = restored.to_dict() | {"array": "elsewhere"}
    with pytest.raises(RefusedError, match="expected a report of this array"):
        ct.undo(array.uri, other)
    removal = restored.to_dict() | {"steps": [{"op": "remove", "path": "__commits/x"}]}
    with pytest.raises(RefusedError, match="it removed files"):
        ct.undo(array.uri, removal)
    outside = restored.to_dict() | {"steps": [{"op": "put", "path": "../x", "sha256": ""}]}
    with pytest.raises(ct.ChronotileError, match="expected the record of a change"):
        ct.undo(array.uri, outside)


def test_a_vacuum_makes_a_restore_final(tmp_path: pathlib.Path) -> None:
    array = EngineArray(tmp_path / "array").create()
    array.write(10, {1: 1})
    array.write(20, {2: 2})
    report = ct.restore(array.uri, 10)
    assert ct.open_log(array.uri).check() == ()
    assert ct.vacuum(array.uri).steps == (), "ours keeps the only copy"
    array.vacuum("fragments")
    assert array.answer(*NOW) == ((1, 1),)
    with pytest.raises(RefusedError, match=r"a vacuum removed .*, which it hid"):
        undone(array, report)


def test_our_own_changes_can_be_undone(array: EngineArray) -> None:
    before = array.answers([(0, 25), NOW])
    files = array.files("__commits")
    changes: list[Callable[[], Report]] = [
        lambda: ct.consolidate(array.uri, mode="all"),
        lambda: ct.write_delete(array.uri, "a == 9"),
    ]
    for change in changes:
        undone(array, change())
        assert array.files("__commits") == files
        assert array.answers([(0, 25), NOW]) == before
    report = ct.consolidate(array.uri)
    ct.vacuum(array.uri, loose_deletes=True)
    with pytest.raises(RefusedError, match="a vacuum or an erase removed what it needs"):
        undone(array, report)
    assert array.answers([(0, 25), NOW]) == before


def test_publish_shows_all_at_once(array: EngineArray, tmp_path: pathlib.Path) -> None:
    before = array.answers([(0, 40), NOW])
    stages = [EngineArray(tmp_path / f"stage{number}").create() for number in range(2)]
    stages[0].write(50, {50: 1})
    stages[0].write(51, {50: 2, 51: 3})
    stages[1].write(60, {60: 4})
    places = [stage.uri for stage in stages]
    report = ct.publish(places, array.uri)
    assert [step.reason for step in report.steps][-1] == "commits 3 writes in one step"
    assert array.answer(0, 40) == before[0, 40]
    new = {(2, 50), (3, 51), (4, 60)}
    assert set(array.answer(*NOW)) == {*before[NOW], *new}
    second = ct.publish(places, array.uri)
    assert (second.steps, second.notes) == ((), ("3 staged fragments are already there",))
    undone(array, report)
    assert array.answers([(0, 40), NOW]) == before
    ct.publish(places, array.uri, at=90)
    assert array.answer(0, 89) == before[NOW]
    assert set(array.answer(*NOW)) == {*before[NOW], *new}
    for mode in ("fragments", "commits"):
        array.consolidate(mode)
        array.vacuum(mode)
    assert set(array.answer(*NOW)) == {*before[NOW], *new}
    assert [item for item in ct.open_log(array.uri).check() if item.severity == "error"] == []


def test_what_publish_refuses(array: EngineArray, tmp_path: pathlib.Path) -> None:
    stage = EngineArray(tmp_path / "stage").create()
    stage.write(50, {50: 1})
    with pytest.raises(RefusedError, match="the staging array is the target itself"):
        ct.publish(array.uri, array.uri)
    stage.delete(60, "a == 7")
    with pytest.raises(RefusedError, match="is in force, and would hide rows"):
        ct.publish(stage.uri, array.uri)
    loose = EngineArray(tmp_path / "loose").create(attrs=[tiledb.Attr("a", dtype=np.float64)])
    loose.write_raw(50, x=[1], a=[1.0])
    target = shutil.copytree(loose.folder, tmp_path / "target")
    loose.delete(60, "a > 7.0")  # it takes NaN too, so an erasure refuses
    with pytest.raises(RefusedError, match=r": chronotile compact \S* --purge --vacuum; then, "):
        ct.publish(loose.uri, str(target))
    other = EngineArray(tmp_path / "other").create(attrs=[tiledb.Attr("a", dtype=np.int64)])
    other.write_raw(50, x=[1], a=[1])
    other.delete(60, "a == 7")  # the schema is told first: the delete does not matter then
    with pytest.raises(RefusedError, match=r"which is not that of .* nothing was changed"):
        ct.publish(other.uri, array.uri)
    merged = EngineArray(tmp_path / "merged").create()
    merged.write(50, {1: 1})
    merged.write(51, {2: 1})
    merged.consolidate("fragments")
    with pytest.raises(RefusedError, match="its cells keep their own"):
        ct.publish(merged.uri, array.uri, at=100)
    damaged = EngineArray(tmp_path / "damaged").create()
    damaged.write(50, {1: 1})
    next(damaged.folder.rglob("a0.tdb")).write_bytes(b"")
    with pytest.raises(RefusedError, match=r"the array is damaged: .* \(fragment-damaged\)"):
        ct.publish(damaged.uri, array.uri)


def test_a_staging_array_that_fits_after_an_evolution(tmp_path: pathlib.Path) -> None:
    attrs = [tiledb.Attr("a", dtype=np.int32), tiledb.Attr("b", dtype=np.int32)]
    array = EngineArray(tmp_path / "array").create(attrs=attrs)
    early = EngineArray(tmp_path / "early").create()
    array.write_raw(10, x=[1], a=[1], b=[1])
    array.evolve(drop="b")
    early.write(20, {2: 2})
    with pytest.raises(
        RefusedError, match=r"to make one that fits: .* clone .* staging --start now"
    ):
        ct.publish(early.uri, array.uri)
    stage = EngineArray(tmp_path / "stage")
    ct.clone(array.uri, stage.uri, start="now")
    assert stage.answer(*NOW) == ()
    stage.write(20, {2: 2})
    old = array.answer(0, 15)
    ct.publish(stage.uri, array.uri)
    assert array.answer(*NOW) == ((1, 1), (2, 2))
    assert array.answer(0, 15) == old


def test_the_engine_writes_the_rows_of_then_anew(array: EngineArray) -> None:
    array.consolidate("fragments", (0, 50))
    array.vacuum("fragments")
    array.delete(60, "a == 9")
    array.write(70, {7: 7})
    windows = [(0, end) for end in (10, 20, 35, 40, 60, 70)]
    before = array.answers((*windows, NOW))
    with pytest.raises(UnreachableError, match="--rewrite"):
        ct.restore(array.uri, 25, commits_only=True)
    planned = ct.restore(array.uri, 25, dry_run=True)
    planned_steps = [(step.op, step.path.partition("/")[0]) for step in planned.steps]
    assert "would write 1 fragment (bytes not known beforehand)" in planned.summary()
    assert (
        planned.notes[0] == "commits alone cannot bring the rows back: TileDB writes 3 rows again"
    )
    assert planned.rows == {"rewritten": 3}
    for moment in (25, 50):
        report = restore_rows(array.uri, moment)
        steps = [(step.op, step.path.partition("/")[0]) for step in report.steps]
        assert steps == planned_steps
        assert array.answer(*NOW) == array.answer(0, moment) != before[NOW]
        assert array.answers(windows) == {window: before[window] for window in windows}
        undone(array, report)
        assert array.answers((*windows, NOW)) == before
    restore_rows(array.uri, 5)
    assert array.answer(*NOW) == ()


def test_a_moment_of_its_own(array: EngineArray) -> None:
    later = now_ms() + 3_600_000
    before = array.answer(*NOW)
    ct.restore(array.uri, 20, at=later)
    assert array.answer(0, later - 1) == before
    assert array.answer(*NOW) == array.answer(0, 20) != before
    with pytest.raises(
        RefusedError, match=r"the moment 50 is too early: the last commit is of \d+ "
    ):
        ct.restore(array.uri, 10, at=50)
    with pytest.raises(
        RefusedError, match=r"a commit of the future, .*; give a time after it: --at \d+ "
    ):
        ct.restore(array.uri, 10)


def test_the_ways_by_commits_alone_need_no_engine(tmp_path: pathlib.Path) -> None:
    array = EngineArray(tmp_path / "array").create()
    array.write(10, {1: 1, 2: 2})
    ct.open(array.uri).delete("a == 1")
    (delete,) = ct.open_log(array.uri).view().deletes
    (tmp_path / "tiledb.py").write_text("raise ImportError('not here')\n")
    path = os.pathsep.join([str(tmp_path), *filter(None, sys.path)])
    script = "import sys; from chronotile.cli import main; sys.exit(main(sys.argv[1:]))"
    for arguments, rows in (
        (("undelete", array.uri, delete.name), ((1, 1), (2, 2))),
        (("undo", array.uri), ((2, 2),)),
        (("undelete", array.uri, delete.name, "--ever"), ((1, 1), (2, 2))),
        (("restore", array.uri, "--to", "5"), ()),
    ):
        done = subprocess.run(
            [sys.executable, "-c", script, *arguments],
            env={**os.environ, "PYTHONPATH": path},
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        assert array.answer(*NOW) == rows


def test_what_a_broken_off_change_left_is_taken_back(array: EngineArray) -> None:
    store = open_store(array.uri)
    before, files = array.answer(*NOW), array.files("__commits")
    planned = replace(ct.restore(array.uri, 20, dry_run=True), dry_run=False)
    operation = begin(store, planned, Who())
    record = array.folder / operation.path
    # As if another process had begun it, and were gone.
    record.write_text(record.read_text().replace(f'"pid": {os.getpid()}', '"pid": 4194304'))
    put, *_ = (step for step in planned.steps if step.op == "put" and step.path.endswith(".con"))
    for step in planned.steps:
        if step.path.endswith(".con"):
            store.put_if_absent(step.path, step.data)
            if "in one step" in step.reason:
                break
    assert put.path.rpartition("/")[2] in array.files("__commits")
    for step in planned.steps:
        if step.op in ("link", "copy"):
            (array.folder / step.path).mkdir()
    report = ct.consolidate(array.uri)
    assert "it is taken back" in report.notes[0]
    ct.undo(array.uri, report)
    assert array.files("__commits") == files
    assert list_operations(store)[-1].state == "failed"
    assert array.answer(*NOW) == before


def test_with_a_key(tmp_path: pathlib.Path) -> None:
    key = "0123456789abcdeF0123456789abcdeF"
    array = EngineArray(tmp_path / "array", key=key).create()
    array.write(10, {1: 1, 2: 2})
    array.delete(20, "a == 1")
    array.write(30, {3: 3})
    with pytest.raises(KeyNeededError):
        ct.restore(array.uri, 15)
    report = ct.restore(array.uri, 15, key=key)
    assert array.answer(*NOW) == ((1, 1), (2, 2))
    ct.undo(array.uri, report, key=key)
    assert array.answer(*NOW) == ((2, 2), (3, 3))
    copy = EngineArray(tmp_path / "copy", key=key)
    ct.clone(array.uri, copy.uri, end=15, key=key)
    assert copy.answer(*NOW) == ((1, 1), (2, 2))
    assert (tmp_path / "copy" / "__schema").exists()


def test_a_write_that_comes_meanwhile_stops_a_restore(array: EngineArray) -> None:
    def write(operation: str, path: str) -> None:
        if operation == "copy" and not done:
            done.append(path)
            array.write(50, {8: 8})

    done: list[str] = []
    before = array.answer(*NOW)
    store = open_store(array.uri, on_operation=write)
    with pytest.raises(ChangedError, match="expected the commits as they were read"):
        Array(store).restore(20)
    assert array.answer(*NOW) == tuple(sorted((*before, (8, 8)), key=repr))
    ct.restore(array.uri, 20)
    assert array.answer(*NOW) == array.answer(0, 20)


def test_a_time_that_is_not_there_yet_or_was_before_everything(array: EngineArray) -> None:
    ahead = now_ms() + 3_600_000
    with pytest.raises(RefusedError, match="is in the future: a restore goes back in time"):
        ct.restore(array.uri, ahead)
    assert "is in the future" in ct.open(array.uri).tag("ahead", at=ahead).notes[0]
    assert "before anything was written" in ct.open(array.uri).tag("early", at=1).notes[0]
    assert any("before anything was written" in note for note in ct.restore(array.uri, 1).notes)


def test_what_a_restore_hides_is_said_to_stay(tmp_path: pathlib.Path) -> None:
    array = EngineArray(tmp_path / "array").create()
    for at in (10, 20):
        array.write(at, {at: at})
    ct.restore(array.uri, 10)
    (note,) = ct.vacuum(array.uri, mode="fragments").notes
    assert "a restore or an undelete hides it, and its undo" in note


def test_an_update_that_a_restore_hides_is_no_surprise(array: EngineArray) -> None:
    ct.open(array.uri).update("a == 1", ["a=7"], experimental=True)
    assert "update-deletes" in {one.code for one in ct.open(array.uri).check()}
    ct.restore(array.uri, 20, rewrite=True)
    assert "update-deletes" not in {one.code for one in ct.open(array.uri).check()}
    ct.consolidate(array.uri, updates=True)
    assert "con-has-updates" not in {one.code for one in ct.open(array.uri).check()}


def test_a_stand_in_of_an_update_is_no_update_that_nobody_sees(tmp_path: pathlib.Path) -> None:
    array = EngineArray(tmp_path / "array").create()
    array.write(10, {1: 1, 2: 2})
    array.write(20, {3: 3})
    handle = ct.open(array.uri)
    handle.update("a == 1", ["a=7"], experimental=True)
    array.consolidate("fragments")
    array.vacuum("fragments")
    handle.apply()
    handle.consolidate(updates=True)
    assert any(path.read_bytes().count(b".upd") for path in array.commits_folder.glob("*.con"))
    assert not [one for one in handle.check() if one.code == "con-has-updates"]
