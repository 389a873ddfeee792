"""The rows that updates of one moment write: found, with their new values.

In: a log, updates of one millisecond that are to be carried out. Out: columns as stored, which are
written at that moment; and for arrays with duplicates the old rows, and all others that a delete
could hit. Writes nothing.

A merged fragment that has applied an update hides what the engine takes the update to remove, also
once the update is gone. Of that, rows which the update does not change are written again too.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from chronotile.conditions.side_effects import engine_refuses
from chronotile.conditions.tree import AllOf, AnyOf, Compare, Condition, Op, fields, flatten
from chronotile.conditions.truth import Sense
from chronotile.conditions.truth_columns import Column, column_truth, rows_kept
from chronotile.rows.cell_source import cell_source
from chronotile.rows.changes_in_force import changes_in_force, schema_of_rows
from chronotile.rows.engine_cells import stored_type
from chronotile.rows.places import is_among
from chronotile.rows.play_changes import Play

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    import numpy.typing as npt

    from chronotile.format.schema import Field, Schema
    from chronotile.history.read_history import SchemaFile
    from chronotile.log import Log
    from chronotile.rows.changes_in_force import Change


@dataclass(frozen=True, slots=True, kw_only=True)
class UpdatedRows:
    """What the updates of one moment come to."""

    t: int
    updates: tuple[Change, ...]
    schema_file: SchemaFile
    columns: tuple[pa.Array, ...]
    """The rows with their new values, in the order of the schema's fields."""
    old: tuple[pa.Array, ...]
    """The same rows before; only where the array allows duplicates."""
    others: tuple[pa.Array, ...]
    """All other rows of that moment, likewise."""
    unchanged: int = 0
    """How many of the rows are written again as they are."""

    @property
    def schema(self) -> Schema:
        """The schema that the rows are written with."""
        assert self.schema_file.schema is not None
        return self.schema_file.schema

    @property
    def count(self) -> int:
        """How many rows are written."""
        return len(self.columns[0])


def updated_rows(log: Log, updates: Sequence[Change], *, applied: bool) -> UpdatedRows:
    """Find the rows that the updates of one moment write.

    Earlier updates count as carried out, whether they are or not.

    Args:
        log: The log of the array.
        updates: All of one time.
        applied: Whether a fragment has applied one of them.
    """
    t = updates[0].t
    schema_file = schema_of_rows(log.history, *updates)
    assert schema_file is not None  # an array without a schema has no rows
    schema = schema_file.schema
    assert schema is not None
    names = {update.name for update in updates}
    changes = [
        replace(change, is_written=change.is_written and change.name not in names)
        for change in changes_in_force(log.view(0, t), schema).changes
        if change.t < t or change.is_update
    ]
    found: list[list[tuple[pa.Array, ...]]] = [[], [], []]
    unchanged = 0
    end = t if schema.allows_duplicates else t - 1
    if end >= 0:
        for batch in cell_source(log, schema_file, end, changes).batches(schema.fields):
            play = Play(schema.fields, batch.columns, batch.times, batch.lacks)
            before = Play(schema.fields, batch.columns, batch.times, batch.lacks)
            hit = np.zeros(len(batch.times), bool)
            for number, change in enumerate(changes):
                touched = play.act(number, change)
                if change.name in names:
                    hit[touched] = True
                elif change.t < t:
                    before.act(number, change)
            if applied:
                lost = _hidden(Play(schema.fields, *batch), updates) & play.alive & ~hit
                unchanged += int(lost.sum())
                hit |= lost
            _gather(found, play, before, hit, every_row=schema.allows_duplicates)
    columns, old, others = (_joined(schema, part) for part in found)
    if not schema.allows_duplicates and len(columns[0]):
        columns = _less_written(log, schema_file, t, columns)
    return UpdatedRows(
        t=t,
        updates=tuple(updates),
        schema_file=schema_file,
        columns=columns,
        old=old,
        others=others,
        unchanged=unchanged,
    )


def _hidden(play: Play, updates: Sequence[Change]) -> npt.NDArray[np.bool_]:
    """Mask of the cells, as they were written, that the engine takes updates to remove."""
    hidden = np.zeros(len(play.times), bool)
    for update in updates:
        hidden[play.hit_by(replace(update, values=None))] = True
    return hidden


def _gather(
    found: list[list[tuple[pa.Array, ...]]],
    play: Play,
    before: Play,
    hit: npt.NDArray[np.bool_],
    *,
    every_row: bool,
) -> None:
    rows = np.flatnonzero(hit & play.alive)
    found[0].append(play.cells(rows))
    if every_row:
        found[1].append(before.cells(rows))
        found[2].append(play.cells(np.flatnonzero(~hit & play.alive)))


def _joined(schema: Schema, parts: Sequence[Sequence[pa.Array]]) -> tuple[pa.Array, ...]:
    if not parts:
        return tuple(pa.array([], stored_type(field)) for field in schema.fields)
    return tuple(pa.concat_arrays(same) for same in zip(*parts, strict=True))


def _less_written(
    log: Log, schema_file: SchemaFile, t: int, columns: tuple[pa.Array, ...]
) -> tuple[pa.Array, ...]:
    """Less the rows at places that somebody writes in the same millisecond: that write wins."""
    schema = schema_file.schema
    assert schema is not None
    rank = len(schema.dimensions)
    if not len(log.rules.visible(t, t)[0]):
        return columns
    taken = []
    for batch in cell_source(log, schema_file, t, ()).batches(schema.dimensions):
        rows = pa.array(np.flatnonzero(batch.times == np.uint64(t)))
        taken.append(tuple(column.take(rows) for column in batch.columns))
    if not taken:
        return columns
    places = [pa.concat_arrays(same) for same in zip(*taken, strict=True)]
    free = pa.array(~is_among(columns[:rank], places))
    return tuple(column.filter(free) for column in columns)


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
