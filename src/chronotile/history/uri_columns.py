"""URIs of commits, taken apart into columns: the arithmetic of the fast path.

In: lines of one length, as the rows of a matrix of bytes. Out: `Uris`, one array per column. Knows
nothing of files: `lines_to_columns` finds the lines.

The engine writes URIs of one shape, `__commits/__t1_t2_uuid_v.wrt`. If the underscores of many
lines stand in the same places, each part is a block of columns, which numpy checks and turns into
numbers at once. `names` parses a line of any other shape.
"""

from __future__ import annotations

import threading
from functools import lru_cache
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from chronotile.errors import BadNameError
from chronotile.format.kinds import EXTENSIONS
from chronotile.format.names import parse_name

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy.typing as npt

    U64 = npt.NDArray[np.uint64]
    U32 = npt.NDArray[np.uint32]
    I64 = npt.NDArray[np.int64]
    I32 = npt.NDArray[np.int32]
    Bytes = npt.NDArray[np.uint8]

NO_VERSION = 0xFFFF_FFFF
"""The version of a name that carries none."""

_UNDERSCORE, _ZERO, _NINE, _A, _F = b"_09af"
_FEW = 1 << 16
_LEN_MAX = 512
_LEN_AT_ONCE = 1 << 17
"""Bytes of lines that are checked at once: with their bounds they stay in a core's cache."""


_THREAD = threading.local()


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
        """Where the name of one row starts and ends in its buffer."""
        start = int(self.start[row])
        end = start + int(self.length[row]) - len(EXTENSIONS[int(self.ext[row])])
        return start + int(self.prefix[row]), end


class Shape(NamedTuple):
    """Where the parts of a name stand in lines of one length."""

    prefix: int
    t1: slice
    t2: slice
    uuid: slice
    version: slice | None
    ext: int


class _Bounds(NamedTuple):
    """The allowed range of each byte of some lines.

    A byte minus `low` is at most `width`; minus `skip` too, it is at least `least`.
    """

    low: Bytes
    width: Bytes
    skip: Bytes
    least: Bytes


def shape_of(line: bytes) -> Shape | None:
    """The shape of a line as the engine writes it, from its underscores."""
    if len(line) > _LEN_MAX or not line.isascii():
        return None
    ext = next((n for n, text in enumerate(EXTENSIONS) if n and line.endswith(text.encode())), 0)
    prefix = line.rfind(b"/") + 1
    end = len(line) - len(EXTENSIONS[ext])
    bars = [at for at in range(prefix, end) if line[at] == _UNDERSCORE]
    if len(bars) not in (4, 5) or bars[:2] != [prefix, prefix + 1]:
        return None
    _, one, two, three = bars[:4]
    uuid_end = bars[4] if len(bars) == 5 else end
    t1, t2 = slice(one + 1, two), slice(two + 1, three)
    version = slice(bars[4] + 1, end) if len(bars) == 5 else None
    widths = [t1.stop - t1.start, t2.stop - t2.start]
    if not all(1 <= width <= 19 for width in widths) or uuid_end - three - 1 != 32:
        return None
    if version is not None and not 1 <= version.stop - version.start <= 9:
        return None
    if version is None and ext:
        return None  # a name of the older eras is rare: `names` parses it
    return Shape(prefix, t1, t2, slice(three + 1, uuid_end), version, ext)


def rows_of_shape(lines: Bytes, shape: Shape) -> npt.NDArray[np.bool_]:
    """Mask of the rows that have the first row's shape: its text around digits and hex digits.

    Each byte of a line must lie in a range: one value, `0` to `9`, or also `a` to `f`. One
    operation checks all bytes of many lines. A byte below `low` wraps round to a large one.
    """
    rows, size = lines.shape
    fits = np.ones(rows, bool)
    bounds = _bounds(_model(lines[0].tobytes(), shape))
    flat, step = lines.reshape(-1), bounds.low.size // size
    scratch = _scratch()
    for first in range(0, rows, step):
        part = flat[first * size : (first + step) * size]
        low, width, skip, least = (column[: len(part)] for column in bounds)
        above, *masks = scratch[:, : len(part)]
        is_below, is_beyond = (mask.view(bool) for mask in masks)
        np.subtract(part, low, out=above)
        np.less_equal(above, width, out=is_below)
        np.subtract(above, skip, out=above)
        np.greater_equal(above, least, out=is_beyond)
        if not (is_below.all() and is_beyond.all()):
            is_below &= is_beyond
            fits[first : first + step] = is_below.reshape(-1, size).all(axis=1)
    return fits


def _scratch() -> npt.NDArray[np.uint8]:
    """This thread's memory for intermediate bytes: reused, it stays in the cache."""
    scratch = getattr(_THREAD, "scratch", None)
    if scratch is None:
        scratch = _THREAD.scratch = np.empty((3, _LEN_AT_ONCE + _LEN_MAX), np.uint8)
    return scratch


def _model(line: bytes, shape: Shape) -> bytes:
    """A line with its times and its uuid as zeros, so that lines of one kind are equal."""
    for part in (shape.t1, shape.t2, shape.uuid):
        line = line[: part.start] + b"0" * (part.stop - part.start) + line[part.stop :]
    return line


