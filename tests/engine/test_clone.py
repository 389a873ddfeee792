"""Clones, judged by the engine: they show what an open of the source at a window shows."""

from __future__ import annotations

import os
import pathlib
import shutil
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
import tiledb
from support.corpus_cases import CASES
from support.engine_answers import read
from support.engine_arrays import EngineArray, s3_settings

import chronotile as ct
from chronotile.array import Array
from chronotile.change.past_state import UnreachableError
from chronotile.check.findings import RefusedError
from chronotile.cli import main
from chronotile.storage.place import ObjectExistsError
from chronotile.storage.store import open_store
from chronotile.storage.transfer import Transfer

if TYPE_CHECKING:
    from support.servers import S3Server

    from chronotile.storage.transfer import Link

ENDS = (5, 10, 19, 20, 22, 25, 30, 40, 45, 50, 60)
NOW = (0, 1 << 60)


@pytest.fixture
def array(tmp_path: pathlib.Path) -> EngineArray:
    """Writes, deletes, consolidations over each other, nothing vacuumed, metadata."""
    array = EngineArray(tmp_path / "array").create()
    array.write(10, {1: 1, 2: 2, 3: 3})
    array.write(20, {3: 30, 4: 40})
    array.delete(25, "a < 3")
    array.write(30, {1: 100, 5: 50})
    array.consolidate("commits")
    array.vacuum("commits")
    array.consolidate("fragments", (5, 22))
    array.write(40, {8: 8})
    array.write(50, {7: 7})
    array.consolidate("fragments")
    array.delete(60, "a == 100 and x == 1")
    for at in (20, 40):
        with tiledb.open(array.uri, "w", timestamp=at, ctx=array.ctx) as opened:
            opened.meta["at"] = at
    return array


def metadata(array: EngineArray, end: int) -> dict[str, object]:
    with tiledb.open(array.uri, timestamp=end, ctx=array.ctx) as opened:
        return dict(opened.meta.items())


@pytest.mark.parametrize("link", ["hard", "symbolic", "copy"])
def test_a_clone_shows_what_the_window_shows(
    array: EngineArray, tmp_path: pathlib.Path, link: Link
) -> None:
    for end in ENDS:
        copy = EngineArray(tmp_path / f"clone{end}")
        report = ct.clone(array.uri, copy.uri, end=end, link=link)
        assert copy.answer(*NOW) == array.answer(0, end), end
        assert metadata(copy, 1 << 60) == metadata(array, end)
        assert len([step for step in report.steps if step.path.endswith(".con")]) == (end >= 10)
        again = ct.clone(array.uri, copy.uri, end=end, link=link)
        assert not again.has_steps
        assert "it is there already" in again.notes[0]
    with pytest.raises(RefusedError, match=r"another clone already, made .*; choose another place"):
        ct.clone(array.uri, copy.uri, end=ENDS[1], link=link)
    inodes = {path.stat().st_ino for path in array.folder.rglob("*.tdb")}
    shared = {path.stat().st_ino for path in copy.folder.rglob("*.tdb") if link != "symbolic"}
    assert shared <= inodes if link == "hard" else not shared & inodes


def test_source_and_clone_survive_each_other(array: EngineArray, tmp_path: pathlib.Path) -> None:
    copy = EngineArray(tmp_path / "clone")
    ct.clone(array.uri, copy.uri)
    then = array.answer(*NOW)
    copy.write(70, {1: -1})
    copy.delete(80, "a == 7")
    for mode in ("commits", "fragments"):
        copy.consolidate(mode)
        copy.vacuum(mode)
    assert array.answer(*NOW) == then
    changed = copy.answer(*NOW)
    assert changed != then
    array.consolidate("fragments")  # its commits never again: F1
    array.vacuum("fragments")
    shutil.rmtree(array.folder)
    assert copy.answer(*NOW) == changed
    assert [item for item in ct.open_log(copy.uri).check() if item.severity == "error"] == []


def test_without_a_delete_its_rows_come_back(array: EngineArray, tmp_path: pathlib.Path) -> None:
    (name,) = (d.name for d in ct.open_log(array.uri).view().deletes if d.t1 == 25)
    copy = EngineArray(tmp_path / "clone")
    assert ct.clone(array.uri, copy.uri, without=[name]).notes == ()
    assert {(1, 1), (2, 2)} & set(array.answer(*NOW)) == set()
    assert (2, 2) in copy.answer(*NOW)
    array.vacuum("fragments")
    again = EngineArray(tmp_path / "again")
    (note,) = ct.clone(array.uri, again.uri, without=[name]).notes
    assert "matches no row" in note
    assert "except in fragments that have applied it" in note
    assert again.answer(*NOW) == array.answer(*NOW)
    again.write(90, {9: 9})
    again.consolidate("fragments")
    assert (9, 9) in again.answer(*NOW)


def test_a_window_inside_a_merged_fragment_is_refused(
    array: EngineArray, tmp_path: pathlib.Path
) -> None:
    array.vacuum("fragments")
    with pytest.raises(UnreachableError, match=r"nearest times that can be had are 9 \(.* or 50 "):
        ct.clone(array.uri, str(tmp_path / "clone"), end=30)
    assert not (tmp_path / "clone").exists()


