"""Overlays: what a store would show, without a change to the storage."""

from __future__ import annotations

import uuid
from typing import TYPE_CHECKING

import pytest

from chronotile.errors import ArrayNotFoundError, StorageError, TooLargeError
from chronotile.storage.overlay import listed, overlaid, remembering
from chronotile.storage.store import Entry, MissingObjectError, Store, open_store
from chronotile.storage.transfer import Transfer

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

FILES = {"__commits/a.wrt": b"", "__commits/b.del": b"bb", "__fragments/f/x.tdb": b"xxx"}


@pytest.fixture(params=["disk", "memory"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Store:
    made = open_store(tmp_path if request.param == "disk" else f"memory:{uuid.uuid4().hex}")
    for path, data in FILES.items():
        made.put_if_absent(path, data)
    return made


def changes(store: Store) -> tuple[Callable[[], object], ...]:
    return (
        lambda: store.put_if_absent("new", b""),
        lambda: store.exchange("__commits/b.del", b"bb", b"cc"),
        lambda: store.remove(["__commits/a.wrt"]),
        lambda: store.remove_folder("__fragments"),
        lambda: Transfer(store, store).files({"__commits/b.del": "copy"}),
        lambda: store.make_folder("folder"),
    )


def test_every_overlay_refuses_every_change(store: Store) -> None:
    for shown in (overlaid(store, {"a": b""}), listed(store, [], ()), remembering(store)):
        for change in changes(shown):
            with pytest.raises(StorageError, match="expected only reading, found a change"):
                change()
    assert dict(store.read_many(FILES)) == FILES
    assert [entry.path for entry in store.list_prefix()] == sorted(FILES)


def test_files_that_are_added_and_hidden(store: Store) -> None:
    shown = overlaid(store, {"__commits/c.con": b"0123456789"}, without=["__commits/a.wrt"])
    there = ["__commits/b.del", "__commits/c.con"]
    assert [entry.path for entry in shown.list_dir("__commits").files] == there
    assert sorted(shown.list_names("__commits").files) == ["b.del", "c.con"]
    assert [entry.path for entry in shown.list_prefix()] == [*there, "__fragments/f/x.tdb"]
    assert shown.list_names("__fragments").folders == store.list_names("__fragments").folders
    assert shown.head("__commits/c.con").size == 10
    assert shown.read_range("__commits/c.con", 2, 4) == b"23"
    assert shown.read_tail("__commits/c.con", 3) == (b"789", 10)
    assert shown.read("__commits/b.del") == b"bb"
    assert shown.change_time("__commits") is None
    with pytest.raises(MissingObjectError):
        store.read("__commits/c.con")


def test_a_known_listing_is_not_asked_for(store: Store) -> None:
    known = [Entry("__commits/z.wrt", 5, 7), Entry("__fragments/g/", 9)]
    shown = listed(store, known, {"", "__commits", "__fragments"})
    assert shown.list_dir().folders == ("__commits", "__fragments")
    assert shown.list_dir("__commits").files == (known[0],)
    assert shown.list_names("__fragments").folders == ("g",)
    assert shown.head("__commits/z.wrt") == known[0]
    assert shown.list_dir("__fragments/f").files[0].path == "__fragments/f/x.tdb", "of the storage"
    assert shown.head("__commits/b.del").size == 2
    with pytest.raises(ArrayNotFoundError):
        listed(store, [], {""}).list_dir()


def test_a_memory_reads_once_and_keeps_to_limits(store: Store) -> None:
    shown = remembering(store)
    assert shown.read("__commits/b.del") == b"bb"
    store.remove(["__commits/b.del"])
    assert shown.read("__commits/b.del") == b"bb"
    with pytest.raises((MissingObjectError, TooLargeError)):
        shown.read("__commits/b.del", limit=1)
    assert [entry.path for entry in shown.list_dir("__commits").files] == ["__commits/a.wrt"]
