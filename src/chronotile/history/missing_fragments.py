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

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from chronotile.history.commit_table import CommitTable, Mask

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
    there = pa.array(folders, pa.string())
    is_there = pc.is_in(text_columns.names(table, rows), value_set=there)
    lost[rows] = ~np.asarray(is_there, bool)
    return lost


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
