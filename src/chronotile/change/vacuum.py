"""Vacuuming: removal of files that no window needs.

In: an array. Out: the plan of fewer files. Every window sees the same as before, except for the
time travel of dense arrays and of metadata, which is announced. Removes only files that it listed
and read.

The order, so that a stop at any point leaves every window as it was:

  1. look again that the `.vac` files list the fragments that are about to go, and that the merged
     ones are there; put an `.ign` for the writes of those that go, in a `.con` or not: a
     consolidation that is under way may still write them into one;
  2. remove their own commit files: from here on these writes are not effective;
  3. remove their folders, and then the `.vac` files that listed them;
  4. remove loose commits that a `.con`, read again just now, holds too; the files of deletes stay
     unless the caller asks, as the engine looks for them when it consolidates (F1);
  5. remove `.con` files if another holds all of their effective commits (see
     `redundant_con_files`), and read those again that hold what went: if one is gone, put its
     commits back;
  6. put the `.ign` again if the engine has removed it and a `.con` needs it; remove `.ign` files
     that name no write of any `.con` that is left;
  7. remove `.meta` files and metadata that another file holds all of: see `vacuum_metadata`;
  8. if the caller asks, remove orphans (see `orphan_fragments`), and deletes that no fragment needs
     (see `unneeded_deletes`).
"""

from __future__ import annotations

from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Literal, TypeAlias, TypeVar, get_args

import numpy as np

from chronotile.change.consolidate import requests_of_opens
from chronotile.change.kept_windows import doubtful, held_by_windows, kept_windows
from chronotile.change.merge_metadata import array_metadata
from chronotile.change.operations import no_way_back, relying_on
from chronotile.change.orphan_fragments import find_orphans, remove_orphans
from chronotile.change.plan import Plan, Seen, Stage, Step, check_mode, put
from chronotile.change.sound_array import array_version, sound_history
from chronotile.change.unneeded_deletes import plan_deletes, take_deletes_out, unneeded_deletes
from chronotile.change.vacuum_metadata import (
    ReplacedRemoval,
    plan_footer_removal,
    plan_quarantine_removal,
    plan_replaced_removal,
)
from chronotile.check.findings import count_text
from chronotile.check.fragment_health import inspect
from chronotile.check.tags import doubtful_tags, tags_of
from chronotile.check.vacuumable_fragments import Vacuumable, removable
from chronotile.errors import BadFileError, ChangedError, ChronotileError
from chronotile.format.commit_files import (
    FIRST_WITH_COMMITS,
    decode_con,
    decode_ign,
    decode_vac,
    encode_lines,
    later_name,
)
from chronotile.format.fragment_footer import METADATA
from chronotile.format.kinds import COMMITS, EXTENSIONS, FRAGMENTS, WRITES
from chronotile.format.names import NEWEST_VERSION
from chronotile.format.timestamps import duration_ms, iso_time, now_ms
from chronotile.history.redundant_con_files import Coverage, coverage
from chronotile.safe_text import shell_word
from chronotile.storage.prefetch import ahead
from chronotile.storage.store import MissingObjectError

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Mapping

    from chronotile.format.timestamps import Moment
    from chronotile.history.read_history import History
    from chronotile.storage.store import Store

Mode: TypeAlias = Literal["commits", "fragments", "fragment-meta", "array-meta", "all"]
T = TypeVar("T")

LOSS = "time travel is lost"
"""How a note on what a vacuum destroys begins."""


