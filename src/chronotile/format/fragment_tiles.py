"""What is in the tiles of a fragment's metadata: lists of numbers, bounds, the R-tree, statistics.

In: the payload of one tile, and what its footer and schema say of it. Out: an immutable value of
the size of the payload, or `BadFileError`. Knows nothing of footers.

Each is longer by a thousand fields or a million tiles, so lists stay bytes until someone asks for a
number. The spec has each of them as a type of its own: the tests hold this module to it.
"""

from __future__ import annotations

import itertools
import struct
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple, overload

import numpy as np

from chronotile.errors import BadFileError
from chronotile.format.footer_layout import read_box
from chronotile.format.fragment_footer import expect

if TYPE_CHECKING:
    from collections.abc import Iterator

    import numpy.typing as npt

    from chronotile.format.footer_layout import Range

MOST_LEVELS = 64
"""Levels of an R-tree: as many as a tree of two branches has for 2^64 tiles."""
_NUMBER, _TWO = struct.Struct("<Q"), struct.Struct("<QQ")
_R_TREE, _OLD_R_TREE = struct.Struct("<II"), struct.Struct("<IIBI")


class Numbers(Sequence[int]):
    r"""Unsigned numbers of 64 bits, kept as bytes.

    >>> list(Numbers(b"\7" + bytes(7)))
    [7]
    """

    __slots__ = ("raw",)

    def __init__(self, raw: bytes) -> None:
        self.raw = raw

    def __len__(self) -> int:
        return len(self.raw) // 8

    @overload
    def __getitem__(self, at: int) -> int: ...
    @overload
    def __getitem__(self, at: slice) -> tuple[int, ...]: ...
    def __getitem__(self, at: int | slice) -> int | tuple[int, ...]:
        found = self.array[at]
        return tuple(found.tolist()) if isinstance(at, slice) else int(found)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Numbers) and other.raw == self.raw

    def __hash__(self) -> int:
        return hash(self.raw)

    def __repr__(self) -> str:
        return f"Numbers({self[:4]}{' and more' if len(self) > 4 else ''})"

    @property
    def array(self) -> npt.NDArray[np.uint64]:
        """The same as an array that cannot be written."""
        return np.frombuffer(self.raw, dtype="<u8")


class Bounds(NamedTuple):
    """The least, or the largest, values of a field by tile."""

    fixed: bytes
    """The values; or where each starts in `var`, in 8 bytes each, if they vary in length."""
    var: bytes

    def values(self, width: int | None) -> Iterator[bytes]:
        """The raw values.

        Args:
            width: Bytes of one; None if they vary in length.
        """
        if width is not None:
            yield from (self.fixed[at : at + width] for at in range(0, len(self.fixed), width))
            return
        starts = np.frombuffer(self.fixed, dtype="<u8").tolist()
        for start, end in itertools.pairwise([*starts, len(self.var)]):
            yield self.var[start:end]


@dataclass(frozen=True, slots=True, kw_only=True)
class RTreeLevel:
    """The boxes of one level."""

    count: int
    raw: bytes
    sizes: bytes
    """Bytes of a coordinate of each dimension; 0 where they vary in length."""

    def boxes(self) -> Iterator[tuple[Range, ...]]:
        """The least and the largest coordinates of each box, by dimension."""
        at = 0
        for _ in range(self.count):
            box, at = read_box(self.raw, at, len(self.raw), self.sizes, "r-tree")
            yield box


@dataclass(frozen=True, slots=True, kw_only=True)
class RTree:
    """Boxes around tiles, and boxes around those; the last level is that of the tiles."""

    fanout: int
    levels: tuple[RTreeLevel, ...]


class FieldStatistics(NamedTuple):
    """What is known of a field in all of a fragment."""

    least: bytes
    largest: bytes
    sum: int
    """The bits of the sum, which is signed, unsigned or a float as the values are."""
    nulls: int


def decode_numbers(payload: bytes, where: str) -> Numbers:
    """Reads a list of numbers: offsets, sizes, sums or null counts.

    Raises:
        BadFileError: It is longer or shorter than it says.
    """
    expect(len(payload) >= 8, where, 0, "the number of values in 8", len(payload))
    (count,) = _NUMBER.unpack_from(payload)
    found = len(payload) - 8
    expect(count * 8 == found, where, 8, f"{count} values in {8 * count}", found)
    return Numbers(payload[8:])


