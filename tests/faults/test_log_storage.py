"""The log and its storage: S3, a network that breaks, arrays that change, how much is asked for."""

from __future__ import annotations

import os
import threading
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from corpus.recipes.codec import encode
from support.corpus_cases import CASES
from support.engine_arrays import EngineArray, s3_settings
from support.reference_cells import Cell, Reference
from support.servers import FAULTS, FaultProxy, S3Server, random_plan

import chronotile as ct
from chronotile.errors import ArrayNotFoundError, ChangedError, StorageError
from chronotile.history.read_history import ATTEMPTS, read_history
from chronotile.log import Log
from chronotile.storage import bucket as bucket_module
from chronotile.storage.store import open_store

if TYPE_CHECKING:
    from collections.abc import Callable

    from chronotile.visibility.view import View

WINDOWS = [(0, 9), (0, 10), (0, 24), (0, 25), (0, 45), (15, 45), (26, 60), (0, 60), (45, 100)]
WRITES = {10: {1: 1, 2: 2, 3: 3}, 20: {3: 30, 4: 40}, 30: {1: 100, 5: 50}, 40: {8: 8}, 50: {7: 7}}
"""What `EngineArray.live` writes, by time."""


@pytest.fixture(scope="module")
def in_bucket(s3: S3Server) -> EngineArray:
    array = EngineArray(
        f"{s3.make_bucket('log-array')}/deep/array", settings=s3_settings(s3)
    ).create()
    array.live()
    return array


def said(log: Log) -> list[object]:
    """All that a log says, but for where the array lies."""
    views = [log.view(*window) for window in WINDOWS]
    told = [{**view.to_dict(), "array": None} for view in views]
    return [*told, *(tuple(view.explain()) for view in views), log.lifelines().to_pylist()]


def rows_of(view: View) -> dict[int, int]:
    """The rows that must be there, from what was written."""
    cells = {
        one.name: [
            Cell(at, (encode("int64", x), encode("int32", a)))
            for at, row in WRITES.items()
            if one.t1 <= at <= one.t2
            for x, a in row.items()
        ]
        for one in view.fragments
    }
    found = {}
    for (only,) in Reference(["x", "a"], 1).choices(view, cells).values():
        if only is not None:
            x, a = (int.from_bytes(raw or b"", "little") for raw in only)
            found[x] = a
    return found


def test_an_array_that_the_engine_wrote_to_s3(in_bucket: EngineArray, s3: S3Server) -> None:
    log = ct.open_log(in_bucket.uri, storage_options=s3.options)
    for window in WINDOWS:
        assert rows_of(log.view(*window)) == in_bucket.rows(*window), window


def test_s3_and_a_disk_say_the_same(in_bucket: EngineArray, s3: S3Server, tmp_path: Path) -> None:
    store = open_store(in_bucket.uri, s3.options)
    for entry in store.list_prefix():
        copy = tmp_path / entry.path
        copy.parent.mkdir(parents=True, exist_ok=True)
        copy.write_bytes(store.read(entry.path))
    bucket = ct.open_log(in_bucket.uri, storage_options=s3.options)
    assert said(bucket) == said(ct.open_log(str(tmp_path)))


def test_no_array_in_the_bucket(bucket: str, s3: S3Server) -> None:
    with pytest.raises(ArrayNotFoundError):
        ct.open_log(f"{bucket}/none", storage_options=s3.options)


@pytest.fixture(autouse=True)
def quick_attempts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bucket_module, "FIRST_WAIT_S", 0.005)
    monkeypatch.setattr(bucket_module, "LONGEST_WAIT_S", 0.02)


def test_a_network_that_breaks(in_bucket: EngineArray, s3: S3Server, proxy: FaultProxy) -> None:
    """The same answer or a clear error, never a wrong one."""
    right = said(ct.open_log(in_bucket.uri, storage_options=s3.options))
    outcomes: Counter[str] = Counter()
    proxy.delay_s = 0.02
    for seed in range(40):
        proxy.plan = random_plan(seed, (0.05, 0.3, 0.8, 1.0)[seed % 4], FAULTS)
        store = open_store(in_bucket.uri, proxy.options)
        try:
            log = Log(read_history(store), store)
        except StorageError as error:
            outcomes["error" if in_bucket.uri in str(error) else "unclear"] += 1
            continue
        assert said(log) == right, seed
        outcomes["answer"] += 1
    assert outcomes["answer"] >= 10, outcomes
    assert outcomes["error"] >= 1, outcomes
    assert outcomes.keys() == {"answer", "error"}
    assert len({fault for _, _, fault in proxy.seen}) == len(FAULTS)


