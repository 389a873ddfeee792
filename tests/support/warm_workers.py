"""Spark's daemon of Python workers, which has imported what every worker needs.

In: what Spark tells its own daemon. Out: workers forked from a process that has the package
already, so that a task begins at once. Spark starts this module in place of its own.
"""

from __future__ import annotations

import importlib

from pyspark.daemon import manager

for name in ("chronotile.fleet.run_pipeline", "chronotile.fleet.data_source"):
    importlib.import_module(name)

if __name__ == "__main__":
    manager()
