"""Tags of arrays and of groups, killed after every storage operation, on a disk and in a bucket.

Whatever the moment: the tag is there or it is not; the tag of a group is there only if every member
knows of it; rows are as they were; and the same command, run again, does the rest.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
import tiledb
from support.array_places import InBucket, OnDisk, Place, read_all
from support.crashing import Crasher, crasher
from support.engine_arrays import EngineArray
from support.verbs import add_tag, tag_dataset

from chronotile.dataset.open_dataset import dataset_at
from chronotile.storage.store import open_store

if TYPE_CHECKING:
    import pathlib
    from collections.abc import Callable, Iterator

    from support.servers import S3Server

TAG, MARK = "chronotile.tag.v1", "chronotile.group-tag.v1@10"
MEMBERS = ("", "inner", "inner/x", "obs")


@pytest.fixture(scope="module")
def killed() -> Iterator[Crasher]:
    with crasher() as running:
        yield running


@pytest.fixture(params=["disk", "bucket"])
def put(request: pytest.FixtureRequest, tmp_path: pathlib.Path) -> Callable[[str], Place]:
    """Gives the place of what was made in a folder: that folder, or a copy in a bucket."""

    def place(folder: str) -> Place:
        if request.param == "disk":
            return OnDisk(tmp_path / folder)
        s3: S3Server = request.getfixturevalue("s3")
        return InBucket(s3, request.getfixturevalue("bucket"), folder)

    return place


def metadata(place: Place, member: str = "") -> dict[str, Any]:
    """What the engine reads of an array, or of a group."""
    uri, ctx = f"{place.uri}/{member}".rstrip("/"), place.array.ctx
    opener = tiledb.Group if tiledb.object_type(uri, ctx=ctx) == "group" else tiledb.open
    with opener(uri, ctx=ctx) as opened:
        return {key: value for key, value in opened.meta.items() if key.startswith("chronotile")}


@pytest.mark.parametrize(
    ("what", "before", "after"),
    [
        ('tag {"name": "v1", "at": 10}', {}, {TAG: 10}),
        ('tag {"name": "v1", "at": 20, "move": true}', {TAG: 10}, {TAG: 20}),
        ('untag {"name": "v1"}', {TAG: 10}, {}),
    ],
)
def test_a_tag_of_an_array(
    killed: Crasher,
    tmp_path: pathlib.Path,
    put: Callable[[str], Place],
    what: str,
    before: dict[str, int],
    after: dict[str, int],
) -> None:
    array = EngineArray(tmp_path / "array").create()
    array.write(10, {1: 1})
    array.write(20, {2: 2})
    if before:
        add_tag(array.uri, "v1", at=10)
    files, rows = read_all(array.folder), array.answer()
    place = put("array")
    place.reset(files)
    _, total = killed.run(what, place.uri, place.options)
    assert metadata(place) == after
    seen = []
    for at in range(1, total + 1):
        place.reset(files)
        died, _ = killed.run(what, place.uri, place.options, die_at=at)
        assert died
        seen.append(metadata(place))
        assert place.array.answer() == rows
        killed.run(what, place.uri, place.options)
        assert metadata(place) == after
    shown = seen.index(after)
    assert seen == [before] * shown + [after] * (total - shown)


def make_group(folder: pathlib.Path) -> None:
    for place in (folder, folder / "inner"):
        tiledb.Group.create(str(place))
    for name in ("obs", "inner/x"):
        array = EngineArray(folder / name).create()
        array.write(10, {1: 1})
    for place, member in ((folder, "obs"), (folder, "inner"), (folder / "inner", "x")):
        with tiledb.Group(str(place), "w") as group:
            group.add(member, name=member, relative=True)


@pytest.mark.parametrize("command", ["tag", "untag"])
def test_a_tag_of_a_group(
    killed: Crasher, tmp_path: pathlib.Path, put: Callable[[str], Place], command: str
) -> None:
    folder = tmp_path / "group"
    make_group(folder)
    what = 'tag_group {"name": "v1", "at": 10}'
    if command == "untag":
        tag_dataset(dataset_at(open_store(str(folder))), "v1", at=10)
        what = 'untag_group {"name": "v1"}'
    files, place = read_all(folder), put("group")
    place.reset(files)
    less = ("begins", "__chronotile")
    _, total = killed.run(what, place.uri, place.options, less=less)
    assert total == len(MEMBERS)
    marked = [{TAG: 10}, *[{MARK: 10}] * 3]
    wanted = marked if command == "tag" else [{}] * 4
    assert [metadata(place, member) for member in MEMBERS] == wanted
    for at in range(1, total + 1):
        place.reset(files)
        died, _ = killed.run(what, place.uri, place.options, less=less, die_at=at)
        assert died
        own, *marks = (metadata(place, member) for member in MEMBERS)
        known = sum(mark == {MARK: 10} for mark in marks)
        if command == "tag":
            assert known == min(at, 3)
            assert own == ({TAG: 10} if at == total else {}), "it is there when all know of it"
        else:
            assert known == max(3 - at, 0)
            assert own == ({} if at == total else {TAG: 10}), "it can be taken away again"
        killed.run(what, place.uri, place.options)
        assert [metadata(place, member) for member in MEMBERS] == wanted
    place.reset(files)
    _, total = killed.run(what, place.uri, place.options)
    for at in range(1, total + 1):
        place.reset(files)
        assert killed.run(what, place.uri, place.options, die_at=at)[0]
        killed.run(what, place.uri, place.options)
        assert [metadata(place, member) for member in MEMBERS] == wanted
