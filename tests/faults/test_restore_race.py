"""A restore while an engine vacuums or consolidates: the rows of before or of then, never none.

The engine's steps come at chosen points between ours: its vacuum lists what it removes in an
`.ign`, removes the folders, and then the `.vac`; its consolidation writes a folder, commits it, and
then puts the `.vac`.
"""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING, Any

import pytest
from support.array_places import InBucket, read_all
from support.engine_arrays import EngineArray

import chronotile as ct
from chronotile.check.findings import RefusedError
from chronotile.errors import ChangedError
from chronotile.storage.store import open_store
from chronotile.storage.unnamed_file import UnnamedFile

if TYPE_CHECKING:
    import pathlib
    from collections.abc import Callable

    from support.servers import Fault, FaultProxy, S3Server

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
    """Take a step between the last look at a file of a disk and its exchange, once."""
    replace, waiting = UnnamedFile.replace, [step]

    def replaced(self: UnnamedFile, name: str, folder: int) -> None:
        if waiting:
            waiting.pop()()
        replace(self, name, folder)

    monkeypatch.setattr(UnnamedFile, "replace", replaced)


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

    def plan(number: int, method: str, path: str) -> Fault:
        if method == "PUT" and path.endswith(".vac"):
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


def test_a_vacuum_that_has_looked_before_the_switch_and_goes_on_after_it(
    tmp_path: pathlib.Path,
) -> None:
    """Its first step lists the new fragments in an `.ign`: from then on no window sees them."""
    array = merged(tmp_path / "array", sparse=False)
    before, ignores, vacs = array.answer(*NOW), list[Any](), list[str]()

    def look(operation: str, path: str) -> None:
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
        ct.restore(array.uri, TIME + 20, store=store)
    assert array.answer(*NOW) == before
    array.vacuum("fragments")
    assert array.answer(*NOW) == before


def test_a_vacuum_just_before_an_undo_shows_what_was_hidden(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    array = merged(tmp_path / "array", sparse=False)
    report = ct.restore(array.uri, TIME + 20)
    restored = array.answer(*NOW)
    before_exchange(monkeypatch, lambda: array.vacuum("fragments"))
    with pytest.raises(RefusedError, match="a vacuum removed it, and it is final"):
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
    with pytest.raises(ChangedError, match="expected __fragments/.* to stay, found it removed"):
        ct.publish(stage.uri, array.uri, store=store)
    assert array.answer(*NOW) == before
    ct.publish(stage.uri, array.uri)
    assert array.answer(*NOW) == ((1, 1), (2, 2))
