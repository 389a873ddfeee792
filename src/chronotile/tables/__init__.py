"""Tables: what the arrays of a fleet hold, as Arrow tables.

In: the log of an array, or roots of arrays. Out: tables with fixed columns, also as Parquet files.
Spark, the command line and the page of a fleet show these. Knows nothing of Spark.
"""
