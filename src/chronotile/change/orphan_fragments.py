"""Fragments that no commit names, and the remains of broken writes.

In: a store, a history, an age. Out: the folders and files that are old enough to go, one by one.
A write makes its folder first and commits it last, so that only age tells an orphan from a write
that is under way. A fragment that is whole lacks nothing but its commit, which may have been lost:
it stays, unless it is asked for.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from chronotile.change.change_report import Step
from chronotile.change.sound_array import beside
from chronotile.check.commit_files import consolidated
from chronotile.check.findings import RefusedError
from chronotile.check.fragment_health import inspect
from chronotile.format.kinds import COMMITS, FRAGMENTS
from chronotile.format.names import MAX_TIMESTAMP, is_name
from chronotile.history.reading import read_history
from chronotile.storage.place import LEFTOVER
from chronotile.storage.store import MissingObjectError
from chronotile.visibility.rules import Rules

if TYPE_CHECKING:
    from chronotile.history.reading import History
    from chronotile.storage.store import Entry, Store

HOURS_24 = 24 * 60 * 60 * 1000
"""The age from which on a fragment without a commit is taken for an orphan."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Orphan:
    """A fragment folder, or a file, that nobody finished."""

    path: str
    files: tuple[Entry, ...]
    is_folder: bool

    @property
    def steps(self) -> tuple[Step, ...]:
        """Its removal."""
        reason = "no commit names its fragment" if self.is_folder else "left by a broken write"
        return tuple(
            Step(op="remove", path=entry.path, size=entry.size, reason=reason)
            for entry in self.files
        )


def find_orphans(
    store: Store, history: History, rules: Rules, older_than_ms: int, *, whole: bool = False
) -> tuple[tuple[Orphan, ...], tuple[str, ...]]:
    """Finds what is old enough to go, and says what is not.

    Args:
        store: Where the array is.
        history: What was read of it.
        rules: The rules applied to it.
        older_than_ms: When the newest file of an orphan must have been written, at the latest.
        whole: Whether fragments go that lack nothing but a commit.

    Raises:
        RefusedError: A `.con` may have been cut, or a quarantine stands beside the array: what
            looks like an orphan may be wanted yet.
    """
    _refuse_doubt(store, history)
    found, notes = [], []
    in_root = set(history.listing.root_fragments)
    names = [*filter(is_name, rules.uncommitted())]
    paths = [name if name in in_root else f"{FRAGMENTS}/{name}" for name in names]
    health = inspect(store, history, paths)
    for path in paths:
        files = store.list_prefix(path, sizes=True)
        orphan = Orphan(path=path, files=files, is_folder=True)
        if _newest(files) > older_than_ms:
            notes.append(f"{path} has no commit but is too young to be an orphan: it stays")
        elif health[path].is_broken or (whole and health[path].is_whole):
            found.append(orphan)
        elif health[path].is_whole:
            notes.append(f"{path} lacks nothing but its commit, which may have been lost: it stays")
        else:
            notes.append(f"{path} has no commit, but {health[path].problem}: it stays")
    for path in history.listing.others:
        if not LEFTOVER.fullmatch(path):
            continue
        try:
            entry = store.head(path)
        except MissingObjectError:
            continue
        if _newest((entry,)) <= older_than_ms:
            found.append(Orphan(path=path, files=(entry,), is_folder=False))
    return tuple(found), tuple(notes)


def still_orphans(store: Store, history: History, found: tuple[Orphan, ...]) -> tuple[Orphan, ...]:
    """Those that a second reading of the array finds without a commit too.

    A list that was made while others wrote a `.con` and vacuumed can lack a commit in both
    places; and one that was missing may be in a `.con` by now.
    """
    if not found:
        return ()
    again = read_history(store.uri, key=history.key, store=store)
    names = frozenset(Rules(again).uncommitted())
    return tuple(o for o in found if not o.is_folder or o.path.rpartition("/")[2] in names)


def remove_orphan(store: Store, orphan: Orphan) -> bool:
    """Removes one, unless it has changed or been committed since; says whether it did."""
    if not orphan.is_folder:
        store.remove([orphan.path])
        return True
    if store.list_prefix(orphan.path, sizes=True) != orphan.files:
        return False
    name = orphan.path.rpartition("/")[2]
    loose = (*store.list_names(COMMITS).files, *store.list_names("").files)
    if f"{name}.wrt" in loose or f"{name}.ok" in loose:
        return False
    store.remove_folder(orphan.path)
    return True


def _newest(files: tuple[Entry, ...]) -> int:
    # A file without a time is as young as can be.
    return max(
        (MAX_TIMESTAMP if f.modified_ms is None else f.modified_ms for f in files), default=0
    )


def _refuse_doubt(store: Store, history: History) -> None:
    cut = [f for f in consolidated(history) if f.code == "con-truncated"]
    if cut:
        problem = f"expected whole .con files, found {cut[0].path}: {cut[0].message}"
        raise RefusedError(store.uri, f"{problem}; an orphan may be what it lost", tuple(cut))
    above, name = beside(store, ".quarantine")
    if above.list_dir(name).folders:
        problem = f"expected no quarantine beside the array, found {name}"
        raise RefusedError(store.uri, f"{problem}; restore or remove it first")
