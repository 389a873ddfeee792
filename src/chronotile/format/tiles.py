"""Generic tiles: the envelope of deletes, updates, schemas, enumerations and metadata.

In: the bytes of a tile, or a payload. Out: the payload, or the bytes of a tile that the engine
reads. Knows filters and encryption; knows nothing of what a payload means.

The generated parser reads the framing. A tile is a header, the filters it went through, and
chunks; each chunk holds at most 64 KiB of the payload, filtered on its own:

    chunk = original, filtered and metadata length (u32 each), metadata, filtered bytes

GZIP, which is a zlib stream here, puts into the metadata how long each part is before and
after. AES-256-GCM, which comes last, encrypts the metadata of GZIP as a part of its own and
puts lengths, IV and tag of each part into the metadata. This module checks every size against
every other, and against a ceiling, before it takes memory.
"""

from __future__ import annotations

import io
import os
import struct
import zlib
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

from zlib_ng import zlib_ng

from chronotile.errors import (
    BadFileError,
    KeyNeededError,
    TooLargeError,
    UnsupportedFilterError,
    WrongKeyError,
)
from chronotile.format.datatypes import Datatype
from chronotile.format.decompress import ZlibError, inflate
from chronotile.format.names import NEWEST_VERSION
from chronotile.format.parsers import GenericTileSpec, parse

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


DEFAULT_CEILING = 256 << 20
"""Most payload bytes that a tile may claim, unless the caller says otherwise."""

CHUNK_SIZE = 64 << 10
"""Original bytes in a chunk, as the engine writes it."""

_GZIP = 1
_AES_256_GCM = 11
_HEADER = struct.Struct("<IQQBQBI")
_IV_SIZE, _TAG_SIZE, KEY_SIZE = 12, 16, 32

_DATATYPES = frozenset(map(int, Datatype))


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


def extent(data: bytes | memoryview) -> int | None:
    """The size that a tile's header states, header included; None if there is no whole header.

    The engine reads that many bytes, and passes over any bytes behind them.

    >>> data = encode(b"payload", version=22)
    >>> extent(data + b"more") == len(data)
    True
    """
    if len(data) < _HEADER.size:
        return None
    _, persisted, _, _, _, _, pipeline = _HEADER.unpack_from(data)
    return int(_HEADER.size + pipeline + persisted)


def oddity(data: bytes, newest: int = NEWEST_VERSION) -> str | None:
    """Say what is odd about a tile that the engine reads all the same; None if nothing is.

    Args:
        data: The tile.
        newest: The latest version that its header may have.

    >>> oddity(encode(b"payload", version=22) + b"more")
    '4 bytes behind its end, which the engine passes over'
    """
    size = extent(data)
    if size is None:
        return None
    version, datatype = _HEADER.unpack_from(data)[0], data[20]
    if size < len(data):
        count = len(data) - size
        text = "1 byte" if count == 1 else f"{count} bytes"
        return f"{text} behind its end, which the engine passes over"
    if not 1 <= version <= newest:
        return f"version {version} in its header, which the engine passes over"
    if datatype not in _DATATYPES:
        return f"datatype {datatype} in its header, which the engine passes over"
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
    size = extent(data)
    if size is not None and size < len(data):
        data = data[:size]
    plain = open_plain(data, where, ceiling)
    if plain is None or plain.datatype not in _DATATYPES:
        return _decode_any(data, where, key, ceiling)
    return Tile(
        version=plain.version,
        datatype=Datatype(plain.datatype),
        cell_size=plain.cell_size,
        encrypted=False,
        payload=plain.payload,
    )


def _decode_any(data: bytes, where: str, key: bytes | None, ceiling: int) -> Tile:
    tree = parse(GenericTileSpec, where, data)
    filters = tuple(item.filter_type for item in tree.filter_pipeline.filters)
    _refuse_unknown_filters(tree.filter_pipeline.filters, where)
    encrypted = tree.encryption_type.value != 0
    if encrypted != (_AES_256_GCM in (f.value for f in filters)):
        expected = f"filters that match encryption type {tree.encryption_type.value}"
        raise BadFileError(where, f"expected {expected}, found {[f.name for f in filters]}")
    if encrypted:
        _check_key(key, where)
    total = sum(chunk.len_original for chunk in tree.tile.chunks)
    if total != tree.len_tile:
        problem = f"expected chunks of {tree.len_tile} bytes in all, found {total}"
        raise BadFileError(where, problem)
    if tree.len_tile > ceiling:
        problem = f"expected a tile of at most {ceiling} bytes, found one of {tree.len_tile}"
        raise TooLargeError(where, problem)
    return Tile(
        version=tree.version,
        datatype=Datatype(data[20]) if data[20] in _DATATYPES else None,
        cell_size=tree.len_cell,
        encrypted=encrypted,
        payload=b"".join(_unfilter(chunk, filters, where, key) for chunk in tree.tile.chunks),
    )


