"""`chronotile log` of a group: one history over all members.

In: a group, and which events to show. Out: each event with its member, the newest first. Lays
events out as `log` does for an array.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from chronotile.cli.group_each import chosen
from chronotile.cli.log import _event_text
from chronotile.errors import BadTimeError
from chronotile.format.kinds import DATASET_EVENTS
from chronotile.format.timestamps import to_ms

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from rich.console import RenderableType

    from chronotile.dataset.events import MemberEvent, Told
    from chronotile.dataset.open_dataset import Dataset


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupLogReport:
    """The history of a dataset."""

    group: str
    arrays: int
    told: Told
    limit: int | None

    @property
    def status(self) -> int:
        """3 if a member could not be read."""
        return 3 if self.told.errors else 0

    def _events(self) -> tuple[MemberEvent, ...]:
        return self.told.events[: self.limit]

    def to_json(self) -> list[dict[str, Any]]:
        """One object for each event."""
        return [event.to_dict() for event in self._events()]

    def to_text(self) -> Iterator[RenderableType]:
        """A line on the group, then a few lines for each event."""
        from chronotile.report.output import Text, count_text, place_text

        events = count_text(len(self.told.events), "event")
        head = f"{place_text(self.group)}: {count_text(self.arrays, 'array')}, {events}"
        yield Text(head, "bold")
        for event in self._events():
            yield ""
            first, *rest = _event_text(event.event)
            yield Text(event.member or "the group itself", "bold cyan")
            yield first
            yield from rest
        for path, error in self.told.errors.items():
            yield ""
            yield Text(f"{path} cannot be read: {error}", "red")


def group_log(
    _: Callable[..., Any],
    dataset: Dataset,
    pattern: str | None,
    *,
    since: Any,
    until: Any,
    kinds: tuple[str, ...],
    limit: int | None,
    reverse: bool,
    no_size: bool,
    **rest: Any,  # noqa: ARG001  (options of arrays alone)
) -> GroupLogReport:
    """The history of a group and of everything in it."""
    from chronotile.dataset.events import member_events
    from chronotile.log.events import Window
    from chronotile.report.output import progress

    first, last = to_ms(since, "--since"), None if until is None else to_ms(until, "--until")
    if last is not None and last < first:
        problem = f"expected a window that ends after it starts, found {first} to {last}"
        raise BadTimeError("--until", problem)
    window = Window(since=first, until=last, kinds=frozenset(kinds or DATASET_EVENTS))
    nodes = chosen(dataset, pattern)
    with progress("reading members"):
        told = member_events(dataset, window, pattern=pattern, sizes=not no_size, reverse=reverse)
    arrays = sum(node.found == "array" for node in nodes)
    return GroupLogReport(group=dataset.uri, arrays=arrays, told=told, limit=limit)
