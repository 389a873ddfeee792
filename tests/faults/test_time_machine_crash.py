"""The time machine, killed before and after every storage operation, on a disk and in a bucket.

Whatever the moment: the engine sees the old state or the new one, every window that ends before the
change is as it was, and the same command, run again, ends in the new state.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pytest
from support.array_places import Files, InBucket, OnDisk, Place, digest, read_all
from support.crashing import Crasher, crasher
from support.engine_arrays import EngineArray

import chronotile as ct

if TYPE_CHECKING:
    import pathlib
    from collections.abc import Iterator

    from support.engine_arrays import Answer, Window
    from support.servers import S3Server

NOW = (0, 1 << 60)
PAST = ((0, 10), (0, 20), (0, 30))


@pytest.fixture(scope="module")
def killed() -> Iterator[Crasher]:
    with crasher() as running:
        yield running


@dataclass(frozen=True, slots=True, kw_only=True)
class Scene:
    """An array, and what is done to it."""

    files: Files
    sparse: bool = True
    what: str
    new: Answer
    """What the engine reads in the end."""


def dense(folder: pathlib.Path) -> EngineArray:
    """What was merged must be hidden, and its parts committed again."""
    array = EngineArray(folder).create(sparse=False)
    for at in (10, 20, 30):
        array.write(at, {1: at, 2: at})
    array.consolidate("fragments")
    return array


def sparse(folder: pathlib.Path, *, duplicates: bool = False) -> EngineArray:
    """A delete must go: everything is replayed."""
    array = EngineArray(folder).create(duplicates=duplicates)
    array.write(10, {1: 1, 2: 2})
    array.delete(15, "a == 1")
    array.write(20, {3: 3})
    array.delete(30, "a == 2")
    return array


def one_delete(folder: pathlib.Path) -> EngineArray:
    """It must go, and no other must be applied again."""
    array = EngineArray(folder).create()
    array.write(10, {2: 2})
    array.write(20, {3: 3})
    array.delete(30, "a == 2")
    return array


MADE = {"restore dense": dense, "undo dense": dense, "undelete one": one_delete}


def scene(name: str, folder: pathlib.Path) -> Scene:
    array = MADE.get(name, sparse)(folder / "array")
    files = read_all(array.folder)
    before = array.answer(*NOW)
    if name == "restore dense":
        what, new = 'restore {"to": 20}', array.answer(0, 20)
    elif name == "restore":
        what, new = 'restore {"to": 5}', array.answer(0, 5)
    elif name in ("undelete", "undelete one"):
        (delete,) = (d.name for d in ct.open_log(array.uri).view().deletes if d.t1 == 30)
        what, new = f'undelete {{"name": "{delete}"}}', ((2, 2), (3, 3))
    elif name == "undelete ever":
        (delete,) = (d.name for d in ct.open_log(array.uri).view().deletes if d.t1 == 30)
        what, new = f'undelete {{"name": "{delete}", "ever": true}}', ((2, 2), (3, 3))
    else:
        report = ct.restore(array.uri, 20)
        files, new = read_all(array.folder), before
        what = f'undo {{"operation": "{report.operation}"}}'
    return Scene(files=files, sparse=array.sparse, what=what, new=new)


def crash_everywhere(killed: Crasher, scene: Scene, place: Place) -> int:
    def answers(windows: tuple[Window, ...]) -> dict[Window, Answer]:
        array = place.array
        array.sparse = scene.sparse
        return array.answers(windows)

    def run(**more: Any) -> tuple[bool, int]:
        what = scene.what.replace("ARRAY", place.uri)
        return killed.run(what, place.uri, place.options, **more)

    place.reset(scene.files)
    past, old = answers(PAST), answers((NOW,))[NOW]
    assert old != scene.new
    if "ever" in scene.what:
        past = {}
    _, total = run()
    assert answers((NOW,))[NOW] == scene.new
    seen: dict[Answer, int] = {old: 0, scene.new: 0}
    known: set[str] = set()
    for at in range(1, total + 1):
        place.reset(scene.files)
        died, _ = run(die_at=at)
        assert died, f"{scene.what} ended before operation {at} of {total}"
        left = digest(place.files())
        if left in known:
            continue
        known.add(left)
        now = answers((NOW,))[NOW]
        assert now in seen, f"{scene.what} killed at operation {at}: {now}"
        seen[now] += 1
        assert answers(tuple(past)) == past, f"{scene.what} killed at operation {at}"
        run()
        assert answers((NOW,))[NOW] == scene.new, f"{scene.what} killed at {at}, then run again"
    assert seen[old] > 0
    return total


SCENES = (*MADE, "restore", "undelete", "undelete ever", "undo")


@pytest.mark.parametrize("name", SCENES)
def test_on_disk(killed: Crasher, tmp_path: pathlib.Path, name: str) -> None:
    found = scene(name, tmp_path)
    place = OnDisk(tmp_path / "array")
    total = crash_everywhere(killed, found, place)
    assert total >= {"restore": 2, "undelete ever": 6}.get(name, 8)


@pytest.mark.parametrize("name", ["restore", "restore dense", "undelete", "undelete ever", "undo"])
def test_in_a_bucket(
    killed: Crasher, tmp_path: pathlib.Path, s3: S3Server, bucket: str, name: str
) -> None:
    found = scene(name, tmp_path)
    place = InBucket(s3, bucket)
    what = found.what.replace(str(tmp_path / "array"), "ARRAY")
    judged = Scene(files=found.files, sparse=found.sparse, what=what, new=found.new)
    assert crash_everywhere(killed, judged, place) >= 2


def publication(folder: pathlib.Path, stage: Place, options: str) -> Scene:
    """A load for an array in which a row that is published twice shows twice."""
    array = sparse(folder / "array", duplicates=True)
    made = EngineArray(folder / "made").create(duplicates=True)
    made.write(40, {4: 4})
    made.write(50, {4: 5, 5: 5})
    stage.reset(read_all(made.folder))
    what = f'publish {{"staging": "{stage.uri}"{options}}}'
    return Scene(files=read_all(array.folder), what=what, new=((3, 3), (4, 4), (5, 4), (5, 5)))


@pytest.mark.parametrize("options", ["", ', "at": 70', ', "at": "now"'])
def test_publish_on_disk(killed: Crasher, tmp_path: pathlib.Path, options: str) -> None:
    found = publication(tmp_path, OnDisk(tmp_path / "stage"), options)
    assert crash_everywhere(killed, found, OnDisk(tmp_path / "array")) >= 16


@pytest.mark.parametrize("options", ["", ', "at": "now"'])
def test_publish_in_a_bucket(
    killed: Crasher, tmp_path: pathlib.Path, s3: S3Server, bucket: str, options: str
) -> None:
    found = publication(tmp_path, InBucket(s3, bucket, "stage"), options)
    assert crash_everywhere(killed, found, InBucket(s3, bucket)) >= 16


def clone_everywhere(killed: Crasher, source: Place, target: Place) -> None:
    """A clone that is broken off cannot be opened; run again, it is whole. The source stays.

    All that the source gets is a record of each clone.
    """
    what = f'clone {{"source": "{source.uri}"}}'
    before, wanted = source.files(), source.array.answer(*NOW)
    _, total = killed.run(what, target.uri, target.options)
    assert target.array.answer(*NOW) == wanted
    assert total >= 20
    seen = {"whole": 0, "no array": 0}
    known: set[str] = set()
    for at in range(1, total + 1):
        target.reset({})
        died, _ = killed.run(what, target.uri, target.options, die_at=at)
        assert died
        left = digest(target.files())
        if left not in known:
            known.add(left)
            answer = target.array.answer(*NOW)
            assert answer == wanted or str(answer).startswith("error"), f"killed at {at}"
            seen["whole" if answer == wanted else "no array"] += 1
            killed.run(what, target.uri, target.options)
            assert target.array.answer(*NOW) == wanted, f"killed at {at}, then run again"
    assert all(seen.values())
    after = source.files()
    records = [path for path in after if path.startswith("__chronotile/operations/")]
    assert records
    assert {path: after[path] for path in after if path not in records} == before


def test_clone_on_disk(killed: Crasher, tmp_path: pathlib.Path) -> None:
    source = OnDisk(sparse(tmp_path / "array").folder)
    clone_everywhere(killed, source, OnDisk(tmp_path / "clone"))


def test_clone_in_a_bucket(
    killed: Crasher, tmp_path: pathlib.Path, s3: S3Server, bucket: str
) -> None:
    source = InBucket(s3, bucket)
    source.reset(read_all(sparse(tmp_path / "array").folder))
    clone_everywhere(killed, source, InBucket(s3, bucket, "clone"))
