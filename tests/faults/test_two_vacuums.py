"""Two vacuums at once, of the engine and of chronotile, one of them slow: no commit is lost.

The slow one has planned, and is held at its first removal until the other one is done. On a disk
nothing holds the engine there: instead each runs on a copy of its own, and the array loses what
either of them removed.
"""

from __future__ import annotations

import random
import shutil
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

import pytest
from support.engine_arrays import EngineArray, s3_settings
from support.servers import S3Server

from chronotile import consolidate, vacuum
from chronotile.array import Array
from chronotile.errors import ChangedError
from chronotile.storage.store import open_store

if TYPE_CHECKING:
    import pathlib
    from collections.abc import Callable, Sequence

    from support.servers import Fault, FaultProxy

TIMES = (10, 20, 30)
FULL = tuple((at, at) for at in TIMES)
FIRST, LAST = "0" * 32, "f" * 32
PATIENT = {"vfs.s3.request_timeout_ms": "60000"}


def two_equal_cons(array: EngineArray, uuid: str, options: dict[str, str] | None = None) -> None:
    """Three writes; a `.con` of ours, and one of the engine of the same content and that uuid."""
    array.create()
    for at in TIMES:
        array.write(at, {at: at})
    (ours,) = consolidate(array.uri, storage_options=options).steps
    array.consolidate("commits")
    store = open_store(array.uri, options)
    names = [f"__commits/{name}" for name in store.list_names("__commits").files]
    (other,) = (name for name in names if name.endswith(".con") and name != ours.path)
    store.put_if_absent(f"__commits/__10_30_{uuid}_22.con", store.read(other))
    store.remove([other])


def while_held(proxy: FaultProxy, slow: Callable[[], object], quick: Callable[[], object]) -> None:
    """Begin one, hold its removals, carry out the other, and let the first one go on."""

    def plan(number: int, method: str, path: str) -> Fault:
        del number
        is_removal = method == "DELETE" or (method == "POST" and "delete" in path)
        return "hold" if is_removal else "pass"

    proxy.plan = plan
    with ThreadPoolExecutor(1) as pool:
        held = pool.submit(slow)
        assert proxy.held.wait(60)
        quick()
        assert not held.done()
        proxy.let_go.set()
        held.result(60)


@pytest.mark.parametrize("uuid", [FIRST, LAST])
def test_the_engine_is_held_in_a_bucket(
    s3: S3Server, bucket: str, proxy: FaultProxy, uuid: str
) -> None:
    array = EngineArray(f"{bucket}/array", settings=s3_settings(s3))
    two_equal_cons(array, uuid, s3.options)
    slow = EngineArray(array.uri, settings=s3_settings(S3Server(proxy.endpoint)) | PATIENT)
    while_held(
        proxy,
        lambda: slow.vacuum("commits"),
        lambda: vacuum(array.uri, storage_options=s3.options),
    )
    assert array.answer() == FULL
    assert len(open_store(array.uri, s3.options).list_names("__commits").files) == 1


@pytest.mark.parametrize("uuid", [FIRST, LAST])
def test_ours_is_held_in_a_bucket(s3: S3Server, bucket: str, proxy: FaultProxy, uuid: str) -> None:
    array = EngineArray(f"{bucket}/array", settings=s3_settings(s3))
    two_equal_cons(array, uuid, s3.options)
    while_held(
        proxy,
        lambda: vacuum(array.uri, storage_options=proxy.options),
        lambda: array.vacuum("commits"),
    )
    assert array.answer() == FULL
    assert len(open_store(array.uri, s3.options).list_names("__commits").files) == 1


@pytest.mark.parametrize("uuid", [FIRST, LAST])
@pytest.mark.parametrize("operation", ["remove", "remove.done"])
def test_ours_is_held_on_a_disk(tmp_path: pathlib.Path, uuid: str, operation: str) -> None:
    array = EngineArray(tmp_path / "array")
    two_equal_cons(array, uuid)
    paths: list[str] = []

    def engine_first(step: str, path: str) -> None:
        if step == operation and not paths:
            paths.append(path)
            array.vacuum("commits")

    Array(open_store(array.uri, on_operation=engine_first)).vacuum()
    assert paths
    assert array.answer() == FULL
    assert len(array.files("__commits")) == 1


