"""Compressors of cell files: bytes to the bytes that they were made from.

In: one compressed part, and the size that it must have after. Out: that many bytes, or
`BadFileError`. Knows nothing of chunks and of where sizes are stored; the caller bounds them.

GZIP is a zlib stream here, which zlib-ng opens in a third of zlib's time. ZSTD and LZ4 are those of
Arrow, which the package needs anyway. RLE holds runs of cells; RLE and dictionaries of texts that
vary in length hold the lengths too, as big numbers first.
"""

from __future__ import annotations

import bz2
import struct
from functools import cache
from typing import Any

import numpy as np
from zlib_ng import zlib_ng as zlib

from chronotile.errors import BadFileError

COMPRESSORS = frozenset(("gzip", "zstd", "lz4", "rle", "bzip2"))
ZlibError: type[Exception] = zlib.error  # type: ignore[assignment]  # its stub has an instance
_HEAD = struct.Struct("<IIIIIBB")
_WIDTHS = (1, 2, 4, 8)


def decompress(kind: str, data: bytes, size: int, cell_size: int, where: str) -> bytes:
    """Decompresses one part.

    Args:
        kind: Of `COMPRESSORS`.
        data: The part.
        size: Bytes that it must have after.
        cell_size: Bytes of a cell, for RLE.
        where: The file, for errors.

    Raises:
        BadFileError: It is damaged, or of another size.

    >>> decompress("gzip", zlib.compress(b"abc"), 3, 1, "a0.tdb")
    b'abc'
    """
    if not data and not size:
        return b""
    if kind == "gzip":
        return inflate(data, size, where)
    if kind == "bzip2":
        return _bunzip(data, size, where)
    if kind == "rle":
        return _runs(data, size, cell_size, where)
    return _arrow(kind, data, size, where)


def inflate(data: bytes, size: int, where: str) -> bytes:
    """Opens a zlib stream.

    Raises:
        BadFileError: It is damaged, or of another size.
    """
    inflater = zlib.decompressobj()
    try:
        # One byte more than the stated size is enough to catch a stream that is longer.
        out = inflater.decompress(data, size + 1)
        if not inflater.eof and len(out) <= size:
            out += inflater.decompress(inflater.unconsumed_tail, size + 1 - len(out))
    except ZlibError as cause:
        raise BadFileError(where, f"expected a zlib stream, found {cause}") from cause
    if len(out) != size or not inflater.eof or inflater.unused_data:
        kind = "more" if len(out) > size or inflater.unused_data else f"{len(out)}"
        raise BadFileError(where, f"expected a zlib stream of {size} bytes, found {kind}")
    return out


def _bunzip(data: bytes, size: int, where: str) -> bytes:
    opener = bz2.BZ2Decompressor()
    try:
        out = opener.decompress(data, size + 1)
        while not opener.eof and not opener.needs_input and len(out) <= size:
            out += opener.decompress(b"", size + 1 - len(out))
    except (OSError, ValueError) as cause:
        raise BadFileError(where, f"expected a bzip2 stream, found {cause}") from cause
    if len(out) != size or not opener.eof or opener.unused_data:
        problem = f"expected a bzip2 stream of {size} bytes, found {len(out)} or more"
        raise BadFileError(where, problem)
    return out


@cache
def _codec(kind: str) -> Any:
    import pyarrow as pa

    return pa.Codec("lz4_raw" if kind == "lz4" else kind)


def _arrow(kind: str, data: bytes, size: int, where: str) -> bytes:
    codec = _codec(kind)
    try:
        out = codec.decompress(data, decompressed_size=size, asbytes=True)
    except OSError as cause:
        problem = f"expected a {kind} block of {size} bytes, found {cause}"
        raise BadFileError(where, problem) from cause
    if kind == "lz4" and size:
        # Arrow fills up a block that is shorter: one that also fits into less is.
        try:
            codec.decompress(data, decompressed_size=size - 1, asbytes=True)
        except OSError:
            return bytes(out)
        raise BadFileError(where, f"expected a {kind} block of {size} bytes, found fewer")
    return bytes(out)


