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
from chronotile.storage.place import PlainNames

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from chronotile.history.commit_table import CommitTable, Mask
    from chronotile.history.uri_columns import Bytes

_NEWLINE = 10
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
    written = text_columns.names(table, rows)
    if isinstance(folders, PlainNames) and are_same(written, folders):
        return np.zeros(len(table), bool)
    is_there = pc.is_in(written, value_set=pa.array(folders, pa.string()))
    lost[rows] = ~np.asarray(is_there, bool)
    return lost


def are_same(written: pa.Array, folders: PlainNames) -> bool:
    """Whether two lists of names are plainly the same, in any order; false if in doubt.

    As a rule each write has its folder, and all names are of one length. Both lists are then put in
    the order of a few letters of the uuid, and compared as blocks of bytes.

    >>> from chronotile.storage.place import plain_names
    >>> names = [f"__{number}_{number}_{number:032x}_22" for number in range(3)]
    >>> [are_same(pa.array(names), plain_names(some)) for some in (names[::-1], names[:2] * 2)]
    [True, False]
    """
    count, size = len(written), len(folders[0])
    # The last letters of a uuid: of names that a program counts up, the first ones are alike.
    end = folders[0].rfind("_")
    if count != len(folders) or len(folders.lines) != count * (size + 1) or end < 8:
        return False
    lines = np.frombuffer(folders.lines, np.uint8).reshape(count, size + 1)
    _, offsets, texts = written.buffers()
    ends = np.arange(count + 1, dtype=np.int32) * np.int32(size)
    if written.offset or bytes(offsets[: ends.nbytes]) != ends.tobytes():
        return False  # of several lengths
    if (lines[:, size] != _NEWLINE).any():
        return False
    own = np.frombuffer(texts, np.uint8, count * size).reshape(count, size)
    return _ordered(own, end) == _ordered(np.ascontiguousarray(lines[:, :size]), end)


def _ordered(block: Bytes, end: int) -> bytes:
    """The rows of a matrix in the order of the eight letters before a place."""
    keys = block[:, end - 8 : end].copy().view(np.uint64)[:, 0]
    rows = block.view(f"V{block.shape[1]}")[np.argsort(keys), 0]
    return bytes(rows.tobytes())


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
