"""Lifelines: when each fragment is visible, as the end of the window moves.

In: the rules of one history; tags. Out: one row per fragment: the first and the last `end` at which
a window from 0 on sees it. And the windows that a vacuum keeps, which know if they see a lifeline.
No file, no clock.

As `end` grows, a fragment comes into the window once (at t2, or at t1 if its cells have their own
times), and goes once, when the first `.vac` that lists it comes into the window. So two moments
are enough: `visible_from <= end <= visible_until`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import pyarrow as pa

from chronotile.format.names import MAX_TIMESTAMP, try_parse, version_of
from chronotile.history import text_columns
from chronotile.visibility.rules import Rule, first_end

if TYPE_CHECKING:
    from collections.abc import Iterator

    from chronotile.format.names import Name
    from chronotile.format.tag_entries import Tags
    from chronotile.visibility.rules import Rules


SCHEMA = pa.schema(
    [
        ("name", pa.string()),
        ("t1", pa.uint64()),
        ("t2", pa.uint64()),
        ("version", pa.int64()),
        ("visible_from", pa.uint64()),
        ("visible_until", pa.uint64()),
        ("reason", pa.string()),
        ("because", pa.string()),
    ]
)
"""`visible_from` and `visible_until` are the first and the last `end` that sees the fragment. Both
are null if none does; the second is null if the fragment never goes. `reason` says why later
windows, or all windows, do not see it."""

_REASONS = [rule.value for rule in (Rule.INSIDE, Rule.SUPERSEDED, Rule.MISSING)]


def lifelines(rules: Rules) -> pa.Table:
    """Give one row per fragment, committed or not."""
    return pa.concat_tables(lifeline_batches(rules, max(len(rules.fragment_rows), 1)))


def lifeline_batches(rules: Rules, most: int) -> Iterator[pa.Table]:
    """Give the rows of `lifelines` in tables of some rows each; there is one table at least."""
    table, rows = rules.history.table, rules.fragment_rows
    begin, missing = rules.first_ends, rules.missing
    gone, hider = np.full(len(rows), MAX_TIMESTAMP, np.uint64), np.zeros(len(rows), np.int32)
    paths: list[str | None] = [None]
    for at, vacuum in rules.first_hidden_by().items():
        gone[at] = first_end(vacuum.name, dense=rules.history.dense)
        hider[at] = len(paths)
        paths.append(vacuum.path)
    goes, comes = gone != MAX_TIMESTAMP, begin < gone
    seen = comes & ~missing
    reason = np.where(missing & comes, 2, goes.astype(np.int8))
    for first in range(0, max(len(rows), 1), most):
        here = slice(first, first + most)
        yield pa.table(
            [
                text_columns.names(table, rows[here]),
                pa.array(table.uris.t1[rows[here]]),
                pa.array(table.uris.t2[rows[here]]),
                text_columns.versions(table, rows[here]),
                pa.array(begin[here], mask=~seen[here]),
                pa.array(gone[here] - np.uint64(1), mask=~(seen & goes)[here]),
                pa.array(_REASONS).take(pa.array(reason[here])),
                pa.array(paths, pa.string()).take(pa.array(hider[here])),
            ],
            schema=SCHEMA,
        )
    if never := _never(rules):
        yield _never_table(never)


def fragment_count(rules: Rules) -> int:
    """Count the rows of `lifelines`: fragments that a commit or a folder names."""
    return len(rules.fragment_rows) + len(_never(rules))


def _never(rules: Rules) -> list[tuple[Name, str, str | None]]:
    """Find the fragments that no window sees, ignored or not committed: reason and because."""
    table = rules.history.table
    hidden: list[tuple[Name | None, str, str | None]] = [
        (try_parse(table.name(row)), Rule.IGNORED.value, table.ignores[table.uri(row)])
        for row in rules.ignored().tolist()
    ]
    hidden += [(try_parse(name), Rule.UNCOMMITTED.value, None) for name in rules.uncommitted]
    return [(name, reason, because) for name, reason, because in hidden if name is not None]


def _never_table(never: list[tuple[Name, str, str | None]]) -> pa.Table:
    rows = []
    for name, reason, because in never:
        row = (name.text, name.t1, name.t2, version_of(name), None, None, reason, because)
        rows.append(dict(zip(SCHEMA.names, row, strict=True)))
    return pa.Table.from_pylist(rows, schema=SCHEMA)


class Kept(NamedTuple):
    """Windows that a vacuum leaves as they are: those that end from one moment to another."""

    label: str
    """Why they are kept, in words."""
    first: int
    last: int
    any_start: bool = False
    """True if windows count that start later than 0."""

    def sees(self, from_ms: int, until_ms: int) -> bool:
        """Return True if one of them sees a file that is visible from one end on to before another.

        >>> Kept("the tag v1", 5, 5).sees(5, 6), Kept("the tag v1", 5, 5).sees(1, 5)
        (True, False)
        >>> Kept("all", 0, 9).sees(5, 5)
        False
        """
        is_seen = from_ms < until_ms or self.any_start
        return is_seen and self.first < until_ms and from_ms <= self.last


def kept_for(tags: Tags) -> tuple[Kept, ...]:
    """Give the windows of tags; all windows, if there may be a tag that cannot be read.

    >>> from chronotile.format.tag_entries import Tags
    >>> kept_for(Tags({"v1": 5}))
    (Kept(label='the tag v1', first=5, last=5, any_start=False),)
    """
    kept = [Kept(label, moment, moment) for label, moment in tags.labelled()]
    if tags.doubts:
        kept.append(Kept("a tag that cannot be read", 0, MAX_TIMESTAMP))
    return tuple(kept)


def kept_since(moment: int, label: str) -> Kept:
    """Give the windows that end at a moment or later."""
    return Kept(label, moment, MAX_TIMESTAMP, any_start=True)
