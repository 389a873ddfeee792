"""Restore: from a moment on, an array is as it was at an earlier one.

In: an array, a moment to go back to. Out: the plan of commits that bring its state back. Every
window that ends before stays as it is, and no fragment is removed.

The old schema's file is put once more, under a later name: fragments name their schema by its file,
so that all of them stay. Metadata gets one file with the keys that differ. Tags stay as they are:
they name moments of the whole history.

`rows.ways_back` calls this planner first: it has another way, with the engine, if the state cannot
be reached by commits alone (`UnreachableError`).
"""

from __future__ import annotations

from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from chronotile.change.past_state import Past, PastState, UnreachableError, sum_cells
from chronotile.change.plan import Plan, Step, put
from chronotile.change.sound_array import array_version, sealing_key, sound_history, write_version
from chronotile.change.transition import (
    Showing,
    Transition,
    look_under_way,
    plan_transition,
    wipe_tile,
)
from chronotile.check.findings import RefusedError, count_text, shown
from chronotile.check.tags import moment_in, odd_moment
from chronotile.conditions.tree import fields
from chronotile.errors import ChronotileError, option
from chronotile.format import tiles
from chronotile.format.array_metadata import MetadataItem, encode_items, removal_item
from chronotile.format.kinds import LABELS, META, SCHEMA
from chronotile.format.names import MAX_TIMESTAMP, new_name, try_parse
from chronotile.format.tag_entries import is_tag
from chronotile.format.timestamps import now_ms, time_text
from chronotile.history.read_history import merged_items, read_metadata
from chronotile.safe_text import shell_word
from chronotile.visibility.gaps import metadata_merged_over
from chronotile.visibility.rules import schema_at, visible_metadata
from chronotile.visibility.view import tile_commits

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from chronotile.change.past_state import PastFragment
    from chronotile.format.timestamps import Moment
    from chronotile.history.read_history import History
    from chronotile.storage.store import Store
    from chronotile.visibility.rules import Rules

_SLACK_MS = 60_000
"""How far ahead of this clock another one may be."""
_LEAD_MS = {"quick": 100, "slow": 2_000}
"""How far ahead the moment of a restore is that puts several files which must show at once."""


def plan_restore(
    store: Store,
    key: bytes | None,
    *,
    to: Moment,
    at: Moment | None = None,
    keep_metadata: bool = False,
) -> Plan:
    """Plan to make an array as it was at an earlier moment; see `Handle.restore`."""
    try:
        return _plan(store, key, to=to, at=at, keep_metadata=keep_metadata)
    except UnreachableError as error:
        near = {}
        for moment, words in error.near.items():
            with suppress(ChronotileError):
                _plan(store, key, to=moment, at=at, keep_metadata=keep_metadata)
                near[moment] = words
        raise UnreachableError(error.where, error.why, near, error.way) from error


def _plan(
    store: Store, key: bytes | None, *, to: Moment, at: Moment | None, keep_metadata: bool
) -> Plan:
    history, rules = sound_history(store, key)
    past, end = Past(store, rules), moment_in(store, history, to)
    change = VisibleChange(store, rules, past, at)
    refuse_future(store.uri, end, change.latest)
    past.refuse_lost(end)
    back = [*schema_back(store, rules, end)]
    if not keep_metadata:
        back += metadata_back(store, history, end, change.key)
    try:
        change.bring(lambda apart: past.at(0, end, apart=apart), more=bool(back))
    except UnreachableError as error:
        if history.dense:
            raise
        again = f"chronotile restore {shell_word(store.uri)} --to {end} --rewrite"
        again += f" --at {change.at}" * (change.at is not None) + " --keep-metadata" * keep_metadata
        raise with_way(error, f"to have TileDB write the rows: {again}") from error
    others = tuple(one.step(history, change.last) for one in back)
    words = f"the array shows the state of {end} ({time_text(end)})"
    notes = (*odd_moment(history, end), *_notes_on_labels(store, end))
    return change.plan("restore", others, words, notes)


def refuse_future(array: str, end: int, latest: int) -> None:
    """Refuse to go back to a moment that is still to come."""
    if end > max(now_ms() + _SLACK_MS, latest):
        when = f"{end} ({time_text(end)})"
        raise RefusedError(array, f"{when} is in the future: a restore goes back in time")


def _notes_on_labels(store: Store, end: int) -> Iterator[str]:
    """Note how to restore dimension labels: each is an array of its own."""
    for folder in store.list_dir(LABELS).folders:
        command = f"chronotile restore {shell_word(store.uri_of(folder))} --to {end}"
        yield f"{folder} stays as it is; to restore it too: {command}"


def with_way(error: UnreachableError, way: str) -> UnreachableError:
    """Add another way to a refusal."""
    return UnreachableError(error.where, error.why, error.near, way)


