"""The members that are left after several details files, as columns.

In: the columns of details files of version 2, in the order in which they count. Out: `LeftMembers`,
the rows of each file that count. Makes no object for a member; knows no window.

A list holds all members that its writer knew, so as a rule the list after it has all of its keys.
Such a list adds nothing and is passed over: of each key, a later entry counts.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from chronotile.format.group_columns import NO_MEMBERS, MemberColumns

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy.typing as npt

    from chronotile.format.group_columns import I64, U64, DetailsColumns
    from chronotile.format.groups import GroupEntry


@dataclass(frozen=True, slots=True, eq=False)
class LeftMembers:
    """The members that are left, in no order."""

    parts: tuple[tuple[DetailsColumns, I64], ...]
    """Files, and the rows of each that count."""

    def __len__(self) -> int:
        return sum(len(rows) for _, rows in self.parts)

    def members(self) -> MemberColumns:
        """All of them, as Arrow columns."""
        found = [file.members(rows) for file, rows in self.parts] or [NO_MEMBERS]
        if len(found) == 1:
            return found[0]
        return MemberColumns(*(pa.concat_arrays(column) for column in zip(*found, strict=True)))

    def entries(self) -> list[GroupEntry]:
        """The same as members."""
        return self.members().entries()


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
    kept = [one for one, later in pairwise(files) if not is_repeated(one, later)]
    kept += files[-1:]
    if any(_has_local_keys(file) for file in kept):
        return None
    if len(kept) == 1 and _are_distinct(kept[0].key_prints):
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


def _are_distinct(prints: U64) -> bool:
    table, slots = _hashed(prints)
    # Of equal numbers one at most is in the table: another one lost its slot.
    lost = np.flatnonzero(table[slots] != np.arange(len(prints)))
    ordered = np.sort(prints[lost])
    is_twice = bool((prints[table[slots[lost]]] == prints[lost]).any())
    return not is_twice and not bool((ordered[1:] == ordered[:-1]).any())


def _hashed(prints: U64) -> tuple[npt.NDArray[np.int32], I64]:
    """A table that has the place of one of the numbers in each slot, and the slot of each."""
    bits = (4 * len(prints)).bit_length()
    slots = (prints >> np.uint64(64 - bits)).astype(np.int64)
    table = np.zeros(1 << bits, np.int32)
    table[slots] = np.arange(len(prints))
    return table, slots


def is_repeated(file: DetailsColumns, later: DetailsColumns) -> bool:
    """Whether every key of a file surely stands in a later one too.

    The numbers of keys only say where to look: the bytes decide.
    """
    if len(file) > len(later):
        return False
    if not len(file):
        return True
    rows = _look_up(file.key_prints, later.key_prints)
    if rows is None or (file.key_lengths != later.key_lengths[rows]).any():
        return False
    # Keys of one length have as many words here as there, however long others are.
    pairs = zip(file.key_words, later.key_words, strict=False)
    return all(bool((mine == other[rows]).all()) for mine, other in pairs)


def _look_up(wanted: U64, among: U64) -> I64 | None:
    """For each number its row among others; None if one is not among them."""
    table, slots = _hashed(among)
    shift = np.uint64(65 - len(table).bit_length())
    rows: I64 = table[(wanted >> shift).astype(np.int64)].astype(np.int64)
    missed = np.flatnonzero(among[rows] != wanted)
    if len(missed):
        lost = np.flatnonzero(table[slots] != np.arange(len(among)))
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
