"""Spark sessions for the command line.

In: a master, and settings. Out: a session that can run the pipeline. A session that somebody else
started is used as it is, and left running.
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
    # The JVM only hands out tasks here: compiling it to the last costs a core that has work.
    "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
}


@contextmanager
def session(
    master: str | None = None, settings: Mapping[str, str] | None = None
) -> Iterator[SparkSession]:
    """Gives the session that is there, or starts one and stops it in the end.

    Args:
        master: As Spark takes it. Without one, what `spark-submit` was given, or all cores of
            this machine.
        settings: Further settings of Spark.
    """
    found = SparkSession.getActiveSession()
    if found is not None:
        yield found
        return
    submitted = "PYSPARK_GATEWAY_PORT" in os.environ
    master = master or (None if submitted else "local[*]")
    builder: Any = SparkSession.builder.appName("chronotile")
    if master is not None:
        builder = builder.master(master)
    if master is not None and master.startswith("local"):
        # Workers must find this package: it is where this process found it.
        os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
        for name, value in _LOCAL.items():
            builder = builder.config(name, value)
    for name, value in (settings or {}).items():
        builder = builder.config(name, value)
    started: SparkSession = builder.getOrCreate()
    started.sparkContext.setLogLevel("ERROR")
    try:
        yield started
    finally:
        started.stop()
