r"""The `.meta` file: the footers of many fragments in one tile.

In: the payload of its tile, or footers. Out: the footers, or a tile that the engine reads. Does not
look into a footer; a name out of the file is text, never a path.

The payload is the number of fragments (u32); for each the length of its name (u64), the name, and
where its footer starts in the payload (u64); then the footers, without the length behind each. The
generated parser makes an object of each entry, which is much memory for a file that lies: the tests
hold both to the same answer.
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import pyarrow as pa

from chronotile.errors import BadFileError
from chronotile.format import arrow_compute as pc
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


class NamedFooters(NamedTuple):
    """Footers with the names of their fragments; the last of a name counts."""

    names: pa.Array
    """As they are listed."""
    spans: FooterSpans

    def places(self, names: pa.Array) -> Indices:
        """Find the footers of some fragments, all different; -1 if there is none."""
        if names.equals(self.names):  # as a rule: both are in time order
            return np.arange(len(names))
        last = len(self.names) - 1
        if pc.does_without(len(names) + len(self.names)):
            known = {name: at for at, name in enumerate(pc.raw_texts(self.names))}
            return np.array([known.get(name, -1) for name in pc.raw_texts(names)], np.int64)
        from_last = pc.index_in(names, value_set=self.names[::-1])
        return last - np.asarray(pc.fill_null(from_last, last + 1), np.int64)

    def listed(self) -> tuple[ListedFooter, ...]:
        """Cut out the footers one by one."""
        # Each is cut once, though a file that lies may list one a million times.
        data, starts, lengths = self.spans.data, *(one.tolist() for one in self.spans[1:])
        once = dict(zip(starts, lengths, strict=True))
        footers = {start: data[start : start + length] for start, length in once.items()}
        pairs = zip(self.names.to_pylist(), starts, strict=True)
        return tuple(ListedFooter(name, start, footers[start]) for name, start in pairs)


def read_index(payload: bytes, where: str) -> NamedFooters:
    """Find the footers in the payload of a `.meta`."""
    expect(len(payload) >= _COUNT.size, where, 0, "the number of fragments in 4", len(payload))
    (count,) = _COUNT.unpack_from(payload)
    most = (len(payload) - _COUNT.size) // 16
    if count > most:
        raise BadFileError(where, f"expected at most {most} fragments, found {count}", 0)
    names, starts = _alike(payload, count) or _one_by_one(payload, count, where)
    # Each ends where the next one starts.
    ends = np.append(starts[1:], len(payload))
    if not (ends > starts).all():
        known = np.append(np.unique(starts), len(payload))
        ends = known[np.searchsorted(known, starts, side="right").clip(max=len(known) - 1)]
    return NamedFooters(names, FooterSpans(payload, starts, ends - starts))


def _alike(payload: bytes, count: int) -> tuple[pa.Array, Indices] | None:
    """Read names and starts if all names are of one length, as a rule; else None."""
    size = int.from_bytes(payload[_COUNT.size : _COUNT.size + 8], "little")
    if not 0 < size <= 1024 or _COUNT.size + count * (16 + size) > min(len(payload), _LEN_SMALL):
        return None
    entry = np.dtype([("size", "<u8"), ("name", "u1", size), ("start", "<u8")])
    table = np.frombuffer(payload, entry, count, _COUNT.size)
    names = np.ascontiguousarray(table["name"])
    starts = table["start"]
    if (table["size"] != size).any() or (names > _ASCII).any() or (starts > len(payload)).any():
        return None
    offsets = np.arange(count + 1, dtype=np.int32) * np.int32(size)
    buffers = [None, pa.py_buffer(offsets), pa.py_buffer(names)]
    texts = pa.Array.from_buffers(pa.string(), count, buffers)
    return texts, starts.astype(np.int64)


def _one_by_one(payload: bytes, count: int, where: str) -> tuple[pa.Array, Indices]:
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
    return pa.array(names, pa.string()), np.array(starts, np.int64)


def encode_consolidated_footers(
    footers: Sequence[tuple[str, bytes]], *, version: int, key: bytes | None = None
) -> bytes:
    r"""Write a `.meta` as the engine does, but for compression.

    A footer comes with the name of its fragment, and without the length behind it.

    >>> written = encode_consolidated_footers([("__1_1_ab_5", b"\5\0\0\0\0\1")], version=22)
    >>> read_index(tiles.decode(written, "a.meta").payload, "a.meta").names.to_pylist()
    ['__1_1_ab_5']
    """
    for head, name in {footer[: _COUNT.size]: name for name, footer in footers}.items():
        expect(len(head) == _COUNT.size, name, 0, "a version of 4", len(head))
        check_version(_COUNT.unpack(head)[0], name)
    names = [name.encode() for name, _ in footers]
    start = _COUNT.size + sum(map(len, names)) + 16 * len(names)
    parts = [_COUNT.pack(len(names))]
    for raw, (_, footer) in zip(names, footers, strict=True):
        parts += (_NUMBER.pack(len(raw)), raw, _NUMBER.pack(start))
        start += len(footer)
    parts += [footer for _, footer in footers]
    return tiles.encode(b"".join(parts), version=version, key=key)
