"""Vacuuming: removal of files that no window needs.

In: an array. Out: fewer files, and a report. Every window sees the same as before, except for the
time travel of dense arrays and of metadata, which is announced. Removes only files that it listed
and read.

The order, so that a stop at any point leaves every window as it was:

  1. put an `.ign` for the writes of fragments that are about to go, in a `.con` or not: a
     consolidation that is under way may still write them into one;
  2. remove their own commit files: from here on these writes are not effective;
  3. remove their folders, and then the `.vac` files that listed them;
  4. remove loose commits that a `.con`, read again just now, holds too; the files of deletes stay
     unless the caller asks, as the engine looks for them when it consolidates (F1);
  5. remove `.con` files if another holds all of their effective commits (see `con_coverage`), and
     read those again that hold what went: if one is gone, put its commits back;
  6. remove `.ign` files that name no write of any `.con` that is left;
  7. remove `.meta` files and metadata that another file holds all of: see `vacuum_metadata`;
  8. if the caller asks, remove deletes that no fragment needs (see `unneeded_deletes`): put a
     `.con` without them, remove those that hold them, then their own files.
"""

from __future__ import annotations

from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Literal, NamedTuple, TypeAlias, TypeVar, get_args

from chronotile.change.change_report import Before, Report, Step, check_mode, put, tell
from chronotile.change.engine_open_cost_change import requests_of_opens
from chronotile.change.kept_windows import Keep, doubtful, held_by_windows, kept_windows
from chronotile.change.orphan_fragments import (
    HOURS_24,
    Orphan,
    find_orphans,
    remove_orphans,
)
from chronotile.change.sound_array import sound_history
from chronotile.change.unneeded_deletes import (
    Unneeded,
    plan_deletes,
    remove_deletes,
    unneeded_deletes,
)
from chronotile.change.vacuum_metadata import plan_metadata_removal, remove_metadata
from chronotile.change.vacuum_stages import Plan, make_plan
from chronotile.check.findings import count_text
from chronotile.check.fragment_health import inspect
from chronotile.check.read_tags import tags_of
from chronotile.check.unreadable_tags import doubtful_tags
from chronotile.check.vacuumable_fragments import Removal, removable
from chronotile.errors import BadFileError, ChangedError, ChronotileError, shell_word
from chronotile.format.commit_files import decode_con, decode_ign, decode_vac
from chronotile.format.fragment_footer import METADATA
from chronotile.format.kinds import COMMITS, FRAGMENTS, WRITES
from chronotile.format.timestamps import iso_time, now_ms
from chronotile.storage.compared_put import put_compared
from chronotile.storage.store import MissingObjectError, ObjectExistsError, Store, open_store

if TYPE_CHECKING:
    import os
    from collections.abc import Callable, Iterable, Mapping

    from chronotile.format.timestamps import Moment
    from chronotile.history.read_history import History
    from chronotile.visibility.rules import Rules

Mode: TypeAlias = Literal["commits", "fragments", "fragment-meta", "array-meta", "all"]
T = TypeVar("T")

LOSS = "time travel is lost"
"""How a note on what a vacuum destroys begins."""


