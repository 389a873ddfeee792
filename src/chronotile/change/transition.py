"""Transition: commits that bring a state about from a moment on, and show it in one step.

In: the visible state, and the wanted one. Out: `Transition`: fragments to hide, fragments and
deletes to commit again under new names, and the moments that they get; `Showing`: its steps as
stages. Removes nothing.

    PastState, now and wanted   what an open sees, and shall see
      -> _Way                   which of the ways below it takes, and what cannot go it
      -> Transition             which fragments and deletes, by which new names: of every way
      -> Showing                the files of that, each kind by itself
      -> Stage, Stage, …        the files in the order below, with looks: for the executor

Three ways, the cheapest that does:

  hide     every wanted fragment is visible already: a `.vac` dated R hides the others.
  again    some are hidden by the `.vac` of a fragment that was merged from them, or their rows by a
           delete that must go: they are committed again at R, and with them all that is later, so
           that the order stays. A `.vac` hides the others.
  replay   the same, and deletes must be applied again: they have no end, and touch every cell that
           is not later, so that they must show in the same step as the fragments. One `.con` holds
           a delete of everything at R, and after it all fragments and deletes of the wanted state,
           in their order, a millisecond each. No write that is dated before R ever shows then.

A copy of a fragment is as old as its new name says. Only a fragment that keeps a time for each cell
(it was merged from others) stays as old as it was: it cannot be moved behind a delete, or behind a
fragment that moves. Nor can it move past a delete that it has not applied: the engine passes over
deletes that are older than a fragment's name, whatever times its cells have. If the fragments that
it was merged from are there, they are used; else the state is refused.

The order of the stages, so that a stop at any point leaves the old cells or the new ones:

  0. a `.con` with the commits that are there, if a new `.con` follows: the engine names a `.con` by
     the first and the last of a list that begins with what stands in one. If that is later than
     the loose commits, it refuses to consolidate commits ever again (F2, F3);
  1. copies of fragments under new names: no commit names them, so no open sees them. Schemas that
     they need, and that say what the schema before them says;
  2. if fragments must be hidden and others committed again: a `.vac` that hides the new ones, and
     the `.con` that commits them. Every window is as before;
  3. the switch, one file: the `.con` of a replay or of a publication; or the `.vac`. If that is
     there already, for step 2, its content is exchanged: it now hides the old ones, not the new.
     An engine's vacuum removes what a `.vac` lists, also the new ones of step 2; and an engine's
     consolidation that began earlier brings back what the switch hides. So we look before and
     after the switch, and take it back if the new ones are not there, or the old ones come back;
  4. the old schema and then the old metadata, if they differ: a file each. The cells go first: the
     present schema shows old cells as TileDB shows them after an evolution, and nothing that is
     written meanwhile meets a schema without its fields. If the moment of all these files is still
     ahead, an open now sees none of them until it comes. Else it sees, for the time of a put or
     two, the restored rows under the present schema, or with the present metadata. Broken off
     there, the same command goes on;
  5. the files of new deletes, which the `.con` holds too: an engine looks for them when it
     consolidates commits (F1). They change nothing.

Writes and consolidations under way (`Effect`). An engine that consolidates fragments reads them,
writes the merged one, and commits it at the end. If a change hides some of them in between, no
`.vac` lists the merged one: it brings their cells back. Its folder shows that it is under way, and
its times span those of its sources. On a disk the folder is there while the engine writes; in a
bucket it shows only at the end. A delete of everything hides a merged fragment too, but also every
write that is dated before it and is committed later.
"""

from __future__ import annotations

