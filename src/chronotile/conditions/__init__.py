"""Conditions: the deletes and updates of an array, as trees.

In: the payload of a tile, or a predicate as users type it. Out: a tree, its text and JSON, whether
a cell satisfies it, and its side effects. Knows no file and no window.

In reading order:

    tree              the nodes, negated and flattened
    codec             a tree as bytes, and back
    truth             which cells and rows satisfy it: as asked, and as the engine has it
    text              a tree as text and as JSON
    predicate_parser  text as a tree
    update_values     the values that an update sets
    stored_conditions a stored delete or update, with its predicate and its JSON
    side_effects      rows that a delete removes or keeps against the wish of its author
"""