def test_from_arrays_that_the_engine_refuses(tmp_path: pathlib.Path) -> None:
    attrs = [tiledb.Attr("a", dtype=np.int32, nullable=True), tiledb.Attr("b", dtype=np.int32)]
    array = EngineArray(tmp_path / "array").create(attrs=attrs)
    for at in (10, 20):
        array.write_raw(at, x=[at], a=[at], b=[at])
    then: Any = array.answer(*NOW)
    array.commit(30, "a == None")
    array.delete(40, "b == 10")
    array.evolve(drop="b")
    assert str(array.answer(*NOW)).startswith("error")
    names = [delete.name for delete in ct.open_log(array.uri).view().deletes]
    copy = EngineArray(tmp_path / "clone")
    ct.clone(array.uri, copy.uri, without=names)
    assert copy.answer(*NOW) == tuple((a, x) for a, _, x in then)
    shutil.rmtree(array.folder / "__fragments" / array.files("__fragments")[0])
    again = EngineArray(tmp_path / "again")
    (note,) = ct.clone(array.uri, again.uri, without=names).notes
    assert note.endswith("it is committed, and gone")
    assert len(again.answer(*NOW)) == 1


def test_the_schema_of_the_window(tmp_path: pathlib.Path) -> None:
    attrs = [tiledb.Attr("a", dtype=np.int32), tiledb.Attr("b", dtype=np.int32)]
    array = EngineArray(tmp_path / "array").create(attrs=attrs)
    array.write_raw(10, x=[1], a=[1], b=[1])
    created = ct.open_log(array.uri).history.schemas[0].name
    assert created is not None
    array.evolve(drop="b")
    array.write_raw(20, x=[2], a=[2])
    old, new = EngineArray(tmp_path / "old"), EngineArray(tmp_path / "new")
    ct.clone(array.uri, old.uri, end=created.t2)
    ct.clone(array.uri, new.uri)
    assert array.answer(0, created.t2) == old.answer(*NOW)
    assert array.answer(*NOW) == new.answer(*NOW) != old.answer(*NOW)


