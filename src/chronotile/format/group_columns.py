r"""The details of groups with very many members, as columns.

In: the payload of a details file. Out: where each member's URI and name start, and its flags; and
the members that are left after several files. A fast path for what `groups` reads entry by entry:
the tests hold both to the same answer. It is given up, with None, for a payload that is not as the
engine writes it, or with text that is not plain ASCII.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from itertools import repeat
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

import numpy as np

from chronotile.format.groups import GroupEntry
from chronotile.format.kinds import MEMBER_KINDS

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy.typing as npt

    I64: TypeAlias = npt.NDArray[np.int64]
    U8: TypeAlias = npt.NDArray[np.uint8]

_HEAD = struct.Struct("<IQ")
_LEN_FIXED = 14
"""Bytes of a member before its URI."""
_VERSION = 2


@dataclass(frozen=True, slots=True, eq=False)
class DetailsColumns:
    """The members of one details file of version 2, in its own order."""

    payload: bytes
    kind: U8
    relative: U8
    deleted: U8
    uri_start: I64
    uri_end: I64
    name_start: I64
    name_end: I64
    """Where a name is; as the URI, where there is none."""
    named: U8

    def __len__(self) -> int:
        return len(self.kind)

    def keys(self) -> list[bytes]:
        """What tells each member from others, in order."""
        payload = self.payload
        starts, ends = self.name_start.tolist(), self.name_end.tolist()
        return [payload[start:end] for start, end in zip(starts, ends, strict=True)]

    def fields(self, rows: I64) -> Fields:
        """URIs, names, kinds and whether they are relative, of some members, in order."""
        text = self.payload.decode("latin-1")  # a byte a letter: all text in it is ASCII
        first, last = self.uri_start[rows].tolist(), self.uri_end[rows].tolist()
        uris = [text[start:end] for start, end in zip(first, last, strict=True)]
        first, last = self.name_start[rows].tolist(), self.name_end[rows].tolist()
        names: list[str | None] = [text[a:b] for a, b in zip(first, last, strict=True)]
        for row in np.flatnonzero(self.named[rows] == 0).tolist():
            names[row] = None
        kinds = [MEMBER_KINDS[kind] for kind in self.kind[rows].tolist()]
        return Fields(uris, names, kinds, self.relative[rows].astype(bool).tolist())


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
    >>> columns.keys(), fold_columns([columns]).entries() == [entry]
    ([b'first'], True)
    """
    if len(payload) < _HEAD.size or not payload[_HEAD.size :].isascii():
        return None
    version, count = _HEAD.unpack_from(payload)
    size = len(payload)
    if version != _VERSION or count > size:
        return None
    data = np.frombuffer(payload, np.uint8)
    # Every member starts with its version; of what looks like one, only a whole chain counts.
    start = np.flatnonzero(data[: max(size - _LEN_FIXED, 0)] == _VERSION)
    start = start[start >= _HEAD.size]
    for place in (1, 2, 3, 7, 8, 9, 10, 11, 12, 13):
        start = start[data[start + place] == 0]
    start = start[(data[start + 4] < len(MEMBER_KINDS)) & (data[start + 5] <= 1)]
    uri_start = start + _LEN_FIXED
    uri_end = uri_start + data[start + 6]
    kept = uri_end < size - 1
    start, uri_start, uri_end = start[kept], uri_start[kept], uri_end[kept]
    named = data[uri_end]
    has_name = named == 1
    length = np.where(has_name, data[np.minimum(uri_end + 1, size - 1)], 0)
    end = uri_end + 1 + np.where(has_name, 8 + length.astype(np.int64), 0) + 1
    fits = (end <= size) & (named <= 1)
    start, uri_start, uri_end, end = start[fits], uri_start[fits], uri_end[fits], end[fits]
    named, has_name, length = named[fits], has_name[fits], length[fits]
    if (
        len(start) != count
        or not _is_chain(start, end, size)
        or not _is_short(data, uri_end, named)
    ):
        return None
    name_start = np.where(has_name, uri_end + 9, uri_start)
    name_end = np.where(has_name, uri_end + 9 + length, uri_end)
    return DetailsColumns(
        payload=payload,
        kind=data[start + 4],
        relative=data[start + 5],
        deleted=data[end - 1],
        uri_start=uri_start,
        uri_end=uri_end,
        name_start=name_start,
        name_end=name_end,
        named=named,
    )


def _is_chain(start: I64, end: I64, size: int) -> bool:
    if not len(start):
        return size == _HEAD.size
    whole = bool((start[1:] == end[:-1]).all())
    return whole and int(start[0]) == _HEAD.size and int(end[-1]) == size


def _is_short(data: U8, uri_end: I64, named: U8) -> bool:
    """Whether the lengths of all names fit a byte."""
    at = uri_end[named == 1]
    return not any(data[at + place].any() for place in range(2, 9))


def fold_columns(files: Sequence[DetailsColumns]) -> Fields | None:
    """The members that are left after several files, one after the other; None for odd keys."""
    if any(_has_local_keys(file) for file in files):
        return None
    latest: dict[bytes, int] = {}
    base = [0]
    for file in files:
        latest.update(zip(file.keys(), range(base[-1], base[-1] + len(file)), strict=True))
        base.append(base[-1] + len(file))
    winners = np.sort(np.fromiter(latest.values(), np.int64, len(latest)))
    found = Fields([], [], [], [])
    for number, file in enumerate(files):
        first, last = np.searchsorted(winners, base[number : number + 2])
        rows = winners[first:last] - base[number]
        some = file.fields(rows[file.deleted[rows] == 0])
        found.uris.extend(some.uris)
        found.names.extend(some.names)
        found.kinds.extend(some.kinds)
        found.relative.extend(some.relative)
    return found


def _has_local_keys(file: DetailsColumns) -> bool:
    """Whether a key is a local path, which the engine writes as a URI before it compares."""
    unnamed = (file.named == 0) & (file.relative == 0)
    if not unnamed.any():
        return False
    starts = file.uri_start[unnamed].tolist()
    return any(file.payload[start : start + 1] == b"/" for start in starts)
