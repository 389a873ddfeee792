"""The cells of an array, as the engine reads and writes them.

In: an array, and fragments or a window of it. Out: batches of cells as they were written, and a
fragment that is written aside. Only `engine` talks to TileDB. Knows nothing of updates.
"""
