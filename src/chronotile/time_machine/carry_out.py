"""A replay, carried out: copies first, then one file that shows all of it at once.

In: a store, a replay, further files to put. Out: the array changed, and the steps. Removes nothing.

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
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TypeAlias

from chronotile.change.change_report import Step, put
from chronotile.change.consolidate import (
    CommitsPlan,
    ignore_removed,
    plan_commits,
    put_con,
    wanted_order,
)
from chronotile.change.sound_array import write_version
from chronotile.check.findings import count_text
from chronotile.check.fragment_health import READ_AT_ONCE
from chronotile.errors import ChangedError, StorageError
from chronotile.format import commit_files
from chronotile.format.commit_files import (
    commit_name,
    decode_ign,
    decode_vac,
    encode_exchanged,
    encode_lines,
    encode_record,
    write_uri,
)
from chronotile.format.con_names import later_name
from chronotile.format.kinds import COMMITS, FRAGMENTS
from chronotile.format.names import try_parse
from chronotile.format.timestamps import now_ms
from chronotile.storage.compared_put import put_compared
from chronotile.storage.prefetch import ahead
from chronotile.storage.store import MissingObjectError, ObjectExistsError
from chronotile.storage.transfer import Transfer
from chronotile.time_machine.past_state import refuse_newer
from chronotile.time_machine.replay import vac_name
from chronotile.time_machine.under_way import Effect

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from chronotile.history.read_history import History
    from chronotile.storage.store import Store
    from chronotile.time_machine.replay import Replay

_LONGEST_WAIT_MS = 10_000
_VACUUMED = "the array is being vacuumed"


Files: TypeAlias = tuple[tuple[str, int | None], ...]
"""Names in a folder, and sizes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Copy:
    """A fragment that gets a second name."""

    source: Store
    folder: str
    """In the source."""
    name: str
    """The new one."""
    files: Files
    is_link: bool

    @property
    def size(self) -> int:
        """Bytes of all files."""
        return sum(size or 0 for _, size in self.files)


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """All steps, in order."""

    commits: CommitsPlan = field(default_factory=CommitsPlan)
    """Step 0."""
    copies: tuple[Copy, ...] = ()
    veil: tuple[Step, ...] = ()
    """Step 2: a `.vac` that hides the new fragments, and their `.con`."""
    needed: tuple[Step, ...] = ()
    """Of step 1: schemas and enumerations of the copies."""
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
    written: tuple[tuple[str, Files], ...] = ()
    """Names and files of new fragments that were written before, and not copied."""

    @property
    def fragments(self) -> dict[str, Files]:
        """The files of each new fragment, by its folder."""
        new = (*((copy.name, copy.files) for copy in self.copies), *self.written)
        return {f"{FRAGMENTS}/{name}": files for name, files in new}

    def steps(self) -> tuple[Step, ...]:
        """What is done, a step each fragment and file."""
        copies = tuple(
            Step(
                op="link" if copy.is_link else "copy",
                path=f"{FRAGMENTS}/{copy.name}",
                size=copy.size,
                reason=f"{copy.folder} again, {count_text(len(copy.files), 'file')}",
                fragment_files=len(copy.files),
            )
            for copy in self.copies
        )
        switch = () if self.switch is None else (self.switch,)
        shown = (*self.veil, *switch, *self.others, *self.files)
        return (*self.commits.steps, *copies, *self.needed, *shown)


def copy_of(source: Store, target: Store, folder: str, name: str) -> Copy:
    """Lists a fragment's folder, to copy it."""
    entries = source.list_prefix(folder, sizes=True)
    files = tuple((entry.path.removeprefix(f"{folder}/"), entry.size) for entry in entries)
    is_link = Transfer(source, target).links
    return Copy(source=source, folder=folder, name=name, files=files, is_link=is_link)


