"""`chronotile log`: the history of an array or a group.

In: a place, and which events to show. Out: each event, the newest first; or new events as they
come. Lays lines out itself, as there may be hundreds of thousands of them: with colour and
shortened names for a terminal, whole and plain for a pipe. `show.story` finds the words.
"""

from __future__ import annotations

import itertools
import re
import time
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar

import click

from chronotile.cli.options import (
    access_options,
    array_argument,
    command,
    flag,
    member_option,
    read_log,
    reporting,
    time_option,
)
from chronotile.errors import BadTimeError, ChronotileError, ReadError
from chronotile.format.kinds import DATASET_EVENTS, EVENTS, WRITES
from chronotile.format.timestamps import Moment, span_text, time_text
from chronotile.safe_text import printable
from chronotile.show.output import count_text, place_text, progress, size_text

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    from chronotile.cli.options import Access
    from chronotile.dataset.dataset_events import DatasetFollowing, MemberEvent
    from chronotile.group import Group
    from chronotile.log import Following, Log
    from chronotile.show.events import Event
    from chronotile.show.story import EventFilter, Story


_COLOURS = {
    "when": "33",
    "kind": "1",
    "visible": "32",
    "partial": "33",
    "hidden": "2",
    "done": "32",
    "final": "32",
    "undone": "2",
    "begun": "33",
    "failed": "31",
    "note": "31",
}
"""Part of an event -> the code of its colour on a terminal."""
_FILES = ("consolidated", "ignore", "vacuum", "fragment-meta")
"""Kinds of events that are files of commits, and no data."""
_HOW = {"missing": "its files, though committed by"}
"""Reason -> the words between it and the file that decides."""
_STATES = {
    "begun": "not finished",
    "done": "done",
    "failed": "failed",
    "undone": "undone",
    "final": "done, cannot be undone",
}
"""State of an operation -> words for it."""
_PLAIN = re.compile(r"[ -~\n]*\Z")
_INDENT = "    "


@dataclass(frozen=True, slots=True, kw_only=True)
class Lines:
    """How lines look: for a terminal of a width, or for a pipe."""

    width: int | None = None
    """Columns of the terminal; None for a pipe, whose lines are never cut."""
    colour: bool = False
    id_length: int = 8
    """Characters of a short id."""
    reasons: tuple[str, ...] = ()
    """Why TileDB cannot read the array, so that nothing is visible now."""
    first_time: int = 0
    """The time of the first visible fragment: an older delete or update hides no row."""

    def event(self, event: Event) -> Iterator[str]:
        """Give an event in a few lines."""
        if self.width is None:
            yield self._block(event)
            return
        yield from self._head(span_text(event.t1, event.t2), event)
        yield from self._wrapped(event.text)
        for note in event.notes:
            yield from self._wrapped(f"note: {note}", "note")
        yield from self._wrapped(_where(event), "hidden")

    def under(self, events: Iterable[Event]) -> Iterator[str]:
        """Lay out the commits of an operation, further in."""
        for event in events:
            for block in self.event(event._replace(operation=None)):
                yield from (f"{_INDENT}{line}" for line in block.split("\n"))

    def _block(self, event: Event) -> str:
        """Give all lines of an event for a pipe, at once."""
        lines = [f"{span_text(event.t1, event.t2)}  {event.kind}  {self._state_here(event)}"]
        lines += [f"{_INDENT}{event.text}", *(f"{_INDENT}note: {note}" for note in event.notes)]
        lines.append(f"{_INDENT}{_where(event)}")
        block = "\n".join(lines)
        if block.isascii() and block.count("\n") == len(lines) - 1 and _PLAIN.match(block):
            return block
        return "\n".join(map(printable, lines))

    def oneline(self, event: Event) -> str:
        """Give an event in one line: time, kind, short id, words."""
        from chronotile.format.names import uuid_of

        when = "at an unknown time" if event.t2 is None else time_text(event.t2)
        short = (uuid_of(event.name) or event.name)[: self.id_length]
        line = printable(f"{when}  {event.kind:<12} {short}  {event.text}")
        if self.width is not None and len(line) > self.width:
            line = f"{line[: self.width - 1]}…"
        if not self.colour:
            return line
        return line.replace(when, self._styled(when, "when"), 1)

    def alarm(self, text: str) -> str:
        """Give a line that a reader must not pass over."""
        return self._styled(printable(text), "note")

    def _head(self, when: str, event: Event) -> Iterator[str]:
        """Give the time, the kind and the state; if that is too long, the state below."""
        assert self.width is not None
        state = printable(self._state_here(event))
        if len(when) + len(event.kind) + 2 > self.width:
            first, _, when = when.partition(" to ")
            yield f"{self._styled(first, 'when')} to"
        head = f"{self._styled(when, 'when')}  {self._styled(event.kind, 'kind')}"
        if len(when) + len(event.kind) + len(state) + 4 <= self.width:
            yield f"{head}  {self._styled(state, event.status)}"
        else:
            yield head
            yield from self._wrapped(state, event.status)

    def _state_here(self, event: Event) -> str:
        state = _state(event)
        is_change = event.kind in ("delete", "update") and not event.is_operation
        if is_change and event.offset and event.kind == "update":
            return "not seen by TileDB"
        if self.reasons and state.endswith(" now"):
            return f"would be {state.removesuffix(' now')}"
        idle = is_change and event.t2 is not None and event.t2 < self.first_time
        return f"{state}, hides no row" if idle and state == "in force now" else state

    def _wrapped(self, text: str, style: str = "") -> Iterator[str]:
        from chronotile.show.terminal_fit import shortened, wrapped

        assert self.width is not None
        lines, room = [printable(text)], max(self.width - len(_INDENT), 40)
        if len(lines[0]) > room:
            # A name is shortened in the middle, so that no line breaks inside of it.
            lines = wrapped(shortened(lines[0]), room)
        for line in lines:
            yield f"{_INDENT}{self._styled(line, style)}"

    def _styled(self, text: str, style: str) -> str:
        code = _COLOURS.get(style)
        return f"\x1b[{code}m{text}\x1b[0m" if self.colour and code else text


