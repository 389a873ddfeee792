"""Files that nobody sees before they are whole."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

from chronotile.storage import disk_files
from chronotile.storage.disk import Disk
from chronotile.storage.place import LEFTOVER, ObjectExistsError, Place
from chronotile.storage.store import open_store

if TYPE_CHECKING:
    import pathlib


@pytest.fixture(params=["unnamed", "named"])
def names_seen(
    request: pytest.FixtureRequest, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> set[str]:
    """The names that a listing shows while bytes go to the disk, in both ways to write them."""
    seen: set[str] = set()
    sync = os.fsync

    def watched(descriptor: int) -> None:
        seen.update(path.name for path in tmp_path.rglob("*") if path.is_file())
        sync(descriptor)

    monkeypatch.setattr(os, "fsync", watched)
    if request.param == "named":
        monkeypatch.setattr(disk_files, "_TMPFILE", 0)
    return seen


def test_a_put_shows_nothing_before_it_is_whole(
    tmp_path: pathlib.Path, names_seen: set[str]
) -> None:
    disk = Disk(Place(scheme="file", root=str(tmp_path)))
    disk.put("__commits/a.wrt", b"whole")
    assert (tmp_path / "__commits" / "a.wrt").read_bytes() == b"whole"
    parts = {name for name in names_seen if LEFTOVER.fullmatch(name)}
    assert bool(parts) is (disk_files._TMPFILE == 0), "a listing shows a file without a name"
    with pytest.raises(ObjectExistsError):
        disk.put("__commits/a.wrt", b"other")
    assert [path.name for path in tmp_path.rglob("*") if path.is_file()] == ["a.wrt"]


def test_an_exchange_leaves_one_file(tmp_path: pathlib.Path, names_seen: set[str]) -> None:
    store = open_store(str(tmp_path))
    store.put_if_absent("__commits/a.ign", b"old")
    names_seen.clear()
    store.exchange("__commits/a.ign", b"old", b"new")
    assert [path.name for path in tmp_path.rglob("*") if path.is_file()] == ["a.ign"]
    assert (tmp_path / "__commits" / "a.ign").read_bytes() == b"new"
    parts = {name for name in names_seen if LEFTOVER.fullmatch(name)}
    assert bool(parts) is (disk_files._TMPFILE == 0)


def test_a_put_that_fails_leaves_nothing(tmp_path: pathlib.Path, names_seen: set[str]) -> None:
    def broken() -> bytes:
        raise OSError(5, os.strerror(5))

    folder = os.open(tmp_path, os.O_RDONLY)
    try:
        with pytest.raises(OSError), disk_files.unnamed_file(folder, (broken() for _ in "1")):  # noqa: PT011 - any of the disk's
            pytest.fail("a file that was not written was given out")
    finally:
        os.close(folder)
    assert list(tmp_path.iterdir()) == []
    assert not names_seen