@lru_cache(maxsize=16)
def _bounds(line: bytes) -> _Bounds:
    """The bounds of as many lines as are checked at once."""
    shape = shape_of(line.removesuffix(b"\n"))
    assert shape is not None
    low = np.frombuffer(line, np.uint8).copy()
    width, skip, least = np.zeros((3, len(line)), np.uint8)
    for part in (shape.t1, shape.t2):
        width[part] = _NINE - _ZERO
    width[shape.uuid] = _F - _ZERO
    skip[shape.uuid] = _NINE + 1 - _ZERO
    least[shape.uuid] = _A - _NINE - 1
    if shape.version is not None and not line[shape.version].isdigit():
        least[shape.version] = 255  # no line fits: this is no number
    times = _LEN_AT_ONCE // len(line)
    return _Bounds(*(np.tile(column, times) for column in (low, width, skip, least)))


def _words(size: int) -> list[int]:
    """Where to load eight bytes at a time to cover a text; the last load may overlap."""
    return [*range(0, size - 8, 8), size - 8]


def _load(matrix: Bytes, column: int) -> U64:
    """Eight bytes of each row from a column on, as little-endian numbers."""
    words: U64 = matrix[:, column : column + 8].view("<u8")[:, 0].copy()
    return words


def parse_rows(lines: Bytes, starts: I64, shape: Shape) -> Uris:
    """The columns of lines of one shape; `starts` gives the place of each line."""
    count, end = len(lines), (shape.version or shape.uuid).stop + len(EXTENSIONS[shape.ext])
    first, last = _texts(lines, shape.t1), _texts(lines, shape.t2)
    digits, more = shape.t1.stop - shape.t1.start, shape.t2.stop - shape.t2.start
    same = digits == more and all((a == b).all() for a, b in zip(first, last, strict=True))
    t1 = _decimal(first, digits)
    t2 = t1 if same else _decimal(last, more)
    version = int(lines[0, shape.version].tobytes()) if shape.version else NO_VERSION
    return Uris(
        start=starts,
        length=constant(end, np.int32, count),
        prefix=constant(shape.prefix, np.int32, count),
        ext=constant(shape.ext, np.uint8, count),
        t1=t1,
        t2=t2,
        version=constant(version, np.uint32, count),
        uuid_start=_load(lines, shape.uuid.start).byteswap(inplace=True),
        bad=() if same else tuple(np.flatnonzero(t1 > t2).tolist()),
    )


def _texts(lines: Bytes, part: slice) -> list[U64]:
    """The text of a part: eight characters at a time, or one by one if there are fewer."""
    digits = part.stop - part.start
    if digits < 8:
        return [lines[:, at].astype(np.uint64) for at in range(part.start, part.stop)]
    return [_load(lines, part.start + at) for at in _words(digits)]


def _decimal(texts: list[U64], digits: int) -> U64:
    """The numbers that decimal texts denote; the texts are overwritten."""
    if digits < 8:
        value = texts[0] - _ZERO
        for text in texts[1:]:
            value *= 10
            value += text - _ZERO
        return value
    value, done = _eight_digits(texts[0]), 8
    for at, text in zip(_words(digits)[1:], texts[1:], strict=True):
        # If a word overlaps the one before, drop the digits that are counted already.
        if done > at:
            text &= np.uint64((1 << 64) - (1 << 8 * (done - at)))
        value *= 10 ** (at + 8 - done)
        value += _eight_digits(text)
        done = at + 8
    return value


def _eight_digits(text: U64) -> U64:
    """Eight decimal digits as a number: pairs, then fours, then all.

    The first of two neighbours is the lower half. One multiplication adds it, times 10, 100 or
    10,000, to the upper half; a shift then moves the sum down.
    """
    text &= np.uint64(0x0F0F0F0F0F0F0F0F)
    pairs, fours = text.view("<u2"), text.view("<u4")
    pairs *= 10 * 256 + 1
    pairs >>= 8
    fours *= 100 * 65536 + 1
    fours >>= 16
    text *= 10000 * 2**32 + 1
    text >>= 32
    return text


def taken(data: bytes | memoryview, starts: I64, size: int) -> Bytes:
    """The substrings of one size at some places, as the rows of a matrix; each is copied whole.

    >>> taken(b"abcd", np.array([2, 0]), 2).tobytes()
    b'cdab'
    """
    if not size or not len(starts):
        return np.empty((len(starts), size), np.uint8)
    texts = np.ndarray((max(len(data) - size + 1, 0),), f"V{size}", data, 0, (1,))[starts]
    return texts.view(np.uint8).reshape(len(starts), size)


def stand_at(data: bytes | memoryview, starts: I64, text: bytes) -> npt.NDArray[np.bool_]:
    """Mask of the places at which a text of eight or more characters stands.

    >>> stand_at(b"__commits/__commits/", np.array([0, 1, 10]), b"__commits/").tolist()
    [True, False, True]
    """
    if not len(starts):
        return np.zeros(0, bool)
    matrix = taken(data, starts, len(text))
    stands = np.ones(len(starts), bool)
    for at in _words(len(text)):
        stands &= _load(matrix, at) == np.uint64(int.from_bytes(text[at : at + 8], "little"))
    return stands


