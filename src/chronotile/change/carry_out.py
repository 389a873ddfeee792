"""The stages of a replay: copies first, then one file that shows all of it at once.

In: a store, a replay, further files to put. Out: `Showing`: its steps as stages. Removes nothing.

The order, so that a stop at any point leaves the old cells or the new ones:

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
  4. the schema and then the metadata of then, if they differ: a file each. The cells go first: the
     schema of now shows cells of then as TileDB shows old cells after an evolution, and nothing
     that is written meanwhile meets a schema without its fields. If the moment of all these files
     is still ahead, an open now sees none of them until it comes. Else it sees, for the time of a
     put or two, rows of then under the schema, or with the metadata, of now. Broken off there, the
     same command goes on;
  5. the files of new deletes, which the `.con` holds too: an engine looks for them when it
     consolidates commits (F1). They change nothing.
"""

from __future__ import annotations

import time
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from chronotile.change.consolidate import CommitsPlan, plan_commits, wanted_order
from chronotile.change.past_state import refuse_newer
from chronotile.change.plan import Seen, Source, Stage, Step, put
from chronotile.change.replay import vac_name
from chronotile.change.sound_array import write_version
from chronotile.change.under_way import Effect
from chronotile.check.findings import count_text
from chronotile.errors import ChangedError
from chronotile.format import commit_files
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
from chronotile.format.kinds import COMMITS, FRAGMENTS
from chronotile.format.names import try_parse
from chronotile.format.timestamps import now_ms
from chronotile.storage.prefetch import ahead
from chronotile.storage.store import MissingObjectError
from chronotile.storage.transfer import Transfer

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from chronotile.change.replay import Replay
    from chronotile.history.read_history import History
    from chronotile.storage.store import Store

_LONGEST_WAIT_MS = 10_000
_VACUUMED = "the array is being vacuumed"


def copy_step(source: Store, target: Store, folder: str, name: str) -> Step:
    """List a fragment's folder, to copy or link it under another name."""
    new = f"{FRAGMENTS}/{name}"
    entries = source.list_prefix(folder, sizes=True)
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


@dataclass(frozen=True, slots=True, kw_only=True)
class Showing:
    """What makes new fragments visible, and hides others, in one step."""

    history: History = field(repr=False)
    commits: CommitsPlan = field(default_factory=CommitsPlan)
    """Step 0."""
    copies: tuple[Step, ...] = ()
    veil: tuple[Step, ...] = ()
    """Step 2: a `.vac` that hides the new fragments, and their `.con`."""
    switch: Step | None = None
    """Step 3: a put, or the replacement of the `.vac` of the veil."""
    others: tuple[Step, ...] = ()
    """Step 4: schema and metadata."""
    files: tuple[Step, ...] = ()
    """Step 5."""
    added: tuple[str, ...] = ()
    """URIs of the commits that are new."""
    last: int = 0
    """The moment from which on all is to be seen."""
    effect: Effect = field(default_factory=Effect)
    """On fragments that others write meanwhile."""

    def stages(self, *, wait: bool) -> tuple[Stage, ...]:
        """Give the steps, in the order of the module's text.

        Args:
            wait: Wait for the moment, if it is just ahead.
        """
        if self.switch is None and not self.others:
            return ()
        known = frozenset(
            (*self.history.listing.commits, *_in_commits((*self.commits.steps, *self.veil)))
        )
        old = "every window sees what it saw before"
        new = "every window sees the new state, or what it saw before"
        shows = {step.path: step.source.sizes for step in self.copies if step.source is not None}
        holds = Holds(self.history, known, self.added, shows, self.effect)
        switch = () if self.switch is None else (self.switch,)
        late = Late(
            known | _in_commits((*switch, *self.files)),
            commit_name(self.files[0].path).t1 if self.files else None,
            tuple({step.path.partition("/")[0]: None for step in self.others}) if switch else (),
            self.last,
            wait,
            _in_commits(self.veil),
            holds,
        )
        return (
            *self.commits.stages(self.history),
            Stage(name="copies", seen=old, steps=self.copies),
            Stage(
                name="veil",
                seen=old,
                looks=(SameCommits(known - _in_commits(self.veil)), holds),
                steps=self.veil,
            ),
            Stage(
                name="switch",
                seen=new,
                looks=(SameCommits(known),) if self.veil else (),
                steps=switch,
            ),
            Stage(name="confirm", seen=new, looks=(replace(holds, taken_back=self.switch),)),
            Stage(name="schema and metadata", seen=new, steps=self.others),
            Stage(name="files of deletes", seen=new, steps=self.files),
            Stage(name="late commits", seen=new, looks=(late,)),
        )


