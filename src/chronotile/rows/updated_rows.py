"""The rows that updates of one moment write, and the delete that takes out the old ones.

In: a log, updates of one millisecond that are to be carried out. Out: columns as stored, which are
written at that moment; for arrays with duplicates the old rows, all others that a delete could hit,
and the stored condition of a delete that removes exactly the old ones. Writes nothing.

A merged fragment that has applied an update hides the rows that the engine takes the update to
remove, also once the update is gone. Of these, rows which the update does not change are written
again too.

The delete of old rows has the update's own time, so that no window sees it without the new rows. It
then acts on these too: they differ from the old ones by the values that the update sets. The engine
removes rows that do not satisfy the stored condition, and a comparison with NULL is never true: so
a condition is only taken if it was tried on every row.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from chronotile.conditions.side_effects import engine_refuses
from chronotile.conditions.tree import AllOf, AnyOf, Compare, Condition, Op, fields, flatten
from chronotile.conditions.truth import Column, Sense, column_truth, rows_kept
from chronotile.rows.cell_source import cell_source
from chronotile.rows.engine_cells import stored_type
from chronotile.rows.places import is_among, raw_value
from chronotile.rows.play_changes import Play
from chronotile.rows.snapshot import schema_of_rows, snapshot

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from chronotile.conditions.truth import Mask
    from chronotile.format.schema import Schema
    from chronotile.log import Log
    from chronotile.rows.snapshot import RowChange, Snapshot

    Columns = tuple[pa.Array, ...]

MOST_PLACES = 1000
"""Places that a condition may name one by one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class UpdatedRows:
    """The rows that the updates of one moment write."""

    at: Snapshot
    """Their moment, and the schema that they are written with."""
    updates: tuple[RowChange, ...]
    columns: Columns
    """The rows with their new values, in the order of the schema's fields."""
    old: Columns
    """The same rows before; only where the array allows duplicates."""
    others: Columns
    """All other rows of that moment; only where the array allows duplicates."""
    unchanged: int
    """The number of rows that are written again as they are."""

    @property
    def count(self) -> int:
        """The number of rows that are written."""
        return len(self.columns[0])


def updated_rows(log: Log, updates: Sequence[RowChange], *, applied: bool) -> UpdatedRows:
    """Find the rows that the updates of one moment write.

    Earlier updates count as carried out, even if they are not yet.

    Args:
        log: The log of the array.
        updates: All of one time.
        applied: Whether a fragment has applied one of them.
    """
    t, names = updates[0].t, {update.name for update in updates}
    at = snapshot(log, t, schema_of_rows(log.history, *updates))
    schema, duplicates = at.schema, at.schema.allows_duplicates
    changes = tuple(
        replace(change, is_written=change.is_written and change.name not in names)
        for change in at.changes
        if change.t < t or change.is_update
    )
    earlier = [change for change in changes if change.t < t]
    new: list[Columns] = []
    old: list[Columns] = []
    others: list[Columns] = []
    unchanged = 0
    end = t if duplicates else t - 1
    source = cell_source(replace(at, end=end, changes=changes)) if end >= 0 else None
    for cells in source.batches(schema.fields) if source else ():
        play = Play(schema.fields, cells)
        hit = np.zeros(len(cells), bool)
        for number, change in enumerate(changes):
            touched = play.act(number, change)
            hit[touched] |= change.name in names
        if applied:
            lost = _hidden(Play(schema.fields, cells), updates) & play.alive & ~hit
            unchanged += int(lost.sum())
            hit |= lost
        rows = np.flatnonzero(hit & play.alive)
        new.append(play.cells(rows))
        if duplicates:
            old.append(Play(schema.fields, cells).act_all(earlier).cells(rows))
            others.append(play.cells(np.flatnonzero(~hit & play.alive)))
    columns = _joined(schema, new)
    if not duplicates and len(columns[0]):
        columns = _without_places_written(at, columns)
    return UpdatedRows(
        at=at,
        updates=tuple(updates),
        columns=columns,
        old=_joined(schema, old),
        others=_joined(schema, others),
        unchanged=unchanged,
    )


