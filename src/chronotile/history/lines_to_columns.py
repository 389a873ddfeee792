"""Commit records as columns: the fast path.

In: the bytes of a `.con`, or a list of file names. Out: `Uris`, one array per column, and no Python
object per record. Tests compare this module with `commit_files.decode_con`: for any bytes both give
the same records, or both refuse.

A commit log is mostly text of one shape, `__commits/__t1_t2_uuid_v.wrt`. If the underscores of many
lines stand in the same places, each part is a block of columns, which numpy checks and turns into
numbers at once. Blocks are small, so the work stays in cache and takes little memory. `names`
parses each line of an unusual shape; the generated parser says what is wrong with a damaged file.
"""

from __future__ import annotations

import struct
import threading
from array import array
from functools import lru_cache
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from chronotile.errors import BadNameError
from chronotile.format.commit_files import decode_con
from chronotile.format.kinds import CONDITIONS, EXTENSIONS, OK, WRT
from chronotile.format.names import parse_name
from chronotile.history.uri_columns import (
    NO_VERSION,
    Uris,
    concatenated,
    constant,
    distinct,
    reordered,
    single_value,
    taken,
)
from chronotile.storage.place import PlainNames

if TYPE_CHECKING:
    from collections.abc import Sequence

    from chronotile.history.uri_columns import I64, U64, Bytes, Mask

_BLOCK = 1 << 14
"""The most lines that are parsed at once."""
_FEWEST = 64
"""The fewest lines of a run: shorter runs go with the lines of mixed shapes."""
_LEN_MIXED = 1 << 14
"""Bytes of lines of mixed shapes that are split at once."""
_LEN_MAX = 512
_LEN_CHECKED = 1 << 17
"""Bytes of lines that are checked at once: with their bounds they stay in a core's cache."""
_TILE_MARKS = tuple(text.encode() for text in CONDITIONS)
_NEWLINE = 10
_UNDERSCORE, _ZERO, _NINE, _A, _F = b"_09af"
_U64 = struct.Struct("<Q")
_THREAD = threading.local()


class ConditionTiles(NamedTuple):
    """The places of the tiles of deletes and updates in a `.con`."""

    row: I64
    """The row of the record."""
    offset: I64
    length: I64


def scan_con(data: bytes | memoryview, where: str) -> tuple[Uris, ConditionTiles]:
    r"""Read a consolidated commits file into columns.

    Raises:
        BadFileError: As `commit_files.decode_con` does.

    >>> line = b"__commits/__7_8_00112233445566778899aabbccddeeff_22.wrt\n"
    >>> uris, tiles = scan_con(line * 3, "a.con")
    >>> uris.t2.tolist()
    [8, 8, 8]
    """
    walk = _Walk(memoryview(data), has_tiles=True)
    is_whole = walk.to_the_end()
    uris, tiles = walk.columns()
    if not is_whole or uris.bad or _has_strays(uris, tiles):
        decode_con(bytes(data), where)  # it says what is wrong
    return uris, tiles


def _has_strays(uris: Uris, tiles: ConditionTiles) -> bool:
    """Return True if any record is neither a write nor one that holds a tile."""
    if single_value(uris.ext) in (WRT, OK):
        return False
    is_stray = (uris.ext != WRT) & (uris.ext != OK)
    is_stray[tiles.row] = False
    return bool(is_stray.any())


def condition_tiles(tiles: Sequence[tuple[int, int, int]]) -> ConditionTiles:
    """Put (row, offset, length) of each tile into columns."""
    return ConditionTiles(*np.array(tiles, np.int64).reshape(len(tiles), 3).T)


def scan_names(names: Sequence[str]) -> tuple[Uris, bytes]:
    """Read file names into columns; give also the buffer that `start` points into.

    >>> uris, text = scan_names(["__7_8_00112233445566778899aabbccddeeff_22.wrt", "README"])
    >>> uris.t1.tolist(), uris.bad
    ([7, 0], (1,))
    """
    if isinstance(names, PlainNames):
        text = names.lines
    else:
        text = "\n".join((*names, "")).encode("utf-8", "surrogateescape")
        if text.count(b"\n") != len(names):
            clean = [name.replace("\n", "\0") for name in names]
            text = "\n".join((*clean, "")).encode("utf-8", "surrogateescape")
    walk = _Walk(memoryview(text), has_tiles=False)
    walk.to_the_end()
    return walk.columns()[0], text


