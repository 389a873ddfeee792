"""Filters that change values and not how many there are: shuffles, differences, narrower numbers.

In: the metadata and the bytes that such a filter left. Out: the metadata of the filter before it,
and the values as they were; or `BadFileError`. Damage shows only in sizes: each of these maps any
bytes to some values.
"""

from __future__ import annotations

import struct
from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from chronotile.errors import BadFileError
from chronotile.format.datatypes import Datatype

if TYPE_CHECKING:
    from collections.abc import Callable

    import numpy.typing as npt

VALUE_FILTERS = frozenset(
    (
        "bitshuffle",
        "byteshuffle",
        "xor",
        "positive_delta",
        "bit_width_reduction",
        "delta",
        "double_delta",
    )
)
_U32, _TWO, _U64 = struct.Struct("<I"), struct.Struct("<II"), struct.Struct("<Q")
_BYTES = (Datatype.BLOB, Datatype.GEOM_WKB, Datatype.GEOM_WKT, Datatype.BOOL, Datatype.UINT8)
_BIT_BLOCK = 8192
"""Bytes that a bitshuffle takes at once."""
_AT_ONCE = 1 << 16
"""Values whose bits are unpacked at once; a multiple of 64, so that a word is in one block."""
_FIRST_WITH_TIMES = 20
"""The first version in which windows of dates and times are filtered."""


def undo_values(
    kind: str,
    metadata: bytes,
    data: bytes,
    datatype: Datatype,
    version: int,
    most: int,
    where: str,
) -> tuple[bytes, bytes]:
    """Undoes one filter.

    Args:
        kind: Of `VALUE_FILTERS`.
        metadata: Of the chunk, from what this filter wrote on.
        data: What it left.
        datatype: As which it takes the values.
        version: The format version of the schema.
        most: Most bytes to take memory for.
        where: The file, for errors.

    Returns:
        The metadata of the filters before it, and what it was given.

    Raises:
        BadFileError: The sizes do not fit.
    """
    if kind == "byteshuffle":
        return _by_parts(metadata, data, lambda part: _unshuffled(part, datatype.size), where)
    if kind == "xor":
        return _by_parts(metadata, data, lambda part: _unxored(part, datatype.size), where)
    if kind == "bitshuffle":
        return _by_parts(metadata, data, lambda part: _unshuffled_bits(part, datatype.size), where)
    if kind in ("delta", "double_delta"):
        undo = _undeltaed if kind == "delta" else _undoubled
        return _compressed_deltas(metadata, data, partial(undo, datatype.size, where), most, where)
    number = _windowed(kind, datatype, version)
    if number is None:
        return metadata, data
    if kind == "positive_delta":
        return _deltas(metadata, data, number, where)
    return _widened(metadata, data, number, most, where)


def _by_parts(
    metadata: bytes, data: bytes, undo: Callable[[bytes], bytes], where: str
) -> tuple[bytes, bytes]:
    """Undoes a filter that notes the size of each part."""
    (count,) = _U32.unpack(_head(metadata, 0, 4, where))
    sizes = struct.unpack(f"<{count}I", _head(metadata, 4, 4 * count, where))
    _expect_all(sum(sizes), data, where)
    out, at = [], 0
    for size in sizes:
        out.append(undo(data[at : at + size]))
        at += size
    return metadata[4 + 4 * count :], b"".join(out)


def _unshuffled(part: bytes, width: int) -> bytes:
    whole = len(part) // width * width
    values = np.frombuffer(part, np.uint8, whole).reshape(width, -1)
    return values.T.tobytes() + part[whole:]


def _unshuffled_bits(part: bytes, width: int) -> bytes:
    """Blocks of bit planes; what does not fill eight values is as it was."""
    if len(part) % width or len(part) % 8:
        return part
    return b"".join(
        _unplaned(part[at : at + _BIT_BLOCK], width) for at in range(0, len(part), _BIT_BLOCK)
    )


def _unplaned(block: bytes, width: int) -> bytes:
    eights = len(block) // width // 8
    whole = 8 * eights * width
    planes = np.frombuffer(block, np.uint8, whole).reshape(8 * width, eights)
    bits = np.unpackbits(planes, axis=1, bitorder="little").T
    return np.packbits(bits, axis=1, bitorder="little").tobytes() + block[whole:]


