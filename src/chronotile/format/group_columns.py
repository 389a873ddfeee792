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

    def text(self) -> str:
        """The payload, a letter for each byte: all text in it is ASCII."""
        return self.payload.decode("latin-1")

    def names(self, rows: I64) -> list[str | None]:
        """The names of some members, in order."""
        text = self.text()
        first, last = self.name_start[rows].tolist(), self.name_end[rows].tolist()
        names: list[str | None] = [text[a:b] for a, b in zip(first, last, strict=True)]
        for row in np.flatnonzero(self.named[rows] == 0).tolist():
            names[row] = None
        return names

    def fields(self, rows: I64) -> Fields:
        """URIs, names, kinds and whether they are relative, of some members, in order."""
        text = self.text()
        first, last = self.uri_start[rows].tolist(), self.uri_end[rows].tolist()
        uris = [text[start:end] for start, end in zip(first, last, strict=True)]
        kinds = [MEMBER_KINDS[kind] for kind in self.kind[rows].tolist()]
        relative = self.relative[rows].astype(bool).tolist()
        return Fields(uris, self.names(rows), kinds, relative)


class Fields(NamedTuple):
    """Members as lists, one for each field."""

    uris: list[str]
    names: list[str | None]
    kinds: list[str]
    relative: list[bool]

    def entries(self) -> list[GroupEntry]:
        """The same as members."""
        false = repeat(False, len(self.uris))
        return [*map(GroupEntry._make, zip(*self, false, strict=True))]


def scan_details(payload: bytes) -> DetailsColumns | None:
    """Finds the members of a payload; None if it is not one of the usual kind.

    >>> from chronotile.format import tiles
    >>> from chronotile.format.groups import encode_details
    >>> entry = GroupEntry("a", "first", "array", is_relative=True)
    >>> data = encode_details([entry], format_version=22)
    >>> columns = scan_details(tiles.decode(data, "x").payload)
    >>> columns.keys(), columns.names(np.arange(1))
    ([b'first'], ['first'])
    """
    if len(payload) < LEN_HEAD or not payload[LEN_HEAD:].isascii():
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
    start = np.flatnonzero(data[: max(size - _LEN_FIXED, 0)] == _VERSION)
    start = start[(start >= LEN_HEAD) & (every[start] & 0xFFFFFFFF == _VERSION)]
    start = start[every[start + _AT_LENGTH] <= _LONGEST]
    start = start[(data[start + _AT_KIND] < len(MEMBER_KINDS)) & (data[start + _AT_RELATIVE] <= 1)]
    uri_end = start + _LEN_FIXED + data[start + _AT_LENGTH]
    kept = uri_end < size - 1
    start, uri_end = start[kept], uri_end[kept]
    named = data[uri_end]
    last = len(every) - 1
    length = np.where(named == 1, every[np.minimum(uri_end + 1, last)], 0)
    end = uri_end + np.where(named == 1, 10, 2) + np.minimum(length, size).astype(np.int64)
    fits = (named <= 1) & (length <= _LONGEST) & (end <= size)
    start, end = start[fits], end[fits]
    return start if len(start) == count and _is_chain(start, end, size) else None


def _is_chain(start: I64, end: I64, size: int) -> bool:
    if not len(start):
        return size == LEN_HEAD
    whole = bool((start[1:] == end[:-1]).all())
    return whole and int(start[0]) == LEN_HEAD and int(end[-1]) == size