class VisibleChange:
    """One change of what is visible from a moment on."""

    def __init__(self, store: Store, rules: Rules, past: Past, at: Moment | None) -> None:
        self.store, self.rules, self.past = store, rules, past
        self.history: History = rules.history
        self.now = past.now()
        self.key = sealing_key(store, self.history)
        self.latest, self.at = latest_and_asked(store, rules, at)
        self.last = 0
        self.transition = Transition(first=0, last=0, hidden=(), again=())
        self.wanted: PastState = self.now

    def bring(
        self, wanted_with_apart: Callable[[frozenset[str]], PastState], *, more: bool = False
    ) -> None:
        """Plan the commits that bring a state about, all of them after every other commit.

        Args:
            wanted_with_apart: Gives the wanted state, with the merged fragments of these names
                taken apart.
            more: Whether schema or metadata change too. If fragments are only hidden, the moment is
                then a little ahead: until it comes, an open now sees nothing of it, and then all at
                once. Nothing that somebody writes until then goes out of sight. A copy or a delete
                of that moment would hide it, so that those are never ahead.
        """
        version = write_version(self.history)
        plan_until = partial(
            plan_transition, self.past, self.now, wanted_with_apart, version=version
        )
        # Planned twice: how many moments it takes is known only after the first time.
        probe, _ = plan_until(ends=MAX_TIMESTAMP)
        moments_before_last = probe.last - probe.first
        if self.at is not None:
            self.last = self.at + moments_before_last
        else:
            ahead = more and not (probe.again or probe.deletes)
            lead = _LEAD_MS[self.store.traits.pace]
            self.last = max(now_ms() + ahead * lead, self.latest + 1 + moments_before_last)
        self.transition, self.wanted = plan_until(ends=self.last)

    def plan(
        self, command: str, others: tuple[Step, ...], words: str, more: Iterable[str] = ()
    ) -> Plan:
        """Plan the change."""
        wipe = wipe_tile(self.past, self.key) if self.transition.deletes else b""
        showing = Showing(self.store, self.history, self.transition, others, wipe)
        under_way = look_under_way(self.store, self.rules, showing.effect)
        # Who names a moment need not wait for it: of a group, all members must be done before.
        stages = showing.stages(wait=self.at is None)
        done = f"nothing has changed since: {words}" if command == "restore" else words
        notes = (*(self._notes(showing, words) if stages else [done]), *more)
        notes = (*notes, *under_way) if stages else notes
        hidden = tuple(part.name.text for part in self.transition.hidden)
        return Plan(
            command=command,
            array=self.store.uri,
            stages=stages,
            notes=notes,
            added=showing.added,
            hidden=() if self.transition.deletes else hidden,
        )

    def _out_and_back(self) -> tuple[list[PastFragment], list[PastFragment]]:
        """List the fragments that go out of sight, and those that come back."""
        after = {one.part.name.text for one in self.transition.again} | self.wanted.names
        gone = [part for part in self.transition.hidden if part.name.text not in after]
        return gone, [part for part in self.wanted.parts if part.name.text not in self.now.names]

    def _notes(self, showing: Showing, words: str) -> Iterator[str]:
        transition = self.transition
        first, last = transition.first, transition.last
        part = f"; reads that end from {first} to {last - 1} see a part of that"
        part *= first != last
        yield f"{words}, from {last} ({time_text(last)}) on{part}"
        if transition.deletes:
            when = f"{first} ({time_text(first)})"
            yield (
                f"this takes a delete of everything at {when}: a write that is dated before it, "
                "and comes later, never shows"
            )
        gone, back = self._out_and_back()
        if gone:
            yield f"hides {_measured(gone)}"
        if back:
            yield f"shows again {_measured(back)}"
        for name in transition.lifted:
            if name not in words:
                yield f"the commit {name} then hides no row"
        if transition.again:
            size = sum(step.size or 0 for step in showing.copies)
            files = "hard links, which take no space" if self.store.traits.has_links else "copies"
            again = count_text(len(transition.again), "fragment")
            yield f"commits {again} again under a new name: {size:,} bytes of {files}"
        if first > now_ms() and (transition.deletes or transition.again):
            yield f"what others write until {first} may be hidden then"
        if transition.hidden and not transition.deletes:
            yield VACUUM_NOTE


VACUUM_NOTE = (
    "do not run TileDB's own vacuum: it removes the hidden fragments, and then neither undo nor a "
    "read of an earlier time finds them; chronotile's vacuum keeps them"
)
"""What a change that hides fragments says."""


def _measured(parts: list[PastFragment]) -> str:
    """Count fragments, with their cells and bytes if the footers have them."""
    cells = sum_cells(parts)
    sizes = [part.size for part in parts if part.size is not None]
    told = [] if cells is None else [count_text(cells, "cell")]
    told += [f"{sum(sizes):,} bytes"] if len(sizes) == len(parts) else []
    fragments = count_text(len(parts), "fragment")
    return f"{fragments} with {' and '.join(told)}" if told else fragments


