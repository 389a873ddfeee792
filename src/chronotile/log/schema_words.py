"""Schemas in words: what an array has, and what changed.

In: one schema, or two. Out: a phrase. Decodes nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from chronotile.conditions.text import field_name

if TYPE_CHECKING:
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
    return f"{field_name(field.name, field)} ({words}{', nullable' if field.nullable else ''})"


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
