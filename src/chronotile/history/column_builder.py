"""Puts the blocks of the fast path together into whole columns.

In: blocks of `Uris`, one after the other. Out: one `Uris` of all rows. Knows nothing of what the
columns mean.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from chronotile.history.uri_columns import Uris, constant, empty

if TYPE_CHECKING:
    import numpy.typing as npt


class ColumnBuilder:
    """Columns that grow block by block; each block is copied and then dropped.

    A column with one value takes no memory per row. Columns of equal times share their memory.

    >>> builder = ColumnBuilder()
    >>> builder.add(empty(), 8)
    >>> len(builder.whole().start)
    0
    """

    def __init__(self) -> None:
        self._first: Uris | None = None
        self._columns: dict[str, _Column] = {}
        self._one_time = True
        self._bad: list[int] = []

    def add(self, block: Uris, expected: int) -> None:
        """Appends a block. Memory is reserved for the expected rows, and used as rows come."""
        if not self._columns:
            if self._first is None:
                self._first = block
                return
            self._columns = {name: _Column(values) for name, values in _named(empty())}
            self._append(self._first, expected)
            self._first = None
        self._append(block, expected)

    def _append(self, block: Uris, expected: int) -> None:
        self._bad += [self._columns["t1"].rows + row for row in block.bad]
        if self._one_time and block.t2 is not block.t1:
            self._one_time = False
            if self._columns["t1"].rows:
                self._columns["t2"].add(self._columns["t1"].whole(), expected)
        for name, values in _named(block):
            if name != "t2" or not self._one_time:
                self._columns[name].add(values, expected)

    def whole(self) -> Uris:
        """All rows; a single block is given back as it is."""
        if not self._columns:
            return self._first or empty()
        columns = {name: column.whole() for name, column in self._columns.items()}
        if self._one_time:
            columns["t2"] = columns["t1"]
        return Uris(**columns, bad=tuple(self._bad))


class _Column:
    """One column that grows."""

    def __init__(self, values: npt.NDArray[Any]) -> None:
        self.rows = 0
        self._values = values
        self._constant = True

    def add(self, values: npt.NDArray[Any], expected: int) -> None:
        first, last = self.rows, self.rows + len(values)
        self.rows = last
        if first == last:
            return
        if self._constant and values.strides == (0,):
            if first == 0:
                self._values = values[:1]
            if self._values[0] == values[0]:
                return
        if self._constant or last > len(self._values):
            size = max(last, expected, len(self._values) * 5 // 4)
            larger = np.empty(size, self._values.dtype)
            larger[:first] = self._values[0] if self._constant and first else self._values[:first]
            self._values, self._constant = larger, False
        self._values[first:last] = values

    def whole(self) -> npt.NDArray[Any]:
        if self._constant and self.rows:
            return constant(self._values[0], self._values.dtype, self.rows)
        return self._values[: self.rows]


def _named(uris: Uris) -> list[tuple[str, npt.NDArray[Any]]]:
    return list(zip(Uris._fields[:-1], uris[:-1], strict=True))
