"""`chronotile log`: the history of an array.

In: an array, and which events to show. Out: each event, the newest first. `events` finds the words
for an event; this module only lays them out.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import click

from chronotile.cli.options import MOMENT, access_options, array_argument, or_group, reporting
from chronotile.errors import BadTimeError
from chronotile.format.kinds import DATASET_EVENTS, EVENTS

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rich.console import RenderableType

    from chronotile.cli.options import Access
    from chronotile.format.timestamps import Moment
    from chronotile.log import Log
    from chronotile.log.events import Event, Story, Window
    from chronotile.report.output import Text

_STYLES = {"visible": "green", "partial": "yellow", "hidden": "dim"}
_HOW = {"missing": "its files, though committed by", "unreadable": "in"}
"""Reason -> the words between it and the file that decides."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LogReport:
    """The history of one array."""

    story: Story
    window: Window
    reverse: bool
    limit: int | None

    def _events(self) -> Iterator[Event]:
        return itertools.islice(self.story.events(self.window, reverse=self.reverse), self.limit)

    def to_json(self) -> list[dict[str, Any]]:
        """One object for each event."""
        return [event.to_dict() for event in self._events()]

    def to_text(self) -> Iterator[RenderableType]:
        """A line on the array, then a few lines for each event."""
        from chronotile.report.advice import NO_KEY, lacks_key
        from chronotile.report.output import Text

        yield self._headline()
        if lacks_key(self.story.log.history):
            yield Text(NO_KEY, "red")
        for event in self._events():
            yield ""
            yield from _event_text(event)

    def _headline(self) -> Text:
        from chronotile.report.output import Text, count_text, place_text

        view, history = self.story.view, self.story.log.history
        fragments = sum(item.kind == "fragment" for item in self.story.explained)
        kind = "dense" if history.dense else "sparse"
        text = Text(place_text(history.array), style="bold")
        text.append(f": {kind}, {count_text(len(history.table), 'commit record')}; now ", "default")
        text.append(f"{len(view.fragments):,} of {count_text(fragments, 'fragment')}", "green")
        text.append(" visible, ").append(count_text(len(view.deletes), "delete"), "green")
        text.append(" and ").append(count_text(len(view.updates), "update"), "green")
        return text.append(" in force")


def _event_text(event: Event) -> Iterator[RenderableType]:
    from chronotile.format.timestamps import span_text
    from chronotile.report.output import Text, count_text, size_text

    head = Text(span_text(event.t1, event.t2), style="yellow")
    head.append(f"  {event.kind}  ", "bold")
    head.append(_state(event), _STYLES[event.status])
    yield head
    yield f"    {event.text}"
    for note in event.notes:
        yield Text(f"    note: {note}", style="red")
    size = f"{size_text(event.size)}, " if event.size is not None else ""
    if event.cells is not None:
        size = f"{count_text(event.cells, 'cell')}, {size}"
    name = "" if event.name in event.source else f"{event.name}, "
    offset = f" at byte {event.offset}" if event.offset else ""
    also = "".join(f", also in {other}" for other in event.also)
    yield Text(f"    {size}{name}in {event.source}{offset}{also}", style="dim")


def _state(event: Event) -> str:
    if event.status == "hidden":
        how = _HOW.get(event.reason, "by") if event.because else ""
        return f"hidden now: {event.reason}{how and f' {how} {event.because}'}"
    if event.kind in ("delete", "update", "schema"):
        return "in force now"
    if event.kind in ("consolidated", "ignore", "vacuum", "fragment-meta"):
        return "read by an open now"
    return "partly visible now" if event.status == "partial" else "visible now"


def _window(log: Log, since: Moment, until: Moment | None, kinds: tuple[str, ...]) -> Window:
    from chronotile.log.events import Window

    first, last = log.moment(since, "--since"), None
    if until is not None:
        last = log.moment(until, "--until")
        if last < first:
            problem = f"expected a window that ends after it starts, found {first} to {last}"
            raise BadTimeError("--until", problem)
    return Window(since=first, until=last, kinds=frozenset(kinds or EVENTS))


def _cells(log: Log) -> dict[str, int]:
    """The cells of each fragment whose metadata could be read."""
    facts = log.fragments(sizes=False).select(["name", "cells"]).to_pylist()
    return {row["name"]: row["cells"] for row in facts if row["cells"] is not None}


@click.command(epilog="\b\nExample:\n  chronotile log demo/array --kind delete --since 2024-05-01")
@array_argument
@click.option("--since", metavar="TIME", type=MOMENT, default=0, help="Not before this.")
@click.option("--until", metavar="TIME", type=MOMENT, help="Not after this.")
@click.option(
    "--kind", "kinds", type=click.Choice(DATASET_EVENTS), multiple=True, help="Only this kind."
)
@click.option("-n", "--limit", type=click.IntRange(min=0), help="At most this many.")
@click.option("--reverse", is_flag=True, help="The oldest first.")
@click.option("--cells", is_flag=True, help="Also how many cells each write holds.")
@click.option("--no-size", is_flag=True, help="Look into no fragment's folder.")
@access_options
@reporting
@or_group("group_log:group_log")
def log(
    array: str,
    since: Moment,
    until: Moment | None,
    kinds: tuple[str, ...],
    limit: int | None,
    reverse: bool,
    cells: bool,
    no_size: bool,
    access: Access,
) -> LogReport:
    """The history of ARRAY: what happened, when, and whether an open now still sees it.

    The newest comes first. A fragment is what one write left behind. A delete or update changes
    no fragment: it is a condition that every read applies to rows written up to its time.
    """
    from chronotile.log.events import Story, array_sizes
    from chronotile.report.output import progress

    opened = access.open_log(array)
    sizes: dict[str, int] = {}
    if not no_size:
        with progress("adding up the files"):
            sizes = array_sizes(access.open_store(array).list_prefix(sizes=True))
    window = _window(opened, since, until, kinds)
    counts = _cells(opened) if cells else None
    story = Story(opened, opened.view(), sizes, counts, applied=not no_size)
    return LogReport(story=story, window=window, reverse=reverse, limit=limit)
