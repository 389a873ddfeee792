"""What a vacuum removes, stage by stage.

In: a history, and the fragments that may go. Out: `Plan`: every file that goes, with its size and
why, in the order of `vacuum`. Lists folders, and removes nothing.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TYPE_CHECKING

from chronotile.change.change_report import Step
from chronotile.change.sound_array import FIRST_WITH_COMMITS, array_version
from chronotile.check.ledger import Ledger, later_name, read_ledger
from chronotile.format.commit_files import encode_lines
from chronotile.format.kinds import COMMITS

if TYPE_CHECKING:
    from collections.abc import Iterable

    from chronotile.change.removable_fragments import Removal
    from chronotile.history.reading import History
    from chronotile.storage.store import Entry, Store


@dataclass(frozen=True, slots=True, kw_only=True)
class Folder:
    """A fragment's folder and the files in it."""

    path: str
    files: tuple[Entry, ...]
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """What goes, stage by stage."""

    ignore: tuple[Step, ...]
    ignored: tuple[str, ...]
    fragment_commits: tuple[Step, ...]
    folders: tuple[Folder, ...]
    vacuums: tuple[Step, ...]
    loose: tuple[Step, ...]
    relied_on: frozenset[str]
    """`.con` files that hold what the loose commits said."""
    cons: tuple[Step, ...]
    ignores: tuple[Step, ...]
    ledger: Ledger

    def steps(self) -> tuple[Step, ...]:
        """All of it, in order."""
        files = tuple(
            Step(op="remove", path=entry.path, size=entry.size, reason=folder.reason)
            for folder in self.folders
            for entry in folder.files
        )
        before = (*self.ignore, *self.fragment_commits, *files, *self.vacuums)
        return (*before, *self.loose, *self.cons, *self.ignores)


def make_plan(
    store: Store, history: History, removal: Removal, *, commits: bool, spared: tuple[str, ...]
) -> Plan:
    """Works out what goes.

    Args:
        store: Where the array is.
        history: What was read of it.
        removal: The fragments that may go.
        commits: Whether commit files go that others hold.
        spared: Extensions of loose commits that stay all the same.
    """
    ledger = read_ledger(history)
    sizes = _Sizes(store)
    uris = [one.commit_uri for one in removal.fragments]
    in_use = {*ledger.loose, *(uri for held in ledger.cons.values() for uri in held)}
    fresh = tuple(uri for uri in uris if uri not in ledger.ignored and uri in in_use)
    ignore: tuple[Step, ...] = ()
    # Before `__commits` there was no `.con` either that could bring a commit back.
    version = array_version(history)
    if fresh and version >= FIRST_WITH_COMMITS:
        data = encode_lines(fresh)
        path = f"{COMMITS}/{later_name(fresh, (), version)}.ign"
        reason = f"{len(fresh)} writes that no longer count"
        ignore = (Step(op="put", path=path, size=len(data), reason=reason, data=data),)
    own = tuple(
        Step(
            op="remove",
            path=one.commit_uri,
            size=sizes.of(one.commit_uri),
            reason=f"its fragment is listed in {one.because}",
        )
        for one in removal.fragments
        if one.commit_uri in ledger.loose
    )
    after = ledger.without(loose=[step.path for step in own], ignoring=fresh)
    covered = tuple(_covered(after, spared)) if commits else ()
    cons = after.superseded() if commits else ()
    left = after.without(cons=cons)
    ignores = (f"{COMMITS}/{text}" for text in history.listing.tagged if text.endswith(".ign"))
    free = left.free_ignores(ignores) if commits else ()
    return Plan(
        ignore=ignore,
        ignored=fresh,
        fragment_commits=own,
        folders=_folders(store, removal),
        vacuums=tuple(
            sizes.removal(path, "nothing is left of what it lists") for path in removal.vacuums
        ),
        loose=tuple(sizes.removal(uri, f"stands in {holder}") for uri, holder in covered),
        relied_on=frozenset(holder for _, holder in covered)
        | (frozenset(after.cons) - frozenset(cons) if cons else frozenset()),
        cons=tuple(sizes.removal(path, "later .con files hold all of it") for path in cons),
        ignores=tuple(sizes.removal(path, "names no write of a .con") for path in free),
        ledger=after,
    )


def _covered(ledger: Ledger, spared: tuple[str, ...]) -> Iterable[tuple[str, str]]:
    """Loose commits that a `.con` holds as well, and the latest one that does."""
    later = ledger.later_first
    for uri, tile in ledger.loose.items():
        if uri.endswith(spared) or not ledger.counts(uri):
            continue
        for path in later:
            held = ledger.cons[path]
            if uri in held and held[uri] == tile:
                yield uri, path
                break


class _Sizes:
    """The sizes of the commit files, listed once."""

    def __init__(self, store: Store) -> None:
        folders = (store.list_dir(path, sizes=True) for path in (COMMITS, ""))
        self._known = {entry.path: entry.size for folder in folders for entry in folder.files}

    def of(self, path: str) -> int | None:
        return self._known.get(path)

    def removal(self, path: str, reason: str) -> Step:
        return Step(op="remove", path=path, size=self.of(path), reason=reason)


def _folders(store: Store, removal: Removal) -> tuple[Folder, ...]:
    if not removal.fragments:
        return ()
    with ThreadPoolExecutor(8) as pool:
        paths = [one.folder for one in removal.fragments]
        listed = pool.map(lambda path: store.list_prefix(path, sizes=True), paths)
        return tuple(
            Folder(path=one.folder, files=files, reason=f"listed in {one.because}")
            for one, files in zip(removal.fragments, listed, strict=True)
        )
