"""Conditions: what a delete or an update says.

In: the payload of its tile, or a predicate as users type it. Out: a tree, its text and JSON,
whether a row satisfies it, and what it does that nobody asked for. Knows no file and no window.
"""
