"""Where the pipeline keeps its tables: readers see one whole run, whatever happens to drivers."""

from __future__ import annotations

import threading
from itertools import count
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from support.killed_runs import publish, publisher

from chronotile.errors import StorageError
from chronotile.format.timestamps import now_ms
from chronotile.spark.pipeline import runs
from chronotile.spark.pipeline.runs import KEPT, OvertakenError, Run, last_run, new_run
from chronotile.storage.store import open_store

if TYPE_CHECKING:
    from pathlib import Path

    from support.servers import FaultProxy, S3Server


def values(out: Path, table: str = "t") -> list[int]:
    """What a reader sees who knows only the folder of a table."""
    found: list[int] = pq.read_table(out / table)["n"].to_pylist()
    return sorted(found)


def values_of(run: Run | None) -> list[int]:
    """What the manifest of a run says, and the whole folder, which must be the same."""
    assert run is not None
    named = [part for part in run.parts() if part.table == "t"]
    there = [entry.path for entry in run.store().list_prefix(f"{run.folder}/t")]
    assert sorted(part.path for part in named) == there
    return sorted(n for part in named for n in run.read(part)["n"].to_pylist())


def write(run: Run, *numbers: int) -> list[runs.Part]:
    return [run.write("t", pa.table({"n": [number]})) for number in numbers]


def test_a_task_that_comes_back_from_the_dead_is_not_seen(tmp_path: Path) -> None:
    run = new_run(str(tmp_path))
    parts = write(run, 1, 2)
    run.publish(parts, {})
    late = write(run, 99)  # the frozen machine wakes up
    assert values(tmp_path) == values_of(last_run(str(tmp_path))) == [1, 2]
    assert (tmp_path / late[0].path).exists(), "it did write"
    after = new_run(str(tmp_path))
    after.publish(write(after, 3), {})
    assert values(tmp_path) == [3]
    assert not (tmp_path / late[0].path).exists(), "it is swept up"
    assert values_of(run) == [1, 2]


def test_a_run_that_was_overtaken_says_so(tmp_path: Path) -> None:
    early = new_run(str(tmp_path))
    late = [new_run(str(tmp_path)) for _ in range(KEPT + 1)]
    for number, run in enumerate(late):
        run.publish(write(run, number), {})
    parts = write(early, 99)
    with pytest.raises(OvertakenError, match=f"found that {late[-1].name}, which started later"):
        early.publish(parts, {})
    assert values(tmp_path) == [KEPT]
    assert not (tmp_path / early.folder).exists()
    assert (tmp_path / "latest").readlink().name == late[-1].name


def test_a_clock_that_is_ahead_holds_nobody_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = now_ms()
    monkeypatch.setattr(runs, "now_ms", lambda: now + 10 * runs.ABANDONED_MS)
    ahead = new_run(str(tmp_path))
    ahead.publish(write(ahead, 1), {})
    monkeypatch.undo()
    run = new_run(str(tmp_path))
    run.publish(write(run, 2), {})
    assert values(tmp_path) == [2]


def test_a_run_that_could_not_read_all_pushes_no_good_one_out(tmp_path: Path) -> None:
    good = [new_run(str(tmp_path)) for _ in range(3)]
    for number, run in enumerate(good):
        run.publish(write(run, number), {"unreadable": 0})
    poor = [new_run(str(tmp_path)) for _ in range(4)]
    for number, run in enumerate(poor):
        run.publish(write(run, 10 + number), {"unreadable": 1})
    assert values(tmp_path) == [13]
    kept = {path.name for path in (tmp_path / "runs").iterdir()}
    assert kept == {run.name for run in (*good[-KEPT:], *poor[-KEPT:])}
    # The path that a reader held all the while.
    assert values_of(good[-1]) == [2]


