"""A delete that removes no row, what stands in for one that must leave the array; and its opposite.

In: a schema. Out: a stored condition that every cell satisfies, or none, on a dimension: dimensions
are never dropped, and their cells are neither NULL nor NaN. Knows no file.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from chronotile.conditions.tree import AnyOf, Compare, Condition, Op, negate

if TYPE_CHECKING:
    from chronotile.format.schema import Schema


def matches_no_row(schema: Schema) -> Condition:
    r"""The stored condition of a delete that removes nothing.

    On a dimension with a domain it keeps all cells from the domain's start on. On one without, as
    of texts, it keeps cells from some value on, and those before it.

    >>> from chronotile.format.datatypes import Datatype
    >>> from chronotile.format.schema import Field, Schema
    >>> x = Field(name="x", datatype=Datatype.INT8, domain=b"\1\7", is_dimension=True)
    >>> matches_no_row(Schema(version=22, dimensions=(x,))).value
    b'\x01'
    """
    for field in schema.dimensions:
        size = field.cell_size
        if size and len(field.domain) == 2 * size:
            return Compare(field=field.name, op=Op.GE, value=field.domain[:size])
    name, value = schema.dimensions[0].name, b"a"
    return AnyOf(
        parts=(
            Compare(field=name, op=Op.GE, value=value),
            Compare(field=name, op=Op.LT, value=value),
        )
    )


def is_harmless(stored: Condition, schema: Schema) -> bool:
    """Whether a stored condition is the one that removes nothing.

    >>> from chronotile.format.datatypes import Datatype
    >>> from chronotile.format.schema import Field, Schema
    >>> x = Field(name="x", datatype=Datatype.STRING_ASCII, cell_val_num=2**32 - 1)
    >>> schema = Schema(version=22, dimensions=(x,))
    >>> is_harmless(matches_no_row(schema), schema)
    True
    """
    return stored == matches_no_row(schema)


def matches_every_row(schema: Schema) -> Condition:
    """The stored condition of a delete of everything."""
    return negate(matches_no_row(schema))


def is_everything(stored: Condition, schema: Schema) -> bool:
    """Whether a stored condition is that of a delete of everything.

    >>> from chronotile.format.datatypes import Datatype
    >>> from chronotile.format.schema import Field, Schema
    >>> x = Field(name="x", datatype=Datatype.STRING_ASCII, cell_val_num=2**32 - 1)
    >>> schema = Schema(version=22, dimensions=(x,))
    >>> [is_everything(one(schema), schema) for one in (matches_every_row, matches_no_row)]
    [True, False]
    """
    return stored == matches_every_row(schema)
