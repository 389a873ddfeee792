"""Visibility: what an open at a window sees, and why.

In: a history. Out: the rule that decides on each object, as views, lifelines and explanations. Only
`rules` holds the rules. Touches no storage, and knows no clock.
"""
