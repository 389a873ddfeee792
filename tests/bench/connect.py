"""The pipeline and the data source on Spark Connect: `make connect`.

In: nothing. Out: a line on standard output, or an error. Starts a Connect server on this machine,
on loopback, and holds what the pipeline writes through it to what a plain loop over the arrays
gives. It is no test, as Connect's client needs pandas and gRPC, which nothing else here does.
"""

from __future__ import annotations

import os
import sys
import tempfile
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyspark.sql import SparkSession
from support.fleets import age, make_fleet
from support.stored_tables import stored

import chronotile as ct
from chronotile import cli
from chronotile.fleet import plan as fleet_plan
from chronotile.fleet import register
from chronotile.fleet.array_tables import SCHEMAS, ArrayTables
from chronotile.fleet.find_arrays import find_arrays
from chronotile.fleet.options import Options
from chronotile.fleet.run_pipeline import Job, run
from chronotile.fleet.session import is_connect

ARRAYS = 30


def rows(table: pa.Table, name: str) -> list[str]:
    """The rows of a table, in an order of their own."""
    return sorted(map(repr, table.select(SCHEMAS[name].names).to_pylist()))


def main() -> None:
    os.environ["PYSPARK_PYTHON"] = sys.executable
    os.environ["SPARK_LOCAL_IP"] = "127.0.0.1"
    builder: Any = SparkSession.builder
    spark: SparkSession = builder.remote("local[2]").getOrCreate()
    assert is_connect(spark)
    with tempfile.TemporaryDirectory(prefix="connect-") as folder:
        root, out = Path(folder, "fleet"), Path(folder, "out")
        make_fleet(root, ARRAYS, 40)
        age(root)
        logs = [ct.open_log(uri) for uri in find_arrays(str(root)).uris]
        expected = {
            name: rows(pa.concat_tables([ArrayTables(log).table(name) for log in logs]), name)
            for name in SCHEMAS
        }
        for in_driver in (fleet_plan.IN_DRIVER, 3):
            setattr(fleet_plan, "IN_DRIVER", in_driver)  # noqa: B010 - the search by tasks too
            job = Job(options=Options(roots=(str(root),)), out=str(out), since_last=True)
            told = run(spark, job)
            assert told.totals.arrays == ARRAYS, told
            for name in SCHEMAS:
                assert rows(stored(out / name), name) == expected[name], name
        assert told.unchanged == ARRAYS, told
        call = ["pipeline", str(root), "--out", str(out), "--since-last", "--fail-on", "never"]
        assert cli.main(call) == 0
        register(spark)
        given = f"table 'arrays', path '{root}'"
        spark.sql(f"CREATE TEMPORARY VIEW fleet USING chronotile OPTIONS ({given})")
        assert spark.sql("SELECT count(*) FROM fleet").collect()[0][0] == ARRAYS
    spark.stop()
    print(f"on Connect: {ARRAYS} arrays, {len(SCHEMAS)} tables equal to a plain loop, twice")


if __name__ == "__main__":
    main()
