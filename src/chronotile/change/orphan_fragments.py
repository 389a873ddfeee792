"""Orphans: fragments that no commit names, and the remains of broken writes.

In: a store, a history, an age. Out: the folders and files that are old enough to go, and then fewer
of them. A write makes its folder first and commits it last, so only age tells an orphan from a
write that is under way. Its age counts from when it appeared: a copy by hard links has files that
are older than itself. What the record of an unfinished change names stays at any age. A whole
fragment lacks nothing but its commit, which may have been lost: it stays, unless the caller asks
for it.

A commit may come while we remove. So the metadata of the fragment goes first, then we read the
commits again: if one names the fragment now, the metadata comes back, else the rest goes. A change
that commits copies looks at them after its commit too: one of the two sees the other.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING

from chronotile.change.operations import unfinished_copies
from chronotile.change.plan import Seen, Step
from chronotile.check.commit_files import consolidated
from chronotile.check.findings import RefusedError
from chronotile.check.fragment_health import inspect
from chronotile.format.fragment_footer import METADATA
from chronotile.format.names import is_name
from chronotile.format.timestamps import time_text
from chronotile.history.read_history import read_history
from chronotile.storage.place import LEFTOVER
from chronotile.storage.store import MissingObjectError, ObjectExistsError, put_compared
from chronotile.visibility.rules import Rules

if TYPE_CHECKING:
    from collections.abc import Iterator

    from chronotile.history.read_history import History
    from chronotile.storage.store import Entry, Store

_LEN_BATCH = 1 << 26
"""Bytes of metadata to hold while commits are read again."""
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
    """Find the orphans that are old enough to go, and notes on those that stay.

    The newest file of an orphan must have appeared at `older_than_ms` or before; with `whole`,
    fragments go too that lack nothing but a commit.

    Raises:
        RefusedError: A `.con` may have been cut: a fragment that looks like an orphan may be
            needed.
    """
    _refuse_doubt(store, rules)
    orphans, notes = [], []
    paths = [path for name, path in rules.uncommitted.items() if is_name(name)]
    copies = unfinished_copies(store) if paths else {}
    for path, health in inspect(store, history, paths).items():
        files = store.list_prefix(path)
        if path in copies:
            notes.append(f"{path} is a copy of a change that has not ended: it stays")
            notes.append(f"if that was broken off, run it again, or remove {copies[path]}")
        elif _is_younger(newest := store.newest_ms(path), older_than_ms):
            when = "" if newest is None else f", was written {time_text(newest)}"
            why = "and is too young to be an orphan: its write may still run, so it stays"
            notes.append(f"{path} has no commit{when} {why}")
        elif (health.is_broken and not health.lacks) or (
            whole and (health.is_whole or health.lacks)
        ):
            orphans.append(Orphan(path=path, files=files, is_folder=True))
        elif health.lacks:
            notes.append(f"{path} lacks only {health.lacks}, which a backup may have: it stays")
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
        if not _is_younger(entry.modified_ms, older_than_ms):
            orphans.append(Orphan(path=path, files=(entry,), is_folder=False))
    return tuple(orphans), tuple(notes)


def remove_orphans(key: bytes | None, orphans: tuple[Orphan, ...], store: Store) -> Seen:
    """Remove orphans that have not changed and got no commit meanwhile; leave the others."""
    files = [orphan for orphan in orphans if not orphan.is_folder]
    store.remove(orphan.path for orphan in files)
    removed: list[Orphan] = [*files]
    # A list that was made while others wrote a `.con` and vacuumed can lack a commit in both
    # places: so all is read again, before and after the metadata goes.
    folders = [orphan for orphan in orphans if orphan.is_folder]
    for batch in _batches(_without_commit(store, key, folders)):
        going = [one for one in batch if store.list_prefix(one.path) == one.files]
        paths = [f"{orphan.path}/{METADATA}" for orphan in going]
        held = {path: data for path, data in store.read_many(paths) if isinstance(data, bytes)}
        store.remove(held)
        free = _without_commit(store, key, going)
        for orphan in going:
            path = f"{orphan.path}/{METADATA}"
            if orphan in free:
                store.remove_folder(orphan.path)
                removed.append(orphan)
            elif path in held:
                with suppress(ObjectExistsError):
                    put_compared(store, path, held[path])
    left = [orphan for orphan in orphans if orphan not in removed]
    staying = {path for one in left for path in (one.path, *(file.path for file in one.files))}
    why = "it changed, or got a commit, since it was looked at"
    notes = tuple(f"{orphan.path} stays: {why}" for orphan in left)
    return Seen(leave=frozenset(staying), notes=notes)


def _without_commit(store: Store, key: bytes | None, orphans: list[Orphan]) -> list[Orphan]:
    """Find the orphans that no commit names in a new reading of the array."""
    if not orphans:
        return []
    folders = frozenset(Rules(read_history(store, key=key)).uncommitted.values())
    return [orphan for orphan in orphans if orphan.path in folders]


def _batches(orphans: list[Orphan]) -> Iterator[list[Orphan]]:
    """Give orphans whose metadata fits into memory together."""
    batch: list[Orphan] = []
    size = 0
    for orphan in orphans:
        own = sum(file.size or 0 for file in orphan.files if file.path.endswith(METADATA))
        if batch and size + own > _LEN_BATCH:
            yield batch
            batch, size = [], 0
        batch.append(orphan)
        size += own
    if batch:
        yield batch


def _is_younger(newest_ms: int | None, moment: int) -> bool:
    # What has no time counts as new.
    return newest_ms is None or newest_ms > moment


def _refuse_doubt(store: Store, rules: Rules) -> None:
    cut = [f for f in consolidated(rules) if f.code == "con-truncated"]
    if cut:
        problem = f"expected whole .con files, found {cut[0].path}: {cut[0].message}"
        raise RefusedError(store.uri, f"{problem}; an orphan may be what it lost", tuple(cut))
