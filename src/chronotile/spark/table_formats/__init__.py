"""The tables of a run in open formats: Delta and Iceberg.

In: the Parquet files of a run. Out: one commit a table. `open_tables` is its door.
"""
