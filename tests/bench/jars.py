"""The tables and the data source beside the jars of Delta, Iceberg and hadoop-aws: `make jars`.

In: a folder for the jars, which Spark takes from Maven Central. Out: a line for each thing shown on
standard output, or an error. It is no test, as it takes a gigabyte from the network.

- The tables of the pipeline, on a disk and in a bucket, read by Delta: as rows, in SQL,
  at an earlier version, and merged into a table of the user's; OPTIMIZE between two runs.
- The data source written into Delta by `write`, and into Iceberg by `writeTo`.
- A stream of commits into both, whose driver is killed three times: each commit once.
"""

from __future__ import annotations

import argparse
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pyspark.sql import SparkSession
from support.fleets import FleetMaker, age, make_template
from support.servers import options_for, s3_server

import chronotile as ct
from chronotile.fleet import register
from chronotile.fleet.options import Options
from chronotile.fleet.run_pipeline import Job, run

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from support.servers import S3Server

PACKAGES = (
    "io.delta:delta-spark_4.1_2.13:4.4.0",
    "org.apache.iceberg:iceberg-spark-runtime-4.1_2.13:1.12.0",
)
AWS = "org.apache.hadoop:hadoop-aws"
"""Of the version of Hadoop that Spark brings."""
KILLS = 3
SINKS = ("delta", "iceberg")


def started(jars: Path, folder: Path, s3: dict[str, str]) -> SparkSession:
    """Start Spark with the jars."""
    import pyspark

    (hadoop,) = Path(pyspark.__file__).parent.glob("jars/hadoop-client-api-*.jar")
    version = hadoop.stem.rpartition("-")[2]
    settings = {
        "spark.jars.packages": ",".join((*PACKAGES, f"{AWS}:{version}")),
        "spark.jars.ivy": str(jars.absolute()),
        "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension,"
        "org.apache.iceberg.spark.extensions.IcebergSparkSessionExtensions",
        "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
        "spark.sql.catalog.ice": "org.apache.iceberg.spark.SparkCatalog",
        "spark.sql.catalog.ice.type": "hadoop",
        "spark.sql.catalog.ice.warehouse": str(folder / "ice"),
        "spark.sql.warehouse.dir": str(folder / "warehouse"),
        "spark.hadoop.fs.s3a.endpoint": s3["endpoint"],
        "spark.hadoop.fs.s3a.access.key": s3["access_key_id"],
        "spark.hadoop.fs.s3a.secret.key": s3["secret_access_key"],
        "spark.hadoop.fs.s3a.endpoint.region": s3["region"],
        "spark.hadoop.fs.s3a.path.style.access": "true",
        "spark.ui.enabled": "false",
        "spark.log.level": "ERROR",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.sql.shuffle.partitions": "2",
    }
    builder: Any = SparkSession.builder
    spark: SparkSession = builder.master("local[2]").config(map=settings).getOrCreate()
    register(spark)
    return spark


def counted(frame: DataFrame, column: str = "uri") -> Counter[str]:
    """Count the rows of each array."""
    rows = frame.groupBy(column).count().collect()
    return Counter({row[0]: row[1] for row in rows})


def commits_of(root: Path) -> Counter[str]:
    """Count the commits of each array by a plain loop."""
    arrays = (path.parent for path in root.rglob("__schema"))
    return Counter({str(one): len(ct.open_log(one).commits()) for one in arrays})


def show(words: str) -> None:
    print(f"shown: {words}", flush=True)


def tables(spark: SparkSession, maker: FleetMaker, folder: Path) -> None:
    """The tables of the pipeline, by Delta's own reader and writer."""
    root, out = folder / "root", folder / "out"
    job = Job(options=Options(roots=(str(root),)), out=str(out), since_last=True)
    run(spark, job)
    first = commits_of(root)
    for name in ("arrays", "commits", "conditions", "fragments", "findings", "operations"):
        spark.read.format("delta").load(str(out / name)).createOrReplaceTempView(name)
    assert counted(spark.table("commits")) == first
    count = spark.sql(f"SELECT count(*) FROM delta.`{out}/commits` WHERE t1 > 0")
    assert count.collect()[0][0] == first.total()
    show("the tables, by spark.read.format('delta') and in SQL")
    maker.commit(root / "a-1", 7, uuid="1" * 32)
    run(spark, job)
    now = counted(spark.read.format("delta").load(str(out / "commits")))
    assert now == commits_of(root) != first
    before = spark.sql(f"SELECT * FROM delta.`{out}/commits` VERSION AS OF 1")
    assert counted(before) == first
    show("time travel")
    spark.sql("CREATE TABLE mine (uri STRING, code STRING, path STRING, seen INT) USING delta")
    merge = (
        f"MERGE INTO mine USING delta.`{out}/findings` f ON mine.uri = f.uri "
        "AND mine.code = f.code AND mine.path = f.path "
        "WHEN MATCHED THEN UPDATE SET seen = seen + 1 "
        "WHEN NOT MATCHED THEN INSERT (uri, code, path, seen) VALUES (f.uri, f.code, f.path, 1)"
    )
    findings = spark.read.format("delta").load(str(out / "findings")).count()
    for seen in (1, 2):
        spark.sql(merge)
        assert [row[0] for row in spark.sql("SELECT DISTINCT seen FROM mine").collect()] == [seen]
    assert spark.table("mine").count() == findings > 0
    show("MERGE of findings into a table of the user's")
    for name in ("commits", "listings"):
        spark.sql(f"OPTIMIZE delta.`{out}/{name}`")
    maker.commit(root / "a-2", 7, uuid="2" * 32)
    told = run(spark, job)
    assert told.unchanged >= told.totals.arrays - 2
    assert counted(spark.read.format("delta").load(str(out / "commits"))) == commits_of(root)
    show("OPTIMIZE between two runs")


