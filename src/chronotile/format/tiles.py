"""Generic tiles: the envelope of deletes, updates, schemas, enumerations and metadata.

In: the bytes of a tile, or a payload. Out: the payload, or the bytes of a tile that the engine
reads. Does not look into a payload.

A tile is a header, the filters it went through, and chunks; each chunk holds at most 64 KiB of the
payload, filtered on its own:

    chunk = original, filtered and metadata length (u32 each), metadata, filtered bytes

Nearly all tiles are plain: GZIP is their only filter, and each chunk is one zlib stream. They are
opened here without the generated parser, which takes some 20 times as long; the tests compare the
answers of both. The generated parser reads the framing of any other tile, and `filters` undoes its
chunks. Every size is checked against every other, and against a ceiling, before memory is taken.
"""

from __future__ import annotations

import io
import os
import struct
import zlib
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

from zlib_ng import zlib_ng

from chronotile.errors import BadFileError, TooLargeError, UnsupportedFilterError
from chronotile.format.datatypes import Datatype
from chronotile.format.decompress import ZlibError, inflate
from chronotile.format.filters import Chunk, Pipeline, check_key, cipher, read_filters, undo
from chronotile.format.names import NEWEST_VERSION
from chronotile.format.parsers import GenericTileSpec, parse

if TYPE_CHECKING:
    from collections.abc import Iterator

DEFAULT_CEILING = 256 << 20
"""Most payload bytes that a tile may claim, unless the caller says otherwise."""

CHUNK_SIZE = 64 << 10
"""Original bytes in a chunk, as the engine writes it."""

_GZIP, _AES_256_GCM = 1, 11
_LEVEL = 1
"""The level of compression, which the engine takes too."""
_SUPPORTED = {(), ("gzip",), ("gzip", "aes_256_gcm"), ("aes_256_gcm",)}
_HEADER = struct.Struct("<IQQBQBI")
LEN_HEADER = _HEADER.size
"""Bytes at the start of a tile that tell its size."""
_IV_SIZE, _TAG_SIZE = 12, 16
_DATATYPES = {int(datatype): datatype for datatype in Datatype}

# Of a plain tile: the bytes that are always the same, and where the others are.
_PLAIN = struct.Struct("<IQQBQ")
_CHUNKS = struct.Struct("<Q")
_CHUNK = struct.Struct("<II12sII")
_LEN_HEAD, _LEN_PLAIN = 52, 60
_PLAIN_HEAD = struct.pack("<BI", 0, 18)
_PLAIN_FILTER = struct.pack("<IBIB", 1, _GZIP, 5, 1)
_ONE_PART = struct.pack("<III", 16, 0, 1)

