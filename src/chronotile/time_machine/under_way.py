"""Writes and consolidations that are under way while an array is changed.

In: what a change does to fragments that it does not know, and names of such fragments. Out: why
one of them gets in the way, in words; notes, or a refusal. Changes nothing.

An engine that consolidates fragments reads them, writes the merged one, and commits it at the end.
If a change hides some of them in between, no `.vac` lists the merged one: it brings their cells
back. Its folder tells that it is under way, and its times span those of what it was merged from.
On a disk the folder is there while the engine writes; in a bucket it shows only at the end.

A delete of everything hides a merged fragment too, but also every write that is dated before it
and is committed later.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from chronotile.change.orphan_fragments import HOURS_24
from chronotile.check.findings import RefusedError
from chronotile.format.names import try_parse
from chronotile.format.timestamps import now_ms

if TYPE_CHECKING:
    from chronotile.format.names import Name
    from chronotile.storage.store import Store
    from chronotile.visibility.rules import Rules


class Effect(NamedTuple):
    """What a change does to fragments that it does not know."""

    hidden: tuple[Name, ...] = ()
    """Fragments that a `.vac` of the change hides."""
    wiped: int | None = None
    """The moment of a delete of everything, if the change writes one."""

    def why_in_the_way(self, text: str) -> str | None:
        """Say why a fragment that the change does not know gets in its way; None if it does not."""
        name = try_parse(text)
        if name is None:
            return None
        if self.wiped is not None:
            is_lost = name.t1 == name.t2 <= self.wiped
            return "it would never show" if is_lost else None
        if any(name.t1 <= one.t1 and one.t2 <= name.t2 for one in self.hidden):
            return "it would bring back what goes out of sight"
        return None


def look_under_way(store: Store, rules: Rules, effect: Effect) -> tuple[str, ...]:
    """Look for writes and consolidations under way that get in the way of a change.

    Returns:
        Notes on writes. Copies that a change which was broken off has left look the same.

    Raises:
        RefusedError: A consolidation is under way, as far as a folder without a commit tells.
    """
    notes = []
    for text, path in rules.uncommitted.items():
        why = effect.why_in_the_way(text)
        if why is None or not _is_young(store, path):
            continue
        if effect.wiped is not None:
            notes.append(f"{path} has no commit: if it is a write under way, {why}")
            continue
        problem = f"expected no consolidation under way, found {path} without a commit: {why}"
        command = f"chronotile vacuum {store.uri} --whole-orphans --orphan-age 0 removes it"
        hint = f"wait until it has ended, and try again; if it was broken off, {command}"
        raise RefusedError(store.uri, f"{problem}; {hint}")
    return tuple(notes)


def _is_young(store: Store, path: str) -> bool:
    """Whether a folder may belong to a write that is under way; an empty one may."""
    times = [entry.modified_ms for entry in store.list_prefix(path, sizes=True)]
    young = now_ms() - HOURS_24
    return not times or any(time is None or time > young for time in times)
