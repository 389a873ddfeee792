"""Data frames whose rows this package makes, on classic Spark and on Spark Connect.

In: a session, and functions that run in tasks. Out: data frames, and rows. Connect has no RDDs, so
functions are sent by `mapInArrow` there; classic Spark would load pandas for that, which nothing
here needs, so there it is an RDD. Knows nothing of what the rows mean.
"""

from __future__ import annotations

import gc
from functools import cache
from typing import TYPE_CHECKING, Any

import pyarrow as pa

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from pyspark.sql import DataFrame, SparkSession

ROWS_IN_BATCH = 1 << 14


def is_connect(spark: SparkSession) -> bool:
    """Whether the session is one of Spark Connect."""
    return type(spark).__module__.startswith("pyspark.sql.connect")


def rows_in_tasks(
    spark: SparkSession,
    count: int,
    make: Callable[[int], Iterable[tuple[Any, ...]]],
    schema: pa.Schema,
) -> DataFrame:
    """A data frame of what a function makes of the numbers below `count`, each in a task.

    Task n has the number n.
    """
    if is_connect(spark):
        each = _on_batches(lambda rows: (row for (n,) in rows for row in make(n)), schema)
        return spark.range(0, count, 1, count).mapInArrow(each, _spark_schema(schema))
    numbers = spark.sparkContext.parallelize(range(count), count)
    return spark.createDataFrame(numbers.flatMap(make), _spark_schema(schema), verifySchema=False)


def collected(
    frame: DataFrame,
    work: Callable[[Iterator[tuple[Any, ...]]], Iterable[tuple[Any, ...]]],
    schema: pa.Schema,
) -> list[tuple[Any, ...]]:
    """What a function makes of the rows of each partition, brought to the driver."""
    if is_connect(frame.sparkSession):
        made = frame.mapInArrow(_on_batches(work, schema), _spark_schema(schema))
        return [tuple(row) for row in made.collect()]
    return list(frame.rdd.mapPartitions(lambda rows: work(map(tuple, rows))).collect())


def in_tasks(
    spark: SparkSession, count: int, work: Callable[[int], bytes]
) -> list[tuple[int, bytes]]:
    """What a function returns for each number below `count`, each in a task of that number."""
    if is_connect(spark):
        schema = pa.schema([("item", pa.int64()), ("result", pa.binary())])
        frame = rows_in_tasks(spark, count, lambda n: [(n, work(n))], schema)
        return [(int(row[0]), bytes(row[1])) for row in frame.collect()]

    def each(number: int) -> tuple[int, bytes]:
        keep_modules()
        return number, work(number)

    return list(spark.sparkContext.parallelize(range(count), count).map(each).collect())


@cache
def keep_modules() -> None:
    """Exempts what a worker has loaded from the search for garbage; only the first call does.

    A worker of Spark searches after every task. All modules together take 30 ms of that, and are
    never garbage.
    """
    gc.freeze()


def _on_batches(
    work: Callable[[Iterator[tuple[Any, ...]]], Iterable[tuple[Any, ...]]], schema: pa.Schema
) -> Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """A function of rows as one of Arrow batches."""

    def each(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        given = (
            row
            for batch in batches
            for row in zip(*(column.to_pylist() for column in batch.columns), strict=True)
        )
        waiting: list[tuple[Any, ...]] = []
        for row in work(given):
            waiting.append(row)
            if len(waiting) == ROWS_IN_BATCH:
                yield _batch(waiting, schema)
                waiting = []
        if waiting:
            yield _batch(waiting, schema)

    return each


def _batch(rows: list[tuple[Any, ...]], schema: pa.Schema) -> pa.RecordBatch:
    columns = zip(*rows, strict=True)
    arrays = [pa.array(column, field.type) for column, field in zip(columns, schema, strict=True)]
    return pa.record_batch(arrays, schema=schema)


def _spark_schema(schema: pa.Schema) -> Any:
    from pyspark.sql.pandas.types import from_arrow_schema

    return from_arrow_schema(schema)
