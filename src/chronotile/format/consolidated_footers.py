r"""The `.meta` file: the footers of many fragments in one tile.

In: the payload of its tile, or footers. Out: the footers, or a tile that the engine reads. Knows
nothing of what a footer says; a name out of the file is text, never a path.

The payload is the number of fragments (u32); for each the length of its name (u64), the name, and
where its footer starts in the payload (u64); then the footers, without the length behind each. The
generated parser makes an object of each entry, which is much memory for a file that lies: the tests
hold both to the same answer.
"""

from __future__ import annotations

import itertools
import struct
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import pyarrow as pa

from chronotile.errors import BadFileError
from chronotile.format import tiles
from chronotile.format.footer_columns import FooterSpans
from chronotile.format.fragment_footer import check_version, expect

if TYPE_CHECKING:
    from collections.abc import Sequence

    from chronotile.format.footer_columns import Indices

_COUNT, _NUMBER = struct.Struct("<I"), struct.Struct("<Q")
_ASCII = 0x7F
"""The last character whose text is one byte."""
_LEN_SMALL = (1 << 31) - 1
"""The most characters of an Arrow `string` array."""


class ListedFooter(NamedTuple):
    """A footer in a `.meta`."""

    name: str
    """As it is listed: before version 9 a whole URI."""
    offset: int
    """Where it starts in the payload."""
    footer: bytes

    @property
    def fragment(self) -> str:
        """The name of the fragment, whatever folder it was in."""
        return self.name.rstrip("/").rpartition("/")[2]


class FooterIndex(NamedTuple):
    """What a `.meta` lists, in its own order: names, and where their footers are."""

    payload: bytes
    names: pa.Array
    """As they are listed."""
    starts: Indices
    """Where each footer starts in the payload."""

    def spans(self) -> FooterSpans:
        """The footers: each ends where the next one starts."""
        starts = self.starts
        ends = np.append(starts[1:], len(self.payload))
        if not (ends > starts).all():
            known = np.append(np.unique(starts), len(self.payload))
            ends = known[np.searchsorted(known, starts, side="right").clip(max=len(known) - 1)]
        return FooterSpans(self.payload, starts, ends - starts)

    def listed(self) -> tuple[ListedFooter, ...]:
        """The footers one by one."""
        # Each is cut once, though a file that lies may list one a million times.
        ends = [*np.unique(self.starts).tolist(), len(self.payload)]
        footers = {start: self.payload[start:end] for start, end in itertools.pairwise(ends)}
        pairs = zip(self.names.to_pylist(), self.starts.tolist(), strict=True)
        return tuple(ListedFooter(name, start, footers[start]) for name, start in pairs)


def read_index(payload: bytes, where: str) -> FooterIndex:
    """Finds the footers in a `.meta`.

    Args:
        payload: Of its tile.
        where: The file, for errors.

    Raises:
        BadFileError: It is damaged.
    """
    expect(len(payload) >= _COUNT.size, where, 0, "the number of fragments in 4", len(payload))
    (count,) = _COUNT.unpack_from(payload)
    most = (len(payload) - _COUNT.size) // 16
    if count > most:
        raise BadFileError(where, f"expected at most {most} fragments, found {count}", 0)
    index = _alike(payload, count)
    if index is None:
        names, starts = _one_by_one(payload, count, where)
        index = FooterIndex(payload, pa.array(names, pa.string()), np.array(starts, np.int64))
    return index


def decode_consolidated_footers(payload: bytes, where: str) -> tuple[ListedFooter, ...]:
    """Takes a `.meta` apart, in its own order.

    Args:
        payload: Of its tile.
        where: The file, for errors.

    Raises:
        BadFileError: It is damaged.
    """
    return read_index(payload, where).listed()


def _alike(payload: bytes, count: int) -> FooterIndex | None:
    """The index if all names are of one length, as a rule; else None."""
    size = int.from_bytes(payload[_COUNT.size : _COUNT.size + 8], "little")
    if not 0 < size <= 1024 or _COUNT.size + count * (16 + size) > min(len(payload), _LEN_SMALL):
        return None
    table = np.frombuffer(payload, _entry(size), count, _COUNT.size)
    names = np.ascontiguousarray(table["name"])
    starts = table["start"]
    if (table["size"] != size).any() or (names > _ASCII).any() or (starts > len(payload)).any():
        return None
    offsets = np.arange(count + 1, dtype=np.int32) * np.int32(size)
    buffers = [None, pa.py_buffer(offsets), pa.py_buffer(names)]
    texts = pa.Array.from_buffers(pa.string(), count, buffers)
    return FooterIndex(payload, texts, starts.astype(np.int64))


