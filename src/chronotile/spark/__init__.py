"""Commit logs of whole fleets as Spark tables.

In: roots of arrays. Out: the data source `chronotile`, for batches and streams, and the pipeline.
Nothing here is loaded by `import chronotile`.

    chronotile.spark.register(spark)
    spark.read.format("chronotile").option("table", "commits").load("s3://lake/arrays")
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["register"]


def register(spark: SparkSession) -> None:
    """Makes the format `chronotile` known to a session.

    Spark finds it by itself where this package is installed; this is for sessions that were
    told not to look, or that started before.
    """
    from chronotile.spark.source import ChronotileSource

    spark.dataSource.register(ChronotileSource)
