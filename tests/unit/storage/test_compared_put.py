"""A put that is read back: it never overwrites, and notices what was not written."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from chronotile.errors import ChangedError, ChronotileError
from chronotile.storage.compared_put import put_compared
from chronotile.storage.store import ObjectExistsError, open_store

if TYPE_CHECKING:
    import pathlib


def test_put_compared_never_overwrites(tmp_path: pathlib.Path) -> None:
    store = open_store(tmp_path)
    put_compared(store, "a", b"1")
    with pytest.raises(ObjectExistsError):
        put_compared(store, "a", b"2")
    assert store.read("a") == b"1"


def test_put_compared_notices_what_was_not_written(tmp_path: pathlib.Path) -> None:
    def spoil(operation: str, path: str) -> None:
        if operation == "put.done":
            (tmp_path / path).write_bytes(b"other")

    with pytest.raises(ChronotileError, match="just written"):
        put_compared(open_store(tmp_path, on_operation=spoil), "a", b"first")


def test_put_compared_notices_that_its_object_is_gone(tmp_path: pathlib.Path) -> None:
    def take(operation: str, path: str) -> None:
        if operation == "put.done":
            (tmp_path / path).unlink()

    with pytest.raises(ChangedError, match="found it gone"):
        put_compared(open_store(tmp_path, on_operation=take), "a", b"first")
