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

    from chronotile.rows.sought_spans import Sought

    Numbers: TypeAlias = npt.NDArray[Any]
    Rows: TypeAlias = npt.NDArray[np.intp]


class RowsInSpans(Protocol):
    """Where the rows of spans are; a span that is not wanted has none."""

    def mark(self, mask: npt.NDArray[np.bool_]) -> None:
        """Mark the rows that may be in a span."""

    def part(self, rows: Rows, numbers: Numbers) -> RowsInSpans:
        """The same for some rows in order, with their numbers; they have all that were marked."""

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

    def part(self, rows: Rows, _: Numbers) -> RowsInOrder:
        """The same for some rows."""
        return RowsInOrder(rows.searchsorted(self.starts), rows.searchsorted(self.ends))

    def rows(self, at: int) -> Rows:
        """The rows that are in a span."""
        return np.arange(self.starts[at], self.ends[at])


class RowsOneByOne(NamedTuple):
    """Rows in no order, for so few spans that each takes its own look at their numbers."""

    numbers: Numbers
    sought: Sought
    is_wanted: npt.NDArray[np.bool_]

    def mark(self, mask: npt.NDArray[np.bool_]) -> None:
        """Mark the rows that may be in a span."""
        for at in np.flatnonzero(self.is_wanted).tolist():
            mask |= self._is_inside(at)

    def part(self, _: Rows, numbers: Numbers) -> RowsOneByOne:
        """The same for some rows."""
        return RowsOneByOne(numbers, self.sought, self.is_wanted)

    def rows(self, at: int) -> Rows:
        """The rows that are in a span."""
        return np.flatnonzero(self._is_inside(at)) if self.is_wanted[at] else np.zeros(0, np.intp)

    def _is_inside(self, at: int) -> npt.NDArray[np.bool_]:
        return is_inside(self.numbers, self.sought, at)


class RowsByCode:
    """Rows in no order, each with a code: a span is some codes that follow each other.

    Args:
        codes: For each row; 0 if it is in no span.
        firsts: For each span its first code; 0 if it is not wanted.
        ends: For each span the code after its last; 0 if it is not wanted.
        sought: The spans, if a row with such a code need not be in the span.
        numbers: Of the rows, for the same case.
    """

    def __init__(
        self, codes: Numbers, firsts: Rows, ends: Rows, sought: Sought | None, numbers: Numbers
    ) -> None:
        self._codes, self._firsts, self._ends = codes, firsts, ends
        self._sought, self._numbers = sought, numbers

    def mark(self, mask: npt.NDArray[np.bool_]) -> None:
        """Mark the rows that may be in a span."""
        mask |= self._codes != 0

    def part(self, rows: Rows, numbers: Numbers) -> RowsByCode:
        """The same for some rows."""
        return RowsByCode(self._codes[rows], self._firsts, self._ends, self._sought, numbers)

    @cached_property
    def _ordered(self) -> tuple[Rows, Numbers | None, list[int]]:
        """The rows in the order of their codes, their numbers, and where each code begins."""
        rows = np.flatnonzero(self._codes != 0)
        codes = self._codes[rows]
        ordered = rows[np.argsort(codes, kind="stable")]
        counts = np.bincount(codes, minlength=int(self._ends.max(initial=0)))
        begins = [0, *np.cumsum(counts).tolist()]
        return ordered, None if self._sought is None else self._numbers[ordered], begins

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