def _unxored(part: bytes, width: int) -> bytes:
    whole = len(part) // width * width
    values = np.frombuffer(part, f"<u{width}", whole // width)
    return np.bitwise_xor.accumulate(values).tobytes() + part[whole:] if whole else part


def _windowed(kind: str, datatype: Datatype, version: int) -> npt.DTypeLike | None:
    """The numbers that a filter of windows works on; None where it leaves all as it is."""
    if datatype.is_temporal:
        return "<i8" if version >= _FIRST_WITH_TIMES else None
    if datatype in _BYTES:
        return "<u1" if kind == "positive_delta" else None
    if datatype is Datatype.INT8:
        return "<i1" if kind == "positive_delta" else None
    if datatype.is_float or datatype.code is None:
        return None
    return f"<{'u' if datatype.code.isupper() else 'i'}{datatype.size}"


def _deltas(metadata: bytes, data: bytes, number: npt.DTypeLike, where: str) -> tuple[bytes, bytes]:
    width, (count,) = np.dtype(number).itemsize, _U32.unpack(_head(metadata, 0, 4, where))
    at, start, out = 4, 0, []
    for _ in range(count):
        entry = _head(metadata, at, width + 4, where)
        (size,) = _U32.unpack_from(entry, width)
        at += width + 4
        part = _slice(data, start, size, where)
        if size % width == 0 and size:
            first = np.frombuffer(entry, number, 1)
            values = np.frombuffer(part, number)
            part = (first + np.cumsum(values, dtype=number)).astype(number).tobytes()
        out.append(part)
        start += size
    _expect_all(start, data, where)
    return metadata[at:], b"".join(out)


def _widened(
    metadata: bytes, data: bytes, number: npt.DTypeLike, most: int, where: str
) -> tuple[bytes, bytes]:
    width, sign = np.dtype(number).itemsize, np.dtype(number).kind
    total, count = _TWO.unpack(_head(metadata, 0, 8, where))
    if total > most:
        raise BadFileError(where, f"expected a chunk of at most {most} bytes, found {total}")
    at, start, left = 8, 0, total
    out = []
    for _ in range(count):
        entry = _head(metadata, at, width + 5, where)
        bits, size = struct.unpack_from("<BI", entry, width)
        at += width + 5
        if size > left:
            raise BadFileError(where, f"expected a window of at most {left} bytes, found {size}")
        left -= size
        if bits >= 8 * width or size % width:
            stored, part = size, _slice(data, start, size, where)
        elif bits not in (8, 16, 32):
            raise BadFileError(where, f"expected numbers of 8, 16 or 32 bits, found {bits}")
        else:
            stored = size // width * (bits // 8)
            narrow = np.frombuffer(_slice(data, start, stored, where), f"<{sign}{bits // 8}")
            part = (narrow.astype(number) + np.frombuffer(entry, number, 1)).tobytes()
        out.append(part)
        start += stored
    _expect_all(start, data, where)
    if left:
        raise BadFileError(where, f"expected windows of {total} bytes in all, found {total - left}")
    return metadata[at:], b"".join(out)


def _compressed_deltas(
    metadata: bytes, data: bytes, undo: Callable[[bytes, int], bytes], most: int, where: str
) -> tuple[bytes, bytes]:
    """Undoes a filter that is a compressor by its form: parts, each with its number of values."""
    num_metadata, num_data = _TWO.unpack(_head(metadata, 0, 8, where))
    count = num_metadata + num_data
    sizes = list(_TWO.iter_unpack(_head(metadata, 8, 8 * count, where)))
    _expect_all(sum(size for _, size in sizes), data, where)
    if sum(size for size, _ in sizes) > most:
        raise BadFileError(where, f"expected a chunk of at most {most} bytes, found more")
    out, at = [], 0
    for original, size in sizes:
        part = undo(data[at : at + size], original)
        if len(part) != original:
            raise BadFileError(where, f"expected {original} bytes of values, found {len(part)}")
        out.append(part)
        at += size
    return b"".join(out[:num_metadata]), b"".join(out[num_metadata:])


def _undeltaed(width: int, where: str, part: bytes, original: int) -> bytes:
    """Values from their number, the first of them, and differences."""
    (number,) = _U64.unpack(_head(part, 0, 8, where))
    if number * width != len(part) - 8 or original != number * width:
        problem = f"expected {original} bytes of differences, found {number} of {width} bytes"
        raise BadFileError(where, f"{problem} in {len(part) - 8}")
    values = np.frombuffer(part, f"<u{width}", offset=8)
    return np.cumsum(values, dtype=f"<u{width}").tobytes()


def _undoubled(width: int, where: str, part: bytes, original: int) -> bytes:
    """Values from the first two and from differences of differences, each a sign and some bits."""
    bits, number = struct.unpack("<BQ", _head(part, 0, 9, where))
    if number * width != original:
        problem = f"expected {original} bytes of values, found {number} of {width} bytes"
        raise BadFileError(where, problem)
    if bits >= 8 * width - 1:
        return part[9:]
    first = min(number, 2)
    each, start = bits + 1, 9 + first * width
    words = -(-max(number - 2, 0) * each // 64)
    if len(part) != start + 8 * words:
        problem = f"expected {start + 8 * words} bytes for {number} values"
        raise BadFileError(where, f"{problem}, found {len(part)}")
    known = np.frombuffer(part, f"<u{width}", first, 9).astype(np.uint64)
    if number <= 2:
        return part[9:start]
    streams = np.frombuffer(part, "<u8", words, start).astype(">u8").view(np.uint8)
    seconds = np.empty(number - 1, np.uint64)
    seconds[:1] = known[1:] - known[:1]  # arrays, which wrap around without a warning
    for at in range(0, number - 2, _AT_ONCE):
        count = min(_AT_ONCE, number - 2 - at)
        block = streams[at * each // 8 : -(-(at + count) * each // 8)]
        rows = np.unpackbits(block)[: count * each].reshape(count, each)
        powers = np.uint64(1) << np.arange(bits, dtype=np.uint64)[::-1]
        size = (rows[:, 1:] * powers).sum(axis=1, dtype=np.uint64)
        seconds[at + 1 : at + 1 + count] = np.where(rows[:, 0] == 1, -size, size)
    values = np.empty(number, np.uint64)
    values[0] = known[0]
    values[1:] = known[:1] + np.cumsum(np.cumsum(seconds, dtype=np.uint64), dtype=np.uint64)
    return values.astype(f"<u{width}").tobytes()


def _head(metadata: bytes, at: int, size: int, where: str) -> bytes:
    if size > len(metadata) - at:
        problem = f"expected {size} bytes of a filter's metadata, found {len(metadata) - at}"
        raise BadFileError(where, problem)
    return metadata[at : at + size]


def _slice(data: bytes, at: int, size: int, where: str) -> bytes:
    if size > len(data) - at:
        raise BadFileError(where, f"expected a window of {size} bytes, found {len(data) - at}")
    return data[at : at + size]


def _expect_all(found: int, data: bytes, where: str) -> None:
    if found != len(data):
        raise BadFileError(where, f"expected parts of {len(data)} bytes in all, found {found}")
