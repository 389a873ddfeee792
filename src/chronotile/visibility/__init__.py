"""Visibility: what an open at a window sees, and why.

In: a history. Out: for each object the rule that decides, as views, lifelines and explanations. The
rules stand in `rules` and nowhere else. Touches no storage, and knows no clock.
"""
