"""Commit records as columns: the fast path.

In: the bytes of a `.con`, or a list of file names. Out: `Uris`, one array per column, and no Python
object per record. `names` parses each line of an unusual shape; the generated parser reads a whole
file that the fast path cannot.

A commit log is mostly text of one shape. Its lines are checked and turned into numbers block by
block, so the work stays in cache and takes little memory. Tests compare this module with
`commit_files.decode_con`: for any bytes both give the same records, or both refuse.
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from chronotile.format.commit_files import decode_con
from chronotile.format.kinds import OK, TILES, WRT
from chronotile.history.uri_columns import (
    ColumnBuilder,
    Uris,
    concatenated,
    distinct,
    empty,
    one_by_one,
    parse_rows,
    reordered,
    rows_of_shape,
    shape_of,
    single_value,
    taken,
)
from chronotile.storage.place import PlainNames

if TYPE_CHECKING:
    from collections.abc import Sequence

    from chronotile.history.uri_columns import I64, Bytes

_BLOCK = 1 << 14
_TRIAL = 64
"""The fewest rows of a run: shorter runs go with the lines of mixed shapes."""
_TILE_MARKS = tuple(text.encode() for text in TILES)
_NEWLINE = 10
_U64 = struct.Struct("<Q")


class Tiles(NamedTuple):
    """Where the tiles of deletes and updates lie in a `.con`."""

    row: I64
    """The row of the record."""
    offset: I64
    length: I64


def scan_con(data: bytes | memoryview, where: str) -> tuple[Uris, Tiles]:
    r"""Reads a consolidated commits file into columns.

    Raises:
        BadFileError: As `commit_files.decode_con` does.

    >>> line = b"__commits/__7_8_00112233445566778899aabbccddeeff_22.wrt\n"
    >>> uris, tiles = scan_con(line * 3, "a.con")
    >>> uris.t2.tolist()
    [8, 8, 8]
    """
    walk = _Walk(memoryview(data))
    columns = _columns_of(walk) if walk.to_the_end() else None
    return columns or _scan_slowly(data, where)


def _columns_of(walk: _Walk) -> tuple[Uris, Tiles] | None:
    """The columns of what a walk has gathered; None if a record is odd."""
    spans = np.array(walk.spans, np.int64).reshape(len(walk.spans), 2)
    tiles = np.array(walk.tiles, np.int64).reshape(len(walk.tiles), 3)
    uris = walk.runs.whole()
    place = np.empty(0, np.int64)
    first_span = walk.rows
    if walk.spans:
        uris = concatenated([uris, scan_spans(walk.data, spans[:, 0], spans[:, 1])])
        uris, place = reordered(uris, np.argsort(uris.start, kind="stable"))
    rows = place[first_span + tiles[:, 0]]
    if uris.bad or _has_strays(uris, rows):
        return None
    return uris, Tiles(rows, tiles[:, 1], tiles[:, 2])


def _has_strays(uris: Uris, rows: I64) -> bool:
    """Whether any record is neither a write nor one of the rows that hold a tile."""
    if single_value(uris.ext) in (WRT, OK):
        return False
    is_stray = (uris.ext != WRT) & (uris.ext != OK)
    is_stray[rows] = False
    return bool(is_stray.any())


class _Walk:
    """One pass over a `.con`: gathers runs of writes as columns, everything else as spans."""

    def __init__(self, data: memoryview) -> None:
        self.data = data
        self.buffer = np.frombuffer(data, np.uint8)
        self.runs = ColumnBuilder()
        self.rows = 0
        self.spans: list[tuple[int, int]] = []
        """(start, length) of URIs that are parsed later, together."""
        self.tiles: list[tuple[int, int, int]] = []
        """(span, offset, length) of tiles."""
        self.at = 0
        """Where the records end that were gathered."""

    def to_the_end(self) -> bool:
        """Walks over the whole file; false if the file is damaged, or cut."""
        data, size = self.data, len(self.data)
        before = 0
        while self.at < size:
            at = self.at
            end = self._line_end(at)
            if end < 0:
                return False
            if bytes(data[max(end - 4, at) : end]) in _TILE_MARKS:
                after = self._tile(at, end)
                if after < 0:
                    return False
                self.at = after
                continue
            length = end + 1 - at
            rows = self._alike(at, length, before)
            run = _uniform_run(self.buffer, at, rows, length) if rows else None
            if run is None:
                self.at = self._odd_lines(at)
                continue
            self.at += len(run.start) * length
            before = length if len(run.start) == _BLOCK else 0
            self._keep(run, (size - self.at) // length)
        return True

    def _line_end(self, at: int) -> int:
        """Where the line at a place ends; -1 if it has no newline."""
        step = 1 << 7
        while at < len(self.data):
            found = bytes(self.data[at : at + step]).find(b"\n")
            if found >= 0:
                return at + found
            at += step
            step *= 2
        return -1

    def _alike(self, at: int, length: int, before: int) -> int:
        """How many lines of one length follow one another, at most a block; 0 if they are few.

        If the block before has the same length, one newline at the end of this one is enough: the
        shape of each line is checked later.
        """
        most = min((len(self.data) - at) // length, _BLOCK)
        if length == before and self.data[at + most * length - 1] == _NEWLINE:
            return most
        few = min(most, _TRIAL)
        for rows in (few, most) if few < most else (few,):
            ends = self.buffer[at + length - 1 : at + rows * length : length] == _NEWLINE
            if not ends.all():
                found = int(np.argmin(ends))
                return found if found >= few else 0
        return most

    def _keep(self, block: Uris, to_come: int) -> None:
        self.rows += len(block.start)
        self.runs.add(block, self.rows + to_come)

    def _tile(self, at: int, end: int) -> int:
        """Takes a record with a tile; gives the start of the next record, or -1."""
        offset = end + 1 + _U64.size
        if end - at <= 4 or offset > len(self.data):
            return -1
        length = _U64.unpack_from(self.data, end + 1)[0]
        if offset + length > len(self.data):
            return -1
        self.tiles.append((len(self.spans), offset, length))
        self.spans.append((at, end - at))
        return offset + int(length)

    def _odd_lines(self, at: int) -> int:
        """Takes lines of any shape, up to the next tile, at most about a megabyte."""
        size = len(self.data)
        last = self._line_end(min(at + (1 << 20), size - 1)) + 1
        lines = bytes(self.data[at : last or size])
        for mark in _TILE_MARKS:
            hit = lines.find(mark + b"\n")
            if hit >= 0:
                lines = lines[: lines.rfind(b"\n", 0, hit) + 1]
        lines = lines[: lines.rfind(b"\n") + 1]
        last = at + len(lines)
        if len(lines) > 1 << 13:
            mixed = _mixed(self.data, self.buffer, at, last)
            self._keep(mixed, len(mixed.start) * (size - last) // (last - at))
            return last
        for line in lines.split(b"\n")[:-1]:
            self.spans.append((at, len(line)))
            at += len(line) + 1
        return last


def scan_names(names: Sequence[str]) -> tuple[Uris, bytes]:
    """Reads file names into columns; gives also the buffer that `start` points into.

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
    uris = scan_lines(text, 0, len(text))
    assert uris is not None  # every line ends in a newline
    return uris, text


