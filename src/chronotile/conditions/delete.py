"""What a delete or an update says, wherever it stands.

In: a condition as it is stored. Out: `StoredDelete` or `StoredUpdate`: also the predicate of its
author, the schema that types its values, and all of it as JSON. Knows no array, and no bytes.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from chronotile.conditions.text import to_json, to_text
from chronotile.conditions.tree import Condition, UpdateValue, fields, negate

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
        """The first schema that has every field of the condition, else the first."""
        if len(schemas) > 1:
            wanted = fields(self.stored)
            for schema in schemas:
                if all(schema.field(name) is not None for name in wanted):
                    return schema
        return schemas[0] if schemas else None

    def to_json(self, schemas: Sequence[Schema]) -> dict[str, Any]:
        """The condition and the predicate, each as JSON and in words."""
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
        """The values that it sets, as JSON."""
        # It also parses what users type, which a reader of logs does not need.
        from chronotile.conditions.update_values import to_json as values_to_json

        return values_to_json(self.values, self.schema_among(schemas))
