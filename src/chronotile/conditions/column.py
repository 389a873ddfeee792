"""The cells of one field, as stored.

In: a field and an Arrow array of its cells. Out: the same as numbers or bytes, which of them are
NULL, and what one look at all of them tells. Knows no condition.
"""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from chronotile.conditions.masks import NO

if TYPE_CHECKING:
    import numpy.typing as npt

    from chronotile.conditions.masks import Mask
    from chronotile.format.schema import Field

_SAMPLE = 2048
_MANY = 4
"""Cells are many if they are more than one in so many."""


class Column:
    """The cells of one field: a number each, or bytes.

    >>> from chronotile.format.datatypes import Datatype
    >>> from chronotile.format.schema import Field
    >>> a = Column(Field(name="a", datatype=Datatype.INT8, nullable=True), pa.array([2, None, 4]))
    >>> a.nulls.tolist()
    [False, True, False]
    """

    def __init__(self, field: Field, cells: pa.Array) -> None:
        self.field = field
        self._cells = cells

    def __len__(self) -> int:
        return len(self._cells)

    def of(self, rows: npt.NDArray[np.intp]) -> Column:
        """Some of the cells; they are taken when they are first asked for."""
        return _PartOfColumn(self, rows)

    @property
    def is_number(self) -> bool:
        """Whether each cell is one number."""
        return self.field.is_number

    @property
    def cells(self) -> pa.Array:
        """The cells."""
        return self._cells

    @property
    def texts(self) -> pa.Array:
        """The cells as bytes of any length."""
        return self.cells if self.field.is_var else self.cells.cast(pa.large_binary())

    @cached_property
    def nulls(self) -> Mask:
        """Mask of the cells that are NULL."""
        return np.asarray(self.cells.is_null()) if self.cells.null_count else NO

    @cached_property
    def numbers(self) -> npt.NDArray[Any]:
        """The cells as numbers; anything where they are NULL."""
        data = self.cells.buffers()[1]
        kind = np.dtype(f"<{self.field.datatype.code}")
        if data is None:
            return np.zeros(len(self.cells), kind)
        return np.frombuffer(data, kind, len(self.cells), self.cells.offset * kind.itemsize)

    def numbers_of(self, rows: npt.NDArray[np.intp]) -> npt.NDArray[Any]:
        """The numbers of some rows."""
        return self.numbers[rows]

    @property
    def sample(self) -> npt.NDArray[Any]:
        """Some of the numbers, from all over the column."""
        return self.numbers[:: self._step]

    @property
    def sampled_texts(self) -> pa.Array:
        """Some of the cells as bytes, from all over the column."""
        return self.of(np.arange(0, len(self), self._step)).texts

    @property
    def _step(self) -> int:
        """Of so many cells one is in a sample."""
        return max(1, len(self) // _SAMPLE)

    @cached_property
    def is_ordered(self) -> bool:
        """Whether no number is less than the one before it, and none is NaN.

        >>> from chronotile.format.datatypes import Datatype
        >>> from chronotile.format.schema import Field
        >>> a = Field(name="a", datatype=Datatype.INT64)
        >>> Column(a, pa.array([1, 1, 3])).is_ordered, Column(a, pa.array([2, 1])).is_ordered
        (True, False)
        """
        # Most columns without an order show that at once.
        parts = (self.sample, self.numbers) if len(self.sample) < len(self) else (self.numbers,)
        is_number = bool(np.all(self.numbers[:1] == self.numbers[:1]))
        return is_number and all(bool((part[1:] >= part[:-1]).all()) for part in parts)

    @cached_property
    def bounds(self) -> tuple[Any, Any] | None:
        """Two numbers that no cell is beyond; None where NaN or nothing is among the cells."""
        if not len(self):
            return None
        if self.is_ordered:
            return self.numbers[0], self.numbers[-1]
        low, high = self.numbers.min(), self.numbers.max()
        return None if np.isnan(low) or np.isnan(high) else (low, high)


class _PartOfColumn(Column):
    """Some of the cells of a column."""

    def __init__(self, whole: Column, rows: npt.NDArray[np.intp]) -> None:
        self.field = whole.field
        self._whole, self._rows = whole, rows
        self._asked = 0

    def __len__(self) -> int:
        return len(self._rows)

    @cached_property
    def cells(self) -> pa.Array:
        if self.is_number and self.nulls is NO:
            return pa.array(self.numbers, self._whole.cells.type)
        return self._whole.cells.take(pa.array(self._rows))

    @cached_property
    def nulls(self) -> Mask:
        nulls = self._whole.nulls
        return nulls[self._rows] if isinstance(nulls, np.ndarray) else nulls

    @cached_property
    def numbers(self) -> npt.NDArray[Any]:
        return self._whole.numbers_of(self._rows)

    def numbers_of(self, rows: npt.NDArray[np.intp]) -> npt.NDArray[Any]:
        self._asked += len(rows)
        # Only who asks for many of the cells has the use of all of them side by side.
        if "numbers" in self.__dict__ or self._asked * _MANY > len(self):
            return self.numbers[rows]
        return self._whole.numbers_of(self._rows[rows])

    @cached_property
    def bounds(self) -> tuple[Any, Any] | None:
        return self._whole.bounds
