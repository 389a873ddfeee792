"""Orphans: fragments that no commit names, and the remains of broken writes.

In: a store, a history, an age. Out: the folders and files that are old enough to go. A write makes
its folder first and commits it last, so only age tells an orphan from a write that is under way. A
whole fragment lacks nothing but its commit, which may have been lost: it stays, unless the caller
asks for it.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from chronotile.change.plan import Seen, Step
from chronotile.check.commit_files import consolidated
from chronotile.check.findings import RefusedError
from chronotile.check.fragment_health import inspect
from chronotile.format.kinds import COMMITS
from chronotile.format.names import MAX_TIMESTAMP, is_name
from chronotile.history.read_history import read_history
from chronotile.storage.place import LEFTOVER
from chronotile.storage.store import MissingObjectError
from chronotile.visibility.rules import Rules

if TYPE_CHECKING:
    from chronotile.history.read_history import History
    from chronotile.storage.store import Entry, Store

HOURS_24 = 24 * 60 * 60 * 1000
"""The age from which a fragment without a commit is an orphan."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Orphan:
    """A fragment folder, or a file, of a write that never finished."""

    path: str
    files: tuple[Entry, ...]
    is_folder: bool

    @property
    def steps(self) -> tuple[Step, ...]:
        """The removal of its files."""
        reason = "no commit names its fragment" if self.is_folder else "left by a broken write"
        return tuple(
            Step(op="remove", path=entry.path, size=entry.size, reason=reason)
            for entry in self.files
        )


def find_orphans(
    store: Store, history: History, rules: Rules, older_than_ms: int, *, whole: bool = False
) -> tuple[tuple[Orphan, ...], tuple[str, ...]]:
    """The orphans that are old enough to go, and notes on those that stay.

    Args:
        store: Where the array is.
        history: What was read of it.
        rules: The rules applied to it.
        older_than_ms: The newest file of an orphan must be written at this moment or before.
        whole: Whether fragments go that lack nothing but a commit.

    Raises:
        RefusedError: A `.con` may have been cut: a fragment that looks like an orphan may be
            needed.
    """
    _refuse_doubt(store, history)
    orphans, notes = [], []
    paths = [path for name, path in rules.uncommitted.items() if is_name(name)]
    for path, health in inspect(store, history, paths).items():
        files = store.list_prefix(path, sizes=True)
        if _newest(files) > older_than_ms:
            notes.append(f"{path} has no commit but is too young to be an orphan: it stays")
        elif health.is_broken or (whole and health.is_whole):
            orphans.append(Orphan(path=path, files=files, is_folder=True))
        elif health.is_whole:
            notes.append(f"{path} lacks nothing but its commit, which may have been lost: it stays")
        else:
            notes.append(f"{path} has no commit, but {health.problem}: it stays")
    for path in history.listing.others:
        if not LEFTOVER.fullmatch(path):
            continue
        try:
            entry = store.head(path)
        except MissingObjectError:
            continue
        if _newest((entry,)) <= older_than_ms:
            orphans.append(Orphan(path=path, files=(entry,), is_folder=False))
    return tuple(orphans), tuple(notes)


@dataclass(frozen=True, slots=True)
class StillOrphans:
    """Look which orphans a second reading of the array finds without a commit too.

    A list that was made while others wrote a `.con` and vacuumed can lack a commit in both
    places; and a commit that was missing may be in a `.con` by now.
    """

    key: bytes | None = field(repr=False)
    orphans: tuple[Orphan, ...]

    def __call__(self, store: Store) -> Seen | None:
        """Look; leave those that have changed or been committed since."""
        if not self.orphans:
            return None
        folders = frozenset(Rules(read_history(store, key=self.key)).uncommitted.values())
        leave: set[str] = set()
        for orphan in self.orphans:
            if orphan.is_folder and not _is_still(store, orphan, folders):
                leave |= {orphan.path, *(entry.path for entry in orphan.files)}
        return Seen(leave=frozenset(leave))


def _is_still(store: Store, orphan: Orphan, uncommitted: frozenset[str]) -> bool:
    if orphan.path not in uncommitted:
        return False
    if store.list_prefix(orphan.path, sizes=True) != orphan.files:
        return False
    name = orphan.path.rpartition("/")[2]
    loose = (*store.list_names(COMMITS).files, *store.list_names("").files)
    return f"{name}.wrt" not in loose and f"{name}.ok" not in loose


def _newest(files: tuple[Entry, ...]) -> int:
    # A file without a time counts as new.
    times = (MAX_TIMESTAMP if f.modified_ms is None else f.modified_ms for f in files)
    return max(times, default=0)


def _refuse_doubt(store: Store, history: History) -> None:
    cut = [f for f in consolidated(history) if f.code == "con-truncated"]
    if cut:
        problem = f"expected whole .con files, found {cut[0].path}: {cut[0].message}"
        raise RefusedError(store.uri, f"{problem}; an orphan may be what it lost", tuple(cut))
