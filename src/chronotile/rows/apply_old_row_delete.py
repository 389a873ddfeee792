"""The delete that takes the old rows of an update out of an array with duplicates.

In: rows before and after an update, and all others of that moment. Out: a stored condition that the
engine makes remove exactly the old ones, or None if there is no such condition. Writes nothing.

The delete is of the update's own time, so that no window sees it without the new rows. It then acts
on these too: what tells them apart is that they have the values that the update sets. The engine
removes what does not satisfy the stored condition, and a comparison with NULL is never satisfied:
so a condition is only taken if it was tried on every row.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from chronotile.conditions.side_effects import engine_refuses
from chronotile.conditions.tree import AllOf, AnyOf, Compare, Condition, Op, fields, flatten
from chronotile.conditions.truth import Column, Sense, column_truth, rows_kept

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    import pyarrow as pa

    from chronotile.format.schema import Field, Schema
    from chronotile.rows.apply_rows import UpdatedRows

MOST_PLACES = 1000
"""Places that a condition may name one by one."""


def old_row_delete(rows: UpdatedRows, schemas: Sequence[Schema]) -> Condition | None:
    """The stored condition of a delete that removes the old rows, and no others.

    Args:
        rows: What the updates of one moment come to.
        schemas: All of the array: in fragments that lack a field, a delete on it removes every row
            (F15).
    """
    schema = rows.schema
    for stored in _candidates(rows):
        named = fields(stored)
        if engine_refuses(stored, schema) or any(
            other.field(name) is None for other in schemas for name in named
        ):
            continue
        if (
            not _kept(stored, schema, rows.old).any()
            and _kept(stored, schema, rows.columns).all()
            and _kept(stored, schema, rows.others).all()
        ):
            return stored
    return None


def _kept(stored: Condition, schema: Schema, columns: Sequence[pa.Array]) -> Any:
    held = {
        field.name: Column(field, column)
        for field, column in zip(schema.fields, columns, strict=True)
    }
    mask = rows_kept(stored, lambda node: column_truth(node, held[node.field], Sense.STORED))
    return np.broadcast_to(mask, len(columns[0]))


def _candidates(rows: UpdatedRows) -> Iterator[Condition]:
    """Conditions to try: what the updates ask for, then the places; less what has the values."""
    schema = rows.schema
    given = (_values(update.values or (), schema) for update in rows.updates)
    has_values = [values for values in given if values is not None]
    asked = [update.stored for update in rows.updates]
    if len(asked) == 1:
        for values in has_values:
            yield flatten(AnyOf(parts=(asked[0], values)))
        yield asked[0]
    places = _elsewhere(rows)
    if places is not None:
        for values in has_values:
            yield flatten(AnyOf(parts=(places, values)))
        yield places


def _values(values: Sequence[tuple[str, bytes]], schema: Schema) -> Condition | None:
    """That a row has the values that an update sets, as far as the engine can compare them."""
    leaves = [
        Compare(field=name, op=Op.EQ, value=raw)
        for name, raw in values
        if raw and schema.field(name) is not None
    ]
    return AllOf(parts=tuple(leaves)) if leaves else None


def _elsewhere(rows: UpdatedRows) -> Condition | None:
    """That a row is at none of the places of the old ones."""
    dimensions = rows.schema.dimensions
    columns = [column.to_pylist() for column in rows.old[: len(dimensions)]]
    places = sorted(set(zip(*columns, strict=True)), key=repr)
    if not 0 < len(places) <= MOST_PLACES:
        return None
    parts = tuple(
        AnyOf(
            parts=tuple(
                Compare(field=field.name, op=Op.NE, value=_raw(field, value))
                for field, value in zip(dimensions, place, strict=True)
            )
        )
        for place in places
    )
    return flatten(AllOf(parts=parts))


def _raw(field: Field, value: Any) -> bytes:
    if field.is_number:
        return np.array([value], f"<{field.datatype.code}").tobytes()
    return bytes(value)