import time
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from chronotile.change.consolidate import CommitsPlan, plan_commits, wanted_order
from chronotile.change.orphan_fragments import HOURS_24
from chronotile.change.past_state import (
    PastDelete,
    PastFragment,
    UnreachableError,
    refuse_newer,
    refuse_old,
)
from chronotile.change.plan import Seen, Source, Stage, Step, put
from chronotile.change.sound_array import write_version
from chronotile.check.findings import RefusedError, count_text
from chronotile.conditions import codec
from chronotile.conditions.stored_conditions import matches_every_row
from chronotile.errors import ChangedError
from chronotile.format import commit_files, tiles
from chronotile.format.commit_files import (
    commit_name,
    decode_ign,
    decode_vac,
    encode_exchanged,
    encode_lines,
    encode_record,
    later_name,
    write_uri,
)
from chronotile.format.kinds import COMMITS, FRAGMENTS, META, SCHEMA
from chronotile.format.names import MAX_TIMESTAMP, new_name, try_parse, version_of
from chronotile.format.timestamps import now_ms
from chronotile.safe_text import shell_word
from chronotile.storage.prefetch import ahead
from chronotile.storage.store import MissingObjectError
from chronotile.storage.transfer import Transfer
from chronotile.visibility.rules import TIMESTAMPED_CELLS, has_cell_times_by_name, schema_at

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    from chronotile.change.past_state import Past, PastState
    from chronotile.format.names import Name
    from chronotile.history.read_history import History
    from chronotile.storage.store import Store
    from chronotile.visibility.rules import Rules


class Again(NamedTuple):
    """A fragment that is committed again."""

    part: PastFragment
    name: str
    """The new one."""


class DeleteAgain(NamedTuple):
    """A delete that is written again."""

    uri: str
    tile: bytes
    words: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Transition:
    """The commits that bring a state about."""

    first: int
    """The first moment that they take."""
    last: int
    """The moment from which on the state is whole."""
    hidden: tuple[PastFragment, ...]
    """Fragments that go out of sight."""
    again: tuple[Again, ...]
    deletes: tuple[DeleteAgain, ...] = ()
    """Empty unless everything is replayed; else the first one deletes all that was before."""
    lifted: tuple[str, ...] = ()
    """Deletes and updates of now that the wanted state does not have."""


def plan_transition(
    past: Past,
    now: PastState,
    wanted_with_apart: Callable[[frozenset[str]], PastState],
    ends: int,
    version: int,
) -> tuple[Transition, PastState]:
    """Plan the commits that bring a state about, and give the state.

    `wanted_with_apart` gives the wanted state, with the merged fragments of these names taken
    apart. `ends` is the last moment that the commits may take; the others are just before it.

    Raises:
        UnreachableError: No commit file can bring the state about.
        RefusedError: The state has updates that would have to be replayed, or old fragments.
    """
    apart: frozenset[str] = frozenset()
    while True:
        wanted = wanted_with_apart(apart)
        way = _Way(now, wanted, dense=past.history.dense)
        allows_duplicates = any(
            item.schema is not None and item.schema.allows_duplicates
            for item in past.history.schemas
        )
        stuck = way.stuck(allows_duplicates=allows_duplicates)
        if not stuck:
            return way.transition(past, ends, version), wanted
        apart |= stuck


