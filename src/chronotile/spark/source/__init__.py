"""The data source `chronotile`: tables as batches.

In: options and filters of Spark. Out: rows in Arrow batches, divided among tasks. `data_source` is
what Spark loads.
"""
