"""The truth of a condition for many rows at once.

In: a tree, and columns of cells as stored. Out: a mask of the rows that satisfy it, in one of the
two senses of `truth`, to which tests hold this fast path cell by cell. Knows no commit.

In the engine's sense a truth is carried through the tree as the engine carries its bitmap:

- A field that the fragment lacks, because it was added later, makes its comparison false, and also
  wipes out what stood before it in the same `or`.
- An `or` that stands directly in an `or` counts as an `and` with what stood before it.
"""

from __future__ import annotations

import functools
from functools import cached_property
from typing import TYPE_CHECKING, Any, TypeAlias, assert_never

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from chronotile.conditions.tree import AllOf, AnyOf, Compare, Condition, Not, Op, fold
from chronotile.conditions.truth import Cell, Sense, asks_for_null, leaf_truth
from chronotile.format.datatypes import Datatype

if TYPE_CHECKING:
    from collections.abc import Callable

    import numpy.typing as npt

    from chronotile.format.schema import Field

Mask: TypeAlias = "npt.NDArray[np.bool_]"
"""One truth for each row, or a single one for all of them."""

YES: Mask = np.array(True)
NO: Mask = np.array(False)
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


class Column:
    """The cells of one field as stored: a number each, or bytes.

    >>> from chronotile.format.schema import Field
    >>> a = Column(Field(name="a", datatype=Datatype.INT8, nullable=True), pa.array([2, None, 4]))
    >>> a.nulls.tolist()
    [False, True, False]
    """

    def __init__(self, field: Field, cells: pa.Array) -> None:
        self.field = field
        self.cells = cells

    @cached_property
    def nulls(self) -> Mask:
        """Mask of the cells that are NULL."""
        return np.asarray(self.cells.is_null())

    @cached_property
    def numbers(self) -> npt.NDArray[Any]:
        """The cells as numbers; anything where they are NULL."""
        data = self.cells.buffers()[1]
        kind = np.dtype(f"<{self.field.datatype.code}")
        if data is None:
            return np.zeros(len(self.cells), kind)
        return np.frombuffer(data, kind, len(self.cells), self.cells.offset * kind.itemsize)

    def holds(self, raw: bytes) -> Mask:
        """Mask of the cells that hold a raw value; NULL and NaN are equal to themselves."""
        value = self._value(raw)
        if value is None:
            return self.nulls
        if not self.field.is_number:
            return np.asarray(pc.fill_null(pc.equal(self.cells, self._scalar(value)), False))
        same: Mask = self.numbers != self.numbers if value != value else self.numbers == value
        return same & ~self.nulls

    def with_value(self, mask: Mask, raw: bytes) -> Column:
        r"""Give a column whose cells hold a raw value where a mask says so.

        No bytes are NULL, if the field is nullable.

        >>> from chronotile.format.schema import Field
        >>> a = Column(Field(name="a", datatype=Datatype.INT8), pa.array([2, 3], pa.int8()))
        >>> a.with_value(np.array([True, False]), b"\x09").cells.to_pylist()
        [9, 3]
        """
        new = self._scalar(self._value(raw))
        return Column(self.field, pc.if_else(pa.array(mask), new, self.cells))

    def _value(self, raw: bytes) -> Any:
        if not raw and self.field.nullable:
            return None
        return _number(raw, self.field.datatype) if self.field.is_number else raw

    def _scalar(self, value: Any) -> pa.Scalar:
        return pa.scalar(value, self.cells.type)


def column_truth(node: Compare, column: Column, sense: Sense) -> Mask:
    r"""Tell which cells satisfy one comparison, as `leaf_truth` does for one.

    >>> from chronotile.format.schema import Field
    >>> a = Column(Field(name="a", datatype=Datatype.INT8), pa.array([2, 3, 4], pa.int8()))
    >>> column_truth(Compare(field="a", op=Op.GE, value=b"\x03"), a, Sense.STORED).tolist()
    [False, True, True]
    """
    asked, field = sense is Sense.PREDICATE, column.field
    if node.op.is_constant:
        if node.op is Op.ALWAYS_FALSE:
            return NO
        return YES if asked else ~column.nulls
    if asked and asks_for_null(node, field):
        return column.nulls if node.op is Op.EQ else ~column.nulls
    return (_numbers if field.is_number else _bytes)(node, column) & ~column.nulls


def _numbers(node: Compare, column: Column) -> Mask:
    datatype, numbers = column.field.datatype, column.numbers
    if node.op.is_set:
        bits = np.dtype(f"<u{datatype.size}")
        fitting = [one for one in node.members if len(one) == datatype.size]
        among: Mask = np.isin(numbers.view(bits), np.frombuffer(b"".join(fitting), bits))
        return among if node.op is Op.IN else ~among
    truth: Mask = _NUMPY[node.op](numbers, _number(node.value, datatype))
    return truth


def _number(raw: bytes, datatype: Datatype) -> Any:
    """Give the number that a comparison compares with; 0 for bytes of a wrong size."""
    size = datatype.size
    return np.frombuffer(raw if len(raw) == size else bytes(size), f"<{datatype.code}")[0]


def _bytes(node: Compare, column: Column) -> Mask:
    field, cells = column.field, column.cells
    is_char = field.datatype is Datatype.CHAR and not field.is_var and not node.op.is_set
    if field.datatype.code is not None or is_char:
        nulls = (Cell.NULL if one is None else one for one in cells.to_pylist())
        return np.array([leaf_truth(node, field, one, Sense.STORED) for one in nulls], bool)
    text = cells if field.is_var else cells.cast(pa.large_binary())
    if node.op.is_set:
        among = pc.is_in(text, value_set=pa.array(node.members, pa.large_binary()))
        return np.asarray(among if node.op is Op.IN else pc.invert(among))
    truth = _ARROW[node.op](text, pa.scalar(node.value, pa.large_binary()))
    return np.asarray(pc.fill_null(truth, False))


def rows_asked_for(predicate: Condition, leaf: Callable[[Compare], Mask]) -> Mask:
    """Mask of the rows that satisfy a flat predicate, as SQL means it: NULL is no match.

    `leaf` answers for one comparison, in the sense of a predicate.
    """

    def joined(node: AllOf | AnyOf | Not, parts: list[Mask]) -> Mask:
        # Flat is without `Not`: with NULL a comparison is false, and so is its negation.
        if isinstance(node, AllOf):
            return functools.reduce(np.logical_and, parts, YES)
        return functools.reduce(np.logical_or, parts, NO)

    return fold(predicate, leaf, joined)


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
            truth = leaf(node)
            if truth is None:
                return NO
        case AllOf(parts=parts):
            truth = YES if among_any else so_far
            for part in parts:
                truth = _carried(part, leaf, among_any=False, so_far=truth)
        case AnyOf(parts=parts):
            truth = NO
            for part in parts:
                truth = _carried(part, leaf, among_any=True, so_far=truth)
            return so_far & truth
        case Not(part=part):
            truth = ~_carried(part, leaf, among_any=False, so_far=YES)
        case _:
            assert_never(node)
    return so_far | truth if among_any else so_far & truth
