"""Checks of fragments against the commits that name them.

In: a history and its rules. Out: findings. Sees names and folders, never the cells in them: a
fragment's true times are known only as long as the `.vac` beside it lists what it was made from.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from chronotile.check.commit_files import shown
from chronotile.check.findings import Finding, Severity, finding
from chronotile.format.commit_files import read_vac_line
from chronotile.format.kinds import DEL
from chronotile.format.names import MAX_TIMESTAMP, is_name, parse_name
from chronotile.history.missing_fragments import near_misses

if TYPE_CHECKING:
    from collections.abc import Iterator

    from chronotile.history.reading import History
    from chronotile.visibility.rules import Rules

MANY_LOOSE = 100
"""From so many loose commits on they are worth consolidating."""


def fragments(history: History, rules: Rules) -> Iterator[Finding]:
    """Fragments without commits, commits without fragments, and times that mislead."""
    yield from missing(history, rules)
    yield from _uncommitted(history, rules)
    yield from _misnamed(history)
    yield from _same_times(history, rules)
    array, loose = history.array, _loose(history)
    if loose >= MANY_LOOSE:
        message = f"{loose} loose commits: each open lists them all"
        yield finding(array, "many-loose-commits", "__commits", message)


def missing(history: History, rules: Rules) -> Iterator[Finding]:
    """Commits whose fragment is gone (F10); one that a `.vac` always hides harms nobody."""
    table, array = history.table, history.array
    places = np.flatnonzero(rules.missing).tolist()
    if places:
        hidden = rules.superseded(0, MAX_TIMESTAMP)
        lost = {int(rules.fragments[at]): table.name(int(rules.fragments[at])) for at in places}
        near = near_misses(lost.values(), rules.uncommitted())
    for at in places:
        row = int(rules.fragments[at])
        message = f"{table.uri(row)} is committed, but {table.fragment_path(row)} is gone"
        if lost[row] in near:
            message += (
                f"; {shown(list(near[lost[row]]))} of the same time is there without a commit: "
                f"one of the names may be damaged, so nothing must be removed"
            )
        severity: Severity = "warning" if hidden[at] else "error"
        path = table.path(row)
        yield finding(array, "commit-without-fragment", path, message, severity=severity)
    for row in rules.ok_without_folder.tolist():
        message = f"{table.uri(row)} has no fragment; the engine passes over it"
        yield finding(array, "commit-without-fragment", table.path(row), message, severity="info")


def _uncommitted(history: History, rules: Rules) -> Iterator[Finding]:
    listing, array = history.listing, history.array
    in_root = set(listing.root_fragments)
    for name in filter(is_name, rules.uncommitted()):
        path = name if name in in_root else f"__fragments/{name}"
        message = "no commit names it: a write that is under way, or that was broken off"
        yield finding(array, "fragment-without-commit", path, message)
    folders = {*listing.fragments, *in_root}
    for row in rules.ignored().tolist():
        if history.table.name(row) in folders:
            path = history.table.fragment_path(row)
            message = "its commit is ignored: a removal that was broken off"
            yield finding(array, "fragment-without-commit", path, message, severity="info")


def _misnamed(history: History) -> Iterator[Finding]:
    for vacuum in history.vacuums:
        names = [read_vac_line(line).name for line in vacuum.lines]
        sources = [parse_name(name) for name in names if name is not None]
        own = vacuum.name
        outside = [name for name in sources if name.t1 < own.t1 or name.t2 > own.t2]
        if outside:
            first, last = min(n.t1 for n in sources), max(n.t2 for n in sources)
            message = f"its name says {own.t1} to {own.t2}, it was made from {first} to {last}"
            folder = f"__fragments/{own.text}" if (own.version or 0) >= 12 else own.text
            yield finding(history.array, "fragment-name-range", folder, message)


def _same_times(history: History, rules: Rules) -> Iterator[Finding]:
    schemas = [item.schema for item in history.schemas if item.schema is not None]
    if schemas and all(schema.allows_duplicates for schema in schemas):
        return
    table = history.table
    hidden = np.zeros(len(rules.fragments), bool)
    hidden[list(rules.first_hidden_by())] = True
    rows = rules.fragments[~hidden]
    # The parts of one consolidation share a longer time, and no cell.
    rows = rows[table.uris.t1[rows] == table.uris.t2[rows]]
    t1, t2 = table.uris.t1[rows], table.uris.t2[rows]
    alike = np.flatnonzero((t1[1:] == t1[:-1]) & (t2[1:] == t2[:-1]))
    last = -2
    for at in alike.tolist():
        if at != last + 1:
            one, other = (table.name(int(rows[at + more])) for more in (0, 1))
            message = f"{one} and {other} are of one time: which cell wins is not defined"
            path = table.fragment_path(int(rows[at]))
            yield finding(history.array, "same-timestamp", path, message)
        last = at


def _loose(history: History) -> int:
    """How many loose commits a vacuum would do away with.

    The file of a delete that stands in a `.con` too does not count: the engine needs it (F1).
    """
    table = history.table
    if not len(table):
        return 0
    count = int(np.count_nonzero(table.loose & ~table.implied))
    if count < MANY_LOOSE:
        return count
    deletes = [row for row in table.tile_rows.tolist() if table.uris.ext[row] == DEL]
    held = {table.uri(row) for row in deletes if not table.is_loose(row)}
    kept = sum(table.is_loose(row) and table.uri(row) in held for row in deletes)
    return count - kept
