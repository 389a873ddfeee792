"""Commits without their fragment, and fragments whose names look like the missing ones.

In: a commit table, and the folders that were listed. Out: the writes without a folder; and pairs of
names that differ so little that one must be the other, damaged. Names are compared whole: one wrong
digit makes another name.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from chronotile.format.arrow_compute import texts_in
from chronotile.format.kinds import WRT
from chronotile.format.names import try_parse
from chronotile.history import text_columns
from chronotile.history.commit_table import order_by_time
from chronotile.history.lines_to_columns import scan_names
from chronotile.history.uri_columns import constant, picked

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    import pyarrow as pa

    from chronotile.history.commit_table import CommitTable
    from chronotile.history.uri_columns import I64, Mask

_STEP = 1 << 14
"""Names that are compared at once."""
FEW_LETTERS = 4
"""The most letters in which a damaged name differs from the right one. Two random uuids agree in
all other letters about once in 10^33 times."""


def lost_writes(table: CommitTable, folders: Sequence[str]) -> Mask:
    """Mark the effective writes whose fragment is not among these folders."""
    if not folders and table.is_all_writes:
        return table.effective
    lost: Mask = table.effective & (table.uris.ext == WRT)
    rows = np.flatnonzero(lost)
    if folders:
        lost[rows[match_names(table, rows, folders)[0]]] = False
    return lost


def match_names(table: CommitTable, rows: I64, folders: Sequence[str]) -> tuple[Mask, Mask]:
    """Mark the rows whose name is among some folders, and the folders that such a row names.

    Names are compared as text. As a rule each write has its folder, so both lists are the same in
    the order of time. If not, they are compared in parts by their time and uuid: a million take
    little memory.
    """
    named, text = scan_names(folders)
    only = constant(0, np.int32, len(folders))

    def folder_names(some: I64) -> pa.Array:
        start, length = named.start[some], picked(named.length, some)
        return text_columns.texts_at([text], only[: len(some)], start, length)

    if len(rows) == len(folders):
        order = order_by_time(named, only)
        in_order = folder_names(np.arange(len(folders)) if order is None else order)
        if in_order.equals(text_columns.names(table, rows)):
            return np.ones(len(rows), bool), np.ones(len(folders), bool)
    of_row, of_folder = np.zeros(len(rows), bool), np.zeros(len(folders), bool)
    parts = np.uint64(1 + max(len(rows), len(folders)) // _STEP)
    row_part = (table.uris.t1[rows] + table.uris.uuid_start[rows]) % parts
    folder_part = (named.t1 + named.uuid_start) % parts
    for part in range(int(parts)):
        own, there = np.flatnonzero(row_part == part), np.flatnonzero(folder_part == part)
        names, written = folder_names(there), text_columns.names(table, rows[own])
        of_row[own] = texts_in(written, names)
        of_folder[there] = texts_in(names, written)
    return of_row, of_folder


def near_misses(lost: Iterable[str], free: Iterable[str]) -> dict[str, tuple[str, ...]]:
    """Give for each lost fragment the folders without a commit that may be it.

    Their names have the same times, or differ in a few letters.

    >>> one, two = (f"__1_1_{'0' * 31}{digit}_22" for digit in "01")
    >>> near_misses([one], [two]) == {one: (two,)}
    True
    """
    candidates = [(name, _times(name)) for name in free]
    misses = {}
    for name in lost:
        times = _times(name)
        near = [n for n, t in candidates if (t is not None and t == times) or is_near(name, n)]
        if near:
            misses[name] = tuple(near)
    return misses


def is_near(one: str, other: str) -> bool:
    """Return True if two names differ in so few letters that one must be the other, damaged.

    >>> is_near("__1_1_ab_22", "__1_1_aa_22"), is_near("__1_1_ab_22", "__1_1_ab_22")
    (True, False)
    """
    if len(one) != len(other):
        return False
    return 0 < sum(a != b for a, b in zip(one, other, strict=True)) <= FEW_LETTERS


def _times(name: str) -> tuple[int, int] | None:
    parsed = try_parse(name)
    return None if parsed is None else parsed[:2]
