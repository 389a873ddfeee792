"""The pipeline where storage fails: what could not be read is never said to be damaged."""

from __future__ import annotations

import shutil
from collections import Counter
from typing import TYPE_CHECKING, Any

import pytest
from support.fleets import FleetMaker, age, make_template
from support.spark_sessions import local_session
from support.stored_tables import stored

from chronotile.cli import program as cli
from chronotile.errors import StorageError
from chronotile.fleet import check_all
from chronotile.fleet import run_pipeline as pipeline
from chronotile.fleet.array_tables import SCHEMAS
from chronotile.fleet.check_all import check_fleet
from chronotile.fleet.options import Options
from chronotile.fleet.read_part import run_task
from chronotile.fleet.run_pipeline import Job, run
from chronotile.fleet.run_summary import UnreadableError, read_limit
from chronotile.storage.store import open_store

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from pyspark.sql import SparkSession
    from support.servers import Fault, FaultProxy, Plan, S3Server


@pytest.fixture(scope="module")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    with local_session(tmp_path_factory.mktemp("warehouse")) as session:
        yield session


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """Six arrays in two groups, with 20 commits each."""
    maker = FleetMaker(make_template(tmp_path / "template"))
    for number in range(6):
        folder = tmp_path / "root" / f"group-{number % 2}" / f"array-{number}"
        maker.array(folder, 20, seed=number, deletes=2, loose=number)
    age(tmp_path / "root")
    return tmp_path / "root"


def block(array: Path) -> None:
    """Storage that refuses: a link in place of a folder is never followed."""
    (array / "__commits").rename(array / "away")
    (array / "__commits").symlink_to(array / "away")


def unblock(array: Path) -> None:
    (array / "__commits").unlink()
    (array / "away").rename(array / "__commits")


def job(root: Path | str, out: Path | str, limit: str = "0.001", **more: Any) -> Job:
    options = Options(roots=(str(root),))
    return Job(options=options, out=str(out), max_unreadable=read_limit(limit), **more)


def rows(out: Path, table: str, **where: Any) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = stored(out / table).to_pylist()
    return [row for row in found if all(row[name] == value for name, value in where.items())]


def tables(out: Path) -> dict[str, list[str]]:
    return {
        name: sorted(map(repr, stored(out / name).select(SCHEMAS[name].names).to_pylist()))
        for name in SCHEMAS
    }


def upload(s3: S3Server, root: Path, bucket: str) -> None:
    store = open_store(bucket, s3.options)
    for path in (one for one in sorted(root.rglob("*")) if one.is_file()):
        store.put_if_absent(str(path.relative_to(root)), path.read_bytes())


def refusing(fault: Fault) -> Plan:
    """Lists work; no object can be read."""
    return lambda _, method, path: fault if method == "GET" and "list-type" not in path else "pass"


def test_an_outage_publishes_nothing(
    spark: SparkSession,
    root: Path,
    tmp_path: Path,
    s3: S3Server,
    bucket: str,
    proxy: FaultProxy,
    capfd: pytest.CaptureFixture[str],
) -> None:
    shutil.rmtree(root / "group-1")
    upload(s3, root, bucket)
    out = tmp_path / "out"
    options = Options(roots=(bucket,), storage=tuple(sorted(proxy.options.items())))
    first = run(spark, Job(options=options, out=str(out)))
    assert (first.totals.commits, first.unreadable) == (60, 0)
    before = tables(out)
    faults: tuple[Fault, ...] = ("503", "429")
    for fault in faults:
        proxy.plan = refusing(fault)
        with pytest.raises(UnreadableError, match=r"at most 0 of 3 arrays unreadable.* found 3: "):
            run(spark, Job(options=options, out=str(out)))
        assert tables(out) == before
    call = ["pipeline", bucket, "--out", str(out)]
    storage = [word for pair in proxy.options.items() for word in ("--storage", "=".join(pair))]
    capfd.readouterr()
    assert cli.main([*call, *storage]) == 3
    said = capfd.readouterr()
    assert said.out == ""
    *_, error = said.err.splitlines()
    assert error.startswith("chronotile: ")
    assert "found 3: " in error
    assert "the last good tables stay" in said.err
    assert "repair" not in said.err
    assert proxy.options["secret_access_key"] not in said.err


def test_the_rows_of_an_unreadable_array_are_carried_on(
    spark: SparkSession, root: Path, tmp_path: Path
) -> None:
    out, array = tmp_path / "out", root / "group-0" / "array-2"
    first = run(spark, job(root, out))
    name = first.run
    before = tables(out)
    block(array)
    for since_last in (False, True, False):
        told = run(spark, job(root, out, "1", since_last=since_last))
        assert (told.unreadable, told.totals.arrays, told.totals.commits) == (1, 6, 120)
        for table in set(SCHEMAS) - {"arrays", "findings"}:
            assert tables(out)[table] == before[table]
        assert [row["array"] for row in rows(out, "arrays", stale=name)] == [str(array)]
        assert len(rows(out, "arrays", stale=None)) == 5
        (found,) = rows(out, "findings", array=str(array), code="unreadable")
        assert found["message"].endswith(f"; its rows are of run {name}")
        assert "repair" not in found["hint"]
        (row,) = rows(out, "arrays", array=str(array))
        assert row["errors"] == len(rows(out, "findings", array=str(array), severity="error"))
    with pytest.raises(UnreadableError):
        run(spark, job(root, out))
    unblock(array)
    healed = run(spark, job(root, out, since_last=True))
    assert (healed.read, healed.unchanged, healed.unreadable) == (1, 5, 0)
    assert tables(out) == before


