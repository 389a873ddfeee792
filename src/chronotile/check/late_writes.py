"""Writes that came after a delete of everything, and are dated before it: no row of them shows.

In: the rules of a history. Out: `LateWrites`, or findings. Reads nothing.

A delete touches every cell that is dated before it, whenever that was written. A restore or an
undelete that commits deletes again writes one that matches every row, in a `.con`, after a `.con`
with every commit that was there. So a write that stands in no `.con` came later. Once commits are
consolidated again, nothing tells any more.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from chronotile.check.findings import Finding, count_text, finding
from chronotile.conditions.delete import is_everything
from chronotile.errors import ChronotileError
from chronotile.format.kinds import FRAGMENTS
from chronotile.format.names import MAX_TIMESTAMP, Name, parse_name
from chronotile.format.timestamps import time_text
from chronotile.visibility.view import Update, tile_commits

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from chronotile.history.commit_table import CommitTable
    from chronotile.visibility.rules import Rules
    from chronotile.visibility.view import Delete


class LateWrites(NamedTuple):
    """Writes that a delete of everything hides, although they came later."""

    delete: Delete
    names: tuple[Name, ...]
    """In order of time."""

    @property
    def words(self) -> str:
        """The fact, in a sentence."""
        count = count_text(len(self.names), "write")
        when = f"{time_text(self.delete.t2)} ({self.delete.t2})"
        came = f"{count} came after the delete of everything of {when}"
        dated = "is dated before it" if len(self.names) == 1 else "are dated before it"
        return f"{came}, and {dated}: no row of {self.names[0].text} shows"


def late_writes(rules: Rules) -> Iterator[LateWrites]:
    """Find the writes that came after a delete of everything and are dated before it."""
    deletes = deletes_of_everything(rules)
    return told_apart(deletes, writes_in_no_con(rules, deletes))


def deletes_of_everything(rules: Rules) -> list[Delete]:
    """The deletes in a `.con` that match every row, in order of time."""
    table = rules.history.table
    return [
        commit
        for commit, row in tile_commits(rules, MAX_TIMESTAMP)
        if _is_everything(commit) and _in_con(table, [table.uri(row)])
    ]


def writes_in_no_con(rules: Rules, deletes: list[Delete]) -> list[Name]:
    """The visible writes that stand in no `.con`, and are dated before one of some deletes."""
    if not deletes:
        return []
    table = rules.history.table
    rows, _ = rules.visible(0, MAX_TIMESTAMP)
    rows = rows[(table.loose & ~table.implied & ~table.ignored)[rows]]
    rows = rows[table.uris.t2[rows] <= deletes[-1].t1]
    known = _in_con(table, [table.uri(row) for row in rows.tolist()])
    names = [parse_name(table.name(r)) for r in rows.tolist() if table.uri(r) not in known]
    # A fragment of several times was merged from others, which were there before.
    return [name for name in names if name.t1 == name.t2]


def told_apart(deletes: list[Delete], names: list[Name]) -> Iterator[LateWrites]:
    """Give to each delete the writes that it is the first to hide."""
    last = -1
    for commit in deletes:
        late = tuple(name for name in names if last < name.t2 <= commit.t1)
        last = commit.t1
        if late:
            yield LateWrites(commit, late)


def hidden_writes(array: str, late: Iterable[LateWrites]) -> Iterator[Finding]:
    """Give a finding for each delete of everything that hides later writes."""
    for found in late:
        first = found.names[0]
        rows = f"chronotile rows {{array}} --start {first.t1} --end {first.t2} lists its rows"
        hint = f"{rows}; write them again with a time after {found.delete.t2}"
        path = f"{FRAGMENTS}/{first.text}"
        yield finding(array, "late-write-hidden", path, found.words, hint=hint)


def _is_everything(commit: Delete) -> bool:
    try:
        schema = None if isinstance(commit, Update) else commit.schema
        return schema is not None and is_everything(commit.stored, schema)
    except ChronotileError:
        return False


def _in_con(table: CommitTable, uris: list[str]) -> set[str]:
    """Those of some commits that stand in a `.con`."""
    return {table.uri(row) for row in table.find(uris).tolist() if not table.is_loose(row)}