def vacuum(
    array: str | os.PathLike[str],
    *,
    mode: Mode = "all",
    dry_run: bool = False,
    orphans: bool = False,
    orphans_age_ms: int = HOURS_24,
    whole_orphans: bool = False,
    loose_deletes: bool = False,
    deletes: bool = False,
    updates: bool = False,
    keep: Iterable[Moment] = (),
    keep_days: float | None = None,
    group_tags: Mapping[str, int] | None = None,
    key: bytes | str | None = None,
    storage_options: Mapping[str, str] | None = None,
    store: Store | None = None,
    announce: Callable[[str], None] | None = None,
    before: Before = None,
) -> Report:
    """Removes files that no window needs.

    Args:
        array: A path or a URI.
        mode: `commits` (commit files that a `.con` replaces), `fragments` (those that a `.vac`
            lists), `fragment-meta` (`.meta` files), `array-meta` (merged metadata), or `all`.
        dry_run: Remove nothing.
        orphans: Remove also unfinished fragments that no commit names.
        orphans_age_ms: How old the newest file of an orphan must be, and a delete that goes.
        whole_orphans: Remove also orphans that lack only a commit, which may have been lost.
        loose_deletes: Remove also files of deletes in a `.con`: no engine consolidates then (F1).
        deletes: Remove also deletes that no fragment needs: all cells in their reach are purged.
        updates: Remove also loose updates that a `.con` holds; the engine does not see them there.
        keep: Moments: windows that end there stay as they are, as those of tags always do.
        keep_days: And windows that end within so many days.
        group_tags: And those of the tags of a group that the array is a member of.
        key: The key of an encrypted array; without it, no fragment is shown to be whole or removed.
        storage_options: What the storage needs to know.
        store: The store, if it is open already.
        announce: Called with each note before anything is removed.
        before: Called with the planned steps, before the first.

    Raises:
        RefusedError, ChangedError: The array is damaged; or somebody else changes it: try again.

    >>> vacuum("memory:doc-nowhere")
    Traceback (most recent call last):
    chronotile.errors.ArrayNotFoundError: memory://doc-nowhere: expected an array, found no schema
    """
    wanted = _Wanted(
        mode=mode,
        orphans_age_ms=orphans_age_ms if orphans or whole_orphans else None,
        whole_orphans=whole_orphans,
        deletes_age_ms=orphans_age_ms if deletes else None,
        kept=(*(() if loose_deletes else (".del",)), *(() if updates else (".upd",))),
        keep=Keep(tuple(keep), keep_days, group_tags or {}),
    )
    opened = store or open_store(array, storage_options)
    check_mode(opened.uri, mode, get_args(Mode))
    return _vacuum(opened, key, wanted, announce, before, dry_run=dry_run)


class _Wanted(NamedTuple):
    """What the caller wants to remove."""

    mode: Mode
    orphans_age_ms: int | None
    """How old an orphan must be; None to keep all orphans."""
    whole_orphans: bool
    deletes_age_ms: int | None
    """How old a delete must be that no fragment needs; None to keep all deletes."""
    kept: tuple[str, ...]
    """Extensions of loose commits that stay even if a `.con` holds them."""
    keep: Keep

    def has(self, mode: Mode) -> bool:
        """Whether to look at files of that kind."""
        return self.mode in (mode, "all")


def _vacuum(
    store: Store,
    key: bytes | str | None,
    wanted: _Wanted,
    announce: Callable[[str], None] | None,
    before: Before,
    *,
    dry_run: bool,
) -> Report:
    history, rules = sound_history(store, key)
    tags = tags_of(store, history)
    kept = kept_windows(store, history, tags, wanted.keep)
    removal = Removal(fragments=(), vacuums=(), losses=(), notes=())
    if wanted.has("fragments"):
        removal = removable(history, rules, partial(inspect, store, history), kept)
    orphans: tuple[Orphan, ...] = ()
    notes = [*doubtful(tags), *_losses(removal), *removal.notes]
    notes += held_by_windows(store, removal)
    if wanted.orphans_age_ms is not None:
        oldest = now_ms() - wanted.orphans_age_ms
        orphans, more = find_orphans(store, history, rules, oldest, whole=wanted.whole_orphans)
        notes += more
    plan = make_plan(store, history, removal, commits=wanted.has("commits"), kept=wanted.kept)
    gone = {folder.path.rpartition("/")[2] for folder in plan.folders}
    metadata = plan_metadata_removal(
        store,
        history,
        gone,
        footers=wanted.has("fragment-meta"),
        metadata=wanted.has("array-meta"),
        kept=kept,
    )
    going = _Going(store, history, rules, wanted.deletes_age_ms, plan)
    notes += [*_blocking(plan, shell_word(store.uri)), *metadata.notes, *going.unneeded.notes]
    if announce is not None:
        for note in notes:
            announce(note)
    steps = (*plan.lasting(), *metadata.steps())
    report = partial(
        Report,
        "vacuum",
        store.uri,
        dry_run=dry_run,
        findings=tuple(doubtful_tags(store.uri, tags)),
        engine_open_requests=requests_of_opens(store, rules, steps),
    )
    steps += tuple(step for orphan in orphans for step in orphan.steps)
    steps += going.steps()
    if not dry_run:
        # A run that is killed may leave a file behind that it would have removed.
        planned = (*plan.steps(), *steps[len(plan.lasting()) :])
        tell(before, report(steps=planned, notes=tuple(notes)))
        run = _Run(store, history, plan)
        steps = run.run()
        remove_metadata(store, history, metadata)
        steps += metadata.steps()
        removed = remove_orphans(store, history, orphans)
        steps += tuple(step for orphan in removed for step in orphan.steps)
        notes += [
            f"{orphan.path} stays: it changed, or got a commit, since it was looked at"
            for orphan in orphans
            if orphan not in removed
        ]
        steps += going.remove(key)
        notes += run.notes
    return report(steps=steps, notes=tuple(notes))