_Stream: TypeAlias = tuple[int, int, int]
"""Start and end of a chunk's zlib stream, and the size of its content."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Tile:
    """A generic tile, opened."""

    version: int
    """Format version of the library that wrote it."""
    datatype: Datatype | None
    """None where the number is unknown: the engine passes over it."""
    cell_size: int
    encrypted: bool
    payload: bytes


class Header(NamedTuple):
    """The header of a tile."""

    version: int
    persisted: int
    """Bytes of the chunks."""
    size: int
    """Bytes of the payload."""
    datatype: int
    cell_size: int
    encryption: int
    pipeline: int
    """Bytes of the filters."""

    @property
    def extent(self) -> int:
        """Bytes of the whole tile, the header included."""
        return _HEADER.size + self.pipeline + self.persisted


def read_header(data: bytes | memoryview, at: int = 0) -> Header | None:
    """Read the header of a tile that starts at a byte; None if there is no whole header.

    The engine reads as many bytes as it states, and passes over any bytes behind them.
    """
    return Header(*_HEADER.unpack_from(data, at)) if len(data) - at >= _HEADER.size else None


def open_at(
    data: bytes,
    at: int,
    where: str,
    *,
    key: bytes | None = None,
    ceiling: int = DEFAULT_CEILING,
    base: int = 0,
) -> bytes:
    """Open the tile that starts at a byte before a footer, as `decode` does; give its payload.

    `base` is where in the file the data starts, for errors.

    >>> open_at(b"..." + encode(b"payload", version=22), 3, "a.tdb")
    b'payload'
    """
    header = read_header(data, at)
    if header is None or header.extent > len(data) - at:
        raise BadFileError(where, "expected a tile before the footer, found none", base + at)
    return decode(data[at : at + header.extent], where, key=key, ceiling=ceiling).payload


def oddity(data: bytes, newest: int = NEWEST_VERSION) -> str | None:
    """Say what is odd about a tile that the engine reads all the same; None if nothing is.

    Args:
        data: The tile.
        newest: The latest version that its header may have.

    >>> oddity(encode(b"payload", version=22) + b"more")
    '4 bytes behind its end, which TileDB passes over'
    """
    header = read_header(data)
    if header is None:
        return None
    count = len(data) - header.extent
    if count > 0:
        text = "1 byte" if count == 1 else f"{count} bytes"
        return f"{text} behind its end, which TileDB passes over"
    if not 1 <= header.version <= newest:
        return f"version {header.version} in its header, which TileDB passes over"
    if header.datatype not in _DATATYPES:
        return f"datatype {header.datatype} in its header, which TileDB passes over"
    return None


def decode(
    data: bytes, where: str, *, key: bytes | None = None, ceiling: int = DEFAULT_CEILING
) -> Tile:
    """Open a tile.

    Args:
        data: The whole tile, from its header on. Bytes behind it are passed over.
        where: The file's name, for errors.
        key: The array's 32-byte AES-256 key, if it is encrypted.
        ceiling: Most payload bytes to take memory for.

    Raises:
        BadFileError: It is damaged; `TooLargeError` if it is over the ceiling,
            `UnsupportedFilterError` if this package does not have its filter.
        KeyNeededError: It is encrypted, and there is no key.
        WrongKeyError: It is encrypted, and the key does not open it.

    >>> decode(encode(b"payload", version=22), "a.del").payload
    b'payload'
    """
    if len(data) >= _HEADER.size:
        _, persisted, _, _, _, _, pipeline = _HEADER.unpack_from(data)
        data = data[: _HEADER.size + pipeline + persisted]
    return _decode_plain(data, where, ceiling) or _decode_any(data, where, key, ceiling)


def _decode_any(data: bytes, where: str, key: bytes | None, ceiling: int) -> Tile:
    tree = parse(GenericTileSpec, where, data)
    kinds = tuple(item.filter_type.name for item in tree.filter_pipeline.filters)
    if kinds not in _SUPPORTED:
        problem = f"expected no filter, gzip or aes_256_gcm, found {' + '.join(kinds)}"
        raise UnsupportedFilterError(where, problem)
    filters = read_filters(tree.filter_pipeline)
    if kinds != tuple(one.kind for one in filters):
        raise BadFileError(where, f"expected the compressor of gzip, found {filters[0].kind}")
    encrypted = tree.encryption_type.value != 0
    if encrypted != ("aes_256_gcm" in kinds):
        expected = f"filters that match encryption type {tree.encryption_type.value}"
        raise BadFileError(where, f"expected {expected}, found {[*kinds]}")
    if encrypted:
        check_key(key, where)
    total = sum(chunk.len_original for chunk in tree.tile.chunks)
    if total != tree.len_tile:
        problem = f"expected chunks of {tree.len_tile} bytes in all, found {total}"
        raise BadFileError(where, problem)
    if tree.len_tile > ceiling:
        problem = f"expected a tile of at most {ceiling} bytes, found one of {tree.len_tile}"
        raise TooLargeError(where, problem)
    pipeline = Pipeline(filters=filters, datatype=Datatype.CHAR, cell_size=1, version=tree.version)
    chunks = (
        Chunk(chunk.len_original, chunk._raw_metadata, chunk.filtered.raw)
        for chunk in tree.tile.chunks
    )
    return Tile(
        version=tree.version,
        datatype=_DATATYPES.get(data[20]),
        cell_size=tree.len_cell,
        encrypted=encrypted,
        payload=b"".join(undo(pipeline, chunk, where, key).data for chunk in chunks),
    )


def _decode_plain(data: bytes, where: str, ceiling: int) -> Tile | None:
    """Open a plain tile; None if it is of another kind."""
    if not _is_plain(data):
        return None
    version, persisted, size, datatype, cell_size = _PLAIN.unpack_from(data)
    if persisted != len(data) - _LEN_HEAD or size > ceiling:
        return None
    streams = _streams(data, size)
    if streams is None:
        return None
    return Tile(
        version=version,
        datatype=_DATATYPES.get(datatype),
        cell_size=cell_size,
        encrypted=False,
        payload=_inflated(data, streams, where),
    )


def _is_plain(data: bytes) -> bool:
    has_head = len(data) >= _LEN_PLAIN and data[29:34] == _PLAIN_HEAD
    return has_head and data[38:48] == _PLAIN_FILTER


def _streams(data: bytes, size: int) -> list[_Stream] | None:
    """Find the zlib stream of each chunk; None unless all chunks are plain."""
    (count,) = _CHUNKS.unpack_from(data, _LEN_PLAIN - _CHUNKS.size)
    at, streams = _LEN_PLAIN, []
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
        streams.append((start, at, original))
        size -= original
    return streams if size == 0 and at == len(data) else None


def _inflated(data: bytes, streams: list[_Stream], where: str) -> bytes:
    """Inflate all chunks; beside the whole, one of them is in memory at a time."""
    if len(streams) == 1:
        ((start, end, original),) = streams
        return inflate(data[start:end], original, where)
    whole = io.BytesIO()
    for start, end, original in streams:
        whole.write(inflate(data[start:end], original, where))
    return whole.getvalue()


def readable_start(data: bytes) -> bytes:
    """Read the payload of a plain tile up to the byte at which it was cut short.

    Bytes before a cut are as they were written. Nothing is read of a tile that is damaged in
    another way.

    >>> data = encode(bytes(range(200)) * 1000, version=22)
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
        if not original or len(out) + original > DEFAULT_CEILING:
            return b""
        at += _CHUNK.size
        try:
            text = zlib_ng.decompressobj().decompress(data[at : at + length], original)
        except ZlibError:
            return b""
        at += length
        if at <= len(data) and len(text) != original:
            return b""
        out += text
    return bytes(out)


