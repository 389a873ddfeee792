"""Commit logs of whole fleets: finding arrays, tables, the Spark source, streams, the pipeline.

In: roots of arrays. Out: tables with fixed columns, in memory or as Delta tables; the data source
`chronotile`, for batches and streams; the pipeline, with Spark or without, and maintenance by
policy. `import chronotile` loads nothing of this, and only the modules marked * need Spark.

    find_arrays, flat_listing, inventory       which arrays there are
    check_all                                  findings on all of them
    array_tables                               one array as rows of tables
    fleet_without_spark                        tables in memory, and as plain Parquet
    list_places, sql_query                     what is below a place, and questions about it
    options, shares, read_share                what a task reads, and how
    change_table*, data_source*                the data source
    stream_state, stream*                      the same as a stream
    session*, surviving_tasks                  jobs that one bad array cannot end
    delta_store                                where the tables are, and how they are committed
    plan, unchanged_arrays, read_part, run_summary, run_pipeline      the pipeline
    policy, maintenance                        what may be done to which arrays, and doing it

    chronotile.fleet.register(spark)
    spark.read.format("chronotile").option("table", "commits").load("s3://lake/arrays")
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["register"]


def register(spark: SparkSession) -> None:
    """Register the format `chronotile` with a session; a second time changes nothing.

    Spark finds an installed format by itself; a session that started before the installation, or
    that is set not to look for formats, needs this.
    """
    from pyspark.errors import AnalysisException

    from chronotile.fleet.data_source import ChronotileSource

    try:
        spark.dataSource.register(ChronotileSource)
    except AnalysisException as error:
        # Spark 4.0 refuses a format that it has found by itself.
        if "ALREADY_EXISTS" not in str(error):
            raise
