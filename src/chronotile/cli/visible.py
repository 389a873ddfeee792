"""`chronotile visible`: what an open at a window sees.

In: an array and a window. Out: the visible fragments, the deletes and updates in force, and the
schema. The rules are not here.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import click

from chronotile.cli.options import (
    array_argument,
    check_window,
    end_option,
    json_option,
    open_log,
    start_option,
    storage_options,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rich.console import RenderableType

    from chronotile.log import View

SHOWN = 1000
"""Rows of a table; a longer one is of no use to a reader."""


@dataclass(frozen=True, slots=True, kw_only=True)
class VisibleReport:
    """What one view sees."""

    view: View

    def to_json(self) -> dict[str, Any]:
        """As the contract has it."""
        return self.view.to_dict()

    def to_text(self) -> Iterator[RenderableType]:
        """The window, then a table of each kind."""
        from chronotile.report.output import Text, count_text, place_text, window_text

        view = self.view
        place = place_text(view.history.array)
        yield Text(f"{place}, opened at {window_text(view.start, view.end)}", "bold")
        yield Text(f"schema {view.schema or 'none'}")
        yield Text()
        yield Text(f"{count_text(len(view.fragments), 'fragment')} visible", "bold green")
        if len(view.fragments):
            yield self._fragments()
        for words, commits in (("delete", view.deletes), ("update", view.updates)):
            if len(commits):
                yield Text()
                yield Text(f"{count_text(len(commits), words)} in force", "bold yellow")
                yield from self._commits(words)

    def _fragments(self) -> RenderableType:
        from chronotile.report.output import plain_table

        table = plain_table("fragment", "read", "committed by")
        table.columns[0].no_wrap = True
        for fragment in self.view.fragments[:SHOWN]:
            read = "in part" if fragment.partial else "whole"
            file = fragment.source.rpartition("/")[2]
            own = file.startswith(fragment.name)
            by = f"its own {file.removeprefix(fragment.name)}" if own else fragment.source
            table.add_row(fragment.name, read, by)
        if len(self.view.fragments) > SHOWN:
            table.add_row(f"and {len(self.view.fragments) - SHOWN:,} more (--json)", "", "")
        return table

    def _commits(self, kind: str) -> Iterator[RenderableType]:
        from chronotile.report.events import delete_words, update_words
        from chronotile.report.output import Text
        from chronotile.visibility.view import Update

        commits = self.view.updates if kind == "update" else self.view.deletes
        for commit in commits[:SHOWN]:
            words, notes = (
                update_words(commit) if isinstance(commit, Update) else delete_words(commit)
            )
            yield Text(f"  {commit.t2}  {words}")
            for note in notes:
                yield Text(f"      note: {note}", "red")
        if len(commits) > SHOWN:
            yield Text(f"  … and {len(commits) - SHOWN:,} more (--json)")


@click.command(epilog="\b\nExample:\n  chronotile visible demo/array --end 2024-05-01T12:00:00Z")
@array_argument
@start_option
@end_option
@storage_options
@json_option
def visible(
    array: str,
    start: int,
    end: int | None,
    key_file: str | None,
    storage: tuple[str, ...],
    as_json: bool,
) -> None:
    """What an open of ARRAY at a window sees: fragments, and deletes and updates in force.

    Both ends of the window are part of it. The engine's `timestamp=(start, end)` means the same.
    """
    from chronotile.format.timestamps import now_ms
    from chronotile.report.output import emit

    last = now_ms() if end is None else end
    check_window(start, last)
    view = open_log(array, key_file, storage).view(start, last)
    emit(VisibleReport(view=view), as_json=as_json)