class _Going:
    """Deletes that are about to go, as no fragment needs them."""

    def __init__(
        self, store: Store, history: History, rules: Rules, age_ms: int | None, plan: Plan
    ) -> None:
        self.store, self.history, self.age_ms = store, history, age_ms
        self.unneeded = Unneeded({}, (), frozenset())
        if age_ms is not None:
            without = [folder.path for folder in plan.folders]
            oldest = now_ms() - age_ms
            self.unneeded = unneeded_deletes(store, rules, oldest, without=without)

    def steps(self) -> tuple[Step, ...]:
        """What is planned."""
        if not self.unneeded.reasons:
            return ()
        return plan_deletes(self.store, self.history, self.unneeded).steps()

    def remove(self, key: bytes | str | None) -> tuple[Step, ...]:
        """Looks again, as the fragments are gone that were to go, and removes the deletes."""
        if self.age_ms is None or not self.unneeded.reasons:
            return ()
        history, rules = sound_history(self.store, key)
        unneeded = unneeded_deletes(self.store, rules, now_ms() - self.age_ms)
        plan = plan_deletes(self.store, history, unneeded)
        return remove_deletes(self.store, history, unneeded, plan)


def _blocking(plan: Plan, array: str) -> Iterable[str]:
    """The note on files of deletes that an engine looks for (F1)."""
    deletes = sum(step.path.endswith(".del") for step in plan.loose)
    if deletes:
        files = count_text(deletes, "delete's own file", "deletes' own files")
        yield (
            f"{files} would go: an engine can then no longer consolidate commits (F1); "
            f"--keep-deletes keeps them, and chronotile repair {array} puts them back"
        )


def _losses(removal: Removal) -> Iterable[str]:
    for first, last in removal.losses:
        when = f"{iso_time(first)} to {iso_time(last)}"
        yield (
            f"{LOSS} from {first} to {last} ({when}): windows that start or end "
            f"inside of it no longer see the fragments that were consolidated"
        )


