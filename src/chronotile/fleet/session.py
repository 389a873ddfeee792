"""Spark sessions for the command line, and data frames whose rows this package makes.

In: a master, and settings; items, and functions that run in tasks. Out: a session, or one error at
once where Spark tries for a minute and ends in pages of Java; data frames, and what sinks leave, on
classic Spark and on Spark Connect alike. A session that is running already is used as it is, and
left running.

Frames and sinks are data sources of Spark: a reader has one partition an item, so that a task gets
its own item and no other; a writer gets the rows of a partition, and commits on the driver.
"""

from __future__ import annotations

import gc
import os
import re
import socket
import sys
import uuid
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any, TypeVar

from pyspark.sql import SparkSession
from pyspark.sql.datasource import (
    DataSource,
    DataSourceArrowWriter,
    DataSourceReader,
    InputPartition,
    WriterCommitMessage,
)
from pyspark.sql.pandas.types import from_arrow_schema

from chronotile.errors import ChronotileError, StorageError
from chronotile.fleet.surviving_tasks import answer_in, answer_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    import pyarrow as pa
    from pyspark.sql import DataFrame
    from pyspark.sql.types import StructType

    from chronotile.storage.store import Store


WAIT_S = 10.0
_STANDALONE = re.compile(r"spark://([^/]+)/?")
_KUBERNETES = re.compile(r"k8s://(?:(https?)://)?([^/]+)/?.*")
_PORTS = {"https": 443, "http": 80}
_HADOOP = ("HADOOP_CONF_DIR", "YARN_CONF_DIR")


def is_local(master: str | None) -> bool:
    """Tell whether tasks run in processes of this machine, which have its folders.

    >>> is_local("local[2]"), is_local(None), is_local("spark://host:7077")
    (True, True, False)
    """
    return master is None or master.startswith("local")


def check_master(
    master: str, *, wait_s: float = WAIT_S, environ: Mapping[str, str] = os.environ
) -> None:
    """Refuse a master that does not answer.

    >>> check_master("yarn", environ={})
    Traceback (most recent call last):
    chronotile.errors.StorageError: yarn: expected HADOOP_CONF_DIR or YARN_CONF_DIR, found neither
    """
    if master == "yarn" and not any(environ.get(name) for name in _HADOOP):
        raise StorageError(master, f"expected {' or '.join(_HADOOP)}, found neither")
    causes = []
    for host, port in _addresses(master):
        try:
            with socket.create_connection((host, port), timeout=wait_s):
                return
        except OSError as cause:
            causes.append(f"{host}:{port}: {cause.strerror or cause}")
    if causes:
        problem = f"expected a Spark master that answers, found none ({'; '.join(causes)})"
        raise StorageError(master, problem)


def _addresses(master: str) -> Iterator[tuple[str, int]]:
    """Give the hosts and ports of a master, one of which has to answer."""
    standalone, kubernetes = _STANDALONE.fullmatch(master), _KUBERNETES.fullmatch(master)
    if standalone:
        places, fallback = standalone[1].split(","), 7077
    elif kubernetes:
        places, fallback = [kubernetes[2]], _PORTS[kubernetes[1] or "https"]
    else:
        return
    for place in places:
        host, colon, port = place.rpartition(":")
        if colon and port.isdigit():
            yield host.strip("[]"), int(port)
        else:
            yield place.strip("[]"), fallback


T = TypeVar("T")


def is_connect(spark: SparkSession) -> bool:
    """Tell whether the session is one of Spark Connect."""
    return type(spark).__module__.startswith("pyspark.sql.connect")


def rows_in_tasks(
    spark: SparkSession,
    items: Sequence[T],
    make: Callable[[T], Iterable[pa.RecordBatch]],
    schema: pa.Schema,
) -> DataFrame:
    """Make a data frame of what a function makes of each item; task n has item n."""

    class Tasks(_TaskSource):
        def schema(self) -> StructType:
            return from_arrow_schema(schema)

        def reader(self, schema: StructType) -> DataSourceReader:  # noqa: ARG002 - Spark's form
            self.is_planned = True
            return _ItemReader(make, items)

    return spark.read.format(_registered(spark, Tasks)).load()


