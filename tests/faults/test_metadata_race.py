"""Maintainers of metadata and writers at once: nothing is lost, and nothing counts twice.

Threads of one process interleave at every storage operation, or something happens at a chosen
operation; the engine writes meanwhile, and is asked afterwards.
"""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any

import pytest
import tiledb
from support.engine_arrays import EngineArray

from chronotile.change.consolidate import consolidate
from chronotile.change.vacuum import vacuum
from chronotile.errors import ChangedError
from chronotile.storage.store import open_store

if TYPE_CHECKING:
    import pathlib
    from collections.abc import Callable

    from chronotile.storage.store import Store

ROUNDS = 12


@pytest.fixture
def array(tmp_path: pathlib.Path) -> EngineArray:
    made = EngineArray(tmp_path / "array").create(upper=9999)
    for at in (10, 20, 30):
        made.write(at, {at: at})
        set_key(made, at, "a", at)
    return made


def set_key(array: EngineArray, at: int, key: str, value: int | None) -> None:
    with tiledb.open(array.uri, "w", timestamp=at, ctx=array.ctx) as opened:
        if value is None:
            del opened.meta[key]
        else:
            opened.meta[key] = value


def metadata(array: EngineArray, start: int = 0, end: int = 9999) -> dict[str, Any]:
    with tiledb.open(array.uri, timestamp=(start, end), ctx=array.ctx) as opened:
        return dict(opened.meta)


def rows(array: EngineArray) -> set[int]:
    answer = array.answer()
    assert not isinstance(answer, str), answer
    return {int(row[0]) for row in answer}


def at_put(array: EngineArray, what: str, do: Callable[[], object], *, of: str = "put") -> Store:
    """A store that does something right at the first put of a file in a folder."""
    done: list[str] = []

    def hook(operation: str, path: str) -> None:
        if operation == of and path.startswith(what) and not done:
            done.append(path)
            do()

    return open_store(array.uri, on_operation=hook)


def maintained(store: Store) -> None:
    for _ in range(4):
        with suppress(ChangedError):
            consolidate("", mode="all", store=store)
            vacuum("", store=store)
            break


@pytest.mark.usefixtures("short_looks")
def test_maintainers_and_a_writer_at_once(array: EngineArray) -> None:
    store = open_store(array.uri)
    wanted = {"a": 30}
    written = {10, 20, 30}

    def write() -> None:
        at = 40 + len(written)
        array.write(at, {at: at})
        set_key(array, at, f"k{at % 5}", at)
        set_key(array, at, f"k{(at + 1) % 5}", None)
        written.add(at)
        wanted[f"k{at % 5}"] = at
        wanted.pop(f"k{(at + 1) % 5}", None)

    for number in range(ROUNDS):
        start = threading.Barrier(3)

        def run(task: Callable[[], object], start: threading.Barrier = start) -> None:
            start.wait(30)
            task()

        with ThreadPoolExecutor(3) as pool:
            tasks = (partial(maintained, store), partial(maintained, store), write)
            for future in [pool.submit(run, task) for task in tasks]:
                future.result()
        assert rows(array) == written, f"round {number}"
        assert metadata(array) == wanted, f"round {number}"
    maintained(store)
    maintained(store)
    assert metadata(array) == wanted
    assert rows(array) == written
    assert len(array.files("__meta")) == 1
    assert len(array.files("__fragment_meta")) == 1


@pytest.mark.parametrize("moment", ["put", "put.done"])
def test_metadata_that_is_written_meanwhile(array: EngineArray, moment: str) -> None:
    def write() -> None:
        set_key(array, 40, "a", 40)
        set_key(array, 41, "b", 41)

    store = at_put(array, "__meta/", write, of=moment)
    assert len(consolidate("", mode="array-meta", store=store).steps) == 2
    assert metadata(array) == {"a": 40, "b": 41}
    assert metadata(array, 0, 35) == {"a": 30}
    vacuum(array.uri)
    assert metadata(array) == {"a": 40, "b": 41}


@pytest.mark.parametrize("moment", ["put", "put.done"])
def test_metadata_of_an_earlier_time_that_is_written_meanwhile(
    array: EngineArray, moment: str
) -> None:
    """The merged file would count before it: it is taken back, and the next run takes both in."""
    store = at_put(array, "__meta/", lambda: set_key(array, 15, "a", 15), of=moment)
    with pytest.raises(ChangedError, match="try again"):
        consolidate("", mode="array-meta", store=store)
    assert len(array.files("__meta")) == 4
    windows = [(0, 12), (0, 17), (0, 25), (0, 99), (12, 99)]
    before = [metadata(array, *window) for window in windows]
    consolidate(array.uri, mode="array-meta")
    assert [metadata(array, *window) for window in windows] == before
    assert before[3] == {"a": 30}


