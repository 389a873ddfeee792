"""One cell file: its tiles, their chunks, and what the chunks hold.

In: a store, a cell file, and what the metadata of its fragment says of its tiles. Out: nothing, or
the first damage, with its byte; and the filter that stands in the way of the content. Reads the
file in blocks and opens it chunk by chunk: memory does not grow with the file.

A tile is a number of chunks, and the chunks; a chunk is its original, filtered and metadata length,
its metadata, and the filtered bytes. Each tile ends where the next one begins, or with the file.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from chronotile.errors import BadFileError, WrongKeyError
from chronotile.format.filters import CEILING, Chunk, Pipeline, undo

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from chronotile.format.fragment_metadata import FileTiles
    from chronotile.storage.store import Store

_BLOCK = 4 << 20
"""Bytes that one ranged read takes."""
_COUNT, _CHUNK = struct.Struct("<Q"), struct.Struct("<III")


@dataclass(frozen=True, slots=True, kw_only=True)
class Layout:
    """What the schema and the footer say of the tiles of one cell file."""

    tiles: FileTiles
    pipeline: Pipeline
    num_tiles: int
    cells: Callable[[int], int]
    """Cells in a tile, by its number."""
    width: int | None
    """Bytes of a cell before the filters; None where `tiles.var_sizes` has them by tile."""
    is_empty: bool = False
    """Whether its tiles hold nothing, as the values hold their own lengths."""

    def tile_size(self, number: int) -> int:
        """Bytes of a tile before the filters."""
        if self.is_empty:
            return 0
        if self.width is None:
            assert self.tiles.var_sizes is not None  # its field varies in length
            return self.tiles.var_sizes[number]
        return self.cells(number) * self.width


class Opened(NamedTuple):
    """How far one cell file was opened."""

    stopped_at: str | None = None
    """Why its content stayed closed, or some of it; None if all was opened."""


def check_file(
    store: Store,
    path: str,
    layout: Layout,
    key: bytes | None,
    on_bytes: Callable[[int], None] | None = None,
) -> Opened:
    """Checks one cell file, to its content where that can be opened.

    Args:
        store: Where the array is.
        path: The file, relative to the array.
        layout: What it must hold.
        key: The array's key, if its cells are encrypted.
        on_bytes: Called with the bytes of each tile that was checked.

    Raises:
        BadFileError: It is damaged; the error has the byte.
        StorageError: The storage failed.
    """
    ends = _tile_ends(layout, path)
    window = _Window(store, path, layout.tiles.file.size)
    stopped = None
    start = 0
    for number, end in enumerate(ends):
        content = _Content(layout, number)
        for at, chunk in _chunks(window, start, end, layout.tile_size(number), path):
            if isinstance(chunk, str):
                stopped = chunk
                continue
            try:
                undone = undo(layout.pipeline, chunk, path, key)
            except (BadFileError, WrongKeyError) as error:
                raise BadFileError(path, error.problem, at) from error
            if undone.stopped_at is not None:
                stopped = stopped or f"the filter {undone.stopped_at} is not known here"
            else:
                content.add(undone.data, undone.lengths, at, path)
        if stopped is None:
            content.end(start, path)
        if on_bytes is not None:
            on_bytes(end - start)
        start = end
    return Opened(stopped)


def _tile_ends(layout: Layout, path: str) -> list[int]:
    """Where each tile ends: offsets must rise from 0 on, and leave room for each tile."""
    offsets, size = layout.tiles.offsets.array, layout.tiles.file.size
    if len(offsets) != layout.num_tiles:
        problem = f"expected the starts of {layout.num_tiles} tiles in the metadata"
        raise BadFileError(path, f"{problem}, found {len(offsets)}")
    sizes = layout.tiles.var_sizes
    if sizes is not None and len(sizes) != layout.num_tiles:
        problem = f"expected the sizes of {layout.num_tiles} tiles in the metadata"
        raise BadFileError(path, f"{problem}, found {len(sizes)}")
    starts = offsets.tolist()
    if starts and starts[0]:
        raise BadFileError(path, f"expected its first tile at byte 0, found it at {starts[0]}")
    ends = [*starts[1:], size]
    for number, (start, end) in enumerate(zip(starts, ends, strict=True)):
        if end < start + _COUNT.size:
            problem = f"expected tile {number} to end before byte {size}"
            raise BadFileError(path, f"{problem}, found it from {start} to {end}", min(start, size))
        if end > size:
            raise BadFileError(path, f"expected tile {number + 1} inside of it, found {end}", size)
    return ends


def _chunks(
    window: _Window, start: int, end: int, size: int, path: str
) -> Iterator[tuple[int, Chunk | str]]:
    """The chunks of one tile, each with its byte; a text in place of one that is too large."""
    (count,) = _COUNT.unpack(window.read(start, _COUNT.size))
    at, left = start + _COUNT.size, size
    if count > (end - at) // _CHUNK.size:
        problem = f"expected at most {(end - at) // _CHUNK.size} chunks in a tile"
        raise BadFileError(path, f"{problem} of {end - start} bytes, found {count}", start)
    for _ in range(count):
        if at + _CHUNK.size > end:
            raise BadFileError(path, f"expected a chunk of {_CHUNK.size} bytes, found the end", at)
        original, filtered, metadata = _CHUNK.unpack(window.read(at, _CHUNK.size))
        body = at + _CHUNK.size
        if filtered + metadata > end - body:
            problem = f"expected a chunk that ends in its tile, at byte {end}"
            raise BadFileError(path, f"{problem}, found {body + filtered + metadata}", at)
        if original > left:
            problem = f"expected a tile of {size} bytes in its chunks"
            raise BadFileError(path, f"{problem}, found {size - left + original} or more", at)
        left -= original
        if max(original, filtered + metadata) > CEILING:
            yield at, f"a chunk of {max(original, filtered + metadata)} bytes"
        else:
            head = window.read(body, metadata)
            yield at, Chunk(original, head, window.read(body + metadata, filtered))
        at = body + metadata + filtered
    if at != end:
        raise BadFileError(path, f"expected a tile that ends at byte {end}, found its end", at)
    if left:
        problem = f"expected a tile of {size} bytes in its chunks, found {size - left}"
        raise BadFileError(path, problem, start)


class _Content:
    """What a tile must hold, whatever its values are."""

    def __init__(self, layout: Layout, number: int) -> None:
        self.layout, self.number = layout, number
        self.part = layout.tiles.file.part
        self.is_offsets = self.part == "offsets" and not layout.is_empty
        self.last, self.nulls, self.sum, self.magnitude = 0, 0, 0, 0.0
        self.is_first = True

    def add(self, data: bytes, lengths: int | None, at: int, path: str) -> None:
        """Looks at the content of one chunk."""
        if lengths is not None and lengths != self.layout.cells(self.number):
            problem = f"expected {self.layout.cells(self.number)} texts in a tile"
            raise BadFileError(path, f"{problem}, found {lengths}", at)
        if self.is_offsets:
            self._add_offsets(data, at, path)
        elif self.part == "validity":
            self.nulls += data.count(0)
        elif self.layout.tiles.sums is not None:
            datatype = self.layout.pipeline.datatype
            values = np.frombuffer(data, f"<{datatype.code}", len(data) // datatype.size)
            self.magnitude += float(np.abs(values.astype(np.float64)).sum())
            self.sum += int(values.astype(np.int64).sum())

    def _add_offsets(self, data: bytes, at: int, path: str) -> None:
        values = np.frombuffer(data, "<u8", len(data) // 8)
        if not len(values):
            return
        sizes = self.layout.tiles.var_sizes
        end = sizes[self.number] if sizes is not None else 0
        first, last = int(values[0]), int(values[-1])
        if (
            (self.is_first and first)
            or first < self.last
            or last > end
            or bool((values[1:] < values[:-1]).any())
        ):
            problem = f"expected offsets of cells that rise from {self.last} to {end} at most"
            raise BadFileError(path, f"{problem}, found others", at)
        self.is_first, self.last = False, last

    def end(self, at: int, path: str) -> None:
        """Looks at a tile as a whole."""
        counts = self.layout.tiles.null_counts
        if counts is not None and len(counts) == self.layout.num_tiles:
            expected = counts[self.number]
            if expected != self.nulls:
                problem = f"expected {expected} cells without a value in a tile"
                raise BadFileError(path, f"{problem}, found {self.nulls}", at)
        sums = self.layout.tiles.sums
        # The engine keeps no sum that leaves 64 bits on its way.
        is_kept = sums is not None and len(sums) == self.layout.num_tiles
        if sums is not None and is_kept and self.magnitude < 1 << 62:
            expected = sums[self.number]
            if (self.sum - expected) % (1 << 64):
                problem = f"expected values that add up to {expected}, modulo 2^64, in a tile"
                raise BadFileError(path, f"{problem}, found {self.sum}", at)


class _Window:
    """A file of which one block is in memory."""

    def __init__(self, store: Store, path: str, size: int) -> None:
        self._store, self._path, self._size = store, path, size
        self._start, self._data = 0, b""

    def read(self, start: int, length: int) -> bytes:
        """Bytes of the file; the caller stays inside of it."""
        if not length:
            return b""
        if not self._start <= start or start + length > self._start + len(self._data):
            end = min(max(start + length, start + _BLOCK), self._size)
            found = self._store.read_range(self._path, start, end, size=self._size)
            if len(found) != end - start:
                problem = f"expected {end - start} bytes, found {len(found)}"
                raise BadFileError(self._path, problem, start)
            self._start, self._data = start, found
        offset = start - self._start
        return self._data[offset : offset + length]
