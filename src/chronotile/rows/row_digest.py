"""A digest of rows that does not depend on their order.

In: batches of cells as stored, with or without the time of each. Out: `Digest`: a number of rows,
two sums over them, and the first and last time. Two streams with the same rows have the same
digest, in whatever order and batches they come. Memory holds one batch.

Each row becomes a number of 64 bits, column by column; the digest adds up these numbers, and a
second function of them. Values count by their bits, a NULL by being one, whatever lies below it.
The functions find accidents, and are no defence against a forger.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy.typing as npt

    from chronotile.rows.engine_cells import Cells

    U64 = npt.NDArray[np.uint64]

_FACTOR, _OTHER = np.uint64(0x9E3779B97F4A7C15), np.uint64(0xD6E8FEB86659FD93)
_BASE = np.uint64(0x5851F42D4C957F2D)
"""Odd, so that it has an inverse modulo 2^64."""
_INVERSE = np.uint64(pow(int(_BASE), -1, 1 << 64))
_SHIFT, _NULL = np.uint64(29), np.uint64(0x2545F4914F6CDD1D)
_LEN_PART = 1 << 20
"""Rows that are mixed at once: their numbers stay in the cache of a core."""


@dataclass(slots=True)
class Digest:
    """A digest of rows, which grows batch by batch.

    >>> one, other = Digest(), Digest()
    >>> one.add([pa.array([1, 2]), pa.array(["a", None])])
    >>> other.add([pa.array([2]), pa.array([None], pa.string())])
    >>> other.add([pa.array([1]), pa.array(["a"])])
    >>> one == other, one.rows
    (True, 2)
    """

    rows: int = 0
    sum: int = 0
    other: int = 0
    first: int | None = None
    """The earliest time of a row; None if nobody asked for times, or no row came."""
    last: int | None = None

    def add_cells(self, cells: Cells) -> None:
        """Add a batch of cells, with their times if it has them."""
        if len(cells.times):
            first, last = int(cells.times.min()), int(cells.times.max())
            self.first = first if self.first is None else min(first, self.first)
            self.last = last if self.last is None else max(last, self.last)
            self.add([*cells.columns, pa.array(cells.times)])
        else:
            self.add(cells.columns)

    def add(self, columns: Sequence[pa.Array]) -> None:
        """Add a batch of rows, as columns of one length."""
        for start in range(0, len(columns[0]), _LEN_PART):
            mixed: U64 | None = None
            for column in columns:
                mixed = _mixed(mixed, _numbers(column.slice(start, _LEN_PART)))
            assert mixed is not None  # there is a column
            self.rows += len(mixed)
            self.sum = (self.sum + int(mixed.sum(dtype=np.uint64))) % (1 << 64)
            mixed *= _OTHER
            mixed ^= mixed >> _SHIFT
            self.other = (self.other + int(mixed.sum(dtype=np.uint64))) % (1 << 64)

    def to_json(self) -> list[int | None]:
        """Give the digest as JSON holds it."""
        return [self.rows, self.sum, self.other, self.first, self.last]


def _mixed(rows: U64 | None, numbers: U64) -> U64:
    """Mix the numbers of one more column into those of the rows."""
    mixed = numbers + _FACTOR if rows is None else rows ^ numbers
    mixed *= _FACTOR
    mixed ^= mixed >> _SHIFT
    mixed *= _OTHER
    return mixed


def _numbers(column: pa.Array) -> U64:
    """Make a number of each value: equal values give equal numbers."""
    kind = column.type
    if pa.types.is_string(kind) or pa.types.is_binary(kind):
        column, kind = column.cast(pa.large_binary()), pa.large_binary()
    if pa.types.is_large_binary(kind) or pa.types.is_large_string(kind):
        numbers = _of_bytes(column)
    elif pa.types.is_fixed_size_binary(kind):
        numbers = _of_blocks(column)
    else:
        width = kind.bit_width // 8
        raw = np.frombuffer(column.buffers()[1], f"<u{width}", len(column), column.offset * width)
        numbers = raw.astype(np.uint64)
    if column.null_count:
        numbers = np.where(np.asarray(column.is_null()), _NULL, numbers)
    return numbers


def _of_bytes(column: pa.Array) -> U64:
    """Hash texts of any length: a polynomial over their bytes, by differences of running sums."""
    offsets = np.frombuffer(column.buffers()[1], "<i8", len(column) + 1, column.offset * 8)
    first, last = int(offsets[0]), int(offsets[-1])
    data = column.buffers()[2]
    raw = np.frombuffer(data, np.uint8, last - first, first) if last > first else _NOTHING
    return _segments(raw, offsets - first)


def _of_blocks(column: pa.Array) -> U64:
    width = column.type.byte_width
    count = len(column)
    if not width:
        return np.zeros(count, np.uint64)
    raw = np.frombuffer(column.buffers()[1], np.uint8, count * width, column.offset * width)
    return _segments(raw, np.arange(count + 1, dtype=np.int64) * width)


_NOTHING: npt.NDArray[np.uint8] = np.empty(0, np.uint8)


def _segments(raw: npt.NDArray[np.uint8], offsets: npt.NDArray[np.int64]) -> U64:
    lengths = np.diff(offsets)
    numbers = lengths.astype(np.uint64) * _OTHER
    longest = int(lengths.max(initial=0))
    if not longest:
        return numbers
    if len(raw) <= _LEN_PART * 8:
        powers, inverses = _powers(len(raw) + 1)
        sums = np.zeros(len(raw) + 1, np.uint64)
        np.cumsum((raw.astype(np.uint64) + np.uint64(1)) * powers[: len(raw)], out=sums[1:])
        return numbers + (sums[offsets[1:]] - sums[offsets[:-1]]) * inverses[offsets[:-1]]
    # Few rows with long values: half and half until they fit, a single one by itself.
    if len(lengths) == 1:
        return numbers + np.uint64(_of_one(raw))
    half = len(lengths) // 2
    at = int(offsets[half])
    parts = _segments(raw[:at], offsets[: half + 1]), _segments(raw[at:], offsets[half:] - at)
    return np.concatenate(parts)


def _of_one(raw: npt.NDArray[np.uint8]) -> int:
    total, scale = 0, 1
    for start in range(0, len(raw), _LEN_PART):
        part = raw[start : start + _LEN_PART]
        powers, _ = _powers(len(part) + 1)
        own = int(((part.astype(np.uint64) + np.uint64(1)) * powers[: len(part)]).sum())
        total = (total + own * scale) % (1 << 64)
        scale = scale * pow(int(_BASE), len(part), 1 << 64) % (1 << 64)
    return total


def _powers(count: int) -> tuple[U64, U64]:
    """Give the powers of the base, and those of its inverse, from the power 0 on."""
    size = 1 << max(10, (count - 1).bit_length())
    return _tables(size)


@lru_cache(maxsize=4)
def _tables(size: int) -> tuple[U64, U64]:
    tables: list[Any] = []
    for base in (_BASE, _INVERSE):
        table = np.full(size, base, np.uint64)
        table[0] = 1
        tables.append(np.cumprod(table, dtype=np.uint64))
    return tables[0], tables[1]
