"""Files side by side: few calls a file tell what the store's careful path tells."""

from __future__ import annotations

import os
import stat
from typing import TYPE_CHECKING

import pytest

from chronotile.errors import ChronotileError
from chronotile.storage.side_by_side import sizes, tails
from chronotile.storage.store import open_store

if TYPE_CHECKING:
    from pathlib import Path

SIZES = (1, 9, 8_191, 8_192, 8_193, 20_000, 3)
"""Around the size up to which a file is read as a whole; a small one comes after large ones too."""


def make(folder: Path) -> list[str]:
    """Files of many sizes, and what is no file, each in a folder of its own."""
    odd = ["empty", "gone", "pipe", "folder", "link"]
    names = [*(f"size-{size}" for size in SIZES[:3]), *odd, *(f"size-{n}" for n in SIZES[3:])]
    for name in names:
        (folder / name).mkdir(parents=True)
        if name.startswith("size-"):
            (folder / name / "x").write_bytes(os.urandom(int(name[5:])))
    (folder / "empty" / "x").touch()
    os.mkfifo(folder / "pipe" / "x")
    (folder / "folder" / "x").mkdir()
    (folder / "link" / "x").symlink_to(folder / "size-9" / "x")
    return names + devices(folder)


def devices(folder: Path) -> list[str]:
    """Devices that give nothing, and without end, where this process may make them."""
    made = []
    for name, minor in (("null", 3), ("zero", 5)):
        (folder / name).mkdir()
        try:
            os.mknod(folder / name / "x", stat.S_IFCHR | 0o600, os.makedev(1, minor))
        except PermissionError:
            continue
        made.append(name)
    return made


def told(answer: object) -> object:
    return (type(answer), str(answer)) if isinstance(answer, ChronotileError) else answer


@pytest.mark.parametrize("length", [4, 1_024, 16_384])
def test_ends_are_those_of_the_careful_path(tmp_path: Path, length: int) -> None:
    names = make(tmp_path / "f")
    store = open_store(str(tmp_path))
    careful: list[tuple[bytes, int] | ChronotileError] = []
    for name in names:
        try:
            careful.append(store.read_tail(f"f/{name}/x", length))
        except ChronotileError as error:
            careful.append(error)
    folders = [f"f/{name}" for name in names]
    for order in (1, -1):
        quick = [*tails(store, folders[::order], "x", length, {})]
        assert [*map(told, quick)] == [*map(told, careful[::order])]
    right = [answer[1] if isinstance(answer, tuple) else answer for answer in careful]
    assert [*map(told, sizes(store, folders, "x", {}))] == [*map(told, right)]


def test_a_short_answer_is_not_taken_for_the_whole_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Some file systems answer with a part of what was asked for."""
    (tmp_path / "f" / "one").mkdir(parents=True)
    (tmp_path / "f" / "one" / "x").write_bytes(bytes(range(200)))
    store, whole = open_store(str(tmp_path)), os.pread
    monkeypatch.setattr(os, "pread", lambda file, length, at: whole(file, min(length, 50), at))
    assert [*tails(store, ["f/one"], "x", 20, {})] == [(bytes(range(180, 200)), 200)]
    assert [*tails(store, ["f/one"], "x", 0, {})] == [(b"", 200)]
