"""Places for the numbers of a column, in their order; many numbers may share one.

In: a column of numbers. Out: a grid; for any number its place, and for many numbers at once what a
table says of their places. Knows no predicate.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

if TYPE_CHECKING:
    from collections.abc import Callable

    import numpy.typing as npt

    from chronotile.conditions.column import Column

    Numbers: TypeAlias = "npt.NDArray[Any]"

_BITS = 16
"""Of the number of a place: a table with an entry for each stays in the processor's cache."""
_BLOCK = 1 << 18
"""Rows that are looked at in one go: few enough for the processor's cache, and enough of them that
threads seldom wait for each other's turn."""
_UNCHECKED = pc.TakeOptions(boundscheck=False)


class IntegerGrid(NamedTuple):
    """Places for integers; none of the column is beyond the ends."""

    low: Any
    high: Any
    shift: int
    """Bits of a number that its place does not tell."""

    @property
    def is_whole(self) -> bool:
        """Whether all numbers of the column lie between the ends."""
        return True

    @property
    def is_exact(self) -> bool:
        """Whether no two numbers share a place."""
        return self.shift == 0

    @property
    def last(self) -> int:
        """The last place."""
        return (int(self.high) - int(self.low)) >> self.shift

    def placer(self, count: int) -> Callable[[Numbers], Numbers]:
        """What finds the places of up to so many numbers of the column, in one room for all."""
        # Less the lowest they are no less than 0: so they are right without a sign, and no wider.
        kind = np.dtype(f"u{self.low.dtype.itemsize}")
        low, room = self.low.view(kind), np.empty(count, kind)

        def places(numbers: Numbers) -> Numbers:
            found = room[: len(numbers)]
            np.subtract(numbers.view(kind), low, out=found)
            if self.shift:
                np.right_shift(found, self.shift, out=found)
            return found

        return places

    def nearest(self, numbers: Numbers) -> Numbers:
        """The place of each of any numbers; of those beyond the ends the nearest."""
        return self.placer(len(numbers))(np.clip(numbers, self.low, self.high))


class FloatGrid(NamedTuple):
    """Places for floating-point numbers; NaN is anywhere."""

    low: Any
    high: Any
    scale: Any
    """Places a unit."""
    is_whole: bool
    """Whether all numbers of the column lie between the ends."""

    @property
    def is_exact(self) -> bool:
        """Whether no two numbers share a place."""
        return False

    @property
    def last(self) -> int:
        """The last place."""
        return (1 << _BITS) - 1

    def placer(self, count: int) -> Callable[[Numbers], Numbers]:
        """What finds the places of up to so many numbers, in one room for all."""
        measures, room = np.empty(count, self.low.dtype), np.empty(count, np.int32)

        def places(numbers: Numbers) -> Numbers:
            measured, found = measures[: len(numbers)], room[: len(numbers)]
            with np.errstate(all="ignore"):
                np.subtract(numbers, self.low, out=measured)
                np.multiply(measured, self.scale, out=measured)
                if not self.is_whole:
                    np.fmin(measured, self.last, out=measured)
                    np.fmax(measured, 0, out=measured)
                np.copyto(found, measured, casting="unsafe")
            return found

        return places

    def nearest(self, numbers: Numbers) -> Numbers:
        """The place of each of any numbers; of those beyond the ends the nearest."""
        return self._replace(is_whole=False).placer(len(numbers))(numbers)


Grid: TypeAlias = IntegerGrid | FloatGrid


def grid_of(column: Column) -> Grid | None:
    """The grid for the numbers of a column; None if that has no use.

    >>> from chronotile.conditions.column import Column
    >>> from chronotile.format.datatypes import Datatype
    >>> from chronotile.format.schema import Field
    >>> a = Column(Field(name="a", datatype=Datatype.INT8), pa.array([-100, 3, 100], pa.int8()))
    >>> grid_of(a).nearest(a.numbers).tolist()
    [0, 103, 200]
    """
    numbers = column.numbers
    if numbers.dtype.kind != "f":
        assert column.bounds is not None  # it has cells, and none is NaN
        low, high = column.bounds
        return IntegerGrid(low, high, max(0, (int(high) - int(low)).bit_length() - _BITS))
    low, high = column.bounds or (np.nan, np.nan)
    is_whole = bool(np.isfinite(low) and np.isfinite(high))
    if not is_whole:
        finite = numbers[np.isfinite(numbers)]
        if not len(finite):
            return None
        low, high = finite.min(), finite.max()
    with np.errstate(all="ignore"):
        scale = low.dtype.type((1 << _BITS) - 1) / (high - low)
    # One number only, or nearly.
    scale = scale if np.isfinite(scale) else low.dtype.type(1)
    return FloatGrid(low, high, scale, is_whole) if scale else None


def entries_at(grid: Grid, numbers: Numbers, table: Numbers) -> Numbers:
    """What a table, with an entry for each place, says of each number of the column."""
    found, count = np.empty(len(numbers), table.dtype), min(len(numbers), _BLOCK)
    # One room for all blocks: to get memory and give it back costs more than to fill it.
    places, listed = grid.placer(count), pa.array(table)
    for start in range(0, len(numbers), _BLOCK):
        part = slice(start, start + _BLOCK)
        # Arrow does not widen the places first, as numpy does. All of them are in the table.
        taken = pc.call_function(
            "array_take", [listed, pa.array(places(numbers[part]))], _UNCHECKED
        )
        found[part] = taken
    return found
