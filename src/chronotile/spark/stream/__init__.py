"""The data source `chronotile` as a stream.

In: options of Spark, and offsets. Out: new rows, batch by batch, each once. `reader` is what Spark
loads.
"""
