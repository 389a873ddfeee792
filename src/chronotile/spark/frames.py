"""Data frames whose rows this package makes, on classic Spark and on Spark Connect alike.

In: a session, items, and functions that run in tasks. Out: data frames, and what sinks leave. Both
are data sources of Spark: a reader has one partition an item, so that a task gets its own item and
no other; a writer gets the rows of a partition. Knows nothing of what the rows mean.
"""

from __future__ import annotations

import gc
import json
import uuid
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any, TypeVar

import pyarrow as pa
from pyspark.sql.datasource import (
    DataSource,
    DataSourceArrowWriter,
    DataSourceReader,
    InputPartition,
    WriterCommitMessage,
)
from pyspark.sql.pandas.types import from_arrow_schema

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType

    from chronotile.storage.store import Store

T = TypeVar("T")

_RESULT = pa.schema([("item", pa.int64()), ("result", pa.string())])


def is_connect(spark: SparkSession) -> bool:
    """Tell whether the session is one of Spark Connect."""
    return type(spark).__module__.startswith("pyspark.sql.connect")


def rows_in_tasks(
    spark: SparkSession,
    items: Sequence[T],
    make: Callable[[T], Iterable[pa.RecordBatch]],
    schema: pa.Schema,
) -> DataFrame:
    """Make a data frame of what a function makes of each item, in a task each.

    Task n has item n.
    """

    class Tasks(_Source):
        def schema(self) -> StructType:
            return from_arrow_schema(schema)

        def reader(self, schema: StructType) -> DataSourceReader:  # noqa: ARG002 - Spark's form
            self.is_planned = True
            return _ItemReader(make, items)

    return spark.read.format(_registered(spark, Tasks)).load()


def in_tasks(
    spark: SparkSession, items: Sequence[T], work: Callable[[int, T], str]
) -> list[tuple[int, str]]:
    """Call a function with the number of each item and the item, in a task each."""
    numbered = list(enumerate(items))

    def make(pair: tuple[int, T]) -> Iterator[pa.RecordBatch]:
        number, item = pair
        yield pa.record_batch([[number], [work(number, item)]], schema=_RESULT)

    frame = rows_in_tasks(spark, numbered, make, _RESULT)
    return [(int(row[0]), str(row[1])) for row in frame.collect()]


def sink(
    frame: DataFrame,
    work: Callable[[Iterator[pa.RecordBatch]], list[Any]],
    store: Store,
    path: str,
) -> list[Any]:
    """Hand the rows of each partition to a function; give what it returns, partition by partition.

    Args:
        frame: The rows.
        work: The function; what it returns can be JSON.
        store: Where the sink leaves that.
        path: The file that it leaves.
    """

    class Sink(_Source):
        def writer(self, *_: object, **__: object) -> DataSourceArrowWriter:
            self.is_planned = True
            return _Sink(work, store, path)

    frame.write.format(_registered(frame.sparkSession, Sink)).mode("append").save()
    return [one for part in json.loads(store.read(path)) for one in part]


@cache
def keep_modules() -> None:
    """Exempt what a worker has loaded from the search for garbage; only the first call does.

    A worker of Spark searches after every task. All modules together take 30 ms of that, and are
    never garbage.
    """
    gc.freeze()


class _Source(DataSource):
    """A data source for one job; a task that gets it along gets nothing of the job's items."""

    label = ""
    is_planned = False

    @classmethod
    def name(cls) -> str:
        return cls.label

    def __reduce__(self) -> tuple[Any, ...]:
        return _made, (_Source if self.is_planned else type(self),)


def _made(source: type[_Source]) -> _Source:
    return source({})


def _registered(spark: SparkSession, source: type[_Source]) -> str:
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
    """What a task of a sink returned."""

    value: list[Any]


class _Sink(DataSourceArrowWriter):
    def __init__(
        self,
        work: Callable[[Iterator[pa.RecordBatch]], list[Any]],
        store: Store,
        path: str,
    ) -> None:
        self._work, self._store, self._path = work, store, path

    def write(self, iterator: Iterator[pa.RecordBatch]) -> _Left:
        return _Left(self._work(iterator))

    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        left = [one.value for one in messages if isinstance(one, _Left)]
        self._store.put_if_absent(self._path, json.dumps(left).encode())
