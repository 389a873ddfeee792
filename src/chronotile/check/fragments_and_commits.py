"""Checks of fragments against the commits that name them.

In: the rules of a history. Out: findings. Sees names and folders, never cells: the true times of a
fragment are known only as long as its `.vac` lists what it was made from.
"""

from __future__ import annotations

from itertools import chain
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from chronotile.check.findings import (
    KEEP_OR_DROP,
    SKEW_MS,
    TIDY,
    Finding,
    Severity,
    count_text,
    finding,
    shown,
)
from chronotile.check.undone_restores import undone_finding, undone_restores
from chronotile.format.commit_files import FIRST_WITH_COMMITS, read_vac_line
from chronotile.format.kinds import COMMITS, FRAGMENTS, OK
from chronotile.format.names import MAX_TIMESTAMP, NEWEST_VERSION, is_name, parse_name, try_parse
from chronotile.format.timestamps import now_ms, time_text
from chronotile.history.missing_fragments import near_misses
from chronotile.history.redundant_con_files import coverage
from chronotile.visibility.rules import schema_at

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from chronotile.check.fragment_health import Health
    from chronotile.history.read_history import History
    from chronotile.visibility.rules import Rules

COMMIT_IT = "to commit it, so that its rows show: chronotile repair {array} --commit-orphans"
"""The hint on a whole fragment whose `.vac` hides what it replaces."""
MANY_LOOSE = 100
"""From this many loose commits on, they are worth consolidating."""


def fragments(
    rules: Rules,
    orphans: Mapping[str, Health] | None = None,
    repairs: Mapping[str, str] = {},
) -> Iterator[Finding]:
    """Find fragments without commits, commits without fragments, and times that mislead.

    `orphans` is the health of fragments without an effective commit, if somebody looked;
    `repairs` are the repairs that took such commits out.
    """
    yield from missing(rules)
    yield from uncommitted(rules, orphans, repairs)
    yield from misnamed(rules.history)
    yield from (undone_finding(rules.history, one) for one in undone_restores(rules.history))
    yield from same_times(rules)
    yield from future(rules.history)
    yield from many_loose(rules.history)


def missing(rules: Rules) -> Iterator[Finding]:
    """Find commits whose fragment is gone (F10); a warning if a `.vac` always hides it."""
    table, array = rules.history.table, rules.history.array
    lost = rules.fragment_rows[rules.missing].tolist()
    hidden = rules.superseded(0, MAX_TIMESTAMP)[rules.missing] if lost else ()
    near = near_misses(map(table.name, lost), rules.uncommitted) if lost else {}
    for row, is_hidden in zip(lost, hidden, strict=True):
        it = "it" if table.path(row) == table.uri(row) else table.uri(row)
        message = f"{it} commits {table.fragment_path(row)}, which is gone"
        if others := near.get(table.name(row)):
            message += (
                f"; {shown(list(others))} of the same time is there without a commit: "
                f"one of the names may be damaged, so nothing must be removed"
            )
        severity: Severity = "warning" if is_hidden else "error"
        path = table.path(row)
        yield finding(array, "commit-without-fragment", path, message, severity=severity)
    for row in rules.ok_without_folder.tolist():
        message = f"{table.uri(row)} has no fragment; TileDB passes over it"
        yield finding(array, "commit-without-fragment", table.path(row), message, severity="info")


def orphan_paths(rules: Rules) -> dict[str, bool]:
    """Map folders of fragments without an effective commit to whether an `.ign` names it."""
    table, ignored = rules.history.table, rules.ignored().tolist()
    paths = {path: False for name, path in rules.uncommitted.items() if is_name(name)}
    folders = rules.history.listing.fragment_paths() if ignored else {}
    named = (table.fragment_path(row) for row in ignored if table.name(row) in folders)
    return paths | dict.fromkeys(named, True)


def uncommitted(
    rules: Rules,
    health: Mapping[str, Health] | None = None,
    repairs: Mapping[str, str] = {},
) -> Iterator[Finding]:
    """Find fragments without a commit, or whose commit is ignored.

    Their health, if somebody looked, decides which vacuum removes them; those that a repair took
    out come back by its undo.
    """
    hiding = lone_vacuums(rules)
    for path, is_ignored in orphan_paths(rules).items():
        hint = None if health is None else _removes_orphan(health[path], is_ignored=is_ignored)
        message = "no commit names this fragment: its write is still running, it failed, or its "
        message += "commit was lost"
        if (cut := cut_con(rules.history, path.rpartition("/")[2])) is not None:
            message = f"no commit names this fragment; {cut}, which is cut, probably held it"
        severity: Severity = "warning"
        if is_ignored:
            message, severity = "its commit is ignored: a removal that was broken off", "info"
        elif lone := hiding.get(path.rpartition("/")[2]):
            message = lone.words
            is_broken = health is not None and not health[path].is_whole
            hint = COMMIT_IT
            if is_broken:
                hint = f"nothing to run: move {lone.path} out of the array by hand: then what it "
                hint += "lists is visible again"
        if (repair := repairs.get(path)) is not None and health is not None:
            message, severity = f"taken out by repair {repair}", "warning"
            message += f": {health[path].problem}" if health[path].problem else ""
            hint = _undoes_repair(health[path], repair, hint)
        code, array = "fragment-without-commit", rules.history.array
        yield finding(array, code, path, message, severity=severity, hint=hint)


