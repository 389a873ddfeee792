"""Several maintainers and a writer at once: no commit is lost.

Threads of one process interleave at every storage operation; the engine writes meanwhile, and is
asked afterwards.
"""

from __future__ import annotations

import shutil
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING

import pytest
from support.engine_arrays import EngineArray
from support.ledger import read_ledger
from support.spec_files import CORPUS

from chronotile.change.consolidate import consolidate
from chronotile.change.vacuum import vacuum
from chronotile.errors import ChangedError
from chronotile.format.names import new_name
from chronotile.log import open_log
from chronotile.storage.store import open_store

if TYPE_CHECKING:
    import pathlib
    from collections.abc import Callable

    from support.servers import S3Server

    from chronotile.storage.store import Store

ROUNDS = 50


def together(*tasks: Callable[[], object]) -> None:
    """Run tasks at once, started by one signal; raise what any of them raised."""
    start = threading.Barrier(len(tasks))

    def run(task: Callable[[], object]) -> None:
        start.wait(30)
        task()

    with ThreadPoolExecutor(len(tasks)) as pool:
        for future in [pool.submit(run, task) for task in tasks]:
            future.result()


def maintained(store: Store) -> None:
    """Maintain an array while others do; what gives up is to be tried again, as it says."""
    for _ in range(3):
        with suppress(ChangedError):
            consolidate("", store=store)
            vacuum("", store=store)
            break


def values(array: EngineArray) -> set[int]:
    answer = array.answer()
    assert not isinstance(answer, str), answer
    return {int(row[0]) for row in answer}


@pytest.mark.usefixtures("short_looks")
def test_two_consolidates_and_a_stream_of_writes(tmp_path: pathlib.Path) -> None:
    array = EngineArray(tmp_path / "array").create(upper=9999)
    written: set[int] = set()

    def write() -> None:
        for _ in range(3):
            at = len(written) + 1
            array.write(at, {at: at})
            written.add(at)

    for number in range(ROUNDS):
        together(lambda: consolidate(array.uri), lambda: consolidate(array.uri), write)
        assert values(array) == written, f"round {number}"
        if number % 10 == 9:
            # What is known only from a `.con` must survive the next rounds too.
            vacuum(array.uri)
            assert values(array) == written, f"vacuumed after round {number}"
    assert len(written) == 3 * ROUNDS


