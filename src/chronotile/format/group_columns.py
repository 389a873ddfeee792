r"""The details of groups with very many members, as columns.

In: the payload of a details file. Out: where each member's URI and name start, and its flags. A
fast path for what `groups` reads entry by entry: the tests hold both to the same answer. It is
given up, with None, for a payload that is not as the engine writes it, or with text that is not
plain ASCII. Knows no other file: `group_folding` does.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from functools import cached_property
from itertools import repeat
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from chronotile.format.groups import GroupEntry
from chronotile.format.kinds import MEMBER_KINDS

if TYPE_CHECKING:
    import numpy.typing as npt

    I64: TypeAlias = npt.NDArray[np.int64]
    U8: TypeAlias = npt.NDArray[np.uint8]
    U64: TypeAlias = npt.NDArray[np.uint64]

LEN_HEAD = 12
"""Bytes before the first member."""
_HEAD = struct.Struct("<IQ")
_LEN_FIXED = 14
"""Bytes of a member before its URI."""
_LEN_SHORTEST = 16
_VERSION = 2
_AT_KIND, _AT_RELATIVE, _AT_LENGTH = 4, 5, 6
_LONGEST = 255
"""Of a text that the columns take; its length fits a byte."""
_WORD = 8
_FIRM, _REST = np.uint64(0xFF00FE00FFFFFFFF), np.uint64(0xFFFFFFFFFFFF)
"""Bits of the first two words of a member that tell of one: its version is 2, its flag 0 or 1, its
URI shorter than 256 bytes."""
_FACTOR = np.uint64(0x9E3779B97F4A7C15)
"""An odd number with bits all over."""
_WORDS_IN_PRINT = 5
"""Keys of up to 40 bytes are mixed whole."""


@dataclass(frozen=True, eq=False)
class DetailsColumns:
    """The members of one details file of version 2, in its own order.

    Only where they are is found at once: of most files nothing else is ever asked.
    """

    payload: bytes
    start: I64
    """Where each member starts in the payload."""
    length: int | None = None
    """Of every member, if it is known that all are of one length."""

    def __len__(self) -> int:
        return len(self.start)

    @cached_property
    def end(self) -> I64:
        """Where each member ends."""
        return np.append(self.start, len(self.payload))[1:]

    def _bytes_at(self, place: I64) -> U8:
        return np.frombuffer(self.payload, np.uint8)[place]

    @cached_property
    def kind(self) -> U8:
        """The place of each member's kind in `MEMBER_KINDS`."""
        return self._bytes_at(self.start + _AT_KIND)

    @cached_property
    def relative(self) -> U8:
        """1 for a URI that is relative."""
        return self._bytes_at(self.start + _AT_RELATIVE)

    @cached_property
    def deleted(self) -> U8:
        """Not 0 for a deletion."""
        return self._bytes_at(self.end - 1)

    @property
    def uri_start(self) -> I64:
        """Where each URI starts."""
        return self.start + _LEN_FIXED

    @cached_property
    def uri_end(self) -> I64:
        """Where each URI ends."""
        return self.uri_start + self._bytes_at(self.start + _AT_LENGTH)

    @cached_property
    def named(self) -> U8:
        """1 for a member with a name."""
        return self._bytes_at(self.uri_end)

    @cached_property
    def name_start(self) -> I64:
        """Where each name starts; as the URI, where there is none."""
        return np.where(self.named == 1, self.uri_end + 9, self.uri_start)

    @cached_property
    def name_end(self) -> I64:
        """Where each name ends."""
        return np.where(self.named == 1, self.end - 1, self.uri_end)

    def keys(self) -> list[bytes]:
        """What tells each member from others, in order."""
        payload = self.payload
        starts, ends = self.name_start.tolist(), self.name_end.tolist()
        return [payload[start:end] for start, end in zip(starts, ends, strict=True)]

    @cached_property
    def key_lengths(self) -> I64:
        """The bytes of each key."""
        if self.length is not None:
            first, last = self._first_key()
            return np.full(len(self), last - first)
        return self.name_end - self.name_start

    @cached_property
    def key_words(self) -> tuple[U64, ...]:
        """The bytes of each key, eight at a time from its end; the last eight overlap.

        Before each key stands its length, a whole word: of a short key, that is read with it. So
        keys of one length are equal if these are.
        """
        every = words(self.payload)
        if self.length is not None:
            first, last = self._first_key()
            more = max(last - first - _WORD, 0)
            places = (last - _WORD - min(at, more) for at in _steps(last - first))
            return tuple(every[place :: self.length][: len(self)].copy() for place in places)
        ends = self.name_end - _WORD
        beyond = np.maximum(ends - self.name_start, 0)
        most = int(beyond.max(initial=0)) + _WORD
        return tuple(every[ends - np.minimum(at, beyond) if at else ends] for at in _steps(most))

    def _first_key(self) -> tuple[int, int]:
        """Where the key of the first member starts and ends."""
        uri_start = LEN_HEAD + _LEN_FIXED
        uri_end = uri_start + self.payload[LEN_HEAD + _AT_LENGTH]
        if not self.payload[uri_end]:
            return uri_start, uri_end
        return uri_end + 9, uri_end + 9 + self.payload[uri_end + 1]

    @cached_property
    def key_prints(self) -> U64:
        """A number for each key: equal for equal keys, nearly always different for others."""
        mixed = self.key_lengths.astype(np.uint64)
        # Always as many words: the same key may stand beside longer ones in another file.
        last = len(self.key_words) - 1
        for number in range(_WORDS_IN_PRINT):
            mixed *= _FACTOR
            mixed += self.key_words[min(number, last)]
            mixed ^= mixed >> np.uint64(32)
        return mixed * _FACTOR

    def _texts(self, start: I64, end: I64) -> pa.Array:
        """The texts between some places of the payload, which rise."""
        if self.length is not None and len(start):
            return self._equal_texts(start, int(end[0] - start[0]))
        # Texts and what stands between them follow one another: every other one is a text.
        bounds = np.empty(2 * len(start) + 1, np.int32)
        bounds[:-1:2], bounds[1::2] = start, end
        bounds[-1] = end[-1] if len(end) else 0
        buffers = [None, pa.py_buffer(bounds), pa.py_buffer(self.payload)]
        whole = pa.Array.from_buffers(pa.string(), 2 * len(start), buffers)
        return whole.take(pa.array(np.arange(0, 2 * len(start), 2)))

    def _equal_texts(self, start: I64, size: int) -> pa.Array:
        """Texts of one size; those of all members lie evenly spaced."""
        data = b""
        if size and self.length is not None and len(start) == len(self):
            shape, step = (len(start),), (self.length,)
            data = np.ndarray(shape, f"V{size}", self.payload, int(start[0]), step).tobytes()
        elif size:
            shape = (len(self.payload) - size + 1,)
            data = np.ndarray(shape, f"V{size}", self.payload, 0, (1,))[start].tobytes()
        bounds = np.arange(len(start) + 1, dtype=np.int32) * np.int32(size)
        buffers = [None, pa.py_buffer(bounds), pa.py_buffer(data)]
        return pa.Array.from_buffers(pa.string(), len(start), buffers)

    def members(self, rows: I64) -> MemberColumns:
        """Some members; the rows rise."""
        places = (self.uri_start, self.uri_end, self.name_start, self.name_end)
        flags = (self.named == 1, self.kind, self.relative == 1)
        columns = [*places, *flags]
        if len(rows) < len(self):
            columns = [column[rows] for column in columns]
        first, last, name_first, name_last, named, kinds, relative = columns
        names = self._texts(name_first, name_last)
        return MemberColumns(
            uri=self._texts(first, last),
            name=names if named.all() else pc.if_else(pa.array(named), names, None),
            kind=pa.array(MEMBER_KINDS).take(pa.array(kinds)),
            relative=pa.array(relative),
        )