def encode(payload: bytes, *, version: int, key: bytes | None = None) -> bytes:
    """Wrap a payload into a tile of an array's format version, as the engine writes it.

    >>> len(encode(b"", version=22))
    60
    """
    filters = [struct.pack("<BIBi", _GZIP, 5, 1, _LEVEL)]
    if key is not None:
        check_key(key, "tile")
        filters.append(struct.pack("<BI", _AES_256_GCM, 0))
    pipeline = struct.pack("<II", CHUNK_SIZE, len(filters)) + b"".join(filters)
    starts = range(0, len(payload), CHUNK_SIZE)
    chunks = [_chunk(payload[at : at + CHUNK_SIZE], len(starts) == 1, key) for at in starts]
    body = struct.pack("<Q", len(chunks)) + b"".join(chunks)
    sizes = len(body), len(payload)
    header = _HEADER.pack(version, *sizes, Datatype.CHAR, 1, key is not None, len(pipeline))
    return header + pipeline + body


def _chunk(chunk: bytes, is_alone: bool, key: bytes | None) -> bytes:
    """Compress a chunk, and encrypt it if there is a key.

    A chunk that is a whole tile, such as a delete, is compressed as the engine itself does. One of
    many is made by zlib-ng, in a third of the time; its level 2 packs as well as level 1 of zlib.
    """
    data = zlib.compress(chunk, _LEVEL) if is_alone else zlib_ng.compress(chunk, _LEVEL + 1)
    metadata = struct.pack("<IIII", 0, 1, len(chunk), len(data))
    if key is not None:
        metadata, data = _encrypt(metadata, data, key)
    return struct.pack("<III", len(chunk), len(data), len(metadata)) + metadata + data


def _encrypt(metadata: bytes, data: bytes, key: bytes) -> tuple[bytes, bytes]:
    opened = cipher(key, "tile")

    def sealed() -> Iterator[tuple[bytes, bytes]]:
        for part in (metadata, data):
            iv = os.urandom(_IV_SIZE)
            out = opened.encrypt(iv, part, None)
            lengths = struct.pack("<II", len(part), len(part))
            yield lengths + iv + out[-_TAG_SIZE:], out[:-_TAG_SIZE]

    heads, bodies = zip(*sealed(), strict=True)
    return struct.pack("<II", 1, 1) + b"".join(heads), b"".join(bodies)