def test_two_drivers_at_once(tmp_path: Path) -> None:
    wrong: list[Any] = []
    over = threading.Event()

    def look() -> None:
        seen = -1
        while not over.is_set():
            found = last_run(str(tmp_path))
            if found is not None and (tmp_path / "latest").exists():
                name = (tmp_path / "latest").readlink().name
                wrong.extend([name] if int(name.partition("-")[0]) < seen else [])
                seen = int(name.partition("-")[0])

    def drive() -> None:
        for number in range(15):
            try:
                publish(str(tmp_path), number, {}, lambda: None)
            except OvertakenError:
                continue
            except Exception as error:
                wrong.append(error)

    first = new_run(str(tmp_path))
    first.publish(write(first, 0), {})
    drivers = [threading.Thread(target=drive) for _ in range(2)]
    reader = threading.Thread(target=look)
    for thread in (reader, *drivers):
        thread.start()
    for thread in drivers:
        thread.join()
    over.set()
    reader.join()
    assert wrong == []
    newest = last_run(str(tmp_path))
    assert newest is not None
    assert (tmp_path / "latest").readlink().name == newest.name
    assert values(tmp_path) == values_of(newest)
    assert len(list((tmp_path / "runs").iterdir())) == KEPT
    assert list((tmp_path / "staging").iterdir()) == []


def test_a_driver_that_is_killed_while_it_publishes(tmp_path: Path) -> None:
    with publisher() as driver:
        for die_at in count(1):
            out = tmp_path / str(die_at)
            driver.publish(str(out), 0)
            killed, _ = driver.publish(str(out), 1, die_at=die_at)
            assert (values(out), values(out, "u")) in (([0], [0]), ([1], [1]))
            assert values_of(last_run(str(out))) in ([0], [1])
            if not killed:
                break
            # The next one works, and what it says is what is seen.
            assert driver.publish(str(out), 2)[0] is False
            assert values(out) == values(out, "u") == values_of(last_run(str(out))) == [2]
        assert die_at > 20


def test_a_driver_that_is_killed_while_it_publishes_in_a_bucket(s3: S3Server, bucket: str) -> None:
    options = s3.options
    with publisher() as driver:
        # After one operation is before the next: every second of these is a state of its own.
        for die_at in count(1, 2):
            out = f"{bucket}/{die_at}"
            driver.publish(out, 0, options)
            killed, _ = driver.publish(out, 1, options, die_at=die_at)
            assert values_of(last_run(out, options)) in ([0], [1])
            if not killed:
                break
            assert driver.publish(out, 2, options)[0] is False
            assert values_of(last_run(out, options)) == [2]
        assert die_at > 10


def test_in_a_bucket_the_storage_copies_by_itself(
    s3: S3Server, bucket: str, proxy: FaultProxy
) -> None:
    out = f"{bucket}/tables"
    run = new_run(out, proxy.options)
    parts = write(run, *range(40))
    proxy.seen.clear()
    run.publish(parts, {})
    assert values_of(last_run(out, s3.options)) == list(range(40))
    parquet = [method for method, path, _ in proxy.seen if path.partition("?")[0].endswith("quet")]
    assert parquet == ["PUT"] * 40
    assert [e.path for e in open_store(out, s3.options).list_prefix("staging")] == []


def test_a_file_that_is_not_what_was_written_is_not_published(tmp_path: Path) -> None:
    first = new_run(str(tmp_path))
    first.publish(write(first, 1), {})
    run = new_run(str(tmp_path))
    (part,) = write(run, 2)
    (tmp_path / part.path).write_bytes(b"short")
    with pytest.raises(StorageError, match=f"expected {part.size} bytes, as were written, found 5"):
        run.publish([part], {})
    assert values(tmp_path) == [1]


@pytest.mark.parametrize("where", ["_forget", "_point"])
def test_whatever_fails_after_publication_takes_nothing_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, where: str
) -> None:
    first = new_run(str(tmp_path))
    first.publish(write(first, 1), {})
    run = new_run(str(tmp_path))
    parts = write(run, 2)
    wrong = StorageError("out", "503") if where == "_forget" else KeyboardInterrupt()

    def fail(*_: object) -> None:
        raise wrong

    monkeypatch.setattr(runs, where, fail)
    if where == "_forget":
        run.publish(parts, {})
    else:
        with pytest.raises(KeyboardInterrupt):
            run.publish(parts, {})
    run.abandon()  # as whoever is stopped does
    monkeypatch.undo()
    assert values_of(last_run(str(tmp_path))) == [2]
    assert values(tmp_path) == ([2] if where == "_forget" else [1])


def test_links_of_others_are_left_alone(tmp_path: Path) -> None:
    out = tmp_path / "out"
    out.mkdir()
    (out / "mine").symlink_to(tmp_path)
    run = new_run(str(out))
    run.publish(write(run, 1), {})
    assert (out / "mine").is_symlink()
