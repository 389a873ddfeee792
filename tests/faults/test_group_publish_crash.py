"""A publication into a group, killed after every storage operation, on a disk and in a bucket.

Before the first commit nothing of it will ever show. After that its record is there: undo takes
back what it has put, and all members are as they were. Or the same command does the rest, at the
same moment or another: each row shows once, though the members take a row twice.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
import tiledb
from support.array_places import InBucket, OnDisk, Place, read_all
from support.crashing import crasher
from support.engine_arrays import EngineArray

import chronotile as ct
from chronotile.change.beside_array import folder_beside
from chronotile.dataset.undo_members import undo_members
from chronotile.storage.store import open_store
from chronotile.time_machine.undo_record import find_report

if TYPE_CHECKING:
    import pathlib

MEMBERS = ("a", "b")
LATER = 4_000_000_000_000
"""A moment for which nobody waits; the engine reads as of the end of time."""
OLD, NEW = ((1, 1),), ((1, 1), (2, 2))


def make_group(folder: pathlib.Path, at: int) -> None:
    tiledb.Group.create(str(folder))
    with tiledb.Group(str(folder), "w") as group:
        for name in MEMBERS:
            array = EngineArray(folder / name).create(duplicates=True)
            array.write(at, {at // 10: at // 10})
            group.add(name, name=name, relative=True)


def answers(place: Place) -> list[Any]:
    settings = place.array.settings
    members = (EngineArray(f"{place.uri}/{name}", settings=settings) for name in MEMBERS)
    return [array.answer() for array in members]


def forget_records(place: Place) -> None:
    above, folder = folder_beside(open_store(place.uri, place.options), ".reports")
    above.remove([entry.path for entry in above.list_dir(folder).files])


@pytest.mark.parametrize("where", ["disk", "bucket"])
def test_a_publication_into_a_group(
    tmp_path: pathlib.Path, request: pytest.FixtureRequest, where: str
) -> None:
    make_group(tmp_path / "group", 10)
    make_group(tmp_path / "stage", 20)
    place: Place = OnDisk(tmp_path / "group")
    stage: Place = OnDisk(tmp_path / "stage")
    if where == "bucket":
        server, bucket = request.getfixturevalue("s3"), request.getfixturevalue("bucket")
        place, stage = InBucket(server, bucket, "group"), InBucket(server, bucket, "stage")
        stage.reset(read_all(tmp_path / "stage"))
    files = read_all(tmp_path / "group")
    what = f'publish_dataset {{"staging": "{stage.uri}", "at": {LATER}}}'
    another = what.replace(str(LATER), str(LATER + 1000))
    # Files of a fragment are copied, one as the other, before anything is committed.
    less = ("begins", "__fragments")
    with crasher() as killed:
        place.reset(files)
        _, total = killed.run(what, place.uri, place.options, less=less)
        assert answers(place) == [NEW] * 2
        assert total == 3 * len(MEMBERS)
        # A `.con` with the commits that were there, and the schema of the staged fragments, come
        # first in every member; then the `.con` that shows all, member by member.
        shown = {at: max(at - 2 * len(MEMBERS), 0) for at in range(1, total + 1)}
        ways = {at: (what, another, "undo") if done else (what,) for at, done in shown.items()}
        for at, way in [(at, way) for at, found in ways.items() for way in found]:
            forget_records(place)
            place.reset(files)
            died, _ = killed.run(what, place.uri, place.options, less=less, die_at=at)
            assert died
            assert answers(place) == [NEW] * shown[at] + [OLD] * (2 - shown[at])
            if way == "undo":
                store = open_store(place.uri, place.options)
                found, document = find_report(store, None)
                assert document["state"] == "begun"
                dataset = ct.open_dataset(place.uri, storage_options=place.options)
                assert undo_members(dataset, found, document).failed == ()
                assert answers(place) == [OLD] * 2
            killed.run(what if way == "undo" else way, place.uri, place.options)
            assert answers(place) == [NEW] * 2, (at, way)
        killed.run(another, place.uri, place.options)
        assert answers(place) == [NEW] * 2, "and once more"
