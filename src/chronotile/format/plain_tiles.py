"""Tiles of GZIP chunks, as nearly all are: opened without the generated parser.

In: the bytes of a tile. Out: its payload; or, of one that was cut short, what stands before the
cut. Gives up, with None, on any other tile: `tiles` opens those. The generated parser takes some 20
times as long; the tests compare the answers of both.
"""

from __future__ import annotations

import io
import struct
from typing import NamedTuple, TypeAlias

from zlib_ng import zlib_ng as zlib

from chronotile.format.decompress import ZlibError, inflate

_GZIP = 1
# The bytes that are always the same, and where the others are.
_PLAIN = struct.Struct("<IQQBQ")
_CHUNKS = struct.Struct("<Q")
_CHUNK = struct.Struct("<II12sII")
_LEN_HEAD, _LEN_PLAIN = 52, 60
_PLAIN_HEAD = struct.pack("<BI", 0, 18)
_PLAIN_FILTER = struct.pack("<IBIB", 1, _GZIP, 5, 1)
_ONE_PART = struct.pack("<III", 16, 0, 1)

_Chunk: TypeAlias = tuple[int, int, int]
"""Start and end of a chunk's stream, and the size of what it holds."""


class PlainTile(NamedTuple):
    """A tile of GZIP chunks, opened."""

    version: int
    datatype: int
    cell_size: int
    payload: bytes


def open_plain(data: bytes, where: str, ceiling: int) -> PlainTile | None:
    """Opens a tile; None if it is of another kind.

    Args:
        data: The whole tile, and nothing behind it.
        where: The file's name, for errors.
        ceiling: Most payload bytes to take memory for.

    Raises:
        BadFileError: A chunk is damaged.
    """
    if not _is_plain(data):
        return None
    version, persisted, size, datatype, cell_size = _PLAIN.unpack_from(data)
    if persisted != len(data) - _LEN_HEAD or size > ceiling:
        return None
    parts = _chunks(data, size)
    if parts is None:
        return None
    return PlainTile(version, datatype, cell_size, _inflated(data, parts, where))


def _is_plain(data: bytes) -> bool:
    has_head = len(data) >= _LEN_PLAIN and data[29:34] == _PLAIN_HEAD
    return has_head and data[38:48] == _PLAIN_FILTER


def _inflated(data: bytes, parts: list[_Chunk], where: str) -> bytes:
    """All chunks together; beside the whole, one of them is in memory at a time.

    A second thread was tried: a chunk is opened in less time than a core takes to wake up.
    """
    if len(parts) == 1:
        ((start, end, original),) = parts
        return inflate(data[start:end], original, where)
    whole = io.BytesIO()
    for start, end, original in parts:
        whole.write(inflate(data[start:end], original, where))
    return whole.getvalue()


def _chunks(data: bytes, size: int) -> list[_Chunk] | None:
    """Start, end and original size of each chunk's stream; None unless all chunks are plain."""
    (count,) = _CHUNKS.unpack_from(data, _LEN_PLAIN - _CHUNKS.size)
    at, found = _LEN_PLAIN, []
    if count > (len(data) - at) // _CHUNK.size:
        return None
    for _ in range(count):
        start = at + _CHUNK.size
        if start > len(data):
            return None
        original, length, part, *again = _CHUNK.unpack_from(data, at)
        at = start + length
        if part != _ONE_PART or again != [original, length] or at > len(data):
            return None
        found.append((start, at, original))
        size -= original
    return found if size == 0 and at == len(data) else None


def readable_start(data: bytes, ceiling: int = 256 << 20) -> bytes:
    """What can be read of a tile that was cut short; nothing if it is damaged in another way.

    What stands before a cut is as it was written. Only tiles of GZIP chunks are looked at.

    >>> from chronotile.format import tiles
    >>> data = tiles.encode(bytes(range(200)) * 1000, version=22)
    >>> start = readable_start(data[: len(data) // 2])
    >>> 0 < len(start) < 200_000, start == (bytes(range(200)) * 1000)[: len(start)]
    (True, True)
    """
    if not _is_plain(data) or _PLAIN.unpack_from(data)[1] <= len(data) - _LEN_HEAD:
        return b""
    out, at = bytearray(), _LEN_PLAIN
    while at + _CHUNK.size <= len(data):
        original, length, part, *again = _CHUNK.unpack_from(data, at)
        if part != _ONE_PART or again != [original, length]:
            return b""
        if not original or len(out) + original > ceiling:
            return b""
        at += _CHUNK.size
        inflater = zlib.decompressobj()
        try:
            text = inflater.decompress(data[at : at + length], original)
        except ZlibError:
            return b""
        at += length
        if at <= len(data) and len(text) != original:
            return b""
        out += text
    return bytes(out)
