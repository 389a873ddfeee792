"""`chronotile log`: the history of an array.

In: an array, and which events to tell. Out: each event, the newest first. What to say of an event
is `events`'; this only sets it out.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import click

from chronotile.cli.options import (
    Moment,
    array_argument,
    check_window,
    json_option,
    open_log,
    read_storage,
    storage_options,
)
from chronotile.format.kinds import EVENTS

if TYPE_CHECKING:
    from collections.abc import Iterator

    from chronotile.report.events import Event, Story, Window
    from chronotile.report.output import Text

_STYLES = {"visible": "green", "partial": "yellow", "hidden": "dim"}


@dataclass(frozen=True, slots=True, kw_only=True)
class LogReport:
    """The history of one array."""

    story: Story
    window: Window
    reverse: bool
    limit: int | None

    def _events(self) -> Iterator[Event]:
        found = self.story.events(self.window, reverse=self.reverse)
        return itertools.islice(found, self.limit)

    def to_json(self) -> list[dict[str, Any]]:
        """One object an event."""
        return [event.to_dict() for event in self._events()]

    def to_text(self) -> Iterator[Text]:
        """A line on the array, then a few lines an event."""
        from chronotile.report.output import Text

        yield self._headline()
        for event in self._events():
            yield Text()
            yield from _event_text(event)

    def _headline(self) -> Text:
        from chronotile.report.output import Text, count_text, place_text

        view, history = self.story.view, self.story.log.history
        fragments = [item for item in self.story.explained if item.kind == "fragment"]
        kind = "dense" if history.dense else "sparse"
        text = Text(place_text(history.array), style="bold")
        text.append(f": {kind}, {count_text(len(history.table), 'commit record')}; now ", "default")
        text.append(f"{len(view.fragments):,} of {count_text(len(fragments), 'fragment')}", "green")
        text.append(" visible, ")
        text.append(f"{count_text(len(view.deletes), 'delete')}", "green")
        text.append(" and ")
        text.append(f"{count_text(len(view.updates), 'update')}", "green")
        text.append(" in force")
        return text


def _event_text(event: Event) -> Iterator[Text]:
    from chronotile.report.output import Text, size_text

    head = Text(_when(event), style="yellow")
    head.append(f"  {event.kind}  ", "bold")
    head.append(_state(event), _STYLES[event.status])
    yield head
    yield Text(f"    {event.text}")
    for note in event.notes:
        yield Text(f"    note: {note}", style="red")
    where = Text("    ", style="dim")
    where.append(f"{size_text(event.size)}, " if event.size is not None else "")
    if event.name not in event.source:
        where.append(f"{event.name}, ")
    where.append(f"in {event.source}")
    where.append(f" at byte {event.offset}" if event.offset else "")
    where.append("".join(f", also in {other}" for other in event.also))
    yield where


def _when(event: Event) -> str:
    from chronotile.format.timestamps import local_time

    if event.t1 is None or event.t2 is None:
        return "at an unknown time"
    if event.t1 == event.t2:
        return f"{local_time(event.t2)} ({event.t2})"
    return f"{local_time(event.t1)} to {local_time(event.t2)} ({event.t1} to {event.t2})"


def _state(event: Event) -> str:
    by = f" by {event.because}" if event.because and event.status == "hidden" else ""
    if event.status == "hidden":
        return f"hidden now: {event.reason}{by}"
    if event.kind in ("delete", "update", "schema"):
        return "in force now"
    if event.kind in ("consolidated", "ignore", "vacuum", "fragment-meta"):
        return "read by an open now"
    return "partly visible now" if event.status == "partial" else "visible now"


@click.command(epilog="\b\nExample:\n  chronotile log demo/array --kind delete --since 2024-05-01")
@array_argument
@click.option("--since", metavar="TIME", type=Moment(), default=0, help="Not before this.")
@click.option("--until", metavar="TIME", type=Moment(), help="Not after this.")
@click.option("--kind", "kinds", type=click.Choice(EVENTS), multiple=True, help="Only this kind.")
@click.option("-n", "--limit", type=click.IntRange(min=0), help="At most so many.")
@click.option("--reverse", is_flag=True, help="The oldest first.")
@click.option("--no-size", is_flag=True, help="Do not list the fragments' files.")
@storage_options
@json_option
def log(
    array: str,
    since: int,
    until: int | None,
    kinds: tuple[str, ...],
    limit: int | None,
    reverse: bool,
    no_size: bool,
    key_file: str | None,
    storage: tuple[str, ...],
    as_json: bool,
) -> None:
    """The history of ARRAY: what happened, when, and whether an open now still sees it.

    The newest comes first. A fragment is what one write left behind. A delete or update changes
    no fragment: it is a condition that every read applies to rows written up to its time.
    """
    from chronotile.report.events import Story, Window, array_sizes
    from chronotile.report.output import emit, progress
    from chronotile.storage.store import open_store

    if until is not None:
        check_window(since, until)
    opened = open_log(array, key_file, storage)
    sizes: dict[str, int] = {}
    if not no_size:
        with progress("adding up the files"):
            entries = open_store(array, read_storage(storage)).list_prefix(sizes=True)
            sizes = array_sizes(entries)
    window = Window(since=since, until=until, kinds=frozenset(kinds or EVENTS))
    story = Story(opened, opened.view(), sizes)
    emit(LogReport(story=story, window=window, reverse=reverse, limit=limit), as_json=as_json)
