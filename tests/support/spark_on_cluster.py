"""Runs the pipeline on a master and two executor processes, to which something happens.

In: what happens, a fleet and a folder for output, on the command line. Out: the tables, and on
standard output a JSON document of what happened. A program of its own, as a process has one Spark
at a time.

    kill     one executor is killed in the middle
    freeze   one is stopped with a task in its hands, and goes on once the run is published
    poison   one array kills every process that reads it
    engineless  the executor has no engine, so it can read no rows
"""

from __future__ import annotations

import importlib.util
import json
import os
import signal
import sys
import time
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from deltalake import DeltaTable

from chronotile.fleet import register
from chronotile.fleet import run_pipeline as pipeline
from chronotile.fleet.array_tables import SCHEMAS
from chronotile.fleet.options import Options
from chronotile.fleet.read_part import Done, Task, run_task
from chronotile.fleet.run_pipeline import Job, run
from chronotile.fleet.run_summary import read_limit
from chronotile.fleet.session import session

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from pyspark.sql import SparkSession

MEMORY = {
    "spark.executor.memory": "512m",
    "spark.driver.memory": "512m",
    # As the driver has it: what runs once is not worth compiling.
    "spark.executor.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
}
IMPATIENT = {
    "spark.executor.heartbeatInterval": "500ms",
    "spark.network.timeout": "10s",
    "spark.network.timeoutInterval": "1s",
}


def parent_of(pid: int) -> int:
    return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])


def executor_pids(spark: SparkSession, least: int = 1) -> set[int]:
    """The processes of the executors: above each Python worker is its daemon, above that it.

    On a busy machine one executor may begin seconds after the other: until there are so many, we
    ask again.
    """

    def above(_: int) -> int:
        time.sleep(0.5)  # so that one executor cannot do all of it
        daemon = os.getppid()
        return int(Path(f"/proc/{daemon}/stat").read_text().rpartition(")")[2].split()[1])

    found: set[int] = set()
    while len(found) < least:
        found = set(spark.sparkContext.parallelize(range(4), 4).map(above).collect())
    return found


def replace_run_task(work: Callable[[Task], Done]) -> None:
    """Has the tasks of the pipeline do something else."""
    setattr(pipeline, "run_task", work)  # noqa: B010 - to a type checker it is no attribute


def kill(root: str, out: str) -> dict[str, Any]:
    with session("local-cluster[2,1,1024]", MEMORY) as spark:
        spark.sparkContext.setLogLevel("OFF")
        before = executor_pids(spark, least=2)
        killed: list[int] = []

        def kill_one(words: str, done: int, total: int) -> None:
            if words == "reading commit logs" and 0 < done < total and not killed:
                killed.append(min(before))
                os.kill(killed[0], signal.SIGKILL)

        options = Options(roots=(root,))
        summary = run(spark, Job(options=options, out=out), kill_one)
        document: dict[str, Any] = summary.to_json()
        document |= {"before": sorted(before), "killed": killed}
        document["after"] = sorted(executor_pids(spark))
    return document


def freeze(root: str, out: str) -> dict[str, Any]:
    """The executor, its Python daemon and the worker are stopped: a machine that stands still."""
    held, release = Path(f"{out}-held"), Path(f"{out}-release")
    late = Path(f"{out}-late")

    def hold_first(task: Task) -> Done:
        try:
            with held.open("x") as file:
                file.write(str(os.getpid()))
        except FileExistsError:
            return run_task(task)
        # On a busy machine Spark kills the frozen executor before the run is published, and the
        # kernel hangs up on its children: this one is to wake up all the same.
        signal.signal(signal.SIGHUP, signal.SIG_IGN)
        while not release.exists():
            time.sleep(0.02)
        done = run_task(task)
        late.write_text("\n".join(f"{one.table}/{one.path}" for one in done.files))
        signal.signal(signal.SIGHUP, signal.SIG_DFL)
        return done

    replace_run_task(hold_first)
    frozen: list[int] = []

    def stop(*_: object) -> None:
        if held.exists() and held.read_text() and not frozen:
            worker = int(held.read_text())
            daemon = parent_of(worker)
            frozen.extend((worker, daemon, parent_of(daemon)))
            for pid in frozen:
                os.kill(pid, signal.SIGSTOP)

    try:
        with session("local-cluster[2,1,1024]", MEMORY | IMPATIENT) as spark:
            spark.sparkContext.setLogLevel("OFF")
            options = Options(roots=(root,))
            document = run(spark, Job(options=options, out=out), stop).to_json()
            document["files"] = sorted(files_of(out))
            release.touch()
            os.kill(frozen[0], signal.SIGCONT)
            while not late.exists() or not late.read_text():
                time.sleep(0.05)
            document["late"] = late.read_text().split()
            document["files_after"] = sorted(files_of(out))
            go_on(frozen)
    finally:
        go_on(frozen)
    return document


def go_on(pids: list[int]) -> None:
    for pid in pids:
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGCONT)


def files_of(out: str) -> Iterator[str]:
    """The files that count, of all tables."""
    for name in SCHEMAS:
        for uri in DeltaTable(f"{out}/{name}").file_uris():
            yield str(Path(uri).relative_to(out))


def poison(root: str, out: str) -> dict[str, Any]:
    poisoned = "array-00007"

    def die(task: Task) -> Done:
        if any(place.uri.endswith(poisoned) for place in task.share.places(task.run)):
            os.kill(os.getpid(), signal.SIGKILL)
        return run_task(task)

    replace_run_task(die)
    with session("local-cluster[2,1,1024]", MEMORY) as spark:
        spark.sparkContext.setLogLevel("OFF")
        options = Options(roots=(root,))
        job = Job(options=options, out=out, max_unreadable=read_limit("1"))
        return run(spark, job).to_json()


def engineless(root: str, out: str) -> dict[str, Any]:
    """The driver has the engine, its executors do not: a package in their way fails to load."""
    blocker = Path(out, "tiledb")
    blocker.mkdir(parents=True)
    (blocker / "__init__.py").write_text("raise ImportError('no engine on this machine')\n")
    # Before all others on the path of the executors, and of nobody else.
    path = os.pathsep.join([out, *sys.path])
    own = {"spark.executorEnv.PYTHONPATH": path, "spark.task.maxFailures": "1"}
    with session("local-cluster[1,1,1024]", MEMORY | own) as spark:
        spark.sparkContext.setLogLevel("OFF")
        register(spark)
        source = spark.read.format("chronotile")
        document: dict[str, Any] = {
            "commits": source.option("table", "commits").load(root).count(),
            "driver": importlib.util.find_spec("tiledb.libtiledb") is not None,
        }
        try:
            source.option("table", "changes").load(root).collect()
        except Exception as error:
            document["error"] = str(error)
    return document


if __name__ == "__main__":
    what, *places = sys.argv[1:]
    works = {"kill": kill, "freeze": freeze, "poison": poison, "engineless": engineless}
    json.dump(works[what](*places), sys.stdout)