class MemberColumns(NamedTuple):
    """Members as Arrow columns."""

    uri: pa.Array
    """As they are stored."""
    name: pa.Array
    kind: pa.Array
    """Of `MEMBER_KINDS`."""
    relative: pa.Array

    def entries(self) -> list[GroupEntry]:
        """The same as members."""
        columns = (column.to_pylist() for column in self)
        return [*map(GroupEntry._make, zip(*columns, repeat(False, len(self.uri)), strict=True))]


_NO_TEXT = pa.array([], pa.string())
NO_MEMBERS = MemberColumns(_NO_TEXT, _NO_TEXT, _NO_TEXT, pa.array([], pa.bool_()))


def scan_details(payload: bytes) -> DetailsColumns | None:
    """Finds the members of a payload; None if it is not one of the usual kind.

    >>> from chronotile.format import tiles
    >>> from chronotile.format.groups import encode_details
    >>> entry = GroupEntry("a", "first", "array", is_relative=True)
    >>> data = encode_details([entry], format_version=22)
    >>> columns = scan_details(tiles.decode(data, "x").payload)
    >>> columns.keys(), columns.members(np.arange(1)).name.to_pylist()
    ([b'first'], ['first'])
    """
    # The count in the head need not be ASCII; as a rule it is, and nothing is copied.
    if len(payload) < LEN_HEAD or not (payload.isascii() or payload[LEN_HEAD:].isascii()):
        return None
    version, count = _HEAD.unpack_from(payload)
    if version != _VERSION or count > (len(payload) - LEN_HEAD) // _LEN_SHORTEST:
        return None
    if count == 0 and len(payload) > LEN_HEAD:
        return None
    length = _equal_length(payload, count)
    if length is not None:
        start = LEN_HEAD + length * np.arange(count, dtype=np.int64)
        return DetailsColumns(payload, start, length)
    found = _starts(payload, count)
    return None if found is None else DetailsColumns(payload, found)


