"""The history of rows, played: deletes and updates in order, on a batch of cells at a time.

In: cells as they were written, with their times, and the changes in force. Out: the rows that are
left, their values now, since when, and which change did it. Knows no file and asks no engine.

Each cell is by itself: a change acts on it if it was written in time and is not overwritten yet.
A row that an update matches counts as written at the update's time. Deletes do what the engine
makes of them, with its faults; updates mean what they say: NULL is no match, NaN differs from
everything, and a row that has the values already is not touched. Each change looks at all rows.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Self

import numpy as np
import pyarrow as pa

from chronotile.conditions.truth import (
    YES,
    Column,
    Mask,
    Sense,
    column_truth,
    rows_asked_for,
    rows_kept,
)

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Sequence

    import numpy.typing as npt

    from chronotile.conditions.tree import Compare, Condition
    from chronotile.format.schema import Field
    from chronotile.rows.engine_cells import Cells
    from chronotile.rows.snapshot import RowChange

NOBODY = -1


class CellBatch:
    """A batch of cells on which changes act, one after the other.

    Args:
        fields: The fields of the columns.
        cells: The cells as they were written.
        until: When each is overwritten, if older cells of a place are among them.
    """

    def __init__(
        self,
        fields: Sequence[Field],
        cells: Cells,
        until: npt.NDArray[np.uint64] | None = None,
    ) -> None:
        self._columns = {
            field.name: Column(field, column)
            for field, column in zip(fields, cells.columns, strict=True)
        }
        self._written, self._until = cells.times, until
        self._lacks: dict[int, frozenset[str]] = {NOBODY: cells.lacks}
        self._set_by = np.full(len(cells), NOBODY, np.int32)
        """The update that was the last to set each row."""
        self.alive = np.ones(len(cells), bool)
        """Mask of the rows that no delete has removed."""
        self.times = cells.times.copy()
        """Since when each row has its values; empty of cells that were read without times."""
        self.done_by = np.full(len(cells), NOBODY, np.int32)
        """The change that was the last to set or remove each row; -1 for none."""

    def cells(self, rows: npt.NDArray[np.intp] | None = None) -> tuple[pa.Array, ...]:
        """Return the cells as they are now, a column for each field; of some rows, or of all."""
        columns = tuple(column.cells for column in self._columns.values())
        if rows is None:
            return columns
        return tuple(column.take(pa.array(rows)) for column in columns)

    def asked(self, condition: Condition) -> Mask:
        """Mask the rows that satisfy a condition now, in the sense of its author."""
        mask = rows_asked_for(condition, self._is_as_compared)
        return np.broadcast_to(mask, len(self.alive))

    def act_all(self, changes: Iterable[RowChange]) -> Self:
        """Let changes act, one after the other."""
        for number, change in enumerate(changes):
            self.act(number, change)
        return self

    def act(self, number: int, change: RowChange) -> npt.NDArray[np.intp]:
        """Let one change act; return the rows that it touched."""
        rows = self.hit_by(change)
        if not len(rows):
            return rows
        self.done_by[rows] = number
        if change.values is None or change.is_written:
            self.alive[rows] = False
            return rows
        mask = np.zeros(len(self.times), bool)
        mask[rows] = True
        for name, raw in change.values:
            if name in self._columns:
                self._columns[name] = self._columns[name].with_value(mask, raw)
        self.times[rows] = change.t
        self._set_by[rows] = number
        self._lacks[number] = change.lacks
        return rows

    def hit_by(self, change: RowChange) -> npt.NDArray[np.intp]:
        """Find the rows that a change removes or sets, as they are now."""
        there = self.alive & self._is_there(change.t + (not change.is_update))
        if not there.any():
            return np.zeros(0, np.intp)
        if change.is_update:
            mask = self.asked(change.predicate) & ~self._has_values(change)
        else:
            mask = ~self._kept(change)
        return np.flatnonzero(there & mask)

    def _is_there(self, moment: int) -> Mask:
        """Mask the cells that were written before a moment, and not overwritten before it."""
        # What an update wrote is no newer than the changes that follow it.
        written = self._written < np.uint64(moment)
        return written if self._until is None else written & (self._until >= np.uint64(moment))

    def _has_values(self, change: RowChange) -> Mask:
        """Mask the rows that already hold the values of an update."""
        same = YES
        for name, raw in change.values or ():
            if name in self._columns:
                same = same & self._columns[name].holds(raw)
        return same

    def _kept(self, change: RowChange) -> Mask:
        """Mask the rows that the engine keeps, each by the fields that it was written with."""
        named = frozenset(change.fields)
        kept = np.zeros(len(self.times), bool)
        for lacks in {lacks & named for lacks in self._lacks.values()}:
            writers = [writer for writer, lacked in self._lacks.items() if lacked & named == lacks]
            truth = rows_kept(change.stored, partial(self._stored, lacks))
            kept |= np.isin(self._set_by, writers) & truth
        return kept

    def _stored(self, lacks: Collection[str], node: Compare) -> Mask | None:
        """Mask the rows that satisfy a comparison for the engine; None if they lack its field."""
        if node.field in lacks:
            return None
        return column_truth(node, self._columns[node.field], Sense.STORED)

    def _is_as_compared(self, node: Compare) -> Mask:
        return column_truth(node, self._columns[node.field], Sense.PREDICATE)
