"""`chronotile log` of a group: one history over all members.

In: a group, and which events to show. Out: each event with its member, the newest first. Lays
events out as `log` does for an array.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from chronotile.cli.group_each import chosen
from chronotile.cli.log import coming
from chronotile.errors import BadTimeError, printable
from chronotile.format.kinds import DATASET_EVENTS

if TYPE_CHECKING:
    from collections.abc import Iterator

    from chronotile.dataset.dataset_events import MemberEvent, Told
    from chronotile.dataset.follow_members import DatasetFollowing
    from chronotile.dataset.open_dataset import Dataset
    from chronotile.show.events import Event


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupLogReport:
    """The history of a dataset."""

    group: str
    arrays: int
    told: Told
    limit: int | None
    oneline: bool
    reverse: bool
    commits: bool
    """Show the commits of each operation under it."""
    following: DatasetFollowing | None = None
    """Tells new events; None to end after the history."""
    wait_s: float = 0.0

    @property
    def is_live(self) -> bool:
        """Whether the lines come as things happen."""
        return self.following is not None

    @property
    def status(self) -> int:
        """3 if a member could not be read."""
        return 3 if self.told.errors else 0

    def _events(self) -> tuple[MemberEvent, ...]:
        if self.is_live and self.limit is not None:
            # The last few, in the order in which more will follow.
            return self.told.events[max(len(self.told.events) - self.limit, 0) :]
        return self.told.events[: self.limit]

    def _every(self) -> Iterator[MemberEvent]:
        """The events that are asked for, and those that come."""
        yield from self._events()
        if self.following is not None:
            yield from coming(self.following.look, self.wait_s)

    def _folded(self) -> Iterator[tuple[MemberEvent, tuple[Event, ...]]]:
        """Give what the text shows: each operation is one event, with its commits under it."""
        if self.is_live:
            yield from ((event, ()) for event in self._every())
            return
        yield from self.told.folded(reverse=self.reverse)[: self.limit]

    def to_json(self) -> list[dict[str, Any]]:
        """One object for each event."""
        return [event.to_dict() for event in self._events()]

    def json_lines(self) -> Iterator[dict[str, Any]]:
        """One object for each event, also for those that come."""
        return (event.to_dict() for event in self._every())

    def to_text(self) -> Iterator[str]:
        """The lines for a pipe."""
        return self.lines(width=None, colour=False)

    def lines(self, *, width: int | None, colour: bool) -> Iterator[str]:
        """A line on the group, then one or a few lines for each event."""
        from chronotile.cli.log_lines import Lines
        from chronotile.show.output import count_text, place_text

        laid_out = Lines(width=width, colour=colour)
        events = count_text(len(self.told.events), "event")
        head = f"{place_text(self.group)}: {count_text(self.arrays, 'array')}, {events}"
        if not self.oneline:
            yield printable(head)
        for event, under in self._folded():
            member = printable(event.member or "the group itself")
            commits = under if self.commits else ()
            if self.oneline:
                yield f"{laid_out.oneline(event.event)}  ({member})"
                yield from (f"  {laid_out.oneline(one)}" for one in commits)
                continue
            yield ""
            yield member
            yield from laid_out.event(event.event)
            yield from laid_out.under(commits)
        for path, error in self.told.errors.items():
            yield ""
            yield printable(f"{path} cannot be read: {error}")


def group_log(
    dataset: Dataset,
    pattern: str | None,
    *,
    since: Any,
    until: Any,
    kinds: tuple[str, ...],
    limit: int | None,
    reverse: bool,
    size: bool | None,
    oneline: bool,
    commits: bool,
    undone: bool,
    follow: bool,
    every: float,
) -> GroupLogReport:
    """The history of a group and of everything in it."""
    from chronotile.dataset.dataset_events import member_events
    from chronotile.dataset.follow_members import DatasetFollowing
    from chronotile.show.output import progress
    from chronotile.show.story import EventFilter

    first = dataset.moment(since, "--start")
    last = None if until is None else dataset.moment(until, "--end")
    if last is not None and last < first:
        problem = f"expected a window that ends after it starts, found {first} to {last}"
        raise BadTimeError("--end", problem)
    window = EventFilter(since=first, until=last, kinds=frozenset(kinds or DATASET_EVENTS))
    nodes = chosen(dataset, pattern)
    following = None
    with progress("reading members"):
        if follow:
            following = DatasetFollowing(
                dataset.reopened, window, pattern=pattern, sizes=size is not False
            )
            told = following.told
        else:
            told = member_events(
                dataset,
                window,
                pattern=pattern,
                sizes=size is not False,
                reverse=reverse,
                undone=undone,
            )
    arrays = sum(node.found == "array" for node in nodes)
    return GroupLogReport(
        group=dataset.uri,
        arrays=arrays,
        told=told,
        limit=limit,
        oneline=oneline,
        reverse=reverse,
        commits=commits,
        following=following,
        wait_s=every,
    )
