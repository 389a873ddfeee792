"""The rows of a batch that updates can match: one look at a column serves all of them.

In: the updates that are going to act, and columns of cells as they were written. Out: for an update
the spans that it is looked up by, and the rows whose own numbers are in them; or None if it has to
look at all rows. Knows nothing of what updates have set.

The numbers of a column fall on a grid; a table tells for each place of it which spans touch it. A
sample of the rows makes the grid, and tells beforehand which updates match few rows.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from chronotile.conditions.number_spans import Cover, Span, covers

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping

    import numpy.typing as npt

    from chronotile.conditions.truth_columns import Column
    from chronotile.format.schema import Field
    from chronotile.rows.changes_in_force import Change

    Rows = npt.NDArray[np.intp]

_PLACES = 65_535
"""Of a grid; a number of 16 bits tells each of them, and that there is none."""
_BLOCK = 1 << 16
"""Rows that are looked at in one go: they stay in the processor's cache."""
_SAMPLE = 2048
_FEW_SPANS = 4
"""So many are looked for one by one: that is quicker than a grid."""
_NO_ROWS = np.zeros(0, np.intp)
_ONE_IN = 16
"""An update that may match more rows than one in so many looks at all: that is quicker."""


class Grid(NamedTuple):
    """Places for the numbers of a column, in their order."""

    low: Any
    high: Any
    scale: float | None
    """Places a unit; None where each whole number has a place of its own."""
    is_whole: bool
    """Whether all numbers of the column lie between the ends."""

    @property
    def last(self) -> int:
        """The last place."""
        return _PLACES - 1 if self.scale is not None else int(self.high) - int(self.low)

    def places(self, numbers: npt.NDArray[Any]) -> Rows:
        """The place of each number; of those beyond the ends the nearest. NaN is anywhere."""
        places = np.empty(len(numbers), np.intp)
        self.put_places(numbers, places, np.empty(len(numbers)), is_whole=False)
        return places

    def put_places(
        self,
        numbers: npt.NDArray[Any],
        places: Rows,
        measures: npt.NDArray[np.float64],
        *,
        is_whole: bool,
    ) -> None:
        """Put the place of each number into an array; another one is for what comes in between."""
        if self.scale is None:
            np.subtract(numbers, int(self.low), out=places, dtype=np.intp)
            if not is_whole:
                np.clip(places, 0, self.last, out=places)
            return
        with np.errstate(all="ignore"):
            np.subtract(numbers, float(self.low), out=measures, dtype=np.float64)
            np.multiply(measures, self.scale, out=measures)
            if not is_whole:
                np.fmax(measures, 0, out=measures)
                np.minimum(measures, self.last, out=measures)
            np.copyto(places, measures, casting="unsafe")


def grid_of(column: Column) -> Grid | None:
    """The grid for the numbers of a column; None if that has no use.

    >>> import pyarrow as pa
    >>> from chronotile.conditions.truth_columns import Column
    >>> from chronotile.format.datatypes import Datatype
    >>> from chronotile.format.schema import Field
    >>> a = Column(Field(name="a", datatype=Datatype.INT8), pa.array([-100, 3, 100], pa.int8()))
    >>> grid_of(a).places(a.numbers).tolist()
    [0, 103, 200]
    """
    numbers = column.numbers
    low, high = column.bounds or (np.nan, np.nan)
    is_whole = bool(np.isfinite(low) and np.isfinite(high))
    if not is_whole:
        finite = numbers[np.isfinite(numbers)]
        if not len(finite):
            return None
        low, high = finite.min(), finite.max()
    kind = numbers.dtype
    if kind.kind != "f" and kind.itemsize < 8 and int(high) - int(low) < _PLACES:
        return Grid(low, high, None, is_whole)
    with np.errstate(all="ignore"):
        scale = float(np.float64(_PLACES - 1) / (np.float64(high) - np.float64(low)))
    # One number only, or nearly.
    scale = scale if np.isfinite(scale) else 1.0
    return Grid(low, high, scale, is_whole) if scale else None


