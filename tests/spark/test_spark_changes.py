"""The table `changes`: rows that commits changed, once and as a stream."""

from __future__ import annotations

import datetime as dt
import decimal
import json
from collections import Counter
from typing import TYPE_CHECKING, Any

import pytest
import tiledb
from support.engine_arrays import EngineArray
from support.spark_sessions import local_session
from support.verbs import add_tag, tag_dataset

import chronotile as ct
from chronotile import apply_updates
from chronotile.fleet import register
from chronotile.fleet.change_table import EVENTS_IN_SHARE, change_shares, read_changes
from chronotile.fleet.options import read_options
from chronotile.rows.commit_changes import row_events

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from pyspark.sql import DataFrame, SparkSession


@pytest.fixture(scope="module")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    with local_session(tmp_path_factory.mktemp("warehouse")) as session:
        register(session)
        yield session


def made(root: Path) -> EngineArray:
    array = EngineArray(root / "array").create()
    array.write(10, {1: 1, 2: 2, 3: 3})
    array.write(20, {3: 30, 4: 40})
    array.delete(25, "a < 2")
    array.commit(30, "a == 30", a=31)
    return array


def told(rows: list[Any]) -> list[tuple[Any, ...]]:
    return sorted((r["t"], r["change"], *json.loads(r["row"]).values()) for r in rows)


ALL = [
    (10, "insert", 1, 1),
    (10, "insert", 2, 2),
    (10, "insert", 3, 3),
    (20, "insert", 4, 40),
    (20, "update_after", 3, 30),
    (20, "update_before", 3, 3),
    (25, "delete", 1, 1),
    (30, "update_after", 3, 31),
    (30, "update_before", 3, 30),
]


def changes(spark: SparkSession, root: Path | str, **options: int | str) -> DataFrame:
    reader = spark.read.format("chronotile").option("table", "changes")
    return reader.options(**options).load(str(root))


def test_changes_are_read_once_for_a_window(spark: SparkSession, tmp_path: Path) -> None:
    array = made(tmp_path)
    found = changes(spark, tmp_path).collect()
    assert [round(row["t_time"].timestamp() * 1000) for row in found] == [row["t"] for row in found]
    assert told(found) == ALL
    assert {row["array"] for row in found} == {array.uri}
    (key,) = {row["key"] for row in found if row["change"] == "delete"}
    assert json.loads(key) == {"x": 1}
    window = changes(spark, tmp_path, start=20, end=25).collect()
    assert told(window) == [row for row in ALL if 20 <= row[0] <= 25]


def test_a_tag_stands_for_a_time(spark: SparkSession, tmp_path: Path) -> None:
    """Of each array its own, of a group that is the root the group's."""
    arrays = [made(tmp_path / "group" / name) for name in ("one", "two")]
    group = str(tmp_path / "group")
    tiledb.Group.create(group)
    with tiledb.Group(group, "w") as opened:
        for name in ("one", "two"):
            opened.add(f"{name}/array", name=name, relative=True)

    def moments(root: Path | str, **options: str) -> list[tuple[str, int]]:
        reader = spark.read.format("chronotile").options(**options)
        return sorted((row["array"], row["t1"]) for row in reader.load(str(root)).collect())

    (first, second) = (array.uri for array in arrays)
    add_tag(first, "v1", at=20)
    with pytest.raises(Exception, match="'v1' is neither a time nor a tag") as caught:
        moments(tmp_path, table="commits", end="v1")
    assert f"option 'end' of {second}" in str(caught.value)
    add_tag(second, "v1", at=25)
    wanted = [(first, 10), (first, 20), (second, 10), (second, 20), (second, 25)]
    assert moments(tmp_path / "group" / "*", table="commits", end="v1") == wanted
    assert moments(tmp_path / "group" / "*", table="commits", start="v1", end="25") == [
        (first, 20),
        (first, 25),
        (second, 25),
    ]
    tag_dataset(ct.open_dataset(group), "v1", at=10)
    assert moments(group, table="commits", end="v1") == [(first, 10), (second, 10)]
    tag_dataset(ct.open_dataset(group), "v2", at=15)
    assert moments(second, table="fragments", end="v2") == [(second, 10)]
    assert told(changes(spark, group, end="v2").collect()) == sorted([*ALL[:3], *ALL[:3]])
    with pytest.raises(Exception, match="'never' is neither a time nor a tag"):
        changes(spark, group, end="never").collect()
    with pytest.raises(Exception, match="the window ends before it starts"):
        moments(group, table="commits", start="v2", end="12")