def test_another_maintainer_merges_and_vacuums_meanwhile(array: EngineArray) -> None:
    def rival() -> None:
        set_key(array, 40, "a", 40)
        consolidate(array.uri, mode="array-meta")
        vacuum(array.uri, mode="array-meta")

    store = at_put(array, "__meta/", rival)
    with pytest.raises(ChangedError, match="try again"):
        consolidate("", mode="array-meta", store=store)
    assert metadata(array) == {"a": 40}
    assert len(array.files("__meta")) == 1


def test_a_merged_file_that_its_maker_takes_back(array: EngineArray) -> None:
    """Nobody else relies on it: another maintainer merges and vacuums while it is about to go."""
    crossed: list[str] = []

    def hook(operation: str, path: str) -> None:
        if not path.startswith("__meta/") or len(crossed) > 1:
            return
        if operation == "put.done" and not crossed:
            crossed.append(path)
            set_key(array, 15, "a", 15)
        elif operation == "remove":
            crossed.append(path)
            consolidate(array.uri, mode="array-meta")
            vacuum(array.uri, mode="array-meta")

    with pytest.raises(ChangedError, match="try again"):
        consolidate("", mode="array-meta", store=open_store(array.uri, on_operation=hook))
    assert len(set(crossed)) == 1
    assert metadata(array) == {"a": 30}


def test_a_reader_between_the_two_puts(array: EngineArray) -> None:
    set_key(array, 25, "b", 25)
    set_key(array, 28, "b", None)
    windows = [(0, 12), (0, 26), (0, 99), (12, 99), (22, 26)]
    before = [metadata(array, *window) for window in windows]
    seen: list[list[dict[str, Any]]] = []

    def look() -> None:
        seen.append([metadata(array, *window) for window in windows])

    consolidate("", mode="array-meta", store=at_put(array, "__meta/", look, of="put.done"))
    assert seen == [before]


def test_a_fragment_that_is_written_while_its_meta_is_made(array: EngineArray) -> None:
    store = at_put(array, "__fragment_meta/", lambda: array.write(40, {40: 40}))
    consolidate("", mode="fragment-meta", store=store)
    assert rows(array) == {10, 20, 30, 40}
    consolidate(array.uri, mode="fragment-meta")
    vacuum(array.uri)
    assert rows(array) == {10, 20, 30, 40}
    assert len(array.files("__fragment_meta")) == 1


def test_a_fragment_that_is_removed_while_its_meta_is_made(array: EngineArray) -> None:
    store = at_put(array, "__fragment_meta/", lambda: array.delete_fragments(20, 20))
    consolidate("", mode="fragment-meta", store=store)
    assert rows(array) == {10, 30}
    consolidate(array.uri, mode="fragment-meta")
    vacuum(array.uri)
    assert rows(array) == {10, 30}
    assert len(array.files("__fragment_meta")) == 1


def test_a_meta_that_goes_before_the_other_is_removed(array: EngineArray) -> None:
    """The engine's vacuum keeps the `.meta` of the latest time, ours the one with most footers."""
    consolidate(array.uri, mode="fragment-meta")
    array.write(5, {5: 5})
    consolidate(array.uri, mode="fragment-meta")
    old, new = array.files("__fragment_meta")
    assert new.startswith("__5_30_")
    reads = []

    def rival(operation: str, path: str) -> None:
        if operation == "read" and path.endswith(new):
            reads.append(path)
            if len(reads) == 3:
                (array.folder / "__fragment_meta" / new).unlink()

    with pytest.raises(ChangedError, match="try again"):
        vacuum(array.uri, mode="fragment-meta", store=open_store(array.uri, on_operation=rival))
    assert array.files("__fragment_meta") == [old]
    assert rows(array) == {5, 10, 20, 30}


def test_a_merged_file_that_goes_before_what_it_replaces(array: EngineArray) -> None:
    merged, _ = consolidate(array.uri, mode="array-meta").steps
    reads = []

    def rival(operation: str, path: str) -> None:
        if operation == "read" and path == merged.path:
            reads.append(path)
            if len(reads) == 3:  # for tags, for the plan, and just before the removal
                (array.folder / merged.path).write_bytes(b"cut")

    with pytest.raises(ChangedError, match="try again"):
        vacuum(array.uri, mode="array-meta", store=open_store(array.uri, on_operation=rival))
    assert len(array.files("__meta", "__[123]0_[123]0_*")) == 5, "three, the merged one, its .vac"
