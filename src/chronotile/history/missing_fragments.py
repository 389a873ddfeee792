"""Commits whose fragment is not there, and fragments that look like the ones they mean.

In: a commit table, and the folders that were listed. Out: which writes have no folder; and pairs of
names that differ by so little that one of them must be the other, damaged. Whole names are compared
wherever a thing is judged to be there or not: one wrong digit makes another name of it.
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

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from chronotile.history.commit_table import CommitTable, Mask

FEW_LETTERS = 4
"""Letters in which a damaged name differs from the right one, at most. Two uuids that were drawn
at random agree in all others about once in 10^33 times."""


def lost_writes(table: CommitTable, folders: Sequence[str]) -> Mask:
    """Which rows are writes that count, but have none of these folders as their fragment."""
    uris = table.uris
    if not folders and table.is_all_writes:
        return table.counts
    lost: Mask = table.counts & (uris.ext == WRT)
    if not folders:
        return lost
    rows = np.flatnonzero(lost)
    names, there = text_columns.names(table, rows), pa.array(folders, pa.string())
    if len(folders) == len(rows):
        # One for one, as a rule: in the order of their times neighbours need only be equal.
        found, _ = scan_names(folders)
        order = np.lexsort((found.uuid_start, found.t2, found.t1))
        if pc.all(pc.equal(names, there.take(pa.array(order)))).as_py():
            return np.zeros(len(table), bool)
    lost[rows] = ~np.asarray(pc.is_in(names, value_set=there), bool)
    return lost


def near_misses(lost: Iterable[str], free: Iterable[str]) -> dict[str, tuple[str, ...]]:
    """For names without a folder, the folders without a commit that they may stand for.

    Args:
        lost: Names that a commit gives, and that no folder has.
        free: Names of folders that no commit gives.

    Returns:
        Lost name -> those of the same times, or that differ in a few letters.

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
    """Whether two names differ in so few letters that one is the other, damaged.

    >>> is_near("__1_1_ab_22", "__1_1_aa_22"), is_near("__1_1_ab_22", "__1_1_ab_22")
    (True, False)
    """
    if len(one) != len(other):
        return False
    return 0 < sum(a != b for a, b in zip(one, other, strict=True)) <= FEW_LETTERS


def _times(name: str) -> tuple[int, int] | None:
    parsed = try_parse(name)
    return None if parsed is None else parsed[:2]
