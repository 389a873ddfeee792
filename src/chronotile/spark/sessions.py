"""Spark sessions for the command line.

In: a master, and settings. Out: a session that can run the pipeline, and the progress of its
jobs. A session that somebody else started is used as it is, and left running.
"""

from __future__ import annotations

import os
import sys
import threading
import uuid
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, TypeVar

from pyspark.sql import SparkSession

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from pyspark import SparkContext

T = TypeVar("T")
R = TypeVar("R")

_LOCAL = {
    "spark.ui.enabled": "false",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.ui.showConsoleProgress": "false",
    # The JVM only hands out tasks here: compiling it to the last costs a core that has work.
    "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
}
_POLL_S = 0.2


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


def run_job(
    spark: SparkSession,
    work: Callable[[T], R],
    items: Sequence[T],
    progress: Callable[[int, int], None] | None = None,
) -> list[R]:
    """Does something to each item, a task each, and gives what came of it, in order.

    Args:
        spark: The session.
        work: A function that can be pickled.
        items: What it is given.
        progress: Called now and then with (tasks done, tasks in all).
    """
    if not items:
        return []
    context = spark.sparkContext
    group = f"chronotile-{uuid.uuid4().hex}"
    context.setJobGroup(group, "chronotile", interruptOnCancel=False)
    over = threading.Event()
    watcher = threading.Thread(
        target=_watch, args=(context, group, len(items), progress, over), daemon=True
    )
    if progress is not None:
        watcher.start()
    try:
        found: list[R] = context.parallelize(items, len(items)).map(work).collect()
    except BaseException:
        context.cancelJobGroup(group)
        raise
    finally:
        context.setLocalProperty("spark.jobGroup.id", None)  # type: ignore[arg-type]  # unsets it
        over.set()
        if progress is not None:
            watcher.join()
    if progress is not None:
        progress(len(items), len(items))
    return found


def _watch(
    context: SparkContext,
    group: str,
    total: int,
    progress: Callable[[int, int], None],
    over: threading.Event,
) -> None:
    tracker = context.statusTracker()
    while not over.wait(_POLL_S):
        done = 0
        for job in tracker.getJobIdsForGroup(group):
            info = tracker.getJobInfo(job)
            for stage in info.stageIds if info else ():
                details = tracker.getStageInfo(stage)
                done += details.numCompletedTasks if details else 0
        progress(min(done, total), total)
