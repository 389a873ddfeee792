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

from chronotile.errors import BadFileError
from chronotile.format import tiles
from chronotile.format.fragment_footer import check_version, expect

if TYPE_CHECKING:
    from collections.abc import Sequence

_COUNT, _NUMBER = struct.Struct("<I"), struct.Struct("<Q")


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


def decode_consolidated_footers(payload: bytes, where: str) -> tuple[ListedFooter, ...]:
    """Takes a `.meta` apart, in its own order.

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
    names, starts = _alike(payload, count) or _one_by_one(payload, count, where)
    return tuple(_cut(payload, names, starts))


def _alike(payload: bytes, count: int) -> tuple[list[str], list[int]] | None:
    """The names and starts of entries whose names are of one length, as a rule; else None."""
    size = int.from_bytes(payload[_COUNT.size : _COUNT.size + 8], "little")
    if not 0 < size <= 1024 or _COUNT.size + count * (16 + size) > len(payload):
        return None
    entry = np.dtype([("size", "<u8"), ("name", f"S{size}"), ("start", "<u8")])
    table = np.frombuffer(payload, entry, count, _COUNT.size)
    names, starts = table["name"].tolist(), table["start"].tolist()
    # numpy drops zeros at the end of a name: such a name is left to the other path.
    if (table["size"] != size).any() or any(len(name) != size for name in names):
        return None
    text = b"\n".join(names)
    if not text.isascii() or max(starts) > len(payload):
        return None
    plain = text.decode().split("\n")
    return (plain, starts) if len(plain) == count else None


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
    names = [name.encode() for name, _ in footers]
    start = _COUNT.size + sum(16 + len(name) for name in names)
    parts = [_COUNT.pack(len(names))]
    for name, (text, footer) in zip(names, footers, strict=True):
        expect(len(footer) >= _COUNT.size, text, 0, "a version of 4", len(footer))
        check_version(_COUNT.unpack_from(footer)[0], text)
        parts += [_NUMBER.pack(len(name)), name, _NUMBER.pack(start)]
        start += len(footer)
    payload = b"".join((*parts, *(footer for _, footer in footers)))
    return tiles.encode(payload, version=version, key=key)


def _cut(payload: bytes, names: list[str], starts: list[int]) -> list[ListedFooter]:
    # Each footer is cut once, though a file that lies may list one a million times.
    ends = [*sorted(set(starts)), len(payload)]
    footers = {start: payload[start:end] for start, end in itertools.pairwise(ends)}
    return [ListedFooter(n, s, footers[s]) for n, s in zip(names, starts, strict=True)]