def decode_bounds(payload: bytes, width: int | None, where: str) -> Bounds:
    """Reads the least or largest values of a field.

    Args:
        payload: Of their tile.
        width: Bytes of one value; None if they vary in length.
        where: The file, for errors.

    Raises:
        BadFileError: It is longer or shorter than it says, or its parts do not fit.
    """
    expect(len(payload) >= 16, where, 0, "the sizes of bounds in 16", len(payload))
    fixed, var = _TWO.unpack_from(payload)
    found = len(payload) - 16
    expect(fixed + var == found, where, 16, f"bounds of {fixed} and {var}", found)
    bounds = Bounds(payload[16 : 16 + fixed], payload[16 + fixed :])
    if fixed % (8 if width is None else width) or (width is not None and var):
        problem = f"expected bounds of {width or 'any number of'} bytes each"
        raise BadFileError(where, f"{problem}, found {fixed} and {var}", 0)
    if width is None and fixed:
        starts = np.frombuffer(bounds.fixed, dtype="<u8")
        if starts[0] or starts[-1] > var or bool((starts[1:] < starts[:-1]).any()):
            problem = f"expected bounds that start one after the other in {var} bytes"
            raise BadFileError(where, f"{problem}, found {starts[:8].tolist()}", 16)
    return bounds


def decode_r_tree(payload: bytes, version: int, sizes: bytes, where: str) -> RTree:
    """Reads the R-tree.

    Args:
        payload: Of its tile.
        version: The format version of the footer.
        sizes: Of `coordinate_sizes`.
        where: The file, for errors.

    Raises:
        BadFileError: It is longer or shorter than it says.
    """
    head = _R_TREE if version >= 5 else _OLD_R_TREE
    expect(len(payload) >= head.size, where, 0, f"an R-tree of {head.size}", len(payload))
    numbers = head.unpack_from(payload)
    fanout, count = (numbers[0], numbers[1]) if version >= 5 else (numbers[1], numbers[3])
    if count > MOST_LEVELS:
        raise BadFileError(where, f"expected at most {MOST_LEVELS} levels, found {count}", 0)
    at, levels = head.size, []
    for _ in range(count):
        expect(len(payload) - at >= 8, where, at, "the number of boxes in 8", len(payload) - at)
        (boxes,) = _NUMBER.unpack_from(payload, at)
        at += 8
        end = _end_of_boxes(payload, at, boxes, sizes, where)
        levels.append(RTreeLevel(count=boxes, raw=payload[at:end], sizes=sizes))
        at = end
    expect(at == len(payload), where, at, "an R-tree that ends after 0", len(payload) - at)
    return RTree(fanout=fanout, levels=tuple(levels))


def decode_statistics(payload: bytes, count: int, where: str) -> tuple[FieldStatistics, ...]:
    """Reads what is known of each field in all of the fragment.

    Args:
        payload: Of its tile.
        count: The number of fields in the footer.
        where: The file, for errors.

    Raises:
        BadFileError: It is longer or shorter than it says.
    """
    at, found = 0, []
    for _ in range(count):
        values = []
        for _ in range(2):
            left = len(payload) - at - 8
            expect(left >= 0, where, at, "the size of a value in 8", left + 8)
            (size,) = _NUMBER.unpack_from(payload, at)
            at += 8
            expect(size <= left, where, at, f"a value of {size}", left)
            values.append(payload[at : at + size])
            at += size
        expect(len(payload) - at >= 16, where, at, "a sum and a count in 16", len(payload) - at)
        least, largest = values
        found.append(FieldStatistics(least, largest, *_TWO.unpack_from(payload, at)))
        at += 16
    expect(at == len(payload), where, at, f"{count} fields, and after them 0", len(payload) - at)
    return tuple(found)


def _end_of_boxes(payload: bytes, at: int, count: int, sizes: bytes, where: str) -> int:
    if 0 not in sizes:
        size = 2 * sum(sizes)
        left = len(payload) - at
        held = count * size <= left and (size > 0 or count == 0)
        expect(held, where, at, f"{count} boxes in {count * size}", left)
        return at + count * size
    for _ in range(count):
        _, at = read_box(payload, at, len(payload), sizes, where)
    return at
