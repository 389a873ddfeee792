"""When each fragment is visible, as the end of the window moves.

In: the rules of one history. Out: one row per fragment: the first and the last `end` at which a
window from 0 on sees it. No file, no clock.

As `end` grows, a fragment comes into the window once (at t2, or at t1 if its cells have their own
times), and goes once, when the first `.vac` that lists it comes into the window. So two moments
are enough: `visible_from <= end <= visible_until`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from chronotile.format.names import MAX_TIMESTAMP, try_parse, version_of
from chronotile.history import text_columns
from chronotile.visibility.rules import Rule, first_end

if TYPE_CHECKING:
    from chronotile.format.names import Name
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


def lifelines(rules: Rules) -> pa.Table:
    """One row per fragment, committed or not."""
    history, rows = rules.history, rules.fragments
    table, uris = history.table, history.table.uris
    counted = pa.table(
        [
            text_columns.names(table, rows),
            pa.array(uris.t1[rows]),
            pa.array(uris.t2[rows]),
            text_columns.versions(table, rows),
            *(_unending(rules) or _lives(rules)),
        ],
        schema=SCHEMA,
    )
    never = _never(rules)
    return pa.concat_tables([counted, _never_table(never)]) if never else counted


def _lives(rules: Rules) -> list[pa.Array]:
    """The columns from `visible_from` on."""
    count, begin = len(rules.fragments), rules.first_ends
    gone = np.full(count, MAX_TIMESTAMP, np.uint64)
    hider = np.zeros(count, np.int64)
    paths: list[str | None] = [None]
    for at, vacuum in rules.first_hidden_by().items():
        gone[at] = first_end(vacuum.name, dense=rules.history.dense)
        hider[at] = len(paths)
        paths.append(vacuum.path)
    seen = (begin < gone) & ~rules.missing
    ends = seen & (gone != MAX_TIMESTAMP)
    reasons = pa.array([rule.value for rule in (Rule.INSIDE, Rule.SUPERSEDED, Rule.MISSING)])
    reason = np.where(rules.missing & (begin < gone), 2, (gone != MAX_TIMESTAMP).astype(np.int8))
    return [
        pa.array(begin, mask=~seen),
        pa.array(gone - np.uint64(1), mask=~ends),
        reasons.take(pa.array(reason)),
        pa.array(paths, pa.string()).take(pa.array(hider)),
    ]


def _unending(rules: Rules) -> list[pa.Array] | None:
    """What `_lives` gives if every fragment is seen, and none ever goes, as in most logs."""
    begin = rules.first_ends
    if rules.history.vacuums or not len(begin) or begin.max() == MAX_TIMESTAMP:
        return None
    if rules.missing.any():
        return None
    count = len(begin)
    never, nobody = pa.nulls(count, pa.uint64()), pa.nulls(count, pa.string())
    return [pa.array(begin), never, pa.repeat(Rule.INSIDE.value, count), nobody]


def fragment_count(rules: Rules) -> int:
    """How many rows `lifelines` gives: fragments that a commit or a folder names."""
    return len(rules.fragments) + len(_never(rules))


def _never(rules: Rules) -> list[tuple[Name, str, str | None]]:
    """The fragments that no window sees, ignored or not committed, with reason and because."""
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