def _where(event: Event) -> str:
    """Give the cells and bytes of an event, and the files that hold it."""
    if event.is_operation:
        return event.source
    parts = [count_text(event.cells, "cell")] if event.cells is not None else []
    parts += [size_text(event.size)] if event.size is not None else []
    size, held = ", ".join([*parts, ""]), "in"
    if event.kind == "write" and event.source.endswith((*WRITES, ".con")):
        # The size is the fragment's: a commit file is empty, or holds many commits.
        size, held = f"a fragment of {' and '.join(parts)}, " if parts else "", "committed by"
    name = "" if event.name in event.source else f"{event.name}, "
    offset = f" at byte {event.offset}" if event.offset else ""
    also = "".join(f", also in {other}" for other in event.also)
    written = "" if event.written is None else f", written {time_text(event.written)}"
    by = "" if event.operation is None else f", by operation {event.operation}"
    return f"{size}{name}{held} {event.source}{offset}{also}{written}{by}"


def _state(event: Event) -> str:
    if event.is_operation:
        return f"{_STATES[event.status]}{f' by {event.because}' if event.because else ''}"
    if event.reason == "unreadable":
        if not event.notes:  # those say what is wrong with it
            return "encrypted"
        damaged = "damaged" if event.kind in _FILES else "cannot be read"
        return f"{damaged}{f': in {event.because}' if event.because else ''}"
    if event.status == "hidden":
        if event.reason == "superseded" and event.because:
            return f"{'replaced' if event.kind == 'schema' else 'hidden now'} by {event.because}"
        how = _HOW.get(event.reason, "by") if event.because else ""
        return f"hidden now: {event.reason}{how and f' {how} {event.because}'}"
    if event.kind in ("delete", "update", "schema"):
        return "in force now"
    if event.kind in _FILES:
        return "in use now"
    return "partly visible now" if event.status == "partial" else "visible now"


E = TypeVar("E")

MANY = 5000
"""Commits up to which the files of fragments are added up without being asked for."""
POLL_SECONDS = 2.0
"""How long `--follow` waits between two looks, unless the user says otherwise."""


