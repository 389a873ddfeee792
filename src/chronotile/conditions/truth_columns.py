"""The truth of a condition for many rows at once.

In: a tree, and columns of cells as stored. Out: a mask of the rows that satisfy it, in one of the
two senses of `truth`, to which tests hold this fast path cell by cell. Knows no commit.

In the engine's sense a truth is carried through the tree as the engine carries its bitmap:

- A field that the fragment lacks, because it was added later, makes its comparison false, and also
  wipes out what stood before it in the same `or`.
- An `or` that stands directly in an `or` counts as an `and` with what stood before it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, assert_never

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from chronotile.conditions.masks import NO, YES, Mask, both, either, opposite
from chronotile.conditions.tree import AllOf, AnyOf, Compare, Condition, Not, Op, fold
from chronotile.conditions.truth import Cell, Sense, asks_for_null, leaf_truth
from chronotile.conditions.value_spans import is_plain_bytes, number

if TYPE_CHECKING:
    from collections.abc import Callable

    from chronotile.conditions.column import Column

_NUMPY: dict[Op, Any] = {
    Op.LT: np.less,
    Op.LE: np.less_equal,
    Op.GT: np.greater,
    Op.GE: np.greater_equal,
    Op.EQ: np.equal,
    Op.NE: np.not_equal,
}
_ARROW: dict[Op, Any] = {
    Op.LT: pc.less,
    Op.LE: pc.less_equal,
    Op.GT: pc.greater,
    Op.GE: pc.greater_equal,
    Op.EQ: pc.equal,
    Op.NE: pc.not_equal,
}


def column_truth(node: Compare, column: Column, sense: Sense) -> Mask:
    r"""Tell which cells satisfy one comparison, as `leaf_truth` does for one.

    >>> from chronotile.conditions.column import Column
    >>> from chronotile.format.datatypes import Datatype
    >>> from chronotile.format.schema import Field
    >>> a = Column(Field(name="a", datatype=Datatype.INT8), pa.array([2, 3, 4], pa.int8()))
    >>> column_truth(Compare(field="a", op=Op.GE, value=b"\x03"), a, Sense.STORED).tolist()
    [False, True, True]
    """
    asked, field = sense is Sense.PREDICATE, column.field
    if node.op.is_constant:
        if node.op is Op.ALWAYS_FALSE:
            return NO
        return YES if asked else opposite(column.nulls)
    if asked and asks_for_null(node, field):
        return column.nulls if node.op is Op.EQ else opposite(column.nulls)
    found = _numbers(node, column) if column.is_number else _bytes(node, column)
    return both(found, opposite(column.nulls))


def _numbers(node: Compare, column: Column) -> Mask:
    datatype, numbers = column.field.datatype, column.numbers
    if node.op.is_set:
        bits = np.dtype(f"<u{datatype.size}")
        fitting = [one for one in node.members if len(one) == datatype.size]
        among = np.isin(numbers.view(bits), np.frombuffer(b"".join(fitting), bits))
        return among if node.op is Op.IN else ~among
    certain = _by_bounds(node, column)
    if certain is not None:
        return certain
    found: Mask = _NUMPY[node.op](numbers, number(node.value, column.field))
    return found


def _by_bounds(node: Compare, column: Column) -> Mask | None:
    """The truth for all rows, if the least and the largest number tell it."""
    if column.bounds is None:
        return None
    # Most updates touch few rows: whole batches are out of their reach.
    value, compare = number(node.value, column.field), _NUMPY[node.op]
    low, high = column.bounds
    is_apart = value < low or value > high
    if is_apart or (node.op.is_order and compare(low, value) == compare(high, value)):
        return YES if compare(low, value) else NO
    return None


def certain_truth(node: Compare, column: Column) -> Mask | None:
    r"""The truth of a comparison for all rows, in either sense, where few looks tell it.

    >>> from chronotile.conditions.column import Column
    >>> from chronotile.format.datatypes import Datatype
    >>> from chronotile.format.schema import Field
    >>> a = Column(Field(name="a", datatype=Datatype.INT8), pa.array([2, 3, 4], pa.int8()))
    >>> bool(certain_truth(Compare(field="a", op=Op.GT, value=b"\x09"), a))
    False
    """
    if not column.is_number or column.nulls is not NO or node.op.is_set or node.op.is_constant:
        return None
    return _by_bounds(node, column) if node.value else None


def _bytes(node: Compare, column: Column) -> Mask:
    field, cells = column.field, column.cells
    if not is_plain_bytes(field, node.op):
        nulls = (Cell.NULL if one is None else one for one in cells.to_pylist())
        return np.array([leaf_truth(node, field, one, Sense.STORED) for one in nulls], bool)
    text = column.texts
    if node.op.is_set:
        among = pc.is_in(text, value_set=pa.array(node.members, pa.large_binary()))
        return np.asarray(among if node.op is Op.IN else pc.invert(among))
    found = _ARROW[node.op](text, pa.scalar(node.value, pa.large_binary()))
    return np.asarray(pc.fill_null(found, False))


def rows_asked_for(
    predicate: Condition,
    leaf: Callable[[Compare], Mask],
    certain: Callable[[Compare], Mask | None] = lambda _: None,
) -> Mask:
    """Mask of the rows that satisfy a flat predicate, as SQL means it: NULL is no match.

    `leaf` answers for one comparison, in the sense of a predicate; `certain` too, where that takes
    no look at each row: then what stands beside it may not matter.
    """

    def looked_at(node: Compare) -> Compare | Mask:
        found = certain(node)
        return node if found is None else found

    def joined(node: AllOf | AnyOf | Not, parts: list[Compare | Mask]) -> Compare | Mask:
        is_all = isinstance(node, AllOf)
        result: Mask = YES if is_all else NO
        if any(part is opposite(result) for part in parts):
            return opposite(result)
        for part in parts:
            mask = leaf(part) if isinstance(part, Compare) else part
            result = both(result, mask) if is_all else either(result, mask)
        return result

    # Flat is without `Not`: with NULL a comparison is false, and so is its negation.
    found = fold(predicate, looked_at, joined)
    return leaf(found) if isinstance(found, Compare) else found


def rows_kept(stored: Condition, leaf: Callable[[Compare], Mask | None]) -> Mask:
    """Mask of the rows that the engine keeps because of a stored condition.

    `leaf` answers for one comparison, in the engine's sense; None if the rows lack the field.
    """
    return _carried(stored, leaf, among_any=False, so_far=YES)


def _carried(
    node: Condition,
    leaf: Callable[[Compare], Mask | None],
    *,
    among_any: bool,
    so_far: Mask,
) -> Mask:
    match node:
        case Compare():
            found = leaf(node)
            if found is None:
                return NO
            return either(so_far, found) if among_any else both(so_far, found)
        case AllOf(parts=parts):
            truth = YES if among_any else so_far
            for part in parts:
                truth = _carried(part, leaf, among_any=False, so_far=truth)
            return either(so_far, truth) if among_any else truth
        case AnyOf(parts=parts):
            truth = NO
            for part in parts:
                truth = _carried(part, leaf, among_any=True, so_far=truth)
            return both(so_far, truth)
        case Not(part=part):
            truth = opposite(_carried(part, leaf, among_any=False, so_far=YES))
            return either(so_far, truth) if among_any else both(so_far, truth)
        case _:
            assert_never(node)
