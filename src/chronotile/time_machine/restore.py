"""Restore: from a moment on, an array is as it was at an earlier one.

In: an array, a moment to go back to. Out: commits that bring its state back, and a report. Every
window that ends before stays as it is, and no fragment is removed.

`undelete` in the same way lets the rows of one delete come back from a moment on.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from chronotile.change.change_report import Before, Report, tell
from chronotile.change.sound_array import sealing_key, sound_history, write_version
from chronotile.check.findings import RefusedError, count_text
from chronotile.check.read_tags import moment_in
from chronotile.errors import shell_word
from chronotile.format.kinds import LABELS
from chronotile.format.names import MAX_TIMESTAMP
from chronotile.format.timestamps import now_ms, time_text
from chronotile.storage.store import Store, open_store
from chronotile.time_machine.carry_out import Plan, carry_out, plan_steps
from chronotile.time_machine.past_state import Past, State, UnreachableError
from chronotile.time_machine.replay import Replay, plan_replay, wipe_tile
from chronotile.time_machine.schema_and_metadata import (
    latest_moment,
    metadata_back,
    schema_back,
)
from chronotile.time_machine.under_way import look_under_way

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from chronotile.change.change_report import Step
    from chronotile.format.timestamps import Moment
    from chronotile.history.read_history import History
    from chronotile.time_machine.past_state import Part
    from chronotile.visibility.rules import Rules

_SLACK_MS = 60_000
"""How far ahead of this clock another one may be."""
_LEAD_MS = {"disk": 100, "bucket": 2_000}
"""How far ahead the moment of a restore is that puts several files which must show at once."""


def restore(
    array: str,
    to: Moment,
    *,
    at: Moment | None = None,
    keep_metadata: bool = False,
    dry_run: bool = False,
    key: bytes | str | None = None,
    storage_options: Mapping[str, str] | None = None,
    store: Store | None = None,
    before: Before = None,
) -> Report:
    """Makes an array, from a moment on, as it was at an earlier one.

    Fragments, deletes, schema and metadata come back; tags stay. Every window that ends before the
    report's first moment stays as it is.

    Args:
        array: A path or a URI.
        to: The moment to go back to, in any spelling of a time.
        at: The moment from which on; it must be after every commit. Now, if it is left out.
        keep_metadata: Leave the metadata as it is now.
        dry_run: Change nothing.
        key: The key of an encrypted array.
        storage_options: What the storage needs to know.
        store: The store, if it is open already.
        before: Called with the planned steps, before the first.

    Raises:
        UnreachableError: Merged fragments hold more than that state, and what they were merged from
            is gone; the message names the nearest times that can be had.
        RefusedError: The array is damaged, or a delete on newer fields would break it.

    >>> restore("memory:doc-nowhere", 5)
    Traceback (most recent call last):
    chronotile.errors.ArrayNotFoundError: memory://doc-nowhere: expected an array, found no schema
    """
    opened = store or open_store(array, storage_options)
    history, rules = sound_history(opened, key)
    past, end = Past(opened, rules), moment_in(opened, history, to)
    past.refuse_lost(end)
    change = Change(opened, rules, past, at)
    back = [*schema_back(opened, rules, end)]
    if not keep_metadata:
        back += metadata_back(opened, history, end, change.key)
    try:
        change.bring(lambda apart: past.at(0, end, apart=apart), more=bool(back))
    except UnreachableError as error:
        later = [item.name.text for item in change.now.deletes if item.name.t2 > end]
        raise _with_hint(error, later, end) from error
    others = [one.step(history, change.last) for one in back]
    words = f"it is as it was at {end} ({time_text(end)})"
    report = change.run("restore", tuple(others), words, before, dry_run=dry_run)
    return replace(report, notes=(*report.notes, *_notes_on_labels(opened, end)))


def _notes_on_labels(store: Store, end: int) -> Iterator[str]:
    """Dimension labels are arrays by themselves, which change by themselves."""
    for folder in store.list_dir(LABELS).folders:
        command = f"chronotile restore {shell_word(store.uri_of(folder))} --to {end}"
        yield f"{folder} stays as it is: {command} brings it back"


def undelete_from(
    store: Store,
    name: str,
    *,
    at: Moment | None = None,
    dry_run: bool = False,
    key: bytes | str | None = None,
    before: Before = None,
) -> Report:
    """Lets the rows that one delete or update hides come back, from a moment on."""
    _, rules = sound_history(store, key)
    past = Past(store, rules)
    change = Change(store, rules, past, at)
    known = {item.name.text for item in (*change.now.deletes, *change.now.updates)}
    if name not in known:
        raise RefusedError(store.uri, f"expected a delete or update in force, found {name!r:.120}")
    try:
        change.bring(lambda apart: past.at(0, MAX_TIMESTAMP, without=[name], apart=apart))
    except UnreachableError as error:
        raise _with_hint(error, [name], None) from error
    words = f"{name} no longer hides a row"
    return change.run("undelete", (), words, before, dry_run=dry_run)


def _with_hint(error: UnreachableError, deletes: list[str], end: int | None) -> UnreachableError:
    """The refusal, with the other ways that there are."""
    array = shell_word(error.where)
    ways = [f"chronotile undelete {array} {name} --ever" for name in deletes[:1]]
    to = "TIME" if end is None else end
    ways += [f"chronotile restore {array} --to {to} --rewrite: TileDB writes the rows as they were"]
    return UnreachableError(error.where, f"{error.problem}; other ways: {', or '.join(ways)}")


class Change:
    """One change of what is visible from a moment on."""

    def __init__(self, store: Store, rules: Rules, past: Past, at: Moment | None) -> None:
        self.store, self.rules, self.past = store, rules, past
        self.history: History = rules.history
        self.now = past.now()
        self.key = sealing_key(store, self.history)
        self.latest = latest_moment(rules)
        self.at = None if at is None else moment_in(store, self.history, at)
        if self.at is None and self.latest > now_ms() + _SLACK_MS:
            problem = f"expected no commit of the future, found one of {self.latest}"
            raise RefusedError(store.uri, f"{problem}; say from when, after it")
        self.last = 0
        self.replay = Replay(first=0, last=0, hidden=(), again=())
        self.wanted: State = self.now

    def bring(self, wanted_at: Callable[[frozenset[str]], State], *, more: bool = False) -> None:
        """Plans the commits that bring a state about, all of them after every other commit.

        Args:
            wanted_at: Gives the wanted state, with some merged fragments taken apart.
            more: Whether schema or metadata change too. If fragments are only hidden, the moment is
                then a little ahead: until it comes, an open now sees nothing of it, and then all at
                once. Nothing that somebody writes until then goes out of sight. A copy or a delete
                of that moment would hide it, so that those are never ahead.
        """
        version = write_version(self.history)
        # Planned twice: how many moments it takes is known only after the first time.
        probe, _ = plan_replay(self.past, self.now, wanted_at, MAX_TIMESTAMP, version)
        length = probe.last - probe.first
        if self.at is not None:
            if self.at <= self.latest:
                problem = "expected a moment after every commit, the last of which is of "
                raise RefusedError(self.store.uri, f"{problem}{self.latest}, found {self.at}")
            self.last = self.at + length
        else:
            ahead = more and not (probe.again or probe.deletes)
            lead = _LEAD_MS["disk" if self.store.place.scheme == "file" else "bucket"]
            self.last = max(now_ms() + ahead * lead, self.latest + 1 + length)
        self.replay, self.wanted = plan_replay(self.past, self.now, wanted_at, self.last, version)

    def run(
        self,
        command: str,
        others: tuple[Step, ...],
        words: str,
        before: Before,
        *,
        dry_run: bool,
    ) -> Report:
        """Carries the change out, unless it is a dry run, and reports it."""
        wipe = wipe_tile(self.past, self.key) if self.replay.deletes else b""
        plan = plan_steps(self.store, self.history, self.replay, others, wipe)
        under_way = look_under_way(self.store, self.rules, plan.effect)
        report = Report(
            command,
            self.store.uri,
            dry_run=dry_run,
            steps=plan.steps(),
            notes=(*self._notes(plan, words), *under_way),
            added=plan.added,
            hidden=() if self.replay.deletes else self._hidden(),
        )
        if dry_run or not report.steps:
            return report
        tell(before, report)
        # Who names a moment need not wait for it: of a group, all members must be done before.
        late = carry_out(self.store, self.history, plan, wait=self.at is None)
        return replace(report, notes=(*report.notes, *late))

    def _hidden(self) -> tuple[str, ...]:
        return tuple(part.name.text for part in self.replay.hidden)

    def _notes(self, plan: Plan, words: str) -> Iterator[str]:
        if not plan.steps():
            return
        replay = self.replay
        until = "" if replay.first == replay.last else f", whole from {replay.last} on"
        yield f"from {replay.first} ({time_text(replay.first)}) on {words}{until}"
        if replay.deletes:
            when = f"{replay.first} ({time_text(replay.first)})"
            yield (
                f"this takes a delete of everything at {when}: a write that is dated before it, "
                "and comes later, never shows"
            )
        after = {one.part.name.text for one in replay.again}
        after |= {part.name.text for part in self.wanted.parts}
        gone = [part for part in replay.hidden if part.name.text not in after]
        here = self.now.names
        back = [part for part in self.wanted.parts if part.name.text not in here]
        if gone:
            yield f"out of sight: {_measured(gone)}"
        if back:
            yield f"back in sight: {_measured(back)}"
        for name in replay.undone:
            yield f"{name} no longer hides a row"
        if replay.again:
            size = sum(copy.size for copy in plan.copies)
            kind = "links" if self.store.place.scheme == "file" else "copies"
            again = count_text(len(replay.again), "fragment")
            yield f"{again} committed again: {kind} of {size:,} bytes"
        if replay.first > now_ms() and (replay.deletes or replay.again):
            yield f"what others write until {replay.first} may go out of sight then"
        if replay.hidden and not replay.deletes:
            yield (
                "a vacuum by the engine removes what is out of sight, also from windows that end "
                f"before: until then, chronotile undo {shell_word(self.store.uri)} takes this back"
            )


def _measured(parts: list[Part]) -> str:
    """How many fragments, with their cells and bytes where the footers tell."""
    cells = [part.cells for part in parts if part.cells is not None]
    sizes = [part.size for part in parts if part.size is not None]
    told = [count_text(sum(cells), "cell")] if len(cells) == len(parts) else []
    told += [f"{sum(sizes):,} bytes"] if len(sizes) == len(parts) else []
    fragments = count_text(len(parts), "fragment")
    return f"{fragments} with {' and '.join(told)}" if told else fragments
