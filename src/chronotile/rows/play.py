"""The history of rows, played: deletes and updates in order, on a batch of cells at a time.

In: cells as they were written, with their times, and the changes in force. Out: which rows are
left, their values now, since when, and which change did it. Knows no file and asks no engine.

Each cell is by itself: a change acts on it if it was written in time and is not overwritten yet.
A row that an update matches counts as written anew at the update's time. Deletes do what the
engine makes of them, with its faults; updates mean what they say: NULL is no match, NaN differs
from everything, and a row that has the values already is not touched.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from chronotile.conditions.truth import Sense
from chronotile.conditions.truth_columns import (
    NO,
    YES,
    Column,
    Mask,
    both,
    certain_truth,
    column_truth,
    opposite,
    rows_asked_for,
    rows_kept,
)
from chronotile.rows.cell_columns import is_number, stored_type

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    import numpy.typing as npt

    from chronotile.conditions.tree import Compare
    from chronotile.format.schema import Field
    from chronotile.rows.changes_in_force import Change

NOBODY = -1


class PlayedColumn:
    """The cells of one field, with what updates have set them to."""

    def __init__(self, field: Field, cells: pa.Array) -> None:
        self.base = Column(field, cells)
        self.chosen: npt.NDArray[np.int32] | None = None
        """For each row which of the values it has; -1 for its own."""
        self._values: list[Any] = []
        self._set: Column | None = None

    def set(self, rows: npt.NDArray[np.intp], raw: bytes) -> None:
        """Set rows to a raw value; no bytes are NULL where the field takes it."""
        if self.chosen is None:
            self.chosen = np.full(len(self.base.cells), NOBODY, np.int32)
        self.chosen[rows] = len(self._values)
        self._values.append(raw_value(self.base.field, raw))
        self._set = None

    @property
    def values(self) -> Column:
        """The values that were set, as a column of its own."""
        if self._set is None:
            field = self.base.field
            self._set = Column(field, pa.array(self._values, stored_type(field)))
        return self._set

    def truth(self, node: Compare, sense: Sense) -> Mask:
        """Mask of the rows whose value now satisfies a comparison."""
        own = column_truth(node, self.base, sense)
        if self.chosen is None:
            return own
        given = np.broadcast_to(column_truth(node, self.values, sense), len(self._values))
        return np.where(self.chosen == NOBODY, own, given[self.chosen])

    def holds(self, rows: npt.NDArray[np.intp], raw: bytes) -> npt.NDArray[np.bool_]:
        """Mask of some rows: whether they hold a raw value, NULL and NaN included."""
        value = raw_value(self.base.field, raw)
        if self.base.is_number and value is not None and value == value:
            return self._equals(rows, value)
        cells = self.cells(rows)
        if value is None:
            return np.asarray(cells.is_null())
        if value != value:
            return np.asarray(pc.fill_null(pc.is_nan(cells), False))
        equal = pc.equal(cells, pa.scalar(value, cells.type))
        return np.asarray(pc.fill_null(equal, False))

    def _equals(self, rows: npt.NDArray[np.intp], value: float) -> npt.NDArray[np.bool_]:
        """Mask of some rows: whether they hold a number."""
        base = self.base
        same: npt.NDArray[np.bool_] = base.numbers[rows] == value
        if base.nulls is not NO:
            same &= ~np.broadcast_to(base.nulls, len(base.cells))[rows]
        if self.chosen is None:
            return same
        chosen, given = self.chosen[rows], self.values
        is_value = (given.numbers == value) & ~np.broadcast_to(given.nulls, len(given.cells))
        return np.where(chosen == NOBODY, same, is_value[chosen])

    def cells(self, rows: npt.NDArray[np.intp] | None = None) -> pa.Array:
        """The cells now, as stored; of some rows only."""
        own = self.base.cells if rows is None else self.base.cells.take(pa.array(rows))
        if self.chosen is None:
            return own
        chosen = self.chosen if rows is None else self.chosen[rows]
        if not (chosen != NOBODY).any():
            return own
        places = np.where(chosen == NOBODY, np.arange(len(own)), len(own) + chosen)
        return pa.concat_arrays([own, self.values.cells]).take(pa.array(places))


def raw_value(field: Field, raw: bytes) -> Any:
    """A value that an update sets, as a cell is stored."""
    if not raw and field.nullable:
        return None
    if is_number(field):
        size = field.datatype.size
        padded = raw if len(raw) == size else bytes(size)
        return np.frombuffer(padded, f"<{field.datatype.code}")[0].item()
    return raw


class Play:
    """A batch of cells on which changes act, one after the other.

    Args:
        fields: Of the columns.
        columns: The cells as stored.
        times: When each was written.
        lacks: The fields that the fragments of these cells were written without (F15).
        until: When each is overwritten, if older cells of a place are among them.
    """

    def __init__(
        self,
        fields: Sequence[Field],
        columns: Sequence[pa.Array],
        times: npt.NDArray[np.uint64],
        lacks: Collection[str] = (),
        until: npt.NDArray[np.uint64] | None = None,
    ) -> None:
        self.columns = {
            field.name: PlayedColumn(field, cells)
            for field, cells in zip(fields, columns, strict=True)
        }
        self._written, self._until = times, until
        self.times = times
        """Since when each row has its values."""
        self._lacks: dict[int, frozenset[str]] = {NOBODY: frozenset(lacks)}
        self._has_own_times = False
        self._alive: Mask = YES
        self.done_by: npt.NDArray[np.int32] = np.full(len(times), NOBODY, np.int32)
        """Which change was the last to set or remove each row; -1 for none."""
        self._writer: npt.NDArray[np.int32] = np.full(len(times), NOBODY, np.int32)
        self._first, self._last = (int(times.min()), int(times.max())) if len(times) else (0, 0)

    @property
    def alive(self) -> npt.NDArray[np.bool_]:
        """Mask of the rows that no delete has removed."""
        return np.broadcast_to(self._alive, len(self.times))

    def act(self, number: int, change: Change) -> npt.NDArray[np.intp]:
        """Let one change act; give the rows that it touched."""
        hit = self.hit_by(change)
        if not len(hit):
            return hit
        if change.values is None or change.is_written:
            alive = self.alive.copy()
            alive[hit] = False
            self._alive = alive
        else:
            for name, raw in change.values:
                if name in self.columns:
                    self.columns[name].set(hit, raw)
            if not self._has_own_times:
                self.times, self._has_own_times = self.times.copy(), True
            self.times[hit] = change.t
            self._writer[hit] = number
            self._lacks[number] = change.lacks
        self.done_by[hit] = number
        return hit

    def hit_by(self, change: Change) -> npt.NDArray[np.intp]:
        """The rows that a change removes or sets, as they are now."""
        mask = self._there(change.t + (not change.is_update))
        if mask is not NO:
            asked = (
                rows_asked_for(change.predicate, self._asked, self._certain)
                if change.is_update
                else opposite(self._kept(change))
            )
            mask = both(self._alive, both(mask, asked))
        rows = np.arange(len(self.times) if mask else 0) if mask.ndim == 0 else np.flatnonzero(mask)
        return self._differing(change, rows) if change.is_update and len(rows) else rows

    def _differing(self, change: Change, rows: npt.NDArray[np.intp]) -> npt.NDArray[np.intp]:
        """Less the rows that have the values already: those are not touched."""
        same = np.ones(len(rows), bool)
        for name, raw in change.values or ():
            if name in self.columns:
                same &= self.columns[name].holds(rows, raw)
        return rows[~same] if same.any() else rows

    def _there(self, moment: int) -> Mask:
        """Mask of the cells that were written before a moment, and not overwritten before it."""
        written = self._written_before(moment)
        if self._until is None or written is NO:
            return written
        return both(written, self._until >= np.uint64(moment))

    def _written_before(self, moment: int) -> Mask:
        # What an update wrote is no newer than the changes that follow it.
        if self._last < moment:
            return YES
        return NO if self._first >= moment else self._written < np.uint64(moment)

    def _asked(self, node: Compare) -> Mask:
        return self.columns[node.field].truth(node, Sense.PREDICATE)

    def _certain(self, node: Compare) -> Mask | None:
        column = self.columns[node.field]
        return certain_truth(node, column.base) if column.chosen is None else None

    def _kept(self, change: Change) -> Mask:
        named = frozenset(change.fields)
        lacking = {writer: lacks & named for writer, lacks in self._lacks.items()}
        kinds = set(lacking.values())
        if len(kinds) == 1:
            return rows_kept(change.stored, partial(self._stored, kinds.pop()))
        kept = np.zeros(len(self.times), bool)
        for lacks in kinds:
            writers = [writer for writer, lacked in lacking.items() if lacked == lacks]
            truth = rows_kept(change.stored, partial(self._stored, lacks))
            kept |= np.isin(self._writer, writers) & truth
        return kept

    def _stored(self, lacks: Collection[str], node: Compare) -> Mask | None:
        """The truth of one comparison as the engine finds it; None where cells lack the field."""
        if node.field in lacks:
            return None
        return self.columns[node.field].truth(node, Sense.STORED)
