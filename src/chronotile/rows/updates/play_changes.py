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
from typing import TYPE_CHECKING

import numpy as np

from chronotile.conditions.column import Column
from chronotile.conditions.masks import NO, YES, Mask, both, opposite
from chronotile.conditions.truth import Sense
from chronotile.conditions.truth_columns import certain_truth, rows_asked_for, rows_kept
from chronotile.conditions.value_spans import Span
from chronotile.rows.updates.played_column import PlayedColumn

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    import numpy.typing as npt
    import pyarrow as pa

    from chronotile.conditions.tree import Compare
    from chronotile.conditions.value_spans import Cover
    from chronotile.format.schema import Field
    from chronotile.rows.changes_in_force import Change
    from chronotile.rows.updates.rows_updates_can_match import Candidates

NOBODY = -1


class Play:
    """A batch of cells on which changes act, one after the other.

    Args:
        fields: Of the columns.
        columns: The cells as stored.
        times: When each was written.
        lacks: The fields that the fragments of these cells were written without (F15).
        until: When each is overwritten, if older cells of a place are among them.
        candidates: The rows that updates can match, so that each looks at few of them.
    """

    def __init__(
        self,
        fields: Sequence[Field],
        columns: Sequence[pa.Array | Column],
        times: npt.NDArray[np.uint64],
        lacks: Collection[str] = (),
        until: npt.NDArray[np.uint64] | None = None,
        candidates: Candidates | None = None,
    ) -> None:
        self.columns = {
            field.name: PlayedColumn(cells if isinstance(cells, Column) else Column(field, cells))
            for field, cells in zip(fields, columns, strict=True)
        }
        self._written, self._until = times, until
        self._lacks: dict[int, frozenset[str]] = {NOBODY: frozenset(lacks)}
        self._alive: Mask = YES
        self._set: list[tuple[int, int, npt.NDArray[np.intp]]] = []
        """What updates did: the number of each, its time, the rows."""
        self._done: list[tuple[int, npt.NDArray[np.intp]]] = []
        """What all changes did: the number of each, the rows."""
        # Of cells that share one time in memory, one tells it.
        own = times[:1] if times.strides == (0,) else times
        self._first, self._last = (int(own.min()), int(own.max())) if len(own) else (0, 0)
        self._candidates = candidates

    @property
    def is_whole(self) -> bool:
        """Whether no delete has removed a row."""
        return self._alive is YES

    @property
    def alive(self) -> npt.NDArray[np.bool_]:
        """Mask of the rows that no delete has removed."""
        return np.broadcast_to(self._alive, len(self._written))

    @property
    def times(self) -> npt.NDArray[np.uint64]:
        """Since when each row has its values."""
        times = self._written.copy()
        for _, t, rows in self._set:
            times[rows] = t
        return times

    @property
    def done_by(self) -> npt.NDArray[np.int32]:
        """Which change was the last to set or remove each row; -1 for none."""
        done_by = np.full(len(self._written), NOBODY, np.int32)
        for number, rows in self._done:
            done_by[rows] = number
        return done_by

    @property
    def _written_by(self) -> npt.NDArray[np.int32]:
        """Which update was the last to set each row; -1 for none."""
        written_by = np.full(len(self._written), NOBODY, np.int32)
        for number, _, rows in self._set:
            written_by[rows] = number
        return written_by

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
            self._set.append((number, change.t, hit))
            self._lacks[number] = change.lacks
        self._done.append((number, hit))
        return hit

    def hit_by(self, change: Change) -> npt.NDArray[np.intp]:
        """The rows that a change removes or sets, as they are now."""
        there = self._there(change.t + (not change.is_update))
        cover = None
        if change.is_update and self._candidates is not None:
            cover = self._candidates.cover(change.name)
        if there is NO:
            rows = np.zeros(0, np.intp)
        elif cover is not None:
            rows = self._found_by(cover, there)
        else:
            asked = (
                rows_asked_for(change.predicate, self._asked, self._certain)
                if change.is_update
                else opposite(self._kept(change))
            )
            mask = np.broadcast_to(both(self._alive, both(there, asked)), len(self._written))
            rows = np.flatnonzero(mask)
        return self._differing(change, rows) if change.is_update and len(rows) else rows

    def _within(self, cover: Cover) -> npt.NDArray[np.intp]:
        """The rows that are in one of the spans of a cover now; some twice, if spans overlap."""
        assert self._candidates is not None
        parts = [
            part
            for span in cover.spans
            for part in self.columns[span.field].within(span, self._candidates.rows(span))
            if len(part)
        ]
        if len(parts) == 1:
            return parts[0]
        return np.concatenate(parts) if parts else np.zeros(0, np.intp)

    def _found_by(self, cover: Cover, there: Mask) -> npt.NDArray[np.intp]:
        """The rows that an update matches, by a cover of its predicate."""
        rows = self._within(cover)
        for mask in (there, self._alive):
            if isinstance(mask, np.ndarray):
                rows = _picked(rows, mask[rows])
        for part in cover.rest:
            if not len(rows):
                return rows
            if isinstance(part, Span):
                rows = _picked(rows, self.columns[part.field].is_within(part, rows))
            else:
                rows = _picked(rows, rows_asked_for(part, partial(self._asked, rows=rows)))
        is_sorted = (rows[1:] > rows[:-1]).all()
        return rows if is_sorted else _each_once(rows)

    def _differing(self, change: Change, rows: npt.NDArray[np.intp]) -> npt.NDArray[np.intp]:
        """Less the rows that have the values already: those are not touched."""
        same: Mask = YES
        for name, raw in change.values or ():
            if name in self.columns and same is not NO:
                same = both(same, self.columns[name].holds(rows, raw))
        return _picked(rows, opposite(same))

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

    def _asked(self, node: Compare, rows: npt.NDArray[np.intp] | None = None) -> Mask:
        return self.columns[node.field].truth(node, Sense.PREDICATE, rows)

    def _certain(self, node: Compare) -> Mask | None:
        column = self.columns[node.field]
        return certain_truth(node, column.base) if column.chosen is None else None

    def _kept(self, change: Change) -> Mask:
        named = frozenset(change.fields)
        lacking = {writer: lacks & named for writer, lacks in self._lacks.items()}
        kinds = set(lacking.values())
        if len(kinds) == 1:
            return rows_kept(change.stored, partial(self._stored, kinds.pop()))
        kept = np.zeros(len(self._written), bool)
        for lacks in kinds:
            writers = [writer for writer, lacked in lacking.items() if lacked == lacks]
            truth = rows_kept(change.stored, partial(self._stored, lacks))
            kept |= np.isin(self._written_by, writers) & truth
        return kept

    def _stored(self, lacks: Collection[str], node: Compare) -> Mask | None:
        """The truth of one comparison as the engine finds it; None where cells lack the field."""
        if node.field in lacks:
            return None
        return self.columns[node.field].truth(node, Sense.STORED)


def _picked(rows: npt.NDArray[np.intp], mask: Mask) -> npt.NDArray[np.intp]:
    """Some of the rows, by a mask with one truth for each, or one for all."""
    if isinstance(mask, np.ndarray):
        # Quicker than to index with a mask, where that is neither rare nor common.
        return rows.compress(mask)
    return rows if mask else rows[:0]


def _each_once(rows: npt.NDArray[np.intp]) -> npt.NDArray[np.intp]:
    ordered = np.sort(rows, kind="stable")  # quick where spans, each in order, follow each other
    is_first = np.append(True, ordered[1:] != ordered[:-1])
    return ordered.compress(is_first)