def encode(
    payload: bytes,
    *,
    version: int,
    key: bytes | None = None,
    level: int = 1,
    random_bytes: Callable[[int], bytes] = os.urandom,
) -> bytes:
    """Wrap a payload into a tile as the engine writes it.

    Args:
        payload: The bytes to wrap.
        version: The array's format version.
        key: The array's 32-byte AES-256 key, if it is encrypted.
        level: The compression level of zlib.
        random_bytes: Makes the IVs of encryption.

    >>> len(encode(b"", version=22))
    60
    """
    if key is not None:
        _check_key(key, "tile")
    filters = [struct.pack("<BIBi", _GZIP, 5, 1, level)]
    if key is not None:
        filters.append(struct.pack("<BI", _AES_256_GCM, 0))
    pipeline = struct.pack("<II", CHUNK_SIZE, len(filters)) + b"".join(filters)
    chunks = [
        _filter(_deflated(chunk, level, is_alone=chunk is payload), len(chunk), key, random_bytes)
        for chunk in _cut(payload)
    ]
    body = struct.pack("<Q", len(chunks)) + b"".join(chunks)
    sizes = len(body), len(payload)
    header = _HEADER.pack(version, *sizes, Datatype.CHAR, 1, key is not None, len(pipeline))
    return header + pipeline + body


def _refuse_unknown_filters(filters: list[Any], where: str) -> None:
    supported = {(), (_GZIP,), (_GZIP, _AES_256_GCM), (_AES_256_GCM,)}
    if tuple(f.filter_type.value for f in filters) not in supported:
        names = " + ".join(f.filter_type.name for f in filters)
        problem = f"expected no filter, gzip or aes_256_gcm, found {names}"
        raise UnsupportedFilterError(where, problem)
    for item in filters:
        # The engine uses the compressor that the options name, not the filter's type.
        compressor = item.options.compressor if item.filter_type.value == _GZIP else _GZIP
        if compressor != _GZIP:
            problem = f"expected compressor {_GZIP} in a gzip filter, found {compressor}"
            raise BadFileError(where, problem)


def _unfilter(chunk: Any, filters: tuple[Any, ...], where: str, key: bytes | None) -> bytes:
    data, parts, names = chunk.filtered.raw, chunk.metadata, [f.value for f in filters]
    if _AES_256_GCM in names:
        metadata, data = _decrypt(parts, data, where, key)
        if _GZIP in names:
            parts = parse(GenericTileSpec.CompressedParts, where, metadata)
    if _GZIP in names:
        return _inflate(parts, data, chunk.len_original, where)
    if len(data) != chunk.len_original:
        problem = f"expected {chunk.len_original} bytes in a chunk, found {len(data)}"
        raise BadFileError(where, problem)
    return bytes(data)


def _inflate(parts: Any, data: bytes, len_original: int, where: str) -> bytes:
    stated = [(p.len_original, p.len_compressed) for p in parts.data_parts]
    if count := parts.num_metadata_parts:
        raise BadFileError(where, f"expected no compressed metadata, found {count} parts of it")
    if sum(original for original, _ in stated) != len_original:
        problem = f"expected parts of {len_original} bytes in all, found {stated}"
        raise BadFileError(where, problem)
    if sum(compressed for _, compressed in stated) != len(data):
        problem = f"expected compressed parts of {len(data)} bytes in all, found {stated}"
        raise BadFileError(where, problem)
    out, start = [], 0
    for original, compressed in stated:
        out.append(inflate(data[start : start + compressed], original, where))
        start += compressed
    return b"".join(out)