def _one_by_one(payload: bytes, count: int, where: str) -> tuple[list[str], list[int]]:
    at, names, starts = _COUNT.size, list[str](), list[int]()
    for _ in range(count):
        expect(len(payload) - at >= 8, where, at, "the size of a name in 8", len(payload) - at)
        (size,) = _NUMBER.unpack_from(payload, at)
        at += 8
        left = len(payload) - at - 8
        expect(size <= left, where, at, f"a name of at most {max(left, 0)}", size)
        try:
            names.append(payload[at : at + size].decode())
        except UnicodeDecodeError as cause:
            problem = f"expected UTF-8 text, found {payload[at : at + size][:60]!r}"
            raise BadFileError(where, problem, at) from cause
        at += size
        (start,) = _NUMBER.unpack_from(payload, at)
        if start > len(payload):
            problem = f"expected a footer in {len(payload)} bytes, found one at {start}"
            raise BadFileError(where, problem, at)
        starts.append(start)
        at += 8
    return names, starts


def consolidated_footers(payload: bytes, where: str) -> dict[str, bytes]:
    """The footers that a `.meta` holds, by the names of their fragments.

    Raises:
        BadFileError: It is damaged.
    """
    return {item.fragment: item.footer for item in decode_consolidated_footers(payload, where)}


def encode_consolidated_footers(
    footers: Sequence[tuple[str, bytes]], *, version: int, key: bytes | None = None
) -> bytes:
    r"""Writes a `.meta` as the engine does, but for compression.

    Args:
        footers: (name of the fragment, its footer without the length behind it), in order.
        version: The array's format version.
        key: The array's 32-byte AES-256 key, if it is encrypted.

    Raises:
        BadFileError: Something is no footer of a known version.

    >>> written = encode_consolidated_footers([("__1_1_ab_5", b"\5\0\0\0\0\1")], version=22)
    >>> consolidated_footers(tiles.decode(written, "a.meta").payload, "a.meta")
    {'__1_1_ab_5': b'\x05\x00\x00\x00\x00\x01'}
    """
    texts, parts = [name for name, _ in footers], [footer for _, footer in footers]
    names, sizes = [text.encode() for text in texts], _lengths(parts)
    starts = np.cumsum(sizes) - sizes
    body = b"".join(parts)
    for at in _first_of_each_version(body, starts, sizes):
        expect(sizes[at] >= _COUNT.size, texts[at], 0, "a version of 4", int(sizes[at]))
        check_version(_COUNT.unpack_from(parts[at])[0], texts[at])
    first = _COUNT.size + sum(map(len, names)) + 16 * len(names)
    payload = _COUNT.pack(len(names)) + _entries(names, starts + first) + body
    return tiles.encode(payload, version=version, key=key)


def _lengths(texts: Sequence[bytes]) -> Indices:
    return np.fromiter(map(len, texts), np.int64, len(texts))


def _first_of_each_version(body: bytes, starts: Indices, sizes: Indices) -> list[int]:
    """One footer of each version among many; one that is too short to have any stands for all."""
    if not len(sizes) or sizes.min() < _COUNT.size:
        return [int(sizes.argmin())] if len(sizes) else []
    numbers = np.ndarray((len(body) - _COUNT.size + 1,), "<u4", body, 0, (1,))[starts]
    return [int(at) for at in np.unique(numbers, return_index=True)[1]]


def _entries(names: Sequence[bytes], starts: Indices) -> bytes:
    """What stands before the footers: the size of each name, the name, where its footer starts."""
    sizes = {*map(len, names)}
    if len(sizes) == 1 and (size := max(sizes)):
        table = np.empty(len(names), _entry(size))
        table["size"], table["start"] = size, starts
        table["name"] = np.frombuffer(b"".join(names), np.uint8).reshape(-1, size)
        return table.tobytes()
    packed = {size: _NUMBER.pack(size) for size in sizes}
    ends = struct.iter_unpack("8s", starts.astype("<u8").tobytes())
    columns = (map(packed.__getitem__, map(len, names)), names, (end for (end,) in ends))
    return b"".join(itertools.chain.from_iterable(zip(*columns, strict=True)))


def _entry(size: int) -> np.dtype[np.void]:
    """An entry with a name of that size."""
    return np.dtype([("size", "<u8"), ("name", "u1", size), ("start", "<u8")])
