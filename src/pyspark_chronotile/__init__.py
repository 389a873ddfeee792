"""Lets Spark find the data source `chronotile` by itself.

In: nothing. Out: `DefaultSource`. Spark imports every top-level module whose name starts with
`pyspark_`, and registers its class `DefaultSource`.
"""

from chronotile.fleet.data_source import ChronotileSource as DefaultSource

__all__ = ["DefaultSource"]