def _decrypt(parts: Any, data: bytes, where: str, key: bytes | None) -> tuple[bytes, bytes]:
    """Decrypt the metadata and the data."""
    stated = [*parts.metadata_parts, *parts.data_parts]
    if sum(part.len_encrypted for part in stated) != len(data):
        problem = f"expected encrypted parts of {len(data)} bytes in all"
        raise BadFileError(where, f"{problem}, found {[p.len_encrypted for p in stated]}")
    if any(part.len_plain != part.len_encrypted for part in stated):
        raise BadFileError(where, "expected parts of the size of the plain ones, found others")
    plain, start = [], 0
    for part in stated:
        plain.append(_decrypt_part(part, data[start : start + part.len_encrypted], where, key))
        start += part.len_encrypted
    split = parts.num_metadata_parts
    return b"".join(plain[:split]), b"".join(plain[split:])


def _decrypt_part(part: Any, data: bytes, where: str, key: bytes | None) -> bytes:
    from cryptography.exceptions import InvalidTag

    try:
        return bytes(cipher(key, where).decrypt(part.iv, data + part.tag, None))
    except InvalidTag as cause:
        problem = "expected the key that it was encrypted with, found another (or damaged bytes)"
        raise WrongKeyError(where, problem) from cause


def _cut(payload: bytes) -> list[bytes]:
    """A payload in chunks; a small one is its own only chunk."""
    if 0 < len(payload) <= CHUNK_SIZE:
        return [payload]
    return [payload[at : at + CHUNK_SIZE] for at in range(0, len(payload), CHUNK_SIZE)]


def _deflated(chunk: bytes, level: int, *, is_alone: bool) -> bytes:
    """A chunk as a zlib stream.

    One that is a whole tile, such as a delete, is what the engine itself would write. One of many
    is made by zlib-ng, in a third of the time; its level 2 packs as well as level 1 of zlib.
    """
    return zlib.compress(chunk, level) if is_alone else zlib_ng.compress(chunk, max(level, 2))


def _filter(
    data: bytes, len_original: int, key: bytes | None, random_bytes: Callable[[int], bytes]
) -> bytes:
    """A compressed chunk with its lengths, encrypted if there is a key."""
    metadata = struct.pack("<IIII", 0, 1, len_original, len(data))
    if key is not None:
        metadata, data = _encrypt(metadata, data, key, random_bytes)
    return struct.pack("<III", len_original, len(data), len(metadata)) + metadata + data


def _encrypt(
    metadata: bytes, data: bytes, key: bytes, random_bytes: Callable[[int], bytes]
) -> tuple[bytes, bytes]:
    opened = cipher(key, "tile")

    def sealed() -> Iterator[tuple[bytes, bytes]]:
        for part in (metadata, data):
            iv = random_bytes(_IV_SIZE)
            out = opened.encrypt(iv, part, None)
            lengths = struct.pack("<II", len(part), len(part))
            yield lengths + iv + out[-_TAG_SIZE:], out[:-_TAG_SIZE]

    heads, bodies = zip(*sealed(), strict=True)
    return struct.pack("<II", 1, 1) + b"".join(heads), b"".join(bodies)


def cipher(key: bytes | None, where: str) -> Any:
    """What opens and seals with the array's key.

    Raises:
        KeyNeededError: There is no key, or no package that can use it.
        WrongKeyError: It is of another length.
    """
    from cryptography.hazmat.primitives.ciphers.aead import AESGCM

    return AESGCM(_check_key(key, where))


def _check_key(key: bytes | None, where: str) -> bytes:
    if key is None:
        problem = "expected the array's key, as the tile is encrypted; found none"
        raise KeyNeededError(where, problem)
    if len(key) != KEY_SIZE:
        raise WrongKeyError(where, f"expected a key of {KEY_SIZE} bytes, found {len(key)}")
    try:
        import cryptography  # noqa: F401  (an extra: only encrypted arrays need it)
    except ImportError as cause:
        problem = "expected the package cryptography (pip install 'chronotile[crypto]'), found none"
        raise KeyNeededError(where, problem) from cause
    return key


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
        inflater = zlib_ng.decompressobj()
        try:
            text = inflater.decompress(data[at : at + length], original)
        except ZlibError:
            return b""
        at += length
        if at <= len(data) and len(text) != original:
            return b""
        out += text
    return bytes(out)
