"""The pipeline's tables in Delta and Iceberg, read back by the formats' own libraries."""

from __future__ import annotations

import json
import shutil
import sys
from typing import TYPE_CHECKING, Any

import deltalake
import pyarrow.parquet as pq
import pytest
from pyiceberg.catalog import load_catalog
from support.fleets import FIRST_MS, FleetMaker, age, make_template
from support.spark_sessions import add_catalog, local_session

from chronotile.cli import program as cli
from chronotile.errors import ChronotileError, StorageError
from chronotile.spark.pipeline.run_columns import DRESSED
from chronotile.spark.pipeline.run_pipeline import Job, run
from chronotile.spark.pipeline.runs import OvertakenError, complete_runs, last_run
from chronotile.spark.source.options import Options
from chronotile.spark.table_formats import open_tables, session_tables
from chronotile.spark.table_formats.open_tables import Target, commit_tables
from chronotile.storage.store import Store, open_store
from chronotile.tables.array_tables import SCHEMAS

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    import pyarrow as pa
    from pyspark.sql import SparkSession
    from support.servers import S3Server

    from chronotile.spark.pipeline.run_summary import Summary
    from chronotile.spark.table_formats.open_tables import RunTable

DELTA = Target(format="delta")


@pytest.fixture(scope="module")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    with local_session(tmp_path_factory.mktemp("warehouse")) as session:
        yield session


@pytest.fixture
def maker(tmp_path: Path) -> FleetMaker:
    made = FleetMaker(make_template(tmp_path / "template"))
    for number in range(8):
        made.array(tmp_path / "root" / f"array-{number}", 6, seed=number, deletes=number % 3)
    age(tmp_path / "root")
    return made


def rows(table: pa.Table) -> list[str]:
    return sorted(repr(sorted(row.items())) for row in table.to_pylist())


def parquet(out: Path, table: str) -> list[str]:
    return rows(pq.read_table(out / table))


def delta(out: Path, table: str, version: int | None = None) -> pa.Table:
    return deltalake.DeltaTable(str(out / "delta" / table), version=version).to_pyarrow_table()


def iceberg(uri: str, table: str, **options: str) -> Any:
    return load_catalog("chronotile", type="sql", uri=uri, **options).load_table(
        f"chronotile.{table}"
    )


def changes(told: Summary) -> dict[str, tuple[int, int]]:
    return {one.table: (one.added, one.removed) for one in told.committed}


def test_each_format_has_the_rows_of_the_run_and_an_array_changes_one_bucket(
    spark: SparkSession, tmp_path: Path, maker: FleetMaker
) -> None:
    root, out = tmp_path / "root", tmp_path / "out"
    uri = f"sqlite:///{tmp_path}/catalog.db"
    targets = (DELTA, Target(format="iceberg", catalog=uri))

    def job(target: Target) -> Summary:
        options = Options(roots=(str(root),))
        return run(spark, Job(options=options, out=str(out), since_last=True, target=target))

    first = [job(target) for target in targets]
    assert first[1].unchanged == 8, "the tables of Iceberg are made from files that were there"
    names = [one.table for one in first[0].committed]
    assert {*names} == {*DRESSED, "run_history"}
    for table in DRESSED:
        assert rows(delta(out, table)) == parquet(out, table)
        assert rows(iceberg(uri, table).scan().to_arrow()) == parquet(out, table)
    # Nothing has changed: only the history of runs gets a version.
    assert {table for table, pair in changes(job(DELTA)).items() if any(pair)} == {"run_history"}
    maker.commit(root / "array-3", FIRST_MS + 10**9, uuid="a" * 32)
    odd = root / "array-3" / "__commits" / "__1_1_odd_22.wrt"
    odd.touch()
    age(root)
    told = job(DELTA)
    assert told.read == 1
    assert changes(told)["commits"] == (1, 1)
    files = deltalake.DeltaTable(str(out / "delta" / "commits")).file_uris()
    before = deltalake.DeltaTable(str(out / "delta" / "commits"), version=0).file_uris()
    assert len({*files} & {*before}) == len(files) - 1 > 1
    for table in DRESSED:
        assert rows(delta(out, table)) == parquet(out, table)
    assert len(delta(out, "commits")) == len(delta(out, "commits", version=0)) + 1
    version = deltalake.DeltaTable(str(out / "delta" / "commits")).history()[0]
    assert version["chronotile.run"] == told.run.rpartition("/")[2]
    assert version["version"] == 1
    # Iceberg was left behind by a run, and takes what it lacks in one snapshot.
    odd.unlink()
    again = job(targets[1])
    assert changes(again)["commits"] == (1, 1)
    table = iceberg(uri, "commits")
    assert [str(one.snapshot_id) for one in table.snapshots()][1:] == [
        one.version for one in again.committed if one.table == "commits"
    ]
    assert rows(table.scan().to_arrow()) == parquet(out, "commits")
    assert "commit.retry.num-retries" not in table.properties
    old = table.scan(snapshot_id=table.snapshots()[0].snapshot_id).to_arrow()
    assert len(old) == len(table.scan().to_arrow()) - 1
    history = iceberg(uri, "run_history").scan().to_arrow()
    assert rows(history) == parquet(out, "run_history")
    assert len(history) == 5
    # The table of changes keeps those of every run, also of one that went to the other format.
    job(DELTA)
    for found in (
        delta(out, "findings_changes"),
        iceberg(uri, "findings_changes").scan().to_arrow(),
    ):
        assert sorted(found["change"].to_pylist()) == ["new", "resolved"]
        assert len({*found["run_id"].to_pylist()}) == 2
    assert pq.read_table(out / "findings_changes").num_rows == 0, "the last run has none"