class Sought(NamedTuple):
    """The spans of one field that updates ask for."""

    numbers: dict[Span, int]
    lows: npt.NDArray[Any]
    highs: npt.NDArray[Any]


class SoughtSpans:
    """What updates ask of numbers; made once, for all batches.

    Args:
        fields: Of the columns.
        changes: All that act, deletes too.
    """

    def __init__(self, fields: Iterable[Field], changes: Collection[Change]) -> None:
        named = {field.name: field for field in fields}
        self.covers: dict[str, tuple[Cover, ...]] = {
            change.name: found
            for change in changes
            if change.is_update and (found := covers(change.predicate, named))
        }
        self.updates = sum(change.is_update for change in changes)
        """How many there are, those without a cover too."""
        spans: dict[str, dict[Span, int]] = {}
        for cover in (cover for found in self.covers.values() for cover in found):
            for span in cover.spans:
                known = spans.setdefault(span.field, {})
                known.setdefault(span, len(known))
        self.fields = {
            name: Sought(
                known,
                np.array([span.low for span in known]),
                np.array([span.high for span in known]),
            )
            for name, known in spans.items()
        }


class _Look:
    """The spans of one field on the grid of a batch."""

    def __init__(self, column: Column, sought: Sought) -> None:
        numbers = column.numbers
        self._numbers, self._sought = numbers, sought
        self._grid = grid = grid_of(column)
        self.shares = np.full(len(sought.lows), np.inf)
        """About how large a part of the rows each span may hold; more than all if nobody knows."""
        if grid is not None:
            self._lows, self._highs = grid.places(sought.lows), grid.places(sought.highs)
            held = np.sort(grid.places(numbers[:: max(1, len(numbers) // _SAMPLE)]))
            ends = held.searchsorted(self._highs, "right")
            # One more: the sample may have missed some.
            self.shares = (ends - held.searchsorted(self._lows, "left") + 1) / (len(held) + 1)
            if grid.is_whole:
                self.shares[(sought.highs < grid.low) | (sought.lows > grid.high)] = 0
        self.wanted = np.zeros(len(sought.lows), bool)
        self._found: tuple[Rows, npt.NDArray[Any] | None] | None = None

    def number(self, span: Span) -> int:
        return self._sought.numbers[span]

    def want(self, span: Span) -> None:
        """Say that the rows of a span will be asked for."""
        at = self.number(span)
        self.wanted[at] = self.shares[at] > 0

    def rows(self, span: Span) -> Rows:
        """The rows whose number is in a span that is wanted."""
        at = self.number(span)
        if not self.wanted[at]:
            return _NO_ROWS
        if self.wanted.sum() <= _FEW_SPANS:
            return np.flatnonzero((self._numbers >= span.low) & (self._numbers <= span.high))
        if self._found is None:
            self._found = self._find()
        part = slice(self._starts[at], self._ends[at])
        rows, numbers = self._found[0][part], self._found[1]
        if numbers is None:
            return rows
        numbers = numbers[part]
        inside: Rows = rows[(numbers >= span.low) & (numbers <= span.high)]
        return inside

    def mark(self, mask: npt.NDArray[np.bool_]) -> None:
        """Mark the rows that may be in a span that is wanted."""
        numbers = self._numbers
        if self.wanted.sum() <= _FEW_SPANS:
            for at in np.flatnonzero(self.wanted).tolist():
                mask |= (numbers >= self._sought.lows[at]) & (numbers <= self._sought.highs[at])
            return
        assert self._grid is not None  # else no span is wanted
        depth = np.zeros(self._grid.last + 2, np.int32)
        np.add.at(depth, self._lows[self.wanted], 1)
        np.add.at(depth, self._highs[self.wanted] + 1, -1)
        is_covered = np.cumsum(depth) > 0
        for part, places in self._blocks():
            mask[part] |= np.take(is_covered, places, mode="clip")

    def _find(self) -> tuple[Rows, npt.NDArray[Any] | None]:
        """The rows at places that a wanted span touches, in the order of places, and their numbers.

        Those of one span stand side by side. No numbers where the places tell them.
        """
        assert self._grid is not None  # else no span is wanted
        lows, ends = self._lows[self.wanted], self._highs[self.wanted] + 1
        edges = np.unique(np.concatenate([lows, ends]))
        first, last = edges.searchsorted(lows), edges.searchsorted(ends)
        depth = np.bincount(first, minlength=len(edges)) - np.bincount(last, minlength=len(edges))
        is_covered = np.cumsum(depth) > 0
        # The parts between edges that some span covers, counted from 1.
        parts = (np.cumsum(is_covered) * is_covered).astype(np.uint16)
        table = np.zeros(self._grid.last + 1, np.uint16)
        table[edges[0] : edges[-1]] = np.repeat(parts[:-1], np.diff(edges))
        rows, part_of = self._looked_up(table)
        order = np.argsort(part_of, kind="stable")
        counts = np.bincount(part_of, minlength=len(edges) + 1)
        bounds = np.concatenate([[0], np.cumsum(counts)])
        self._starts, self._ends = np.zeros((2, len(self.wanted)), np.intp)
        self._starts[self.wanted] = bounds[parts[first]]
        self._ends[self.wanted] = bounds[parts[last - 1].astype(np.intp) + 1]
        ordered = rows[order]
        is_exact = self._grid.scale is None and self._grid.is_whole
        return ordered, None if is_exact else self._numbers[ordered]

    def _looked_up(self, table: npt.NDArray[np.uint16]) -> tuple[Rows, npt.NDArray[np.uint16]]:
        """The rows whose place has an entry in a table, and the entries."""
        found = []
        for part, places in self._blocks():
            entries = np.take(table, places, mode="clip")
            rows = np.flatnonzero(entries != 0)
            found.append((rows + part.start, entries[rows]))
        rows, entries = (np.concatenate(same) for same in zip(*found, strict=True))
        return rows, entries

    def _blocks(self) -> Iterator[tuple[slice, Rows]]:
        """The places of all rows, block by block."""
        grid, numbers = self._grid, self._numbers
        assert grid is not None
        # One room for all blocks: to get memory and give it back costs more than to fill it.
        places, measures = np.empty(_BLOCK, np.intp), np.empty(_BLOCK)
        for start in range(0, len(numbers), _BLOCK):
            part = slice(start, min(start + _BLOCK, len(numbers)))
            count = part.stop - start
            grid.put_places(numbers[part], places[:count], measures[:count], is_whole=grid.is_whole)
            yield part, places[:count]


class Candidates:
    """The rows of one batch that updates can match.

    Args:
        sought: What the updates ask for.
        columns: The cells as they were written; at least one each.
    """

    def __init__(self, sought: SoughtSpans, columns: Mapping[str, Column]) -> None:
        self._looks = {name: _Look(columns[name], spans) for name, spans in sought.fields.items()}
        self._covers: dict[str, Cover] = {}
        self._count = len(next(iter(columns.values())).cells)
        for update, found in sought.covers.items():
            share, at = min((self._share(cover), at) for at, cover in enumerate(found))
            if share * _ONE_IN <= 1:
                self._covers[update] = found[at]
                for span in found[at].spans:
                    self._looks[span.field].want(span)
        self._some_look_at_all = len(self._covers) < sought.updates

    def _share(self, cover: Cover) -> float:
        """About how large a part of the rows the spans of a cover may hold."""
        looks = ((self._looks[span.field], span) for span in cover.spans)
        return sum(float(look.shares[look.number(span)]) for look, span in looks)

    def reach(self) -> Rows | None:
        """The rows that an update can match before any has acted; None if one looks at all."""
        if self._some_look_at_all:
            return None
        mask = np.zeros(self._count, bool)
        for look in self._looks.values():
            look.mark(mask)
        return np.flatnonzero(mask)

    def cover(self, update: str) -> Cover | None:
        """What an update is looked up by; None if it has to look at all rows."""
        return self._covers.get(update)

    def rows(self, span: Span) -> Rows:
        """The rows whose own number is in a span of such a cover; anything where they are NULL."""
        return self._looks[span.field].rows(span)