def _hidden(play: Play, updates: Sequence[RowChange]) -> Mask:
    """Mask the cells, as they were written, that the engine takes updates to remove."""
    hidden = np.zeros(len(play.times), bool)
    for update in updates:
        hidden[play.hit_by(replace(update, values=None))] = True
    return hidden


def _joined(schema: Schema, parts: Sequence[Columns]) -> Columns:
    if not parts:
        return tuple(pa.array([], stored_type(field)) for field in schema.fields)
    return tuple(pa.concat_arrays(same) for same in zip(*parts, strict=True))


def _without_places_written(at: Snapshot, columns: Columns) -> Columns:
    """Leave out the places that somebody writes in the same millisecond: that write wins."""
    rank = len(at.schema.dimensions)
    if not len(at.log.rules.visible(at.end, at.end)[0]):
        return columns
    written = []
    for cells in cell_source(replace(at, changes=())).batches(at.schema.dimensions):
        rows = pa.array(np.flatnonzero(cells.times == np.uint64(at.end)))
        written.append(tuple(column.take(rows) for column in cells.columns))
    if not written:
        return columns
    places = [pa.concat_arrays(same) for same in zip(*written, strict=True)]
    free = pa.array(~is_among(columns[:rank], places))
    return tuple(column.filter(free) for column in columns)


def old_row_delete(rows: UpdatedRows) -> Condition | None:
    """Find the stored condition of a delete that removes the old rows, and no others."""
    schema = rows.at.schema
    # In fragments that lack a field, a delete on it removes every row (F15).
    schemas = [item.schema for item in rows.at.log.history.schemas if item.schema is not None]
    for stored in _candidates(rows):
        if engine_refuses(stored, schema) or any(
            other.field(name) is None for other in schemas for name in fields(stored)
        ):
            continue
        if (
            not _kept(stored, schema, rows.old).any()
            and _kept(stored, schema, rows.columns).all()
            and _kept(stored, schema, rows.others).all()
        ):
            return stored
    return None


def _kept(stored: Condition, schema: Schema, columns: Columns) -> Mask:
    cells = {
        field.name: Column(field, column)
        for field, column in zip(schema.fields, columns, strict=True)
    }
    mask = rows_kept(stored, lambda node: column_truth(node, cells[node.field], Sense.STORED))
    return np.broadcast_to(mask, len(columns[0]))


def _candidates(rows: UpdatedRows) -> Iterator[Condition]:
    """Give conditions to try: the update's own, then the places; each also less the new values."""
    bases = [rows.updates[0].stored] if len(rows.updates) == 1 else []
    places = _elsewhere(rows)
    bases += [] if places is None else [places]
    for base in bases:
        for update in rows.updates:
            values = _values(update, rows.at.schema)
            if values is not None:
                yield flatten(AnyOf(parts=(base, values)))
        yield base


def _values(update: RowChange, schema: Schema) -> Condition | None:
    """Ask for the values that an update sets, as far as the engine can compare them."""
    leaves = [
        Compare(field=name, op=Op.EQ, value=raw)
        for name, raw in update.values or ()
        if raw and schema.field(name) is not None
    ]
    return AllOf(parts=tuple(leaves)) if leaves else None


def _elsewhere(rows: UpdatedRows) -> Condition | None:
    """Ask for rows at none of the places of the old ones."""
    dimensions = rows.at.schema.dimensions
    columns = [column.to_pylist() for column in rows.old[: len(dimensions)]]
    places = sorted(set(zip(*columns, strict=True)), key=repr)
    if not 0 < len(places) <= MOST_PLACES:
        return None
    parts = tuple(
        AnyOf(
            parts=tuple(
                Compare(field=field.name, op=Op.NE, value=raw_value(field, value))
                for field, value in zip(dimensions, place, strict=True)
            )
        )
        for place in places
    )
    return flatten(AllOf(parts=parts))
