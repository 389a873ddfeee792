"""Compact: what it says first, what it leaves alone, and what happens if the engine fails.

The engine is the judge of every window, also over random histories (`bench.compact_oracle`). Kills
and races are in `tests/faults/test_compact_crash.py`.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import struct
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import pytest
import tiledb
from support.array_places import read_all
from support.engine_arrays import EngineArray, s3_settings
from support.spec_files import ROOT

import chronotile as ct
from chronotile.array import Array
from chronotile.change.compact_batches import LARGE, OVERLAPS, SAME_MS
from chronotile.check.findings import RefusedError
from chronotile.cli import main
from chronotile.storage.store import open_store

if TYPE_CHECKING:
    from pathlib import Path

    from support.engine_arrays import Answer, Window
    from support.servers import S3Server

    from chronotile.change.plan import Report

NOW = (0, 1 << 60)


def made(folder: Path, *, count: int = 6, **more: Any) -> EngineArray:
    array = EngineArray(folder).create(**more)
    for at in range(10, 10 * count + 1, 10):
        array.write(at, {1: at, 2: at + 1, at // 10 + 2: at})
    return array


def every_window(array: EngineArray, count: int = 6) -> dict[Window, Answer]:
    times = range(5, 10 * count + 10, 5)
    return array.answers([(0, at) for at in times] + [(at, 1 << 60) for at in times])


def compact(array: EngineArray, **options: Any) -> Report:
    return Array(open_store(array.uri)).compact(**{"quiet": 0} | options)


def visible(array: EngineArray) -> list[str]:
    return [one.name for one in ct.open_log(array.uri).view().fragments]


def left(report: Report) -> dict[str, int]:
    return {one["why"]: len(one["fragments"]) for one in report.to_dict()["left"]}


def test_random_histories_and_the_corpus() -> None:
    """In a process of its own: a crash of the engine is a failure."""
    done = subprocess.run(
        [sys.executable, "-m", "bench.compact_oracle", "--histories", "25", "--corpus", "16"],
        env=os.environ | {"PYTHONPATH": os.pathsep.join([str(ROOT / "tests"), *sys.path])},
        capture_output=True,
        text=True,
        check=False,
        timeout=500,
    )
    assert done.returncode == 0, (done.stdout + done.stderr)[-4000:]
    figures = json.loads(done.stdout)
    kinds = ("sparse", "dense", "duplicates", "encrypted", "an attribute dropped", "of the corpus")
    for what in (*kinds, "merged fragments", "undone", "purged", "gone on"):
        assert figures[what] > 0, what
    assert figures["windows"] > 500


def test_a_dry_run_says_it_all_and_changes_nothing(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    array = made(tmp_path / "array")
    array.write(70, {90: 1})
    array.write(70, {91: 1})
    files = read_all(array.folder)
    assert main(["compact", array.uri, "--quiet", "0s", "--dry-run", "--json"]) == 0
    plan = json.loads(capsys.readouterr().out)
    (batch,) = plan["batches"]
    sources = visible(array)[:6]
    sizes = {name: len(data) for name, data in files.items() if any(s in name for s in sources)}
    folders = {n: s for n, s in sizes.items() if n.startswith("__fragments")}
    assert [one["name"] for one in batch["fragments"]] == sources
    assert (batch["cells"], batch["t1"], batch["t2"]) == (18, 10, 60)
    assert batch["bytes"] == sum(folders.values())
    assert [one["domain"] for one in batch["fragments"]] == [[[1, at + 2]] for at in range(1, 7)]
    assert [(one["t1"], one["cells"]) for one in batch["fragments"]] == [
        (at, 3) for at in range(10, 70, 10)
    ]
    assert batch["domain"] == [[1, 8]]
    assert batch["why"] == "next to each other in time"
    assert [(one["why"], len(one["fragments"])) for one in plan["left"]] == [(SAME_MS, 2)]
    assert plan["fragments"] == {"before": 8, "after": 3}
    assert plan["cost"]["bytes_read"] == batch["bytes"] < plan["cost"]["scratch_bytes"]
    assert plan["cost"]["memory_bytes"] > 10**8
    assert plan["engine_open_requests"]["after"] < plan["engine_open_requests"]["before"]
    assert main(["compact", array.uri, "--quiet", "0s", "--dry-run"]) == 0
    text = capsys.readouterr().out
    for words in ("8 visible fragments become 3", "[[1, 8]]", "18 cells", "10 to 60", SAME_MS):
        assert words in text, words
    assert read_all(array.folder) == files


def test_sources_stay_until_a_vacuum(tmp_path: Path) -> None:
    array = made(tmp_path / "array")
    before, files = every_window(array), read_all(array.folder)
    report = compact(array)
    twice = sum(len(data) for name, data in files.items() if name.startswith("__fragments"))
    note = report.notes[-1]
    assert note.startswith(f"{twice / 1000:.1f} kB are held twice")
    assert len(visible(array)) == 1
    assert report.engine_open_requests is not None
    planned = ct.vacuum(array.uri, mode="fragments", dry_run=True).engine_open_requests
    assert planned is not None
    assert report.engine_open_requests[1] == planned[0], "two ways of counting"
    ct.undo(array.uri, report)
    assert every_window(array) == before
    assert len(visible(array)) == 6
    report = compact(array)
    command = re.search(r"to give up undo: chronotile (vacuum .*)", report.notes[-1])
    assert command is not None
    assert main(command[1].split()) == 0
    assert array.files("__fragments") == visible(array)
    assert every_window(array) == before
    with pytest.raises(RefusedError, match="vacuum"):
        ct.undo(array.uri, report)


def test_a_vacuum_at_once(tmp_path: Path) -> None:
    array = made(tmp_path / "array")
    before = every_window(array)
    plan = compact(array, vacuum=True, dry_run=True)
    assert "no way back" in plan.notes[-1]
    compact(array, vacuum=True, compare=False)
    assert len(array.files("__fragments")) == 1
    assert every_window(array) == before
    assert compact(array).steps == ()


def test_a_dense_array_keeps_its_order_its_tags_and_its_size(tmp_path: Path) -> None:
    array = EngineArray(tmp_path / "array").create(sparse=False, upper=999)
    array.write(5, dict.fromkeys(range(100, 110), 1))
    for at in range(10, 70, 10):
        array.write(at, dict.fromkeys(range(at, at + 10), at))
    array.write(70, dict.fromkeys(range(900, 910), 7))
    ct.open(array.uri).tag("half", at=35)
    before = every_window(array)
    plan = compact(array, keep=[55], dry_run=True)
    spans = [(one["t1"], one["t2"]) for one in plan.to_dict()["batches"]]
    assert spans == [(10, 30), (40, 50)]
    assert "after a vacuum no read sees the array whole inside of 10 to 30, 40 to 50" in plan.notes
    compact(array, keep=[55])
    assert every_window(array) == before
    ct.vacuum(array.uri, mode="fragments", keep=[55])
    for at in (35, 55, 1 << 60):
        assert array.answer(0, at) == before.get((0, at), before[5, 1 << 60])
    array.write(80, dict.fromkeys(range(12, 22), 8))
    array.consolidate("fragments")
    assert array.answer()[12:22] == ((8,),) * 10


def test_a_dense_batch_lies_on_nothing_that_is_older(tmp_path: Path) -> None:
    array = EngineArray(tmp_path / "array").create(sparse=False, upper=99)
    for at in (10, 10, 20, 30):
        array.write(at, dict.fromkeys(range(10, 20), at))
    assert left(compact(array, dry_run=True)) == {SAME_MS: 2, OVERLAPS: 2}


def test_a_fragment_of_a_wrong_number_of_tiles_is_left_alone(tmp_path: Path) -> None:
    """F19."""
    array = EngineArray(tmp_path / "array").create(sparse=False)
    for at in (10, 20):
        array.write(at, dict.fromkeys(range(20), at))
    for file in (array.folder / "__fragments").glob("__20_20_*/__fragment_metadata.tdb"):
        before, _, after = file.read_bytes().rpartition(struct.pack("<qq", 0, 19))
        file.write_bytes(before + struct.pack("<qq", 0, 9) + after)
    report = compact(array)
    assert any("left alone" in note and "2 tiles, its domain 1" in note for note in report.notes)
    assert len(visible(array)) == 2


def test_what_is_young_or_large_is_left_alone(tmp_path: Path) -> None:
    array = made(tmp_path / "array", count=4)
    for path in array.folder.rglob("*"):
        os.utime(path, (10**9, 10**9))
    array.write(50, {1: 1})
    array.write(60, {1: 2})
    report = compact(array, quiet="10m", dry_run=True)
    assert left(report) == {"its files are younger than 10m": 2}
    (note,) = (note for note in report.notes if "younger" in note)
    assert note.startswith("2 fragments left alone, such as __50_50_")
    assert note.endswith(f"to merge them now: chronotile compact {array.uri} --quiet 0s")
    assert [len(one["fragments"]) for one in report.to_dict()["batches"]] == [4]
    assert left(compact(array, target_bytes="5kB", dry_run=True)) == {LARGE: 6}
    sizes = [
        one["bytes"]
        for one in compact(array, target_bytes="10kB", dry_run=True).to_dict()["batches"]
    ]
    assert len(sizes) > 1
    assert max(sizes) <= 10_000


def test_a_purge_says_first_what_is_lost(tmp_path: Path) -> None:
    array = made(tmp_path / "array")
    array.delete(65, "a == 61")
    later = [window for window in every_window(array) if window[1] >= 65]
    before = array.answers(later)
    earlier = array.answer(0, 60)
    told: list[Report] = []
    report = compact(array, purge=True, before=told.append)
    assert told[0].losses == report.losses
    assert "windows that end from 10 to before 65" in report.losses[0]
    assert "a == 61" in report.losses[0]
    assert any("the purge took" in note for note in report.notes)
    assert array.answers(later) == before
    assert (61, 2) in earlier
    assert (61, 2) not in array.answer(0, 60)
    ct.undo(array.uri)
    assert array.answer(0, 60) == earlier


def test_a_delete_of_the_future_is_not_purged(tmp_path: Path) -> None:
    array = made(tmp_path / "array")
    array.delete(5_000_000_000_000, "a == 61")
    before = every_window(array)
    assert compact(array, purge=True).losses == ()
    assert every_window(array) == before


def test_an_update_is_not_purged(tmp_path: Path) -> None:
    array = made(tmp_path / "array")
    array.commit(65, "a == 61", a=7)
    with pytest.raises(
        RefusedError, match=r"a purge would lose the rows of .* first: chronotile apply"
    ):
        compact(array, purge=True)
    before = every_window(array)
    compact(array)
    assert every_window(array) == before


def test_an_applied_update_does_not_stop_a_purge(tmp_path: Path) -> None:
    """Its stand-in stays, as a merged fragment refers to it, and matches no row."""
    array = made(tmp_path / "array")
    array.commit(65, "a == 61", a=7)
    array.consolidate("fragments")
    ct.open(array.uri).apply()
    assert list(array.commits_folder.glob("*.upd"))
    before = array.answer()
    assert compact(array, purge=True).losses == ()
    assert array.answer() == before


def test_a_group(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    root = tmp_path / "group"
    tiledb.Group.create(str(root))
    arrays = [made(root / name) for name in ("one", "two")]
    with tiledb.Group(str(root), "w") as group:
        for name in ("one", "two"):
            group.add(name, relative=True)
    before = [every_window(array) for array in arrays]
    assert main(["compact", str(root), "--quiet", "0s"]) == 0
    assert "B are held twice" in capsys.readouterr().out
    assert [len(visible(array)) for array in arrays] == [1, 1]
    assert [every_window(array) for array in arrays] == before
    assert main(["undo", str(root)]) == 0
    assert [len(visible(array)) for array in arrays] == [6, 6]
    assert [every_window(array) for array in arrays] == before


FAILS = """
import os, signal
from chronotile.rows.engine import Engine
merge = Engine.consolidate
def consolidate(engine, names):
    if len(names) > {most}:
        {how}
    return merge(engine, names)
