"""The rows of a column that are in spans, found in one of three ways.

In: what one look at a column has told of its rows. Out: for each span that is wanted its rows, and
the same for a part of the rows. Knows no cell but numbers, and no update.
"""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, TypeAlias

import numpy as np

if TYPE_CHECKING:
    import numpy.typing as npt

    from chronotile.conditions.column import Column
    from chronotile.rows.updates.sought_spans import Sought

    Numbers: TypeAlias = npt.NDArray[Any]
    Rows: TypeAlias = npt.NDArray[np.intp]

_FEW = 10
"""Rows are few if they are at most one in so many; numpy changes its way there too."""


class RowsInSpans(Protocol):
    """Where the rows of spans are; a span that is not wanted has none."""

    def mark(self, mask: npt.NDArray[np.bool_]) -> None:
        """Mark the rows that may be in a span."""

    def part(self, rows: Rows, column: Column) -> RowsInSpans:
        """The same for some rows in order, with their cells; they have all that were marked."""

    def rows(self, at: int) -> Rows:
        """The rows that are in a span."""


class RowsInOrder(NamedTuple):
    """Rows whose numbers are in order: those of a span are one run."""

    starts: Rows
    ends: Rows

    def mark(self, mask: npt.NDArray[np.bool_]) -> None:
        """Mark the rows that may be in a span."""
        for start, end in zip(self.starts.tolist(), self.ends.tolist(), strict=True):
            mask[start:end] = True

    def part(self, rows: Rows, _: Column) -> RowsInOrder:
        """The same for some rows."""
        return RowsInOrder(rows.searchsorted(self.starts), rows.searchsorted(self.ends))

    def rows(self, at: int) -> Rows:
        """The rows that are in a span."""
        return np.arange(self.starts[at], self.ends[at])


class RowsOneByOne(NamedTuple):
    """Rows in no order, for so few spans that each takes its own look at their numbers."""

    column: Column
    sought: Sought
    is_wanted: npt.NDArray[np.bool_]

    def mark(self, mask: npt.NDArray[np.bool_]) -> None:
        """Mark the rows that may be in a span."""
        for at in np.flatnonzero(self.is_wanted).tolist():
            mask |= self._is_inside(at)

    def part(self, _: Rows, column: Column) -> RowsOneByOne:
        """The same for some rows."""
        return RowsOneByOne(column, self.sought, self.is_wanted)

    def rows(self, at: int) -> Rows:
        """The rows that are in a span."""
        return np.flatnonzero(self._is_inside(at)) if self.is_wanted[at] else np.zeros(0, np.intp)

    def _is_inside(self, at: int) -> npt.NDArray[np.bool_]:
        return is_inside(self.column.numbers, self.sought, at)


class RowsByCode:
    """Rows in no order, each with a code: a span is some codes that follow each other.

    Args:
        codes: For each row; 0 if it is in no span.
        firsts: For each span its first code; 0 if it is not wanted.
        ends: For each span the code after its last; 0 if it is not wanted.
        sought: The spans, if a row with such a code need not be in the span.
        column: The cells of the rows, for the same case.
    """

    def __init__(
        self, codes: Numbers, firsts: Rows, ends: Rows, sought: Sought | None, column: Column
    ) -> None:
        self._codes, self._firsts, self._ends = codes, firsts, ends
        self._sought, self._column = sought, column

    def mark(self, mask: npt.NDArray[np.bool_]) -> None:
        """Mark the rows that may be in a span."""
        mask |= self._codes != 0

    def part(self, rows: Rows, column: Column) -> RowsByCode:
        """The same for some rows."""
        return RowsByCode(self._codes[rows], self._firsts, self._ends, self._sought, column)

    @cached_property
    def _ordered(self) -> tuple[Rows, Numbers | None, list[int]]:
        """The rows in the order of their codes, their numbers, and where each code begins."""
        rows = rows_marked(self._codes != 0)
        codes = self._codes[rows]
        ordered = rows[np.argsort(codes, kind="stable")]
        counts = np.bincount(codes, minlength=int(self._ends.max(initial=0)))
        begins = [0, *np.cumsum(counts).tolist()]
        return ordered, None if self._sought is None else self._column.numbers_of(ordered), begins

    def rows(self, at: int) -> Rows:
        """The rows that are in a span."""
        rows, numbers, begins = self._ordered
        part = slice(begins[self._firsts[at]], begins[self._ends[at]])
        if self._sought is None or numbers is None:
            return rows[part]
        inside: Rows = rows[part][is_inside(numbers[part], self._sought, at)]
        return inside


def is_inside(numbers: Numbers, sought: Sought, at: int) -> npt.NDArray[np.bool_]:
    """Mask of the numbers that are in a span."""
    inside: npt.NDArray[np.bool_] = numbers >= sought.lows[at]
    inside &= numbers <= sought.highs[at]
    return inside


def rows_marked(mask: npt.NDArray[np.bool_]) -> Rows:
    """The rows that a mask marks.

    >>> rows_marked(np.arange(20) % 9 == 8).tolist()
    [8, 17]
    """
    if np.count_nonzero(mask) * _FEW > len(mask):
        return np.flatnonzero(mask)
    # Of a mask with few rows numpy looks at each byte: to pass over empty words is quicker.
    end = len(mask) // 8 * 8
    words = mask[:end].view(np.uint64)
    full = np.flatnonzero(words != 0)
    inner = np.flatnonzero(words[full].view(bool))
    last = end + np.flatnonzero(mask[end:])
    return np.concatenate([full[inner >> 3] * 8 + (inner & 7), last])
