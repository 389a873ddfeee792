"""Batches of fragments that may be merged into one, without a window that reads otherwise.

In: the visible fragments of an array, as plain facts, and what to keep. Out: `Choice`: batches in
time order, each with its reason, and the fragments that are left alone, by why. Touches no storage
and no engine.

Sparse: each cell keeps its time, so any fragments of one schema go together, in time order, up to
the target. Not those that share a millisecond with another one: nobody defines which cell wins then
(F13), and the engine can lose one (F16). Nor those whose name does not cover the times of their
cells (F4): windows show those cells by the wrong name.

Dense: a merged fragment fills its box, and counts as old as its first part. So a batch must overlap
no fragment outside of it that is not later than all of it; its box may hold little more than its
cells; and it must not cross a moment that is kept, as a vacuum then ends time travel inside of it.
"""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    import numpy.typing as npt

    from chronotile.format.fragment_size import Axis

SPREAD = 1.2
"""The box of a dense batch holds at most this many times its cells."""
MOST_PARTS = 4000
"""Fragments of one batch: the engine holds the metadata of each in memory."""
_MOST_OPEN = 64
"""Dense batches that may still grow at a time."""

SAME_MS = "it shares a millisecond with another fragment: no order of their cells is defined"
LARGE = "it is large enough"
ALONE = "no other fragment can be merged with it"
OVERLAPS = "it overlaps an older fragment that is not merged with it"


class Part(NamedTuple):
    """A visible fragment."""

    name: str
    t1: int
    t2: int
    cells: int
    size: int
    """Bytes of its files."""
    schema: str
    """The name of its schema's file."""
    box: tuple[tuple[int, int], ...] = ()
    """Of a dense one: by dimension, the first and the last tile of its domain."""
    applied: tuple[str, ...] = ()
    domain: list[list[Any]] | None = None
    """By dimension, its least and its largest coordinate, as JSON holds them."""


@dataclass(frozen=True, slots=True)
class Batch:
    """Fragments that become one."""

    parts: tuple[Part, ...]
    why: str

    @property
    def names(self) -> tuple[str, ...]:
        """The names of its fragments."""
        return tuple(part.name for part in self.parts)

    @property
    def t1(self) -> int:
        """The first time."""
        return min(part.t1 for part in self.parts)

    @property
    def t2(self) -> int:
        """The last time."""
        return max(part.t2 for part in self.parts)

    @property
    def cells(self) -> int:
        """Cells of all fragments."""
        return sum(part.cells for part in self.parts)

    @property
    def size(self) -> int:
        """Bytes of all fragments."""
        return sum(part.size for part in self.parts)

    @property
    def domain(self) -> list[list[Any]] | None:
        """By dimension, the least and the largest coordinate of all; None if nobody knows."""
        domains = [part.domain for part in self.parts]
        if any(domain is None for domain in domains):
            return None
        axes = zip(*(domain for domain in domains if domain is not None), strict=True)
        return [[min(low for low, _ in axis), max(high for _, high in axis)] for axis in axes]

    def halves(self) -> tuple[Batch, ...]:
        """Cut it in two, in time order; nothing if it is too small.

        Of a dense batch only the first half begins with the oldest: the second is left alone.
        """
        half = len(self.parts) // 2
        if half < 2:
            return ()
        first = Batch(self.parts[:half], self.why)
        return (first,) if self.parts[0].box else (first, Batch(self.parts[half:], self.why))


@dataclass(frozen=True, slots=True)
class Choice:
    """Batches, and what is left alone."""

    batches: tuple[Batch, ...] = ()
    left: dict[str, list[str]] = field(default_factory=dict)
    """Reason -> the fragments."""


