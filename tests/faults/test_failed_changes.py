"""Changes whose storage fails once, at every step: the next change settles what they began."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING, Any

import pytest
import tiledb
from support.engine_arrays import EngineArray

import chronotile as ct
from chronotile.change.operations import list_operations
from chronotile.errors import ChronotileError, StorageError

if TYPE_CHECKING:
    from pathlib import Path

    from chronotile.storage.store import Hook

NOW = (0, 1 << 60)


def fails_once(at: int, *, done: bool) -> Hook:
    """Fail at one change of the storage: before it, or once it is done."""
    left = [at]

    def hook(operation: str, path: str) -> None:
        name, _, ended = operation.partition(".")
        if name in ("put", "copy", "remove") and bool(ended) == done:
            left[0] -= 1
            if not left[0]:
                raise StorageError(path, "expected to write, found no space left on device")

    return hook


def sparse(folder: Path) -> EngineArray:
    array = EngineArray(folder).create()
    array.write(10, {1: 1, 2: 2})
    array.delete(15, "a == 1")
    array.write(20, {3: 3})
    array.delete(30, "a == 2")
    return array


def dense(folder: Path) -> EngineArray:
    array = EngineArray(folder).create(sparse=False)
    for at in (10, 20, 30):
        array.write(at, {1: at, 2: at})
    array.consolidate("fragments")
    return array


def damaged(folder: Path) -> EngineArray:
    array = sparse(folder)
    (array.commits_folder / "notes.wrt").touch()
    return array


def files(folder: Path) -> set[str]:
    """List the files of an array, without those of records and tags."""
    paths = {path.relative_to(folder).as_posix() for path in folder.rglob("*")}
    return {path for path in paths if not path.startswith(("__chronotile", "__meta"))}


def errors(array: EngineArray) -> set[str]:
    return {one.code for one in ct.open(array.uri).check() if one.severity == "error"}


CHANGES: dict[str, Any] = {
    "delete": (sparse, lambda place, **how: place.delete("a == 3", **how)),
    "restore": (sparse, lambda place, **how: place.restore(5, **how)),
    "rewrite": (sparse, lambda place, **how: place.restore(10, rewrite=True, **how)),
    "restore dense": (dense, lambda place, **how: place.restore(20, **how)),
    "consolidate": (sparse, lambda place, **how: place.consolidate(**how)),
    "compact": (sparse, lambda place, **how: place.compact(quiet="0s", **how)),
    "repair": (damaged, lambda place, **how: place.repair(**how)),
    "vacuum": (dense, lambda place, **how: place.vacuum(**how)),
}


@pytest.mark.parametrize("name", [*CHANGES, "undo", "undo dense"])
@pytest.mark.parametrize("done", [False, True], ids=["refused", "answer lost"])
def test_the_next_change_settles_it(tmp_path: Path, name: str, done: bool) -> None:
    make, change = CHANGES["restore" + name[4:] if name.startswith("undo") else name]
    array = make(tmp_path / "array")
    if name.startswith("undo"):
        id_ = change(ct.open(array.uri)).operation

        def change(place: Any) -> Any:
            return place.undo(id_)

    old, damage, first = array.answer(*NOW), errors(array), tmp_path / "first"
    shutil.copytree(array.folder, first)
    change(ct.open(array.uri))
    new = array.answer(*NOW)
    for at in range(1, 60):
        shutil.rmtree(array.folder)
        shutil.copytree(first, array.folder)
        place = ct.open(array.uri)
        place.store = place.store.watched(fails_once(at, done=done))
        try:
            change(place)
        except ChronotileError:
            pass
        else:
            assert at > 2
            return
        assert array.answer(*NOW) in (old, new), at
        ct.open(array.uri).tag("next")
        settled = array.answer(*NOW)
        assert settled in (old, new), at
        states = [one.state for one in list_operations(place.store)]
        assert "begun" not in states, at
        assert errors(array) <= damage, at
        if name != "vacuum" and "failed" in states:
            assert files(array.folder) == files(first), at
        if settled == old:
            change(ct.open(array.uri))
        assert array.answer(*NOW) == new, at
    pytest.fail("it never ended")


def test_a_group_change_that_fails_is_done_in_all_members_or_in_none(tmp_path: Path) -> None:
    folder, first = tmp_path / "group", tmp_path / "first"
    tiledb.Group.create(str(folder))
    with tiledb.Group(str(folder), "w") as group:
        for name in ("a", "b"):
            sparse(folder / name)
            group.add(name, name=name, relative=True)
    shutil.copytree(folder, first)
    members = [EngineArray(folder / name) for name in ("a", "b")]
    old = [one.answer(*NOW) for one in members]
    ends: set[str] = set()
    for at in range(1, 60):
        shutil.rmtree(folder)
        shutil.copytree(first, folder)
        place = ct.open(folder)
        place.store = place.store.watched(fails_once(at, done=False))
        try:
            report = place.restore(5)
        except ChronotileError:
            pass
        else:
            if not getattr(report, "failed", ()):
                assert ends == {"done", "undone"}
                return
            assert "the next change of the group takes it back" in report.notes[-1]
        ct.open(folder).consolidate("array-meta")
        states = [one.state for one in list_operations(place.store)]
        assert "begun" not in states, at
        ends.update(states)
        assert [one.answer(*NOW) for one in members] == ([(), ()] if "done" in states else old), at
    pytest.fail("it never ended")


def closed(operation: str, path: str) -> None:
    """Refuse to write into the folder of records, as a bucket's rights may."""
    if path.startswith("__chronotile") and operation.startswith(("put", "copy")):
        raise StorageError(path, "expected to write, found: access denied")


@pytest.mark.parametrize("name", [*CHANGES, "undo", "undo dense"])
def test_no_record_goes_on_where_records_cannot_be_written(tmp_path: Path, name: str) -> None:
    make, change = CHANGES["restore" + name[4:] if name.startswith("undo") else name]
    array = make(tmp_path / "array")
    if name.startswith("undo"):
        id_ = change(ct.open(array.uri)).operation

        def change(place: Any, **how: Any) -> Any:
            return place.undo(id_, **how)

    first = tmp_path / "first"
    shutil.copytree(array.folder, first)
    change(ct.open(array.uri))
    new, wanted = array.answer(*NOW), len(files(array.folder))
    shutil.rmtree(array.folder)
    shutil.copytree(first, array.folder)
    if not name.startswith("undo"):
        (array.folder / "__chronotile").write_text("in the way")
    place = ct.open(array.uri)
    place.store = place.store.watched(closed)
    with pytest.raises(StorageError):
        change(place)
    assert files(array.folder) == files(first)
    report = change(place, record=False)
    assert array.answer(*NOW) == new
    assert len(files(array.folder)) == wanted
    moved = any(step.op in ("move", "replace") for step in report.steps)
    assert any("no copy of what went out is kept" in note for note in report.notes) == moved