class _Way:
    """The way from the present state to the wanted one."""

    def __init__(self, now: PastState, wanted: PastState, *, dense: bool) -> None:
        self.now, self.wanted, self.dense = now, wanted, dense
        before = {item.name.text: item for item in (*now.deletes, *now.updates)}
        after = {item.name.text for item in (*wanted.deletes, *wanted.updates)}
        self.lifted = tuple(text for text in before if text not in after)
        plain = [part for part in wanted.parts if not part.cells_timed]
        moved = [p for p in plain if self.lifted or p.name.text not in now.names]
        # With a fragment that comes again, all that is later comes again, so that the order stays.
        self.moved_from = min((part.name.t1 for part in moved), default=None)
        conditions = (*wanted.deletes, *wanted.updates)
        again = any(self._is_moved_at(item.name.t1) for item in conditions)
        self.is_replay = bool(wanted.parts) and again

    def stuck(self, *, allows_duplicates: bool) -> frozenset[str]:
        """Find fragments whose cells would have to move in time, and cannot."""
        timed = [part.name for part in self.wanted.parts if part.cells_timed]
        if self.is_replay or self.lifted:
            return frozenset(name.text for name in timed)
        found = {n.text for n in timed if self._is_moved_at(n.t2)}
        found |= {part.name.text for part in self.wanted.parts if self._is_past_a_delete(part)}
        if allows_duplicates:
            # A second copy of a cell of the same time is a second row in a later consolidation.
            found |= {name.text for name in timed} - self.now.names
        return frozenset(found)

    def _is_past_a_delete(self, part: PastFragment) -> bool:
        """Tell whether its cells would move past a delete or update that still has to hide some."""
        if not part.cells_timed or part.name.text in self.now.names:
            return False
        conditions = (*self.wanted.deletes, *self.wanted.updates)
        return any(
            item.name.t1 >= part.name.t1 and item.name.text not in part.applied
            for item in conditions
        )

    def transition(self, past: Past, ends: int, version: int) -> Transition:
        """Give the commits; the last one gets the moment `ends`."""
        if self.is_replay:
            return self._everything(past, ends, version)
        moved = [part for part in self.wanted.parts if self._is_moved(part)]
        gone = {part.name.text for part in moved}
        kept = self.wanted.names & self.now.names - gone
        hidden = tuple(part for part in self.now.parts if part.name.text not in kept)
        first = ends - max(len(moved) - 1, 0)
        again = tuple(
            Again(part, self._named(part, first + at, ends)) for at, part in enumerate(moved)
        )
        refuse_old(past.history.array, (one.part for one in again))
        lifted = self.lifted if hidden else ()
        return Transition(first=first, last=ends, hidden=hidden, again=again, lifted=lifted)

    def _is_moved(self, part: PastFragment) -> bool:
        if part.name.text not in self.now.names:
            return True
        return not part.cells_timed and self._is_moved_at(part.name.t1)

    def _is_moved_at(self, time: int) -> bool:
        return self.moved_from is not None and time >= self.moved_from

    def _everything(self, past: Past, ends: int, version: int) -> Transition:
        if self.wanted.updates:
            found = self.wanted.updates[0].name.text
            problem = f"expected no update in force, found {found}, which cannot be replayed"
            hint = f"to write its rows first: chronotile apply {shell_word(past.history.array)}"
            raise UnreachableError(past.history.array, f"{problem}; {hint}")
        parts = [(part.name.t1, 0, part) for part in self.wanted.parts]
        start = parts[0][0]
        deletes = [(item.name.t1, 1, item) for item in self.wanted.deletes]
        events: list[tuple[int, int, PastFragment | PastDelete]] = [*parts]
        events += [event for event in deletes if event[0] >= start]
        events.sort(key=lambda event: event[:2])
        first = ends - len(events)
        wipe = DeleteAgain(
            f"{COMMITS}/{new_name(first, first, version)}.del", b"", "deletes all before"
        )
        again: list[Again] = []
        records = [wipe]
        for at, (_, _, item) in enumerate(events, first + 1):
            if isinstance(item, PastFragment):
                again.append(Again(item, self._named(item, at, ends)))
            else:
                uri = f"{COMMITS}/{new_name(at, at, version_of(item.name))}.del"
                records.append(DeleteAgain(uri, item.tile, f"{item.name.text} again"))
        refuse_old(past.history.array, (one.part for one in again))
        return Transition(
            first=first,
            last=ends,
            hidden=self.now.parts,
            again=tuple(again),
            deletes=tuple(records),
            lifted=self.lifted,
        )

    def _named(self, part: PastFragment, at: int, ends: int) -> str:
        """Name a fragment again: by a moment, or hidden until the last one if it can be."""
        name = part.name
        by_cell = has_cell_times_by_name(name, dense=self.dense)
        return new_name(at, at if by_cell else ends, name.version)


def wipe_tile(past: Past, key: bytes | None) -> bytes:
    """Make the tile of a delete that matches every row.

    Raises:
        RefusedError: The schema cannot be read.
    """
    latest = schema_at(past.history, MAX_TIMESTAMP)
    if latest is None or latest.schema is None:
        raise RefusedError(past.history.array, "expected a readable schema, found none")
    condition = matches_every_row(latest.schema)
    return tiles.encode(codec.encode(condition), version=latest.schema.version, key=key)