Engine.consolidate = consolidate
"""
CRASH = "os.kill(os.getpid(), signal.SIGSEGV)"
MEMORY = "held = bytearray(1 << 30); held[::4096] = bytes(1 << 18); import time; time.sleep(9)"


def fail(monkeypatch: pytest.MonkeyPatch, folder: Path, most: int, how: str) -> None:
    """Let the engine fail if it is to merge more fragments than some."""
    folder.mkdir()
    (folder / "sitecustomize.py").write_text(FAILS.format(most=most, how=how))
    monkeypatch.syspath_prepend(str(folder))


@pytest.mark.parametrize("how", [CRASH, MEMORY], ids=["crash", "memory"])
@pytest.mark.parametrize("sparse", [True, False])
def test_a_batch_that_fails_is_halved(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, how: str, sparse: bool
) -> None:
    array = EngineArray(tmp_path / "array").create(sparse=sparse)
    for at in range(10, 90, 10):
        array.write(at, {1: at, 2: at})
    before = every_window(array, 8)
    fail(monkeypatch, tmp_path / "site", 4, how)
    report = compact(array, max_memory="600MB")
    assert every_window(array, 8) == before
    # Of a dense array the second half lies on the first.
    assert len(visible(array)) == (2 if sparse else 5)
    assert len(report.hidden) == (8 if sparse else 4)
    if not sparse:
        assert any("left alone" in note for note in report.notes)


def test_a_batch_that_never_goes_through_is_left_and_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    array = made(tmp_path / "array")
    fail(monkeypatch, tmp_path / "site", 1, CRASH)
    report = compact(array)
    assert len(visible(array)) == 6
    assert any("are left alone: TileDB's process ended" in note for note in report.notes)
    assert list((array.folder / "__chronotile" / "scratch").iterdir()) == []


def test_a_full_disk_is_seen_before(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    array = made(tmp_path / "array")
    usage = shutil.disk_usage(tmp_path)._replace(free=1000)
    monkeypatch.setattr(shutil, "disk_usage", lambda _: usage)
    report = compact(array)
    assert len(visible(array)) == 6
    assert any(
        "bytes of room, found 1,000; to take another disk, add --scratch DIR" in note
        for note in report.notes
    )


def test_another_folder_to_merge_in(tmp_path: Path) -> None:
    array = made(tmp_path / "array")
    before, scratch = every_window(array), tmp_path / "scratch"
    compact(array, scratch=str(scratch))
    assert not (array.folder / "__chronotile" / "scratch").exists()
    assert list(scratch.iterdir()) == []
    assert every_window(array) == before


@pytest.mark.parametrize("duplicates", [True, False])
def test_a_source_that_goes_meanwhile(tmp_path: Path, duplicates: bool) -> None:
    array = made(tmp_path / "array", duplicates=duplicates)

    def remove(operation: str, path: str) -> None:
        if operation in ("copy", "put") and path.startswith("__fragments"):
            array.delete_fragments(0, 15)

    report = Array(open_store(array.uri, on_operation=remove)).compact(quiet=0)
    assert len(visible(array)) == 5
    assert any("left alone: __10_10_" in note for note in report.notes)
    assert report.hidden == ()


def test_in_a_bucket(s3: S3Server, bucket: str) -> None:
    array = EngineArray(f"{bucket}/array", settings=s3_settings(s3)).create(duplicates=True)
    for at in (10, 20, 30):
        array.write(at, {1: at, 2: at})
    before = array.answers([NOW, (0, 20), (15, 40)])
    place = ct.open(array.uri, storage_options=s3.options)
    report = Array(open_store(array.uri, s3.options)).compact(quiet=0)
    assert array.answers([NOW, (0, 20), (15, 40)]) == before
    assert len(report.hidden) == 3
    place.undo()
    assert array.answers([NOW, (0, 20), (15, 40)]) == before
    place.compact(quiet=0, vacuum=True)
    assert array.answers([NOW, (0, 20), (15, 40)]) == before


def test_too_little_memory_is_refused(tmp_path: Path) -> None:
    array = made(tmp_path / "array", count=2)
    with pytest.raises(ct.ChronotileError, match="give at least 300"):
        compact(array, max_memory="100MB")
    with pytest.raises(ct.ChronotileError, match="give one such as 512MB or 1GB"):
        compact(array, target_bytes="much")


def test_progress(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    array = made(tmp_path / "array")
    assert main(["compact", array.uri, "--quiet", "0s", "--target-bytes", "10kB"]) == 0
    said = capsys.readouterr().err
    assert re.search(r"batch 1 of 2, 9 of 18 cells, about \d+ s left", said)
