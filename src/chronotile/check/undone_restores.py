"""Restores that no longer hold: a merged fragment shows again what a restore hid.

In: a history. Out: `UndoneRestore`, or findings: the merged fragments, and what they were merged
from. Reads nothing.

A restore hides fragments by a `.vac` that has no fragment of its own name. An engine that began to
consolidate them before commits a fragment after it that no `.vac` lists: their cells show again.
The merged fragment's own `.vac` tells so, until a vacuum removes it with all that it lists.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from chronotile.check.findings import Finding, count_text, finding, shown
from chronotile.format.kinds import FRAGMENTS
from chronotile.format.names import is_name, parse_name

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from chronotile.history.read_history import History, VacuumFile


class UndoneRestore(NamedTuple):
    """A visible fragment that shows what a restore hid."""

    name: str
    merges: tuple[VacuumFile, ...]
    """The `.vac` files of this fragment, and of those it was merged from, that hold what the
    restore hid; its own comes first."""
    restore: str
    """The `.vac` of the restore."""
    hidden: tuple[str, ...]
    """What the restore hid, and shows again."""


def undone_restores(history: History) -> Iterator[UndoneRestore]:
    """Find the fragments that show what a restore hid."""
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


def restores_undone(history: History) -> Iterator[Finding]:
    """Give a finding for each restore that no longer holds."""
    return (undone_finding(history, one) for one in undone_restores(history))


def undone_finding(history: History, one: UndoneRestore) -> Finding:
    """Say that a restore no longer holds, and what to do."""
    count = count_text(len(one.hidden), "fragment")
    message = f"it was merged from {count} that {one.restore} hides: a restore no longer holds"
    there, hint = _there(history), None
    gone = [name for vacuum in one.merges for name in vacuum.targets if name not in there]
    if gone:
        message += f"; it was merged from {shown(gone[:1])} too, which is gone"
        end = max(min(parse_name(name).t1 for name in one.hidden) - 1, 0)
        hint = f"chronotile restore {{array}} --to {end} --rewrite hides it, and later writes too"
        if history.dense:
            hint = "nothing to run: a dense array keeps no times of cells"
    path = f"{FRAGMENTS}/{one.name}"
    return finding(history.array, "restore-undone", path, message, hint=hint)


def _there(history: History) -> frozenset[str]:
    return frozenset((*history.listing.fragments, *history.listing.root_fragments))


def _holders(hidden: Iterable[str], merges: Iterable[VacuumFile]) -> frozenset[str]:
    """The names of all fragments that were merged, in one or more steps, from hidden ones."""
    into: dict[str, list[str]] = {}
    for vacuum in merges:
        for name in vacuum.targets:
            into.setdefault(name, []).append(vacuum.name.text)
    waiting, found = list(hidden), set[str]()
    for name in waiting:  # it grows meanwhile
        new = [text for text in into.get(name, ()) if text not in found]
        found.update(new)
        waiting += new
    return frozenset(found)