AnyEvent: TypeAlias = "Event | MemberEvent"
"""An event of an array, or of a member of a group."""
Folded: TypeAlias = "tuple[AnyEvent, tuple[Event, ...]]"
"""An event, and the commits that it stands for."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LogReport:
    """The history of an array or a group.

    As text, each operation of this package is one event, and `limit` counts these. As JSON, each
    commit is one, with the id of its operation: `commits` is for text alone.
    """

    events: Callable[..., Iterator[AnyEvent]]
    """Gives the events commit by commit, the newest first, or the oldest with `reverse=True`."""
    folded: Callable[..., Iterator[Folded]]
    """Gives them likewise, one for each operation, with the commits that it stands for."""
    layout: Callable[..., Lines]
    """Decides how lines look on a terminal of a width, with or without colour."""
    headline: Callable[[Lines], Iterator[str]]
    """Gives the lines above the events, but those on why the array cannot be read."""
    errors: Mapping[str, ChronotileError] = field(default_factory=dict)
    """Path of a member -> why it could not be read."""
    reverse: bool
    limit: int | None
    oneline: bool
    commits: bool
    """Show the commits of each operation under it."""
    following: Following | DatasetFollowing | None = None
    """Tells new events; None to end after the history."""
    every: float = POLL_SECONDS

    @property
    def is_live(self) -> bool:
        """True if the lines come as things happen."""
        return self.following is not None

    @property
    def status(self) -> int:
        """3 if a member could not be read."""
        return ReadError.exit_code if self.errors else 0

    def to_json(self) -> list[dict[str, Any]]:
        """Give one object for each event."""
        return [event.to_dict() for event in self._first(self.events)]

    def json_lines(self) -> Iterator[dict[str, Any]]:
        """Give one object for each event, also for those that come."""
        yield from (event.to_dict() for event in self._first(self.events))
        if self.following is not None:
            look: Callable[[], Iterable[AnyEvent]] = self.following.look
            yield from (event.to_dict() for event in coming(look, self.every))

    def lines(self, *, width: int | None, colour: bool) -> Iterator[str]:
        """Give a line on the place, then one or a few lines for each event."""
        lines = self.layout(width=width, colour=colour)
        yield from map(lines.alarm, lines.reasons)
        yield from self.headline(lines)
        is_empty = self.limit != 0 and not self.is_live and not self.oneline
        for event, commits in self._first(self.folded):
            is_empty = False
            yield from self._laid_out(event, commits, lines)
        if is_empty:
            yield "no event"
        if self.following is not None:
            look: Callable[[], Iterable[Folded]] = self.following.look_folded
            for event, commits in coming(look, self.every):
                yield from self._laid_out(event, commits, lines)
        for path, error in self.errors.items():
            yield ""
            yield printable(f"{path} cannot be read: {error}")

    def _first(self, events: Callable[..., Iterator[E]]) -> Iterator[E]:
        """Give the first events, as far as `limit` goes, in the order that is asked for."""
        if self.is_live and self.limit is not None:
            # The newest few, in the order in which more will follow.
            return iter([*itertools.islice(events(), self.limit)][::-1])
        return itertools.islice(events(reverse=self.reverse or self.is_live), self.limit)

    def _laid_out(self, told: AnyEvent, under: tuple[Event, ...], lines: Lines) -> Iterator[str]:
        """Lay out an event, and the commits that it stands for, further in."""
        path: str | None = getattr(told, "member", None)
        event: Any = getattr(told, "event", told)
        member = None if path is None else printable(path or "the group itself")
        commits = under if self.commits else ()
        if self.oneline:
            yield lines.oneline(event) + (f"  ({member})" if member else "")
            yield from (f"  {lines.oneline(one)}" for one in commits)
            return
        yield ""
        if member is not None:
            yield member
        yield from lines.event(event)
        yield from lines.under(commits)


def _headline(log: Log, story: Story, would_be: str) -> str:
    """Say what the array is, and what an open now sees of it."""
    view, history = story.view, log.history
    kind = "dense" if history.dense else "sparse"
    commits = count_text(history.table.commit_count, "commit")
    if copies := history.table.also_loose:
        own = "is stored twice: in a .con and in its own file"
        own = own if copies == 1 else "are stored twice: in a .con and in their own files"
        commits += f" ({copies:,} {own})"
    when = "if TileDB could read it," if would_be else "now"
    text = f"{place_text(history.array)}: {kind}, {commits}; {when} {len(view.fragments):,} of "
    text += f"{count_text(story.fragment_count, 'fragment')} {would_be}visible"
    text += f" ({gone:,} more removed), " if (gone := story.vacuumed_count) else ", "
    unreadable = story.unreadable
    deletes, updates = (
        count_text(len(commits) - unreadable[kind], kind)
        for kind, commits in (("delete", view.deletes), ("update", view.updates))
    )
    text += f"{deletes} and {updates} {would_be}in force"
    idle, every = view.without_reach, len(view.deletes) + len(view.updates)
    if idle == every and idle:
        why = "every visible fragment is newer" if view.fragments else "no fragment is visible"
        text += f", but {'it hides' if idle == 1 else 'they hide'} no row: {why}"
    elif idle:
        verb = "is older than every visible fragment and hides"
        verb = verb if idle == 1 else "are older than every visible fragment and hide"
        text += f" ({idle:,} of them {verb} no row)"
    for kind, count in unreadable.items():
        text += f"; {count_text(count, kind)} cannot be read"
    if unseen := sum(bool(one.offset) for one in view.updates):
        text += f"; TileDB does not see {count_text(unseen, 'update')} inside a .con"
    return printable(text)


def _heads(
    log: Log, story: Story, lines: Lines, window: EventFilter, *, oneline: bool
) -> Iterator[str]:
    """Give the lines above the history of an array."""
    from chronotile.show.explain_words import NO_KEY, lacks_key

    if not oneline:
        yield _headline(log, story, "would be " if lines.reasons else "")
        yield from _window_words(window)
    if story.operations.problem is not None:
        yield printable(f"note: {story.operations.problem}")
    if lacks_key(log.history):
        yield NO_KEY


def _window_words(window: EventFilter) -> Iterator[str]:
    """Say which time of the history is shown, if it is not all."""
    words = f" from {time_text(window.since)}" if window.since else ""
    words += f" up to {time_text(window.until)}" if window.until is not None else ""
    if words:
        yield f"only events{words}"


def _lines_of(log: Log, story: Story, *, oneline: bool, **terminal: Any) -> Lines:
    """Decide how the history of an array looks on a terminal, or in a pipe."""
    from chronotile.check.conditions import failures

    view = story.view
    return Lines(
        **terminal,
        id_length=log.id_length if oneline else 8,
        reasons=tuple(failures(view)),
        first_time=view.first_time,
    )


def coming(look: Callable[[], Iterable[E]], every: float) -> Iterator[E]:
    """Give new events as they come; look later at what cannot be read now."""
    while True:
        time.sleep(every)
        with suppress(ReadError):
            yield from look()


def _window(
    place: Log | Group, start: Moment, end: Moment | None, kinds: tuple[str, ...]
) -> EventFilter:
    """Say which events to show.

    Raises:
        BadTimeError: An end is no time, or the window ends before it starts.
    """
    from chronotile.show.story import EventFilter

    first, last = place.moment(start, "--start"), None
    if end is not None:
        last = place.moment(end, "--end")
        if last < first:
            problem = f"the window ends before it starts: {span_text(first, last)}"
            raise BadTimeError("--end", problem)
    return EventFilter(since=first, until=last, kinds=frozenset(kinds))


def _story(log: Log, *, cells: bool, size: bool | None) -> Story:
    sizes = size or (size is None and log.history.table.commit_count <= MANY)
    with progress("adding up the files"):
        return log.story(sizes=sizes, cells=cells, look=size is not False)


@command(
    epilog="\b\nExample:\n  chronotile log demo/array --kind delete --start 2024-05-01\n"
    "  chronotile log demo/array --oneline -n 20"
)
@array_argument
@time_option("--start", default=0, help="Only events from this time on.")
@time_option("--end", help="Only events up to this time.")
@click.option(
    "--kind", "kinds", type=click.Choice(DATASET_EVENTS), multiple=True, help="Only this kind."
)
@click.option("-n", "--limit", metavar="N", type=click.IntRange(min=0), help="At most N events.")
@flag("--oneline", help="One line each: time, kind, short id, words.")
@flag("--reverse", help="The oldest first.")
@flag(
    "--commits",
    help="List the commits of each chronotile operation (default: one event per operation; "
    "--json has one event per commit in any case).",
)
@click.option(
    "--undone/--no-undone",
    default=True,
    help="Show operations that were undone, or leave them out; no effect on --json.",
)
@flag(
    "--follow",
    help="Then show new commits as they come, until stopped; with --json, one line each.",
)
@click.option(
    "--every",
    metavar="SECONDS",
    type=click.FloatRange(min=0.05),
    default=POLL_SECONDS,
    help="How often --follow looks (default: 2).",
)
@flag("--cells", help="Also show how many cells each write holds.")
@click.option(
    "--size/--no-size",
    default=None,
    help="Add up the files of each fragment (default: yes, up to 5,000 commits).",
)
@member_option
@access_options
@reporting
def log(
    array: str,
    start: Moment,
    end: Moment | None,
    kinds: tuple[str, ...],
    undone: bool,
    follow: bool,
    cells: bool,
    size: bool | None,
    member: dict[str, str],
    access: Access,
    **layout: Any,
) -> LogReport:
    """Show the history of ARRAY: what happened, when, and if an open now still sees it.

    The newest comes first, in a pager on a terminal. A fragment is what one write left behind. A
    delete or update changes no fragment: it is a condition that every read applies to rows written
    up to its time.
    """
    from chronotile.array import Array

    place = access.open(array, member)
    if not isinstance(place, Array):
        window = _window(place, start, end, kinds or DATASET_EVENTS)
        pattern = member.get("member")
        return _group_log(place, pattern, window, size=size, undone=undone, follow=follow, **layout)
    source, watch = place, None
    if follow:
        from chronotile.history.log_watch import LogWatch
        from chronotile.storage.overlay import remembering

        source = Array(remembering(place.store), place.key)
        watch = LogWatch(source.store)
    opened = read_log(source)
    story = _story(opened, cells=cells, size=size)
    window = _window(opened, start, end, kinds or EVENTS)
    following = None
    if watch is not None:
        from chronotile.log import Following

        def again() -> Story:
            return _story(read_log(source), cells=cells, size=size)

        following = Following(watch, story, window, again)
    oneline = layout["oneline"]
    return LogReport(
        events=partial(story.events, window),
        folded=partial(story.folded, window, undone=undone, unfold=layout["commits"]),
        layout=partial(_lines_of, opened, story, oneline=oneline),
        headline=lambda lines: _heads(opened, story, lines, window, oneline=oneline),
        following=following,
        **layout,
    )


def _group_log(
    place: Group,
    pattern: str | None,
    window: EventFilter,
    *,
    size: bool | None,
    undone: bool,
    follow: bool,
    **layout: Any,
) -> LogReport:
    """Report on the history of a group and of everything in it."""
    from chronotile.dataset.dataset_events import DatasetFollowing, member_events

    asked: dict[str, Any] = {"pattern": pattern, "sizes": size is not False}
    nodes, following = place.nodes(pattern), None
    with progress("reading members"):
        if follow:
            following = DatasetFollowing(place.dataset.reopened, window, **asked)
            history = following.history
        else:
            history = member_events(place.dataset, window, undone=undone, **asked)

    def events(*, reverse: bool = False) -> Iterator[MemberEvent]:
        return iter(history.events if reverse == follow else history.events[::-1])

    def headline(_lines: Lines) -> Iterator[str]:
        arrays = count_text(sum(node.found == "array" for node in nodes), "array")
        counted = count_text(len(history.folded()), "event")
        if not layout["oneline"]:
            yield printable(f"{place_text(place.uri)}: {arrays}, {counted}")
            yield from _window_words(window)

    return LogReport(
        events=events,
        folded=lambda **order: iter(history.folded(**order)),
        layout=Lines,
        headline=headline,
        errors=history.errors,
        following=following,
        **layout,
    )
