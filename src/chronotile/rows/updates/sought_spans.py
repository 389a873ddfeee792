"""What updates ask of values, as tables that are made once and serve all batches.

In: the updates that are going to act. Out: the spans that they can be looked up by, numbered, and
for each update its covers; of those the best, once it is known how many rows each span may hold.
Reads no rows.
"""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from chronotile.conditions.value_spans import Cover, Span, covers

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable

    import numpy.typing as npt

    from chronotile.format.schema import Field
    from chronotile.rows.changes_in_force import Change

_ONE_IN = 16
"""An update that may match more rows than one in so many looks at all: that is quicker."""


class Sought(NamedTuple):
    """The spans of one field."""

    first: int
    """The number of the first; the others follow."""
    lows: npt.NDArray[Any]
    highs: npt.NDArray[Any]

    @property
    def numbers(self) -> slice:
        """Where they are among all spans."""
        return slice(self.first, self.first + len(self.lows))


class Chosen(NamedTuple):
    """How updates are looked up."""

    covers: dict[str, Cover]
    """Update -> its cover; those that look at all rows are not among them."""
    is_wanted: npt.NDArray[np.bool_]
    """For each span whether it is of one of the covers, and may hold rows."""


class SoughtSpans:
    """What updates ask of values.

    Args:
        fields: Of the columns.
        changes: All that act, deletes too.
    """

    def __init__(self, fields: Iterable[Field], changes: Collection[Change]) -> None:
        named = {field.name: field for field in fields}
        updates = [change for change in changes if change.is_update]
        found = {update.name: covers(update.predicate, named) for update in updates}
        self._covers = [cover for same in found.values() for cover in same]
        ends = itertools.accumulate((len(same) for same in found.values()), initial=0)
        self._covers_of = {
            name: range(*own) for name, own in zip(found, itertools.pairwise(ends), strict=True)
        }
        asked: dict[str, dict[Span, None]] = {}
        for span in (span for cover in self._covers for span in cover.spans):
            asked.setdefault(span.field, {})[span] = None
        self.numbers = {span: at for at, span in enumerate(itertools.chain(*asked.values()))}
        """Each span has a number; those of a field follow each other."""
        self.fields = {
            name: Sought(
                self.numbers[next(iter(spans))],
                _listed([span.low for span in spans]),
                _listed([span.high for span in spans]),
            )
            for name, spans in asked.items()
        }
        uses = [(at, self.numbers[s]) for at, one in enumerate(self._covers) for s in one.spans]
        self._cover_used, self._span_used = np.array(uses, np.intp).reshape(-1, 2).T

    def chosen(self, shares: npt.NDArray[np.float64]) -> Chosen:
        """For each update the cover with the fewest rows, if those are few.

        Args:
            shares: For each span how large a part of the rows it may hold; infinite if nobody
                knows.
        """
        used = shares[self._span_used]
        sizes = np.bincount(self._cover_used, used, len(self._covers)).tolist()
        is_chosen = np.zeros(len(self._covers), bool)
        found = {}
        for update, own in self._covers_of.items():
            best = min(own, key=sizes.__getitem__, default=None)
            if best is not None and sizes[best] * _ONE_IN <= 1:
                is_chosen[best] = True
                found[update] = self._covers[best]
        is_wanted = np.zeros(len(self.numbers), bool)
        is_wanted[self._span_used[is_chosen[self._cover_used] & (used > 0)]] = True
        return Chosen(found, is_wanted)

    @property
    def updates(self) -> int:
        """How many there are, those without a cover too."""
        return len(self._covers_of)


def _listed(ends: list[Any]) -> npt.NDArray[Any]:
    # Numpy would cut the last zeros of a text.
    return np.array(ends, object if isinstance(ends[0], bytes) else None)
