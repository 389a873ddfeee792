"""The truth of a comparison for a cell, in two senses.

In: a comparison, its field and a cell. Out: whether its author asked for the cell, or whether the
engine finds the comparison true, with the engine's faults. Knows no tree and no row.

What the engine does with a *stored* condition, seen on libtiledb 2.30 for every op:

- A row stays if the stored condition is true; all others go.
- NULL makes each comparison false, `always_true` included. The author's comparison and its
  stored negation are then both false, so a delete also removes the NULL rows.
- NaN makes `<`, `<=`, `>`, `>=` and `==` false and `!=` true, as in IEEE 754. `in` and
  `not in` compare bytes: NaN is a member if its bytes are, and -0.0 is not 0.0.
- No bytes mean the empty string, never NULL: a stored `s != None` keeps no NULL row, and a
  stored `s == None` keeps the rows of ''.
- It compares text as unsigned bytes. Of a CHAR cell of fixed size it compares the first byte
  only, which is signed, as C's char is on x86-64; only `in` looks at the whole cell.
- A field that was added after the fragment was written makes its comparison false.
"""

from __future__ import annotations

import enum
import operator
import struct
from typing import TYPE_CHECKING

from chronotile.conditions.tree import Compare, Op
from chronotile.format.datatypes import Datatype

if TYPE_CHECKING:
    from chronotile.format.schema import Field


# Python compares NaN as IEEE 754 says.
_COMPARISONS = {
    Op.LT: operator.lt,
    Op.LE: operator.le,
    Op.GT: operator.gt,
    Op.GE: operator.ge,
    Op.EQ: operator.eq,
    Op.NE: operator.ne,
}


class Sense(enum.Enum):
    """Which of the two truths is meant."""

    PREDICATE = "what its author asked for"
    STORED = "what the engine makes of the stored condition"


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
    """Tell whether one cell satisfies one comparison.

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
    """What the engine compares a value by; 0 for bytes of a wrong size, which it refuses."""
    datatype = field.datatype
    if datatype is Datatype.CHAR and not field.is_var:
        return int.from_bytes(raw[:1], "little", signed=True)
    if datatype.code is None:
        return raw
    number: int | float = 0
    if len(raw) == datatype.size:
        (number,) = struct.unpack(f"<{datatype.code}", raw)
    return number
