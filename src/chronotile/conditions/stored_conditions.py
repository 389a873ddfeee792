"""A delete or an update as it is stored; and the deletes of nothing and of everything.

In: a condition as it is stored, or a schema. Out: `StoredDelete` or `StoredUpdate`: also the
predicate of its author, the schema that types its values, and all of it as JSON. Knows no array,
and no bytes.

A delete that removes nothing stands in for one that must leave the array. A replay begins with a
delete of everything. Both compare a dimension: no dimension is ever dropped, and its cells are
neither NULL nor NaN.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from chronotile.conditions.text import to_json, to_text
from chronotile.conditions.tree import AnyOf, Compare, Condition, Op, UpdateValue, fields, negate

if TYPE_CHECKING:
    from collections.abc import Sequence

    from chronotile.format.cell_values import Json
    from chronotile.format.schema import Schema


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredDelete:
    """A delete."""

    stored: Condition
    """The condition as on disk, which a row must satisfy to stay."""

    @property
    def predicate(self) -> Condition:
        """The condition that the author asked for."""
        return negate(self.stored)

    def schema_among(self, schemas: Sequence[Schema]) -> Schema | None:
        """Choose the first schema that has every field of the condition, else the first."""
        if len(schemas) > 1:
            wanted = fields(self.stored)
            for schema in schemas:
                if all(schema.field(name) is not None for name in wanted):
                    return schema
        return schemas[0] if schemas else None

    def to_json(self, schemas: Sequence[Schema]) -> dict[str, Any]:
        """Give the condition and the predicate, each as JSON and in words."""
        schema = self.schema_among(schemas)
        return {
            "text": to_text(self.predicate, schema),
            "predicate": to_json(self.predicate, schema),
            "stored_text": to_text(self.stored, schema),
            "stored": to_json(self.stored, schema),
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredUpdate(StoredDelete):
    """An update."""

    values: tuple[UpdateValue, ...]

    def values_json(self, schemas: Sequence[Schema]) -> list[Json]:
        """Give the values that it sets as JSON."""
        # It also parses what users type, which a reader of logs does not need.
        from chronotile.conditions.update_values import to_json as values_to_json

        return values_to_json(self.values, self.schema_among(schemas))


def matches_no_row(schema: Schema) -> Condition:
    r"""Make the stored condition of a delete that removes nothing.

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
    """Return True if a stored condition is the one that removes nothing.

    >>> from chronotile.format.datatypes import Datatype
    >>> from chronotile.format.schema import Field, Schema
    >>> x = Field(name="x", datatype=Datatype.STRING_ASCII, cell_val_num=2**32 - 1)
    >>> schema = Schema(version=22, dimensions=(x,))
    >>> is_harmless(matches_no_row(schema), schema)
    True
    """
    return stored == matches_no_row(schema)


def matches_every_row(schema: Schema) -> Condition:
    """Make the stored condition of a delete of everything."""
    return negate(matches_no_row(schema))


def is_everything(stored: Condition, schema: Schema) -> bool:
    """Return True if a stored condition is that of a delete of everything.

    >>> from chronotile.format.datatypes import Datatype
    >>> from chronotile.format.schema import Field, Schema
    >>> x = Field(name="x", datatype=Datatype.STRING_ASCII, cell_val_num=2**32 - 1)
    >>> schema = Schema(version=22, dimensions=(x,))
    >>> [is_everything(one(schema), schema) for one in (matches_every_row, matches_no_row)]
    [True, False]
    """
    return stored == matches_every_row(schema)