def plan_steps(
    store: Store,
    history: History,
    replay: Replay,
    others: tuple[Step, ...],
    wipe: bytes = b"",
    written: tuple[Step, ...] = (),
) -> Showing:
    """Plan the steps of a replay.

    Args:
        store: Where the array is.
        history: What was read of it.
        replay: What is hidden and committed.
        others: Files of the schema and of metadata.
        wipe: The tile of the delete that matches every row.
        written: Copies of new fragments, which were written aside.
    """
    version = write_version(history)
    refuse_newer(store.uri, (*replay.hidden, *(one.part for one in replay.again)))
    copies = tuple(copy_step(store, store, one.part.folder, one.name) for one in replay.again)
    copies += written
    names = [step.path.rpartition("/")[2] for step in copies]
    writes = [write_uri(name) for name in names]
    deletes = {record.uri: record.tile or wipe for record in replay.deletes}
    added = (*writes, *deletes)
    commits = plan_commits(history) if added else CommitsPlan()
    con = con_step(history, commits, writes, deletes) if added else None
    files = tuple(put(record.uri, record.tile or wipe, record.words) for record in replay.deletes)
    hidden = [_line(part.folder) for part in replay.hidden]
    vac = f"{COMMITS}/{vac_name(replay, version, dense=history.dense)}.vac"
    reason = f"hides {count_text(len(hidden), 'fragment')} from {replay.first} on"
    veil: tuple[Step, ...] = ()
    if replay.deletes or not hidden:
        switch = con
    elif con is None:
        switch = put(vac, encode_lines(hidden), reason)
    else:
        new = encode_lines(_line(f"{FRAGMENTS}/{name}") for name in names)
        veil = (put(vac, new, "hides the new fragments until all is there"), con)
        data = encode_exchanged(hidden, new)
        switch = Step(op="replace", path=vac, size=len(data), reason=reason, data=data, old=new)
    effect = Effect(tuple(part.name for part in replay.hidden))
    return Showing(
        history=history,
        commits=commits,
        copies=copies,
        veil=veil,
        others=others,
        switch=switch,
        files=files,
        added=added,
        last=replay.last,
        effect=Effect(wiped=replay.first) if replay.deletes else effect,
    )


def con_step(
    history: History, commits: CommitsPlan, writes: list[str], deletes: dict[str, bytes]
) -> Step:
    """The `.con` that commits fragments and deletes in one step, later than all others."""
    records = [commit_files.ConRecord(uri, None) for uri in writes]
    records += [commit_files.ConRecord(uri, tile) for uri, tile in deletes.items()]
    data = b"".join(map(encode_record, sorted(records, key=wanted_order)))
    cons = [source.path for source in history.table.sources if not source.loose]
    cons += [step.path for step in commits.steps]
    name = later_name([record.uri for record in records], cons, write_version(history))
    what = [count_text(len(writes), "write")] * bool(writes)
    what += [count_text(len(deletes), "delete")] * bool(deletes)
    return put(f"{COMMITS}/{name}.con", data, f"commits {', '.join(what)} at once")


def _line(folder: str) -> str:
    return f"/{folder}"


@dataclass(frozen=True, slots=True)
class SameCommits:
    """Look whether the commits are as they were read: the plan is right for them only."""

    known: frozenset[str] = field(repr=False)

    def __call__(self, store: Store) -> None:
        """Look.

        Raises:
            ChangedError: Somebody else committed something.
        """
        # An `.ign` that this change had to put says only what the commits say.
        fresh = set(store.list_names(COMMITS).files) ^ self.known
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
                return f"expected no write meanwhile, found {FRAGMENTS}/{text}: {why}"
        return None

    def _there(self, store: Store) -> Iterator[bool]:
        """Look whether each new fragment has all of its files."""

        def is_there(folder: str) -> bool:
            found = {entry.path: entry.size for entry in store.list_prefix(folder, sizes=True)}
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


@dataclass(frozen=True, slots=True)
class Late:
    """Wait for the moment of a change, and look what came while the array was changed."""

    known: frozenset[str] = field(repr=False)
    wiped: int | None
    """The moment of a delete of everything, if there is one."""
    others: tuple[str, ...]
    """Folders of files that followed the switch."""
    moment: int
    wait: bool
    veil: frozenset[str]
    holds: Holds

    def __call__(self, store: Store) -> Seen:
        """Look; give notes.

        Raises:
            ChangedError: A vacuum has removed what is shown, or brings back what is hidden.
        """
        is_ahead = now_ms() <= self.moment
        if self.wait:
            wait_until(self.moment)
        listed = set(store.list_names(COMMITS).files)
        # A vacuum removes the `.vac` with what it lists now, or listed before the switch.
        if not self.veil <= listed and (problem := self.holds.problem(store)) is not None:
            raise ChangedError(store.uri, f"{problem}; the rows are as before")
        notes = []
        if self.others and not is_ahead:
            what = " and ".join(self.others)
            notes.append(f"for a moment readers saw the new rows with the old {what}")
        for file in sorted(listed - self.known):
            name = try_parse(file.rpartition(".")[0])
            if self.wiped is not None and name is not None and name.t2 <= self.wiped:
                gone = f"it is of {name.t2}, and out of sight from {self.wiped} on"
                notes.append(f"{file} came meanwhile: {gone}; undo and repeat to bring it back")
            elif not file.endswith(".ign"):
                notes.append(f"{file} came meanwhile: it counts as a later write")
        return Seen(notes=tuple(notes))


def _in_commits(steps: Iterable[Step]) -> frozenset[str]:
    """Name the commit files among some steps."""
    names = (step.path.rpartition("/") for step in steps)
    return frozenset(name for folder, _, name in names if folder == COMMITS)


def wait_until(moment: int) -> None:
    """Waits for a moment that is just ahead, so that an open at now sees it."""
    ahead = moment - now_ms()
    if 0 <= ahead <= _LONGEST_WAIT_MS:
        time.sleep((ahead + 1) / 1000)