def plan_vacuum(
    store: Store,
    key: bytes | None,
    *,
    mode: Mode = "all",
    orphans: bool = False,
    whole_orphans: bool = False,
    orphan_age: float | str = "24h",
    loose_deletes: bool = False,
    deletes: bool = False,
    updates: bool = False,
    keep: Iterable[Moment] = (),
    keep_days: float | None = None,
    group_tags: Mapping[str, int] = {},
) -> Plan:
    """Plan the removal of files that no window needs; see `Handle.vacuum`.

    `group_tags` are the tags of a group that the array is a member of: their windows stay too.
    """
    check_mode(store.uri, mode, get_args(Mode))
    oldest = now_ms() - age_ms(orphan_age)
    history, rules = sound_history(store, key)
    tags = tags_of(store, history)
    windows = kept_windows(store, history, tags, keep, keep_days, group_tags)
    vacuumable = Vacuumable(fragments=(), vacuums=(), losses=(), notes=())
    if mode in ("fragments", "all"):
        vacuumable = removable(history, rules, partial(inspect, store, history), windows)
    notes = [*doubtful(tags), *vacuumable.notes, *held_by_windows(store, vacuumable)]
    staying = (*(() if loose_deletes else (".del",)), *(() if updates else (".upd",)))
    retire = mode in ("commits", "all")
    commits = CommitRemoval(store, history, vacuumable, staying=staying, retire=retire)
    stages = [*commits.stages()]
    if mode in ("fragment-meta", "all"):
        stages += plan_footer_removal(store, history, commits.gone)
    metadata = ReplacedRemoval()
    if mode in ("array-meta", "all") and history.meta_vacuums:
        metadata = plan_replaced_removal(store, [array_metadata(history)], windows)
    stages += metadata.stages
    steps = tuple(step for stage in stages for step in stage.steps)
    requests = requests_of_opens(store, rules, steps)
    if orphans or whole_orphans:
        found, more = find_orphans(store, history, rules, oldest, whole=whole_orphans)
        notes += more
        # The look removes them, each after it has looked; the steps make the report and the record.
        look = partial(remove_orphans, key, found)
        stages.append(
            Stage(
                name="orphans",
                looks=(look,),
                steps=tuple(step for orphan in found for step in orphan.steps),
                folders=tuple(orphan.path for orphan in found if orphan.is_folder),
            )
        )
    notes += metadata.notes
    blocking = _note_on_loose_deletes(commits.loose_removals, shell_word(store.uri))
    if deletes:
        unneeded = unneeded_deletes(store, rules, oldest, without=commits.folders)
        notes += unneeded.notes
        if unneeded.reasons:
            planned = tuple(s for one in plan_deletes(store, history, unneeded) for s in one.steps)
            paths = frozenset(step.path for step in planned)
            look_again = partial(take_deletes_out, key, oldest, paths)
            stages.append(Stage(name="deletes", looks=(look_again,), steps=planned))
    if mode == "all":
        stages += plan_quarantine_removal(store)
    removed = [step.path for one in stages for step in one.steps if step.op == "remove"]
    finals = relying_on(store, removed, commits.holders)
    return Plan(
        command="vacuum",
        array=store.uri,
        stages=tuple(stages),
        losses=(*_losses(vacuumable), *metadata.losses, *blocking),
        notes=(*notes, *no_way_back(finals)),
        finals=tuple(finals),
        findings=tuple(doubtful_tags(store.uri, tags)),
        engine_open_requests=requests,
    )


def age_ms(age: float | str) -> int:
    """Read an age: a number is in hours."""
    with suppress(ValueError):
        return int(float(age) * 3_600_000)
    return duration_ms(str(age), "orphan_age")


def _note_on_loose_deletes(loose: Iterable[Step], array: str) -> Iterable[str]:
    """Note that files of deletes go that an engine looks for (F1)."""
    deletes = sum(step.path.endswith(".del") for step in loose)
    if deletes:
        files = count_text(deletes, "delete's own file", "deletes' own files")
        yield (
            f"{files} would go: TileDB can then no longer consolidate commits (F1); "
            f"without --loose-deletes they stay; to put them back then: chronotile repair {array}"
        )


def _losses(vacuumable: Vacuumable) -> Iterable[str]:
    for first, last in vacuumable.losses:
        when = f"{iso_time(first)} to {iso_time(last)}"
        yield (
            f"{LOSS} from {first} to {last} ({when}): windows that start or end "
            f"inside of it no longer see the fragments that were consolidated"
        )


