"""Checks of fragments against the commits that name them.

In: the rules of a history. Out: findings. Sees names and folders, never cells: the true times of a
fragment are known only as long as its `.vac` lists what it was made from.
"""

from __future__ import annotations

from itertools import chain
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from chronotile.check.findings import SKEW_MS, Finding, Severity, count_text, finding, shown
from chronotile.format.commit_files import read_vac_line
from chronotile.format.kinds import COMMITS, DEL, FRAGMENTS
from chronotile.format.names import MAX_TIMESTAMP, is_name, parse_name
from chronotile.format.timestamps import now_ms, time_text
from chronotile.history.missing_fragments import near_misses

if TYPE_CHECKING:
    from collections.abc import Iterator

    from chronotile.history.commit_table import CommitTable
    from chronotile.history.read_history import History
    from chronotile.visibility.rules import Rules

MANY_LOOSE = 100
"""From this many loose commits on, they are worth consolidating."""


def fragments(rules: Rules) -> Iterator[Finding]:
    """Fragments without commits, commits without fragments, and times that mislead."""
    yield from missing(rules)
    yield from uncommitted(rules)
    yield from misnamed(rules.history)
    yield from same_times(rules)
    yield from future(rules.history.array, future_commits(rules.history))
    table = rules.history.table
    yield from many_loose(rules.history.array, count_loose(table), table)


def missing(rules: Rules) -> Iterator[Finding]:
    """Commits whose fragment is gone (F10); a warning if a `.vac` always hides the fragment."""
    table, array = rules.history.table, rules.history.array
    lost = rules.fragments[rules.missing].tolist()
    hidden = rules.superseded(0, MAX_TIMESTAMP)[rules.missing] if lost else ()
    near = near_misses(map(table.name, lost), rules.uncommitted) if lost else {}
    for row, is_hidden in zip(lost, hidden, strict=True):
        message = f"{table.uri(row)} is committed, but {table.fragment_path(row)} is gone"
        if others := near.get(table.name(row)):
            message += (
                f"; {shown(list(others))} of the same time is there without a commit: "
                f"one of the names may be damaged, so nothing must be removed"
            )
        severity: Severity = "warning" if is_hidden else "error"
        path = table.path(row)
        yield finding(array, "commit-without-fragment", path, message, severity=severity)
    for row in rules.ok_without_folder.tolist():
        message = f"{table.uri(row)} has no fragment; the engine passes over it"
        yield finding(array, "commit-without-fragment", table.path(row), message, severity="info")


def uncommitted(rules: Rules) -> Iterator[Finding]:
    """Fragments without a commit, or whose commit is ignored."""
    table, array = rules.history.table, rules.history.array
    for name, path in rules.uncommitted.items():
        if is_name(name):
            message = "no commit names it: a write that is under way, or that was broken off"
            yield finding(array, "fragment-without-commit", path, message)
    ignored = rules.ignored().tolist()
    folders = rules.history.listing.fragment_paths() if ignored else {}
    for row in ignored:
        if table.name(row) in folders:
            path = table.fragment_path(row)
            message = "its commit is ignored: a removal that was broken off"
            yield finding(array, "fragment-without-commit", path, message, severity="info")


def misnamed(history: History) -> Iterator[Finding]:
    """Merged fragments whose names do not cover what they were made from (F4)."""
    listing, merged = history.listing, {vacuum.name.text for vacuum in history.vacuums}
    there = merged.intersection(chain(listing.fragments, listing.root_fragments))
    for vacuum in history.vacuums:
        if vacuum.name.text not in there:
            # A `.vac` without a fragment of its name merges nothing: a restore hides with it.
            continue
        names = [read_vac_line(line).name for line in vacuum.lines]
        sources = [parse_name(name) for name in names if name is not None]
        own = vacuum.name
        outside = [name for name in sources if name.t1 < own.t1 or name.t2 > own.t2]
        if outside:
            first, last = min(n.t1 for n in sources), max(n.t2 for n in sources)
            message = f"its name says {own.t1} to {own.t2}, it was made from {first} to {last}"
            folder = f"{FRAGMENTS}/{own.text}" if (own.version or 0) >= 12 else own.text
            yield finding(history.array, "fragment-name-range", folder, message)


def same_times(rules: Rules) -> Iterator[Finding]:
    """Writes of one millisecond (F13)."""
    history, table = rules.history, rules.history.table
    schemas = [item.schema for item in history.schemas if item.schema is not None]
    if schemas and all(schema.allows_duplicates for schema in schemas):
        return
    hidden = np.zeros(len(rules.fragments), bool)
    hidden[list(rules.first_hidden_by())] = True
    rows = rules.fragments[~hidden]
    # The fragments of one consolidation share a longer time range, and no cell.
    rows = rows[table.uris.t1[rows] == table.uris.t2[rows]]
    t1, t2 = table.uris.t1[rows], table.uris.t2[rows]
    alike = np.flatnonzero((t1[1:] == t1[:-1]) & (t2[1:] == t2[:-1]))
    last = -2
    for at in alike.tolist():
        if at != last + 1:
            one, other = (table.name(int(rows[at + more])) for more in (0, 1))
            message = f"{one} and {other} have the same time: which cell wins is not defined"
            path = table.fragment_path(int(rows[at]))
            yield finding(history.array, "same-timestamp", path, message)
        last = at


class FutureCommits(NamedTuple):
    """Commits that an open now does not see yet, as a clock was wrong or a time was given."""

    number: int = 0
    first: int = MAX_TIMESTAMP
    """The earliest of their times."""
    path: str = ""
    """The file of one of them."""


def future_commits(history: History) -> FutureCommits:
    """The commits of a time to come."""
    table, last = history.table, now_ms() + SKEW_MS
    rows = np.flatnonzero(table.counts & (table.uris.t2 > last))
    if not len(rows):
        return FutureCommits()
    return FutureCommits(len(rows), int(table.uris.t2[rows].min()), table.path(int(rows[0])))


def future(array: str, commits: FutureCommits) -> Iterator[Finding]:
    """The finding on commits of a time to come."""
    if commits.number:
        count = count_text(commits.number, "commit")
        message = f"{count} of a time to come, the first at {time_text(commits.first)}"
        yield finding(array, "future-commit", commits.path, f"{message} ({commits.first})")


def count_loose(table: CommitTable) -> int:
    """How many commits are files of their own."""
    return int(np.count_nonzero(table.loose & ~table.implied))


def many_loose(array: str, count: int, table: CommitTable) -> Iterator[Finding]:
    """The finding on loose commits that a vacuum would remove.

    The file of a delete that a `.con` holds too stays: the engine needs it (F1).

    Args:
        array: The array.
        count: Its loose commits.
        table: Its deletes, and perhaps other commits.
    """
    if count >= MANY_LOOSE:
        deletes = [row for row in table.tile_rows.tolist() if table.uris.ext[row] == DEL]
        in_con = {table.uri(row) for row in deletes if not table.is_loose(row)}
        count -= sum(table.is_loose(row) and table.uri(row) in in_con for row in deletes)
    if count >= MANY_LOOSE:
        message = f"{count:,} loose commits: each open lists them all"
        yield finding(array, "many-loose-commits", COMMITS, message)
