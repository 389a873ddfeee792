"""What a vacuum removes, stage by stage.

In: a history, and the fragments that may go. Out: `Plan`: every file that goes, with its size and
the reason, in the order of `vacuum`. Lists folders, and removes nothing.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from chronotile.change.change_report import Step, put
from chronotile.change.sound_array import array_version
from chronotile.check.findings import count_text
from chronotile.format.commit_files import FIRST_WITH_COMMITS, encode_lines
from chronotile.format.con_names import later_name
from chronotile.format.kinds import COMMITS, EXTENSIONS
from chronotile.format.names import NEWEST_VERSION
from chronotile.history.con_coverage import Coverage, coverage

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable

    from chronotile.check.vacuumable_fragments import Removal
    from chronotile.history.read_history import History
    from chronotile.storage.store import Entry, Store


@dataclass(frozen=True, slots=True, kw_only=True)
class Folder:
    """A fragment's folder and the files in it."""

    path: str
    files: tuple[Entry, ...]
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """The steps of a vacuum, stage by stage."""

    new_ignores: tuple[Step, ...]
    """The `.ign` that is put first, if one is needed."""
    ignored: tuple[str, ...]
    """URIs of the writes that it names."""
    fragment_commits: tuple[Step, ...]
    folders: tuple[Folder, ...]
    vacuums: tuple[Step, ...]
    loose: tuple[Step, ...]
    relied_on: frozenset[str]
    """`.con` files that must stay, as they hold the commits of the files that go."""
    cons: tuple[Step, ...]
    ignores: tuple[Step, ...]
    coverage: Coverage

    def steps(self) -> tuple[Step, ...]:
        """All steps, in order."""
        files = tuple(
            Step(op="remove", path=entry.path, size=entry.size, reason=folder.reason)
            for folder in self.folders
            for entry in folder.files
        )
        before = (*self.new_ignores, *self.fragment_commits, *files, *self.vacuums)
        return (*before, *self.loose, *self.cons, *self.ignores)

    def lasting(self) -> tuple[Step, ...]:
        """The steps without a new `.ign` that is needed only while the vacuum runs."""
        passing = self._passing()
        return tuple(step for step in self.steps() if step not in passing)

    def _passing(self) -> tuple[Step, ...]:
        gone = {step.path for step in self.cons}
        for source in self.coverage.table.sources:
            if source.loose or source.path in gone:
                continue
            if not (self.coverage.uris(source.path) or frozenset()).isdisjoint(self.ignored):
                return ()
        return self.new_ignores


def make_plan(
    store: Store, history: History, removal: Removal, *, commits: bool, kept: tuple[str, ...]
) -> Plan:
    """Plans a vacuum.

    Args:
        store: Where the array is.
        history: What was read of it.
        removal: The fragments that may go.
        commits: Whether to remove commit files whose commits other files hold.
        kept: Extensions of loose commits that stay even then.
    """
    table, sizes = history.table, _Sizes(store)
    rows = table.find([one.commit_uri for one in removal.fragments])
    rows = rows[~table.implied[rows]]
    in_use = {table.uri(row) for row in rows.tolist()}
    loose = {table.uri(row) for row in rows[table.loose[rows]].tolist()}
    fresh = tuple(
        one.commit_uri
        for one in removal.fragments
        if one.commit_uri in in_use and one.commit_uri not in table.ignores
    )
    new_ignores: tuple[Step, ...] = ()
    # An array without `__commits` has no `.con` that could bring a commit back.
    version = array_version(history)
    if fresh and version >= FIRST_WITH_COMMITS:
        path = f"{COMMITS}/{later_name(fresh, (), version)}.ign"
        verb = "counts" if len(fresh) == 1 else "count"
        reason = f"{count_text(len(fresh), 'write')} that no longer {verb}"
        new_ignores = (put(path, encode_lines(fresh), reason),)
    after = coverage(table, ignoring=fresh)
    covered = tuple(_covered(after, loose, kept)) if commits else ()
    cons = after.superseded(sizes.times) if commits else {}
    free = after.free_ignores(history.listing.paths_of(".ign"), cons) if commits else ()
    return Plan(
        new_ignores=new_ignores,
        ignored=fresh,
        fragment_commits=tuple(
            sizes.removal(one.commit_uri, f"its fragment is listed in {one.because}")
            for one in removal.fragments
            if one.commit_uri in loose
        ),
        folders=_folders(store, removal),
        vacuums=tuple(
            sizes.removal(path, "nothing is left of what it lists") for path in removal.vacuums
        ),
        loose=tuple(sizes.removal(uri, f"stands in {holder}") for uri, holder in covered),
        relied_on=frozenset(
            holder for holder in (*dict(covered).values(), *cons.values()) if holder is not None
        ),
        cons=tuple(
            sizes.removal(path, f"{holder} holds all of it" if holder else "none of it counts")
            for path, holder in cons.items()
        ),
        ignores=tuple(sizes.removal(path, "names no write of a .con") for path in free),
        coverage=after,
    )


def _covered(
    files: Coverage, removed: Collection[str], kept: tuple[str, ...]
) -> Iterable[tuple[str, str]]:
    """The loose commits that a `.con` holds as well, and the `.con` that stays."""
    table = files.table
    kinds = [number for number, extension in enumerate(EXTENSIONS) if extension in kept]
    is_candidate = table.loose & ~table.implied & ~np.isin(table.uris.ext, kinds)
    is_candidate &= ~table.is_from_version(NEWEST_VERSION + 1)
    for row, holder in files.holders(np.flatnonzero(is_candidate)):
        if (uri := table.uri(row)) not in removed:
            yield uri, holder


class _Sizes:
    """The sizes and times of the commit files, listed once."""

    def __init__(self, store: Store) -> None:
        folders = [store.list_dir(path, sizes=True) for path in (COMMITS, "")]
        files = [entry for folder in folders for entry in folder.files]
        self._known = {entry.path: entry.size for entry in files}
        self.times = {f.path: f.modified_ms for f in files if f.modified_ms is not None}

    def removal(self, path: str, reason: str) -> Step:
        return Step(op="remove", path=path, size=self._known.get(path), reason=reason)


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