def _runs(data: bytes, size: int, cell_size: int, where: str) -> bytes:
    """RLE: each run is a cell, and how often it stands there, in two bytes, the larger first."""
    width = cell_size + 2
    if len(data) % width:
        problem = f"expected runs of {width} bytes each, found {len(data)} bytes"
        raise BadFileError(where, problem)
    runs = np.frombuffer(data, np.uint8).reshape(-1, width)
    counts = runs[:, cell_size].astype(np.int64) * 256 + runs[:, cell_size + 1]
    found = int(counts.sum()) * cell_size
    if found != size:
        raise BadFileError(where, f"expected runs of {size} bytes in all, found {found}")
    return np.repeat(runs[:, :cell_size], counts, axis=0).tobytes()


def split_texts(
    kind: str, metadata: bytes, data: bytes, most: int, where: str
) -> tuple[bytes, int]:
    """Decompresses texts that vary in length; gives them in a row, and their number.

    Args:
        kind: `rle` or `dictionary`.
        metadata: Sizes, and the dictionary.
        data: Runs of texts, or indices into the dictionary.
        most: Most bytes to take memory for.
        where: The file, for errors.

    Raises:
        BadFileError: They are damaged.
    """
    if len(metadata) < _HEAD.size:
        raise BadFileError(where, f"expected sizes in {_HEAD.size} bytes, found {len(metadata)}")
    *parts, size, stored, offsets, first, second = _HEAD.unpack_from(metadata)
    if parts != [0, 1]:
        raise BadFileError(where, f"expected no part of metadata and 1 of data, found {parts}")
    if first not in _WIDTHS or second not in _WIDTHS:
        problem = f"expected numbers of 1, 2, 4 or 8 bytes, found {first} and {second}"
        raise BadFileError(where, problem)
    if stored != len(data):
        raise BadFileError(where, f"expected {stored} compressed bytes, found {len(data)}")
    if size > most:
        raise BadFileError(where, f"expected a chunk of at most {most} bytes, found {size}")
    out: list[bytes] = []
    if kind == "rle":
        count = _text_runs(data, first, second, size, out, where)
    else:
        words = _words(metadata[_HEAD.size :], second, where)
        count = _indexed(data, first, words, size, out, where)
    if 8 * count != offsets:
        raise BadFileError(where, f"expected {offsets // 8} texts, found {count}")
    found = b"".join(out)
    if len(found) != size:
        raise BadFileError(where, f"expected texts of {size} bytes in all, found {len(found)}")
    return found, count


def _text_runs(
    data: bytes, run_width: int, len_width: int, size: int, out: list[bytes], where: str
) -> int:
    at, count, total = 0, 0, 0
    while at < len(data):
        start = at + run_width + len_width
        repeat = int.from_bytes(data[at : at + run_width], "big")
        length = int.from_bytes(data[at + run_width : start], "big")
        if start + length > len(data):
            raise BadFileError(where, f"expected a text of {length} bytes, found its end")
        total += repeat * length
        if total > size:
            raise BadFileError(where, f"expected texts of {size} bytes in all, found {total}")
        if length:
            out.append(data[start : start + length] * repeat)
        count += repeat
        at = start + length
    return count


def _words(data: bytes, len_width: int, where: str) -> list[bytes]:
    """The texts of a dictionary, behind its own size."""
    (size,) = struct.unpack_from("<I", data) if len(data) >= 4 else (-1,)
    if size != len(data) - 4:
        raise BadFileError(where, f"expected a dictionary of {size} bytes, found {len(data) - 4}")
    at, words = 4, []
    while at < len(data):
        start = at + len_width
        length = int.from_bytes(data[at:start], "big")
        if start + length > len(data):
            raise BadFileError(where, f"expected a text of {length} bytes, found its end")
        words.append(data[start : start + length])
        at = start + length
    return words


def _indexed(
    data: bytes, width: int, words: list[bytes], size: int, out: list[bytes], where: str
) -> int:
    if len(data) % width:
        raise BadFileError(where, f"expected indices of {width} bytes, found {len(data)} bytes")
    indices = np.frombuffer(data, f">u{width}")
    if len(indices) and int(indices.max()) >= len(words):
        problem = f"expected indices of {len(words)} texts, found {int(indices.max())}"
        raise BadFileError(where, problem)
    lengths = np.array([len(word) for word in words], np.int64)
    total = int(lengths[indices.astype(np.int64)].sum()) if len(indices) else 0
    if total != size:
        raise BadFileError(where, f"expected texts of {size} bytes in all, found {total}")
    out.extend(words[index] for index in indices.tolist())
    return len(indices)
