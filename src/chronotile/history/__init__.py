"""The history of one array: all that its commit log says, read once.

In: a store. Out: commit records as columns in time order, vacuum files, schemas, and what was
damaged. Knows nothing of windows: `visibility` does.
"""
