"""Spans of values in a column: one look at the column serves all of them.

In: a column of cells as they were written, and the spans of its field. Out: about how many rows
each span holds; then the rows of those that are wanted. Knows no update.

Numbers in order are searched. Others fall on a grid, and a table tells for each place of it which
spans touch it. Texts are looked up in a table of those that are sought. A sample of the rows tells
beforehand how many rows that makes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from chronotile.rows.updates.number_grid import entries_at, grid_of
from chronotile.rows.updates.rows_in_spans import RowsByCode, RowsInOrder, RowsOneByOne

if TYPE_CHECKING:
    import numpy.typing as npt

    from chronotile.conditions.column import Column
    from chronotile.rows.updates.number_grid import Grid
    from chronotile.rows.updates.rows_in_spans import RowsInSpans
    from chronotile.rows.updates.sought_spans import Sought

    IsWanted = npt.NDArray[np.bool_]

_FEW_SPANS = 4
"""So many are looked for one by one: that is quicker than a grid."""


def spans_in(column: Column, sought: Sought) -> SpansInOrder | SpansOnGrid | SpansOfText:
    """Look for the spans of a field in its column, which has at least one cell."""
    if not column.is_number:
        return SpansOfText(column, sought)
    if column.is_ordered:
        return SpansInOrder(column.numbers, sought)
    return SpansOnGrid(column, sought)


class SpansInOrder:
    """Spans in numbers that are in order."""

    def __init__(self, numbers: npt.NDArray[Any], sought: Sought) -> None:
        self._starts = numbers.searchsorted(sought.lows, "left")
        self._ends = numbers.searchsorted(sought.highs, "right")
        self.shares: npt.NDArray[np.float64] = (self._ends - self._starts) / len(numbers)
        """How large a part of the rows each span holds."""

    def found(self, is_wanted: IsWanted) -> RowsInSpans:
        """The rows of the spans that are wanted."""
        return RowsInOrder(self._starts, np.where(is_wanted, self._ends, self._starts))


class SpansOnGrid:
    """Spans in numbers that are in no order."""

    def __init__(self, column: Column, sought: Sought) -> None:
        self._column, self._sought = column, sought
        self._grid = grid_of(column)
        self.shares = np.full(len(sought.lows), np.inf)
        """About how large a part of the rows each span may hold; infinite if nobody knows."""
        if self._grid is not None:
            self._look_at_sample(self._grid)

    def _look_at_sample(self, grid: Grid) -> None:
        sought = self._sought
        self._lows = grid.nearest(sought.lows).astype(np.intp)
        self._ends = grid.nearest(sought.highs).astype(np.intp) + 1
        held = np.sort(grid.nearest(self._column.sample))
        counts = held.searchsorted(self._ends, "left") - held.searchsorted(self._lows, "left")
        # One more: the sample may have missed some.
        self.shares = (counts + 1) / (len(held) + 1)
        if grid.is_whole:
            self.shares[(sought.highs < grid.low) | (sought.lows > grid.high)] = 0

    def found(self, is_wanted: IsWanted) -> RowsInSpans:
        """The rows of the spans that are wanted."""
        if np.count_nonzero(is_wanted) <= _FEW_SPANS:
            return RowsOneByOne(self._column, self._sought, is_wanted)
        assert self._grid is not None  # else no span is wanted
        table, firsts, ends = _parts(self._lows, self._ends, is_wanted, self._grid.last + 1)
        codes = entries_at(self._grid, self._column.numbers, table)
        sought = None if self._grid.is_exact else self._sought
        return RowsByCode(codes, firsts, ends, sought, self._column)


class SpansOfText:
    """Spans of one text each."""

    def __init__(self, column: Column, sought: Sought) -> None:
        self._column, self._texts = column, pa.array(sought.lows, pa.large_binary())
        found = pc.index_in(column.sampled_texts, value_set=self._texts)
        counts = np.bincount(np.asarray(found.drop_null()), minlength=len(sought.lows))
        # One more: the sample may have missed some.
        self.shares: npt.NDArray[np.float64] = (counts + 1) / (len(found) + 1)
        """About how large a part of the rows each span may hold."""

    def found(self, is_wanted: IsWanted) -> RowsInSpans:
        """The rows of the spans that are wanted."""
        wanted = self._texts.filter(pa.array(is_wanted))
        kind = np.min_scalar_type(len(wanted))
        codes = np.zeros(len(self._column), kind)
        if len(wanted):
            at = pc.index_in(self._column.texts, value_set=wanted)
            codes = (np.asarray(pc.fill_null(at, -1)) + 1).astype(kind)
        numbers = np.cumsum(is_wanted)
        firsts, ends = (np.where(is_wanted, numbers + more, 0) for more in (0, 1))
        return RowsByCode(codes, firsts, ends, None, self._column)


def _parts(
    lows: npt.NDArray[np.intp], ends: npt.NDArray[np.intp], is_wanted: IsWanted, places: int
) -> tuple[npt.NDArray[Any], npt.NDArray[np.intp], npt.NDArray[np.intp]]:
    """The parts of a grid between the ends of spans: each is in a span as a whole, or not at all.

    Returns:
        For each place the number of its part, from 1 on; 0 if no span covers it. For each span its
        first part, and the one after its last; 0 if it is not wanted.
    """
    wanted = lows[is_wanted], ends[is_wanted]
    edges = np.unique(np.concatenate(wanted))
    first, last = (edges.searchsorted(one) for one in wanted)
    depth = np.bincount(first, minlength=len(edges)) - np.bincount(last, minlength=len(edges))
    is_covered = np.cumsum(depth) > 0
    parts = np.cumsum(is_covered) * is_covered
    table = np.zeros(places, np.min_scalar_type(int(parts.max())))
    table[edges[0] : edges[-1]] = np.repeat(parts[:-1], np.diff(edges))
    firsts, after = np.zeros((2, len(is_wanted)), np.intp)
    firsts[is_wanted], after[is_wanted] = parts[first], parts[last - 1] + 1
    return table, firsts, after
