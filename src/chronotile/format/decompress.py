"""Compressors of cell files: bytes to the bytes that they were made from.

In: one compressed part, and the size that it must have after. Out: that many bytes, or
`BadFileError`. Knows nothing of chunks and of where sizes are stored; the caller bounds them.

GZIP is a zlib stream here, which zlib-ng opens in a third of zlib's time. ZSTD and LZ4 are those of
Arrow, which the package needs anyway. RLE holds runs of cells, a delta the differences of numbers.
RLE and dictionaries of texts that vary in length hold the lengths too, as big numbers first.
"""

from __future__ import annotations

import bz2
import struct
from functools import cache
from typing import Any

import numpy as np
from zlib_ng import zlib_ng as zlib

from chronotile.errors import BadFileError

DELTAS = ("delta", "double_delta")
COMPRESSORS = frozenset(("gzip", "zstd", "lz4", "rle", "bzip2", *DELTAS))
ZlibError: type[Exception] = zlib.error  # type: ignore[assignment]  # its stub has an instance
_HEAD = struct.Struct("<IIIIIBB")
_WIDTHS = (1, 2, 4, 8)
_DAMAGED = "its content cannot be unpacked (damaged)"
_AT_ONCE = 1 << 16
"""Values whose bits are unpacked at once; a multiple of 64, so that a word is in one block."""


def decompress(kind: str, data: bytes, size: int, width: int, where: str) -> bytes:
    """Decompress one part.

    It must have `size` bytes after. `width` is the bytes of a cell, for RLE, or of a number, for
    deltas.

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
        return _runs(data, size, width, where)
    if kind in DELTAS:
        return (_delta if kind == "delta" else _double_delta)(data, size, width, where)
    return _arrow(kind, data, size, where)


def inflate(data: bytes, size: int, where: str) -> bytes:
    """Open a zlib stream."""
    inflater = zlib.decompressobj()
    try:
        # One byte more than the stated size is enough to catch a stream that is longer.
        out = inflater.decompress(data, size + 1)
        if not inflater.eof and len(out) <= size:
            out += inflater.decompress(inflater.unconsumed_tail, size + 1 - len(out))
    except ZlibError as cause:
        raise BadFileError(where, _DAMAGED) from cause
    if len(out) != size or not inflater.eof or inflater.unused_data:
        kind = "more" if len(out) > size or inflater.unused_data else f"{len(out)}"
        raise BadFileError(
            where, f"expected a zlib stream that unpacks to {size} bytes, found {kind}"
        )
    return out


def _bunzip(data: bytes, size: int, where: str) -> bytes:
    opener = bz2.BZ2Decompressor()
    try:
        out = opener.decompress(data, size + 1)
        while not opener.eof and not opener.needs_input and len(out) <= size:
            out += opener.decompress(b"", size + 1 - len(out))
    except (OSError, ValueError) as cause:
        raise BadFileError(where, _DAMAGED) from cause
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
        raise BadFileError(where, _DAMAGED) from cause
    if kind == "lz4" and size:
        # Arrow fills up a block that is shorter: one that also fits into less is.
        try:
            codec.decompress(data, decompressed_size=size - 1, asbytes=True)
        except OSError:
            return bytes(out)
        raise BadFileError(where, f"expected a {kind} block of {size} bytes, found fewer")
    return bytes(out)


def _runs(data: bytes, size: int, cell_size: int, where: str) -> bytes:
    """Repeat each cell as often as the two bytes behind it say, the larger first."""
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


def _delta(data: bytes, size: int, width: int, where: str) -> bytes:
    """Add up differences: behind their number stand the first value and the differences."""
    number = int.from_bytes(data[:8], "little")
    if number * width != len(data) - 8 or size != number * width:
        problem = f"expected {size} bytes of differences, found {number} of {width} bytes"
        raise BadFileError(where, f"{problem} in {len(data) - 8}")
    values = np.frombuffer(data, f"<u{width}", offset=8)
    return np.cumsum(values, dtype=f"<u{width}").tobytes()


def _double_delta(data: bytes, size: int, width: int, where: str) -> bytes:
    """Add up the first two values and differences of differences, each a sign and some bits."""
    bits, number = data[0] if data else 0, int.from_bytes(data[1:9], "little")
    known, each = min(number, 2), bits + 1
    start, words = 9 + known * width, -(-max(number - 2, 0) * each // 64)
    is_plain = bits >= 8 * width - 1
    wanted = 9 + size if is_plain else start + 8 * words
    if number * width != size or len(data) != wanted:
        problem = f"expected {size} bytes of values, found {number} of {width} bytes"
        raise BadFileError(where, f"{problem} in {len(data)}")
    if is_plain or number <= 2:
        return data[9:]
    first = np.frombuffer(data, f"<u{width}", known, 9).astype(np.uint64)
    streams = np.frombuffer(data, "<u8", words, start).astype(">u8").view(np.uint8)
    seconds = np.empty(number - 1, np.uint64)
    seconds[:1] = first[1:] - first[:1]  # arrays, which wrap around without a warning
    for at in range(0, number - 2, _AT_ONCE):
        count = min(_AT_ONCE, number - 2 - at)
        block = streams[at * each // 8 : -(-(at + count) * each // 8)]
        rows = np.unpackbits(block)[: count * each].reshape(count, each)
        powers = np.uint64(1) << np.arange(bits, dtype=np.uint64)[::-1]
        sizes = (rows[:, 1:] * powers).sum(axis=1, dtype=np.uint64)
        seconds[at + 1 : at + 1 + count] = np.where(rows[:, 0] == 1, -sizes, sizes)
    values = np.empty(number, np.uint64)
    values[0] = first[0]
    values[1:] = first[:1] + np.cumsum(np.cumsum(seconds, dtype=np.uint64), dtype=np.uint64)
    return values.astype(f"<u{width}").tobytes()


def split_texts(
    kind: str, metadata: bytes, data: bytes, most: int, where: str
) -> tuple[bytes, int]:
    """Decompress texts that vary in length; give them in a row, and their number.

    Of `rle` the metadata holds sizes, of `dictionary` the dictionary too; `most` bounds the memory.
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
    """Read the texts of a dictionary, behind its own size."""
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