def test_the_fields_of_one_array_are_columns(spark: SparkSession, tmp_path: Path) -> None:
    """Of every kind that Spark lacks, too; a field that came later is NULL before."""
    attrs = [
        tiledb.Attr("u", dtype="uint64"),
        tiledb.Attr("small", dtype="uint8", nullable=True),
        tiledb.Attr("day", dtype="datetime64[D]"),
        tiledb.Attr("tick", dtype="datetime64[ns]"),
        tiledb.Attr("t", dtype="U0", var=True),
    ]
    array = EngineArray(tmp_path / "array").create(attrs=attrs)
    day, tick = dt.date(2024, 5, 1), 1_714_521_600_000_000_001
    columns = {"u": 2**64 - 1, "small": None, "day": 19_844, "tick": tick, "t": "ü"}
    array.write_raw(10, x=[7], **{name: [value] for name, value in columns.items()})
    evolution = tiledb.ArraySchemaEvolution()
    evolution.add_attribute(tiledb.Attr("later", dtype="float32"))
    evolution.array_evolve(array.uri)
    frame = changes(spark, array.uri, rows="columns")
    assert frame.schema.simpleString() == (
        "struct<array:string,change:string,commit:string,t:bigint,t_time:timestamp,x:bigint,"
        "u:decimal(20,0),small:smallint,day:timestamp_ntz,tick:bigint,t_:string,later:float>"
    )
    (row,) = (one.asDict() for one in frame.where("x = 7").collect())
    midnight = dt.datetime.combine(day, dt.time())
    assert [row[name] for name in frame.columns[5:]] == [
        7, decimal.Decimal(2**64 - 1), None, midnight, tick, "ü", None
    ]  # fmt: skip
    assert (row["t"], row["change"]) == (10, "insert")
    assert frame.selectExpr("unix_millis(t_time)").collect()[0][0] == 10
    text = changes(spark, array.uri).select("t", "t_time", "row").collect()[0]
    assert text["t_time"] == row["t_time"]
    assert json.loads(text["row"])["t"] == "ü"
    with pytest.raises(Exception, match="expected one array with columns, found none at"):
        changes(spark, tmp_path, rows="columns")
    with pytest.raises(Exception, match="expected it only with changes, found commits"):
        spark.read.format("chronotile").option("rows", "columns").load(array.uri)


def test_the_events_of_an_array_are_divided_among_tasks(tmp_path: Path) -> None:
    array = EngineArray(tmp_path / "array").create(upper=999)
    for time in range(10, 10 + EVENTS_IN_SHARE):
        array.write(time, {x: x % 7 for x in range(time)})
    array.delete(40, "a == 3")
    options = read_options({"path": str(tmp_path), "table": "changes"})
    parts = list(change_shares([array.uri], options))
    assert [len(part.names) for part in parts] == [EVENTS_IN_SHARE, 1]
    rows = [
        [row["change"] for table in read_changes(part, options) for row in table.to_pylist()]
        for part in parts
    ]
    assert Counter(rows[0]) == {"insert": 9 + EVENTS_IN_SHARE}
    assert Counter(rows[1]) == {"delete": 4}


@pytest.mark.parametrize("in_columns", [False, True])
def test_a_stream_tells_every_change_once(
    spark: SparkSession, tmp_path: Path, in_columns: bool
) -> None:
    """Also one that is dated in the past, and an update that is carried out meanwhile.

    In JSON, or in the columns of the one array.
    """
    root = tmp_path / "root"
    array = made(root)
    options = {"state": str(tmp_path / "state"), "rows": "columns" if in_columns else "json"}
    place = array.uri if in_columns else str(root)

    def run() -> None:
        stream = spark.readStream.format("chronotile").option("table", "changes").options(**options)
        query = (
            stream.load(place)
            .writeStream.format("parquet")
            .option("checkpointLocation", str(tmp_path / "checkpoint"))
            .trigger(availableNow=True)
            .start(str(tmp_path / "out"))
        )
        query.awaitTermination(120)
        assert query.exception() is None

    def seen() -> list[tuple[Any, ...]]:
        rows = spark.read.parquet(str(tmp_path / "out")).collect()
        if in_columns:
            return sorted((row["t"], row["change"], row["x"], row["a"]) for row in rows)
        return told(rows)

    run()
    assert seen() == ALL
    array.write(15, {9: 9})
    apply_updates(array.uri)
    array.write(40, {1: 7})
    run()
    assert seen() == sorted([*ALL, (15, "insert", 9, 9), (40, "insert", 1, 7)])
    assert len(row_events(ct.open_log(array.uri))) == 6
