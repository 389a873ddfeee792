"""Tables of a run in a catalog that the Spark session has: Iceberg's, Delta's or another.

In: a table of a run. Out: the same rows, and a column `bucket`, in `CATALOG.NAMESPACE.TABLE`,
written by Spark's `writeTo`, which any catalog of Spark's second interface takes.
Spark reads the run's Parquet files, so the session must be able to read `--out`.

A property of the table names the run that it has. If that run is still there, the buckets whose
files differ are overwritten, in one commit; else the table is replaced. While an overwrite is under
way the property names no run, so that whatever comes after a crash is a replacement.
"""

from __future__ import annotations

import re
from functools import partial
from typing import TYPE_CHECKING, Any

from chronotile.spark.pipeline.runs import complete_runs, started_ms
from chronotile.spark.table_formats.open_tables import RUN, Committed, bare_name, run_of, told

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from pyspark.sql import DataFrame, SparkSession

    from chronotile.spark.pipeline.runs import Part
    from chronotile.spark.table_formats.open_tables import RunTable, Target

BUCKET = "bucket"
_OF_BUCKET = r"^part-(\d{4})-"
_NONE = "none"


def has_catalog(spark: SparkSession, catalog: str) -> bool:
    """Whether the session has a catalog of that name."""
    if not re.fullmatch(r"\w+", catalog):
        return False
    # The catalog that every session has takes no tables of this kind, unless another replaces it.
    return spark.conf.get(f"spark.sql.catalog.{catalog}", "") not in (None, "", "builtin")


def session_writer(spark: SparkSession, target: Target) -> Callable[[RunTable], Committed]:
    """What commits a table of a run by Spark.

    Raises:
        StorageError: The catalog does not answer.
    """
    with told(f"catalog {target.catalog}"):
        spark.sql(f"CREATE NAMESPACE IF NOT EXISTS `{target.catalog}`.`{target.namespace}`")
    return partial(_commit, spark=spark, target=target)


def _commit(table: RunTable, spark: SparkSession, target: Target) -> Committed:
    name = f"`{target.catalog}`.`{target.namespace}`.`{table.name}`"
    with told(name):
        held = _held_run(spark, name)
        parts = table.parts_after(started_ms(held or ""))
        before = _parts_of(table, held)
        if held is None or (before is None and not table.keeps):
            _replace(spark, name, target.format, table)
            return Committed(table.name, table.run.name, len(table.parts), 0)
        if table.keeps:
            seen = {row[0] for row in spark.table(name).select("run_id").distinct().collect()}
            added = [part for part in table.parts if run_of(part) not in seen]
            if added:
                _rows(spark, table, added).writeTo(name).append()
            return Committed(table.name, table.run.name, len(added), 0)
        old = {bare_name(part.path): part for part in before or ()}
        new = [part for path, part in parts.items() if path not in old]
        gone = [part for path, part in old.items() if path not in parts]
        if new or gone:
            _mark(spark, name, _NONE)
            _overwrite(spark, name, table, {part.bucket for part in (*new, *gone)})
        if held != table.run.name:
            _mark(spark, name, table.run.name)
    return Committed(table.name, table.run.name, len(new), len(gone))


def _held_run(spark: SparkSession, name: str) -> str | None:
    """The run that a table has; None if there is no table, "" if nobody knows."""
    if not spark.catalog.tableExists(name):
        return None
    rows = spark.sql(f"SHOW TBLPROPERTIES {name}").collect()
    return next((str(row[1]) for row in rows if row[0] == RUN), "")


def _parts_of(table: RunTable, held: str | None) -> tuple[Part, ...] | None:
    """The files of the run that a table has, if that run is still there."""
    for run in complete_runs(table.run):
        if run.name == held:
            return tuple(part for part in run.parts() if part.table == table.name and part.rows)
    return None


def _replace(spark: SparkSession, name: str, format_: str, table: RunTable) -> None:
    rows: Any = _rows(spark, table, table.parts).writeTo(name).using(format_)
    writing = rows.tableProperty(RUN, table.run.name).partitionedBy(_column(BUCKET))
    writing.createOrReplace()


def _overwrite(spark: SparkSession, name: str, table: RunTable, buckets: set[int]) -> None:
    """Replaces the rows of some buckets."""
    rows = _rows(spark, table, [part for part in table.parts if part.bucket in buckets])
    rows.writeTo(name).overwrite(_column(BUCKET).isin(*sorted(buckets)))


def _rows(spark: SparkSession, table: RunTable, parts: Iterable[Part]) -> DataFrame:
    """The rows of some files, with the bucket that the name of each tells."""
    from pyspark.sql import functions
    from pyspark.sql.pandas.types import from_arrow_schema

    schema = from_arrow_schema(table.schema)
    uris = [table.run.store().uri_of(part.path) for part in parts]
    if not uris:
        return spark.createDataFrame([], schema).withColumn(BUCKET, functions.lit(-1))
    found = functions.regexp_extract("_metadata.file_name", _OF_BUCKET, 1)
    bucket = functions.when(found == "", functions.lit(-1)).otherwise(found.cast("int"))
    return spark.read.schema(schema).parquet(*uris).withColumn(BUCKET, bucket)


def _column(name: str) -> Any:
    from pyspark.sql import functions

    return functions.col(name)


def _mark(spark: SparkSession, name: str, run: str) -> None:
    spark.sql(f"ALTER TABLE {name} SET TBLPROPERTIES ('{RUN}' = '{run}')")
