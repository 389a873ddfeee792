"""Rows and comparisons that tests of conditions share."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hypothesis import strategies as st
from support.condition_expressions import INTEGERS
from support.strategies import RICH, make_field, make_schema

from chronotile.conditions.tree import Compare, Op, leaves
from chronotile.format import cell_values
from chronotile.format.datatypes import VAR_NUM, Datatype

if TYPE_CHECKING:
    from chronotile.conditions.tree import Condition


MIXED = make_schema(
    make_field("a", Datatype.INT8, nullable=True),
    make_field("b", Datatype.INT8),
    make_field("f", Datatype.FLOAT64),
    make_field("g", Datatype.FLOAT64, nullable=True),
    make_field("s", Datatype.STRING_UTF8, num=VAR_NUM, nullable=True),
    make_field("t", Datatype.STRING_UTF8, num=VAR_NUM),
)


def leaf(name: str, op: Op, value: object = None) -> Compare:
    """A comparison of a field of `MIXED`; without a value, with no bytes."""
    field = MIXED.field(name)
    assert field is not None
    return Compare(
        field=name, op=op, value=b"" if value is None else cell_values.encode(field, value)
    )


def rows_of(data: st.DataObject, node: Condition) -> dict[str, object]:
    """A row that is likely to meet the values of the condition."""
    row: dict[str, object] = {}
    for leaf in leaves(node):
        field = RICH.field(leaf.field)
        assert field is not None
        known = [cell_values.decode(field, raw) for raw in leaf.members or (leaf.value,)]
        choices = [*known, *([None] if field.nullable else [])]
        if field.datatype.is_float and not field.is_dimension:
            choices.append(float("nan"))
        if field.datatype in INTEGERS and field.enumeration is None:
            choices += [0, 1, 5]
        row[leaf.field] = data.draw(st.sampled_from(choices))
    return row