def choose_sparse(
    parts: Sequence[Part], left: dict[str, str], target: int, *, duplicates: bool
) -> Choice:
    """Choose batches of a sparse array.

    Args:
        parts: Every visible fragment, in time order.
        left: Those that cannot be merged anyway -> why.
        target: Bytes of a batch, at most.
        duplicates: Whether the array allows them: then no cell hides another.

    >>> parts = [Part(f"f{t}", t, t, 10, 100, "s") for t in (1, 2, 3, 3, 4)]
    >>> choice = choose_sparse(parts, {}, 1000, duplicates=False)
    >>> [batch.names for batch in choice.batches], [*choice.left]  # doctest: +ELLIPSIS
    ([('f1', 'f2', 'f4')], ['it shares a millisecond ...'])
    """
    reasons = dict(left)
    for at in _sharing(parts, duplicates=duplicates):
        reasons.setdefault(parts[at].name, SAME_MS)
    found: list[Batch] = []
    growing: dict[str, list[Part]] = {}
    sizes: dict[str, int] = {}

    def end(schema: str) -> None:
        found.extend(_batch(growing.pop(schema, []), "next to each other in time", reasons))

    for part in parts:
        if part.name in reasons:
            continue
        if part.size > target // 2:
            reasons[part.name] = LARGE
            continue
        own = growing.get(part.schema, [])
        if own and (sizes[part.schema] + part.size > target or len(own) == MOST_PARTS):
            end(part.schema)
        growing.setdefault(part.schema, []).append(part)
        is_first = len(growing[part.schema]) == 1
        sizes[part.schema] = part.size if is_first else sizes[part.schema] + part.size
    for schema in [*growing]:
        end(schema)
    return _choice(found, reasons)


def _sharing(parts: Sequence[Part], *, duplicates: bool) -> Iterable[int]:
    """Find fragments that may share a millisecond with another one, by their places."""
    first = np.array([part.t1 for part in parts], np.uint64)
    last = np.array([part.t2 for part in parts], np.uint64)
    if not len(first):
        return []
    # In order of the first time: each against the latest end before it, and the start after it.
    order = np.argsort(first, kind="stable")
    starts, ends = first[order], last[order]
    latest = np.maximum.accumulate(ends)
    meets = np.zeros(len(parts), bool)
    meets[1:] |= starts[1:] <= latest[:-1]
    meets[:-1] |= ends[:-1] >= starts[1:]
    if duplicates:
        # Cells of merged fragments have times of their own, and none hides another.
        meets &= starts == ends
    return order[meets].tolist()  # type: ignore[no-any-return]  # numpy says Any


def _batch(parts: Sequence[Part], why: str, reasons: dict[str, str]) -> Iterable[Batch]:
    if len(parts) > 1:
        yield Batch(tuple(parts), why)
    for part in parts[: len(parts) == 1]:
        reasons.setdefault(part.name, ALONE)


def _choice(found: list[Batch], reasons: dict[str, str]) -> Choice:
    left: dict[str, list[str]] = {}
    for name, reason in reasons.items():
        left.setdefault(reason, []).append(name)
    return Choice(tuple(sorted(found, key=lambda batch: (batch.t1, batch.t2))), left)


class _Growing:
    """A dense batch that may still grow."""

    def __init__(self, part: Part) -> None:
        self.parts, self.size, self.cells = [part], part.size, part.cells
        self.box, self.t2 = part.box, part.t2

    def with_part(self, part: Part) -> tuple[tuple[int, int], ...]:
        """Give the box that it would have with one more."""
        pairs = zip(self.box, part.box, strict=True)
        return tuple((min(a, c), max(b, d)) for (a, b), (c, d) in pairs)


def choose_dense(
    parts: Sequence[Part],
    left: dict[str, str],
    target: int,
    *,
    axes: Sequence[Axis],
    kept: Sequence[tuple[int, int]] = (),
) -> Choice:
    """Choose batches of a dense array.

    Args:
        parts: Every visible fragment, in time order.
        left: Those that cannot be merged anyway -> why.
        target: Bytes of a batch, at most.
        axes: The dimensions.
        kept: Moments, from one to another, that no batch may cross.
    """
    return _Dense(dict(left), target, axes, kept).choose(parts)