def test_a_new_array_that_cannot_be_read_is_told(
    spark: SparkSession, root: Path, tmp_path: Path
) -> None:
    array = root / "group-1" / "array-1"
    block(array)
    told = run(spark, job(root, tmp_path / "out", "20%"))
    assert (told.unreadable, told.read, told.totals.arrays) == (1, 5, 6)
    (row,) = rows(tmp_path / "out", "arrays", array=str(array))
    assert (row["commits"], row["errors"], row["stale"]) == (None, 1, None)
    (found,) = rows(tmp_path / "out", "findings", array=str(array))
    assert found["message"].endswith("; no run has its rows")
    assert rows(tmp_path / "out", "commits", array=str(array)) == []


def test_a_folder_that_cannot_be_listed_hides_no_array(
    spark: SparkSession, root: Path, tmp_path: Path, s3: S3Server, bucket: str, proxy: FaultProxy
) -> None:
    upload(s3, root, bucket)
    out = tmp_path / "out"
    options = Options(roots=(bucket,), storage=tuple(sorted(proxy.options.items())))
    first = run(spark, Job(options=options, out=str(out)))
    before = tables(out)
    proxy.plan = lambda _, __, path: "503" if path.endswith("prefix=group-1%2F") else "pass"
    with pytest.raises(UnreadableError, match=r"found 3: .*group-1 cannot be listed"):
        run(spark, Job(options=options, out=str(out)))
    told = run(spark, Job(options=options, out=str(out), max_unreadable=read_limit("1/2")))
    assert (told.read, told.unreadable, told.totals.arrays) == (3, 3, 6)
    assert tables(out)["commits"] == before["commits"]
    stale = rows(out, "arrays", stale=first.run)
    assert {row["array"] for row in stale} == {f"{bucket}/group-1/array-{n}" for n in (1, 3, 5)}


def test_an_array_that_goes_meanwhile_is_said_to_be_gone(
    spark: SparkSession, root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    array = root / "group-0" / "array-4"

    def remove_and_run(task: Any) -> Any:
        shutil.rmtree(array, ignore_errors=True)
        return run_task(task)

    monkeypatch.setattr(pipeline, "run_task", remove_and_run)
    told = run(spark, job(root, tmp_path / "out"))
    assert (told.unreadable, told.totals.arrays) == (0, 5)
    (found,) = rows(tmp_path / "out", "findings", array=str(array))
    assert (found["code"], found["severity"]) == ("unreadable", "warning")
    assert found["message"].startswith("it is gone")


def test_faults_that_pass_change_nothing(
    spark: SparkSession, root: Path, tmp_path: Path, s3: S3Server, bucket: str, proxy: FaultProxy
) -> None:
    upload(s3, root, bucket)
    out = tmp_path / "out"
    options = Options(roots=(bucket,), storage=tuple(sorted(proxy.options.items())))
    run(spark, Job(options=options, out=str(out)))
    before = tables(out)
    faults: tuple[Fault, ...] = (
        "500",
        "503",
        "429",
        "cut",
        "delay",
        "drop",
        "reset",
        "lose-answer",
    )
    asked: Counter[tuple[str, str]] = Counter()

    def twice(number: int, method: str, path: str) -> Fault:
        """Every request meets two faults in a row."""
        asked[method, path] += 1
        return faults[number % len(faults)] if asked[method, path] <= 2 else "pass"

    proxy.plan = twice
    proxy.seen.clear()
    told = run(spark, Job(options=options, out=str(out)))
    assert told.unreadable == 0
    assert {fault for _, _, fault in proxy.seen} == {"pass", *faults}
    assert tables(out) == before


def test_a_list_that_misses_the_newest_name_is_made_good_next_time(
    spark: SparkSession, root: Path, tmp_path: Path, s3: S3Server, bucket: str, proxy: FaultProxy
) -> None:
    upload(s3, root, bucket)
    out = tmp_path / "out"
    options = Options(roots=(bucket,), storage=tuple(sorted(proxy.options.items())))
    # `array-5` has five loose commits: the list of its folder lacks the one that came last.
    stale = "prefix=group-1%2Farray-5%2F__commits%2F"
    proxy.plan = lambda _, __, path: "stale-list" if path.endswith(stale) else "pass"
    told = run(spark, Job(options=options, out=str(out)))
    assert (told.unreadable, told.totals.commits) == (0, 119)
    assert rows(out, "findings", severity="error") == []
    proxy.plan = lambda *_: "pass"
    told = run(spark, Job(options=options, out=str(out), since_last=True))
    assert (told.read, told.unchanged, told.totals.commits) == (1, 5, 120)


def test_check_says_what_could_not_be_read(
    root: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    array = root / "group-0" / "array-0"
    block(array)
    assert cli.main(["check", str(root)]) == 3
    said = capsys.readouterr().out
    assert "error: unreadable" in said
    assert "chronotile repair" not in said.partition("unreadable")[2].partition("\n")[0]
    found = [item for item in check_fleet(str(root)).findings if item.array == str(array)]
    assert [item.code for item in found] == ["unreadable"]
    unblock(array)

    def no_memory(*_: object, **__: object) -> Any:
        raise MemoryError

    monkeypatch.setattr(check_all, "read_history", no_memory)
    found = list(check_fleet(str(array)).findings)
    assert [(item.code, item.message) for item in found] == [
        ("unreadable", "it cannot be read: MemoryError")
    ]


def test_a_limit_is_checked_up_front(capsys: pytest.CaptureFixture[str]) -> None:
    for wrong in ("-1", "2.5", "many", "101%", "1/0"):
        assert cli.main(["pipeline", "a", "--out", "b", "--max-unreadable", wrong]) == 2
        assert "expected a number of arrays or a share" in capsys.readouterr().err
    with pytest.raises(StorageError):
        raise UnreadableError("out", "expected")