def vac_name(transition: Transition, version: int, *, dense: bool) -> str:
    """Name the `.vac` that hides fragments from the transition's moments on."""
    # Where an overlap is enough, it is in every window that sees one of the new fragments.
    by_cell = not dense and version >= TIMESTAMPED_CELLS
    return new_name(transition.first if by_cell else transition.last, transition.last, version)


_LONGEST_WAIT_MS = 10_000
_VACUUMED = "the array is being vacuumed"
_CONTENT = {SCHEMA: "schema", META: "metadata"}
"""Folder -> a word for what is in it."""


def copy_step(source: Store, target: Store, folder: str, name: str) -> Step:
    """List a fragment's folder, to copy or link it under another name."""
    new = f"{FRAGMENTS}/{name}"
    entries = source.list_prefix(folder)
    files = [(entry.path.removeprefix(f"{folder}/"), entry.size) for entry in entries]
    return Step(
        op="link" if Transfer(source, target).links else "copy",
        path=new,
        size=sum(size or 0 for _, size in files),
        reason=f"{folder} again, {count_text(len(files), 'file')}",
        source=Source(
            source,
            {f"{folder}/{file}": f"{new}/{file}" for file, _ in files},
            {f"{new}/{file}": size for file, size in files},
        ),
    )


class Effect(NamedTuple):
    """The effect of a change on fragments that it does not know."""

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


