"""Maintenance that is killed before and after every storage operation.

Whatever the moment: the engine's answers at every window are what they were, and the same command
ends in the state that it would have ended in undisturbed.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest
import tiledb
from support.array_places import Files, InBucket, OnDisk, Place, digest, read_all
from support.crashing import Crasher, crasher
from support.engine_arrays import EngineArray

if TYPE_CHECKING:
    import pathlib
    from collections.abc import Iterator

    from support.engine_arrays import Answer, Window
    from support.servers import S3Server

WINDOWS = [(0, 5), (0, 12), (0, 15), (0, 22), (0, 35), (0, 45), (0, 99), (16, 35), (25, 45)]
LOST = [(0, 12), (0, 15), (0, 22), (16, 35), (25, 45)]
"""Those that start or end inside of merged metadata, which a vacuum removes, as it says."""
RECORD = 6
"""Operations that the record takes: it is put when a change begins, put and removed at its end."""


@pytest.fixture(scope="module")
def killed() -> Iterator[Crasher]:
    with crasher() as running:
        yield running


@pytest.fixture(scope="module")
def origin(tmp_path_factory: pytest.TempPathFactory) -> pathlib.Path:
    """An array with everything to do: `.con`, `.ign`, `.vac`, loose commits, deletes."""
    folder = tmp_path_factory.mktemp("crash") / "array"
    array = EngineArray(folder).create()
    array.write(10, {1: 1, 2: 2})
    array.delete(15, "a == 1")
    array.write(20, {3: 3})
    array.write(22, {4: 4})
    array.consolidate("commits")
    array.vacuum("commits")
    array.write(30, {5: 5})
    array.write(9, {6: 6})
    array.delete_fragments(22, 22)
    array.consolidate("fragments", (20, 30))
    array.delete(40, "a == 2")
    array.consolidate("fragment_meta")
    array.write(50, {7: 7})
    for at, value in ((10, 1), (20, 2), (30, 3)):
        set_key(folder, at, value)
        if at == 20:
            array.consolidate("array_meta")
    return folder


def set_key(folder: pathlib.Path, at: int, value: int) -> None:
    with tiledb.open(str(folder), "w", timestamp=at, ctx=EngineArray(folder).ctx) as opened:
        opened.meta["key"] = value


class Judged:
    """A place, and what the engine answers there."""

    def __init__(self, place: Place, windows: list[Window]) -> None:
        self.place, self.windows = place, windows
        self.lost: list[Window] = []
        """Windows at which the metadata may change."""

    def answers(self) -> dict[Window, Answer]:
        return both(self.place.array, self.windows, self.lost)


def on_disk(folder: pathlib.Path) -> Judged:
    return Judged(OnDisk(folder), WINDOWS)


def in_bucket(server: S3Server, bucket: str) -> Judged:
    return Judged(InBucket(server, bucket), WINDOWS[1::2])


def both(array: EngineArray, windows: list[Window], lost: list[Window]) -> dict[Window, Answer]:
    """The rows at each window, with the metadata behind them where that may not change."""
    return {window: array.answer(*window, metadata=window not in lost) for window in windows}


def shape(files: Files) -> set[tuple[str, bytes]]:
    """The files less the uuids of new names.

    Metadata that a killed run has merged is merged once more, as its maker might take it back: the
    `.vac` then lists one file more, which says the same.
    """
    new = re.compile(
        r"(__commits/__\d+_\d+_|__fragment_meta/__\d+_\d+_|__meta/__10_30_)[0-9a-f]{32}"
        r"((?:_\d+\.(?:con|ign|meta)|\.vac)?)$"
    )
    merged = re.compile(rb"/__meta/__10_30_[0-9a-f]{32}\n")
    return {
        (new.sub(r"\1*\2", name), merged.sub(b"", data))
        for name, data in files.items()
        if not is_own(name)
    }


def is_own(name: str) -> bool:
    """Whether a file belongs to the records of changes, which no engine reads."""
    return name.startswith("__chronotile/")


def known_as(files: Files) -> str:
    """What the engine's answer and the next run depend on: the array, and the state of records.

    The ids and times of records differ from run to run.
    """
    ids = re.compile(r"(?<=/)\d{8}T[\d.]+Z-[0-9a-f]{8}-|(?<=/)[0-9a-f]{8}(?=/)")
    own = {ids.sub("*", name): b"" for name in files if is_own(name)}
    return digest(own | {name: data for name, data in files.items() if not is_own(name)})


def crash_everywhere(killed: Crasher, what: str, judged: Judged, before: Files) -> int:
    """Kill at each change, before and after it; give how many there were."""
    place = judged.place
    place.reset(before)
    answers = judged.answers()
    assert not any(isinstance(answer, str) for answer in answers.values())
    _, total = killed.run(what, place.uri, place.options)
    wanted = shape(place.files())
    assert wanted != shape(before)
    assert judged.answers() == answers
    ended: dict[str, set[tuple[str, bytes]]] = {}
    here = place.files()
    for at in range(1, total + 1):
        if here != before:
            place.reset(before)
        died, _ = killed.run(what, place.uri, place.options, die_at=at)
        assert died, f"{what} ended before operation {at} of {total}"
        here = place.files()
        left = known_as(here)
        if left not in ended:
            assert judged.answers() == answers, f"{what} killed at operation {at}"
            killed.run(what, place.uri, place.options)
            here = place.files()
            ended[left] = shape(here)
        assert ended[left] == wanted, f"{what} killed at operation {at}, then run again"
    assert len(ended) > 1
    return total


def before_vacuum(killed: Crasher, judged: Judged, origin: pathlib.Path) -> Files:
    place = judged.place
    place.reset(read_all(origin))
    killed.run("consolidate all", place.uri, place.options)
    judged.lost = LOST
    return place.files()


@pytest.mark.parametrize(
    ("mode", "changes"), [("commits", 2), ("fragment-meta", 2), ("array-meta", 4), ("all", 8)]
)
def test_consolidate_on_disk(
    killed: Crasher, origin: pathlib.Path, tmp_path: pathlib.Path, mode: str, changes: int
) -> None:
    place = on_disk(tmp_path / "array")
    steps = crash_everywhere(killed, f"consolidate {mode}", place, read_all(origin))
    assert steps == changes + RECORD


def test_vacuum_on_disk(killed: Crasher, origin: pathlib.Path, tmp_path: pathlib.Path) -> None:
    place = on_disk(tmp_path / "array")
    before = before_vacuum(killed, place, origin)
    assert crash_everywhere(killed, "vacuum", place, before) >= 30 + RECORD


def test_vacuum_of_deletes_on_disk(killed: Crasher, tmp_path: pathlib.Path) -> None:
    """One delete that no fragment needs, in a `.con` and loose, and one that stays."""
    array = EngineArray(tmp_path / "origin").create()
    array.write(10, {1: 1, 2: 2})
    array.delete(12, "a == 1")
    array.write(11, {3: 3})
    array.consolidate("fragments", (0, 15), sm__consolidation__purge_deleted_cells="true")
    array.vacuum("fragments")
    array.write(20, {4: 4, 5: 5})
    array.delete(30, "a == 4")
    array.consolidate("commits")
    place = on_disk(tmp_path / "array")
    assert crash_everywhere(killed, "vacuum deletes", place, read_all(array.folder)) >= 6 + RECORD
    assert len(list((tmp_path / "array" / "__commits").glob("*.del"))) == 1


def test_consolidate_on_s3(
    killed: Crasher, origin: pathlib.Path, s3: S3Server, bucket: str
) -> None:
    place = in_bucket(s3, bucket)
    assert crash_everywhere(killed, "consolidate all", place, read_all(origin)) == 8 + RECORD


def test_vacuum_on_s3(killed: Crasher, origin: pathlib.Path, s3: S3Server, bucket: str) -> None:
    place = in_bucket(s3, bucket)
    before = before_vacuum(killed, place, origin)
    assert crash_everywhere(killed, "vacuum", place, before) >= 30 + RECORD
