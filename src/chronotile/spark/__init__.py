"""Commit logs of whole fleets as Spark tables.

In: roots of arrays. Out: the data source `chronotile`, for batches and streams, and the pipeline.
`import chronotile` loads nothing of this.

    chronotile.spark.register(spark)
    spark.read.format("chronotile").option("table", "commits").load("s3://lake/arrays")
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["register"]


def register(spark: SparkSession) -> None:
    """Registers the format `chronotile` with a session.

    Spark finds an installed format by itself; a session that started before the installation, or
    that is set not to look for formats, needs this.
    """
    from chronotile.spark.source.data_source import ChronotileSource

    spark.dataSource.register(ChronotileSource)
