"""Spark sessions for the command line.

In: a master, and settings. Out: a session that can run the pipeline. A session that is running
already is used as it is, and left running.
"""

from __future__ import annotations

import os
import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from pyspark.sql import SparkSession

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

_LOCAL = {
    "spark.ui.enabled": "false",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.ui.showConsoleProgress": "false",
    # The JVM only hands out tasks here: full compilation costs a core that has other work.
    "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
}


@contextmanager
def session(
    master: str | None = None, settings: Mapping[str, str] | None = None
) -> Iterator[SparkSession]:
    """Yields the active session, or starts one and stops it at the end.

    Args:
        master: Spark's master. The default is the one of `spark-submit`, or all cores of this
            machine.
        settings: Further settings of Spark.
    """
    active = SparkSession.getActiveSession()
    if active is not None:
        yield active
        return
    submitted = "PYSPARK_GATEWAY_PORT" in os.environ
    master = master or (None if submitted else "local[*]")
    builder: Any = SparkSession.builder.appName("chronotile")
    if master is not None:
        builder = builder.master(master)
    if master is not None and master.startswith("local"):
        # Workers find this package where this process found it.
        os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
        builder = builder.config(map=_LOCAL)
    started: SparkSession = builder.config(map=dict(settings or {})).getOrCreate()
    started.sparkContext.setLogLevel("ERROR")
    try:
        yield started
    finally:
        started.stop()
