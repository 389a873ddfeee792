"""`chronotile tag add`, `list`, `remove`: names for moments of an array.

In: an array, a name, a moment. Out: the tags, or what the change did. Decides nothing itself.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import click

from chronotile.cli.maintain import Change, changing
from chronotile.cli.options import MOMENT, access_options, array_argument, json_option
from chronotile.history.folder_kinds import GroupFoundError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rich.console import RenderableType

    from chronotile.cli.options import Access
    from chronotile.format.tag_entries import Tags


@click.group(epilog="\b\nExample:\n  chronotile tag add demo/array release-1 --at 2024-05-15")
def tag() -> None:
    """Give moments of an array or a group names, which every command takes for a time.

    A tag is kept in the own metadata of the array or group, as chronotile.tag.NAME, so that every
    TileDB program sees it. `chronotile vacuum` keeps what a tag needs, also of a group's members;
    the engine's own vacuum does not know of tags, and `chronotile check` finds those that can no
    longer be read whole. Each command takes --json.
    """


@tag.command()
@changing
@click.argument("name", metavar="NAME")
@click.option("--at", metavar="TIME", type=MOMENT, help="The moment: now.")
@click.option("--move", is_flag=True, help="Let a tag of that name name another moment.")
def add(change: Change, **options: Any) -> int:
    """Give a moment of ARRAY a name."""
    from chronotile.time_machine.tag import add_tag

    return change.run(add_tag, **options)


@tag.command(short_help="Take a tag of ARRAY away.")
@changing
@click.argument("name", metavar="NAME")
def remove(change: Change, **options: Any) -> int:
    """Take a tag of ARRAY away: a vacuum may then remove what only it needs."""
    from chronotile.time_machine.tag import remove_tag

    return change.run(remove_tag, **options)


@dataclass(frozen=True, slots=True, kw_only=True)
class TagList:
    """The tags of an array or a group, and those of groups that it is a member of."""

    array: str
    tags: Tags

    def to_json(self) -> list[dict[str, Any]]:
        """A name and a moment each."""
        from chronotile.format.timestamps import iso_time

        return [
            {"name": name, "at": at, "time": iso_time(at), "of_group": of_group}
            for name, at, of_group in self._rows()
        ]

    def to_text(self) -> Iterator[RenderableType]:
        """A line, and a table."""
        from chronotile.check.findings import count_text
        from chronotile.format.timestamps import time_text
        from chronotile.report.output import Text, plain_table

        rows = self._rows()
        known = " that can be read" if self.tags.doubts else ""
        yield Text(f"{self.array}: {count_text(len(rows), 'tag')}{known}", "bold")
        if rows:
            table = plain_table("time", "ms", "tag")
            for name, at, of_group in rows:
                table.add_row(time_text(at), str(at), f"{name}, of its group" if of_group else name)
            yield table

    def _rows(self) -> list[tuple[str, int, bool]]:
        own = [(name, at, False) for name, at in self.tags.own.items()]
        return own + [(name, at, True) for name, at in self.tags.of_groups]


@tag.command(name="list")
@array_argument
@access_options
@json_option
def list_tags(array: str, access: Access, as_json: bool) -> int:
    """List the tags of ARRAY, the earliest first.

    Exits with 3 if metadata cannot be read, which may hold more.
    """
    from chronotile.report.output import emit

    try:
        log = access.open_log(array)
        where, tags = log.array, log.known_tags
    except GroupFoundError:
        dataset = access.open_dataset(array)
        where, tags = dataset.uri, dataset.known_tags
    emit(TagList(array=where, tags=tags), as_json=as_json)
    tags.checked(where)
    return 0