def words(payload: bytes) -> U64:
    """The eight bytes from each place of a payload on, as a number; no copy."""
    return np.ndarray((max(len(payload) - 7, 0),), "<u8", payload, strides=(1,))


def _steps(size: int) -> range:
    """Where words of a text of that size start, from its end."""
    return range(0, max(size, 1), _WORD)


def _equal_length(payload: bytes, count: int) -> int | None:
    """The length of each member, if URIs and names are of equal lengths; None if they are not."""
    if not count or (len(payload) - LEN_HEAD) % count:
        return None
    length = (len(payload) - LEN_HEAD) // count
    data = np.frombuffer(payload, np.uint8)[LEN_HEAD:].reshape(count, length)
    uri_end = _LEN_FIXED + int(data[0, _AT_LENGTH])
    if uri_end + 2 > length:
        return None
    has_name = int(data[0, uri_end])
    after = uri_end + 1
    if has_name:
        if after + 9 > length:
            return None
        after += 8 + int(data[0, after])
    if after + 1 != length:
        return None
    every = words(payload)[LEN_HEAD:]
    whole = (
        has_name <= 1
        and (every[::length][:count] & 0xFFFFFFFF == _VERSION).all()
        and data[:, _AT_KIND].max() < len(MEMBER_KINDS)
        and data[:, _AT_RELATIVE].max() <= 1
        and (every[_AT_LENGTH::length][:count] == uri_end - _LEN_FIXED).all()
        and (data[:, uri_end] == has_name).all()
        and (not has_name or (every[uri_end + 1 :: length][:count] == after - uri_end - 9).all())
    )
    return length if whole else None


def _starts(payload: bytes, count: int) -> I64 | None:
    """Where members start; None unless what looks like members is one whole chain of them."""
    size, every = len(payload), words(payload)
    data = np.frombuffer(payload, np.uint8)
    start = np.flatnonzero(data[LEN_HEAD : max(size - _LEN_SHORTEST + 1, LEN_HEAD)] == _VERSION)
    start += LEN_HEAD
    # Of a version the third byte is 0; of the kind of a member, which may be 2 too, as a rule not.
    start = start[data[start + 2] == 0]
    # Version, kind, is relative, and the length of the URI: two words, which are looked at once.
    head = every[start]
    looks = (head & _FIRM == _VERSION) & (head >> 32 & 0xFF < len(MEMBER_KINDS))
    looks &= every[start + _WORD] & _REST == 0
    if not looks.all():
        start, head = start[looks], head[looks]
    uri_end = start + (_LEN_FIXED + (head >> 48)).astype(np.int64)
    kept = uri_end < size - 1
    if not kept.all():
        start, uri_end = start[kept], uri_end[kept]
    is_named = data[uri_end] == 1
    length = np.where(is_named, every[np.minimum(uri_end + 1, len(every) - 1)], 0)
    end = uri_end + np.where(is_named, 10, 2) + np.minimum(length, size).astype(np.int64)
    fits = (data[uri_end] <= 1) & (length <= _LONGEST) & (end <= size)
    if not fits.all():
        start, end = start[fits], end[fits]
    return start if len(start) == count and _is_chain(start, end, size) else None


def _is_chain(start: I64, end: I64, size: int) -> bool:
    if not len(start):
        return size == LEN_HEAD
    whole = bool((start[1:] == end[:-1]).all())
    return whole and int(start[0]) == LEN_HEAD and int(end[-1]) == size
