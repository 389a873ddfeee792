"""`chronotile visible`: what an open at a window sees.

In: an array and a window. Out: the visible fragments, the deletes and updates in force, and the
schema. The rules are not here.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import click

from chronotile.cli.group_each import MembersReport, each_array
from chronotile.cli.options import (
    access_options,
    array_argument,
    command,
    member_option,
    moments_of_group,
    reporting,
    say_gap,
    window_options,
)

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from rich.console import RenderableType

    from chronotile.array import Array
    from chronotile.cli.options import Access
    from chronotile.format.timestamps import Ends
    from chronotile.visibility.view import Delete, View

SHOWN = 1000
"""Rows that a table shows; --json has all."""


@dataclass(frozen=True, slots=True, kw_only=True)
class VisibleReport:
    """What one view sees."""

    view: View
    facts: Mapping[str, Mapping[str, Any]] | None = None
    """Name of a visible fragment -> what it holds, if that was asked for."""

    def to_json(self) -> dict[str, Any]:
        """The form of `View.to_dict`; with cells and bytes of each fragment if asked for."""
        document = self.view.to_dict()
        if self.facts is not None:
            document["fragments"] = [
                one | {name: self.facts[one["name"]][name] for name in ("cells", "bytes")}
                for one in document["fragments"]
            ]
        return document

    def to_text(self) -> Iterator[RenderableType]:
        """The window, then a table of each kind."""
        from chronotile.show.explain_words import NO_KEY, lacks_key
        from chronotile.show.output import Text, count_text, place_text, window_text

        view = self.view
        place = place_text(view.history.array)
        yield Text(f"{place}, opened at {window_text(view.start, view.end)}", "bold")
        if lacks_key(view.history):
            yield Text(NO_KEY, "red")
        yield f"schema {view.schema or 'none'}"
        yield ""
        yield Text(f"{count_text(len(view.fragments), 'fragment')} visible", "bold green")
        if len(view.fragments):
            yield self._fragments()
        for kind, commits in (("delete", view.deletes), ("update", view.updates)):
            if len(commits):
                yield ""
                yield Text(f"{count_text(len(commits), kind)} in force", "bold yellow")
                yield from _commits(commits)

    def _fragments(self) -> RenderableType:
        from chronotile.show.output import plain_table, size_text

        more = () if self.facts is None else ("cells", "bytes")
        table = plain_table("fragment", "read", "committed by", *more)
        table.columns[0].no_wrap = True
        for fragment in self.view.fragments[:SHOWN]:
            read = "in part" if fragment.partial else "whole"
            file = fragment.source.rpartition("/")[2]
            own = file.startswith(fragment.name)
            by = f"its own {file.removeprefix(fragment.name)}" if own else fragment.source
            facts = self.facts[fragment.name] if self.facts is not None else {}
            known = facts.get("cells") is not None
            numbers = (f"{facts['cells']:,}", size_text(facts["bytes"])) if known else ()
            table.add_row(fragment.name, read, by, *numbers)
        if len(self.view.fragments) > SHOWN:
            table.add_row(f"and {len(self.view.fragments) - SHOWN:,} more (--json)", "", "")
        return table


def _commits(commits: Sequence[Delete]) -> Iterator[RenderableType]:
    from chronotile.format.timestamps import span_text
    from chronotile.show.events import delete_words, update_words
    from chronotile.show.output import Text
    from chronotile.visibility.view import Update

    for commit in commits[:SHOWN]:
        words, notes = update_words(commit) if isinstance(commit, Update) else delete_words(commit)
        yield f"  {span_text(commit.t1, commit.t2)}  {words}"
        for note in notes:
            yield Text(f"      note: {note}", "red")
    if len(commits) > SHOWN:
        yield f"  … and {len(commits) - SHOWN:,} more (--json)"


@command(epilog="\b\nExample:\n  chronotile visible demo/array --end 2024-05-01T12:00:00Z")
@array_argument
@window_options
@click.option("--cells", is_flag=True, help="Also how many cells and bytes each fragment holds.")
@member_option
@access_options
@reporting
def visible(
    array: str, window: Ends, cells: bool, member: dict[str, str], access: Access
) -> VisibleReport | MembersReport:
    """What an open of ARRAY at a window sees: fragments, and deletes and updates in force.

    Both ends of the window are part of it. The engine's `timestamp=(start, end)` means the same.
    """
    place = access.open(array)
    start, end = moments_of_group(place, window)

    def report(one: Array) -> VisibleReport:
        log = access.log_of(one)
        view = log.view(start, end)
        say_gap(view, "visible")
        if not cells:
            return VisibleReport(view=view)
        facts = log.fragments(names={fragment.name for fragment in view.fragments})
        return VisibleReport(view=view, facts={row["name"]: row for row in facts.to_pylist()})

    return each_array(place, report, end=end, **member)  # type: ignore[no-any-return]