def test_a_kill_between_two_tables_is_mended_by_the_next_run(
    spark: SparkSession, tmp_path: Path, maker: FleetMaker, monkeypatch: pytest.MonkeyPatch
) -> None:
    root, out = tmp_path / "root", tmp_path / "out"
    job = Job(options=Options(roots=(str(root),)), out=str(out), since_last=True, target=DELTA)
    run(spark, job)
    maker.commit(root / "array-5", FIRST_MS + 10**9, uuid="b" * 32)
    age(root)
    every = open_tables.run_tables

    def some(run_: Any) -> Iterator[RunTable]:
        yield from list(every(run_))[:2]
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(open_tables, "run_tables", some)
        with pytest.raises(KeyboardInterrupt):
            run(spark, job)
    assert any(rows(delta(out, table)) != parquet(out, table) for table in DRESSED)
    told = run(spark, job)
    assert told.unchanged == 8
    for table in DRESSED:
        assert rows(delta(out, table)) == parquet(out, table)
    # An older run that comes late changes nothing.
    newest, older = list(complete_runs(last_run(str(out))))[:2]  # type: ignore[arg-type]
    with pytest.raises(OvertakenError):
        commit_tables(spark, DELTA, older)
    assert commit_tables(spark, DELTA, newest)
    for table in DRESSED:
        assert rows(delta(out, table)) == parquet(out, table)