class Showing:
    """The steps of a transition, which make new fragments visible, and hide others, all at once.

    Attributes:
        copies: Step 1: the new fragments.
        added: URIs of the commits that are new.
        effect: On fragments that others write meanwhile.
    """

    def __init__(
        self,
        store: Store,
        history: History,
        transition: Transition,
        others: tuple[Step, ...],
        wipe: bytes = b"",
        written: tuple[Step, ...] = (),
    ) -> None:
        """Plan them.

        `others` are files of the schema and of metadata, `wipe` the tile of the delete that matches
        every row, `written` copies of new fragments, which were written aside.
        """
        self._history, self._others, self._last = history, others, transition.last
        version = write_version(history)
        refuse_newer(store.uri, (*transition.hidden, *(one.part for one in transition.again)))
        copies = tuple(
            copy_step(store, store, one.part.folder, one.name) for one in transition.again
        )
        self.copies = (*copies, *written)
        names = [step.path.rpartition("/")[2] for step in self.copies]
        writes = [write_uri(name) for name in names]
        deletes = {record.uri: record.tile or wipe for record in transition.deletes}
        self.added = (*writes, *deletes)
        # Of the order in the module's text, `_commits` is step 0, `_veil` 2, `_switch` 3, `_others`
        # 4, and `_files` 5.
        self._commits = plan_commits(history) if self.added else CommitsPlan()
        con = con_step(history, self._commits, writes, deletes) if self.added else None
        self._files = tuple(
            put(record.uri, record.tile or wipe, record.words) for record in transition.deletes
        )
        hidden = [f"/{part.folder}" for part in transition.hidden]
        vac = f"{COMMITS}/{vac_name(transition, version, dense=history.dense)}.vac"
        reason = f"hides {count_text(len(hidden), 'fragment')} from {transition.first} on"
        self._veil: tuple[Step, ...] = ()
        if transition.deletes or not hidden:
            switch = con
        elif con is None:
            switch = put(vac, encode_lines(hidden), reason)
        else:
            new = encode_lines(f"/{FRAGMENTS}/{name}" for name in names)
            self._veil = (put(vac, new, "hides the new fragments until all is there"), con)
            data = encode_exchanged(hidden, new)
            switch = Step(op="replace", path=vac, size=len(data), reason=reason, data=data, old=new)
        self._switch = switch
        effect = Effect(tuple(part.name for part in transition.hidden))
        self.effect = Effect(wiped=transition.first) if transition.deletes else effect

    def stages(self, *, wait: bool, copies: tuple[Step, ...] | None = None) -> tuple[Stage, ...]:
        """Give the steps, in the order of the module's text.

        `wait` waits for the moment, if it is just ahead; `copies` take the place of those planned.
        """
        copies = self.copies if copies is None else copies
        if self._switch is None and not self._others:
            return ()
        # The names in `__commits` at three points of the order; `commits` are put before all.
        before_veil = _in_commits(self._commits.steps).union(self._history.listing.commits)
        before_switch = before_veil | _in_commits(self._veil)
        same_before, same_then = (
            partial(_refuse_other_commits, names) for names in (before_veil, before_switch)
        )
        new = "every window sees the new state, or what it saw before"
        shows = {step.path: step.source.sizes for step in copies if step.source is not None}
        holds = Holds(self._history, before_switch, self.added, shows, self.effect)
        switch = () if self._switch is None else (self._switch,)
        return (
            *self._commits.stages(self._history),
            Stage(name="copies", steps=copies),
            Stage(name="veil", looks=(same_before, holds), steps=self._veil),
            Stage(
                name="switch",
                seen=new,
                looks=(same_then,) if self._veil else (),
                steps=switch,
            ),
            Stage(name="confirm", seen=new, looks=(replace(holds, taken_back=self._switch),)),
            Stage(name="schema and metadata", seen=new, steps=self._others),
            Stage(name="files of deletes", seen=new, steps=self._files),
            Stage(name="late commits", seen=new, looks=(partial(self._look_late, wait, holds),)),
        )

    def _look_late(self, wait: bool, holds: Holds, store: Store) -> Seen:
        """Wait for the moment of the change, and look what came while the array was changed.

        Raises:
            ChangedError: A vacuum has removed what is shown, or brings back what is hidden.
        """
        is_ahead = now_ms() <= self._last
        if wait:
            wait_until(self._last)
        listed = set(store.list_names(COMMITS).files)
        # A vacuum removes the `.vac` with what it lists now, or listed before the switch.
        if not _in_commits(self._veil) <= listed and (problem := holds.problem(store)) is not None:
            raise ChangedError(store.uri, f"{problem}; the rows are as before")
        notes = []
        if self._switch is not None and self._others and not is_ahead:
            folders = dict.fromkeys(step.path.partition("/")[0] for step in self._others)
            what = " and ".join(_CONTENT.get(folder, folder) for folder in folders)
            words = "for a moment readers saw the restored rows with the"
            notes.append(f"{words} {what} that the array had until then")
        switch = () if self._switch is None else (self._switch,)
        wiped = commit_name(self._files[0].path).t1 if self._files else None
        for file in sorted(listed - holds.known - _in_commits((*switch, *self._files))):
            name = try_parse(file.rpartition(".")[0])
            if wiped is not None and name is not None and name.t2 <= wiped:
                gone = f"it is of {name.t2}, and out of sight from {wiped} on"
                notes.append(f"{file} came meanwhile: {gone}; undo and repeat to bring it back")
            elif not file.endswith(".ign"):
                notes.append(f"{file} came meanwhile: it counts as a later write")
        return Seen(notes=tuple(notes))


def con_step(
    history: History, commits: CommitsPlan, writes: list[str], deletes: dict[str, bytes]
) -> Step:
    """Make the `.con` that commits fragments and deletes in one step, later than all others."""
    records = [commit_files.ConRecord(uri, None) for uri in writes]
    records += [commit_files.ConRecord(uri, tile) for uri, tile in deletes.items()]
    data = b"".join(map(encode_record, sorted(records, key=wanted_order)))
    cons = [source.path for source in history.table.sources if not source.loose]
    cons += [step.path for step in commits.steps]
    name = later_name([record.uri for record in records], cons, write_version(history))
    what = [count_text(len(writes), "write")] * bool(writes)
    what += [count_text(len(deletes), "delete")] * bool(deletes)
    return put(f"{COMMITS}/{name}.con", data, f"commits {', '.join(what)} in one step")


