"""The data source, its streams and the pipeline, on Spark itself: one local session for all."""

from __future__ import annotations

import gc
import json
import os
import re
import shutil
import signal
import sys
from typing import TYPE_CHECKING, Any, cast

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from deltalake import DeltaTable
from pyspark.sql import SparkSession
from pyspark.sql.types import StructType
from support.corpus_cases import CASES
from support.engine_arrays import EngineArray
from support.fleets import FIRST_MS, FleetMaker, age, make_template
from support.groups import member, put_array, put_list
from support.large_arrays import make_large_array
from support.spark_sessions import local_session
from support.stored_tables import as_read, files, stored, version

import chronotile as ct
from chronotile import consolidate, vacuum
from chronotile.change.operations import list_operations
from chronotile.cli import program as cli
from chronotile.errors import StorageError
from chronotile.fleet import array_tables, register, shares
from chronotile.fleet import maintenance as maintenance_job
from chronotile.fleet import plan as fleet_plan
from chronotile.fleet import run_pipeline as pipeline
from chronotile.fleet.array_tables import SCHEMAS, TABLES, ArrayTables, with_twins
from chronotile.fleet.data_source import ChronotileSource
from chronotile.fleet.delta_store import STORED, Output, OvertakenError
from chronotile.fleet.maintenance import STOP, Due, Work
from chronotile.fleet.options import Options
from chronotile.fleet.policy import read_policy, simple_policy
from chronotile.fleet.read_part import run_task
from chronotile.fleet.run_pipeline import Job, run
from chronotile.fleet.run_summary import UnreadableError, read_limit
from chronotile.fleet.shares import part_of
from chronotile.fleet.surviving_tasks import Results, run_job
from chronotile.format.kinds import COMMITS, FRAGMENTS, SCHEMA
from chronotile.format.timestamps import LAST_CALENDAR_MS
from chronotile.history import fragment_facts
from chronotile.history.text_columns import TWIN
from chronotile.show.output import size_text
from chronotile.storage.store import Store, open_store

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path

    from pyspark.sql import DataFrame
    from support.servers import FaultProxy, S3Server

    from chronotile.fleet.shares import Share


CORPUS = next(iter(CASES.values())).array.parents[1]
Table = list[tuple[Any, ...]]


@pytest.fixture(scope="module")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    with local_session(tmp_path_factory.mktemp("warehouse")) as session:
        yield session