def test_an_outage_costs_few_requests_an_array(in_bucket: EngineArray, proxy: FaultProxy) -> None:
    proxy.plan = lambda *_: "503"
    store = open_store(in_bucket.uri, proxy.options)
    with pytest.raises(StorageError):
        store.exists()
    assert len(proxy.seen) == bucket_module.ATTEMPTS
    proxy.seen.clear()
    with pytest.raises(StorageError):
        read_history(store)
    asked = Counter(path for _, path, _ in proxy.seen)
    assert set(asked.values()) <= set(range(1, bucket_module.ATTEMPTS + 1))


class Meddler:
    """Calls something when the n-th operation of a kind is done."""

    def __init__(self, operation: str, path: str, then: Callable[[], None], times: int = 1) -> None:
        self.operation, self.path, self.then, self.left = operation, path, then, times

    def __call__(self, operation: str, path: str) -> None:
        if self.left and operation == self.operation and path.startswith(self.path):
            self.left -= 1
            self.then()


def after_commits_are_listed(array: EngineArray, then: Callable[[], None], times: int = 1) -> Log:
    hook = Meddler("list.done", "__commits", then, times)
    store = open_store(array.uri, on_operation=hook)
    return Log(read_history(store), store)


@pytest.fixture
def plain(tmp_path: Path) -> EngineArray:
    array = EngineArray(tmp_path / "array").create()
    for at in (10, 20, 30):
        array.write(at, {at // 10: at})
    array.delete(25, "a == 10")
    return array


def changes(array: EngineArray) -> dict[str, Callable[[], None]]:
    def consolidate_and_vacuum(mode: str) -> None:
        array.consolidate(mode)
        array.vacuum(mode)

    return {
        "a vacuum of commits": lambda: consolidate_and_vacuum("commits"),
        "a vacuum of fragments": lambda: consolidate_and_vacuum("fragments"),
        "a write": lambda: array.write(40, {4: 40}),
        "a delete": lambda: array.delete(45, "a == 20"),
        "fragments deleted": lambda: array.delete_fragments(10, 10),
    }


@pytest.mark.parametrize("listed", ["__commits", "__fragments", "__schema"])
@pytest.mark.parametrize("change", list(changes(None)))  # type: ignore[arg-type]  # names only
def test_a_change_between_list_and_read(plain: EngineArray, change: str, listed: str) -> None:
    """What is said is what held before, or what holds after: no mixture of both."""
    before = said(ct.open_log(plain.uri))
    hook = Meddler("list.done", listed, changes(plain)[change])
    store = open_store(plain.uri, on_operation=hook)
    log = Log(read_history(store), store)
    assert hook.left == 0
    assert not log.history.problems
    assert "missing" not in {one.reason for one in log.view(0, 100).explain()}
    after = said(ct.open_log(plain.uri))
    assert committed(said(log)) in (committed(before), committed(after))


@pytest.mark.parametrize(
    ("first", "second", "change"),
    [
        ("__fragments", "__commits", "a write"),
        ("__commits", "__fragments", "a vacuum of fragments"),
        ("__commits", "__fragments", "fragments deleted"),
    ],
)
def test_a_commit_seen_without_its_fragment(
    bucket: str, s3: S3Server, first: str, second: str, change: str
) -> None:
    """Folders of a bucket are listed at once, so in any order; the array changes in between."""
    array = EngineArray(f"{bucket}/array", settings=s3_settings(s3)).create()
    array.write(10, {1: 10})
    array.write(20, {2: 20})
    changed = threading.Event()
    seen: Counter[str] = Counter()

    def hook(operation: str, path: str) -> None:
        if operation == "list" and path == second:
            assert changed.wait(60)
        if operation == "list.done" and path == first:
            seen[path] += 1
            if seen[path] == 1:
                changes(array)[change]()
                changed.set()

    store = open_store(array.uri, s3.options, on_operation=hook)
    log = Log(read_history(store), store)
    assert seen[first] > 1  # it looked again
    assert said(log) == said(ct.open_log(array.uri, storage_options=s3.options))


def committed(told: list[object]) -> list[object]:
    """Without fragments in the making, which are folders that no commit names yet."""
    out: list[object] = []
    for part in told:
        if isinstance(part, tuple):
            out.append([one for one in part if one.reason != "uncommitted"])
        elif isinstance(part, list):
            out.append([row for row in part if row["reason"] != "uncommitted"])
        else:
            out.append(part)
    return out


def test_an_array_that_never_rests(plain: EngineArray) -> None:
    turn = iter(range(100))

    def rename() -> None:
        # The engine itself cannot do it time and again: it refuses after the first round (F1).
        (delete,) = (Path(plain.uri) / "__commits").glob("*.del")
        delete.rename(delete.with_name(f"__25_25_{next(turn):032x}_22.del"))

    with pytest.raises(ChangedError, match="try again") as caught:
        after_commits_are_listed(plain, rename, times=ATTEMPTS)
    assert ".del" in caught.value.where
    log = after_commits_are_listed(plain, rename, times=ATTEMPTS - 1)
    assert said(log) == said(ct.open_log(plain.uri))


def test_an_array_that_is_damaged_is_not_one_that_changes(plain: EngineArray) -> None:
    next((Path(plain.uri) / "__fragments").glob("__10_10_*")).rename(Path(plain.uri) / "gone")
    calls: list[tuple[str, str]] = []
    store = open_store(plain.uri, on_operation=lambda *step: calls.append(step))
    log = Log(read_history(store), store)
    (lost,) = (one for one in log.view(0, 100).explain() if one.reason == "missing")
    assert lost.name.startswith("__10_10_")
    assert Counter(calls)["list", "__commits"] == 2  # it made sure
    assert Counter(calls)["list", "__schema"] == 1


def test_a_folder_that_has_long_been_the_same_is_not_listed_again(plain: EngineArray) -> None:
    next((Path(plain.uri) / "__fragments").glob("__10_10_*")).rename(Path(plain.uri) / "gone")
    folders = [Path(plain.uri) / "__commits", Path(plain.uri) / "__fragments"]
    for folder in folders:
        os.utime(folder, (1e9, 1e9))
    calls: list[tuple[str, str]] = []
    store = open_store(plain.uri, on_operation=lambda *step: calls.append(step))
    assert read_history(store).lost.any()
    assert Counter(calls)["list", "__commits"] == 1

    def restore(*step: str) -> None:
        # Only now does the fragment come, as on a disk that is being copied.
        if step == ("list.done", "__fragments") and (Path(plain.uri) / "gone").exists():
            (plain_name,) = missing
            (Path(plain.uri) / "gone").rename(folders[1] / plain_name)

    missing = [
        one.name for one in ct.open_log(plain.uri).view().explain() if one.reason == "missing"
    ]
    store = open_store(plain.uri, on_operation=restore)
    assert not read_history(store).lost.any()


@pytest.mark.parametrize("case", CASES)
def test_everything_is_listed_once_and_read_once(case: str) -> None:
    array = CASES[case].array
    calls: list[tuple[str, str]] = []
    store = open_store(array, on_operation=lambda *step: calls.append(step))
    fresh = None in (store.change_time("__commits"), store.change_time("__fragments"))
    history = read_history(store)
    counted = Counter(call for call in calls if not call[0].endswith(".done"))
    lists = {path: n for (what, path), n in counted.items() if what == "list"}
    reads = {path: n for (what, path), n in counted.items() if what == "read"}
    # Where a fragment is gone it makes sure that the array did not change meanwhile.
    unsure = history.lost.any() and fresh
    twice = {"__commits": 2, "__fragments": 2} if unsure else {}
    assert {path: n for path, n in lists.items() if n > 1} == twice
    assert set(reads.values()) <= {1}
    assert not [path for path in reads if path.endswith((".wrt", ".ok"))]
    wanted = {
        path.relative_to(array).as_posix()
        for path in array.rglob("*")
        if path.suffix in (".con", ".ign", ".vac", ".del", ".upd")
    }
    assert wanted <= set(reads)
    assert sum(counted.values()) == history.requests
