"""A restore while an engine vacuums or consolidates: the rows of before or of then, never none.

The engine's steps come at chosen points between ours: its vacuum lists what it removes in an
`.ign`, removes the folders, and then the `.vac`; its consolidation writes a folder, commits it, and
then puts the `.vac`.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import threading
from typing import TYPE_CHECKING, Any

import pytest
import tiledb
from support.array_places import InBucket, array_files, is_record, read_all
from support.engine_arrays import EngineArray, s3_settings
from support.servers import S3Server
from support.spec_files import ROOT
from support.verbs import restore_rows

import chronotile as ct
from chronotile.array import Array
from chronotile.check.findings import RefusedError
from chronotile.cli import main
from chronotile.errors import ChangedError
from chronotile.format.commit_files import decode_vac
from chronotile.format.timestamps import now_ms
from chronotile.storage.disk_files import UnnamedFile
from chronotile.storage.store import open_store

if TYPE_CHECKING:
    import pathlib
    from collections.abc import Callable

    from support.servers import Fault, FaultProxy

NOW = (0, 1 << 60)
TIME = 1_700_000_000_000


def merged(folder: pathlib.Path, *, sparse: bool = True) -> EngineArray:
    """What was merged must be hidden, and its parts committed again."""
    array = EngineArray(folder).create(sparse=sparse)
    for at in (10, 20, 30):
        array.write(TIME + at, {1: at, 2: at})
    array.consolidate("fragments")
    return array


def before_exchange(monkeypatch: pytest.MonkeyPatch, step: Callable[[], None]) -> None:
    """Take a step between the last look at a `.vac` of a disk and its exchange, once."""
    replace, waiting = UnnamedFile.replace, [step]

    def replaced(self: UnnamedFile, name: str, folder: int) -> None:
        if waiting and name.endswith(".vac"):
            waiting.pop()()
        replace(self, name, folder)

    monkeypatch.setattr(UnnamedFile, "replace", replaced)


class Merge:
    """A consolidation that the engine has made of an array, step by step."""

    def __init__(self, array: EngineArray, aside: pathlib.Path) -> None:
        self.array, known = array, set(array.files("__fragments"))
        self.made = EngineArray(shutil.copytree(array.uri, aside))
        self.made.consolidate("fragments")
        (self.name,) = set(self.made.files("__fragments")) - known

    def write(self) -> None:
        folder = f"__fragments/{self.name}"
        shutil.copytree(self.made.folder / folder, self.array.folder / folder)

    def commit(self) -> None:
        for ending in (".wrt", ".vac"):
            shutil.copy(
                self.made.commits_folder / f"{self.name}{ending}", self.array.commits_folder
            )


def three_writes(folder: pathlib.Path, *, sparse: bool = True) -> EngineArray:
    array = EngineArray(folder).create(sparse=sparse)
    for at in (10, 20, 30):
        array.write(TIME + at, {1: at, 2: at} if at != 20 else {3: at, 4: at})
    return array


def meaning(files: dict[str, bytes]) -> dict[str, bytes | frozenset[str]]:
    """Read the lines of each `.vac`: one whose content came back repeats some."""
    return {p: frozenset(decode_vac(d, p)) if p.endswith(".vac") else d for p, d in files.items()}


def codes(array: EngineArray, options: dict[str, str] | None = None) -> list[str]:
    found = ct.open_log(array.uri, storage_options=options).check()
    return [item.code for item in found if item.severity != "info"]


@pytest.mark.parametrize("sparse", [True, False])
def test_a_vacuum_just_before_the_switch(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch, sparse: bool
) -> None:
    array = merged(tmp_path / "array", sparse=sparse)
    before = array.answer(*NOW)
    before_exchange(monkeypatch, lambda: array.vacuum("fragments"))
    with pytest.raises(ChangedError, match="being vacuumed; the change is taken back"):
        ct.restore(array.uri, TIME + 20)
    assert array.answer(*NOW) == before


def test_a_vacuum_just_before_the_switch_in_a_bucket(
    tmp_path: pathlib.Path, s3: S3Server, bucket: str, proxy: FaultProxy
) -> None:
    place, puts = InBucket(s3, bucket), list[str]()
    place.reset(read_all(merged(tmp_path / "array", sparse=False).folder))
    array = place.array
    array.sparse = False
    before = array.answer(*NOW)

    def plan(_: int, method: str, path: str) -> Fault:
        if method == "PUT" and path.endswith(".vac") and not is_record(path):
            puts.append(path)
            if len(puts) == 2:
                array.vacuum("fragments")
        return "pass"

    proxy.plan = plan
    with pytest.raises(ChangedError, match="found it gone or with other bytes"):
        ct.restore(place.uri, TIME + 20, storage_options=proxy.options)
    assert len(puts) == 2
    assert puts[0] == puts[1]
    assert array.answer(*NOW) == before


def test_a_reader_that_opened_just_before_the_switch(
    tmp_path: pathlib.Path, s3: S3Server, bucket: str
) -> None:
    """An engine keeps the bytes of a file that it read from a bucket as long as they suffice."""
    place, looks = InBucket(s3, bucket), list[Any]()
    local = three_writes(tmp_path / "array")
    local.consolidate("fragments")
    place.reset(read_all(local.folder))
    array = place.array
    before, then = array.answer(*NOW), array.answer(0, TIME + 20)

    def look(operation: str, path: str) -> None:
        if operation == "put" and path.endswith(".vac") and not is_record(path):
            looks.append(array.answer(*NOW))

    Array(open_store(place.uri, s3.options, on_operation=look)).restore(TIME + 20)
    assert looks == [before, before]
    assert array.answer(*NOW) == then
    array.consolidate("fragments")
    array.vacuum("fragments")
    assert array.answer(*NOW) == then
    assert codes(array, s3.options) == []


def test_a_vacuum_that_has_looked_before_the_switch_and_goes_on_after_it(
    tmp_path: pathlib.Path,
) -> None:
    """Its first step lists the new fragments in an `.ign`: from then on no window sees them."""
    array = merged(tmp_path / "array", sparse=False)
    before, ignores, vacs = array.answer(*NOW), list[Any](), list[str]()

    def look(operation: str, path: str) -> None:
        if is_record(path):
            return
        if operation.partition(".")[0] == "put" and path.endswith(".vac"):
            vacs.append(operation)
            if vacs == ["put", "put.done", "put"]:
                copy = EngineArray(shutil.copytree(array.uri, tmp_path / "copy"))
                copy.vacuum("fragments")
                ignores.extend(copy.commits_folder.glob("*.ign"))
            elif vacs == ["put", "put.done", "put", "put.done"]:
                shutil.copy(ignores[0], array.commits_folder)
                assert array.answer(*NOW) != before

    store = open_store(array.uri, on_operation=look)
    with pytest.raises(ChangedError, match=r"ignored by .*\.ign: .*; the change is taken back"):
        Array(store).restore(TIME + 20)
    assert array.answer(*NOW) == before
    array.vacuum("fragments")
    assert array.answer(*NOW) == before


def test_a_vacuum_that_removes_the_new_fragments_after_all(tmp_path: pathlib.Path) -> None:
    """It looked before the switch; nothing tells of it before it has ended."""
    array = merged(tmp_path / "array", sparse=False)
    for at in (15, 35):
        with tiledb.open(array.uri, "w", timestamp=TIME + at, ctx=array.ctx) as opened:
            opened.meta["k"] = at
    before, vacs, copies = array.answer(*NOW), list[str](), list[EngineArray]()

    def look(operation: str, path: str) -> None:
        if is_record(path):
            return
        if operation == "put" and path.endswith(".vac"):
            vacs.append(path)
            if len(vacs) == 2:
                copies.append(EngineArray(shutil.copytree(array.uri, tmp_path / "copy")))
        elif operation == "put" and path.startswith("__meta/"):
            copies[0].vacuum("fragments")
            for folder in ("__fragments", "__commits"):
                shutil.rmtree(array.folder / folder)
                shutil.copytree(copies[0].folder / folder, array.folder / folder)

    store = open_store(array.uri, on_operation=look)
    with pytest.raises(ChangedError, match=r"being vacuumed; the rows are as before"):
        Array(store).restore(TIME + 20)
    assert array.answer(*NOW) == before


def test_a_vacuum_just_before_an_undo_shows_what_was_hidden(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    array = merged(tmp_path / "array", sparse=False)
    report = ct.restore(array.uri, TIME + 20)
    restored = array.answer(*NOW)
    before_exchange(monkeypatch, lambda: array.vacuum("fragments"))
    with pytest.raises(RefusedError, match=r"a vacuum removed .*, which it hid"):
        ct.undo(array.uri, report)
    assert array.answer(*NOW) == restored


def test_copies_that_go_before_they_are_committed(tmp_path: pathlib.Path) -> None:
    """Without a look at them the array could not be opened any more (F10)."""
    array = EngineArray(tmp_path / "array").create()
    stage = EngineArray(tmp_path / "stage").create()
    array.write(TIME, {1: 1})
    stage.write(TIME + 10, {2: 2})
    before = array.answer(*NOW)

    def remove(operation: str, path: str) -> None:
        if operation == "put" and path.endswith(".con") and not gone:
            gone.extend(f for f in array.folder.glob("__fragments/*") if f.name not in known)
            for folder in gone:
                shutil.rmtree(folder)

    known, gone = array.files("__fragments"), list[Any]()
    store = open_store(array.uri, on_operation=remove)
    with pytest.raises(ChangedError, match=r"expected __fragments/.* to stay, found it removed"):
        Array(store).publish(stage.uri)
    assert array.answer(*NOW) == before
    ct.publish(stage.uri, array.uri)
    assert array.answer(*NOW) == ((1, 1), (2, 2))


@pytest.mark.parametrize("way", [ct.restore, restore_rows])
def test_a_restore_waits_for_a_consolidation_that_has_a_folder(
    tmp_path: pathlib.Path, way: Callable[..., Any], capsys: pytest.CaptureFixture[str]
) -> None:
    array = three_writes(tmp_path / "array")
    before, then = array.answer(*NOW), array.answer(0, TIME + 20)
    merge = Merge(array, tmp_path / "aside")
    merge.write()
    for dry_run in (True, False):
        with pytest.raises(RefusedError, match="it would bring back what goes out") as caught:
            way(array.uri, TIME + 20, dry_run=dry_run)
    assert array.answer(*NOW) == before
    command = re.search(r"if it was broken off: chronotile (.*)", str(caught.value))
    assert command is not None
    broken = EngineArray(shutil.copytree(array.uri, tmp_path / "broken"))
    assert main(command[1].replace(array.uri, broken.uri).split()) == 0
    capsys.readouterr()
    way(broken.uri, TIME + 20)
    assert broken.answer(*NOW) == then
    merge.commit()
    way(array.uri, TIME + 20)
    assert array.answer(*NOW) == then
    assert codes(array) == []


def test_an_old_folder_without_a_commit_is_no_consolidation(tmp_path: pathlib.Path) -> None:
    array = three_writes(tmp_path / "array")
    merge = Merge(array, tmp_path / "aside")
    merge.write()
    for path in (array.folder / "__fragments" / merge.name).iterdir():
        os.utime(path, (0, 0))
    ct.restore(array.uri, TIME + 20)
    assert array.answer(*NOW) == array.answer(0, TIME + 20)


@pytest.mark.parametrize("sparse", [True, False])
def test_a_consolidation_that_shows_up_in_the_middle_takes_a_restore_back(
    tmp_path: pathlib.Path, sparse: bool
) -> None:
    array = three_writes(tmp_path / "array", sparse=sparse)
    before, then = array.answer(*NOW), array.answer(0, TIME + 20)
    merge = Merge(array, tmp_path / "aside")

    def write(operation: str, path: str) -> None:
        if operation == "put" and path.endswith(".vac"):
            merge.write()

    store = open_store(array.uri, on_operation=write)
    with pytest.raises(ChangedError, match=r"it would bring back .*; the change is taken back"):
        Array(store).restore(TIME + 20)
    assert array.answer(*NOW) == before
    merge.commit()
    assert array.answer(*NOW) == before
    ct.restore(array.uri, TIME + 20)
    assert array.answer(*NOW) == then


@pytest.mark.parametrize("sparse", [True, False])
def test_a_consolidation_that_ends_later_is_found_and_mended(
    tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str], sparse: bool
) -> None:
    array = three_writes(tmp_path / "array", sparse=sparse)
    before, then = array.answer(*NOW), array.answer(0, TIME + 20)
    merge = Merge(array, tmp_path / "aside")
    restored = ct.restore(array.uri, TIME + 20)
    assert array.answer(*NOW) == then
    assert codes(array) == []
    merge.write()
    merge.commit()
    assert array.answer(*NOW) == before, "the engine brings it back"
    (found,) = (i for i in ct.open_log(array.uri).check() if i.code == "restore-undone")
    assert found.path == f"__fragments/{merge.name}"
    files = array_files(array.folder)
    report = ct.vacuum(array.uri)
    assert report.steps == ()
    assert any("left alone: it lists what a restore hid" in note for note in report.notes)
    command = re.search(r": chronotile (repair \S+)$", found.hint)
    assert command is not None
    assert main(command[1].split()) == 0
    capsys.readouterr()
    assert array.answer(*NOW) == then
    assert codes(array) == []
    assert array.answer(0, TIME + 30) == before, "history stays"
    assert main(["undo", array.uri]) == 0
    capsys.readouterr()
    assert meaning(array_files(array.folder)) == meaning(files)
    ct.repair(array.uri)
    array.write(restored.at_ms + 100_000, {5: 5, 6: 6})
    later = array.answer(*NOW)
    assert later != then
    for _ in range(2):
        array.consolidate("fragments")
        array.vacuum("fragments")
        assert array.answer(*NOW) == later


CONSOLIDATE = """
import json, sys
from support.engine_arrays import EngineArray, s3_settings
from support.servers import S3Server
from support.spec_files import ROOT
EngineArray(sys.argv[1], settings=json.loads(sys.argv[2])).consolidate("fragments")
"""


def test_an_engine_that_is_held_in_the_middle_of_a_consolidation(
    tmp_path: pathlib.Path, s3: S3Server, bucket: str, proxy: FaultProxy
) -> None:
    """In a bucket its files show at the end: nothing tells a restore that it is under way."""
    place = InBucket(s3, bucket)
    place.reset(read_all(three_writes(tmp_path / "array").folder))
    # By default an engine keeps what it has read of a file, and does not see it exchanged.
    fresh = s3_settings(s3) | {"vfs.read_ahead_cache_size": "0"}
    array, options = EngineArray(place.uri, settings=fresh), place.options
    before, then = array.answer(*NOW), array.answer(0, TIME + 20)
    held, go_on = threading.Event(), threading.Event()

    def plan(_: int, method: str, path: str) -> Fault:
        if method == "POST" and "__fragments" in path:
            held.set()
            assert go_on.wait(60)
        return "pass"

    proxy.plan = plan
    settings = s3_settings(S3Server(proxy.endpoint)) | {"vfs.s3.request_timeout_ms": "60000"}
    with subprocess.Popen(
        [sys.executable, "-c", CONSOLIDATE, place.uri, json.dumps(settings)],
        env=os.environ | {"PYTHONPATH": str(ROOT / "tests")},
    ) as engine:
        try:
            assert held.wait(60)
            ct.restore(place.uri, TIME + 20, storage_options=options)
            assert array.answer(*NOW) == then
        finally:
            go_on.set()
        assert engine.wait(60) == 0
    assert array.answer(*NOW) == before, "the engine brings it back"
    assert codes(array, options) == ["restore-undone"]
    ct.repair(place.uri, storage_options=options)
    assert array.answer(*NOW) == then
    assert codes(array, options) == []


def test_a_consolidation_of_what_came_back_is_mended_too(tmp_path: pathlib.Path) -> None:
    array = three_writes(tmp_path / "array")
    before, then = array.answer(*NOW), array.answer(0, TIME + 20)
    merge = Merge(array, tmp_path / "aside")
    ct.restore(array.uri, TIME + 20)
    merge.write()
    merge.commit()
    array.write(now_ms(), {7: 7})
    array.consolidate("fragments")
    assert set(array.answer(*NOW)) == {*before, (7, 7)}
    assert codes(array) == ["restore-undone"]
    report = ct.repair(array.uri)
    assert [step.op for step in report.steps] == ["replace", "replace"]
    assert set(array.answer(*NOW)) == {*then, (7, 7)}
    assert codes(array) == []


def test_a_restore_that_no_commit_can_mend(tmp_path: pathlib.Path) -> None:
    """A vacuum of the engine that was broken off has removed a part of what was merged."""
    array = three_writes(tmp_path / "array")
    then = array.answer(0, TIME + 20)
    merge = Merge(array, tmp_path / "aside")
    ct.restore(array.uri, TIME + 20)
    merge.write()
    merge.commit()
    (name,) = array.files("__fragments", f"__{TIME + 30}_{TIME + 30}_*")
    shutil.rmtree(array.folder / "__fragments" / name)
    (array.commits_folder / f"{name}.wrt").unlink()
    (found,) = ct.repair(array.uri, dry_run=True).findings
    assert found.code == "restore-undone"
    command = re.search(r": chronotile restore \S+ --to (\d+) --rewrite$", found.hint)
    assert command is not None
    restore_rows(array.uri, int(command[1]))
    assert array.answer(*NOW) == then
    assert codes(array) == []