@pytest.fixture
def merged(tmp_path: pathlib.Path) -> EngineArray:
    """Three fragments, and the one that they were merged into."""
    array = EngineArray(tmp_path / "array").create()
    for at in TIMES:
        array.write(at, {at: at})
    array.consolidate("fragments")
    return array


def test_fragments_that_are_shown_again_meanwhile_stay(merged: EngineArray) -> None:
    """Somebody takes the merge back after the vacuum has planned."""

    def taken_back(_: object) -> None:
        for path in merged.commits_folder.glob("__10_30_*"):
            path.unlink()
        (name,) = merged.files("__fragments", "__10_30_*")
        shutil.rmtree(merged.folder / "__fragments" / name)

    with pytest.raises(ChangedError, match="as it was read, found it gone or changed"):
        vacuum(merged.uri, before=taken_back)
    assert merged.answer() == FULL


def test_fragments_whose_merged_one_is_gone_meanwhile_stay(merged: EngineArray) -> None:
    (name,) = merged.files("__fragments", "__10_30_*")
    folder = merged.folder / "__fragments" / name
    with pytest.raises(ChangedError, match="as it was read, found it gone or changed"):
        vacuum(merged.uri, before=lambda _: shutil.rmtree(folder))
    assert len(merged.files("__fragments")) == 3


def test_fragments_that_another_vacuum_removes_meanwhile(merged: EngineArray) -> None:
    vacuum(merged.uri, before=lambda _: merged.vacuum("fragments"))
    assert len(merged.files("__fragments")) == 1
    assert merged.answer() == FULL


def test_an_ign_that_the_engine_removes_meanwhile(merged: EngineArray) -> None:
    """A consolidation that began before writes the removed commits into its `.con` after that."""
    (whole,) = (name for name in merged.files("__commits", "__10_30_*.wrt"))
    con = merged.commits_folder / f"__10_30_{FIRST}_22.con"
    con.write_text(f"__commits/{whole}\n")
    late = "".join(f"__commits/{name}\n" for name in merged.files("__commits", "*.wrt"))

    done: list[str] = []

    def engine(step: str, path: str) -> None:
        if step == "remove" and path.endswith(".wrt") and not done:
            done.append(path)
            merged.vacuum("commits")
            assert not merged.files("__commits", "*.ign")
            (merged.commits_folder / f"__10_30_{LAST}_22.con").write_text(late)

    Array(open_store(merged.uri, on_operation=engine)).vacuum()
    assert len(merged.files("__fragments")) == 1
    assert merged.answer() == FULL


def in_cons(array: EngineArray, *times: int) -> str:
    """Write a `.con` of the writes of some times; give its name."""
    names = [name for at in times for name in array.files("__fragments", f"__{at}_*")]
    con = f"__{times[0]}_{times[-1]}_{len(array.files('__commits')):032x}_22.con"
    (array.commits_folder / con).write_text("".join(f"__commits/{n}.wrt\n" for n in names))
    return con


@pytest.fixture
def ignored(tmp_path: pathlib.Path) -> tuple[EngineArray, str, str]:
    """A `.con` of three writes, one of two of them, and the third is removed since then."""
    array = EngineArray(tmp_path / "array").create()
    for at in TIMES:
        array.write(at, {at: at})
    more, less = in_cons(array, *TIMES), in_cons(array, 10, 30)
    for path in array.commits_folder.glob("*.wrt"):
        path.unlink()
    array.delete_fragments(20, 20)
    assert array.answer() == (FULL[0], FULL[2])
    return array, more, less


def test_a_plan_from_before_an_ign(ignored: tuple[EngineArray, str, str]) -> None:
    """It keeps the larger `.con`; an engine that plans now keeps the smaller one: both stay."""
    array, more, less = ignored
    vacuum(array.uri)
    assert set(array.files("__commits", "*.con")) == {more, less}
    (array.commits_folder / less).unlink()
    assert array.answer() == (FULL[0], FULL[2])