def cut_con(history: History, name: str) -> str | None:
    """Name a cut `.con` with the time of a fragment that no commit names."""
    own = parse_name(name)
    for path in (problem.path for problem in history.problems if problem.kind == "con"):
        con = try_parse(path.rpartition("/")[2].removesuffix(".con"))
        if con is not None and con.t1 <= own.t1 and own.t2 <= con.t2:
            return path
    return None


class LoneVacuum(NamedTuple):
    """A `.vac` that hides committed fragments, while the one that replaces them has no commit."""

    path: str
    number: int

    @property
    def words(self) -> str:
        """The fact, in a sentence."""
        hidden = count_text(self.number, "committed fragment")
        lone = "this one, which has their rows, has no commit: none of them is visible"
        return f"{self.path} hides {hidden}, and {lone}"


def lone_vacuums(rules: Rules) -> dict[str, LoneVacuum]:
    """Map the fragment that a `.vac` is named for to the `.vac`, if that alone hides fragments."""
    by = np.zeros(len(rules.fragment_rows), np.int64)
    for listed in rules.vacuumed:
        by[listed] += 1
    pairs = zip(rules.history.vacuums, rules.vacuumed, strict=True)
    counts = ((vacuum, int((by[listed] == 1).sum())) for vacuum, listed in pairs)
    return {v.name.text: LoneVacuum(v.path, count) for v, count in counts if count}


def _removes_orphan(health: Health, *, is_ignored: bool) -> str:
    """Say how to remove a fragment without an effective commit."""
    if not (health.is_whole or health.is_broken):
        return f"nothing to run: {health.problem}"
    option = "--whole-orphans" if health.is_whole else "--orphans"
    removes = "to remove it, 24 hours after its files were written"
    then = f"chronotile vacuum {{array}} {option}"
    if is_ignored:
        return f"{removes}: {TIDY} && {then}"
    return KEEP_OR_DROP if health.is_whole else f"if no write is under way, {removes}: {then}"


def _undoes_repair(health: Health, repair: str, removes: str | None) -> str:
    """Say how to bring back a fragment that a repair took out."""
    undo = f"chronotile undo {{array}} {repair}"
    if health.is_whole:
        return f"to bring its rows back: {undo}"
    if health.lacks is not None:
        return f"copy {health.lacks} back, then: {undo}"
    file = health.file.replace("{", "{{").replace("}", "}}")  # a hint is a format
    return f"if a backup has {file}, copy it back, then: {undo}; if none has, {removes}"


def misnamed(history: History) -> Iterator[Finding]:
    """Find merged fragments whose names do not cover the ones they were made from (F4)."""
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
    """Find writes of one millisecond (F13)."""
    history, table = rules.history, rules.history.table
    schemas = [item.schema for item in history.schemas if item.schema is not None]
    if schemas and all(schema.allows_duplicates for schema in schemas):
        return
    hidden = np.zeros(len(rules.fragment_rows), bool)
    hidden[list(rules.first_hidden_by())] = True
    rows = rules.fragment_rows[~hidden]
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


def future(history: History) -> Iterator[Finding]:
    """Find commits that an open now does not see yet: a clock was wrong, or a time was given."""
    table, last = history.table, now_ms() + SKEW_MS
    rows = np.flatnonzero(table.effective & (table.uris.t2 > last))
    if len(rows):
        count, first = count_text(len(rows), "commit"), int(table.uris.t2[rows].min())
        message = f"{count} of a time to come, the first at {time_text(first)} ({first})"
        yield finding(history.array, "future-commit", table.path(int(rows[0])), message)


def many_loose(history: History) -> Iterator[Finding]:
    """Find loose commits that a consolidation and a vacuum remove, if they are many.

    These are writes. The file of a delete stays, as the engine needs it (F1), and so does that of
    an update, of an ignored write, or of a version that is not known. An array that is too old to
    have a `.con` gets no finding.
    """
    table, latest = history.table, schema_at(history, MAX_TIMESTAMP)
    schema = None if latest is None else latest.schema
    is_old = schema is not None and schema.version < FIRST_WITH_COMMITS
    loose = table.loose & ~table.implied & (table.uris.ext <= OK) & ~table.ignored
    rows = np.flatnonzero(loose & ~table.is_from_version(NEWEST_VERSION + 1))
    if len(rows) < MANY_LOOSE or is_old:
        return
    message = f"{len(rows):,} loose commits: each open lists them all"
    in_con, hint = coverage(table).count_held(rows), None
    if len(rows) - in_con < MANY_LOOSE:
        message += f"; a .con holds {in_con:,} of them"
        hint = "to remove those: chronotile vacuum {array}"
    yield finding(history.array, "many-loose-commits", COMMITS, message, hint=hint)