class CommitRemoval:
    """The commit files and fragments that go: points 1 to 6 of the module's order.

    An attribute that ends in `_puts` or `_removals` holds steps.
    """

    def __init__(
        self,
        store: Store,
        history: History,
        vacuumable: Vacuumable,
        *,
        staying: tuple[str, ...],
        retire: bool,
    ) -> None:
        """Plan them.

        `staying` are extensions of loose commits that stay even if a `.con` holds them; `retire`
        removes commit files whose commits other files hold.
        """
        self._history, table, sizes = history, history.table, _Sizes(store)
        rows = table.find([one.commit_uri for one in vacuumable.fragments])
        rows = rows[~table.implied[rows]]
        in_use = {table.uri(row) for row in rows.tolist()}
        own = {table.uri(row) for row in rows[table.loose[rows]].tolist()}
        self._ignored = tuple(
            one.commit_uri
            for one in vacuumable.fragments
            if one.commit_uri in in_use and one.commit_uri not in table.ignores
        )
        self.ign_puts: tuple[Step, ...] = ()
        # An array without `__commits` has no `.con` that could bring a commit back.
        version = array_version(history)
        if self._ignored and version >= FIRST_WITH_COMMITS:
            path = f"{COMMITS}/{later_name(self._ignored, (), version)}.ign"
            gone = count_text(len(self._ignored), "fragment")
            reason = f"cancels the commits of {gone} removed here"
            self.ign_puts = (put(path, encode_lines(self._ignored), reason),)
        self._coverage = coverage(table, ignoring=self._ignored)
        covered = tuple(_covered(self._coverage, own, staying)) if retire else ()
        cons = self._coverage.superseded(sizes.times) if retire else {}
        known = history.listing.paths_of(".ign")
        free = self._coverage.free_ignores(known, cons) if retire else ()
        self.commit_removals = tuple(
            sizes.remove_step(one.commit_uri, f"its fragment is listed in {one.because}")
            for one in vacuumable.fragments
            if one.commit_uri in own
        )
        paths = [one.folder for one in vacuumable.fragments]
        listed = ahead(lambda path: store.list_prefix(path), paths, store.concurrency)
        self.folders = dict(zip(paths, listed, strict=True))
        """Folder of each fragment that goes -> its files."""
        self._because = {one.folder: one.because for one in vacuumable.fragments}
        self._hidden_by = frozenset(one.because for one in vacuumable.fragments)
        """`.vac` files that list the fragments that go."""
        self._held_by = frozenset(vacuumable.relied_on)
        """Folders of fragments that hold their cells."""
        self.vac_removals = tuple(
            sizes.remove_step(path, "nothing is left of what it lists")
            for path in vacuumable.vacuums
        )
        self.loose_removals = tuple(
            sizes.remove_step(uri, f"stands in {holder}") for uri, holder in covered
        )
        holders = (*dict(covered).values(), *cons.values())
        self._relied_on = frozenset(holder for holder in holders if holder is not None)
        """`.con` files that hold what goes."""
        self.con_removals = tuple(
            sizes.remove_step(path, f"{holder} holds all of it" if holder else "none of it counts")
            for path, holder in cons.items()
        )
        self.ign_removals = tuple(
            sizes.remove_step(path, "names no write of a .con") for path in free
        )

    @property
    def holders(self) -> dict[str, frozenset[str]]:
        """The commits in each `.con` that holds what goes."""
        return {path: self._coverage.uris(path) or frozenset() for path in self._relied_on}

    @property
    def gone(self) -> set[str]:
        """The names of the fragments that go."""
        return {folder.rpartition("/")[2] for folder in self.folders}

    def stages(self) -> Iterable[Stage]:
        """Give the steps, in the order of the module's text."""
        hidden = (self._still_hidden,) if self.folders else ()
        yield Stage(name="ignore", looks=hidden, steps=self.ign_puts)
        yield Stage(name="commits of fragments", steps=self.commit_removals)
        old: list[Step] = []
        files: list[Step] = []
        for folder, entries in self.folders.items():
            reason = f"listed in {self._because[folder]}"
            for entry in entries:
                step = Step(op="remove", path=entry.path, size=entry.size, reason=reason)
                # An old fragment is committed by its metadata file: that goes first.
                is_commit = entry.path == f"{folder}/{METADATA}"
                is_old = not folder.startswith(f"{FRAGMENTS}/")
                (old if is_commit and is_old else files).append(step)
        yield Stage(name="commits of old fragments", steps=tuple(old))
        yield Stage(
            name="fragments",
            steps=tuple(files),
            folders=tuple(self.folders),
        )
        unchanged = partial(self._same, [step.path for step in self.vac_removals])
        yield Stage(name=".vac", looks=(unchanged,), steps=self.vac_removals)
        if self.loose_removals or self.con_removals:
            reliable = partial(self._same, self._relied_on, may_be_gone=False)
            yield Stage(name="loose commits", looks=(reliable,), steps=self.loose_removals)
            going = partial(self._same, [step.path for step in self.con_removals])
            looks = (self._leave_cons, going)
            yield Stage(name=".con", looks=looks, steps=self.con_removals)
            yield Stage(name="confirm", looks=(self._bring_back,))
        if self.ign_puts or self.ign_removals:
            free = (*self._passing(), *self.ign_removals)
            look = partial(self._free_ignores, frozenset(step.path for step in free))
            yield Stage(name=".ign", looks=(look,), steps=free)

    def _passing(self) -> tuple[Step, ...]:
        """Remove the new `.ign` again, if it is needed only while the vacuum runs."""
        gone = {step.path for step in self.con_removals}
        for source in self._coverage.table.sources:
            if source.loose or source.path in gone:
                continue
            if not (self._coverage.uris(source.path) or frozenset()).isdisjoint(self._ignored):
                return ()
        return tuple(
            Step(op="remove", path=step.path, size=step.size, reason="names no write of a .con")
            for step in self.ign_puts
        )

    def _changed(self, store: Store, paths: Iterable[str]) -> Iterator[tuple[str, bool]]:
        """Read files again: those that are not as they were read, and whether they are gone."""
        known: dict[str, object] = {one.path: one.lines for one in self._history.vacuums}
        known |= {one.path: one.data for one in self._history.table.sources if not one.loose}
        for path, data in store.read_many(sorted(paths)):
            if isinstance(data, ChronotileError):
                if not isinstance(data, MissingObjectError):
                    raise data
                yield path, True
                continue
            now = decode_vac(data, path) if path.endswith(".vac") else memoryview(data)
            if now != known[path]:
                yield path, False

    def _same(self, paths: Collection[str], store: Store, *, may_be_gone: bool = True) -> None:
        """Look whether files are as they were read: else somebody else is writing them.

        Raises:
            ChangedError: A file has changed, or is gone and must not be.
        """
        for path, is_gone in self._changed(store, paths):
            if not (is_gone and may_be_gone):
                problem = f"expected {path} as it was read, found it gone or changed"
                raise ChangedError(store.uri, f"{problem}: the array is changing; try again")

    def _still_hidden(self, store: Store) -> None:
        """Look whether fragments that are to go may be the only copy by now.

        An undo shows them again, and somebody may have removed what they were merged into. If they
        are gone already, another vacuum was faster.

        Raises:
            ChangedError: They may be.
        """
        changed = [path for path, _ in self._changed(store, self._hidden_by)]
        for folder in sorted(self._held_by):
            try:
                store.head(f"{folder}/{METADATA}")
            except MissingObjectError:
                changed.append(folder)
        if changed and any(store.list_dir(folder).files for folder in self.folders):
            problem = f"expected {changed[0]} as it was read, found it gone or changed"
            raise ChangedError(store.uri, f"{problem}; try again")

    def _leave_cons(self, store: Store) -> Seen | None:
        """Leave every `.con` if an `.ign` came: another maintainer may keep another `.con` then."""
        known = {*self._history.listing.paths_of(".ign"), *(step.path for step in self.ign_puts)}
        fresh = any(path.endswith(".ign") and path not in known for path in _names(store))
        return Seen(leave=frozenset(step.path for step in self.con_removals)) if fresh else None

    def _bring_back(self, store: Store) -> Seen | None:
        """Look whether the `.con` files that hold what went are there.

        Else give the commits that another maintainer left in no file.
        """
        lost = [path for path, _ in self._changed(store, self._relied_on)]
        if not lost:
            return None
        paths = _names(store).difference(lost)
        there = paths | _uris(store, self._coverage, paths)
        records: dict[str, bytes | None] = {}
        for path in lost:
            records |= self._coverage.records(path)
        # Another maintainer may bring one back too, or have it in a new `.con` by now.
        steps = tuple(
            put(uri, tile or b"", "brought back: its .con went", may_vanish=True)
            for uri, tile in records.items()
            if uri not in there and self._is_effective(store, uri)
        )
        if not steps:
            return None
        note = (
            f"another maintainer removed {lost[0]} meanwhile: {count_text(len(steps), 'commit')} "
            f"that stood in it {'is' if len(steps) == 1 else 'are'} back, each in its own file"
        )
        return Seen(steps=steps, notes=(note,))

    def _is_effective(self, store: Store, uri: str) -> bool:
        if not uri.endswith(WRITES):
            return True
        if uri in self._history.table.ignores or uri in self._ignored:
            return False
        name = uri.rpartition("/")[2].rpartition(".")[0]
        folder = name if uri.endswith(".ok") else f"{FRAGMENTS}/{name}"
        return bool(store.list_dir(folder).files)

    def _free_ignores(self, planned: frozenset[str], store: Store) -> Seen:
        """Look which `.ign` files name no write of a `.con`, all of them read again.

        Leave those that are still needed, and remove those that became free.
        """
        names = _names(store)
        writes = {uri for uri in _uris(store, self._coverage, names) if uri.endswith(WRITES)}
        # The engine removes every `.ign` as soon as one `.con` holds all other commits.
        again = tuple(
            step
            for step in self.ign_puts
            if step.path not in names and not writes.isdisjoint(self._ignored)
        )
        free = {
            step.path
            for step in (*self.ign_puts, *self.ign_removals)
            if writes.isdisjoint(_read(store, step.path, decode_ign))
        }
        free -= {step.path for step in again}
        more = tuple(
            Step(op="remove", path=path, size=None, reason="names no write of a .con")
            for path in sorted(free - planned)
        )
        return Seen(steps=(*again, *more), leave=planned - free)