@pytest.fixture(scope="module")
def fleet(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Arrays with and without deletes, loose commits, and one that is broken."""
    root = tmp_path_factory.mktemp("fleet") / "root"
    maker = FleetMaker(make_template(root.parent / "template"))
    for number in range(12):
        folder = root / f"group-{number % 3}" / f"array-{number}"
        maker.array(folder, 30 + number, seed=number, deletes=number % 4, loose=number)
    maker.array(root / "loose", 120, seed=99, loose=120)
    (root / "broken" / "__commits").mkdir(parents=True)
    age(root)
    return root


def expected(arrays: Iterable[Path | str], name: str) -> Table:
    """What the single-array interface says; of an array that it refuses, nothing."""
    rows: Table = []
    for array in arrays:
        try:
            table = ArrayTables(ct.open_log(str(array))).table(name)
        except ct.ChronotileError:
            continue
        rows += [_frozen(row.values()) for row in table.to_pylist()]
    return sorted(rows, key=repr)


def _frozen(values: Iterable[Any]) -> tuple[Any, ...]:
    return tuple(tuple(value) if isinstance(value, list) else value for value in values)


def rows_of(frame: DataFrame) -> Table:
    """All rows, without the timestamps, which are held to the ms that they stand beside."""
    twins = [name for name in frame.columns if name.endswith(TWIN)]
    assert all(kind == "timestamp" for name, kind in frame.dtypes if name in twins)
    rows: Table = []
    for row in frame.collect():
        values = row.asDict()
        for twin in twins:
            time, ms = values.pop(twin), values[twin.removesuffix(TWIN)]
            if ms is None or ms > LAST_CALENDAR_MS:
                assert time is None
            else:
                assert round(time.timestamp() * 1000) == ms
        rows.append(_frozen(values.values()))
    return sorted(rows, key=repr)


def stored_rows(folder: Path) -> Table:
    table = stored(folder).select(SCHEMAS[folder.name].names)
    return sorted((_frozen(row.values()) for row in table.to_pylist()), key=repr)


def arrays_in(root: Path) -> list[Path]:
    return [path.parent for path in root.rglob("__schema") if "__labels" not in str(path)]


def read(spark: SparkSession, root: Any, table: str, **options: str) -> DataFrame:
    reader = spark.read.format("chronotile").option("table", table).options(**options)
    return reader.load(root if isinstance(root, list) else str(root))


@pytest.mark.parametrize("name", TABLES)
def test_the_corpus_as_tables(spark: SparkSession, name: str) -> None:
    frame = read(spark, f"{CORPUS}/*/array", name)
    assert rows_of(frame) == expected((case.array for case in CASES.values()), name)
    assert frame.columns == with_twins(TABLES[name]).names


def test_an_array_of_several_batches_gives_all_its_rows(
    spark: SparkSession, tmp_path: Path
) -> None:
    root, commits = tmp_path / "root", 140_000
    make_large_array(root / "large", commits)
    put_array(root / "small", "bare")
    whole = ArrayTables(ct.open_log(root / "large"))
    for name in ("commits", "fragments"):
        found = read(spark, root, name).where(f"array = '{root}/large'").toArrow()
        wanted = whole.table(name)
        assert found.sort_by("name")["name"].equals(wanted.sort_by("name")["name"])
        assert found.num_rows == len(wanted)
    out = tmp_path / "tables"
    job = Job(options=Options(roots=(str(root),), max_findings=7), out=str(out), since_last=True)
    for folder in (COMMITS, FRAGMENTS, SCHEMA, ""):
        os.utime(root / "large" / folder, (1, 1))
    age(root)
    summary = run(spark, job)
    for name in ("commits", "fragments"):
        written = stored(out / name).filter(pc.field("array") == f"{root}/large")
        assert written.select(SCHEMAS[name].names).equals(whole.table(name))
    lost = {(one[1], one[2]) for one in summary.totals.findings}
    assert ("commit-without-fragment", commits) in lost
    found = [row for row in stored_rows(out / "findings") if row[0] == "commit-without-fragment"]
    assert len(found) == 8
    again = run(spark, job)
    assert (again.unchanged, again.read) == (2, 0)
    assert again.totals == summary.totals


def test_a_group_is_a_root_whose_members_are_followed(spark: SparkSession, tmp_path: Path) -> None:
    group, far = tmp_path / "lake" / "group", tmp_path / "elsewhere"
    put_array(far, "sparse-loose")
    put_array(group / "near", "bare")
    put_list(group, 10, member(str(far), "far"), member("near", "near"), member("gone", "gone"))
    for root in (group, tmp_path / "lake"):
        arrays = read(spark, root, "arrays").collect()
        assert sorted(row["array"] for row in arrays) == [str(far), str(group / "near")]
        members = read(spark, root, "members").collect()
        found = {(row["group"], row["name"], row["found"], row["array"]) for row in members}
        assert found == {
            (str(group), "far", "array", str(far)),
            (str(group), "near", "array", str(group / "near")),
            (str(group), "gone", "missing", str(group / "gone")),
        }
        (commits,) = {row["commits"] for row in members if row["name"] == "far"}
        assert commits == read(spark, far, "commits").count() > 0


@pytest.mark.parametrize("name", TABLES)
def test_a_fleet_as_tables(spark: SparkSession, fleet: Path, name: str) -> None:
    found = rows_of(read(spark, fleet, name))
    broken = str(fleet / "broken")
    assert [row for row in found if broken not in row] == expected(arrays_in(fleet), name)
    assert sum(broken in row for row in found) == (1 if name in ("arrays", "findings") else 0)


def test_spark_finds_the_source_by_itself_and_can_be_told(spark: SparkSession, fleet: Path) -> None:
    by_itself = read(spark, fleet, "arrays").count()
    for _ in range(2):
        register(spark)
    assert read(spark, fleet, "arrays").count() == by_itself == 14


def test_a_view_in_sql(spark: SparkSession, fleet: Path) -> None:
    """Spark 4.3 hands a reader in Python the options of a view, but not those of a table."""
    given = f"table 'arrays', path '{fleet}'"
    spark.sql(f"CREATE TEMPORARY VIEW fleet_arrays USING chronotile OPTIONS ({given})")
    assert spark.sql("SELECT count(*) FROM fleet_arrays").collect()[0][0] == 14
    spark.catalog.dropTempView("fleet_arrays")


def test_several_roots_patterns_and_a_table_of_arrays(
    spark: SparkSession, fleet: Path, tmp_path: Path
) -> None:
    groups = [str(fleet / "group-0"), str(fleet / "group-2")]
    wanted = [path for path in arrays_in(fleet) if path.parent.name in ("group-0", "group-2")]
    (tmp_path / "list.txt").write_text("\n".join(map(str, wanted)))
    named = spark.createDataFrame([(str(path),) for path in [*wanted, *wanted]], "uri string")
    named.write.parquet(str(tmp_path / "table"))
    by_table = spark.read.format("chronotile").option("arrays", str(tmp_path / "table"))
    ways = (
        by_table.option("column", "uri").load(),
        read(spark, groups, "commits"),
        read(spark, fleet / "group-[02]", "commits"),
        spark.read.format("chronotile").option("arrays", str(tmp_path / "list.txt")).load(),
    )
    for frame in ways:
        assert rows_of(frame) == expected(wanted, "commits")


def test_a_window(spark: SparkSession, fleet: Path) -> None:
    end = FIRST_MS + 10_000
    frame = read(spark, fleet, "commits", start=str(FIRST_MS + 5_000), end=str(end))
    everything = expected(arrays_in(fleet), "commits")
    assert rows_of(frame) == [row for row in everything if FIRST_MS + 5_000 <= row[3] <= end]


@pytest.mark.parametrize(
    ("stage", "options", "words"),
    [
        ("create", {"tabel": "commits"}, "did you mean 'table'"),
        ("create", {"table": "nothing"}, "expected one of arrays"),
        ("plan", {"path": "/nowhere/at/all"}, "expected a folder, found nothing"),
    ],
)
def test_each_stage_fails_in_words(
    spark: SparkSession, stage: str, options: dict[str, str], words: str
) -> None:
    reader = spark.read.format("chronotile").options(**{"path": "/tmp", **options})
    if stage == "create":
        with pytest.raises(Exception, match=words):
            reader.load()
        return
    frame = reader.load()
    with pytest.raises(Exception, match=words):
        frame.collect()


@pytest.mark.parametrize(
    "schema", ["array string, cells bigint", "array bigint", "t1 bigint, T1 bigint", "t1 int"]
)
def test_columns_of_no_table_are_refused(spark: SparkSession, fleet: Path, schema: str) -> None:
    frame = spark.read.format("chronotile").schema(schema).load(str(fleet))
    with pytest.raises(Exception, match="expected columns of struct<array:string,name"):
        frame.collect()


@pytest.mark.parametrize("name", SCHEMAS)
def test_a_schema_chooses_columns(spark: SparkSession, fleet: Path, name: str) -> None:
    whole = read(spark, fleet, name, cells="true", sizes="true")
    for chosen in (whole.columns[::-3], ["array"]):
        fields = [f"{one} {whole.schema[one].dataType.simpleString()}" for one in chosen]
        reader = spark.read.format("chronotile").option("table", name)
        frame = reader.schema(", ".join(fields)).load(str(fleet))
        assert frame.columns == chosen
        assert sorted(map(repr, frame.collect())) == sorted(
            map(repr, whole.select(*chosen).collect())
        )


def test_a_schema_chooses_columns_of_a_stream(
    spark: SparkSession, fleet: Path, tmp_path: Path
) -> None:
    stream = spark.readStream.format("chronotile").schema("t1_time timestamp, name string")
    stream = stream.option("state", str(tmp_path / "state"))
    query = stream.load(str(fleet)).writeStream.format("memory").queryName("chosen")
    query.trigger(availableNow=True).start().awaitTermination()
    whole = read(spark, fleet, "commits").select("t1_time", "name")
    found = spark.table("chosen").collect()
    assert sorted(map(repr, found)) == sorted(map(repr, {*whole.collect()}))


def test_footers_and_sizes_are_read_only_for_chosen_columns(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    array = CASES["inside-sparse-v22"].copy_to(tmp_path)
    asked: list[str] = []

    def noted(module: Any, name: str) -> None:
        real = getattr(module, name)

        def call(*given: Any, **more: Any) -> Any:
            asked.append(name)
            return real(*given, **more)

        monkeypatch.setattr(module, name, call)

    noted(fragment_facts, "read_facts")
    noted(array_tables, "bytes_by_reason")

    def read_here(table: str, schema: str, **options: str) -> list[str]:
        """What a task reads for these columns, in this process."""
        asked.clear()
        source = ChronotileSource({"path": array, "table": table, **options})
        reader: Any = source.reader(cast("StructType", StructType.fromDDL(schema)))
        batches = [batch for part in reader.partitions() for batch in reader.read(part)]
        assert sum(batch.num_rows for batch in batches) > 0
        return [*asked]

    assert read_here("fragments", "name string, t1 bigint", cells="true") == []
    assert read_here("fragments", "name string, cells bigint") == ["read_facts"]
    assert read_here("fragments", "metadata string") == ["read_facts"]
    assert read_here("arrays", "array string, commits bigint", sizes="true") == []
    assert read_here("arrays", "bytes_visible bigint") == ["bytes_by_reason"]
    view = f"USING chronotile OPTIONS (path '{array}', table 'fragments')"
    spark.sql(f"CREATE TEMPORARY VIEW facts (domain STRING, name STRING) {view}")
    assert spark.sql("SELECT count(*), count(domain) FROM facts").collect()[0] == (4, 4)


def spark_version(spark: SparkSession) -> tuple[int, int]:
    major, minor = spark.version.split(".")[:2]
    return int(major), int(minor)


def test_filters_go_down_where_spark_lets_them(spark: SparkSession, fleet: Path) -> None:
    array = str(fleet / "group-0" / "array-3")
    query = f"array = '{array}' and kind = 'delete' and t1 > {FIRST_MS + 9_000} and loose = false"
    plain = rows_of(read(spark, fleet, "commits").where(query))
    assert 0 < len(plain) < 4
    frame = read(spark, fleet, "commits", push_filters="true").where(query)
    spark.conf.set("spark.sql.python.filterPushdown.enabled", "true")
    try:
        assert rows_of(frame) == plain
        if spark_version(spark) < (4, 1):
            return  # It hands no filter down.
        # What was taken is not asked again, and only the one array is opened.
        plan = frame._jdf.queryExecution().executedPlan().toString()
        assert f"= {array}" not in plan.partition("BatchScan")[0]
        assert "loose" in plan.partition("BatchScan")[0]
        assert frame.rdd.getNumPartitions() == 1
        pushed = read(spark, fleet, "commits", push_filters="true")
        second = str(fleet / "group-0" / "array-99")
        for other in (
            f"array in ('{array}', '{second}')",
            f"array like '{fleet}/group-0/array-3%'",
        ):
            assert rows_of(pushed.where(other)) == expected([array], "commits")
    finally:
        spark.conf.unset("spark.sql.python.filterPushdown.enabled")


def test_from_a_bucket(spark: SparkSession, fleet: Path, s3: S3Server, bucket: str) -> None:
    upload(s3, fleet, bucket)
    options = {f"storage.{name}": value for name, value in s3.options.items()}
    for name in SCHEMAS:
        local = [row for row in rows_of(read(spark, fleet, name)) if "broken" not in repr(row)]
        there = rows_of(read(spark, bucket, name, **options))
        assert there == sorted(
            (
                tuple(v.replace(str(fleet), bucket) if isinstance(v, str) else v for v in row)
                for row in local
            ),
            key=repr,
        )


def upload(s3: S3Server, root: Path, bucket: str) -> None:
    store = open_store(bucket, s3.options)
    for path in sorted(root.rglob("*")):
        if path.is_file():
            store.put_if_absent(str(path.relative_to(root)), path.read_bytes())


class Stream:
    """A stream into a Parquet table; each `step` is a restart from the checkpoint."""

    def __init__(self, spark: SparkSession, root: str, place: Path, **options: str) -> None:
        self._spark, self._root, self._place = spark, root, place
        self._options = {"state": str(place / "state"), **options}

    def step(self) -> list[Any]:
        """One run with AvailableNow; gives the progress of its batches."""
        reader = self._spark.readStream.format("chronotile").options(**self._options)
        query = (
            reader.load(self._root)
            .writeStream.format("parquet")
            .option("checkpointLocation", str(self._place / "checkpoint"))
            .option("path", str(self._place / "sink"))
            .trigger(availableNow=True)
            .start()
        )
        query.awaitTermination()
        return [batch for batch in query.recentProgress if batch.numInputRows]

    def rows(self) -> Table:
        return rows_of(self._spark.read.parquet(str(self._place / "sink")))


def test_a_stream_gives_every_commit_once(spark: SparkSession, tmp_path: Path) -> None:
    maker = FleetMaker(make_template(tmp_path / "template"))
    root = tmp_path / "root"
    for name in ("a", "b"):
        maker.array(root / name, 6, seed=ord(name), deletes=1, loose=2)
    stream = Stream(spark, str(root), tmp_path, table="commits")
    named = {(row[0], row[1], row[2]) for row in expected(arrays_in(root), "commits")}

    def add(name: str, time_ms: int, number: int, *, delete: bool = False) -> None:
        text = maker.commit(root / name, time_ms, uuid=f"{number:032x}", delete=delete)
        named.add((str(root / name), text, "delete" if delete else "write"))

    def check() -> None:
        found = [(row[0], row[1], row[2]) for row in stream.rows()]
        assert len(found) == len(set(found))
        assert set(found) == named

    stream.step()
    check()
    add("a", FIRST_MS + 90_000, 1)
    add("b", 5, 2)  # dated long before all others
    stream.step()
    check()
    # Each commit is now in a `.con`, and nowhere else: it is no new one for that.
    for name in ("a", "b"):
        consolidate(str(root / name))
        vacuum(str(root / name), mode="commits")
    add("a", FIRST_MS + 1, 3, delete=True)  # dated between others
    stream.step()
    check()
    maker.array(root / "late" / "c", 3, seed=7)  # a new array
    named |= {(r[0], r[1], r[2]) for r in expected([root / "late" / "c"], "commits")}
    add("b", 5, 4)  # the same time as one before
    stream.step()
    check()
    stream.step()
    check()


def test_a_stream_in_several_batches_with_an_array_that_cannot_be_read(
    spark: SparkSession, tmp_path: Path
) -> None:
    maker = FleetMaker(make_template(tmp_path / "template"))
    root = tmp_path / "root"
    for name in "abcd":
        maker.array(root / name, 6, seed=ord(name), deletes=1, loose=2)
    (root / "d" / "__schema").rename(tmp_path / "away")
    options = {"state": str(tmp_path / "state"), "maxArraysPerTrigger": "2"}
    stream = Stream(spark, str(root), tmp_path, table="commits", **options)
    batches = stream.step()
    # Before 4.2, Spark asks for all that is new at once.
    in_batches = [12, 6] if spark_version(spark) >= (4, 2) else [18]
    assert [batch.numInputRows for batch in batches] == in_batches
    assert stream.rows() == expected([root / name for name in "abc"], "commits")
    telling = Stream(spark, str(root), tmp_path / "t", table="findings", state=f"{tmp_path}/t/s")
    telling.step()
    told = [row for row in telling.rows() if "unreadable" in row]
    assert [(row[1], row[2]) for row in told] == [("error", str(root / "d"))]
    maker.commit(root / "a", FIRST_MS, uuid="9" * 32)
    (batch,) = stream.step()
    assert batch.numInputRows == 1
    assert json.loads(batch.sources[0].latestOffset)["unreadable"] == 1
    (tmp_path / "away").rename(root / "d" / "__schema")
    (batch,) = stream.step()
    assert json.loads(batch.sources[0].latestOffset)["waiting"] == 0
    assert stream.rows() == expected(arrays_in(root), "commits")


def test_secrets_are_hidden_in_plans(
    spark: SparkSession, fleet: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    secrets = {"secret_key": "K" * 32, "storage.secret.account_key": "HUSH"}
    options = {"table": "commits", "path": str(fleet), **secrets}
    given = ", ".join(f"`{name}` '{value}'" for name, value in options.items())
    view = f"EXPLAIN EXTENDED CREATE TEMPORARY VIEW v USING chronotile OPTIONS ({given})"
    plans = [spark.sql(view).collect()[0][0]]
    for frame in (
        spark.read.format("chronotile").options(**options).load(),
        spark.readStream.format("chronotile").options(**options, state="unused").load(),
    ):
        capfd.readouterr()
        frame.explain("extended")
        plans.append(capfd.readouterr().out)
    assert all("chronotile" in plan for plan in plans)
    assert sum("(redacted)" in plan for plan in plans) == 2
    assert not any("KKK" in plan or "HUSH" in plan for plan in plans)


def test_a_stream_of_conditions_and_an_array_that_heals(
    spark: SparkSession, tmp_path: Path
) -> None:
    maker = FleetMaker(make_template(tmp_path / "template"))
    root = tmp_path / "root"
    maker.array(root / "a", 8, seed=1, deletes=2)
    maker.array(root / "b", 8, seed=2, deletes=2)
    shutil.move(root / "b" / "__schema", tmp_path / "hidden")
    stream = Stream(spark, str(root), tmp_path, table="conditions")
    stream.step()
    assert stream.rows() == expected([root / "a"], "conditions")
    shutil.move(tmp_path / "hidden", root / "b" / "__schema")
    maker.commit(root / "a", 3, uuid="5" * 32, delete=True)
    stream.step()
    assert stream.rows() == expected([root / "a", root / "b"], "conditions")


def test_a_stream_from_a_bucket(
    spark: SparkSession, s3: S3Server, bucket: str, tmp_path: Path
) -> None:
    maker = FleetMaker(make_template(tmp_path / "template"))
    maker.array(tmp_path / "root" / "a", 5, seed=1, deletes=1, loose=2)
    upload(s3, tmp_path / "root", bucket)
    options = {f"storage.{name}": value for name, value in s3.options.items()}
    stream = Stream(
        spark, bucket, tmp_path, **options, table="commits", state=f"{bucket}-state/one/query"
    )
    s3.make_bucket(f"{bucket}-state".removeprefix("s3://"))
    stream.step()
    assert len(stream.rows()) == 5
    store = open_store(f"{bucket}/a", s3.options)
    store.put_if_absent(f"__commits/__2_2_{'7' * 32}_22.wrt", b"")
    for _ in range(2):
        stream.step()
        assert len(stream.rows()) == 6


def job(root: Path | str, out: Path | str, **more: Any) -> Job:
    options = Options(roots=(str(root),))
    return Job(options=options, out=str(out), **more)


def test_the_pipeline_writes_every_table(spark: SparkSession, fleet: Path, tmp_path: Path) -> None:
    steps: list[tuple[str, int, int]] = []
    summary = run(spark, job(fleet, tmp_path / "out"), lambda *step: steps.append(step))
    for name in SCHEMAS:
        assert stored_rows(tmp_path / "out" / name) == rows_of(read(spark, fleet, name))
    commits = stored(tmp_path / "out" / "commits")
    assert stored_rows(tmp_path / "out" / "commits") == expected(arrays_in(fleet), "commits")
    for row in commits.to_pylist():
        assert round(row["t1_time"].timestamp() * 1000) == row["t1"]
        assert row["run_at"] is not None
        assert row["run_id"] == summary.run
    versions = dict(summary.versions)
    assert versions.pop("listings") == 2, "one commit begins the wave, one completes it"
    assert set(versions.values()) == {1}
    assert summary.totals.arrays == summary.read == 14
    assert summary.totals.commits == len(expected(arrays_in(fleet), "commits"))
    assert ("info", "many-loose-commits", 1) in summary.totals.findings
    assert ("error", "unreadable", 1) in summary.totals.findings
    costs = {row[0]: row[11] for row in expected(arrays_in(fleet), "arrays")}
    worst = sorted(costs.items(), key=lambda one: (-one[1], one[0]))[:10]
    assert summary.totals.worst == tuple((cost, array) for array, cost in worst)
    assert summary.totals.engine_open_requests == sum(costs.values())
    column = SCHEMAS["arrays"].names.index("engine_open_requests_after_maintenance")
    after = [row[column] or 0 for row in expected(arrays_in(fleet), "arrays")]
    assert summary.totals.engine_open_requests_after_maintenance == sum(after)
    reading = [step for step in steps if step[0] == "reading commit logs"]
    assert reading[-1][1] == reading[-1][2] > 2


def test_each_file_is_read_once(
    spark: SparkSession, fleet: Path, s3: S3Server, bucket: str, proxy: FaultProxy, tmp_path: Path
) -> None:
    upload(s3, fleet, bucket)
    options = Options(roots=(bucket,), storage=tuple(sorted(proxy.options.items())))
    summary = run(spark, Job(options=options, out=str(tmp_path / "out")))
    reads = [path for method, path, _ in proxy.seen if method == "GET" and "list-type" not in path]
    commit_files = {
        f"/{bucket.removeprefix('s3://')}/{path.relative_to(fleet)}"
        for path in fleet.rglob("__commits/*")
        if path.suffix in (".con", ".del")
    }
    assert sorted(path for path in reads if "__commits" in path) == sorted(commit_files)
    assert len(reads) == len(set(reads)) == summary.reads == summary.files_read


def test_sizes_are_measured_if_asked_for(
    spark: SparkSession, fleet: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out, page = tmp_path / "out", tmp_path / "report.html"
    sizes = {
        str(array): sum(file.stat().st_size for file in array.rglob("*") if file.is_file())
        for array in arrays_in(fleet)
    }
    plain = run(spark, job(fleet, out, since_last=True))
    assert (plain.to_json()["bytes"], plain.totals.arrays_measured) == (None, 0)
    assert plain.totals.log_bytes > 0
    assert cli.main(["report", str(out), "-o", str(page)]) == 0
    assert "The tables say nothing of sizes" in page.read_text()
    asked = Options(roots=(str(fleet),), sizes=True)
    told = run(spark, Job(options=asked, out=str(out), since_last=True))
    assert told.unchanged == 0, "rows without a size do not tell what is asked for"
    rows = stored(out / "arrays").to_pylist()
    assert {row["array"]: row["bytes"] for row in rows if row["commits"] is not None} == sizes
    assert told.to_json()["bytes"] == sum(sizes.values())
    assert run(spark, Job(options=asked, out=str(out), since_last=True)).read <= 1
    assert run(spark, job(fleet, out, since_last=True)).to_json()["bytes"] == sum(sizes.values())
    read_now = read(spark, fleet, "arrays", sizes="true").collect()
    assert {row["array"]: row["bytes"] for row in read_now if row["commits"] is not None} == sizes
    # The page of the tables that the pipeline wrote has the treemap of those sizes.
    assert cli.main(["report", str(out), "-o", str(page)]) == 0
    capsys.readouterr()
    text = page.read_text()
    visible = sum(row["bytes_visible"] or 0 for row in rows)
    assert 'aria-label="Size by reason"' in text
    assert size_text(visible) in text


def test_since_last_reads_what_has_changed(spark: SparkSession, tmp_path: Path) -> None:
    maker = FleetMaker(make_template(tmp_path / "template"))
    root, out = tmp_path / "root", tmp_path / "out"
    for number in range(6):
        maker.array(root / f"array-{number}", 10, seed=number, deletes=number % 2)
    age(root)
    first = run(spark, job(root, out, since_last=True))
    assert (first.read, first.unchanged) == (6, 0)
    maker.commit(root / "array-1", 7, uuid="1" * 32, delete=True)
    shutil.rmtree(root / "array-2")
    maker.array(root / "array-9", 4, seed=9)
    shutil.rmtree(root / "array-4" / "__fragments")
    age(root)
    second = run(spark, job(root, out, since_last=True))
    assert (second.read, second.unchanged) == (3, 3)
    third = run(spark, job(root, out, since_last=True))
    assert (third.read, third.unchanged, third.reads) == (0, 6, 0)
    for name in SCHEMAS:
        assert stored_rows(out / name) == expected(arrays_in(root), name)
    assert third.totals == run(spark, job(root, tmp_path / "anew")).totals


def test_runs_are_told_and_can_be_read_again(spark: SparkSession, tmp_path: Path) -> None:
    maker = FleetMaker(make_template(tmp_path / "template"))
    root, out = tmp_path / "root", tmp_path / "out"
    for number in range(6):
        maker.array(root / f"array-{number}", 120, seed=number, loose=120 if number < 2 else 0)
    age(root)
    with pytest.raises(ct.ChronotileError, match="expected a complete run of the pipeline"):
        ct.fleet_tables(out)
    first = run(spark, job(root, out, since_last=True))
    assert run(spark, job(root, out, since_last=True)).versions == {}, "nothing to commit"
    consolidate(str(root / "array-0"))
    vacuum(str(root / "array-0"), mode="commits")
    shutil.rmtree(root / "array-1")
    second = run(spark, job(root, out, since_last=True))
    told = sorted(stored(out / "run_history").to_pylist(), key=lambda row: row["run_id"])
    assert [row["run_id"] for row in told] == [first.run, second.run]
    assert [row["arrays"] for row in told] == [6, 5]
    assert [row["arrays_read"] for row in told] == [6, 1]
    assert [row["infos"] for row in told] == [2, 0]
    read_in = {r["array"][-7:]: r["run_id"] for r in stored(out / "arrays").to_pylist()}
    assert (read_in["array-0"], read_in["array-2"]) == (second.run, first.run)
    tables = ct.fleet_tables(out, run=first.run)
    assert set(tables) == {*SCHEMAS, "members", "operations"}
    assert tables["findings"].to_pyarrow_table().num_rows == 2
    assert ct.fleet_tables(out)["arrays"].to_pyarrow_table().num_rows == 5
    operations = stored(out / "operations").to_pylist()
    assert sorted((row["array"], row["command"], row["state"]) for row in operations) == [
        (str(root / "array-0"), *one) for one in (("consolidate", "final"), ("vacuum", "final"))
    ]


def test_tasks_go_on_where_the_driver_stops_looking(
    spark: SparkSession, fleet: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fleet_plan, "IN_DRIVER", 3)
    shares: list[Share] = []

    def planned(*given: Any, **more: Any) -> fleet_plan.FleetPlan:
        plan = fleet_plan.plan_fleet(*given, **more)
        shares.extend(plan.shares)
        return plan

    monkeypatch.setattr(pipeline, "plan_fleet", planned)
    told = run(spark, job(fleet, tmp_path / "out"))
    assert sum(share.count for share in shares) == told.totals.arrays == 14
    pieces = [piece for share in shares for piece in share.split()]
    assert sum(piece.count for piece in pieces) == sum(s.count for s in shares if s.count > 1)
    for name in SCHEMAS:
        assert stored_rows(tmp_path / "out" / name) == rows_of(read(spark, fleet, name))


def test_only_parts_with_a_change_are_written_anew(spark: SparkSession, tmp_path: Path) -> None:
    maker = FleetMaker(make_template(tmp_path / "template"))
    root, out = tmp_path / "root", tmp_path / "out"
    for number in range(20):
        maker.array(root / f"array-{number:02d}", 4, seed=number)
    age(root)
    run(spark, job(root, out, since_last=True))
    first = files(out / "commits")
    everything = sorted(out.rglob("*"))
    assert run(spark, job(root, out, since_last=True)).unchanged == 20
    assert sorted(out.rglob("*")) == everything, "an unchanged run writes nothing"
    maker.commit(root / "array-03", 7, uuid="1" * 32)
    assert run(spark, job(root, out, since_last=True)).read == 1
    second = files(out / "commits")
    part = part_of(str(root / "array-03"), len(first))
    assert {path.rpartition("/")[0].rpartition("/")[2] for path in second - first} == {
        f"bucket={part}"
    }
    assert len(first & second) == len(first) - 1
    # Files that somebody else has put together are those of their part.
    DeltaTable(str(out / "commits")).optimize.compact()
    DeltaTable(str(out / "listings")).optimize.compact()
    assert run(spark, job(root, out, since_last=True)).versions == {}
    assert run(spark, job(root, out)).unchanged == 0
    assert stored_rows(out / "commits") == expected(arrays_in(root), "commits")


def test_arrays_stay_in_their_parts(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A fleet keeps its parts until it has become many times as large, or as small."""
    maker = FleetMaker(make_template(tmp_path / "template"))
    root, out = tmp_path / "root", tmp_path / "out"
    for number in range(40):
        maker.array(root / f"array-{number:02d}", 20, seed=number)
    age(root)
    monkeypatch.setattr(shares, "ARRAYS_IN_PART", 1)
    asked = Job(options=Options(roots=(str(root),)), out=str(out), since_last=True)

    def told(read: int) -> tuple[int | None, set[str]]:
        summary = run(spark, asked)
        assert (summary.read, summary.unchanged) == (read, 40 - read)
        assert stored_rows(out / "commits") == expected(arrays_in(root), "commits")
        return Output(out=str(out)).snapshot().parts, files(out / "commits")

    parts, known = told(40)
    assert parts == 64
    assert told(0) == (parts, known)
    maker.commit(root / "array-03", 7, uuid="1" * 32)
    again, changed = told(1)
    assert (again, len(known - changed)) == (parts, 1)
    # A fleet that is divided in another way is written as a whole.
    for number in range(2, 40):
        shutil.rmtree(root / f"array-{number:02d}")
    summary = run(spark, asked)
    assert (summary.read, summary.unchanged, summary.totals.arrays) == (0, 2, 2)
    for name in SCHEMAS:
        assert stored_rows(out / name) == expected(arrays_in(root), name)
    assert Output(out=str(out)).snapshot().parts == shares.FEWEST


def test_a_killed_first_run_goes_on_where_it_was(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    maker = FleetMaker(make_template(tmp_path / "template"))
    root, out = tmp_path / "root", tmp_path / "out"
    for number in range(12):
        maker.array(root / f"array-{number:02d}", 20, seed=number, deletes=1, loose=3)
    age(root)
    monkeypatch.setattr(pipeline, "ARRAYS_IN_WAVE", 4)
    waves: list[Any] = []

    def stop(*given: Any, **named: Any) -> Any:
        if len(waves) == 2:
            raise KeyboardInterrupt
        waves.append(run_job(*given, **named))
        return waves[-1]

    monkeypatch.setattr(pipeline, "run_job", stop)
    with pytest.raises(KeyboardInterrupt):
        run(spark, job(root, out))
    monkeypatch.setattr(pipeline, "run_job", run_job)
    with pytest.raises(ct.ChronotileError, match="expected a complete run"):
        ct.fleet_tables(out)
    half = stored(out / "arrays").num_rows
    assert 0 < half < 12
    maker.commit(root / "array-05", 7, uuid="5" * 32)
    told = run(spark, job(root, out, since_last=True))
    assert told.unchanged in (half, half - 1)
    assert told.read + told.unchanged == told.totals.arrays == 12
    for name in SCHEMAS:
        assert stored_rows(out / name) == expected(arrays_in(root), name), name
    assert not list(out.glob("_chronotile/*"))


def test_a_run_that_was_overtaken_changes_nothing(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    maker = FleetMaker(make_template(tmp_path / "template"))
    root, out = tmp_path / "root", tmp_path / "out"
    for number in range(4):
        maker.array(root / f"array-{number}", 110, seed=number, loose=110)
    run(spark, job(root, out))
    plan = fleet_plan.plan_fleet
    later: list[str] = []

    def overtake(*given: Any, **more: Any) -> Any:
        if not later:
            later.append("")
            later[0] = run(spark, job(root, out)).run
        return plan(*given, **more)

    monkeypatch.setattr(pipeline, "plan_fleet", overtake)
    before = sorted(root.rglob("*"))
    with pytest.raises(OvertakenError, match="found one that started later"):
        run(spark, job(root, out, policy=simple_policy(fragments=False)))
    assert sorted(root.rglob("*")) == before
    assert {row["run_id"] for row in stored(out / "commits").to_pylist()} == {later[0]}
    assert version(out / "commits") == 2


def test_tables_of_an_earlier_version_and_other_types_are_refused(
    spark: SparkSession, tmp_path: Path
) -> None:
    maker = FleetMaker(make_template(tmp_path / "template"))
    maker.array(tmp_path / "root" / "a", 3, seed=1)
    (tmp_path / "old" / "runs").mkdir(parents=True)
    with pytest.raises(ct.ChronotileError, match="give a new folder"):
        run(spark, job(tmp_path / "root", tmp_path / "old"))
    out = tmp_path / "out"
    DeltaTable.create(str(out / "arrays"), pa.schema([("uri", pa.int64())]))
    with pytest.raises(ct.ChronotileError, match=r"expected column uri of .*string.*, found"):
        run(spark, job(tmp_path / "root", out))
    shutil.rmtree(out)
    fewer = [field for field in STORED["arrays"] if field.name != "stale"]
    DeltaTable.create(str(out / "arrays"), pa.schema(fewer), partition_by=["bucket"])
    run(spark, job(tmp_path / "root", out))
    assert stored_rows(out / "arrays") == expected([tmp_path / "root" / "a"], "arrays")
    assert version(out / "arrays") == 1  # the column came with the rows


def test_workers_do_not_search_modules_for_garbage(spark: SparkSession, tmp_path: Path) -> None:
    results = Results(open_store(str(tmp_path)), "results")
    frozen = run_job(spark, [0, 1], lambda *_: None, results, work=lambda _: gc.get_freeze_count())
    assert all(count > 10_000 for count in frozen)


def test_since_last_sees_a_file_that_was_changed_in_place(
    spark: SparkSession, tmp_path: Path, s3: S3Server, bucket: str
) -> None:
    maker = FleetMaker(make_template(tmp_path / "template"))
    root = tmp_path / "root"
    for number in range(3):
        maker.array(root / f"array-{number}", 10, seed=number)
    upload(s3, root, bucket)
    (con,) = (root / "array-1" / "__commits").glob("*.con")
    changed = con.read_bytes().replace(b".wrt", b".ok\n")
    for place in (str(root), bucket):
        age(root)
        storage = tuple(sorted(s3.options.items())) if place == bucket else ()
        options = Options(roots=(place,), storage=storage)
        asked = Job(options=options, out=f"{tmp_path}/out-{len(storage)}", since_last=True)
        assert run(spark, asked).read == 3
        assert run(spark, asked).unchanged == 3
        if place == bucket:
            store, key = open_store(bucket, s3.options), str(con.relative_to(root))
            store.remove([key])
            store.put_if_absent(key, changed)
        else:
            size, status = len(changed), con.stat()
            con.write_bytes(changed)
            assert size == status.st_size
            os.utime(con, ns=(status.st_atime_ns, status.st_mtime_ns + 4_000_000))
        told = run(spark, asked)
        assert (told.read, told.unchanged) == (1, 2)


def test_an_array_that_kills_its_worker_stops_nobody(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    maker = FleetMaker(make_template(tmp_path / "template"))
    root, out = tmp_path / "root", tmp_path / "out"
    for number in range(40):
        maker.array(root / f"array-{number:02d}", 3, seed=number)
    poisoned = ("array-07", "array-31")

    def die(task: Any) -> Any:
        if any(place.uri.endswith(poisoned) for place in task.share.places(task.run)):
            os.kill(os.getpid(), signal.SIGKILL)
        return run_task(task)

    first = run(spark, job(root, out))
    name = first.run
    before = {table: stored_rows(out / table) for table in SCHEMAS}
    monkeypatch.setattr(pipeline, "run_task", die)
    # Above the limit the first array that is found out ends it.
    with pytest.raises(UnreadableError, match=r"found 1: .*array-(07|31) .*was killed"):
        run(spark, job(root, out))
    told = run(spark, job(root, out, max_unreadable=read_limit("2")))
    assert (told.read, told.unreadable, told.totals.arrays) == (38, 2, 40)
    assert stored_rows(out / "commits") == before["commits"]
    stale = {row["array"][-8:]: row["stale"] for row in stored(out / "arrays").to_pylist()}
    assert stale == {f"array-{n:02d}": None for n in range(40)} | dict.fromkeys(poisoned, name)


def test_maintenance_that_kills_its_worker_stops_nobody(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    maker = FleetMaker(make_template(tmp_path / "template"))
    root, out = tmp_path / "root", tmp_path / "out"
    for number in range(3):
        maker.array(root / f"array-{number}", 110, seed=number, loose=110)
    group = maintenance_job.maintain_group

    def die(arrays: tuple[Due, ...], work: Work) -> Any:
        if any(one.array.endswith("array-1") and not one.killed for one in arrays):
            os.kill(os.getpid(), signal.SIGKILL)
        return group(arrays, work)

    monkeypatch.setattr(maintenance_job, "maintain_group", die)
    told = run(spark, job(root, out, policy=simple_policy(fragments=False)))
    assert dict(told.maintained)["maintain refused"] == 1
    left = [len(list((root / f"array-{n}" / "__commits").glob("*.wrt"))) for n in range(3)]
    assert left == [0, 110, 0]
    # One that was under way when the job was broken off is run again and finds nothing to do:
    # that the first time did it, its record tells.
    for number, count in enumerate((2, 0, 2)):
        records = list((root / f"array-{number}").glob("__chronotile/operations/*.json"))
        assert len(records) == count


def test_a_failed_run_leaves_the_last_good_tables(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    maker = FleetMaker(make_template(tmp_path / "template"))
    root, out = tmp_path / "root", tmp_path / "out"
    for number in range(8):
        maker.array(root / f"array-{number}", 5, seed=number)
    run(spark, job(root, out))
    before = {name: stored_rows(out / name) for name in SCHEMAS}
    shutil.rmtree(root / "array-0")

    def fail_after_writing(task: Any) -> Any:
        done = run_task(task)
        if any(place.uri.endswith("array-7") for place in task.share.places(task.run)):
            raise StorageError("out", "the disk is full")
        return done

    monkeypatch.setattr(pipeline, "run_task", fail_after_writing)
    with pytest.raises(StorageError, match="the disk is full"):
        run(spark, job(root, out))
    assert {name: stored_rows(out / name) for name in SCHEMAS} == before
    assert not list(out.glob("_chronotile/*"))
    monkeypatch.undo()
    run(spark, job(root, out))
    assert stored_rows(out / "commits") == expected(arrays_in(root), "commits")


def test_maintenance_of_a_fleet(spark: SparkSession, fleet: Path, tmp_path: Path) -> None:
    root, out = tmp_path / "root", tmp_path / "out"
    shutil.copytree(fleet, root)
    there = sorted(root.rglob("*"))
    seen = {str(a): ct.open_log(str(a)).view().to_dict() for a in arrays_in(root)}
    planned = run(spark, job(root, out, policy=simple_policy(fragments=False), dry_run=True))
    assert dict(planned.maintained) == {"consolidate planned": 1, "vacuum planned": 1}
    assert sorted(root.rglob("*")) == there
    assert [line.partition(" (")[0] for line in planned.planned] == [
        f"{root / 'loose'}: consolidate: 1 put",
        f"{root / 'loose'}: vacuum: 0 put",
    ]
    assert "120 removed" in planned.planned[1]
    done = run(spark, job(root, out, policy=simple_policy(fragments=False)))
    assert dict(done.maintained) == {"consolidate done": 1, "vacuum done": 1}
    assert len(list((root / "loose" / "__commits").iterdir())) == 1
    for array, before in seen.items():
        after = ct.open_log(array).view(end=before["end"]).to_dict()
        names = [one["name"] for one in after["fragments"]]
        assert names == [one["name"] for one in before["fragments"]]
    again = run(spark, job(root, out, policy=simple_policy(fragments=False)))
    assert again.maintained == ()
    told = stored(out / "operations").to_pylist()
    assert sorted((row["array"], row["command"], row["state"]) for row in told) == [
        (str(root / "loose"), *one) for one in (("consolidate", "final"), ("vacuum", "final"))
    ]


def test_maintenance_by_policy(
    spark: SparkSession, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    assert SparkSession.getActiveSession() is spark
    maker = FleetMaker(make_template(tmp_path / "template"))
    root, out = tmp_path / "root", tmp_path / "out"
    for name in ("a", "b", "c", "kept"):
        maker.array(root / name, 110, seed=ord(name[0]), loose=110)
    text = """
        [limits]
        removed_files = 250
        parallel = 2
        arrays_per_minute = 6000
        [[rule]]
        arrays = ["**/kept"]
        [[rule]]
        arrays = ["root/*"]
        consolidate = "commits"
        vacuum = "commits"
    """
    (tmp_path / "policy.toml").write_text(text)
    call = ["pipeline", str(root), "--out", str(out), "--maintain", "--json", "--policy"]
    call.append(str(tmp_path / "policy.toml"))
    plans = {"consolidate planned": 2, "maintain left": 1, "vacuum planned": 2}

    def told(status: int, *more: str) -> Any:
        assert cli.main([*call, *more]) == status
        return json.loads(capfd.readouterr().out)["maintained"]

    assert told(0, "--dry-run") == plans
    (out / STOP).touch()
    assert told(1) == {"maintain stopped": 3}
    (out / STOP).unlink()
    assert told(0) == {name.replace("planned", "done"): count for name, count in plans.items()}
    left = {path.name: len(list(path.glob("__commits/*.wrt"))) for path in arrays_in(root)}
    assert left == {"a": 0, "b": 0, "c": 110, "kept": 110}
    assert told(0) == {"consolidate done": 1, "vacuum done": 1}
    (tmp_path / "policy.toml").write_text("[[rules]]")
    assert cli.main(call) == 1
    assert "did you mean 'rule'" in capfd.readouterr().err


def test_small_fragments_are_merged_by_policy(
    spark: SparkSession, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    assert SparkSession.getActiveSession() is spark
    root = tmp_path / "root"
    arrays = [EngineArray(root / name).create() for name in ("a", "b")]
    for array in arrays:
        for at in (10, 20, 30):
            array.write(at, {at: at})
    before = [array.answers([(0, 20), (0, 99)]) for array in arrays]
    rule = 'arrays = ["**"]\nalways = true\ncompact = { max_memory = "1GB", quiet = "0s" }'
    (tmp_path / "policy.toml").write_text(f"[[rule]]\n{rule}\n")
    call = ["pipeline", str(root), "--out", str(tmp_path / "out"), "--maintain", "--json"]
    for more, outcome in ((["--dry-run"], "planned"), ([], "done"), ([], "nothing")):
        assert cli.main([*call, "--policy", str(tmp_path / "policy.toml"), *more]) == 0
        told = json.loads(capfd.readouterr().out)["maintained"]
        assert told == {f"compact {outcome}": 2}
    assert [array.answers([(0, 20), (0, 99)]) for array in arrays] == before
    assert [len(ct.open_log(array.uri).view().fragments) for array in arrays] == [1, 1]


def test_a_worker_that_is_killed_while_it_merges_leaves_nothing_half_done(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It dies when the merged fragment and its sources are visible; the task runs again."""
    root, killed = tmp_path / "root", tmp_path / "killed"
    arrays = [EngineArray(root / name).create() for name in ("a", "b")]
    windows = [(0, 10), (0, 20), (15, 30), (0, 99)]
    for array in arrays:
        for at in (10, 20, 30):
            array.write(at, {at: at, 5: at})
    before = [array.answers(windows) for array in arrays]
    group, made = maintenance_job.maintain_group, Store.__post_init__

    def die(arrays: tuple[Due, ...], work: Work) -> Any:
        def kill(operation: str, path: str) -> None:
            if operation == "put" and path.endswith(".vac"):
                killed.touch()
                os.kill(os.getpid(), signal.SIGKILL)

        def watched(store: Store) -> None:
            made(store)
            if store.uri.endswith("/b") and not killed.exists():
                object.__setattr__(store, "on_operation", kill)

        Store.__post_init__ = watched  # type: ignore[method-assign,assignment]
        return group(arrays, work)

    monkeypatch.setattr(maintenance_job, "maintain_group", die)
    rule = 'arrays = ["**"]\nalways = true\ncompact = { max_memory = "1GB", quiet = "0s" }'
    (tmp_path / "policy.toml").write_text(f"[[rule]]\n{rule}\n")
    policy = read_policy(str(tmp_path / "policy.toml"))
    told = run(spark, job(root, tmp_path / "out", policy=policy))
    assert killed.exists()
    assert set(dict(told.maintained)) <= {"compact done", "compact nothing"}
    assert [array.answers(windows) for array in arrays] == before
    for array in arrays:
        assert len(ct.open_log(array.uri).view().fragments) == 1
        assert not [one for one in ct.open_log(array.uri).check() if one.severity == "error"]
        assert not array.files("__chronotile/scratch")
    states = [one.state for one in list_operations(open_store(arrays[1].uri))]
    assert states == ["done", "failed"], "the next one took back what was begun"


def test_the_tables_can_lie_in_a_bucket(
    spark: SparkSession, fleet: Path, s3: S3Server, bucket: str, tmp_path: Path
) -> None:
    out = f"{bucket}/tables"
    for since_last in (False, True):
        run(spark, job(fleet, out, out_storage=s3.options, since_last=since_last))
        table = ct.fleet_tables(out, storage_options=s3.options)["commits"]
        commits = as_read(table.to_pyarrow_table())
        rows = commits.select(SCHEMAS["commits"].names).to_pylist()
        found = [_frozen(row.values()) for row in rows]
        assert sorted(found, key=repr) == expected(arrays_in(fleet), "commits")
    page = tmp_path / "report.html"
    storage = [word for pair in s3.options.items() for word in ("--storage", "=".join(pair))]
    assert cli.main(["report", out, "-o", str(page), *storage]) == 0
    assert all(str(array) in page.read_text() for array in arrays_in(fleet))


def test_the_command(
    spark: SparkSession,
    fleet: Path,
    tmp_path: Path,
    capfd: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert SparkSession.getActiveSession() is spark
    monkeypatch.chdir(tmp_path)  # workers were started elsewhere: `out` is relative to this folder
    call = ["pipeline", str(fleet), "--out", "out", "--metrics", "run.prom"]
    assert cli.main([*call, "--json"]) == 3  # one array has no schema
    written = capfd.readouterr()
    document = json.loads(written.out)
    assert (document["arrays"], document["arrays_read"]) == (14, 14)
    assert document["out"] == str(tmp_path / "out")
    assert written.err == ""
    metrics = (tmp_path / "run.prom").read_text()
    assert f'chronotile_arrays{{out="{tmp_path / "out"}"}} 14.0\n' in metrics
    assert f'chronotile_run_exit_status{{out="{tmp_path / "out"}"}} 3.0\n' in metrics
    assert cli.main([*call, "--since-last", "--maintain", "--dry-run"]) == 3
    told, lines = capfd.readouterr()
    assert "looking for arrays" in lines.splitlines()
    assert re.search(r"^reading commit logs: (\d+) of \1 tasks$", lines, re.MULTILINE)
    assert "13 arrays unchanged since the last run" in told
    assert "many-loose-commits" in told
    assert "consolidate planned: 1 array" in told
    for wrong in (["pipeline", "--out", "x"], [*call, "--dry-run"], [*call, "--conf", "x"]):
        assert cli.main(wrong) == 2
        assert "expected" in capfd.readouterr().err
    for ignored in (["--master", "local[1]"], ["--conf", "spark.executor.memory=2g"]):
        assert cli.main([*call, *ignored]) == 1
        assert "a Spark session is running already" in capfd.readouterr().err
    assert spark.range(3).count() == 3
    assert os.environ["PYSPARK_PYTHON"] == sys.executable


def test_cells_are_opened_on_the_executors(spark: SparkSession, tmp_path: Path) -> None:
    """Also in a run that reads only what has changed: a bad bit changes no listing."""
    for name in ("inside-sparse-v22", "inside-dense-v22"):
        shutil.copytree(CASES[name].array, tmp_path / "lake" / name)
    age(tmp_path / "lake")
    job = Job(
        options=Options(roots=(str(tmp_path / "lake"),), check="deep"),
        out=str(tmp_path / "out"),
        since_last=True,
    )
    before = run(spark, job).totals.findings
    assert all(code != "fragment-damaged" for _, code, _ in before)
    file = min((tmp_path / "lake" / "inside-sparse-v22").glob("__fragments/*/a0.tdb"))
    data, times = file.read_bytes(), file.stat()
    file.write_bytes(data[:8] + b"\xff" + data[9:])
    os.utime(file, ns=(times.st_atime_ns, times.st_mtime_ns))
    found = run(spark, job).totals.findings
    assert [count for _, code, count in found if code == "fragment-damaged"] == [1]
    source = spark.read.format("chronotile").option("table", "findings").option("check", "deep")
    frame = source.load(str(tmp_path / "lake"))
    assert frame.filter("code = 'fragment-damaged'").count() == 1