def _refuse_other_commits(known: frozenset[str], store: Store) -> None:
    """Look whether the commits are as they were read: the plan is right for them only.

    Raises:
        ChangedError: Somebody else committed something.
    """
    # An `.ign` that this change had to put says only what the commits say.
    fresh = set(store.list_names(COMMITS).files) ^ known
    fresh = {name for name in fresh if not name.endswith(".ign")}
    if fresh:
        problem = f"expected the commits as they were read, found {min(fresh)} changed"
        raise ChangedError(store.uri, f"{problem}; try again")


@dataclass(frozen=True, slots=True)
class Holds:
    """Look whether the new fragments are there, and nobody brings back what goes out of sight."""

    history: History = field(repr=False)
    known: frozenset[str] = field(repr=False)
    added: tuple[str, ...]
    shows: Mapping[str, Mapping[str, int | None]] = field(repr=False)
    effect: Effect
    taken_back: Step | None = None
    """The switch, once it is done: it is taken back if the look fails."""

    def __call__(self, store: Store) -> None:
        """Look.

        Raises:
            ChangedError: They are not, or somebody does.
        """
        problem = self.problem(store)
        if problem is None:
            return
        if self.taken_back is None:
            raise ChangedError(store.uri, f"{problem}; nothing has changed")
        _take_back(store, self.taken_back)
        raise ChangedError(store.uri, f"{problem}; the change is taken back")

    def problem(self, store: Store) -> str | None:
        """Say what is wrong; None if nothing is."""
        for file in sorted(set(store.list_names(COMMITS).files) - self.known):
            if file.endswith(".ign"):
                with suppress(MissingObjectError):
                    ignored = decode_ign(store.read(f"{COMMITS}/{file}"), file)
                    if not set(self.added).isdisjoint(ignored):
                        problem = f"expected new fragments to show, found them ignored by {file}"
                        return f"{problem}: {_VACUUMED}"
        for folder, is_there in zip(self.shows, self._there(store), strict=True):
            if not is_there:
                return f"expected {folder} to stay, found it removed: {_VACUUMED}"
        if self.effect == Effect():
            return None
        ours = {folder.rpartition("/")[2] for folder in self.shows}
        there = set(store.list_names(FRAGMENTS).folders)
        for text in sorted(there.difference(self.history.listing.fragments, ours)):
            if (why := self.effect.why_in_the_way(text)) is not None:
                return f"{FRAGMENTS}/{text} came meanwhile: {why}"
        return None

    def _there(self, store: Store) -> Iterator[bool]:
        """Look whether each new fragment has all of its files."""

        def is_there(folder: str) -> bool:
            found = {entry.path: entry.size for entry in store.list_prefix(folder)}
            return found == dict(self.shows[folder])

        return ahead(is_there, self.shows, store.concurrency)


def _take_back(store: Store, switch: Step) -> None:
    """Show the old fragments in place of the new ones, in one step."""
    if switch.op == "replace":
        lines = decode_vac(switch.old, switch.path)
        with suppress(ChangedError):  # Gone: then nothing hides the old ones.
            store.exchange(switch.path, switch.data, encode_exchanged(lines, switch.data))
    else:
        store.remove([switch.path])


def _in_commits(steps: Iterable[Step]) -> frozenset[str]:
    """Name the commit files among some steps."""
    names = (step.path.rpartition("/") for step in steps)
    return frozenset(name for folder, _, name in names if folder == COMMITS)


def wait_until(moment: int) -> None:
    """Wait for a moment that is just ahead, so that an open now sees it."""
    wait_ms = moment - now_ms()
    if 0 <= wait_ms <= _LONGEST_WAIT_MS:
        time.sleep((wait_ms + 1) / 1000)


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
        command = f"chronotile vacuum {shell_word(store.uri)} --whole-orphans --orphan-age 0"
        hint = f"wait until it has ended, and try again; if it was broken off: {command}"
        raise RefusedError(store.uri, f"{problem}; {hint}")
    return tuple(notes)


def _is_young(store: Store, path: str) -> bool:
    """Tell whether a folder may belong to a write that is under way; an empty one may."""
    times = [entry.modified_ms for entry in store.list_prefix(path)]
    young = now_ms() - HOURS_24
    return not times or any(time is None or time > young for time in times)
