"""URIs of commits as columns of numbers, and the operations on such columns.

In: columns. Out: columns, joined, in another order, or cut from text. Knows nothing of how a line
is parsed: `lines_to_columns` does that.

A column with the same value in every row takes no memory per row: `constant` makes it,
`single_value` recognises it, and the operations keep it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

import numpy as np

from chronotile.format.kinds import EXTENSIONS

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy.typing as npt

    U64: TypeAlias = npt.NDArray[np.uint64]
    U32: TypeAlias = npt.NDArray[np.uint32]
    I64: TypeAlias = npt.NDArray[np.int64]
    I32: TypeAlias = npt.NDArray[np.int32]
    Bytes: TypeAlias = npt.NDArray[np.uint8]
    Mask: TypeAlias = npt.NDArray[np.bool_]

NO_VERSION = 0xFFFF_FFFF
"""The version of a name that carries none."""

_SMALL = 1 << 16
"""Numbers below this are counted, not sorted."""


class Uris(NamedTuple):
    """URIs of commits, taken apart; item i of each column belongs to URI i."""

    start: I64
    """Where the URI starts in its buffer."""
    length: I32
    prefix: I32
    """Length of the text before the name."""
    ext: Bytes
    t1: U64
    t2: U64
    version: U32
    uuid_start: U64
    """The first eight characters of the uuid: they sort as names do, and are seldom equal."""
    bad: tuple[int, ...]
    """Rows without a readable name; their times are 0."""

    def name_bounds(self, row: int) -> tuple[int, int]:
        """Find where the name of one row starts and ends in its buffer."""
        start = int(self.start[row])
        end = start + int(self.length[row]) - len(EXTENSIONS[int(self.ext[row])])
        return start + int(self.prefix[row]), end


def empty() -> Uris:
    """Make columns without rows."""
    u8, u64 = np.empty(0, np.uint8), np.empty(0, np.uint64)
    start, length = np.empty(0, np.int64), np.empty(0, np.int32)
    return Uris(start, length, length, u8, u64, u64, np.empty(0, np.uint32), u64, ())


def concatenated(parts: Sequence[Uris]) -> Uris:
    """Put the rows of several tables one after the other."""
    parts = [part for part in parts if len(part.start)]
    if not parts:
        return empty()
    if len(parts) == 1:
        return parts[0]
    bases = np.cumsum([0, *(len(part.start) for part in parts)]).tolist()
    bad = (base + row for base, part in zip(bases, parts, strict=False) for row in part.bad)
    columns = dict(zip(Uris._fields, zip(*parts, strict=True), strict=True))
    # Most writes have one time: both columns are then the same memory.
    has_one_time = all(part.t1 is part.t2 for part in parts)
    whole = {n: _joined(c) for n, c in columns.items() if n not in ("bad", "t2")}
    whole["t2"] = whole["t1"] if has_one_time else _joined(columns["t2"])
    return Uris(**whole, bad=tuple(bad))


def _joined(columns: Sequence[npt.NDArray[Any]]) -> npt.NDArray[Any]:
    values = {single_value(column) for column in columns}
    if len(values) == 1 and None not in values:
        return constant(values.pop(), columns[0].dtype, sum(map(len, columns)))
    return np.concatenate(columns)


def reordered(uris: Uris, order: I64) -> tuple[Uris, I64]:
    """Put the rows into another order; give also the new place of each row."""
    place = np.empty(len(order), np.int64)
    place[order] = np.arange(len(order))
    bad = tuple(sorted(int(place[row]) for row in uris.bad))
    return Uris._make([*(picked(column, order) for column in uris[:-1]), bad]), place


def picked(column: npt.NDArray[Any], rows: I64) -> npt.NDArray[Any]:
    """Pick rows of a column, in any order.

    >>> picked(constant(7, np.uint8, 2), np.array([1, 0, 1])).strides
    (0,)
    """
    same = single_value(column)
    return column[rows] if same is None else constant(same, column.dtype, len(rows))


def constant(value: int, dtype: npt.DTypeLike, rows: int) -> npt.NDArray[Any]:
    """Make a column with the same value in every row; it takes no memory per row.

    >>> constant(7, np.uint8, 3).tolist()
    [7, 7, 7]
    """
    # Ten times as fast as `broadcast_to`, with the same result.
    column: npt.NDArray[Any] = np.ndarray((rows,), dtype, np.array(value, dtype), 0, (0,))
    column.flags.writeable = False
    return column


def single_value(column: npt.NDArray[Any]) -> Any:
    """Give the value of a column that `constant` made; None for any other column.

    >>> int(single_value(constant(7, np.uint8, 3))), single_value(np.array([7, 7]))
    (7, None)
    """
    return column[0] if len(column) and column.strides == (0,) else None


def distinct(values: npt.NDArray[Any]) -> list[int]:
    """List the distinct numbers of a column, in order.

    >>> distinct(np.array([7, 3, 7]))
    [3, 7]
    """
    if (same := single_value(values)) is not None:
        return [int(same)]
    if not len(values):
        return []  # `unique` would load NumPy's masked arrays
    if values.min() >= 0 and values.max() < _SMALL:
        return np.flatnonzero(np.bincount(values)).tolist()
    return np.unique(values).tolist()  # type: ignore[no-any-return]


def taken(data: bytes | memoryview, starts: I64, size: int) -> Bytes:
    """Copy the substrings of one size at some places into the rows of a matrix.

    >>> taken(b"abcd", np.array([2, 0]), 2).tobytes()
    b'cdab'
    """
    if not size or not len(starts):
        return np.empty((len(starts), size), np.uint8)
    texts = np.ndarray((max(len(data) - size + 1, 0),), f"V{size}", data, 0, (1,))[starts]
    return texts.view(np.uint8).reshape(len(starts), size)


def stand_at(data: bytes | memoryview, starts: I64, text: bytes) -> Mask:
    """Mark the places at which a text stands.

    >>> stand_at(b"__commits/__commits/", np.array([0, 1, 10]), b"__commits/").tolist()
    [True, False, True]
    """
    stands: Mask = taken(data, starts, len(text)).view(f"V{len(text)}")[:, 0] == np.void(text)
    return stands
