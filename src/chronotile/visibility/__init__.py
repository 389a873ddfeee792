"""Visibility: what an open at a window sees, and why.

In: a history. Out: the rule that decides on each object, as views, lifelines and explanations.
Touches no storage, knows no clock, and reads no cell.

    rules           the rules of arrays, and only here: fragments, deletes, schemas, metadata
    group_members   the rules of groups: the members at a window
    gaps            times that can no longer be read whole
    view            one window: fragments, deletes, updates, the schema
    lifelines       all windows: from when to when each fragment is visible
    explanation     each object at a window, with the rule that decided and the file behind it
"""
