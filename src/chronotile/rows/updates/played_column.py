"""One column of a batch while changes are played on it.

In: the cells of a field as they were written, and values that updates set. Out: what the cells hold
now, and which of them satisfy a comparison now. Knows no commit.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from chronotile.conditions.column import Column
from chronotile.conditions.masks import NO, YES, Mask, both, either
from chronotile.conditions.tree import Op, member_of
from chronotile.conditions.truth import Sense
from chronotile.conditions.truth_columns import column_truth
from chronotile.conditions.value_spans import number
from chronotile.rows.cells.cell_columns import stored_type

if TYPE_CHECKING:
    from collections.abc import Iterator

    import numpy.typing as npt

    from chronotile.conditions.tree import Compare
    from chronotile.conditions.value_spans import Span
    from chronotile.format.schema import Field

OWN = -1
"""In place of the number of a value: the cell has its own."""


class PlayedColumn:
    """The cells of one field, with what updates have set them to."""

    def __init__(self, base: Column) -> None:
        self.base = base
        self.chosen: npt.NDArray[np.int32] | None = None
        """For each row which of the values it has; -1 for its own."""
        self._values: list[Any] = []
        self._rows: list[npt.NDArray[np.intp]] = []
        """The rows that were set to each of the values; they may have another one by now."""
        self._set: Column | None = None

    def set(self, rows: npt.NDArray[np.intp], raw: bytes) -> None:
        """Set rows to a raw value; no bytes are NULL where the field takes it."""
        if self.chosen is None:
            self.chosen = np.full(len(self.base), OWN, np.int32)
        self.chosen[rows] = len(self._values)
        self._values.append(raw_value(self.base.field, raw))
        self._rows.append(rows)
        self._set = None

    @property
    def values(self) -> Column:
        """The values that were set, as a column of its own."""
        if self._set is None:
            field = self.base.field
            self._set = Column(field, pa.array(self._values, stored_type(field)))
        return self._set

    def truth(self, node: Compare, sense: Sense, rows: npt.NDArray[np.intp] | None = None) -> Mask:
        """Mask of the rows, or of some rows, whose value now satisfies a comparison."""
        own = column_truth(node, self.base if rows is None else self.base.of(rows), sense)
        if self.chosen is None:
            return own
        chosen = self.chosen if rows is None else self.chosen[rows]
        given = np.broadcast_to(column_truth(node, self.values, sense), len(self._values))
        return np.where(chosen == OWN, own, given[chosen])

    def within(self, span: Span, rows: npt.NDArray[np.intp]) -> Iterator[npt.NDArray[np.intp]]:
        """The rows whose number now is in a span, of which `rows` hold one in it as their own."""
        # To compress is quicker than to index with a mask, where that is neither rare nor common.
        if self.base.nulls is not NO and len(rows):
            rows = rows.compress(self._are_there(rows))
        if self.chosen is None:
            yield rows
            return
        if len(rows):
            yield rows.compress(self.chosen[rows] == OWN)
        for at, is_inside in enumerate(self._given_within(span)):
            if is_inside:
                set_to = self._rows[at]
                yield set_to.compress(self.chosen[set_to] == at)

    def is_within(self, span: Span, rows: npt.NDArray[np.intp]) -> Mask:
        """Mask of some rows: whether their number now is in a span."""
        own = self._own_within(span, rows)
        if self.chosen is None:
            return own
        chosen, given = self.chosen[rows], self._given_within(span)
        if not any(given):
            return both(own, chosen == OWN)
        if all(given):
            return either(own, chosen != OWN)
        return np.where(chosen == OWN, own, np.array(given)[chosen])

    def _own_within(self, span: Span, rows: npt.NDArray[np.intp]) -> Mask:
        """Mask of some rows: whether the number that they were written with is in a span."""
        base = self.base
        if not base.is_number:
            among = member_of(span.field, Op.IN, (span.low,))
            return column_truth(among, base.of(rows), Sense.PREDICATE)
        if base.bounds is not None:
            low, high = base.bounds
            if span.high < low or span.low > high:
                return NO
            if span.low <= low and span.high >= high:
                return self._are_there(rows)
        numbers = base.numbers_of(rows)
        inside: npt.NDArray[np.bool_] = numbers >= span.low
        inside &= numbers <= span.high
        return both(inside, self._are_there(rows))

    def _are_there(self, rows: npt.NDArray[np.intp]) -> Mask:
        """Mask of some rows: whether they were written with a value, not with NULL."""
        nulls = self.base.nulls
        return ~nulls[rows] if isinstance(nulls, np.ndarray) else YES

    def _given_within(self, span: Span) -> list[bool]:
        """Which of the values that were set are in a span."""
        low, high = (end if isinstance(end, bytes) else end.item() for end in span[1:])
        return [value is not None and low <= value <= high for value in self._values]

    def given(self) -> tuple[npt.NDArray[np.intp], Column]:
        """The rows that were set, and what each holds now."""
        assert self.chosen is not None
        rows = np.flatnonzero(self.chosen != OWN)
        return rows, self.values.of(self.chosen[rows].astype(np.intp))

    def holds(self, rows: npt.NDArray[np.intp], raw: bytes) -> Mask:
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

    def _equals(self, rows: npt.NDArray[np.intp], value: float) -> Mask:
        """Mask of some rows: whether they hold a number."""
        base = self.base
        same: Mask = NO
        if base.bounds is None or base.bounds[0] <= value <= base.bounds[1]:
            same = both(base.numbers_of(rows) == value, self._are_there(rows))
        is_given = value in self._values
        if self.chosen is None or (same is NO and not is_given):
            return same
        is_value = np.array([one == value for one in self._values])
        chosen = self.chosen[rows]
        return np.where(chosen == OWN, same, is_value[chosen])

    def cells(self, rows: npt.NDArray[np.intp] | None = None) -> pa.Array:
        """The cells now, as stored; of some rows only."""
        if rows is None:
            if self.chosen is None:
                return self.base.cells
            return replaced(self.base, *self.given())
        own = self.base.cells.take(pa.array(rows))
        if self.chosen is None or not (self.chosen[rows] != OWN).any():
            return own
        chosen = self.chosen[rows]
        places = np.where(chosen == OWN, np.arange(len(own)), len(own) + chosen)
        return pa.concat_arrays([own, self.values.cells]).take(pa.array(places))


def replaced(
    column: Column, rows: npt.NDArray[np.intp], new: Column, *, in_place: bool = False
) -> pa.Array:
    """The cells of a column, with others at some rows.

    Args:
        column: The column.
        rows: Where others are to be.
        new: Those others.
        in_place: Write into the memory of the column, if that can be done: nobody else needs it.

    >>> from chronotile.format.datatypes import Datatype
    >>> from chronotile.format.schema import Field
    >>> a = Field(name="a", datatype=Datatype.INT8, nullable=True)
    >>> old, new = (Column(a, pa.array(cells, pa.int8())) for cells in ([1, 2, 3], [None, 5]))
    >>> replaced(old, np.array([0, 2]), new).to_pylist()
    [None, 2, 5]
    """
    count = len(column.cells)
    if not column.is_number:
        places = np.arange(count)
        places[rows] = np.arange(count, count + len(rows))
        return pa.concat_arrays([column.cells, new.cells]).take(pa.array(places))
    has_nulls = column.nulls is not NO or new.nulls is not NO
    if in_place and not has_nulls and column.numbers.flags.writeable:
        column.numbers[rows] = new.numbers
        return column.cells
    numbers = np.frombuffer(pa.allocate_buffer(column.numbers.nbytes), column.numbers.dtype)
    np.copyto(numbers, column.numbers)
    numbers[rows] = new.numbers
    valid = None
    if has_nulls:
        is_valid = ~np.broadcast_to(column.nulls, count)
        is_valid[rows] = ~np.broadcast_to(new.nulls, len(rows))
        valid = pa.py_buffer(np.packbits(is_valid, bitorder="little"))
    return pa.Array.from_buffers(column.cells.type, count, [valid, pa.py_buffer(numbers)])


def raw_value(field: Field, raw: bytes) -> Any:
    """A value that an update sets, as a cell is stored."""
    if not raw and field.nullable:
        return None
    return number(raw, field).item() if field.is_number else raw