def distinct(values: npt.NDArray[Any]) -> list[int]:
    """The distinct numbers of a column, in order; small numbers are counted, not sorted.

    >>> distinct(np.array([7, 3, 7]))
    [3, 7]
    """
    if len(values) and values.min() >= 0 and values.max() < _FEW:
        return np.flatnonzero(np.bincount(values)).tolist()
    return np.unique(values).tolist()  # type: ignore[no-any-return]


def uuid_start_of(uuid: str) -> int:
    """The value of a uuid in the column `uuid_start`.

    >>> hex(uuid_start_of("00112233445566778899aabbccddeeff"))
    '0x3030313132323333'
    """
    return int.from_bytes(uuid[:8].encode(), "big")


def one_by_one(data: bytes | memoryview, starts: I64, lengths: I64) -> Uris:
    """The columns of lines of any shape; `names` parses each line."""
    rows: list[tuple[int, ...]] = []
    bad: list[int] = []
    for row, (start, length) in enumerate(zip(starts.tolist(), lengths.tolist(), strict=True)):
        line = bytes(data[start : start + length])
        text = line.decode("utf-8", "surrogateescape")
        ext = next((n for n, e in enumerate(EXTENSIONS) if n and text.endswith(e)), 0)
        prefix = line.rfind(b"/") + 1
        try:
            line.decode()
            name = parse_name(text[text.rfind("/") + 1 : len(text) - len(EXTENSIONS[ext])])
        except (BadNameError, UnicodeDecodeError):
            bad.append(row)
            rows.append((prefix, ext, 0, 0, NO_VERSION, 0))
            continue
        version = NO_VERSION if name.version is None else name.version
        rows.append((prefix, ext, name.t1, name.t2, version, uuid_start_of(name.uuid)))
    table = np.array(rows, np.uint64).reshape(len(rows), 6)
    return Uris(
        start=starts,
        length=lengths.astype(np.int32),
        prefix=table[:, 0].astype(np.int32),
        ext=table[:, 1].astype(np.uint8),
        t1=table[:, 2],
        t2=table[:, 3],
        version=table[:, 4].astype(np.uint32),
        uuid_start=table[:, 5],
        bad=tuple(bad),
    )


def empty() -> Uris:
    """No rows."""
    u8, u64 = np.empty(0, np.uint8), np.empty(0, np.uint64)
    start, length = np.empty(0, np.int64), np.empty(0, np.int32)
    return Uris(start, length, length, u8, u64, u64, np.empty(0, np.uint32), u64, ())


def constant(value: int, dtype: npt.DTypeLike, rows: int) -> npt.NDArray[Any]:
    """A column with the same value in every row; it takes no memory per row.

    >>> constant(7, np.uint8, 3).tolist()
    [7, 7, 7]
    """
    # Ten times as fast as `broadcast_to`, with the same result.
    column: npt.NDArray[Any] = np.ndarray((rows,), dtype, np.array(value, dtype), 0, (0,))
    column.flags.writeable = False
    return column


def single_value(column: npt.NDArray[Any]) -> Any:
    """The value of a column that `constant` made; None for any other column.

    >>> int(single_value(constant(7, np.uint8, 3))), single_value(np.array([7, 7]))
    (7, None)
    """
    return column[0] if len(column) and column.strides == (0,) else None


def concatenated(parts: Sequence[Uris]) -> Uris:
    """The rows of several tables, one after the other."""
    parts = [part for part in parts if len(part.start)]
    if not parts:
        return empty()
    if len(parts) == 1:
        return parts[0]
    bases = np.cumsum([0, *(len(part.start) for part in parts)]).tolist()
    bad = (base + row for base, part in zip(bases, parts, strict=False) for row in part.bad)
    columns = [_joined(column) for column in list(zip(*parts, strict=True))[:-1]]
    return Uris._make([*columns, tuple(bad)])


def _joined(columns: Sequence[npt.NDArray[Any]]) -> npt.NDArray[Any]:
    """Columns one after the other; the same value everywhere still takes no memory per row."""
    values = {single_value(column) for column in columns}
    if len(values) == 1 and None not in values:
        return constant(values.pop(), columns[0].dtype, sum(map(len, columns)))
    return np.concatenate(columns)


def reordered(uris: Uris, order: I64) -> tuple[Uris, I64]:
    """The rows in another order, and the new place of each row."""
    place = np.empty(len(order), np.int64)
    place[order] = np.arange(len(order))
    bad = tuple(sorted(int(place[row]) for row in uris.bad))
    return Uris._make([*(in_order(column, order) for column in uris[:-1]), bad]), place


def in_order(column: npt.NDArray[Any], order: I64) -> npt.NDArray[Any]:
    """All rows of a column in another order; the same value everywhere has none.

    >>> in_order(constant(7, np.uint8, 2), np.array([1, 0])).strides
    (0,)
    """
    return column if single_value(column) is not None else column[order]


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