def test_a_con_that_is_newer_than_the_ign(ignored: tuple[EngineArray, str, str]) -> None:
    """No plan from before the `.ign` knows it."""
    array, more, less = ignored
    (array.commits_folder / less).unlink()
    consolidate(array.uri)
    vacuum(array.uri)
    (con,) = array.files("__commits")
    assert con not in (more, less)
    assert array.answer() == (FULL[0], FULL[2])


def test_an_ign_that_comes_while_we_remove(tmp_path: pathlib.Path) -> None:
    """The engine may keep the smaller `.con` from then on, so neither goes."""
    array = EngineArray(tmp_path / "array").create()
    for at in TIMES:
        array.write(at, {at: at})
    more, less = in_cons(array, *TIMES), in_cons(array, 10, 30)

    report = vacuum(array.uri, before=lambda _: array.delete_fragments(20, 20))
    assert set(array.files("__commits", "*.con")) == {more, less}
    assert not any(step.path.endswith(".con") for step in report.steps)
    array.vacuum("commits")
    assert array.files("__commits") == [less]
    assert array.answer() == (FULL[0], FULL[2])


@pytest.mark.parametrize("seed", range(25))
def test_both_at_once_leave_every_commit(tmp_path: pathlib.Path, seed: int) -> None:
    """Whatever the `.con` and `.ign` files hold: each commit stays in one that neither removes."""
    chance = random.Random(seed)
    array = EngineArray(tmp_path / "array").create()
    for at in (10, 20, 30, 40):
        array.write(at, {at: at})
    writes = array.files("__commits", "*.wrt")
    for file, lines in muddle(chance, writes):
        (array.commits_folder / file).write_text("".join(f"__commits/{n}\n" for n in lines))
    before = array.answer()
    removed: set[str] = set()
    for name, run in (("engine", lambda one: one.vacuum("commits")), ("ours", tidied)):
        twin = EngineArray(tmp_path / name)
        shutil.copytree(array.uri, twin.uri)
        run(twin)
        assert twin.answer() == before
        removed |= set(array.files("__commits")) - set(twin.files("__commits"))
    for path in removed:
        (array.commits_folder / path).unlink()
    assert array.answer() == before


@pytest.mark.parametrize("names", [("__10_30_", "__10_40_"), ("__10_40_", "__10_30_")])
def test_both_at_once_leave_a_meta(tmp_path: pathlib.Path, names: tuple[str, str]) -> None:
    """The engine keeps what ends last, whatever it holds."""
    array = EngineArray(tmp_path / "array").create()
    for at in TIMES:
        array.write(at, {at: at})
    consolidate(array.uri, mode="fragment-meta")
    folder = array.folder / "__fragment_meta"
    (made,) = folder.iterdir()
    for name, uuid in zip(names, (FIRST, LAST), strict=True):
        shutil.copy(made, folder / f"{name}{uuid}_22.meta")
    made.unlink()
    twin = EngineArray(tmp_path / "twin")
    shutil.copytree(array.uri, twin.uri)
    vacuum(twin.uri, mode="fragment-meta")
    array.vacuum("fragment_meta")
    (kept,) = twin.files("__fragment_meta")
    assert array.files("__fragment_meta") == [kept]


def tidied(array: EngineArray) -> None:
    vacuum(array.uri, mode="commits")


def muddle(chance: random.Random, writes: Sequence[str]) -> list[tuple[str, list[str]]]:
    """Names and lines of `.con` files, many of which hold the same, and of `.ign` files."""
    sets = [sorted(chance.sample(writes, chance.randint(2, 4))) for _ in range(2)]
    files = []
    for _ in range(chance.randint(2, 5)):
        times = chance.choice(("10_40", "9_40", "10_9999", "20_30"))
        lines = list(chance.choice((*sets, list(writes))))
        if lines == list(writes) and chance.random() < 0.3:
            # In a part of them, a repetition makes the engine itself lose the others.
            lines.append(lines[0])
        files.append((f"__{times}_{chance.randbytes(16).hex()}_22.con", lines))
    if chance.random() < 0.4:
        name = f"__10_10_{chance.randbytes(16).hex()}_22.ign"
        files.append((name, chance.sample(writes, chance.randint(1, 2))))
    return files
