"""A round that is broken off at any step: the replica opens, and the next round goes on."""

from __future__ import annotations

import shutil
import signal
import subprocess
import sys
import threading
import time
from typing import TYPE_CHECKING

import pytest
import tiledb
from support.engine_arrays import EngineArray, s3_settings
from support.full_disk import on_full_disk

import chronotile as ct
from chronotile.dataset.replicate_tree import ReplicateOptions, replicate_array
from chronotile.storage.store import open_store

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from support.servers import S3Server

    from chronotile.storage.store import Store

WINDOWS = [(0, 1 << 60), (0, 20), (15, 45), (20, 35), (0, 50)]


class PowerLossError(Exception):
    """The end of a process."""


class Breaks:
    """Ends a run before a change of the target, by its number, or after it."""

    def __init__(self, at: int, *, after: bool) -> None:
        self.at, self.count, self.end = at, 0, ".done" if after else ""

    def __call__(self, operation: str, path: str) -> None:
        del path
        if operation in {what + self.end for what in ("put", "copy", "remove")}:
            self.count += 1
            if self.count == self.at:
                raise PowerLossError


def first_life(array: EngineArray) -> None:
    array.write(10, {1: 1, 2: 2, 3: 3})
    array.write(20, {4: 4})
    array.consolidate("commits")
    array.vacuum("commits")
    array.write(30, {5: 5})


def second_life(array: EngineArray) -> None:
    """What came before is merged and vacuumed, and an `.ign` names it."""
    with tiledb.open(array.uri, "w", timestamp=40, ctx=array.ctx) as opened:
        opened.meta["k"] = 1
    array.write(40, {6: 6})
    array.consolidate("fragments")
    array.vacuum("fragments")
    array.write(50, {7: 7})
    array.consolidate("commits")
    array.write(60, {8: 8})


def shown(array: EngineArray) -> set[int]:
    return set(array.rows(0, 1 << 60))


def run(source: Store, target: Store, *, prune: bool) -> None:
    replicate_array(source, target, None, ReplicateOptions(prune=prune))


@pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
@pytest.mark.parametrize("prune", [False, True], ids=["hide", "prune"])
def test_a_round_is_broken_off_anywhere(prune: bool, after: bool, tmp_path: Path) -> None:
    source = EngineArray(tmp_path / "source").create()
    first_life(source)
    kept = tmp_path / "kept"
    ct.replicate(source.uri, str(kept))
    before = set(source.rows(0, 1 << 60))
    second_life(source)
    expected, at = source.answers(WINDOWS), 0
    while True:
        at += 1
        target = EngineArray(tmp_path / f"target-{at}")
        shutil.copytree(kept, target.uri)
        breaks = Breaks(at, after=after)
        try:
            run(open_store(source.uri), open_store(target.uri).watched(breaks), prune=prune)
        except PowerLossError:
            assert shown(target) >= before, at
            run(open_store(source.uri), open_store(target.uri), prune=prune)
        assert target.answers(WINDOWS) == expected, at
        assert not ct.replicate(source.uri, target.uri, check=True).findings
        shutil.rmtree(target.uri)
        if breaks.count < at:
            break
    assert at > 10


def test_a_first_round_is_broken_off_and_the_source_changes(tmp_path: Path) -> None:
    """What a killed round left, and the source no longer has, is nobody else's."""
    source = EngineArray(tmp_path / "source").create()
    first_life(source)
    source.consolidate("fragments")
    kept = tmp_path / "kept"
    shutil.copytree(source.uri, kept)
    source.vacuum("fragments")
    expected, at = source.answers(WINDOWS), 0
    while True:
        at += 1
        target = EngineArray(tmp_path / f"target-{at}")
        breaks = Breaks(at, after=True)
        try:
            run(open_store(kept), open_store(target.uri).watched(breaks), prune=False)
        except PowerLossError:
            run(open_store(source.uri), open_store(target.uri), prune=False)
            assert target.answers(WINDOWS) == expected, at
        else:
            break
    assert at > 10


