"""Removal of `.meta` files, metadata and lists of members that another file holds all of.

In: an array's history, or a group. Out: the plan of fewer files. Touches no commit, no fragment,
and no member.

A `.meta` goes if another holds the same footers for all its fragments that still exist, and more.
Of those that hold the same, the one stays whose name ends last, as the engine keeps it too; then
the later one by `commit_files`. The engine always keeps the one that ends last, so it may remove
the one with more. That costs requests and no data: each fragment has its footer itself too.

A file of `__meta` goes if a `.vac` there lists it and the merged file that the `.vac` belongs to is
there and can be read; or if that file was merged into such a file in turn. A list of members goes
by the same rule, if also the lists that an open reads name every member that it names. A `.vac`
goes after all that it lists. All files that the plan relies on are read again just before.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from chronotile.change.kept_windows import doubtful, windows_of
from chronotile.change.merge_metadata import (
    MergeFolder,
    group_lists,
    group_metadata,
    sound_group,
)
from chronotile.change.operations import no_way_back, old_quarantine, relying_on
from chronotile.change.plan import Plan, Stage, Step
from chronotile.change.tag import tags_of_group
from chronotile.check.tags import doubtful_tags
from chronotile.errors import ChangedError, ChronotileError
from chronotile.format.commit_files import rank
from chronotile.format.kinds import FRAGMENT_META, GROUP
from chronotile.format.names import MAX_TIMESTAMP, try_parse
from chronotile.format.timestamps import iso_time, time_text
from chronotile.history.read_footers import FooterFile, read_consolidated
from chronotile.storage.store import MissingObjectError
from chronotile.visibility.group_members import files_at, last_entries

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Sequence

    from chronotile.change.plan import Look
    from chronotile.history.group_reading import GroupHistory
    from chronotile.history.read_history import History, VacuumFile
    from chronotile.storage.store import Store
    from chronotile.visibility.lifelines import Kept

Footers = Mapping[str, bytes]
_SAME = "every window sees what it saw before, less the time travel that was announced"


class ReplacedRemoval(NamedTuple):
    """How files go that others replace, and what to say of it."""

    stages: tuple[Stage, ...] = ()
    losses: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()


def plan_footer_removal(store: Store, history: History, going: Collection[str]) -> Iterator[Stage]:
    """Plan the removal of `.meta` files that others hold all of.

    `going` are the names of fragments that the same vacuum removes before.
    """
    if len(history.listing.fragment_meta) < 2:
        return
    held = _held(store, history, going)
    retired = _retired(held)
    if not retired:
        return

    def look(now: Store) -> None:
        """Look whether the `.meta` files that stay still hold the footers of those that go."""
        files = read_consolidated(now, history)
        for path in retired.values():
            found, known = files.get(path), held[path].items()
            if not isinstance(found, FooterFile) or not known <= found.footers.items():
                raise _changed(now, path)

    sizes = _sizes(store, FRAGMENT_META, "")
    steps = tuple(
        Step(op="remove", path=path, size=sizes.get(path), reason=f"{holder} holds all of it")
        for path, holder in sorted(retired.items())
    )
    yield Stage(name=".meta", seen=_SAME, looks=(look,), steps=steps)


def plan_replaced_removal(
    store: Store, folders: Iterable[MergeFolder], kept: Sequence[Kept]
) -> ReplacedRemoval:
    """Plan the removal of metadata, or of lists of members, that merged files replace.

    `kept` are windows that must see the files that they see.
    """
    steps: list[Step] = []
    losses: list[str] = []
    notes: list[str] = []
    relied_on: dict[str, bytes] = {}
    for folder in folders:
        replaced = _Replaced(store, folder, kept)
        steps += replaced.steps()
        losses += replaced.losses()
        notes += replaced.kept_notes()
        relied_on |= {**replaced.readable, **replaced.vacuums}
    return ReplacedRemoval(tuple(_replaced_stages(steps, relied_on)), tuple(losses), tuple(notes))


def refuse_other_bytes(read: Mapping[str, bytes], store: Store) -> None:
    """Look whether files are there as they were read.

    Raises:
        ChangedError: One is gone or has changed.
    """
    for path, data in store.read_many(read):
        if data != read[path]:
            raise _changed(store, path)


def _replaced_stages(steps: Sequence[Step], relied_on: Mapping[str, bytes]) -> Iterator[Stage]:
    """Remove files that others replace, each `.vac` behind what it lists.

    `relied_on` must be there as they were read.
    """
    # A bucket removes many in no order, and a `.vac` must be there as long as what it lists.
    batch: list[Step] = []
    looks: tuple[Look, ...] = (partial(refuse_other_bytes, relied_on),)
    for step in steps:
        if step.path.endswith(".vac"):
            yield Stage(name="merged files", seen=_SAME, looks=looks, steps=tuple(batch))
            yield Stage(name="their .vac", seen=_SAME, steps=(step,))
            batch, looks = [], ()
        else:
            batch.append(step)
    if batch:
        yield Stage(name="merged files", seen=_SAME, looks=looks, steps=tuple(batch))


def _changed(store: Store, path: str) -> ChangedError:
    problem = f"expected {path} as it was read, found it changed; try again"
    return ChangedError(store.uri, problem)


def _sizes(store: Store, *folders: str) -> dict[str, int | None]:
    listed = (store.list_dir(folder, sizes=True) for folder in folders)
    return {entry.path: entry.size for folder in listed for entry in folder.files}


def _held(store: Store, history: History, going: Collection[str]) -> dict[str, Footers]:
    """Read the footers of the fragments that stay, from each `.meta` that can be opened."""
    listing = history.listing
    there = {*listing.fragments, *listing.root_fragments} - set(going)
    return {
        path: {name: raw for name, raw in found.footers.items() if name in there}
        for path, found in read_consolidated(store, history).items()
        if isinstance(found, FooterFile)
    }


def _retired(held: Mapping[str, Footers]) -> dict[str, str]:
    """Choose the `.meta` files that go, each with one that stays and holds all of it."""

    def order(path: str) -> tuple[int, int, tuple[int, str]]:
        name = try_parse(path.rpartition("/")[2].removesuffix(".meta"))
        return len(held[path]), -1 if name is None else name.t2, rank(path)

    staying: list[str] = []
    retired: dict[str, str] = {}
    for path in sorted(held, key=order, reverse=True):
        own = held[path].items()
        holder = next((other for other in staying if own <= held[other].items()), None)
        if holder is None:
            staying.append(path)
        else:
            retired[path] = holder
    return retired


class _Replaced:
    """The `.vac` files of a folder, and which of them can be carried out."""

    def __init__(self, store: Store, known: MergeFolder, kept: Sequence[Kept]) -> None:
        self._folder = known.folder
        self._there = frozenset(known.names)
        self._sizes = _sizes(store, known.folder)
        self._by_name = {vacuum.name.text: vacuum for vacuum in known.vacuums}
        wanted = [name for name in self._by_name if name in self._there]
        self.readable: dict[str, bytes] = {}
        for path, data in store.read_many(f"{self._folder}/{name}" for name in wanted):
            if isinstance(data, bytes) and known.is_readable(data, path):
                self.readable[path] = data
        self.vacuums: dict[str, bytes] = {}
        for path, data in store.read_many(vacuum.path for vacuum in known.vacuums):
            # Without its `.vac`, what it listed may be in use again: nothing shows that it may go.
            if isinstance(data, MissingObjectError):
                raise _changed(store, path)
            if isinstance(data, ChronotileError):
                raise data
            self.vacuums[path] = data
        self._held = {
            v.path: label for v in self._by_name.values() if (label := self._why(v, kept))
        }
        """`.vac` files that stay, and why."""
        # If a merged file was merged in turn, what it replaced goes first.
        ordered = sorted(self._by_name.values(), key=lambda v: (v.name.t2, -v.name.t1))
        safe = [v for v in ordered if self._is_safe(v.name.text, frozenset())]
        self.done = [v for v in safe if v.path not in self._held]
        """`.vac` files whose targets go."""
        gone = {target for vacuum in self.done for target in vacuum.targets}
        self._left = {
            name: (self._there & set(vacuum.targets)) - gone
            for name, vacuum in self._by_name.items()
        }
        """What stays of what each `.vac` lists."""
        staying = {f"{self._folder}/{v.name.text}" for v in self.done if v.name.text not in gone}
        self.readable = {p: data for p, data in self.readable.items() if p in staying}

    def steps(self) -> Iterator[Step]:
        """Remove the files that the `.vac` files list, and then each `.vac` with nothing left."""
        seen: set[str] = set()
        for vacuum in self.done:
            for target in vacuum.targets:
                if target in self._there and target not in seen:
                    seen.add(target)
                    yield self._removal(f"{self._folder}/{target}", f"listed in {vacuum.path}")
            yield self._removal(vacuum.path, "nothing is left of what it lists")
        done = {vacuum.path for vacuum in self.done}
        for name, vacuum in self._by_name.items():
            if vacuum.path not in done and not self._left[name]:
                yield self._removal(vacuum.path, "nothing is left of what it lists")

    def losses(self) -> Iterator[str]:
        """Say what is lost."""
        for vacuum in self.done:
            first, last = vacuum.name.t1, vacuum.name.t2
            if not self._there & set(vacuum.targets):
                continue
            if self._folder == GROUP:
                yield (
                    f"opens of the group at a time before {last} ({time_text(last)}) will see "
                    "no members: the lists of that time go"
                )
            else:
                when = f"{iso_time(first)} to {iso_time(last)}"
                yield (
                    f"metadata loses time travel from {first} to {last} ({when}): windows that "
                    f"start or end inside of it no longer see what was merged"
                )

    def kept_notes(self) -> Iterator[str]:
        """Say which files are kept, and why."""
        done = {vacuum.path for vacuum in self.done}
        for name, vacuum in self._by_name.items():
            if vacuum.path in self._held:
                yield f"what {vacuum.path} lists is kept for {self._held[vacuum.path]}"
            elif vacuum.path not in done and self._left[name]:
                yield f"what {vacuum.path} lists is kept: no merged file of that name can be read"

    def _why(self, vacuum: VacuumFile, kept: Sequence[Kept]) -> str | None:
        """Name the windows that must still see files that a `.vac` lists; None if none must."""
        names = [name for text in vacuum.targets if (name := try_parse(text)) is not None]
        there = [name for name in names if name.text in self._there]
        labels = [k.label for k in kept if any(k.sees(n.t2, vacuum.name.t2) for n in there)]
        return ", ".join(labels) or None

    def _removal(self, path: str, reason: str) -> Step:
        return Step(op="remove", path=path, size=self._sizes.get(path), reason=reason)

    def _listing(self, name: str) -> list[str]:
        """List the merged files that a file was merged into."""
        return [n for n, vacuum in self._by_name.items() if name in vacuum.targets and n != name]

    def _is_safe(self, name: str, above: frozenset[str]) -> bool:
        """Tell whether a merged file can be read, or one that it was merged into in turn."""
        if f"{self._folder}/{name}" in self.readable:
            return True
        return any(
            self._is_safe(other, above | {name})
            for other in self._listing(name)
            if other not in above
        )


def plan_quarantine_removal(store: Store) -> tuple[Stage, ...]:
    """Plan the removal of what old changes took out."""
    folders = old_quarantine(store)
    reason = "its change is final, or older than 90 days"
    steps = tuple(
        Step(op="remove", path=entry.path, size=entry.size, reason=reason)
        for entries in folders.values()
        for entry in entries
    )
    return (Stage(name="quarantine", steps=steps, folders=tuple(folders)),) if folders else ()


def plan_vacuum_group(
    store: Store,
    key: bytes | None,
    *,
    keep: Iterable[int] = (),
    keep_days: float | None = None,
    group_tags: Mapping[str, int] = {},
) -> Plan:
    """Plan the removal of the lists of members, and the metadata, that merged files replace.

    An open now sees the same before and after. An open at a time before the merged list sees no
    members any more; the plan says so first.

    Args:
        store: The group.
        key: Its key.
        keep: Moments: opens of the group then stay as they are, as those at its tags always do.
        keep_days: And opens at a time within these last days.
        group_tags: And at the tags of a group around it.

    Raises:
        RefusedError: A list of members is damaged.
    """
    history = sound_group(store, key)
    tags = tags_of_group(store, history)
    kept = windows_of(tags, keep, keep_days, group_tags)
    uncovered = [vacuum for vacuum in history.vacuums if not _is_covered(history, vacuum)]
    notes = [*doubtful(tags)]
    notes += [
        f"what {vacuum.path} lists is kept: the merged list does not name all of it"
        for vacuum in uncovered
    ]
    lists = group_lists(store, history)
    lists = replace(lists, vacuums=tuple(v for v in lists.vacuums if _is_covered(history, v)))
    removals = plan_replaced_removal(store, (lists, group_metadata(store, history)), kept)
    stages = (*removals.stages, *plan_quarantine_removal(store))
    finals = relying_on(store, [s.path for one in stages for s in one.steps if s.op == "remove"])
    return Plan(
        command="vacuum",
        array=store.uri,
        stages=stages,
        losses=removals.losses,
        finals=tuple(finals),
        notes=(*notes, *removals.notes, *no_way_back(finals)),
        findings=tuple(doubtful_tags(store.uri, tags)),
    )


def _is_covered(history: GroupHistory, vacuum: VacuumFile) -> bool:
    """Tell whether the lists that an open reads name every member of the lists that are hidden."""
    details = {file.name.text: file.details for file in history.files}
    live = [file.details for file in files_at(history, 0, MAX_TIMESTAMP)]
    told = last_entries([one for one in live if one is not None]).keys()
    hidden = [found for target in vacuum.targets if (found := details.get(target)) is not None]
    return last_entries(hidden).keys() <= told
