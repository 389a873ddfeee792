"""Vacuuming: removal of what no window needs.

In: an array. Out: fewer files, and a report; what an open sees stays as it was, except for the
time travel of dense arrays, which is announced. Removes only what it listed and read.

The order, so that a stop at any point leaves every window as it was:

  1. an `.ign` is put for the writes of fragments that are about to go, in a `.con` or not: a
     consolidation that is under way may yet write them into one;
  2. their own commit files go: from here on nothing counts them;
  3. their folders go, and then the `.vac` files that listed them;
  4. loose commits go of which a `.con`, read again just now, holds the same; unless they are
     asked for, the files of deletes stay, as the engine looks for them when it consolidates (F1);
  5. `.con` files go of which later ones hold every commit that counts (see `con_names`);
  6. `.ign` files go that name no write of any `.con` that is left.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, NamedTuple, TypeAlias, TypeVar

from chronotile.change.change_report import Report, Step
from chronotile.change.delete_update import put_compared
from chronotile.change.orphan_fragments import (
    HOURS_24,
    Orphan,
    find_orphans,
    remove_orphan,
    still_orphans,
)
from chronotile.change.removable_fragments import Removal, removable
from chronotile.change.sound_array import raw_key, sound_history, tell
from chronotile.change.vacuum_plan import Plan, make_plan
from chronotile.check.fragment_health import Health, inspect
from chronotile.errors import BadFileError, ChangedError, ChronotileError
from chronotile.format.commit_files import decode_con, decode_ign, decode_vac
from chronotile.format.kinds import COMMITS, FRAGMENTS, WRITES
from chronotile.format.timestamps import iso_time, now_ms
from chronotile.storage.store import MissingObjectError, Store, open_store

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from chronotile.change.sound_array import Before
    from chronotile.history.reading import History

Mode: TypeAlias = Literal["commits", "fragments", "all"]
T = TypeVar("T")


def vacuum(
    array: str,
    *,
    mode: Mode = "all",
    dry_run: bool = False,
    orphans: bool = False,
    orphans_age_ms: int = HOURS_24,
    whole_orphans: bool = False,
    loose_deletes: bool = False,
    updates: bool = False,
    key: bytes | str | None = None,
    storage_options: Mapping[str, str] | None = None,
    store: Store | None = None,
    announce: Callable[[str], None] | None = None,
    before: Before = None,
) -> Report:
    """Removes files that no window needs.

    Args:
        array: A path or a URI.
        mode: `commits` (loose commits that a `.con` holds, `.con` and `.ign` files that are
            superseded), `fragments` (those that a `.vac` lists), or both.
        dry_run: Remove nothing.
        orphans: Remove also unfinished fragments that no commit names.
        orphans_age_ms: How old the newest file in one must be.
        whole_orphans: Of these, remove also those that lack nothing but a commit, which may have
            been lost.
        loose_deletes: Remove also the files of deletes that a `.con` holds. The engine can then
            never consolidate commits again, as it looks for them (F1).
        updates: Remove also loose updates that a `.con` holds; an engine does not see them there.
        key: The key of an encrypted array. Without it no fragment can be shown to be whole, so
            none is removed.
        storage_options: What the storage needs to know.
        store: The store, if it is open already.
        announce: Called with each note before anything is removed.
        before: Called with what is about to be done, before it is.

    Raises:
        RefusedError: The array is damaged.
        ChangedError: Somebody else is at work on the same files; try again.

    >>> vacuum("memory:doc-nowhere")
    Traceback (most recent call last):
    chronotile.errors.ArrayNotFoundError: memory://doc-nowhere: expected an array, found no schema
    """
    wanted = _Wanted(
        commits=mode != "fragments",
        fragments=mode != "commits",
        orphans_age_ms=orphans_age_ms if orphans or whole_orphans else None,
        whole_orphans=whole_orphans,
        spared=(*(() if loose_deletes else (".del",)), *(() if updates else (".upd",))),
    )
    opened = store or open_store(array, storage_options)
    return _vacuumed(opened, raw_key(key), wanted, announce, before, dry_run=dry_run)


class _Wanted(NamedTuple):
    """What a caller wants to be removed."""

    commits: bool
    fragments: bool
    orphans_age_ms: int | None
    """How old an orphan must be; None where none is to go."""
    whole_orphans: bool
    spared: tuple[str, ...]
    """Extensions of loose commits that stay though a `.con` holds them."""


def _vacuumed(
    store: Store,
    key: bytes | None,
    wanted: _Wanted,
    announce: Callable[[str], None] | None,
    before: Before,
    *,
    dry_run: bool,
) -> Report:
    history, rules = sound_history(store, key)
    removal = Removal(fragments=(), vacuums=(), losses=(), notes=())
    if wanted.fragments:
        removal = removable(history, rules, _Inspected(store, history))
    strays: tuple[Orphan, ...] = ()
    notes = [*_losses(removal), *removal.notes]
    if wanted.orphans_age_ms is not None:
        oldest = now_ms() - wanted.orphans_age_ms
        strays, more = find_orphans(store, history, rules, oldest, whole=wanted.whole_orphans)
        notes += more
    plan = make_plan(store, history, removal, commits=wanted.commits, spared=wanted.spared)
    if announce is not None:
        for note in notes:
            announce(note)
    steps = (*plan.steps(), *(step for orphan in strays for step in orphan.steps))
    if not dry_run:
        tell(before, "vacuum", store.uri, steps, notes)
        steps = _Run(store, history, plan).done()
        for orphan in still_orphans(store, history, strays):
            if remove_orphan(store, orphan):
                steps += orphan.steps
    return Report(
        command="vacuum",
        array=store.uri,
        dry_run=dry_run,
        steps=steps,
        notes=tuple(notes),
        at_ms=now_ms(),
    )


class _Inspected:
    """Looks at fragments, at each once."""

    def __init__(self, store: Store, history: History) -> None:
        self._store, self._history = store, history
        self._known: dict[str, Health] = {}

    def __call__(self, paths: Iterable[str]) -> Mapping[str, Health]:
        wanted = tuple(paths)
        new = [path for path in wanted if path not in self._known]
        self._known |= inspect(self._store, self._history, new)
        return {path: self._known[path] for path in wanted}


def _losses(removal: Removal) -> Iterable[str]:
    for first, last in removal.losses:
        when = f"{iso_time(first)} to {iso_time(last)}"
        yield (
            f"time travel is lost from {first} to {last} ({when}): windows that start or end "
            f"inside of it no longer see the fragments that were consolidated"
        )


def _viewed(data: bytes, _: str) -> memoryview:
    return memoryview(data)


class _Run:
    """One run of a plan, in the order of the module's text."""

    def __init__(self, store: Store, history: History, plan: Plan) -> None:
        self.store = store
        self.history = history
        self.plan = plan
        self.extra: list[Step] = []

    def done(self) -> tuple[Step, ...]:
        """Carry it out, and say what was done."""
        plan = self.plan
        for step in plan.ignore:
            put_compared(self.store, step.path, step.data or b"")
        self._remove(plan.fragment_commits)
        for folder in plan.folders:
            # What makes an old fragment count without a commit file goes first.
            mark = f"{folder.path}/__fragment_metadata.tdb"
            if not folder.path.startswith(f"{FRAGMENTS}/"):
                self.store.remove([mark])
            self.store.remove_folder(folder.path)
        lines = {v.path: v.lines for v in self.history.vacuums}
        self._unchanged([step.path for step in plan.vacuums], lines, decode_vac)
        self._remove(plan.vacuums)
        if plan.loose or plan.cons:
            self._still_there()
            self._remove(plan.loose)
            self._unchanged([step.path for step in plan.cons], self._cons(), _viewed)
            self._remove(plan.cons)
            self._bring_back()
        removed = self._free_ignores()
        before = plan.steps()
        kept = frozenset(step.path for step in plan.ignores) - removed
        steps = [step for step in before if step.path not in kept]
        return (*steps, *self.extra)

    def _remove(self, steps: tuple[Step, ...]) -> None:
        if steps:
            self.store.remove(step.path for step in steps)

    def _cons(self) -> dict[str, memoryview]:
        """The `.con` files as they were read."""
        sources = self.history.table.sources
        return {one.path: one.data for one in sources if not one.loose}

    def _unchanged(
        self,
        paths: Iterable[str],
        read: Mapping[str, T],
        decode: Callable[[bytes, str], T],
    ) -> None:
        """Refuse to go on if a file is no more what was read of it: somebody is writing it."""
        for path, data in self.store.read_many(paths):
            if isinstance(data, MissingObjectError):
                continue
            if isinstance(data, ChronotileError):
                raise data
            if decode(data, path) != read[path]:
                problem = f"expected {path} as it was read, found it changed"
                raise ChangedError(self.store.uri, f"{problem}; try again")

    def _names(self) -> set[str]:
        return {entry.path for entry in self.store.list_dir(COMMITS).files}

    def _still_there(self) -> None:
        """Refuse to go on unless what is relied on is there, and holds what it held."""
        gone = self.plan.relied_on - self._names()
        if gone:
            problem = f"expected {min(gone)} to stay, found it gone: the array is changing"
            raise ChangedError(self.store.uri, f"{problem}; try again")
        self._unchanged(sorted(self.plan.relied_on), self._cons(), _viewed)

    def _bring_back(self) -> None:
        """Restore commits that a concurrent vacuum left in no file."""
        names = self._names()
        lost = self.plan.relied_on - names
        if not lost:
            return
        here = {uri for path in names if path.endswith(".con") for uri in self._held(path)}
        held = {
            uri: tile
            for path in sorted(lost)
            for uri, tile in self.plan.coverage.records(path).items()
        }
        missing = {
            uri: tile
            for uri, tile in held.items()
            if uri not in here and uri not in names and self._is_wanted(uri)
        }
        for uri, tile in missing.items():
            put_compared(self.store, uri, tile or b"")
            self.extra.append(
                Step(
                    op="put", path=uri, size=len(tile or b""), reason="brought back: its .con went"
                )
            )

    def _is_wanted(self, uri: str) -> bool:
        if not uri.endswith(WRITES):
            return True
        if uri in self.history.table.ignores or uri in self.plan.ignored:
            return False
        name = uri.rpartition("/")[2].rpartition(".")[0]
        folder = name if uri.endswith(".ok") else f"{FRAGMENTS}/{name}"
        return bool(self.store.list_dir(folder).files)

    def _held(self, path: str) -> frozenset[str]:
        known = self.plan.coverage.uris(path)
        if known is not None:
            return known
        return frozenset(record.uri for record in self._lines(path, decode_con))

    def _lines(self, path: str, decode: Callable[[bytes, str], tuple[T, ...]]) -> tuple[T, ...]:
        try:
            return decode(self.store.read(path), path)
        except MissingObjectError:
            return ()
        except BadFileError as cause:
            problem = f"expected {path} to be whole, found it being written: {cause.problem}"
            raise ChangedError(self.store.uri, f"{problem}; try again") from cause

    def _free_ignores(self) -> frozenset[str]:
        """Remove the `.ign` files that nothing needs, by a fresh look at the `.con` files."""
        plan = self.plan
        candidates = [step.path for step in (*plan.ignore, *plan.ignores)]
        if not candidates:
            return frozenset()
        cons = [path for path in self._names() if path.endswith(".con")]
        held = {uri for path in cons for uri in self._held(path) if uri.endswith(WRITES)}
        free = frozenset(
            path for path in candidates if held.isdisjoint(self._lines(path, decode_ign))
        )
        self.store.remove(sorted(free))
        for step in plan.ignore:
            if step.path in free:
                self.extra.append(
                    Step(op="remove", path=step.path, size=step.size, reason="no .con needs it")
                )
        return free
