"""Spark sessions for the command line.

In: a master, and settings. Out: a session that can run the pipeline, or one error if there is none
to be had. A session that is running already is used as it is, and left running.
"""

from __future__ import annotations

import os
import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from pyspark.sql import SparkSession

from chronotile.errors import ChronotileError, StorageError
from chronotile.spark.frames import is_connect
from chronotile.spark.reachable_master import check_master, is_local

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

CONNECT = "sc://"
"""How the address of a server of Spark Connect begins."""

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
        master: Spark's master, or `sc://…` for a server of Spark Connect. The default is that of
            SPARK_REMOTE or of `spark-submit`, or all cores of this machine.
        settings: Further settings of Spark.

    Raises:
        StorageError: The master does not answer, or Spark does not start.
    """
    active = SparkSession.getActiveSession()
    if active is not None:
        ignored = ["--master or --remote"] if master is not None else []
        ignored += [f"--conf {name}" for name in settings or {}]
        if ignored:
            problem = f"expected no {ignored[0]}, found it with a session that is running already"
            raise ChronotileError("Spark", problem)
        yield active
        return
    submitted = "PYSPARK_GATEWAY_PORT" in os.environ
    master = master or os.environ.get("SPARK_REMOTE") or (None if submitted else "local[*]")
    builder: Any = SparkSession.builder.appName("chronotile")
    if master is not None and master.startswith(CONNECT):
        builder = builder.remote(master)
    elif master is not None:
        check_master(master)
        builder = builder.master(master)
    if master is not None and is_local(master):
        # Workers find this package where this process found it.
        os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
        builder = builder.config(map=_LOCAL)
    try:
        started: SparkSession = builder.config(map=dict(settings or {})).getOrCreate()
    except Exception as cause:  # Spark has many errors, of Java and of Python
        problem = f"expected Spark to start, found: {_first_reason(cause)}"
        raise StorageError(master or "spark-submit", problem) from cause
    if not is_connect(started):
        started.sparkContext.setLogLevel("ERROR")
    try:
        yield started
    finally:
        started.stop()


def master_of(spark: SparkSession, asked: str | None) -> str:
    """Tell where the tasks of a session run."""
    if asked is not None:
        return asked
    if is_connect(spark):
        return os.environ.get("SPARK_REMOTE", CONNECT)
    return str(spark.conf.get("spark.master", "local[*]"))


def _first_reason(cause: Exception) -> str:
    """What went wrong, out of pages of Java."""
    java = getattr(cause, "java_exception", None)
    text = str(java.toString() if java is not None else cause).strip()
    return text.partition("\n")[0][:500] or type(cause).__name__
