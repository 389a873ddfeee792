"""The truth of a condition: of one comparison for one cell, and of a tree for many rows at once.

In: a comparison or a tree, and cells as stored. Out: whether the author asked for a cell or row, or
whether the engine finds the condition true, with the engine's faults. Knows no commit.

The engine does this with a *stored* condition, as seen on libtiledb 2.30 for every op:

- A row stays if the stored condition is true; all others go.
- NULL makes each comparison false, `always_true` included. The author's comparison and its
  stored negation are then both false, so a delete also removes the NULL rows.
- NaN makes `<`, `<=`, `>`, `>=` and `==` false and `!=` true, as in IEEE 754. `in` and
  `not in` compare bytes: NaN is a member if its bytes are, and -0.0 is not 0.0.
- No bytes mean the empty string, never NULL: a stored `s != None` keeps no NULL row, and a
  stored `s == None` keeps the rows of ''.
- It compares text as unsigned bytes. Of a CHAR cell of fixed size it compares the first byte
  only, which is signed, as C's char is on x86-64; only `in` looks at the whole cell.
- A field that was added after the fragment was written makes its comparison false, and also
  wipes out what stood before it in the same `or`.
- An `or` that stands directly in an `or` counts as an `and` with what stood before it.

Columns are the fast path: the tests hold them to `leaf_truth`, cell by cell.
"""

from __future__ import annotations

import enum
import operator
import struct
from functools import cached_property, reduce
from typing import TYPE_CHECKING, Any, TypeAlias, assert_never

import numpy as np
import pyarrow as pa

from chronotile.conditions.tree import AllOf, AnyOf, Compare, Condition, Not, Op, fold
from chronotile.format import arrow_compute as pc
from chronotile.format.datatypes import Datatype

if TYPE_CHECKING:
    from collections.abc import Callable

    import numpy.typing as npt

    from chronotile.format.schema import Field

Mask: TypeAlias = "npt.NDArray[np.bool_]"
"""One truth for each row, or a single one for all of them."""
YES: Mask = np.array(True)
NO: Mask = np.array(False)

# Of numbers and of arrays of them; Python and numpy compare NaN as IEEE 754 says.
_COMPARISONS = {
    Op.LT: operator.lt,
    Op.LE: operator.le,
    Op.GT: operator.gt,
    Op.GE: operator.ge,
    Op.EQ: operator.eq,
    Op.NE: operator.ne,
}
_ARROW = {
    Op.LT: "less",
    Op.LE: "less_equal",
    Op.GT: "greater",
    Op.GE: "greater_equal",
    Op.EQ: "equal",
    Op.NE: "not_equal",
}
"""Comparison -> the function of Arrow."""


class Sense(enum.Enum):
    """One of the two truths."""

    PREDICATE = "what its author asked for"
    STORED = "what TileDB makes of the stored condition"


class Cell(enum.Enum):
    """A cell that holds no ordinary value."""

    ABSENT = "its fragment lacks the field"
    NULL = "NULL"


def asks_for_null(node: Compare, field: Field) -> bool:
    """Return True if the author of a comparison asks whether a cell is NULL.

    >>> from chronotile.format.schema import Field
    >>> a = Field(name="a", datatype=Datatype.INT8, nullable=True)
    >>> asks_for_null(Compare(field="a", op=Op.NE), a)
    True
    """
    is_empty = not node.value and not node.is_empty_text
    return is_empty and field.nullable and node.op in (Op.EQ, Op.NE)


def leaf_truth(node: Compare, field: Field, cell: bytes | Cell, sense: Sense) -> bool:
    """Return True if one cell satisfies one comparison.

    >>> from chronotile.format.schema import Field
    >>> s = Field(name="s", datatype=Datatype.STRING_UTF8, cell_val_num=2**32 - 1, nullable=True)
    >>> [leaf_truth(Compare(field="s", op=Op.EQ), s, Cell.NULL, sense) for sense in Sense]
    [True, False]
    """
    asked = sense is Sense.PREDICATE
    if node.op.is_constant:
        return node.op is Op.ALWAYS_TRUE and (asked or not isinstance(cell, Cell))
    if asked and asks_for_null(node, field):
        return (cell is Cell.NULL) is (node.op is Op.EQ)
    if isinstance(cell, Cell):
        return False
    if node.op.is_set:
        return (cell in node.members) is (node.op is Op.IN)
    return bool(_COMPARISONS[node.op](_key(field, cell), _key(field, node.value)))


def _key(field: Field, raw: bytes) -> int | float | bytes:
    """Read what the engine compares; 0 for bytes of a wrong size, which it refuses."""
    datatype = field.datatype
    if datatype is Datatype.CHAR and not field.is_var:
        return int.from_bytes(raw[:1], "little", signed=True)
    if datatype.code is None:
        return raw
    number: int | float = 0
    if len(raw) == datatype.size:
        (number,) = struct.unpack(f"<{datatype.code}", raw)
    return number


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
        """Find the cells that hold a raw value; NULL and NaN are equal to themselves."""
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
    r"""Find the cells that satisfy one comparison, as `leaf_truth` does for one.

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
    truth: Mask = _COMPARISONS[node.op](numbers, _number(node.value, datatype))
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
    truth = getattr(pc, _ARROW[node.op])(text, pa.scalar(node.value, pa.large_binary()))
    return np.asarray(pc.fill_null(truth, False))


def rows_asked_for(predicate: Condition, leaf: Callable[[Compare], Mask]) -> Mask:
    """Find the rows that satisfy a flat predicate, as SQL means it: NULL is no match.

    `leaf` answers for one comparison, in the sense of a predicate.
    """

    def joined(node: AllOf | AnyOf | Not, parts: list[Mask]) -> Mask:
        # Flat is without `Not`: with NULL a comparison is false, and so is its negation.
        if isinstance(node, AllOf):
            return reduce(np.logical_and, parts, YES)
        return reduce(np.logical_or, parts, NO)

    return fold(predicate, leaf, joined)


def rows_kept(stored: Condition, leaf: Callable[[Compare], Mask | None]) -> Mask:
    """Find the rows that the engine keeps because of a stored condition.

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
