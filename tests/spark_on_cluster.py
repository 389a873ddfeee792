"""Runs the pipeline on a master and two executor processes, and kills one in the middle.

In: a fleet and a folder for output, on the command line. Out: the tables, and on standard output
a JSON document of what happened. A program of its own, as a process has one Spark at a time.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from chronotile.spark.options import Options
from chronotile.spark.pipeline import Job, run
from chronotile.spark.sessions import session

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def executor_pids(spark: SparkSession) -> set[int]:
    """The processes of the executors: above each Python worker is its daemon, above that it."""

    def above(_: int) -> int:
        time.sleep(0.5)  # so that one executor cannot do all of it
        daemon = os.getppid()
        return int(Path(f"/proc/{daemon}/stat").read_text().rpartition(")")[2].split()[1])

    return set(spark.sparkContext.parallelize(range(4), 4).map(above).collect())


def main(root: str, out: str) -> None:
    settings = {"spark.executor.memory": "512m", "spark.driver.memory": "512m"}
    with session("local-cluster[2,1,1024]", settings) as spark:
        spark.sparkContext.setLogLevel("OFF")
        before = executor_pids(spark)
        killed: list[int] = []

        def kill_one(words: str, done: int, total: int) -> None:
            if words == "reading commit logs" and 0 < done < total and not killed:
                killed.append(min(before))
                os.kill(killed[0], signal.SIGKILL)

        options = Options(roots=(root,), partition_bytes=60_000)
        summary = run(spark, Job(options=options, out=out), kill_one)
        document: dict[str, Any] = summary.to_json()
        document |= {"before": sorted(before), "killed": killed}
        document["after"] = sorted(executor_pids(spark))
    json.dump(document, sys.stdout)


if __name__ == "__main__":
    main(*sys.argv[1:])
