"""The truth of a condition for a row: the model of the engine that the tests hold it to.

In: a tree, a schema and a row. Out: whether its author asked for the row, or whether the engine
removes it. The truth of one comparison is `chronotile.conditions.truth.leaf_truth`; here it is
carried through the tree, as the engine does it:

- A row stays where the stored condition is true; all others go.
- A field that the fragment lacks, because it was added later, makes its comparison false, and
  also wipes out what stood before it in the same `or`.
- An `or` that stands directly in an `or` counts as an `and` with what stood before it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, assert_never

from chronotile.conditions.tree import AllOf, AnyOf, Compare, Condition, Not, flatten, fold
from chronotile.conditions.truth import Cell, Sense, leaf_truth
from chronotile.errors import PredicateError
from chronotile.format import cell_values

if TYPE_CHECKING:
    from collections.abc import Mapping

    from chronotile.format.schema import Field, Schema


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

    >>> from chronotile.conditions.tree import Op
    >>> from chronotile.format.datatypes import Datatype
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

    >>> from chronotile.conditions.tree import Op
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
