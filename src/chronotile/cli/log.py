"""`chronotile log`: the history of an array.

In: an array, and which events to show. Out: each event, the newest first; or new events as they
come. `story` finds the words for an event, `log_lines` lays them out.
"""

from __future__ import annotations

import itertools
import time
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

import click

from chronotile.cli.options import (
    MOMENT,
    access_options,
    array_argument,
    command,
    member_option,
    reporting,
    wrong_call,
)
from chronotile.errors import BadTimeError, ReadError
from chronotile.format.kinds import DATASET_EVENTS, EVENTS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from chronotile.cli.group_log import GroupLogReport
    from chronotile.cli.log_lines import Lines
    from chronotile.cli.options import Access
    from chronotile.format.timestamps import Moment
    from chronotile.log import Following, Log
    from chronotile.show.events import Event
    from chronotile.show.story import EventFilter, Story

E = TypeVar("E")

MANY = 5000
"""Commits up to which the files of fragments are added up without being asked for."""
POLL_SECONDS = 2.0
"""How long `--follow` waits between two looks, unless the user says otherwise."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LogReport:
    """The history of one array."""

    log: Log
    story: Story
    window: EventFilter
    reverse: bool
    limit: int | None
    oneline: bool
    commits: bool
    """Show the commits of each operation under it."""
    undone: bool
    """Show operations that were undone, too."""
    following: Following | None = None
    """Tells new events; None to end after the history."""
    wait_s: float = POLL_SECONDS

    @property
    def is_live(self) -> bool:
        """Whether the lines come as things happen."""
        return self.following is not None

    def _events(self) -> Iterator[Event]:
        reverse = self.reverse or self.is_live
        return itertools.islice(self.story.events(self.window, reverse=reverse), self.limit)

    def to_json(self) -> list[dict[str, Any]]:
        """One object for each event."""
        return [event.to_dict() for event in self._events()]

    def to_text(self) -> Iterator[str]:
        """The lines for a pipe."""
        return self.lines(width=None, colour=False)

    def lines(self, *, width: int | None, colour: bool) -> Iterator[str]:
        """A line on the array, then one or a few lines for each event."""
        from chronotile.cli.log_lines import Lines
        from chronotile.show.explain_words import NO_KEY, lacks_key

        lines = Lines(width=width, colour=colour, id_length=self._id_length())
        if not self.oneline:
            yield self._headline()
        if lacks_key(self.log.history):
            yield NO_KEY
        yield from lay_out(self._folded(), lines, oneline=self.oneline)
        if self.following is not None:
            new = coming(self.following.look, self.wait_s)
            yield from lay_out(((event, ()) for event in new), lines, oneline=self.oneline)

    def json_lines(self) -> Iterator[dict[str, Any]]:
        """One object for each event, also for those that come."""
        yield from (event.to_dict() for event in self._chosen())
        if self.following is not None:
            events = coming(self.following.look, self.wait_s)
            yield from (event.to_dict() for event in events)

    def _chosen(self) -> Iterator[Event]:
        if self.is_live and self.limit is not None:
            # The last few, in the order in which more will follow.
            newest = itertools.islice(self.story.events(self.window), self.limit)
            return iter(list(newest)[::-1])
        return self._events()

    def _folded(self) -> Iterator[tuple[Event, tuple[Event, ...]]]:
        """Give what the text shows: each operation is one event, with its commits under it."""
        how = {"undone": self.undone, "unfold": self.commits}
        if self.is_live and self.limit is not None:
            newest = itertools.islice(self.story.folded(self.window, **how), self.limit)
            return iter(list(newest)[::-1])
        reverse = self.reverse or self.is_live
        return itertools.islice(self.story.folded(self.window, reverse=reverse, **how), self.limit)

    def _id_length(self) -> int:
        return self.log.id_length if self.oneline else 8

    def _headline(self) -> str:
        from chronotile.errors import printable
        from chronotile.show.output import count_text, place_text

        view, history = self.story.view, self.log.history
        kind = "dense" if history.dense else "sparse"
        commits = count_text(history.table.commit_count, "commit")
        if copies := history.table.also_loose:
            commits += f" ({copies:,} of them also loose)"
        text = f"{place_text(history.array)}: {kind}, {commits}; now {len(view.fragments):,} of "
        text += f"{count_text(self.story.fragments, 'fragment')} visible, "
        text += f"{count_text(len(view.deletes), 'delete')} and "
        return printable(f"{text}{count_text(len(view.updates), 'update')} in force")


def lay_out(
    events: Iterable[tuple[Event, tuple[Event, ...]]], lines: Lines, *, oneline: bool
) -> Iterator[str]:
    """Lay out events, and the commits under each, further in."""
    for event, commits in events:
        if oneline:
            yield lines.oneline(event)
            yield from (f"  {lines.oneline(one)}" for one in commits)
            continue
        yield ""
        yield from lines.event(event)
        yield from lines.under(commits)


def coming(look: Callable[[], Iterable[E]], wait_s: float) -> Iterator[E]:
    """New events, as they come; what cannot be read now is looked at later."""
    while True:
        time.sleep(wait_s)
        with suppress(ReadError):
            yield from look()


def _window(log: Log, since: Moment, until: Moment | None, kinds: tuple[str, ...]) -> EventFilter:
    from chronotile.show.story import EventFilter

    first, last = log.moment(since, "--start"), None
    if until is not None:
        last = log.moment(until, "--end")
        if last < first:
            problem = f"expected a window that ends after it starts, found {first} to {last}"
            raise BadTimeError("--end", problem)
    return EventFilter(since=first, until=last, kinds=frozenset(kinds or EVENTS))


def _story(log: Log, *, cells: bool, size: bool | None) -> Story:
    from chronotile.show.output import progress

    sizes = size or (size is None and log.history.table.commit_count <= MANY)
    with progress("adding up the files"):
        return log.story(sizes=sizes, cells=cells, look=size is not False)


@command(
    epilog="\b\nExample:\n  chronotile log demo/array --kind delete --start 2024-05-01\n"
    "  chronotile log demo/array --oneline -n 20"
)
@array_argument
@click.option("--start", "since", metavar="TIME", type=MOMENT, default=0, help="Not before this.")
@click.option("--end", "until", metavar="TIME", type=MOMENT, help="Not after this.")
@click.option(
    "--kind", "kinds", type=click.Choice(DATASET_EVENTS), multiple=True, help="Only this kind."
)
@click.option("-n", "--limit", metavar="N", type=click.IntRange(min=0), help="At most this many.")
@click.option("--oneline", is_flag=True, help="One line each: time, kind, short id, words.")
@click.option("--reverse", is_flag=True, help="The oldest first.")
@click.option(
    "--commits",
    is_flag=True,
    help="Under each operation of chronotile, show its commits; else it is one event.",
)
@click.option(
    "--undone/--no-undone",
    default=True,
    help="Show operations that were undone, or leave them out.",
)
@click.option(
    "--follow",
    is_flag=True,
    help="Then show new commits as they come, until stopped; with --json a line each.",
)
@click.option(
    "--every",
    metavar="SECONDS",
    type=click.FloatRange(min=0.05),
    default=POLL_SECONDS,
    help="How often --follow looks: 2.",
)
@click.option("--cells", is_flag=True, help="Also how many cells each write holds.")
@click.option(
    "--size/--no-size",
    default=None,
    help="Add up the files of each fragment, or read nothing but the log: up to 5,000 commits.",
)
@member_option
@access_options
@reporting
def log(
    array: str,
    since: Moment,
    until: Moment | None,
    kinds: tuple[str, ...],
    follow: bool,
    every: float,
    cells: bool,
    size: bool | None,
    member: dict[str, str],
    access: Access,
    **layout: Any,
) -> LogReport | GroupLogReport:
    """The history of ARRAY: what happened, when, and whether an open now still sees it.

    The newest comes first, in a pager on a terminal. A fragment is what one write left behind. A
    delete or update changes no fragment: it is a condition that every read applies to rows written
    up to its time.
    """
    from chronotile.array import Array

    place = access.open(array)
    if not isinstance(place, Array):
        from chronotile.cli.group_log import group_log

        asked: dict[str, Any] = {"since": since, "until": until, "kinds": kinds, "size": size}
        return group_log(
            place.dataset, member.get("member"), follow=follow, every=every, **asked, **layout
        )
    if member:
        raise wrong_call("--member: expected a group, found an array")
    store, watch = place.store, None
    if follow:
        from chronotile.history.log_watch import LogWatch
        from chronotile.storage.read_once import remembering

        store = remembering(store)
        watch = LogWatch(store)
    opened = access.read_log(store)
    story = _story(opened, cells=cells, size=size)
    window = _window(opened, since, until, kinds)
    following = None
    if watch is not None:
        from chronotile.log import Following

        def again() -> Story:
            return _story(access.read_log(store), cells=cells, size=size)

        following = Following(watch, story, window, again)
    return LogReport(
        log=opened, story=story, window=window, following=following, wait_s=every, **layout
    )