def in_a_bucket(spark: SparkSession, root: Path, s3: S3Server, bucket: str) -> None:
    """Tables that lie in a bucket, read through hadoop-aws."""
    options = Options(roots=(str(root),))
    run(spark, Job(options=options, out=f"{bucket}/out", out_storage=s3.options))
    place = f"{bucket.replace('s3://', 's3a://')}/out/commits"
    assert counted(spark.read.format("delta").load(place)) == commits_of(root)
    show("tables in a bucket, by hadoop-aws")


def written(spark: SparkSession, root: Path, folder: Path) -> None:
    """The data source, written by Spark's own writers."""
    source = spark.read.format("chronotile").option("table", "commits").load(str(root))
    source.write.format("delta").save(str(folder / "copied"))
    copied = spark.read.format("delta").load(str(folder / "copied"))
    source.writeTo("ice.lake.copied").create()
    assert counted(copied, "array") == counted(spark.table("ice.lake.copied"), "array")
    assert counted(copied, "array") == commits_of(root)
    show("the data source into Delta by write, and into Iceberg by writeTo")


def stream(spark: SparkSession, folder: Path, *, once: bool) -> None:
    """Stream the commits into both tables, until all is read or this process is killed."""
    spark.sql("CREATE NAMESPACE IF NOT EXISTS ice.lake")
    columns = "array STRING, name STRING, kind STRING, t1 BIGINT"
    spark.sql(f"CREATE TABLE IF NOT EXISTS ice.lake.streamed ({columns}) USING iceberg")
    queries = []
    for sink in SINKS:
        options = {"table": "commits", "state": str(folder / "state" / sink)}
        source = spark.readStream.format("chronotile").options(**options).schema(columns)
        writer = source.load(str(folder / "root")).writeStream.format(sink)
        writer = writer.option("checkpointLocation", str(folder / "checkpoint" / sink))
        how: dict[str, Any] = {"availableNow": True} if once else {"processingTime": "1 second"}
        writer = writer.trigger(**how)
        into_delta = sink == "delta"
        path = str(folder / "streamed")
        queries.append(writer.start(path) if into_delta else writer.toTable("ice.lake.streamed"))
    for query in queries:
        query.awaitTermination(None if once else 600)


def streams(jars: Path, maker: FleetMaker, folder: Path, s3: dict[str, str]) -> None:
    """Kill a driver again and again while commits come in."""
    root, number = folder / "root", 0
    for _ in range(KILLS):
        words = [sys.executable, "-m", "bench.jars", str(jars), "--stream", str(folder)]
        words += [f"--endpoint={s3['endpoint']}"]
        process = subprocess.Popen(words, stdout=subprocess.DEVNULL, start_new_session=True)
        done = folder / "checkpoint"
        seen = len(list(done.rglob("offsets/[0-9]*")))
        until = time.monotonic() + 300
        while len(list(done.rglob("offsets/[0-9]*"))) < seen + 4 and time.monotonic() < until:
            number += 1
            maker.commit(root / f"a-{number % 4}", 100 + number, uuid=f"{number:032x}")
            time.sleep(0.5)
            assert process.poll() is None, "the stream ended"
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("jars", type=Path)
    parser.add_argument(
        "--stream", type=Path, metavar="FOLDER", help="only stream, in this process"
    )
    parser.add_argument("--endpoint", default="http://127.0.0.1:1")
    chosen = parser.parse_args()
    os.environ["PYSPARK_PYTHON"] = sys.executable
    if chosen.stream is not None:
        spark = started(chosen.jars, chosen.stream, options_for(chosen.endpoint))
        stream(spark, chosen.stream, once=False)
        return
    with tempfile.TemporaryDirectory(prefix="jars-") as place, s3_server() as s3:
        folder = Path(place)
        maker = FleetMaker(make_template(folder / "template"))
        for number in range(12):
            maker.array(folder / "root" / f"a-{number}", 30, seed=number, deletes=2, loose=number)
        maker.array(folder / "root" / "loose", 120, seed=99, loose=120)
        age(folder / "root")
        streams(chosen.jars, maker, folder, s3.options)
        spark = started(chosen.jars, folder, s3.options)
        # Spark 4.1: the first run after a kill may end with the batch that was broken off.
        for _ in range(2):
            stream(spark, folder, once=True)
        expected = commits_of(folder / "root")
        delta = spark.read.format("delta").load(str(folder / "streamed"))
        for frame in (delta, spark.table("ice.lake.streamed")):
            assert counted(frame, "array") == expected
            assert frame.select("array", "name", "kind").distinct().count() == expected.total()
        show(f"a stream into Delta and Iceberg, killed {KILLS} times: each commit once")
        written(spark, folder / "root", folder)
        tables(spark, maker, folder)
        in_a_bucket(spark, folder / "root", s3, s3.make_bucket("jars"))
        spark.stop()


if __name__ == "__main__":
    main()
