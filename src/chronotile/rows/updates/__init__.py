"""Deletes and updates, played on batches of cells in the order of their times.

In: batches of cells, and the changes in force. Out: the rows as they should be seen. Reads nothing:
the other modules than `play_changes` and `played_batch` find the rows that need playing.
"""
