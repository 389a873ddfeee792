"""Conditions: what a delete or an update says.

In: the payload of its tile, or a predicate as users type it. Out: a tree, its text and JSON,
whether a cell satisfies it, and its side effects. Knows no file and no window.
"""
