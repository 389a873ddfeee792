"""The truth of a condition for a row, in two senses.

In: a tree, a schema and a row. Out: whether its author asked for the row, or whether the engine
removes it, and in words where the two differ. The second sense is the engine's, faults and all.

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
- A field that the fragment lacks, because it was added later, makes its comparison false, and
  also wipes out what stood before it in the same `or`.
- An `or` that stands directly in an `or` counts as an `and` with what stood before it.
"""

from __future__ import annotations

import enum
import math
import struct
from typing import TYPE_CHECKING, assert_never

from chronotile.conditions.tree import AllOf, AnyOf, Compare, Condition, Not, Op, flatten, fold
from chronotile.errors import PredicateError
from chronotile.format import cell_values
from chronotile.format.datatypes import Datatype

if TYPE_CHECKING:
    from collections.abc import Mapping

    from chronotile.format.schema import Field, Schema


class Sense(enum.Enum):
    """Which of the two truths is meant."""

    PREDICATE = "what its author asked for"
    STORED = "what the engine makes of the stored condition"


class Cell(enum.Enum):
    """A cell that holds no ordinary value."""

    ABSENT = "its fragment lacks the field"
    NULL = "NULL"


def matches(node: Condition, row: Mapping[str, object], schema: Schema, sense: Sense) -> bool:
    r"""Tell whether a row satisfies a condition.

    Args:
        node: The condition; what is meant by it depends on `sense`.
        row: A value for each field, as `cell_values.encode` takes it: a label for an enumeration,
            None for NULL. A field that is not there was added after the row was written.
        schema: The types of the fields.
        sense: `PREDICATE` for the plain meaning, `STORED` for what the engine does.

    Raises:
        PredicateError: If the schema lacks a field of the condition.

    >>> from chronotile.format.schema import Field, Schema
    >>> a = Field(name="a", datatype=Datatype.INT8, cell_val_num=1, nullable=True,
    ...           is_dimension=False, enumeration_name=None, enumeration=None)
    >>> schema = Schema(version=22, dense=False, allows_duplicates=False, dimensions=(),
    ...                 attributes=(a,), enumeration_files=())
    >>> node = Compare(field="a", op=Op.GE, value=b"\x03")
    >>> [matches(node, {"a": n}, schema, Sense.STORED) for n in (2, 3, None)]
    [False, True, False]
    """
    if sense is Sense.STORED:
        return _engine(node, row, schema, among_any=False, so_far=True)
    # Without `Not`: a comparison with NULL is false when asked for, and so is its negation.
    return fold(
        flatten(node),
        lambda leaf: _leaf(leaf, row, schema, sense),
        lambda part, found: all(found) if isinstance(part, AllOf) else any(found),
    )


def removed(stored: Condition, row: Mapping[str, object], schema: Schema) -> bool:
    """Tell whether the engine removes a row because of a stored condition.

    >>> from chronotile.format.schema import Schema
    >>> schema = Schema(version=22, dense=False, allows_duplicates=False, dimensions=(),
    ...                 attributes=(), enumeration_files=())
    >>> removed(AnyOf(parts=()), {}, schema)
    True
    """
    return not matches(stored, row, schema, Sense.STORED)


def field_of(node: Compare, schema: Schema) -> Field:
    """The field that a comparison names.

    Raises:
        PredicateError: If the schema does not have it.

    >>> from chronotile.format.schema import Schema
    >>> field_of(Compare(field="b", op=Op.LT), Schema(version=22, dense=False,
    ...     allows_duplicates=False, dimensions=(), attributes=(), enumeration_files=()))
    Traceback (most recent call last):
    chronotile.errors.PredicateError: b: expected a field of the schema, found none of that name
    """
    field = schema.field(node.field)
    if field is None:
        problem = "expected a field of the schema, found none of that name"
        raise PredicateError(node.field, problem)
    return field


def leaf_truth(node: Compare, field: Field, cell: bytes | Cell, sense: Sense) -> bool:
    """Tell whether one cell satisfies one comparison.

    Args:
        node: The comparison.
        field: What it compares.
        cell: The raw bytes of the cell, or why there are none.
        sense: As for `matches`.

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


def _engine(
    node: Condition,
    row: Mapping[str, object],
    schema: Schema,
    *,
    among_any: bool,
    so_far: bool,
) -> bool:
    """Carry a truth through the tree as the engine carries its bitmap, branch by branch."""
    match node:
        case Compare():
            if node.field not in row:
                field_of(node, schema)
                return False
            truth = _leaf(node, row, schema, Sense.STORED)
            return so_far or truth if among_any else so_far and truth
        case AllOf(parts=parts):
            truth = True if among_any else so_far
            for part in parts:
                truth = _engine(part, row, schema, among_any=False, so_far=truth)
            return so_far or truth if among_any else truth
        case AnyOf(parts=parts):
            truth = False
            for part in parts:
                truth = _engine(part, row, schema, among_any=True, so_far=truth)
            return so_far and truth
        case Not(part=part):
            truth = not _engine(part, row, schema, among_any=False, so_far=True)
            return so_far or truth if among_any else so_far and truth
        case _:
            assert_never(node)


def _leaf(node: Compare, row: Mapping[str, object], schema: Schema, sense: Sense) -> bool:
    field = field_of(node, schema)
    cell: bytes | Cell = Cell.ABSENT
    if node.field in row:
        value = row[node.field]
        cell = Cell.NULL if value is None else cell_values.encode(field, value)
    return leaf_truth(node, field, cell, sense)


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