class Back(NamedTuple):
    """A file that brings something of a past moment back, without a name yet."""

    folder: str
    data: bytes
    reason: str

    def step(self, history: History, at: int) -> Step:
        """Name the file by the moment from which on it counts.

        Raises:
            RefusedError: There is a later file, or one of the same moment.
        """
        text = new_name(at, at, None)
        if self.folder == SCHEMA:
            is_later = all(item.text < text for item in history.schemas)
        else:
            is_later = all(n.t1 < at for n in visible_metadata(history, 0, MAX_TIMESTAMP))
        if not is_later:
            problem = f"expected a moment after every file of {self.folder}, found {at}"
            raise RefusedError(history.array, f"{problem}: what was there then cannot come back")
        return put(f"{self.folder}/{text}", self.data, self.reason)


def schema_back(store: Store, rules: Rules, to: int) -> Iterator[Back]:
    """Make the file that brings the schema of a moment back, if it differs.

    Raises:
        RefusedError: A delete names a field that this schema lacks: every read would fail (F8).
    """
    history = rules.history
    then, now = schema_at(history, to), schema_at(history, MAX_TIMESTAMP)
    assert then is not None  # a listing without a schema is no array
    assert now is not None
    if then is now:
        return
    data, last = store.read(then.path), store.read(now.path)
    if _payload(data, then.path, history) == _payload(last, now.path, history):
        return
    if then.name is None:
        problem = f"expected a schema of version 10 or later, found {then.text}"
        raise RefusedError(history.array, f"{problem}: it cannot come back")
    known = {field.name for field in then.schema.fields} if then.schema else set()
    for commit, _ in tile_commits(rules, MAX_TIMESTAMP):
        lacking = set(fields(commit.stored)) - known
        if lacking:
            problem = f"expected deletes on fields of {then.text}, found {commit.name}"
            hint = f"chronotile undelete {shell_word(history.array)} {commit.name} --ever"
            problem += f", which names {shown(sorted(lacking))}"
            raise RefusedError(history.array, f"{problem}; to take it out: {hint}")
    yield Back(SCHEMA, data, f"the schema as it was: {then.text}")


def _payload(data: bytes, path: str, history: History) -> bytes:
    return tiles.decode(data, path, key=history.key).payload


def metadata_back(store: Store, history: History, to: int, key: bytes | None) -> Iterator[Back]:
    """Make the file that brings the metadata of a moment back, if it differs.

    Raises:
        RefusedError: Metadata was merged over that moment, and what it was merged from is gone.
    """
    _refuse_merged(history, to)
    then = _items(store, history, to)
    now = _items(store, history, MAX_TIMESTAMP)
    changed: list[MetadataItem] = [
        item for name, item in then.items() if name not in now or now[name].raw != item.raw
    ]
    changed += [removal_item(name) for name in now if name not in then]
    if not changed:
        return
    data = tiles.encode(encode_items(changed), version=array_version(history), key=key)
    reason = f"metadata as it was: {count_text(len(changed), 'key')}"
    yield Back(META, data, reason)


def _items(store: Store, history: History, end: int) -> dict[bytes, MetadataItem]:
    files = read_metadata(store, visible_metadata(history, 0, end), history.key)
    return {key: item for key, item in merged_items(files).items() if not is_tag(key)}


def _refuse_merged(history: History, moment: int) -> None:
    if (text := metadata_merged_over(history, moment)) is not None:
        problem = f"the metadata of {moment} was merged into {META}/{text}"
        raise RefusedError(
            history.array,
            f"{problem}; to leave the metadata as it is, add {option('keep_metadata')}",
        )


def latest_and_asked(store: Store, rules: Rules, at: Moment | None) -> tuple[int, int | None]:
    """Read the last moment that is taken, and the one asked for a change, which must be later.

    Raises:
        RefusedError: It is not; or none is asked for, and the last one is of the future.
    """
    latest = latest_moment(rules)
    asked = None if at is None else moment_in(store, rules.history, at)
    if asked is None and latest > now_ms() + _SLACK_MS:
        problem = f"the array has a commit of the future, at {time_text(latest)}"
        hint = f"give a time after it: {option('at', str(latest + 1))}"
        raise RefusedError(store.uri, f"{problem}; {hint}")
    if asked is not None and asked <= latest:
        last = f"the last commit is of {latest} ({time_text(latest)})"
        problem = f"the moment {asked} is too early: {last}; name a later one, or none"
        raise RefusedError(store.uri, problem)
    return latest, asked


def latest_moment(rules: Rules) -> int:
    """Find the last moment of any commit, `.vac`, schema or metadata file of an array.

    Raises:
        ChronotileError: It is the last one that there is.
    """
    history = rules.history
    table = history.table
    moments = [int(table.uris.t2.max())] if len(table) else [0]
    moments += [vacuum.name.t2 for vacuum in (*history.vacuums, *history.meta_vacuums)]
    moments += [item.name.t2 for item in history.schemas if item.name is not None]
    moments += [name.t2 for text in history.listing.meta if (name := try_parse(text)) is not None]
    if max(moments) >= MAX_TIMESTAMP - 1:
        raise ChronotileError(history.array, "expected a moment after all commits, found none")
    return max(moments)