def plan_steps(
    store: Store,
    history: History,
    replay: Replay,
    others: tuple[Step, ...],
    wipe: bytes = b"",
    written: tuple[tuple[str, Files], ...] = (),
) -> Plan:
    """Plan the steps of a replay.

    Args:
        store: Where the array is.
        history: What was read of it.
        replay: What is hidden and committed.
        others: Files of the schema and of metadata.
        wipe: The tile of the delete that matches every row.
        written: New fragments that are there already, and that no commit names.
    """
    version = write_version(history)
    refuse_newer(store.uri, (*replay.hidden, *(one.part for one in replay.again)))
    copies = tuple(copy_of(store, store, one.part.folder, one.name) for one in replay.again)
    names = [*(copy.name for copy in copies), *(name for name, _ in written)]
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
        switch = Step(op="replace", path=vac, size=len(data), reason=reason, data=data)
    effect = Effect(tuple(part.name for part in replay.hidden))
    return Plan(
        commits=commits,
        copies=copies,
        written=written,
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
    records = [commit_files.Record(uri, None) for uri in writes]
    records += [commit_files.Record(uri, tile) for uri, tile in deletes.items()]
    data = b"".join(map(encode_record, sorted(records, key=wanted_order)))
    cons = [source.path for source in history.table.sources if not source.loose]
    cons += [step.path for step in commits.steps]
    name = later_name([record.uri for record in records], cons, write_version(history))
    what = [count_text(len(writes), "write")] * bool(writes)
    what += [count_text(len(deletes), "delete")] * bool(deletes)
    return put(f"{COMMITS}/{name}.con", data, f"commits {', '.join(what)} at once")


def _line(folder: str) -> str:
    return f"/{folder}"


def put_aside(store: Store, history: History, plan: Plan) -> tuple[Step, ...]:
    """Steps 0 and 1: what no open sees; gives what was put besides."""
    extra: tuple[Step, ...] = ()
    for step in plan.commits.steps:
        put_con(store, step)
        extra = ignore_removed(store, history, plan.commits.rows)
    for copy in plan.copies:
        _copy(store, copy)
    for step in plan.needed:
        put_again(store, step)
    return extra


def carry_out(store: Store, history: History, plan: Plan, *, wait: bool = True) -> tuple[str, ...]:
    """Changes the array, in the order of the module's text; gives notes on what came meanwhile.

    Args:
        store: Where the array is.
        history: What the plan was made from.
        plan: The steps.
        wait: Wait for the moment, if it is just ahead.

    Raises:
        ChangedError: Somebody else changed the array before anything was to be seen, or removed
            what is shown, or brings back what is hidden: all is as before; try again.
    """
    is_ahead = now_ms() < plan.last
    extra = put_aside(store, history, plan)
    known = {*history.listing.commits, *_in_commits((*plan.commits.steps, *extra))}
    _refuse_fresh(store, known)
    if (problem := _problem(store, history, plan, known)) is not None:
        raise ChangedError(store.uri, f"{problem}; nothing has changed")
    for step in plan.veil:
        put_again(store, step)
    known |= _in_commits(plan.veil)
    if plan.veil:
        _refuse_fresh(store, known)
    if plan.switch is not None:
        _switch(store, plan, plan.switch)
        if (problem := _problem(store, history, plan, known)) is not None:
            _take_back(store, plan, plan.switch)
            raise ChangedError(store.uri, f"{problem}; the change is taken back")
    for step in plan.others:
        put_compared(store, step.path, step.data)
    is_ahead = is_ahead and now_ms() <= plan.last
    for step in plan.files:
        put_compared(store, step.path, step.data)
    if wait:
        wait_until(plan.last)
    known |= _in_commits(plan.steps())
    listed = set(store.list_names(COMMITS).files)
    # A vacuum removes the `.vac` with what it lists now, or with what it listed before the switch.
    is_vacuumed = not _in_commits(plan.veil) <= listed
    if is_vacuumed and (problem := _problem(store, history, plan, known)) is not None:
        raise ChangedError(store.uri, f"{problem}; the rows are as before")
    late = sorted(listed - known)
    return (*_mixed(plan, is_ahead=is_ahead), *_late(plan, late))


def _refuse_fresh(store: Store, known: set[str]) -> None:
    fresh = set(store.list_names(COMMITS).files) ^ known
    if fresh:
        problem = f"expected the commits as they were read, found {min(fresh)} changed"
        raise ChangedError(store.uri, f"{problem}; try again")


def _switch(store: Store, plan: Plan, switch: Step) -> None:
    """Shows the new fragments in place of the old ones, in one step."""
    if switch.op == "replace":
        store.exchange(switch.path, plan.veil[0].data, switch.data)
    else:
        put_compared(store, switch.path, switch.data)


def _take_back(store: Store, plan: Plan, switch: Step) -> None:
    """Shows the old fragments in place of the new ones, in one step."""
    if switch.op == "replace":
        lines = decode_vac(plan.veil[0].data, switch.path)
        with suppress(ChangedError):  # Gone: then nothing hides the old ones.
            store.exchange(switch.path, switch.data, encode_exchanged(lines, switch.data))
    else:
        store.remove([switch.path])


def _problem(store: Store, history: History, plan: Plan, known: set[str]) -> str | None:
    """Say why the new fragments do not show, or the old ones come back; None if all is well."""
    for file in sorted(set(store.list_names(COMMITS).files) - known):
        if file.endswith(".ign"):
            with suppress(MissingObjectError):
                ignored = decode_ign(store.read(f"{COMMITS}/{file}"), file)
                if not set(plan.added).isdisjoint(ignored):
                    problem = f"expected new fragments to show, found them ignored by {file}"
                    return f"{problem}: {_VACUUMED}"
    if (lost := _lost(store, plan)) is not None:
        return lost
    if plan.effect == Effect():
        return None
    ours = {folder.rpartition("/")[2] for folder in plan.fragments}
    new = set(store.list_names(FRAGMENTS).folders).difference(history.listing.fragments, ours)
    for text in sorted(new):
        if (why := plan.effect.why_in_the_way(text)) is not None:
            return f"expected no write meanwhile, found {FRAGMENTS}/{text}: {why}"
    return None


def refuse_lost(store: Store, plan: Plan) -> None:
    """Look at the new fragments before a file commits them.

    Raises:
        ChangedError: One is gone, or a part of it: nobody relies on it yet.
    """
    if (problem := _lost(store, plan)) is not None:
        raise ChangedError(store.uri, f"{problem}; nothing has changed, try again")


def take_back_lost(store: Store, plan: Plan) -> None:
    """Look at the new fragments after a file committed them, and take it back if one is gone.

    A vacuum that takes them for orphans looks at the commits once more before they go for good:
    see `orphan_fragments`. So one of the two sees the other.

    Raises:
        ChangedError: One is gone, or a part of it.
    """
    if plan.switch is not None and (problem := _lost(store, plan)) is not None:
        _take_back(store, plan, plan.switch)
        raise ChangedError(store.uri, f"{problem}; the change is taken back, try again")


def _lost(store: Store, plan: Plan) -> str | None:
    """Say which new fragment is not there; None if all are."""
    fragments = plan.fragments
    threads = 1 if store.place.scheme == "file" else READ_AT_ONCE
    looks = ahead(lambda folder: _is_there(store, folder, fragments[folder]), fragments, threads)
    for folder, is_there in zip(fragments, looks, strict=True):
        if not is_there:
            return f"expected {folder} to stay, found it removed: {_VACUUMED}"
    return None


def _is_there(store: Store, folder: str, files: Files) -> bool:
    found = {entry.path: entry.size for entry in store.list_prefix(folder, sizes=True)}
    return found == {f"{folder}/{name}": size for name, size in files}


def _mixed(plan: Plan, *, is_ahead: bool) -> Iterator[str]:
    """What an open could see between the steps."""
    if plan.switch is not None and plan.others and not is_ahead:
        what = " and ".join({step.path.partition("/")[0]: None for step in plan.others})
        yield f"an open just before the last file was there saw rows of then with {what} of before"


def _late(plan: Plan, names: list[str]) -> Iterator[str]:
    """What came while the array was changed."""
    wipe = commit_name(plan.files[0].path) if plan.files else None
    for file in names:
        name = try_parse(file.rpartition(".")[0])
        if wipe is not None and name is not None and name.t2 <= wipe.t1:
            gone = f"it is of {name.t2}, and out of sight from {wipe.t1} on"
            yield f"{file} came meanwhile: {gone}; undo, and the same again, brings it back"
        else:
            yield f"{file} came meanwhile: it counts as a later write"


def _in_commits(steps: Iterable[Step]) -> set[str]:
    """The names of the commit files among some steps."""
    names = (step.path.rpartition("/") for step in steps)
    return {name for folder, _, name in names if folder == COMMITS}


def put_again(store: Store, step: Step) -> None:
    """Puts a file; one that an earlier run, which was broken off, has put is no error."""
    try:
        put_compared(store, step.path, step.data)
    except ObjectExistsError:
        if store.read(step.path, limit=len(step.data) * 2 + 1) != step.data:
            raise


def _copy(store: Store, copy: Copy) -> None:
    new = f"{FRAGMENTS}/{copy.name}"
    names = {f"{copy.folder}/{name}": f"{new}/{name}" for name, _ in copy.files}
    try:
        Transfer(copy.source, store).files(names)
    except MissingObjectError as cause:
        problem = "expected it to stay, found it gone: the array is changing; try again"
        raise ChangedError(cause.where, problem) from cause
    if not _is_there(store, new, copy.files):
        problem = f"expected a copy of {copy.folder}, found differences"
        raise StorageError(store.uri_of(new), problem)


def wait_until(moment: int) -> None:
    """Waits for a moment that is just ahead, so that an open at now sees it."""
    ahead = moment - now_ms()
    if 0 <= ahead <= _LONGEST_WAIT_MS:
        time.sleep((ahead + 1) / 1000)