@pytest.mark.usefixtures("maker")
def test_a_run_that_commits_at_the_same_time_wins_or_loses_whole(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another driver commits between a look at a table and its commit: one run, or the other."""
    root, out = tmp_path / "root", tmp_path / "out"
    uri = f"sqlite:///{tmp_path}/catalog.db"
    targets = (DELTA, Target(format="iceberg", catalog=uri))
    runs = []
    for number in (None, 1, 6):
        if number is not None:
            shutil.rmtree(root / f"array-{number}")
        run(spark, Job(options=Options(roots=(str(root),)), out=str(out), keep_runs=9))
        runs.append(last_run(str(out)))
    first, second, third = (one for one in runs if one is not None)
    put = Store.duplicate
    for target in targets:
        commit_tables(spark, target, first)
        other: list[Any] = [third]

        def late(store: Store, names: Any, other: list[Any] = other, target: Any = target) -> None:
            put(store, names)
            if other:
                commit_tables(spark, target, other.pop())

        with monkeypatch.context() as patch:
            patch.setattr(Store, "duplicate", late)
            with pytest.raises(StorageError, match="expected to commit"):
                commit_tables(spark, target, second)
    for table in SCHEMAS:
        assert rows(delta(out, table)) == parquet(out, table)
        assert rows(iceberg(uri, table).scan().to_arrow()) == parquet(out, table)


def test_a_catalog_of_the_session_is_written_by_spark(
    spark: SparkSession, tmp_path: Path, maker: FleetMaker, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Shows the path by `writeTo` on a catalog made for the test: no jars of formats are here."""
    root, out = tmp_path / "root", tmp_path / "out"
    add_catalog(spark, "lake", tmp_path / "lake")
    target = Target(format="iceberg", catalog="lake", namespace="fleet")
    some, every = ("commits", "conditions", "findings_changes"), open_tables.run_tables
    monkeypatch.setattr(
        open_tables, "run_tables", lambda one: (t for t in every(one) if t.name in some)
    )

    def job() -> Summary:
        options = Options(roots=(str(root),))
        return run(spark, Job(options=options, out=str(out), since_last=True, target=target))

    def found(table: str) -> list[str]:
        schema = pq.read_table(out / table).schema
        frame = spark.table(f"lake.fleet.{table}").select(schema.names)
        return rows(frame.toArrow().cast(schema))

    def properties(table: str) -> dict[str, str]:
        told = spark.sql(f"SHOW TBLPROPERTIES lake.fleet.{table}").collect()
        return {row[0]: row[1] for row in told}

    job()
    assert [found(table) for table in some] == [parquet(out, table) for table in some]
    assert {row[0] for row in spark.table("lake.fleet.commits").select("bucket").collect()} > {0}
    maker.commit(root / "array-3", FIRST_MS + 10**9, uuid="a" * 32)
    (root / "array-3" / "__commits" / "__1_1_odd_22.wrt").touch()
    age(root)
    told = job()
    assert changes(told)["commits"] == (1, 1)
    assert properties("commits")["version"] == "2", "one bucket was overwritten, in one commit"
    assert properties("commits")["chronotile.run"] == told.run.rpartition("/")[2]
    assert [found(table) for table in some] == [parquet(out, table) for table in some]
    # Killed in the middle of an overwrite: the next run replaces the table.
    shutil.rmtree(root / "array-1")
    with monkeypatch.context() as patch:
        patch.setattr(session_tables, "_overwrite", _die)
        with pytest.raises(KeyboardInterrupt):
            job()
    assert properties("commits")["chronotile.run"] == "none"
    assert job().unchanged == 7
    assert found("commits") == parquet(out, "commits")
    assert len(found("findings_changes")) == 2, "new, and resolved: of two runs"


def _die(*_: object) -> None:
    raise KeyboardInterrupt


@pytest.mark.usefixtures("maker")
def test_tables_in_a_bucket(spark: SparkSession, tmp_path: Path, s3: S3Server, bucket: str) -> None:
    uri = f"sqlite:///{tmp_path}/catalog.db"
    out = f"{bucket}/tables"
    for target in (DELTA, Target(format="iceberg", catalog=uri, namespace="fleet")):
        options = Options(roots=(str(tmp_path / "root"),))
        job = Job(options=options, out=out, out_storage=s3.options, since_last=True, target=target)
        run(spark, job)
    last = last_run(out, s3.options)
    assert last is not None
    wanted = sorted(row for table in last.tables("commits") for row in rows(table))
    storage = {**s3.options, "allow_http": "true"}
    found = deltalake.DeltaTable(f"{out}/delta/commits", storage_options=storage)
    assert rows(found.to_pyarrow_table()) == wanted
    words = {
        "s3.endpoint": s3.endpoint,
        "s3.access-key-id": s3.options["access_key_id"],
        "s3.secret-access-key": s3.options["secret_access_key"],
        "s3.region": s3.options["region"],
    }
    table = load_catalog("chronotile", type="sql", uri=uri, **words).load_table("fleet.commits")
    assert rows(table.scan().to_arrow()) == wanted
    assert len(open_store(out, s3.options).list_dir("iceberg/fleet/commits/data").files) > 1


def test_what_cannot_be_is_said_in_one_line(
    spark: SparkSession,
    tmp_path: Path,
    capfd: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    call = ["pipeline", "x", "--out", "y"]
    assert cli.main([*call, "--catalog", "z"]) == 2
    capfd.readouterr()

    def refused(*words: str) -> str:
        assert cli.main([*call, *words, "--json"]) in (1, 3)
        told = json.loads(capfd.readouterr().err)["error"]
        return f"{told['where']}: {told['expected']} {told['found']} {told['hint']}"

    assert "spark.sql.catalog.nolake" in refused("--table-format", "delta", "--catalog", "nolake")
    assert "sqlite:///" in refused("--table-format", "iceberg")
    secret = refused("--table-format", "iceberg", "--catalog", "nosuch://me:hush@host/db")
    assert "hush" not in secret
    for name, extra in (("deltalake", "delta"), ("pyiceberg", "iceberg")):
        with monkeypatch.context() as patch:
            patch.setitem(sys.modules, name, None)
            assert f"chronotile[{extra}]" in refused("--table-format", extra)
    with pytest.raises(ChronotileError, match="expected one of parquet, iceberg, delta"):
        run(spark, Job(options=Options(), out="y", target=Target(format="hudi")))
    assert not (tmp_path / "y").exists(), "refused before anything is written"