def test_a_source_that_is_vacuumed_meanwhile_restarts_the_round(tmp_path: Path) -> None:
    source, target = EngineArray(tmp_path / "source").create(), EngineArray(tmp_path / "target")
    for at in (10, 20, 30):
        source.write(at, {at: at})
    begun: list[str] = []
    first = threading.Lock()  # several threads copy, and one of them lets the engine work

    def vacuum(operation: str, path: str) -> None:
        begun.append(path)
        if operation == "copy" and path.endswith("a0.tdb") and first.acquire(blocking=False):
            source.consolidate("fragments")
            source.vacuum("fragments")

    run(open_store(source.uri), open_store(target.uri).watched(vacuum), prune=False)
    assert len({path for path in begun if path.endswith("a0.tdb")}) > 1
    assert target.answers(WINDOWS) == source.answers(WINDOWS)
    assert not ct.replicate(source.uri, target.uri, check=True).findings


def test_follow_goes_on_until_it_is_stopped(tmp_path: Path) -> None:
    """Also over a source that is damaged for a while."""
    source, target = EngineArray(tmp_path / "source").create(), EngineArray(tmp_path / "target")
    source.write(10, {1: 1})
    words = ["replicate", source.uri, target.uri, "--follow", "--every", "0.1"]
    with subprocess.Popen(
        [sys.executable, "-m", "chronotile", *words], stderr=subprocess.PIPE, text=True
    ) as process:
        assert process.stderr is not None
        wait_for(lambda: tiledb.object_type(target.uri) == "array" and shown(target) == {1})
        away = source.folder.rename(tmp_path / "away")
        assert "the next round is in" in process.stderr.readline()
        away.rename(source.folder)
        source.write(20, {2: 2})
        wait_for(lambda: shown(target) == {1, 2})
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=60)
    assert process.returncode == 130
    assert not ct.replicate(source.uri, target.uri, check=True).findings


def wait_for(is_so: Callable[[], bool]) -> None:
    for _ in range(600):
        if is_so():
            return
        time.sleep(0.1)
    raise TimeoutError


def test_a_bucket_is_no_different(s3: S3Server, bucket: str) -> None:
    settings = s3_settings(s3)
    source = EngineArray(f"{bucket}/source", settings=settings).create()
    first_life(source)
    places = [f"{bucket}/target-{number}" for number in range(1, 40, 6)]
    for uri in places:
        ct.replicate(source.uri, uri, storage_options=s3.options)
    before = shown(source)
    second_life(source)
    expected = source.answers(WINDOWS)
    here = open_store(source.uri, s3.options)
    for number, uri in zip(range(1, 40, 6), places, strict=True):
        target, store = EngineArray(uri, settings=settings), open_store(uri, s3.options)
        try:
            run(here, store.watched(Breaks(number, after=True)), prune=False)
        except PowerLossError:
            assert shown(target) >= before
            run(here, store, prune=False)
        assert target.answers(WINDOWS) == expected


def test_a_target_that_is_full_stays_readable_and_the_next_run_goes_on(tmp_path: Path) -> None:
    source = EngineArray(tmp_path / "source").create(upper=99_999)
    source.write(10, {1: 1, 2: 2})
    target = EngineArray(tmp_path / "target")
    ct.replicate(source.uri, target.uri)
    source.write(20, {3: 3})
    # Values that no filter makes smaller than they are.
    large = {x: x * 40_503 % 2**31 for x in range(10, 60_000)}
    source.write(30, large)
    source.write(40, {4: 4})
    ended = on_full_disk("replicate", source.uri, target.uri)
    assert ended.returncode == 3, ended.stderr
    (message,) = ended.stderr.strip().splitlines()
    assert "File too large" in message
    # Whole commits only: all of the large one or nothing of it.
    assert {1, 2} <= shown(target) <= {1, 2, 3, 4}
    assert not [one for one in ct.open_log(target.uri).check() if one.severity == "error"]
    ct.replicate(source.uri, target.uri)
    assert target.answers(WINDOWS) == source.answers(WINDOWS)