def _names(store: Store) -> set[str]:
    return {entry.path for entry in store.list_dir(COMMITS).files}


def _read(store: Store, path: str, decode: Callable[[bytes, str], tuple[T, ...]]) -> tuple[T, ...]:
    try:
        return decode(store.read(path), path)
    except MissingObjectError:
        return ()
    except BadFileError as cause:
        problem = f"expected {path} to be whole, found it being written: {cause.problem}"
        raise ChangedError(store.uri, f"{problem}; try again") from cause


def _uris(store: Store, known: Coverage, paths: Iterable[str]) -> set[str]:
    """Read the URIs of all commits of the `.con` files among some paths."""
    uris: set[str] = set()
    for path in paths:
        if path.endswith(".con"):
            held = known.uris(path)
            if held is None:
                held = frozenset(record.uri for record in _read(store, path, decode_con))
            uris |= held
    return uris


def _covered(
    files: Coverage, removed: Collection[str], staying: tuple[str, ...]
) -> Iterable[tuple[str, str]]:
    """List the loose commits that a `.con` holds as well, each with the `.con` that stays."""
    table = files.table
    kinds = [number for number, extension in enumerate(EXTENSIONS) if extension in staying]
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

    def remove_step(self, path: str, reason: str) -> Step:
        return Step(op="remove", path=path, size=self._known.get(path), reason=reason)
