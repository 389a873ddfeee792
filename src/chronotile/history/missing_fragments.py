"""Commits without their fragment, and fragments whose names look like the missing ones.

In: a commit table, and the folders that were listed. Out: the writes without a folder; and pairs of
names that differ so little that one must be the other, damaged. Names are compared whole: one wrong
digit makes another name.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from chronotile.format.kinds import WRT
from chronotile.format.names import try_parse
from chronotile.history import text_columns
from chronotile.history.lines_to_columns import scan_names
from chronotile.storage.place import PlainNames

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from chronotile.history.commit_table import CommitTable, Mask
    from chronotile.history.uri_columns import I64, Bytes

_NEWLINE = 10
_MIX = np.uint64(0x9E37_79B9_7F4A_7C15)
_STEP = 1 << 14
"""Names that are compared at once."""
FEW_LETTERS = 4
"""The most letters in which a damaged name differs from the right one. Two random uuids agree in
all other letters about once in 10^33 times."""


def lost_writes(table: CommitTable, folders: Sequence[str]) -> Mask:
    """Mask of the effective writes whose fragment is not among these folders."""
    uris = table.uris
    if not folders and table.is_all_writes:
        return table.counts
    lost: Mask = table.counts & (uris.ext == WRT)
    if not folders:
        return lost
    rows = np.flatnonzero(lost)
    if isinstance(folders, PlainNames) and are_same(text_columns.names(table, rows), folders):
        return np.zeros(len(table), bool)
    lost[rows[match_names(table, rows, folders)[0]]] = False
    return lost


def match_names(table: CommitTable, rows: I64, folders: Sequence[str]) -> tuple[Mask, Mask]:
    """Mark the rows whose name is among some folders, and the folders that such a row names.

    Names are compared as text, in parts by their time and uuid: a million take little memory.
    """
    named, text = scan_names(folders)
    of_row, of_folder = np.zeros(len(rows), bool), np.zeros(len(folders), bool)
    parts = np.uint64(1 + max(len(rows), len(folders)) // _STEP)
    row_part = (table.uris.t1[rows] + table.uris.uuid_start[rows]) % parts
    folder_part = (named.t1 + named.uuid_start) % parts
    for part in range(int(parts)):
        own, there = np.flatnonzero(row_part == part), np.flatnonzero(folder_part == part)
        ends = named.start[there] + named.length[there]
        spans = zip(named.start[there].tolist(), ends.tolist(), strict=True)
        names = pa.array([text[start:end] for start, end in spans], pa.binary())
        written = text_columns.names(table, rows[own]).cast(pa.binary())
        of_row[own] = pc.is_in(written, value_set=names)
        of_folder[there] = pc.is_in(names, value_set=written)
    return of_row, of_folder


def are_same(written: pa.Array, folders: PlainNames) -> bool:
    """Whether two lists of names are plainly the same, in any order; false if in doubt.

    As a rule each write has its folder, and all names are of one length. Both lists are then put in
    the order of a few letters of the uuid, and compared as blocks of bytes.

    >>> from chronotile.storage.place import plain_names
    >>> names = [f"__{number}_{number}_{number:032x}_22" for number in range(3)]
    >>> [are_same(pa.array(names), plain_names(some)) for some in (names[::-1], names[:2] * 2)]
    [True, False]
    """
    first = folders.lines.partition(b"\n")[0]
    count, size = len(written), len(first)
    # The last letters of a uuid: of names that a program counts up, the first ones are alike.
    end = first.rfind(b"_")
    if count != len(folders) or len(folders.lines) != count * (size + 1) or end < 16:
        return False
    lines = np.frombuffer(folders.lines, np.uint8).reshape(count, size + 1)
    _, offsets, texts = written.buffers()
    ends = np.arange(count + 1, dtype=np.int32) * np.int32(size)
    if written.offset or bytes(offsets[: ends.nbytes]) != ends.tobytes():
        return False  # of several lengths
    if (lines[:, size] != _NEWLINE).any():
        return False
    own = np.frombuffer(texts, np.uint8, count * size).reshape(count, size)
    own_order, order = _order(own, end), _order(lines, end)
    return all(
        bool((own[own_order[at : at + _STEP]] == lines[order[at : at + _STEP], :size]).all())
        for at in range(0, count, _STEP)
    )


def _order(block: Bytes, end: int) -> I64:
    """Order the rows of a matrix by the 16 letters before a place, in which they seldom agree."""
    first, last = block[:, end - 16 : end].copy().view(np.uint64).T
    return np.argsort(first * _MIX + last)


def near_misses(lost: Iterable[str], free: Iterable[str]) -> dict[str, tuple[str, ...]]:
    """For each lost fragment, the folders without a commit that may be it.

    Their names have the same times, or differ in a few letters.

    >>> one, two = (f"__1_1_{'0' * 31}{digit}_22" for digit in "01")
    >>> near_misses([one], [two]) == {one: (two,)}
    True
    """
    candidates = [(name, _times(name)) for name in free]
    found = {}
    for name in lost:
        times = _times(name)
        near = [n for n, t in candidates if (t is not None and t == times) or is_near(name, n)]
        if near:
            found[name] = tuple(near)
    return found


def is_near(one: str, other: str) -> bool:
    """Whether two names differ in so few letters that one must be the other, damaged.

    >>> is_near("__1_1_ab_22", "__1_1_aa_22"), is_near("__1_1_ab_22", "__1_1_ab_22")
    (True, False)
    """
    if len(one) != len(other):
        return False
    return 0 < sum(a != b for a, b in zip(one, other, strict=True)) <= FEW_LETTERS


def _times(name: str) -> tuple[int, int] | None:
    parsed = try_parse(name)
    return None if parsed is None else parsed[:2]