def sink(
    frame: DataFrame,
    *,
    work: Callable[[Iterator[pa.RecordBatch]], Any],
    commit: Callable[[list[Any]], Any],
    store: Store,
    path: str,
) -> Any:
    """Hand the rows of each partition to `work`, in a task, and all that it returned to `commit`.

    Spark calls `commit` once, on its driver, with what the partitions returned, in their order:
    nothing twice, even if a task ran twice. What it returns, or its error, is left in a file.
    """

    class SinkSource(_TaskSource):
        def writer(self, *_: object, **__: object) -> DataSourceArrowWriter:
            self.is_planned = True
            return _Sink(work, commit, store, path)

    frame.write.format(_registered(frame.sparkSession, SinkSource)).mode("append").save()
    return answer_in(store.read(path).decode())


@cache
def keep_modules() -> None:
    """Exempt what a worker has loaded from the search for garbage; only the first call does.

    A worker of Spark searches after every task and step of a plan, and modules take 30 ms of that.
    """
    gc.freeze()


class _TaskSource(DataSource):
    """A data source for one job; a task that gets it along gets nothing of the job's items."""

    label = ""
    is_planned = False

    def __init__(self, options: dict[str, str]) -> None:
        super().__init__(options)
        keep_modules()

    @classmethod
    def name(cls) -> str:
        return cls.label

    def __reduce__(self) -> tuple[Any, ...]:
        return _made, (_TaskSource if self.is_planned else type(self),)


def _made(source: type[_TaskSource]) -> _TaskSource:
    return source({})


def _registered(spark: SparkSession, source: type[_TaskSource]) -> str:
    source.label = f"chronotile_{uuid.uuid4().hex}"
    spark.dataSource.register(source)
    return source.label


class _ItemReader(DataSourceReader):
    """Plans a task for each item."""

    def __init__(self, make: Callable[[Any], Iterable[pa.RecordBatch]], items: Sequence[Any]):
        self._make, self._items = make, items

    def partitions(self) -> Sequence[InputPartition]:
        return [InputPartition(item) for item in self._items]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        keep_modules()
        yield from self._make(partition.value)

    def __reduce__(self) -> tuple[Any, ...]:
        return _ItemReader, (self._make, ())


@dataclass
class _Left(WriterCommitMessage):
    """The answer of a task of a sink."""

    value: Any


class _Sink(DataSourceArrowWriter):
    def __init__(
        self,
        work: Callable[[Iterator[pa.RecordBatch]], Any],
        commit: Callable[[list[Any]], Any],
        store: Store,
        path: str,
    ) -> None:
        self._work, self._commit, self._store, self._path = work, commit, store, path

    def write(self, iterator: Iterator[pa.RecordBatch]) -> _Left:
        keep_modules()
        return _Left(self._work(iterator))

    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        left = [one.value for one in messages if isinstance(one, _Left)]
        self._store.put_if_absent(self._path, answer_of(self._commit, left).encode())
        keep_modules()


CONNECT = "sc://"
"""How the address of a server of Spark Connect begins."""

_LOCAL = {
    "spark.ui.enabled": "false",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.ui.showConsoleProgress": "false",
    "spark.log.level": "ERROR",
    # The JVM only hands out tasks here: full compilation costs a core that has other work.
    "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
}


@contextmanager
def session(
    master: str | None = None, settings: Mapping[str, str] | None = None
) -> Iterator[SparkSession]:
    """Yield the active session, or start one and stop it at the end.

    Args:
        master: Spark's master, or `sc://…` for a server of Spark Connect. The default is that of
            SPARK_REMOTE or of `spark-submit`, or all cores of this machine.
        settings: Further settings of Spark.

    Raises:
        StorageError: The master does not answer, or Spark does not start.
    """
    active = SparkSession.getActiveSession()
    if active is not None:
        ignored = ["master"] if master is not None else []
        ignored += [f"setting {name}" for name in settings or {}]
        if ignored:
            problem = f"a Spark session is running already: {ignored[0]} cannot be changed"
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
    """Tell what went wrong, out of pages of Java."""
    java = getattr(cause, "java_exception", None)
    text = str(java.toString() if java is not None else cause).strip()
    return text.partition("\n")[0][:500] or type(cause).__name__
