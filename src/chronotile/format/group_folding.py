"""The members that are left after several details files, as columns.

In: the columns of details files of version 2, in the order in which they count. Out: `LeftMembers`,
the rows of each file that count. Makes no object for a member; knows no window.

A list holds all members that its writer knew, so nearly all of it stands in the list after it, byte
for byte. Such a list adds nothing and is passed over: of each key, a later entry counts.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np

from chronotile.format.group_columns import LEN_HEAD, Fields, words

if TYPE_CHECKING:
    from collections.abc import Sequence

    from chronotile.format.group_columns import I64, U8, U64, DetailsColumns
    from chronotile.format.groups import GroupEntry

_WORD = 8
_FACTORS = tuple(
    np.uint64(factor)
    for factor in (0x9E3779B97F4A7C15, 0xC2B2AE3D27D4EB4F, 0x165667B19E3779F9, 0xD6E8FEB86659FD93)
)
"""Odd numbers with bits all over."""


@dataclass(frozen=True, slots=True, eq=False)
class LeftMembers:
    """The members that are left, in no order."""

    parts: tuple[tuple[DetailsColumns, I64], ...]
    """Files, and the rows of each that count."""

    def __len__(self) -> int:
        return sum(len(rows) for _, rows in self.parts)

    def names(self) -> list[str | None]:
        """Their names."""
        return [name for file, rows in self.parts for name in file.names(rows)]

    def fields(self) -> Fields:
        """Their fields, a list for each."""
        found = Fields([], [], [], [])
        for file, rows in self.parts:
            some = file.fields(rows)
            found.uris.extend(some.uris)
            found.names.extend(some.names)
            found.kinds.extend(some.kinds)
            found.relative.extend(some.relative)
        return found

    def entries(self) -> list[GroupEntry]:
        """The same as members."""
        return self.fields().entries()


def fold_columns(files: Sequence[DetailsColumns]) -> LeftMembers | None:
    """The members that are left after several files, one after the other; None for odd keys.

    >>> from chronotile.format import tiles
    >>> from chronotile.format.group_columns import scan_details
    >>> from chronotile.format.groups import GroupEntry, encode_details
    >>> entry = GroupEntry("a", "first", "array", is_relative=True)
    >>> data = encode_details([entry], format_version=22)
    >>> columns = scan_details(tiles.decode(data, "x").payload)
    >>> fold_columns([columns, columns]).entries() == [entry]
    True
    """
    marked = [(file, _entry_prints(file)) for file in files]
    kept = [one[0] for one, later in pairwise(marked) if not _is_repeated(*one, *later)]
    kept += files[-1:]
    if any(_has_local_keys(file) for file in kept):
        return None
    if len(kept) == 1 and _are_distinct(_key_prints(kept[0])):
        return LeftMembers(((kept[0], np.flatnonzero(kept[0].deleted == 0)),))
    return _fold_by_key(kept)


def _fold_by_key(files: Sequence[DetailsColumns]) -> LeftMembers:
    latest: dict[bytes, int] = {}
    base = [0]
    for file in files:
        latest.update(zip(file.keys(), range(base[-1], base[-1] + len(file)), strict=True))
        base.append(base[-1] + len(file))
    winners = np.sort(np.fromiter(latest.values(), np.int64, len(latest)))
    parts = []
    for number, file in enumerate(files):
        first, last = np.searchsorted(winners, base[number : number + 2])
        rows = winners[first:last] - base[number]
        parts.append((file, rows[file.deleted[rows] == 0]))
    return LeftMembers(tuple(parts))


def _entry_prints(file: DetailsColumns) -> U64:
    """A number for each entry: the same wherever it stands, nearly always different for others."""
    # The first 16 bytes of the URI, the middle, the last of the name; none is below two words.
    every, length = words(file.payload), file.length
    if length is not None:
        last = length - _WORD
        places = (min(14, last), min(22, last), length // 2 - _WORD, last - 1)
        rows = [every[LEN_HEAD + place :: length][: len(file)] for place in places]
        return _mixed(np.array([length]), *rows)
    start, lengths = file.start, file.end - file.start
    lasts = lengths - _WORD
    apart = (np.minimum(14, lasts), np.minimum(22, lasts), lengths // 2 - _WORD, lasts - 1)
    return _mixed(lengths, *(every[start + place] for place in apart))


def _key_prints(file: DetailsColumns) -> U64:
    """A number for each key: equal for equal keys, nearly always different for others."""
    start, end = file.name_start, file.name_end
    every, length = words(file.payload), end - start
    more = np.maximum(length - _WORD, 0)
    # Before each key stands its length, a whole word: of a short key, that is read along with it.
    tail = every[end - _WORD]
    before, head = every[end - _WORD - np.minimum(more, _WORD)], every[end - _WORD - more]
    return _mixed(length, tail, before, head)


def _mixed(length: I64, *parts: U64) -> U64:
    mixed: U64 = length.astype(np.uint64)
    for part, factor in zip(parts, _FACTORS, strict=False):
        mixed = mixed + part * factor
    mixed ^= mixed >> np.uint64(32)
    mixed *= _FACTORS[0]
    return mixed


def _are_distinct(prints: U64) -> bool:
    ordered = np.sort(prints)
    return not bool((ordered[1:] == ordered[:-1]).any())


def _is_repeated(file: DetailsColumns, prints: U64, later: DetailsColumns, others: U64) -> bool:
    """Whether every entry of a file surely stands in a later one too, byte for byte.

    The numbers of entries only say where to look: the bytes decide.
    """
    if len(file) > len(later):
        return False
    if not len(file):
        return True
    rows = _look_up(prints, others)
    if rows is None:
        return False
    if file.length is not None and file.length == later.length:
        return bool((_table(file) == _table(later)[rows]).all())
    # Most stand one behind the other there too: whole stretches are compared at once.
    breaks = np.flatnonzero(rows[1:] != rows[:-1] + 1)
    first, last = np.append(0, breaks + 1), np.append(breaks, len(rows) - 1)
    here, there = file.start[first], later.start[rows[first]]
    ends = later.end[rows[last]]
    if (file.end[last] - here != ends - there).any():
        return False
    stretches = zip(there.tolist(), ends.tolist(), here.tolist(), strict=True)
    mine, other = file.payload, later.payload
    return all(mine.startswith(other[start:end], at) for start, end, at in stretches)


def _table(file: DetailsColumns) -> U8:
    """The bytes of members of one length, a row for each."""
    return np.frombuffer(file.payload, np.uint8)[LEN_HEAD:].reshape(len(file), -1)


def _look_up(wanted: U64, among: U64) -> I64 | None:
    """For each number its row among others; None if one is not among them."""
    bits = (4 * len(among)).bit_length()
    shift, numbers = np.uint64(64 - bits), np.arange(len(among))
    slots = (among >> shift).astype(np.int64)
    table = np.zeros(1 << bits, np.int32)
    table[slots] = numbers
    rows: I64 = table[(wanted >> shift).astype(np.int64)].astype(np.int64)
    missed = np.flatnonzero(among[rows] != wanted)
    if len(missed):
        lost = np.flatnonzero(table[slots] != numbers)
        lost = lost[np.argsort(among[lost])]
        at = np.searchsorted(among[lost], wanted[missed])
        if not len(lost) or int(at.max()) == len(lost):
            return None
        rows[missed] = lost[at]
        if (among[rows[missed]] != wanted[missed]).any():
            return None
    return rows


def _has_local_keys(file: DetailsColumns) -> bool:
    """Whether a key is a local path, which the engine writes as a URI before it compares."""
    unnamed = (file.named == 0) & (file.relative == 0)
    if not unnamed.any():
        return False
    starts = file.uri_start[unnamed].tolist()
    return any(file.payload[start : start + 1] == b"/" for start in starts)