class _Walk:
    """One pass over lines: parses runs of one shape at once, and gathers all other lines."""

    def __init__(self, data: memoryview, *, has_tiles: bool) -> None:
        self._data = data
        self._buffer = np.frombuffer(data, np.uint8)
        self._has_tiles = has_tiles
        self._at = 0
        """The end of the records that were gathered."""
        self._runs: list[Uris] = []
        self._starts, self._lengths = array("q"), array("q")
        """The places of other lines, which are parsed later, together."""
        self._tiles: list[tuple[int, int, int]] = []
        """(number of the line among these, offset, length) of tiles."""

    def to_the_end(self) -> bool:
        """Walk over all lines; return False if the file is damaged, or cut."""
        rows = _BLOCK
        while self._at < len(self._data):
            end = self._line_end()
            if end < 0:
                return False
            if self._has_tiles and bytes(self._data[max(end - 4, self._at) : end]) in _TILE_MARKS:
                if not self._take_tile(end):
                    return False
                continue
            size = end + 1 - self._at
            run = self._run(rows, size)
            if run is None:
                self._take_mixed(end)
                continue
            self._runs.append(run)
            self._at += len(run.start) * size
            # The next run may be as short as this one.
            rows = min(4 * len(run.start), _BLOCK)
        return True

    def _line_end(self) -> int:
        """Find where the line ends; -1 if it has no newline."""
        at, step = self._at, 1 << 7
        while at < len(self._data):
            newline = bytes(self._data[at : at + step]).find(b"\n")
            if newline >= 0:
                return at + newline
            at += step
            step *= 2
        return -1

    def _run(self, most: int, size: int) -> Uris | None:
        """Parse the lines of one shape that follow one another; None if they are few."""
        rows = min((len(self._data) - self._at) // size, most)
        fewest = min(rows, _FEWEST)
        lines = self._buffer[self._at : self._at + rows * size].reshape(rows, size)
        if (lines[:fewest, -1] != _NEWLINE).any():
            return None
        shape = shape_of(lines[0, :-1].tobytes())
        if shape is None:
            return None
        fits = rows_of_shape(lines, shape)
        count = rows if fits.all() else int(np.argmin(fits))
        if count < fewest:
            return None
        starts = self._at + size * np.arange(count, dtype=np.int64)
        return _parse_rows(lines[:count], starts, shape)

    def _take_tile(self, end: int) -> bool:
        """Take a record with a tile; return False if it is cut."""
        start, offset = self._at, end + 1 + _U64.size
        if end - start <= 4 or offset > len(self._data):
            return False
        length = int(_U64.unpack_from(self._data, end + 1)[0])
        if offset + length > len(self._data):
            return False
        self._tiles.append((len(self._starts), offset, length))
        self._starts.append(start)
        self._lengths.append(end - start)
        self._at = offset + length
        return True

    def _take_mixed(self, end: int) -> None:
        """Take one line or more of any shape, up to the next tile."""
        text = bytes(self._data[end + 1 : end + 1 + _LEN_MIXED])
        for mark in _TILE_MARKS if self._has_tiles else ():
            tile = text.find(mark + b"\n")
            text = text if tile < 0 else text[:tile]
        text = text[: text.rfind(b"\n") + 1]
        ends = end + 1 + np.flatnonzero(np.frombuffer(text, np.uint8) == _NEWLINE)
        starts = np.concatenate(([self._at, end + 1], ends[:-1] + 1))[: len(ends) + 1]
        self._starts.frombytes(starts.tobytes())
        self._lengths.frombytes((np.concatenate(([end], ends)) - starts).tobytes())
        self._at = end + 1 + len(text)

    def columns(self) -> tuple[Uris, ConditionTiles]:
        """Put all lines into columns, in the order of their places."""
        uris, tiles = concatenated(self._runs), condition_tiles(self._tiles)
        if not self._starts:
            return uris, tiles
        starts, lengths = np.frombuffer(self._starts, "q"), np.frombuffer(self._lengths, "q")
        others = [
            scan_spans(self._data, starts[at : at + _BLOCK], lengths[at : at + _BLOCK])
            for at in range(0, len(starts), _BLOCK)
        ]
        first = len(uris.start)
        if not first:
            return concatenated(others), tiles
        uris = concatenated([uris, *others])
        uris, place = reordered(uris, np.argsort(uris.start, kind="stable"))
        return uris, tiles._replace(row=place[first + tiles.row])


def scan_spans(data: bytes | memoryview, starts: I64, lengths: I64) -> Uris:
    """Read URIs at given places, in rising order, into columns."""
    parts: list[Uris] = []
    left: list[I64] = []
    for size in distinct(lengths):
        rows = starts[lengths == size]
        for _ in range(16):
            if not len(rows) or size == 0:
                break
            matrix = taken(data, rows, size)
            shape = shape_of(matrix[0].tobytes())
            if shape is None:
                break
            fits = rows_of_shape(matrix, shape)
            if not fits[0]:
                break
            parts.append(_parse_rows(matrix[fits], rows[fits], shape))
            rows = rows[~fits]
        left.append(rows)
    slow = np.sort(np.concatenate(left)) if left else np.empty(0, np.int64)
    if len(slow):
        sizes = lengths[np.searchsorted(starts, slow)]
        parts.append(_one_by_one(data, slow, sizes))
    together = concatenated(parts)
    return reordered(together, np.argsort(together.start, kind="stable"))[0]


def _one_by_one(data: bytes | memoryview, starts: I64, lengths: I64) -> Uris:
    """Parse lines of any shape, each with `names`."""
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


def uuid_start_of(uuid: str) -> int:
    """Give the value of a uuid in the column `uuid_start`.

    >>> hex(uuid_start_of("00112233445566778899aabbccddeeff"))
    '0x3030313132323333'
    """
    return int.from_bytes(uuid[:8].encode(), "big")


class LineShape(NamedTuple):
    """The places of the parts of a name in lines of one length."""

    prefix: int
    t1: slice
    t2: slice
    uuid: slice
    version: slice | None
    ext: int


def shape_of(line: bytes) -> LineShape | None:
    """Find the shape of a line as the engine writes it, from its underscores."""
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
    return LineShape(prefix, t1, t2, slice(three + 1, uuid_end), version, ext)


class _ByteRanges(NamedTuple):
    """The allowed range of each byte of some lines.

    A byte minus `low` is at most `width`; minus `skip` too, it is at least `least`.
    """

    low: Bytes
    width: Bytes
    skip: Bytes
    least: Bytes


def rows_of_shape(lines: Bytes, shape: LineShape) -> Mask:
    """Mark the rows that have the first row's shape: its text around digits and hex digits.

    Each byte of a line must lie in a range: one value, `0` to `9`, or also `a` to `f`. One
    operation checks all bytes of many lines. A byte below `low` wraps round to a large one.
    """
    rows, size = lines.shape
    fits = np.ones(rows, bool)
    ranges = _byte_ranges(_model(lines[0].tobytes(), shape))
    flat, step = lines.reshape(-1), ranges.low.size // size
    scratch = _scratch()
    for first in range(0, rows, step):
        part = flat[first * size : (first + step) * size]
        low, width, skip, least = (column[: len(part)] for column in ranges)
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


def _scratch() -> Bytes:
    """Give this thread's memory for intermediate bytes: reused, it stays in the cache."""
    scratch = getattr(_THREAD, "scratch", None)
    if scratch is None:
        scratch = _THREAD.scratch = np.empty((3, _LEN_CHECKED + _LEN_MAX), np.uint8)
    return scratch


def _model(line: bytes, shape: LineShape) -> bytes:
    """Replace the times and the uuid of a line by zeros, so that lines of one kind are equal."""
    for part in (shape.t1, shape.t2, shape.uuid):
        line = line[: part.start] + b"0" * (part.stop - part.start) + line[part.stop :]
    return line


@lru_cache(maxsize=16)
def _byte_ranges(line: bytes) -> _ByteRanges:
    """Give the ranges of as many lines as are checked at once."""
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
    times = _LEN_CHECKED // len(line)
    return _ByteRanges(*(np.tile(column, times) for column in (low, width, skip, least)))


def _parse_rows(lines: Bytes, starts: I64, shape: LineShape) -> Uris:
    """Turn lines of one shape into columns; `starts` gives the place of each line."""
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


def _words(size: int) -> list[int]:
    """List where to load eight bytes at a time to cover a text; the last load may overlap."""
    return [*range(0, size - 8, 8), size - 8]


def _load(lines: Bytes, column: int) -> U64:
    """Load eight bytes of each row from a column on, as little-endian numbers."""
    words: U64 = lines[:, column : column + 8].view("<u8")[:, 0].copy()
    return words


def _texts(lines: Bytes, part: slice) -> list[U64]:
    """Load the text of a part: eight characters at a time, or one by one if there are fewer."""
    digits = part.stop - part.start
    if digits < 8:
        return [lines[:, at].astype(np.uint64) for at in range(part.start, part.stop)]
    return [_load(lines, part.start + at) for at in _words(digits)]


def _decimal(texts: list[U64], digits: int) -> U64:
    """Turn decimal texts into numbers; the texts are overwritten."""
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
    """Turn eight decimal digits into a number: pairs, then fours, then all.

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
