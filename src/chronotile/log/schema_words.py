"""Schemas in words: what an array has, and what changed.

In: one schema, or two. Out: a phrase. Decodes nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from chronotile.conditions.text import field_name
from chronotile.format.cell_values import raw_to_json
from chronotile.format.datatypes import VAR_NUM

if TYPE_CHECKING:
    from collections.abc import Iterator

    from chronotile.format.schema import Field, Schema


def schema_words(schema: Schema) -> str:
    """The dimensions and attributes of a schema."""
    dimensions = ", ".join(_field(field) for field in schema.dimensions)
    attributes = ", ".join(_field(field) for field in schema.attributes)
    return f"dimensions {dimensions}; attributes {attributes}"


def _field(field: Field) -> str:
    words = field.datatype.name.lower()
    if field.enumeration_name is not None:
        words += f" of {field.enumeration_name}"
    return f"{field_name(field.name, field)} ({', '.join((words, *_details(field)))})"


def _details(field: Field) -> Iterator[str]:
    """Domain, tile extent, length, nullability, filters: what there is of them."""
    if field.domain:
        half = len(field.domain) // 2
        low, high = (
            raw_to_json(field, part) for part in (field.domain[:half], field.domain[half:])
        )
        yield f"{low} to {high}"
    if field.tile_extent:
        yield f"tiles of {_extent(field)}"
    if field.cell_val_num == VAR_NUM:
        yield "variable length"
    elif field.cell_val_num != 1:
        yield f"{field.cell_val_num} values in each cell"
    if field.nullable:
        yield "nullable"
    if field.filters:
        yield " + ".join(one.kind for one in field.filters)


def _extent(field: Field) -> object:
    """The tile extent: of a date or time, a number of its units."""
    if field.datatype.is_float:
        return raw_to_json(field, field.tile_extent)
    return int.from_bytes(field.tile_extent, "little")


def change_words(before: Schema, now: Schema) -> str:
    """What changed from one schema to the next."""
    old = {field.name: field for field in before.fields}
    new = {field.name: field for field in now.fields}
    parts = [f"added {_field(new[name])}" for name in new if name not in old]
    parts += [f"dropped {field_name(name)}" for name in old if name not in new]
    for name in new:
        if name in old and _field(new[name]) != _field(old[name]):
            parts.append(f"made {_field(old[name])} {_field(new[name])}")
    labels = [e for e in now.enumeration_files if e not in before.enumeration_files]
    parts += [f"changed the labels of {field_name(name)}" for name, _ in labels]
    return "; ".join(parts) or "nothing that a commit log shows"
