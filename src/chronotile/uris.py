"""URIs of commits, taken apart into columns: the arithmetic of the fast path.

In: lines of one length, as the rows of a matrix of bytes. Out: `Uris`, one array a column. Knows
nothing of files: `columns` finds the lines.

A URI as the engine writes it is text of one shape, `__commits/__t1_t2_uuid_v.wrt`. In lines whose
underscores stand in the same places each part is a block of columns, which is checked and turned
into numbers all at once. A line of no such shape goes through `names`.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from chronotile.errors import BadNameError
from chronotile.names import parse_name

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy.typing as npt

    U64 = npt.NDArray[np.uint64]
    U32 = npt.NDArray[np.uint32]
    I64 = npt.NDArray[np.int64]
    I32 = npt.NDArray[np.int32]
    Bytes = npt.NDArray[np.uint8]

EXTENSIONS = ("", ".wrt", ".ok", ".del", ".upd")
"""What the numbers in the `ext` column stand for; 0 is none of them."""
WRT, OK, DEL, UPD = 1, 2, 3, 4
NO_VERSION = 0xFFFF_FFFF
"""The version of a name that carries none."""

_UNDERSCORE, _ZERO, _NINE, _A, _F = b"_09af"
_FEW = 1 << 16
_LEN_MAX = 512
_TOP_BITS = np.uint64(0x8080808080808080)


class Uris(NamedTuple):
    """URIs of commits, taken apart; row i of each array is about the i-th."""

    start: I64
    """Where the URI starts in its buffer."""
    length: I32
    prefix: I32
    """Length of what stands before the name."""
    ext: Bytes
    t1: U64
    t2: U64
    version: U32
    key: U64
    """The first eight characters of the uuid: they sort as names do, and seldom meet."""
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


class _Range(NamedTuple):
    """The ranges of eight bytes of a line, as what sets their top bits."""

    at: int
    low: np.uint64
    high: np.uint64
    letters: tuple[np.uint64, np.uint64] | None


def shape_of(line: bytes) -> Shape | None:
    """The shape of a line as the engine writes it, from its underscores."""
    if len(line) > _LEN_MAX:
        return None
    ext = next((n for n, text in enumerate(EXTENSIONS) if n and line.endswith(text.encode())), 0)
    prefix = line.rfind(b"/") + 1
    end = len(line) - len(EXTENSIONS[ext])
    marks = [at for at in range(prefix, end) if line[at] == _UNDERSCORE]
    if len(marks) not in (4, 5) or marks[:2] != [prefix, prefix + 1]:
        return None
    _, one, two, three = marks[:4]
    uuid_end = marks[4] if len(marks) == 5 else end
    t1, t2 = slice(one + 1, two), slice(two + 1, three)
    version = slice(marks[4] + 1, end) if len(marks) == 5 else None
    widths = [t1.stop - t1.start, t2.stop - t2.start]
    if not all(1 <= width <= 19 for width in widths) or uuid_end - three - 1 != 32:
        return None
    if version is not None and not 1 <= version.stop - version.start <= 9:
        return None
    if version is None and ext:
        return None  # of the older eras: rare, and left to `names`
    return Shape(prefix, t1, t2, slice(three + 1, uuid_end), version, ext)


def fitting(matrix: Bytes, shape: Shape) -> npt.NDArray[np.bool_]:
    """Which rows are of the shape: the same text around the parts, digits, hex digits.

    Every byte of a line has a range that it must be in: one value, `0` to `9`, or also `a` to
    `f`. Eight bytes are checked at once: with b below 128, adding 128 - low to it sets its top
    bit just if b >= low, and no sum spills into the byte above.
    """
    line = matrix[0].copy()
    for part in (shape.t1, shape.t2, shape.uuid, *([shape.version] if shape.version else [])):
        line[part] = _ZERO
    fits = np.ones(len(matrix), bool)
    for at, low, high, letters in _ranges(line.tobytes()):
        value = _load(matrix, at)
        found = (value + low) & ~(value + high)
        if letters is not None:
            found |= (value + letters[0]) & ~(value + letters[1])
        found &= ~value
        found &= _TOP_BITS
        fits &= found == _TOP_BITS
    return fits


@lru_cache(maxsize=256)
def _ranges(line: bytes) -> tuple[_Range, ...]:
    """What to add to each word of a line to see that its bytes are in their ranges.

    The parts of the line are filled with zeros, so that lines of one shape are equal.
    """
    shape = shape_of(line)
    assert shape is not None
    low = np.frombuffer(line, np.uint8).copy()
    high = low.copy()
    for part in (shape.t1, shape.t2, shape.uuid, *([shape.version] if shape.version else [])):
        low[part], high[part] = _ZERO, _NINE
    in_uuid = np.zeros(len(line), bool)
    in_uuid[shape.uuid] = True
    ranges = []
    for at in _words(len(line)):
        word = slice(at, at + 8)
        letters = None
        if in_uuid[word].any():
            above = np.where(in_uuid[word], 128 - _A, 0)
            beyond = np.where(in_uuid[word], 127 - _F, 0)
            letters = _constant(above), _constant(beyond)
        ranges.append(_Range(at, _constant(128 - low[word]), _constant(127 - high[word]), letters))
    return tuple(ranges)


def _words(size: int) -> list[int]:
    """Where to load eight bytes at a time to see all of a line; the last may overlap."""
    return [*range(0, size - 8, 8), size - 8]


def _constant(values: npt.NDArray[Any]) -> np.uint64:
    return np.uint64(int.from_bytes(bytes(values.astype(np.uint8)), "little"))


def _load(matrix: Bytes, column: int) -> U64:
    """Eight bytes of each row, from one column on, the first one lowest."""
    words: U64 = matrix[:, column : column + 8].view("<u8")[:, 0].copy()
    return words


def numbers(matrix: Bytes, starts: I64, shape: Shape) -> Uris:
    """The columns of rows that fit a shape; `starts` tells where each row starts."""
    count = len(matrix)
    t1 = _decimal(matrix, shape.t1)
    t2 = t1 if _same(matrix, shape.t1, shape.t2) else _decimal(matrix, shape.t2)
    return Uris(
        start=starts,
        length=constant(matrix.shape[1], np.int32, count),
        prefix=constant(shape.prefix, np.int32, count),
        ext=constant(shape.ext, np.uint8, count),
        t1=t1,
        t2=t2,
        version=_versions(matrix, shape.version),
        key=_load(matrix, shape.uuid.start).byteswap(),
        bad=() if t2 is t1 else tuple(np.flatnonzero(t1 > t2).tolist()),
    )


def _versions(matrix: Bytes, part: slice | None) -> U32:
    """The format versions, which are mostly all the same."""
    if part is None:
        return constant(NO_VERSION, np.uint32, len(matrix))
    if (matrix[:, part] == matrix[0, part]).all():
        return constant(int(matrix[0, part].tobytes()), np.uint32, len(matrix))
    return _decimal(matrix, part).astype(np.uint32)


def _same(matrix: Bytes, one: slice, other: slice) -> bool:
    """Whether two parts of each row are the same text, as mostly both timestamps are."""
    width = one.stop - one.start
    if width != other.stop - other.start or width < 8:
        return False
    return (
        all(
            bool((_load(matrix, one.start + at) == _load(matrix, other.start + at)).all())
            for at in (0, width - 8)
        )
        and width <= 16
    )


def _decimal(matrix: Bytes, part: slice) -> U64:
    """The numbers that stand in some columns; from eight digits on, eight at a time."""
    digits = part.stop - part.start
    if digits >= 8:
        value = _eight_digits(_load(matrix, part.stop - 8))
        if digits > 8:
            ahead = slice(part.start, part.stop - 8)
            value += _decimal(matrix, ahead) * np.uint64(10**8)
        return value
    value = np.zeros(len(matrix), np.uint64)
    for column in range(part.start, part.stop):
        value *= np.uint64(10)
        value += matrix[:, column] - np.uint8(_ZERO)
    return value


def _eight_digits(text: U64) -> U64:
    """Eight decimal digits as a number: pairs, then fours, then all."""
    text &= np.uint64(0x0F0F0F0F0F0F0F0F)
    text *= np.uint64(10 * 256 + 1)
    text >>= np.uint64(8)
    text &= np.uint64(0x00FF00FF00FF00FF)
    text *= np.uint64(100 * 65536 + 1)
    text >>= np.uint64(16)
    text &= np.uint64(0x0000FFFF0000FFFF)
    text *= np.uint64(10000 * 2**32 + 1)
    text >>= np.uint64(32)
    return text


def windows(data: bytes, size: int) -> Bytes:
    """Every text of that size in some bytes, by where it starts; a view that copies nothing.

    >>> windows(b"abcd", 2)[[0, 2]].tobytes()
    b'abcd'
    """
    return np.ndarray((max(len(data) - size + 1, 0), size), np.uint8, data, 0, (1, 1))


def stand_at(data: bytes, starts: I64, text: bytes) -> npt.NDArray[np.bool_]:
    """At which of some places a text of eight characters or more stands.

    >>> stand_at(b"__commits/__commits/", np.array([0, 1, 10]), b"__commits/").tolist()
    [True, False, True]
    """
    if not len(starts):
        return np.zeros(0, bool)
    matrix = windows(data, len(text))[starts]
    wanted = np.frombuffer(text, np.uint8)
    found = np.ones(len(starts), bool)
    for at in _words(len(text)):
        found &= _load(matrix, at) == _constant(wanted[at : at + 8])
    return found


def distinct(values: npt.NDArray[Any]) -> list[int]:
    """The numbers that occur among some, in order; small ones are counted and not sorted.

    >>> distinct(np.array([7, 3, 7]))
    [3, 7]
    """
    if len(values) and values.min() >= 0 and values.max() < _FEW:
        return np.flatnonzero(np.bincount(values)).tolist()
    return np.unique(values).tolist()  # type: ignore[no-any-return]


def key_of(uuid: str) -> int:
    """The key that the columns hold for a uuid.

    >>> hex(key_of("00112233445566778899aabbccddeeff"))
    '0x3030313132323333'
    """
    return int.from_bytes(uuid[:8].encode(), "big")


def one_by_one(data: bytes, starts: I64, lengths: I64) -> Uris:
    """The columns of lines of any shape, each by way of `names`."""
    rows: list[tuple[int, ...]] = []
    bad: list[int] = []
    for row, (start, length) in enumerate(zip(starts.tolist(), lengths.tolist(), strict=True)):
        line = data[start : start + length]
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
        rows.append((prefix, ext, name.t1, name.t2, version, key_of(name.uuid)))
    table = np.array(rows, np.uint64).reshape(len(rows), 6)
    return Uris(
        start=starts,
        length=lengths.astype(np.int32),
        prefix=table[:, 0].astype(np.int32),
        ext=table[:, 1].astype(np.uint8),
        t1=table[:, 2],
        t2=table[:, 3],
        version=table[:, 4].astype(np.uint32),
        key=table[:, 5],
        bad=tuple(bad),
    )


def empty() -> Uris:
    """No rows."""
    u8, u64 = np.empty(0, np.uint8), np.empty(0, np.uint64)
    start, length = np.empty(0, np.int64), np.empty(0, np.int32)
    return Uris(start, length, length, u8, u64, u64, np.empty(0, np.uint32), u64, ())


def constant(value: int, dtype: npt.DTypeLike, rows: int) -> npt.NDArray[Any]:
    """A column of one value, which takes no memory a row.

    >>> constant(7, np.uint8, 3).tolist()
    [7, 7, 7]
    """
    return np.broadcast_to(np.array(value, dtype), rows)


def concatenated(parts: Sequence[Uris]) -> Uris:
    """The rows of several tables, one after the other."""
    parts = [part for part in parts if len(part.start)]
    if not parts:
        return empty()
    if len(parts) == 1:
        return parts[0]
    bases = np.cumsum([0, *(len(part.start) for part in parts)]).tolist()
    bad = (base + row for base, part in zip(bases, parts, strict=False) for row in part.bad)
    columns = [np.concatenate(column) for column in list(zip(*parts, strict=True))[:-1]]
    return Uris._make([*columns, tuple(bad)])


def reordered(uris: Uris, order: I64) -> tuple[Uris, I64]:
    """The rows in another order, and where each of them went."""
    place = np.empty(len(order), np.int64)
    place[order] = np.arange(len(order))
    bad = tuple(sorted(int(place[row]) for row in uris.bad))
    return Uris._make([*(column[order] for column in uris[:-1]), bad]), place
