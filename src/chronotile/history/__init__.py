"""The history of one array: its whole commit log, read once.

In: a store. Out: commit records as columns in time order, vacuum files, schemas, and the damage
found. Knows nothing of windows: `visibility` does.
"""