def scan_lines(data: bytes, first: int, last: int) -> Uris | None:
    """Reads lines of text into columns; None if the last line has no newline."""
    if first == last:
        return empty()
    if data[last - 1] != _NEWLINE:
        return None
    buffer = np.frombuffer(data, np.uint8)
    runs, rows = ColumnBuilder(), 0
    at = first
    while at < last:
        size = data.find(b"\n", at, last) + 1 - at
        run = _uniform_run(buffer, at, min((last - at) // size, _BLOCK), size)
        if run is None:
            end = data.find(b"\n", min(at + (1 << 20), last - 1), last) + 1
            run = _mixed(data, buffer, at, end)
        else:
            end = at + len(run.start) * size
        rows += len(run.start)
        runs.add(run, rows + len(run.start) * (last - end) // (end - at))
        at = end
    return runs.whole()


def _uniform_run(buffer: Bytes, at: int, rows: int, size: int) -> Uris | None:
    """The columns of the lines of one shape from `at` on; None if they are few."""
    lines = buffer[at : at + rows * size].reshape(rows, size)
    shape = shape_of(lines[0, :-1].tobytes())
    if shape is None:
        return None
    fits = rows_of_shape(lines, shape)
    count = rows if fits.all() else int(np.argmin(fits))
    if count < min(rows, _TRIAL):
        return None
    starts = at + size * np.arange(count, dtype=np.int64)
    return parse_rows(lines[:count], starts, shape)


def _mixed(data: bytes | memoryview, buffer: Bytes, first: int, last: int) -> Uris:
    """The columns of lines of any shape; `names` parses those of an unusual shape."""
    ends = first + np.flatnonzero(buffer[first:last] == _NEWLINE)
    starts = np.concatenate((np.array([first]), ends[:-1] + 1))
    return scan_spans(data, starts, ends - starts)


def scan_spans(data: bytes | memoryview, starts: I64, lengths: I64) -> Uris:
    """Reads URIs at given places, in rising order, into columns."""
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
            parts.append(parse_rows(matrix[fits], rows[fits], shape))
            rows = rows[~fits]
        left.append(rows)
    slow = np.sort(np.concatenate(left)) if left else np.empty(0, np.int64)
    if len(slow):
        sizes = lengths[np.searchsorted(starts, slow)]
        parts.append(one_by_one(data, slow, sizes))
    together = concatenated(parts)
    return reordered(together, np.argsort(together.start, kind="stable"))[0]


def _scan_slowly(data: bytes | memoryview, where: str) -> tuple[Uris, Tiles]:
    """The columns of a `.con`, from the generated parser."""
    records = decode_con(bytes(data), where)
    starts = np.array([record.offset for record in records], np.int64)
    lengths = np.array([len(record.uri.encode()) for record in records], np.int64)
    tiles = [(n, r.tile_offset, len(r.tile)) for n, r in enumerate(records) if r.tile is not None]
    columns = np.array(tiles, np.int64).reshape(len(tiles), 3).T
    return one_by_one(data, starts, lengths), Tiles(*columns)
