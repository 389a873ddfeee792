"""A batch of cells on which all changes are played.

In: cells as they were written, and the changes in force. Out: the cells now, which rows are left,
and since when they have their values. Only asks `Play`, of as few rows as it can.

Most updates match few rows. Those that any of them can match are taken out and played by
themselves: side by side they stay in the processor's cache. All others see deletes alone.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from chronotile.conditions.column import Column
from chronotile.rows.updates.play_changes import Play
from chronotile.rows.updates.played_column import replaced
from chronotile.rows.updates.rows_updates_can_match import candidates

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy as np
    import numpy.typing as npt
    import pyarrow as pa

    from chronotile.format.schema import Field
    from chronotile.rows.cells.cell_source import CellBatch
    from chronotile.rows.changes_in_force import Change
    from chronotile.rows.updates.sought_spans import SoughtSpans

_FEW = 3
"""Rows are taken out if they are at most one in so many."""


class PlayedBatch:
    """A batch on which all changes can be played. Its cells belong to it: they may be written over.

    Args:
        fields: Of the columns.
        batch: The cells as they were written.
        changes: All that act, in order.
        sought: What the updates among them ask for.
    """

    def __init__(
        self,
        fields: Sequence[Field],
        batch: CellBatch,
        changes: Sequence[Change],
        sought: SoughtSpans,
    ) -> None:
        self._fields, self._batch, self._changes = fields, batch, changes
        self._columns = {
            field.name: Column(field, cells)
            for field, cells in zip(fields, batch.columns, strict=True)
        }
        self._look = candidates(sought, self._columns)
        self._rows: npt.NDArray[np.intp] | None = None
        self._part: Play | None = None

    def play(self) -> None:
        """Let all changes act."""
        batch, look = self._batch, self._look
        columns = tuple(self._columns.values())
        self._whole = Play(self._fields, columns, batch.times, batch.lacks, candidates=look)
        rows = look.reach(len(batch.times))
        if rows is not None and len(rows) * _FEW <= len(batch.times):
            self._rows, self._part = rows, self._taken_out(rows)
        for number, change in enumerate(self._changes):
            if self._part is not None:
                self._part.act(number, change)
            # No update sets a row of the others, so deletes judge those by their own cells.
            if self._part is None or not change.is_update:
                self._whole.act(number, change)

    def _taken_out(self, rows: npt.NDArray[np.intp]) -> Play:
        """Some rows, to be played by themselves."""
        batch = self._batch
        part = {name: column.of(rows) for name, column in self._columns.items()}
        # Cells that share one time in memory go on to share it.
        times = batch.times[: len(rows)] if batch.times.strides == (0,) else batch.times[rows]
        look, columns = self._look.part(rows, part), tuple(part.values())
        return Play(self._fields, columns, times, batch.lacks, candidates=look)

    @property
    def is_whole(self) -> bool:
        """Whether no delete has removed a row."""
        return self._whole.is_whole and (self._part is None or self._part.is_whole)

    @property
    def alive(self) -> npt.NDArray[np.bool_]:
        """Mask of the rows that no delete has removed."""
        if self._part is None:
            return self._whole.alive
        alive = self._whole.alive.copy()
        alive[self._rows] = self._part.alive
        return alive

    @property
    def times(self) -> npt.NDArray[np.uint64]:
        """Since when each row has its values."""
        times = self._whole.times
        if self._part is not None:
            times[self._rows] = self._part.times
        return times

    def cells(self, name: str) -> pa.Array:
        """The cells of a column now, as stored; to be asked for once, after all else."""
        if self._part is None or self._rows is None:
            return self._whole.columns[name].cells()
        column, base = self._part.columns[name], self._columns[name]
        if column.chosen is None:
            return base.cells
        rows, new = column.given()
        return replaced(base, self._rows[rows], new, in_place=True)
