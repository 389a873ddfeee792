"""Filters that change values and not how many there are: shuffles, windows of narrower numbers.

In: the metadata and the bytes that such a filter left. Out: the metadata of the filter before it,
and the values as they were; or `BadFileError`. Damage shows only in sizes: each of these maps any
bytes to some values.
"""

from __future__ import annotations

import struct
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
    )
)
_U32, _TWO = struct.Struct("<I"), struct.Struct("<II")
_BYTES = (Datatype.BLOB, Datatype.GEOM_WKB, Datatype.GEOM_WKT, Datatype.BOOL, Datatype.UINT8)
_BIT_BLOCK = 8192
"""Bytes that a bitshuffle takes at once."""
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
    """Undo one filter; give the metadata of the filters before it, and the data that it was given.

    Args:
        kind: Of `VALUE_FILTERS`.
        metadata: Of the chunk, from the part of this filter on.
        data: The filtered bytes.
        datatype: Of the values.
        version: The format version of the schema.
        most: Most bytes to take memory for.
        where: The file, for errors.

    Raises:
        BadFileError: The sizes do not fit.
    """
    if kind == "byteshuffle":
        return _by_parts(metadata, data, lambda part: _unshuffled(part, datatype.size), where)
    if kind == "xor":
        return _by_parts(metadata, data, lambda part: _unxored(part, datatype.size), where)
    if kind == "bitshuffle":
        return _by_parts(metadata, data, lambda part: _unshuffled_bits(part, datatype.size), where)
    number = _windowed(kind, datatype, version)
    if number is None:
        return metadata, data
    if kind == "positive_delta":
        return _deltas(metadata, data, number, where)
    return _widened(metadata, data, number, most, where)


def _by_parts(
    metadata: bytes, data: bytes, undo: Callable[[bytes], bytes], where: str
) -> tuple[bytes, bytes]:
    """Undo a filter that notes the size of each part."""
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
    """Undo blocks of bit planes; bytes that do not fill eight values are as they were."""
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
    """Return the type of numbers that a filter of windows changes; None if it changes nothing."""
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
