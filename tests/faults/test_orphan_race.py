"""A vacuum of orphans and a change that commits copies, at once: no commit names what is gone.

A copy by hard links has files that are older than itself, and no commit until the change ends.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest
from support.engine_arrays import EngineArray, s3_settings

import chronotile as ct
from chronotile.array import Array
from chronotile.storage.store import open_store

if TYPE_CHECKING:
    import pathlib
    from collections.abc import Callable

    from support.servers import S3Server

    from chronotile.storage.store import Store

NOW = (0, 1 << 60)
ANY_AGE = -1
METADATA = "__fragment_metadata.tdb"


class Replayed:
    """A restore that commits a fragment again, which a delete has touched since."""

    def __init__(self, folder: pathlib.Path) -> None:
        self.array = EngineArray(folder / "array").create()
        self.array.write(10, {1: 1, 2: 2})
        self.array.delete(20, "a == 1")
        self.array.write(30, {3: 3})
        self.wanted = self.array.answer(0, 15)

    def run(self, store: Store) -> None:
        """Change the array without a record: with one, a vacuum knows of the copies."""
        Array(store).restore(15, record=False)


class Veiled(Replayed):
    """A restore that commits a fragment again, and hides the one that it was merged into."""

    def __init__(self, folder: pathlib.Path) -> None:
        self.array = EngineArray(folder / "array").create(sparse=False)
        for at in (10, 20):
            self.array.write(at, dict.fromkeys(range(5), at))
        self.array.consolidate("fragments")
        self.wanted = self.array.answer(0, 15)


class Published(Replayed):
    """The fragments of a staging array."""

    def __init__(self, folder: pathlib.Path) -> None:
        super().__init__(folder)
        self.staging = EngineArray(folder / "staging").create()
        self.staging.write(40, {4: 4})
        self.wanted = ((2, 2), (3, 3), (4, 4))

    def run(self, store: Store) -> None:
        Array(store).publish(self.staging.uri, record=False)


CHANGES = [Replayed, Veiled, Published]


def crossed(
    uri: str, what: Callable[[], object], at: str, options: dict[str, str] | None = None
) -> Store:
    """A store at which something happens once: when copies were made, or their commit is put."""
    copies: list[str] = []
    done: list[str] = []

    def hook(operation: str, path: str) -> None:
        if operation == "copy.done":
            copies.append(path)
        is_commit = operation == "put" and path.startswith("__commits/")
        if not done and copies and (operation == at if at != "commit" else is_commit):
            done.append(path)
            what()

    return open_store(uri, options, on_operation=hook)


def errors(array: EngineArray) -> list[str]:
    return [item.message for item in ct.open_log(array.uri).check() if item.severity == "error"]


@pytest.mark.parametrize("kind", CHANGES)
def test_copies_that_were_just_linked_stay(kind: type[Replayed], tmp_path: pathlib.Path) -> None:
    change = kind(tmp_path)
    for path in tmp_path.rglob("*"):
        os.utime(path, (1, 1))
    uri = change.array.uri
    notes: list[str] = []

    def vacuum() -> None:
        notes.extend(ct.vacuum(uri, whole_orphans=True, mode="fragment-meta").notes)

    change.run(crossed(uri, vacuum, "commit"))
    assert any("too young to be an orphan" in note for note in notes)
    assert not errors(change.array)
    assert change.array.answer(*NOW) == change.wanted


@pytest.mark.parametrize("kind", CHANGES)
@pytest.mark.parametrize("at", ["copy.done", "commit"])
def test_a_copy_that_goes_all_the_same_stops_the_change(
    kind: type[Replayed], at: str, tmp_path: pathlib.Path
) -> None:
    """Before we look at the copies, and after that, when the commit is about to be put."""
    change = kind(tmp_path)
    uri, before = change.array.uri, change.array.answer(*NOW)
    # Of a copy that has only begun, the rest comes after the vacuum.
    age = {"orphans": True, "whole_orphans": True, "orphan_age": ANY_AGE}

    def vacuum() -> None:
        assert ct.vacuum(uri, mode="fragment-meta", **age).steps

    with pytest.raises(ct.ChronotileError, match=r"found it removed|expected a copy of"):
        change.run(crossed(uri, vacuum, at))
    assert not errors(change.array)
    assert change.array.answer(*NOW) == before
    ct.vacuum(uri, mode="fragment-meta", **age)
    change.run(open_store(uri))
    assert change.array.answer(*NOW) == change.wanted


@pytest.mark.parametrize("kind", [Replayed, Published])
def test_a_commit_that_comes_while_an_orphan_is_removed(
    kind: type[Replayed], tmp_path: pathlib.Path
) -> None:
    """The vacuum is held when the first file of the copy is gone, and the change ends."""
    change = kind(tmp_path)
    array = change.array
    waiting: list[Callable[[], object]] = []

    def held(operation: str, path: str) -> None:
        if operation == "remove.done" and path.endswith(METADATA) and waiting:
            waiting.pop()()

    def vacuum() -> None:
        """Removes the copy up to its metadata, while the change waits to put its commit."""
        copy = next(p for p in array.files("__fragments") if p not in before)
        commit = array.commits_folder / f"{copy}.wrt"
        waiting.append(commit.touch)
        store = open_store(array.uri, on_operation=held)
        age = {"whole_orphans": True, "orphan_age": ANY_AGE}
        report = Array(store).vacuum(mode="fragment-meta", **age)  # type: ignore[arg-type]
        assert not report.steps
        assert f"__fragments/{copy} stays: it changed, or got a commit" in report.notes[-1]
        commit.unlink()

    before = array.files("__fragments")
    change.run(crossed(array.uri, vacuum, "commit"))
    assert not waiting
    assert not errors(array)
    assert array.answer(*NOW) == change.wanted


def test_a_copy_that_a_record_names_stays_at_any_age(tmp_path: pathlib.Path) -> None:
    change = Replayed(tmp_path)
    uri = change.array.uri
    notes: list[str] = []

    def vacuum() -> None:
        report = ct.vacuum(uri, whole_orphans=True, orphan_age=ANY_AGE, mode="fragment-meta")
        notes.extend(report.notes)

    store = crossed(uri, vacuum, "commit")
    Array(store).restore(15)
    assert any("is a copy of a change that has not ended: it stays" in note for note in notes)
    assert any(note.endswith("-restore-begun.json") for note in notes)
    assert change.array.answer(*NOW) == change.wanted


def test_copies_in_a_bucket_have_a_time_of_their_own(s3: S3Server, bucket: str) -> None:
    array = EngineArray(f"{bucket}/array", settings=s3_settings(s3)).create()
    array.write(10, {1: 1, 2: 2})
    array.delete(20, "a == 1")
    notes: list[str] = []

    def vacuum() -> None:
        options = {"storage_options": s3.options, "mode": "fragment-meta"}
        notes.extend(ct.vacuum(array.uri, whole_orphans=True, **options).notes)

    store = crossed(array.uri, vacuum, "commit", s3.options)
    Array(store).restore(15, record=False)
    assert any("too young to be an orphan" in note for note in notes)
    assert array.answer(*NOW) == ((1, 1), (2, 2))
