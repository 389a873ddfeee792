"""The rows of a batch that updates can match.

In: what updates ask for, and columns of cells as they were written. Out: for an update the spans
that it is looked up by, and the rows whose own numbers are in them; or None if it has to look at
all rows. Knows nothing of what updates have set.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from chronotile.rows.updates.rows_in_spans import rows_marked
from chronotile.rows.updates.spans_in_column import spans_in

if TYPE_CHECKING:
    from collections.abc import Mapping

    import numpy.typing as npt

    from chronotile.conditions.column import Column
    from chronotile.conditions.value_spans import Cover, Span
    from chronotile.rows.updates.rows_in_spans import RowsInSpans
    from chronotile.rows.updates.sought_spans import SoughtSpans

    Rows = npt.NDArray[np.intp]


class Candidates:
    """The rows of one batch, or of a part of it, that updates can match; made by `candidates`."""

    def __init__(
        self, sought: SoughtSpans, covers: Mapping[str, Cover], found: Mapping[str, RowsInSpans]
    ) -> None:
        self._sought, self._covers, self._found = sought, covers, found

    def reach(self, count: int) -> Rows | None:
        """The rows, of so many, that an update can match before any has acted.

        None if an update looks at all.
        """
        if len(self._covers) < self._sought.updates:
            return None
        mask = np.zeros(count, bool)
        for found in self._found.values():
            found.mark(mask)
        return rows_marked(mask)

    def part(self, rows: Rows, columns: Mapping[str, Column]) -> Candidates:
        """The same for some rows, with their columns; all that can be reached are among them."""
        found = {name: one.part(rows, columns[name]) for name, one in self._found.items()}
        return Candidates(self._sought, self._covers, found)

    def cover(self, update: str) -> Cover | None:
        """What an update is looked up by; None if it has to look at all rows."""
        return self._covers.get(update)

    def rows(self, span: Span) -> Rows:
        """The rows whose own number is in a span of such a cover; anything where they are NULL."""
        at = self._sought.numbers[span] - self._sought.fields[span.field].first
        return self._found[span.field].rows(at)


def candidates(sought: SoughtSpans, columns: Mapping[str, Column]) -> Candidates:
    """Look at the cells of a batch, at least one each, for all that updates ask for."""
    looks = {name: spans_in(columns[name], spans) for name, spans in sought.fields.items()}
    shares = np.concatenate([np.zeros(0), *(look.shares for look in looks.values())])
    chosen = sought.chosen(shares)
    found = {
        name: look.found(chosen.is_wanted[sought.fields[name].numbers])
        for name, look in looks.items()
    }
    return Candidates(sought, chosen.covers, found)
