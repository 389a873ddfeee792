"""`chronotile operations`: what this package did to an array or a group.

In: a place, and perhaps the id of an operation. Out: the operations, the newest first, or one of
them whole. Reads records, and nothing else.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import click

from chronotile.cli.options import access_options, array_argument, command, reporting
from chronotile.errors import ChronotileError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rich.console import RenderableType

    from chronotile.cli.options import Access

_STYLES = {"begun": "yellow", "failed": "red", "undone": "dim", "final": "dim"}


@dataclass(frozen=True, slots=True, kw_only=True)
class OperationsReport:
    """The operations of a place."""

    uri: str
    found: tuple[dict[str, Any], ...]

    def to_json(self) -> list[dict[str, Any]]:
        """Give one object for each operation."""
        return list(self.found)

    def to_text(self) -> Iterator[RenderableType]:
        """Give a line for each operation."""
        from chronotile.show.output import Text, count_text, plain_table

        yield Text(f"{self.uri}: {count_text(len(self.found), 'operation')}", "bold")
        if not self.found:
            return
        table = plain_table("id", "time", "command", "state", "author", "why and what")
        for one in self.found:
            words = [one["message"]] if one["message"] else []
            words += [f"{count:,} rows {what}" for what, count in one["rows"].items()]
            words += [f"{len(one['put']):,} put"] if one["put"] else []
            words += [f"{len(one['hidden']):,} hidden"] if one["hidden"] else []
            words += [f"{len(one['removed']):,} taken out"] if one["removed"] else []
            words += [f"takes back {one['undoes']}"] if one["undoes"] else []
            state = Text(one["state"], _STYLES.get(one["state"], ""))
            told = "; ".join(words)
            table.add_row(one["id"], one["time"], one["command"], state, one["author"] or "", told)
        yield table


@dataclass(frozen=True, slots=True, kw_only=True)
class OperationReport:
    """One operation, whole."""

    document: dict[str, Any]

    def to_json(self) -> dict[str, Any]:
        """Give its record."""
        return self.document

    def to_text(self) -> Iterator[RenderableType]:
        """Give its head, its notes and every file."""
        from chronotile.show.output import Text, plain_table

        document = self.document
        yield Text(f"{document['id']}: {document['command']}, {document['state']}", "bold")
        for name in ("time", "author", "message", "options", "rows", "undoes", "group"):
            if document.get(name):
                yield Text(f"{name}: {document[name]}")
        for note in document.get("notes", ()):
            yield Text(f"note: {note}", "yellow")
        parts = [("", document)]
        parts += [(item.get("member") or "", item) for item in document.get("members", ())]
        table = plain_table("size", "what", "file", "why", right=1)
        for member, part in parts:
            for step in part.get("steps", ()):
                size = "?" if step.get("size") is None else f"{step['size']:,}"
                path = f"{member}: {step['path']}" if member else step["path"]
                table.add_row(size, step["op"], path, step["reason"])
        yield table


@command(epilog="\b\nExample:\n  chronotile operations demo/array")
@array_argument
@click.argument("id_", metavar="[ID]", required=False)
@access_options
@reporting
def operations(array: str, id_: str | None, access: Access) -> OperationsReport | OperationReport:
    """What chronotile did to ARRAY, the newest first; with ID, one operation whole.

    Each has who, when, why, its state, and what it put, hid and took out. `chronotile undo ARRAY
    ID` takes one back.
    """
    from chronotile.change.operations import (
        describe_operations,
        list_operations,
        read_operation,
    )

    place = access.open(array)
    if id_ is None:
        return OperationsReport(uri=place.uri, found=tuple(describe_operations(place.store)))
    fitting = [one for one in list_operations(place.store) if one.id.startswith(id_.lower())]
    if len(fitting) != 1:
        problem = f"expected the id of one operation, found {id_!r:.40}"
        raise ChronotileError(place.uri, f"{problem}; chronotile operations {place.uri} lists all")
    return OperationReport(document=read_operation(place.store, fitting[0]))
