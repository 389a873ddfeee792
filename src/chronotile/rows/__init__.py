"""Rows: what an open should see, what changed, and updates that are carried out.

In: a log. Out: rows as Arrow batches, and the commits that wrote, changed or removed them. The only
room that asks the engine; `engine.py` alone loads it, and only when rows are asked for.
"""
