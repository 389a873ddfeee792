"""The truth of a comparison for a cell, in two senses.

In: a comparison, its field and a cell. Out: whether its author asked for the cell, or whether the
engine takes the comparison for true. The second sense is the engine's, faults and all.

What the engine does with a *stored* condition, seen on libtiledb 2.30 for every op:

- A row stays where the stored condition is true; all others go.
- NULL makes each comparison false, `always_true` included. As the author's comparison and its
  stored negation are then both false, a delete takes the NULL rows along.
- NaN makes `<`, `<=`, `>`, `>=` and `==` false and `!=` true, as in IEEE 754. `in` and
  `not in` compare bytes: NaN is a member where its bytes are, and -0.0 is not 0.0.
- No bytes mean the empty string, never NULL: a stored `s != None` keeps no NULL row, and a
  stored `s == None` keeps the rows of ''.
- Text is compared as unsigned bytes. A CHAR cell of fixed size is compared as one byte, its
  first, whatever its length; only `in` looks at all of it. That byte is signed, as C's char
  is on x86-64.
- A field that the fragment lacks, because it was added later, makes its comparison false.
"""

from __future__ import annotations

import enum
import math
import struct
from typing import TYPE_CHECKING

from chronotile.conditions.tree import Compare, Op
from chronotile.format import cell_values
from chronotile.format.datatypes import Datatype

if TYPE_CHECKING:
    from chronotile.format.schema import Field


class Sense(enum.Enum):
    """Which of the two truths is meant."""

    PREDICATE = "what its author asked for"
    STORED = "what the engine makes of the stored condition"


class Cell(enum.Enum):
    """A cell that holds no ordinary value."""

    ABSENT = "its fragment lacks the field"
    NULL = "NULL"


def leaf_truth(node: Compare, field: Field, cell: bytes | Cell, sense: Sense) -> bool:
    """Tell whether one cell satisfies one comparison.

    Args:
        node: The comparison.
        field: What it compares.
        cell: The raw bytes of the cell, or why there are none.
        sense: `PREDICATE` for the plain meaning, `STORED` for what the engine does.

    >>> from chronotile.format.schema import Field
    >>> s = Field(name="s", datatype=Datatype.STRING_UTF8, cell_val_num=2**32 - 1, nullable=True,
    ...           is_dimension=False, enumeration_name=None, enumeration=None)
    >>> [leaf_truth(Compare(field="s", op=Op.EQ), s, Cell.NULL, sense) for sense in Sense]
    [True, False]
    """
    asked = sense is Sense.PREDICATE
    if node.op.is_constant:
        return node.op is Op.ALWAYS_TRUE and (asked or not isinstance(cell, Cell))
    if asked and field.nullable and not node.value and node.op in (Op.EQ, Op.NE):
        return (cell is Cell.NULL) is (node.op is Op.EQ)
    if isinstance(cell, Cell):
        return False
    if node.op.is_set:
        return (cell in node.members) is (node.op is Op.IN)
    return _ordered(node.op, _key(field, cell), _key(field, node.value))


def _key(field: Field, raw: bytes) -> int | float | bytes:
    """What the engine orders a value by. Bytes of a wrong size, which it refuses, order as 0."""
    datatype = field.datatype
    if datatype is Datatype.CHAR and not field.is_var:
        return int.from_bytes(raw[:1], "little", signed=True)
    code = cell_values.number_format(datatype)
    if code is None:
        return raw
    if len(raw) != datatype.size:
        return 0
    number: int | float = struct.unpack(f"<{code}", raw)[0]
    return number


def _ordered(op: Op, cell: float | bytes, value: float | bytes) -> bool:
    if isinstance(cell, float) and (math.isnan(cell) or math.isnan(float(value))):
        return op is Op.NE
    below, equal = cell < value, cell == value  # type: ignore[operator]  # both of one field
    match op:
        case Op.LT:
            return below
        case Op.LE:
            return below or equal
        case Op.GT:
            return not below and not equal
        case Op.GE:
            return not below
        case Op.EQ:
            return equal
        case _:
            return not equal