def test_dense_and_a_window_that_starts_late(tmp_path: pathlib.Path) -> None:
    array = EngineArray(tmp_path / "array").create(sparse=False)
    for at in (10, 20, 30):
        array.write(at, {at // 10: at, at // 10 + 1: at})
    array.consolidate("fragments")
    for window in ((0, 20), (15, 25), (15, 99), (0, 99)):
        copy = EngineArray(tmp_path / f"clone{window}")
        copy.sparse = False
        ct.clone(array.uri, copy.uri, start=window[0], end=window[1])
        assert copy.answer(*NOW) == array.answer(*window), window


def test_in_a_bucket_and_out_of_it(
    array: EngineArray, tmp_path: pathlib.Path, s3: S3Server, bucket: str
) -> None:
    there = EngineArray(f"{bucket}/there", settings=s3_settings(s3))
    ct.clone(array.uri, there.uri, storage_options=s3.options)
    assert there.answer(*NOW) == array.answer(*NOW)
    beside = EngineArray(f"{bucket}/beside", settings=s3_settings(s3))
    seen: list[str] = []
    source = open_store(there.uri, s3.options, on_operation=lambda _, path: seen.append(path))
    Array(source).clone(beside.uri, end=55)
    assert beside.answer(*NOW) == array.answer(0, 55)
    assert not [path for path in seen if path.endswith("a0.tdb")], "cells went through this process"
    back = EngineArray(tmp_path / "back")
    ct.clone(beside.uri, back.uri, storage_options=s3.options)
    assert back.answer(*NOW) == array.answer(0, 55)


def test_arrays_of_every_age_and_kind(tmp_path: pathlib.Path) -> None:
    """Old layouts, encrypted arrays, all kinds of fields: a clone reads as its source does."""
    compared = 0
    for name in sorted(CASES)[::3]:
        case, source = CASES[name], tmp_path / name / "source"
        shutil.copytree(case.array, source, symlinks=True)
        wanted = read(str(source), case, NOW)
        if wanted.startswith("error"):
            continue
        copy = str(tmp_path / name / "clone")
        ct.clone(str(source), copy, end=(1 << 64) - 1, key=case.key)
        assert read(copy, case, NOW) == wanted, name
        compared += 1
    assert compared > 40


def test_dimension_labels_come_along(tmp_path: pathlib.Path) -> None:
    """They are arrays by themselves: a clone has them as of its window, a restore leaves them."""
    source, clone = tmp_path / "array", tmp_path / "clone"
    shutil.copytree(CASES["labels"].array, source)
    ct.clone(str(source), str(clone))
    label = "__labels/l0"
    then = [read_dense(place / label) for place in (source, clone)]
    assert then[0] == then[1] != []
    inner = EngineArray(source / label)
    with tiledb.open(inner.uri, ctx=inner.ctx) as opened:
        size, moment = opened.shape[0], max(ct.open_log(inner.uri).rules.history.table.uris.t2)
    with tiledb.open(inner.uri, "w", timestamp=int(moment) + 10, ctx=inner.ctx) as opened:
        opened[:] = np.arange(size, dtype=np.float64)
    assert read_dense(source / label) != then[0] == read_dense(clone / label)
    (note,) = ct.restore(str(source), int(moment), dry_run=True).notes[-1:]
    command = f"chronotile restore {source}/{label} --to {moment}"
    assert note == f"{label} stays as it is; to restore it too: {command}"
    ct.restore(str(source / label), int(moment))
    assert read_dense(source / label) == then[0]


def read_dense(place: pathlib.Path) -> list[float]:
    with tiledb.open(str(place)) as opened:
        found = opened[:]
        values: list[float] = (found["label"] if isinstance(found, dict) else found).tolist()
        return values


def test_a_place_that_is_not_empty_is_left_alone(
    array: EngineArray, tmp_path: pathlib.Path
) -> None:
    (tmp_path / "there").mkdir()
    (tmp_path / "there" / "notes.txt").write_text("mine")
    with pytest.raises(RefusedError, match=r"expected an empty place, found 'notes\.txt'"):
        ct.clone(array.uri, str(tmp_path / "there"))
    with pytest.raises(RefusedError, match="the target lies inside of the source"):
        ct.clone(array.uri, f"{array.uri}/inside")
    with pytest.raises(ct.ChronotileError, match="'x' fits no commit"):
        ct.clone(array.uri, str(tmp_path / "new"), without=["x"])
    assert not ct.clone(array.uri, str(tmp_path / "new"), dry_run=True).findings
    assert not (tmp_path / "new").exists()


def test_files_are_copied_where_no_link_can_be(
    array: EngineArray, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    link = os.link

    def other_device(source: str, *args: str, **more: int) -> None:
        if not source.startswith("/proc/"):
            raise OSError(18, os.strerror(18))
        link(source, *args, **more)  # type: ignore[arg-type]  # as the disk calls it

    monkeypatch.setattr(os, "link", other_device)
    copy = EngineArray(tmp_path / "clone")
    ct.clone(array.uri, copy.uri)
    assert copy.answer(*NOW) == array.answer(*NOW)
    inodes = {path.stat().st_ino for path in array.folder.rglob("*.tdb")}
    assert not inodes & {path.stat().st_ino for path in copy.folder.rglob("*.tdb")}


def test_a_file_that_is_there_is_never_replaced(tmp_path: pathlib.Path) -> None:
    here, there = open_store(tmp_path / "a"), open_store(tmp_path / "b")
    for store, data in ((here, b"1"), (there, b"2")):
        pathlib.Path(store.uri).mkdir()
        store.put_if_absent("x", data)
    for link in ("hard", "copy"):
        with pytest.raises(ObjectExistsError):
            Transfer(here, there, link).files({"x": "x"})
    assert there.read("x") == b"2"


@pytest.mark.parametrize(
    ("link", "words"),
    [
        ("hard", "linked 3 fragments (9 files, {cells} bytes), linked 1 file ({rest} bytes)"),
        ("symbolic", "linked 3 fragments (9 files, {cells} bytes), copied 1 file ({rest} bytes)"),
        ("copy", "copied 3 fragments (9 files, {cells} bytes), copied 1 file ({rest} bytes)"),
    ],
)
def test_a_report_tells_links_from_copies(
    link: str, words: str, tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str]
) -> None:
    array = EngineArray(tmp_path / "array").create()
    for at in (10, 20, 30):
        array.write(at, {at: at})
    sizes = {path: path.stat().st_size for path in array.folder.rglob("*") if path.is_file()}
    cells = sum(size for path, size in sizes.items() if path.parts[-3] == "__fragments")
    rest = sum(size for path, size in sizes.items() if path.parts[-2] == "__schema")
    told = words.format(cells=f"{cells:,}", rest=f"{rest:,}")
    clone = tmp_path / "clone"
    call = ["clone", array.uri, str(clone), "--link", link]
    assert main([*call, "--dry-run"]) == 0
    planned = told.replace("linked", "would link").replace("copied", "would copy")
    assert planned in capsys.readouterr().out
    assert main(call) == 0
    assert told in capsys.readouterr().out
    (first, *_) = (clone / "__fragments").iterdir()
    assert first.is_symlink() == (link == "symbolic")
    (file, *_) = first.iterdir()
    assert (file.stat().st_nlink > 1) == (link == "hard")


def test_a_delete_that_cannot_be_read_is_named(array: EngineArray, tmp_path: pathlib.Path) -> None:
    (path,) = (one for one in array.commits_folder.glob("*.del"))
    before = array.answer(*NOW)
    path.write_bytes(path.read_bytes()[:-10])
    copy = EngineArray(tmp_path / "copy")
    with pytest.raises(RefusedError, match=rf"{path.name} cannot be read.*--without {path.stem}$"):
        ct.clone(array.uri, copy.uri)
    ct.clone(array.uri, copy.uri, without=[path.stem])
    assert copy.answer(*NOW) != before
    assert not isinstance(copy.answer(*NOW), str)