class _Run:
    """One run of a plan, in the order of the module's text."""

    def __init__(self, store: Store, history: History, plan: Plan) -> None:
        self.store, self.history, self.plan = store, history, plan
        self.cons = {s.path: s.data for s in history.table.sources if not s.loose}
        """The `.con` files as they were read."""
        self.extra: list[Step] = []
        self.notes: list[str] = []
        """What happened besides."""

    def run(self) -> tuple[Step, ...]:
        """Carries out the plan, and gives the steps that were done."""
        plan = self.plan
        for step in plan.new_ignores:
            put_compared(self.store, step.path, step.data)
        self._remove(plan.fragment_commits)
        for folder in plan.folders:
            # An old fragment is committed by its metadata file: that goes first.
            if not folder.path.startswith(f"{FRAGMENTS}/"):
                self.store.remove([f"{folder.path}/{METADATA}"])
            self.store.remove_folder(folder.path)
        lines = {v.path: v.lines for v in self.history.vacuums}
        self._refuse_changed([step.path for step in plan.vacuums], lines, decode_vac)
        self._remove(plan.vacuums)
        kept: frozenset[str] = frozenset()
        if plan.loose or plan.cons:
            self._refuse_unreliable()
            self._remove(plan.loose)
            if plan.cons and self._has_new_ignore():
                # It may change which `.con` another maintainer keeps: none goes now.
                kept = frozenset(step.path for step in plan.cons)
            else:
                self._refuse_changed([step.path for step in plan.cons], self.cons)
                self._remove(plan.cons)
            self._restore_lost()
        free = self._remove_free_ignores()
        unseen = kept | (frozenset(step.path for step in plan.ignores) - free)
        unseen |= free.intersection(step.path for step in plan.new_ignores)
        return (*(step for step in plan.steps() if step.path not in unseen), *self.extra)

    def _remove(self, steps: tuple[Step, ...]) -> None:
        if steps:
            self.store.remove(step.path for step in steps)

    def _refuse_changed(
        self,
        paths: Iterable[str],
        read: Mapping[str, object],
        decode: Callable[[bytes, str], object] = lambda data, _: data,
    ) -> None:
        """Refuses to go on if a file has changed since it was read: somebody is writing it."""
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

    def _lost(self) -> list[str]:
        """The `.con` files that must stay, and are gone or changed."""
        lost = []
        for path, data in self.store.read_many(sorted(self.plan.relied_on)):
            if isinstance(data, ChronotileError) and not isinstance(data, MissingObjectError):
                raise data
            if not isinstance(data, bytes) or memoryview(data) != self.cons[path]:
                lost.append(path)
        return lost

    def _refuse_unreliable(self) -> None:
        """Refuses to go on if a `.con` that must stay is gone or has changed."""
        for path in self._lost():
            problem = f"expected {path} to stay, found it gone or changed: the array is changing"
            raise ChangedError(self.store.uri, f"{problem}; try again")

    def _has_new_ignore(self) -> bool:
        """Whether an `.ign` has come since the array was read, other than our own."""
        known = {step.path for step in self.plan.new_ignores}
        known.update(self.history.listing.paths_of(".ign"))
        return any(path.endswith(".ign") and path not in known for path in self._names())

    def _restore_lost(self) -> None:
        """Restores commits that another maintainer left in no file."""
        lost = self._lost()
        if not lost:
            return
        paths = self._names().difference(lost)
        there = paths | self._uris(paths)
        records: dict[str, bytes | None] = {}
        for path in lost:
            records |= self.plan.coverage.records(path)
        for uri, tile in records.items():
            if uri not in there and self._is_effective(uri):
                # Another maintainer may bring it back too, or have it in a new `.con` by now.
                with suppress(ObjectExistsError, ChangedError):
                    put_compared(self.store, uri, tile or b"")
                    self.extra.append(put(uri, tile or b"", "brought back: its .con went"))
        if self.extra:
            files = count_text(len(self.extra), "commit")
            self.notes.append(
                f"another maintainer removed {lost[0]} meanwhile: {files} that stood in it "
                f"{'is' if len(self.extra) == 1 else 'are'} back, each as a file of its own"
            )

    def _is_effective(self, uri: str) -> bool:
        if not uri.endswith(WRITES):
            return True
        if uri in self.history.table.ignores or uri in self.plan.ignored:
            return False
        name = uri.rpartition("/")[2].rpartition(".")[0]
        folder = name if uri.endswith(".ok") else f"{FRAGMENTS}/{name}"
        return bool(self.store.list_dir(folder).files)

    def _uris(self, paths: Iterable[str]) -> set[str]:
        """The URIs of all commits of the `.con` files among some paths."""
        uris: set[str] = set()
        for path in paths:
            if path.endswith(".con"):
                known = self.plan.coverage.uris(path)
                if known is None:
                    known = frozenset(record.uri for record in self._read(path, decode_con))
                uris |= known
        return uris

    def _read(self, path: str, decode: Callable[[bytes, str], tuple[T, ...]]) -> tuple[T, ...]:
        try:
            return decode(self.store.read(path), path)
        except MissingObjectError:
            return ()
        except BadFileError as cause:
            problem = f"expected {path} to be whole, found it being written: {cause.problem}"
            raise ChangedError(self.store.uri, f"{problem}; try again") from cause

    def _remove_free_ignores(self) -> set[str]:
        """Removes the `.ign` files that name no write of a `.con`, read again, and gives them."""
        plan = self.plan
        candidates = [step.path for step in (*plan.new_ignores, *plan.ignores)]
        if not candidates:
            return set()
        writes = {uri for uri in self._uris(self._names()) if uri.endswith(WRITES)}
        free = {path for path in candidates if writes.isdisjoint(self._read(path, decode_ign))}
        self.store.remove(sorted(free))
        return free
