"""Two ways in which a restore and a write get into each other's way.

In: a history and its rules. Out: `UndoneRestore` and `LateWrites`, and findings. Reads nothing.

*Undone.* A restore hides fragments by a `.vac` that has no fragment of its own name. An engine that
began to consolidate them before commits a fragment after it that no `.vac` lists: their cells show
again. The merged fragment's own `.vac` says so, until a vacuum removes it with all that it lists.

*Late.* A delete touches every cell that is dated before it, whenever that was written. A restore or
an undelete that commits deletes again writes one that matches every row, in a `.con`, after a
`.con` with every commit that was there. So a write that stands in no `.con` came later, and no row
of it shows. Once commits are consolidated again, the evidence is gone.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from chronotile.check.findings import Finding, count_text, finding, shown
from chronotile.conditions.stored_conditions import is_everything
from chronotile.errors import ChronotileError
from chronotile.format.kinds import FRAGMENTS
from chronotile.format.names import MAX_TIMESTAMP, Name, is_name, parse_name
from chronotile.format.timestamps import time_text
from chronotile.visibility.view import Update, tile_commits

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from chronotile.history.commit_table import CommitTable
    from chronotile.history.read_history import History, VacuumFile
    from chronotile.visibility.rules import Rules
    from chronotile.visibility.view import Delete


class UndoneRestore(NamedTuple):
    """A visible fragment that shows cells that a restore hid."""

    name: str
    merges: tuple[VacuumFile, ...]
    """The `.vac` files of this fragment, and of those it was merged from, that hold what the
    restore hid; its own comes first."""
    restore: str
    """The `.vac` of the restore."""
    hidden: tuple[str, ...]
    """The fragments that the restore hid, and that show again."""


def undone_restores(history: History) -> Iterator[UndoneRestore]:
    """Find the fragments that show what a restore hid."""
    if not history.vacuums:
        return
    there = _there(history)
    merges = {v.name.text: v for v in history.vacuums if v.name.text in there}
    hiding = [v for v in history.vacuums if v.name.text not in there]
    hidden = {n: vacuum.path for vacuum in hiding for n in vacuum.targets if is_name(n)}
    holders = _holders(hidden, merges.values())
    if not holders:
        return
    listed = {name for vacuum in history.vacuums for name in vacuum.targets}
    for text in sorted(holders - listed):
        waiting, parts = [text], list[str]()
        for one in waiting:  # it grows meanwhile
            parts += merges[one].targets
            waiting += sorted(holders.intersection(merges[one].targets).difference(waiting))
        again = tuple(name for name in parts if name in hidden)
        yield UndoneRestore(text, tuple(merges[n] for n in waiting), hidden[again[0]], again)


def undone_finding(history: History, one: UndoneRestore) -> Finding:
    """Say that a restore no longer holds, and what to do."""
    count = count_text(len(one.hidden), "fragment")
    message = f"it was merged from {count} that {one.restore} hides: a restore no longer holds"
    there, hint = _there(history), None
    gone = [name for vacuum in one.merges for name in vacuum.targets if name not in there]
    if gone:
        message += f"; it was merged from {shown(gone[:1])} too, which is gone"
        end = max(min(parse_name(name).t1 for name in one.hidden) - 1, 0)
        command = f"chronotile restore {{array}} --to {end} --rewrite"
        hint = f"to hide it, and later writes too: {command}"
        if history.dense:
            hint = "nothing to run: a dense array keeps no times of cells"
    path = f"{FRAGMENTS}/{one.name}"
    return finding(history.array, "restore-undone", path, message, hint=hint)


def _there(history: History) -> frozenset[str]:
    return frozenset((*history.listing.fragments, *history.listing.root_fragments))


def _holders(hidden: Iterable[str], merges: Iterable[VacuumFile]) -> frozenset[str]:
    """Find all fragments that were merged, in one or more steps, from hidden ones."""
    into: dict[str, list[str]] = {}
    for vacuum in merges:
        for name in vacuum.targets:
            into.setdefault(name, []).append(vacuum.name.text)
    waiting, holders = list(hidden), set[str]()
    for name in waiting:  # it grows meanwhile
        new = [text for text in into.get(name, ()) if text not in holders]
        holders.update(new)
        waiting += new
    return frozenset(holders)


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
    """Find the writes that came after a delete of everything and are dated before it.

    Each delete gets the writes that it is the first to hide.
    """
    table = rules.history.table
    deletes = [
        commit
        for commit, row in tile_commits(rules, MAX_TIMESTAMP)
        if _is_everything(commit) and _in_con(table, [table.uri(row)])
    ]
    if not deletes:
        return
    rows, _ = rules.visible(0, MAX_TIMESTAMP)
    rows = rows[(table.loose & ~table.implied & ~table.ignored)[rows]]
    rows = rows[table.uris.t2[rows] <= deletes[-1].t1]
    known = _in_con(table, [table.uri(row) for row in rows.tolist()])
    names = [parse_name(table.name(r)) for r in rows.tolist() if table.uri(r) not in known]
    last = -1
    for commit in deletes:
        # A fragment of several times was merged from others, which were there before.
        late = tuple(n for n in names if n.t1 == n.t2 and last < n.t2 <= commit.t1)
        last = commit.t1
        if late:
            yield LateWrites(commit, late)


def hidden_writes(rules: Rules) -> Iterator[Finding]:
    """Give a finding for each delete of everything that hides later writes."""
    for late in late_writes(rules):
        first = late.names[0]
        rows = f"chronotile rows {{array}} --start {first.t1} --end {first.t2}"
        hint = f"to see its rows: {rows}; write them again with a time after {late.delete.t2}"
        path = f"{FRAGMENTS}/{first.text}"
        yield finding(rules.history.array, "late-write-hidden", path, late.words, hint=hint)


def hiding_vacs(history: History, moment: int) -> list[VacuumFile]:
    """List the `.vac` files from a moment on that are no merge's: a restore hides rows by them."""
    there = _there(history)
    return [one for one in history.vacuums if one.name.t2 >= moment and one.name.text not in there]


def is_passed(rules: Rules, t: int) -> bool:
    """Tell whether a restore since then hides all that updates of a moment touch.

    A restore hides fragments by a `.vac` that is no merge's. Rows that are written at the moment
    now would be hidden by nothing.
    """
    if not hiding_vacs(rules.history, t):
        return False
    visible = rules.visible(0, MAX_TIMESTAMP)[0]
    return not (rules.history.table.uris.t1[visible] <= t).any()


def _is_everything(commit: Delete) -> bool:
    try:
        schema = None if isinstance(commit, Update) else commit.schema
        return schema is not None and is_everything(commit.stored, schema)
    except ChronotileError:
        return False


def _in_con(table: CommitTable, uris: list[str]) -> set[str]:
    """Find those of some commits that stand in a `.con`."""
    return {table.uri(row) for row in table.find(uris).tolist() if not table.is_loose(row)}