class _Dense:
    def __init__(
        self,
        reasons: dict[str, str],
        target: int,
        axes: Sequence[Axis],
        kept: Sequence[tuple[int, int]],
    ) -> None:
        self.reasons, self.target, self.kept = reasons, target, kept
        self.tile_cells = math.prod(axis.extent for axis in axes)
        self.growing: list[_Growing] = []
        self.found: list[Batch] = []
        self.outside = _Boxes(len(axes))
        """Of all fragments so far that no batch can take any more."""

    def choose(self, parts: Sequence[Part]) -> Choice:
        """Take the fragments in time order."""
        counts = Counter(part.t1 for part in parts)
        for part in parts:
            if counts[part.t1] > 1:
                self.reasons.setdefault(part.name, SAME_MS)
            taken = None
            if part.name not in self.reasons and part.size > self.target // 2:
                self.reasons[part.name] = LARGE
            if part.name not in self.reasons:
                taken = next((one for one in self.growing if self._fits(one, part)), None)
            if taken is not None:
                taken.box, taken.t2 = taken.with_part(part), part.t2
                taken.parts.append(part)
                taken.size, taken.cells = taken.size + part.size, taken.cells + part.cells
                continue
            met = [one for one in self.growing if _overlap(one.box, part.box)]
            for one in met:
                self._end(one)
            if part.name in self.reasons:
                self.outside.add(part.box)
            elif self.outside.meets(part.box):
                self.reasons[part.name] = OVERLAPS
                self.outside.add(part.box)
            else:
                self.growing.append(_Growing(part))
                if len(self.growing) > _MOST_OPEN:
                    self._end(self.growing[0])
        for one in [*self.growing]:
            self._end(one)
        return _choice(self.found, self.reasons)

    def _end(self, one: _Growing) -> None:
        self.growing.remove(one)
        self.outside.add(one.box)
        why = "next to each other in time, and no older fragment lies below them"
        self.found.extend(_batch(one.parts, why, self.reasons))

    def _fits(self, one: _Growing, part: Part) -> bool:
        first = one.parts[0]
        if part.schema != first.schema or len(one.parts) == MOST_PARTS:
            return False
        if one.size + part.size > self.target:
            return False
        t1, t2 = first.t1, part.t2
        if one.t2 >= part.t1:
            return False
        if any(low < t2 and t1 <= high for low, high in self.kept):
            return False
        box = one.with_part(part)
        cells = math.prod(high - low + 1 for low, high in box) * self.tile_cells
        if cells > SPREAD * (one.cells + part.cells):
            return False
        others = (other for other in self.growing if other is not one)
        return not (self.outside.meets(box) or any(_overlap(other.box, box) for other in others))


def _overlap(one: tuple[tuple[int, int], ...], other: tuple[tuple[int, int], ...]) -> bool:
    return all(a <= d and c <= b for (a, b), (c, d) in zip(one, other, strict=True))


class _Boxes:
    """Boxes, many of them."""

    def __init__(self, dimensions: int) -> None:
        self._rows: npt.NDArray[np.int64] = np.empty((16, dimensions, 2), np.int64)
        self._count = 0

    def add(self, box: tuple[tuple[int, int], ...]) -> None:
        if self._count == len(self._rows):
            self._rows = np.concatenate((self._rows, np.empty_like(self._rows)))
        self._rows[self._count] = box
        self._count += 1

    def meets(self, box: tuple[tuple[int, int], ...]) -> bool:
        rows, own = self._rows[: self._count], np.array(box, np.int64)
        apart = (rows[:, :, 0] > own[:, 1]) | (rows[:, :, 1] < own[:, 0])
        return bool((~apart.any(axis=1)).any())


def size_bytes(text: str | int, where: str = "size") -> int:
    """Read a number of bytes, such as `1GB` or `512MB`; of 1,000 or, with an `i`, of 1,024.

    Raises:
        WrongCallError: It is none.

    >>> size_bytes("1GB"), size_bytes("2 MiB"), size_bytes(7)
    (1000000000, 2097152, 7)
    """
    from chronotile.errors import WrongCallError

    if isinstance(text, int) and not isinstance(text, bool) and text > 0:
        return text
    letters = str(text).replace(" ", "").replace("_", "").upper().removesuffix("B")
    base = 1024 if letters.endswith("I") else 1000
    letters = letters.removesuffix("I")
    power = "KMGT".find(letters[-1:]) + 1 if letters[-1:] else 0
    number = letters[:-1] if power else letters
    if not number.replace(".", "", 1).isdigit() or float(number) * base**power < 1:
        raise WrongCallError(where, f"{text!r:.40} is not a size; give one such as 512MB or 1GB")
    return int(float(number) * base**power)