@pytest.mark.usefixtures("short_looks")
def test_two_vacuums_two_consolidates_and_a_writer(tmp_path: pathlib.Path) -> None:
    array = EngineArray(tmp_path / "array").create(upper=9999)
    written: set[int] = set()

    def write() -> None:
        at = len(written) + 1
        array.write(at, {at: at})
        written.add(at)

    maintain = partial(maintained, open_store(array.uri))
    for number in range(ROUNDS // 2):
        together(maintain, maintain, write)
        assert values(array) == written, f"round {number}"
    consolidate(array.uri)
    vacuum(array.uri)
    assert values(array) == written
    assert len(array.files("__commits")) == 1


@pytest.mark.usefixtures("short_looks")
def test_maintainers_and_a_writer_in_a_bucket(s3: S3Server, bucket: str) -> None:
    """The same where folders are prefixes and an open makes many requests; our view tells."""
    store = open_store(f"{bucket}/array", s3.options)
    for path in (CORPUS / "bare" / "array" / "__schema").iterdir():
        store.put_if_absent(f"__schema/{path.name}", path.read_bytes())
    written: set[str] = set()

    def write() -> None:
        name = new_name(at := len(written) + 1, at, 22)
        store.put_if_absent(f"__fragments/{name}/__fragment_metadata.tdb", b"metadata")
        store.put_if_absent(f"__commits/{name}.wrt", b"")
        written.add(name)

    maintain = partial(maintained, store)

    def seen() -> set[str]:
        view = open_log(store.uri, storage_options=s3.options).view()
        return {fragment.name for fragment in view.fragments}

    for number in range(12):
        together(maintain, maintain, write)
        assert seen() == written, f"round {number}"
    consolidate("", store=store)
    vacuum("", store=store)
    assert seen() == written
    assert len(store.list_names("__commits").files) == 1


def test_two_vacuums_of_the_same_fragments(tmp_path: pathlib.Path) -> None:
    for number in range(8):
        array = EngineArray(tmp_path / f"array-{number}").create()
        for at in (10, 20, 30):
            array.write(at, {at: at})
        array.consolidate("commits")
        array.consolidate("fragments")
        before = array.answers([(0, 10), (0, 25), (0, 40), (15, 40)])
        together(*(partial(vacuum, array.uri) for _ in range(2)))
        assert array.answers(before) == before
        consolidate(array.uri)
        vacuum(array.uri)
        assert array.answers(before) == before
        assert len(array.files("__fragments")) == 1


def test_a_fragment_removed_while_its_con_is_written(tmp_path: pathlib.Path) -> None:
    """A removal that crosses a consolidation leaves no commit without its fragment."""
    array = EngineArray(tmp_path / "array").create()
    for at in (10, 20):
        array.write(at, {at: at})

    def crossing(operation: str, path: str) -> None:
        if operation == "put" and path.endswith(".con"):
            array.delete_fragments(20, 20)

    report = consolidate(array.uri, store=open_store(array.uri, on_operation=crossing))
    assert [step.path.rpartition(".")[2] for step in report.steps] == ["con", "ign"]
    assert values(array) == {10}


def test_a_removal_that_has_only_begun_when_the_con_is_written(tmp_path: pathlib.Path) -> None:
    """The engine removes the commit first and then the fragment: between the two we wait."""
    array = EngineArray(tmp_path / "array").create()
    for at in (10, 20):
        array.write(at, {at: at})
    (name,) = array.files("__commits", "__20_*")
    (folder,) = array.files("__fragments", "__20_*")
    commit, looks = array.commits_folder / name, []

    def crossing(operation: str, path: str) -> None:
        if operation == "put" and path.endswith(".con"):
            commit.unlink()
        elif operation == "list" and path == "__fragments" and not commit.exists():
            looks.append(path)
            if len(looks) == 3:
                shutil.rmtree(array.folder / "__fragments" / folder)

    report = consolidate(array.uri, store=open_store(array.uri, on_operation=crossing))
    assert len(looks) == 3, "and then no more"
    assert [step.path.rpartition(".")[2] for step in report.steps] == ["con", "ign"]
    assert values(array) == {10}


@pytest.mark.usefixtures("short_looks")
def test_a_vacuum_that_relies_on_the_con_just_written(tmp_path: pathlib.Path) -> None:
    """Loose commits that are gone since the new `.con` itself holds them still count."""
    array = EngineArray(tmp_path / "array").create()
    for at in (10, 20):
        array.write(at, {at: at})

    def crossing(operation: str, path: str) -> None:
        if operation == "read" and path.endswith(".con"):
            vacuum(array.uri)

    report = consolidate(array.uri, store=open_store(array.uri, on_operation=crossing))
    assert [step.path.rpartition(".")[2] for step in report.steps] == ["con"]
    assert not array.files("__commits", "*.wrt")
    assert values(array) == {10, 20}


@pytest.mark.usefixtures("short_looks")
def test_a_con_that_is_replaced_before_it_is_read_back(tmp_path: pathlib.Path) -> None:
    """Another maintainer takes a later commit in and vacuums the `.con` that was just put."""
    array = EngineArray(tmp_path / "array").create()
    array.write(10, {10: 10})

    def crossing(operation: str, path: str) -> None:
        if operation == "read" and path.endswith(".con"):
            array.write(20, {20: 20})
            consolidate(array.uri)
            vacuum(array.uri)

    report = consolidate(array.uri, store=open_store(array.uri, on_operation=crossing))
    assert "gone already" in report.notes[0]
    assert len(array.files("__commits")) == 1
    assert values(array) == {10, 20}


def test_a_removal_from_a_con_that_is_gone_without_a_trace(tmp_path: pathlib.Path) -> None:
    """The `.con` that was read, and the `.ign` of the removal, are vacuumed before ours is put."""
    array = EngineArray(tmp_path / "array").create()
    for at in (10, 20):
        array.write(at, {at: at})
    consolidate(array.uri)
    vacuum(array.uri)
    array.write(30, {30: 30})

    def crossing(operation: str, path: str) -> None:
        if operation == "put" and path.endswith(".con"):
            array.delete_fragments(20, 20)
            consolidate(array.uri)
            vacuum(array.uri)
            assert not array.files("__commits", "*.ign")

    report = consolidate(array.uri, store=open_store(array.uri, on_operation=crossing))
    assert [step.path.rpartition(".")[2] for step in report.steps] == ["con", "ign"]
    assert values(array) == {10, 30}


@pytest.mark.usefixtures("short_looks")
def test_a_vacuum_that_crosses_a_consolidation_of_the_same(tmp_path: pathlib.Path) -> None:
    """Loose commits that are gone since another `.con` holds them still count."""
    array = EngineArray(tmp_path / "array").create()
    for at in (10, 20):
        array.write(at, {at: at})

    def crossing(operation: str, path: str) -> None:
        if operation == "put" and path.endswith(".con"):
            consolidate(array.uri)
            vacuum(array.uri)

    report = consolidate(array.uri, store=open_store(array.uri, on_operation=crossing))
    assert [step.path.rpartition(".")[2] for step in report.steps] == ["con"]
    assert not array.files("__commits", "*.wrt")
    assert values(array) == {10, 20}


@pytest.mark.usefixtures("short_looks")
@pytest.mark.parametrize("operation", ["remove", "remove.done"])
def test_another_maintainer_keeps_other_files(tmp_path: pathlib.Path, operation: str) -> None:
    """Another tool keeps one `.con`, ours another: what was in both is brought back, and said."""
    array = EngineArray(tmp_path / "array").create()
    for at in (10, 20):
        array.write(at, {at: at})
    consolidate(array.uri)
    consolidated = array.files("__commits", "*.con")
    array.write(30, {30: 30})
    consolidate(array.uri)
    ledger = read_ledger(open_log(array.uri).history)
    kept = ledger.later_first[0]
    done: list[str] = []

    def rival(step: str, path: str) -> None:
        # The moment that an order of names cannot help against: another tool, another order.
        if step == operation and path.endswith(".con") and not done:
            done.append(path)
            (array.folder / kept).unlink()

    report = vacuum(array.uri, store=open_store(array.uri, on_operation=rival))
    assert done == [f"__commits/{name}" for name in consolidated]
    assert f"another maintainer removed {kept} meanwhile: 3 commits" in report.notes[-1]
    assert [step.op for step in report.steps].count("put") == 3
    assert values(array) == {10, 20, 30}
