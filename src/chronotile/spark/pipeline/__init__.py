"""The pipeline: all tables of a fleet, run by run.

In: roots of arrays or an inventory, and a folder. Out: complete runs. `run_pipeline` is its door.
"""
