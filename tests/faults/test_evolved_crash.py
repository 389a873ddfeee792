"""Restores that change rows, schema and metadata, killed after every storage operation.

Whatever the moment: the engine sees all of the old state; or rows of then, under the schema and
with the metadata of now or of then, never the reverse. Windows that end before are as they were,
and the same command, run again, ends in the state of then.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from support.array_places import Files, InBucket, OnDisk, Place, read_all
from support.crashing import Crasher, crasher
from support.evolved_arrays import WAYS, Shown, evolved, shown, without_b

if TYPE_CHECKING:
    import pathlib
    from collections.abc import Iterator

    from support.engine_arrays import EngineArray
    from support.servers import S3Server

FAR = 1 << 60


@pytest.fixture(scope="module")
def killed() -> Iterator[Crasher]:
    with crasher() as running:
        yield running


class Scene:
    """An array that has changed in every way since a moment."""

    def __init__(self, folder: pathlib.Path, way: str) -> None:
        array, self.moment = evolved(folder, way)
        self.files: Files = read_all(folder)
        self.sparse, self.way = array.sparse, way
        command = "rewrite" if way == "rewrite" else "restore"
        self.what = f'{command} {{"to": {self.moment}}}'
        old, new = shown(array, FAR), shown(array, self.moment)
        assert isinstance(old, Shown)
        assert isinstance(new, Shown)
        between = without_b(new, old)
        middle = between._replace(fields=new.fields, rows=new.rows)
        self.states = [old, between, middle, new]

    def crash_everywhere(
        self, killed: Crasher, place: Place, *, fragments: bool = False
    ) -> list[int]:
        """Kills it after every operation; of those on uncommitted fragments only if asked to.

        Copies of fragments are killed one by one where rows alone change.
        """
        array, less = place.array, ("begins", *([] if fragments else ["__fragments"]))
        array.sparse = self.sparse

        def run(**more: Any) -> tuple[bool, int]:
            return killed.run(self.what, place.uri, place.options, less=less, **more)

        place.reset(self.files)
        past = self.past(array)
        _, total = run()
        assert shown(array, FAR) == self.states[-1]
        assert self.past(array) == past
        seen = []
        for at in range(1, total + 1):
            place.reset(self.files)
            died, _ = run(die_at=at)
            assert died, f"{self.what} ended before operation {at} of {total}"
            found = shown(array, FAR)
            assert found in self.states, f"{self.way} killed at operation {at}: {found}"
            seen.append(self.states.index(found))
            assert self.past(array) == past
            run()
            assert shown(array, FAR) == self.states[-1], f"{self.way}: at {at}, then run again"
        return seen

    def past(self, array: EngineArray) -> list[Any]:
        return [shown(array, self.moment - 1), shown(array, self.moment)]


def in_order(seen: list[int]) -> bool:
    """Old states first, then rows, schema, metadata; each state is met."""
    return seen == sorted(seen) and set(seen) == {0, 1, 2, 3}


@pytest.mark.parametrize("way", [*WAYS, "rewrite"])
def test_on_disk(killed: Crasher, tmp_path: pathlib.Path, way: str) -> None:
    scene = Scene(tmp_path / "array", way)
    place = OnDisk(tmp_path / "array")
    seen = scene.crash_everywhere(killed, place, fragments=way == "rewrite")
    assert in_order([0, *seen])


@pytest.mark.parametrize("way", [*WAYS, "rewrite"])
def test_in_a_bucket(
    killed: Crasher, tmp_path: pathlib.Path, s3: S3Server, bucket: str, way: str
) -> None:
    scene = Scene(tmp_path / "array", way)
    assert in_order([0, *scene.crash_everywhere(killed, InBucket(s3, bucket))])
