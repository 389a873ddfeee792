"""`chronotile usage`: why an array is so large.

In: an array. Out: its bytes by reason, by field and part, and the largest fragments, each with the
command that frees it; and a treemap, where the user asks for a file of it. Changes nothing.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from chronotile.cli.options import (
    Place,
    access_options,
    array_argument,
    form_of,
    or_group,
    reporting,
)
from chronotile.errors import printable

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Iterator

    from rich.console import RenderableType

    from chronotile.change.usage import Usage
    from chronotile.cli.options import Access
    from chronotile.report.usage_map import Line

FORMS = (".html", ".svg", ".png")
LARGEST = 10
"""Fragments that the text shows."""
FIELDS = 20
"""Fields and parts that it shows."""
NOTES = 20
"""Notes that it shows."""


@dataclass(frozen=True, kw_only=True)
class UsageReport:
    """What an array's bytes are for."""

    array: str
    usage: Usage
    output: str | None
    status: int = 0
    """3 if a member could not be read."""

    @cached_property
    def rows(self) -> list[dict[str, Any]]:
        """The rows of `log.usage()`."""
        rows: list[dict[str, Any]] = self.usage.table.to_pylist()
        return rows

    def lines(self) -> list[Line]:
        """The bytes by reason and by the command that frees them, the most first."""
        from chronotile.report.usage_map import Line

        lost = {way.command: way.lost for way in self.usage.ways}
        sums = self._sums(lambda row: (row["reason"], row["freed_by"]))
        return [
            Line(size, files, reason, command, lost[command] if command else "")
            for (reason, command), (size, files) in sums.items()
        ]

    def _sums(self, key: Callable[[dict[str, Any]], Any]) -> dict[Any, tuple[int, int]]:
        """Bytes and files of the rows that a key joins, the most bytes first; no key, no sum."""
        sizes: dict[Hashable, list[int]] = defaultdict(list)
        for row in self.rows:
            if (joined := key(row)) is not None:
                sizes[joined].append(row["bytes"])
        sums = {joined: (sum(found), len(found)) for joined, found in sizes.items()}
        return dict(sorted(sums.items(), key=lambda item: (-item[1][0], str(item[0]))))

    def _fields(self) -> dict[Any, tuple[int, int]]:
        return self._sums(lambda row: (row["field"], row["part"]) if row["part"] else None)

    def _fragments(self) -> dict[Any, tuple[int, int]]:
        def key(row: dict[str, Any]) -> tuple[Any, ...] | None:
            return (row["fragment"], row["reason"], row["freed_by"]) if row["fragment"] else None

        return self._sums(key)

    def to_json(self) -> dict[str, Any]:
        """The sums, the ways to free bytes, and one object a file."""
        usage, sizes = self.usage, {row["path"]: row["bytes"] for row in self.rows}
        return {
            "array": self.array,
            "bytes": sum(sizes.values()),
            "reasons": [
                {
                    "reason": line.reason,
                    "bytes": line.size,
                    "files": line.files,
                    "freed_by": line.freed_by,
                    "lost": line.lost or None,
                }
                for line in self.lines()
            ],
            "fields": [
                {"field": field, "part": part, "bytes": size, "files": files}
                for (field, part), (size, files) in self._fields().items()
            ],
            "ways": [
                {
                    "command": way.command,
                    "lost": way.lost,
                    "files": len(way.paths & sizes.keys()),
                    "bytes": sum(sizes.get(path, 0) for path in way.paths),
                    "written": way.written,
                }
                for way in usage.ways
            ],
            "notes": list(usage.notes),
            "output": self.output,
            "files": self.rows,
        }

    def to_text(self) -> Iterator[RenderableType]:
        """The sums as tables."""
        from chronotile.report.output import Text, count_text, place_text, size_text

        total = sum(row["bytes"] for row in self.rows)
        files = count_text(len(self.rows), "file")
        yield Text(f"{place_text(self.array)}: {size_text(total)} in {files}", "bold")
        yield ""
        yield self._reason_table()
        if fields := self._fields():
            yield ""
            yield _field_table(fields, total)
            yield ""
            yield self._fragment_table(total)
        if self.usage.notes:
            yield ""
        for note in self.usage.notes[:NOTES]:
            yield Text(f"note: {note}", "yellow")
        if len(self.usage.notes) > NOTES:
            yield f"and {len(self.usage.notes) - NOTES:,} more notes (--json)"
        if self.output is not None:
            yield ""
            yield f"{self.output}: {size_text(Path(self.output).stat().st_size)}"

    def _reason_table(self) -> RenderableType:
        from chronotile.report.output import plain_table, size_text

        table = plain_table("bytes", "files", "why", "freed by", "what would be lost", right=2)
        for line in self.lines():
            table.add_row(
                size_text(line.size),
                f"{line.files:,}",
                line.reason,
                self._near(line.freed_by),
                self._lost(line),
            )
        return table

    def _lost(self, line: Line) -> str:
        from chronotile.change.vacuum import LOSS
        from chronotile.report.output import size_text

        way = next((way for way in self.usage.ways if way.command == line.freed_by), None)
        words, is_loss, _ = line.lost.partition(LOSS)
        words += "time travel: see the note" if is_loss else ""
        if way is None or not way.written:
            return words
        return f"{words}; {size_text(way.written)} are written anew"

    def _fragment_table(self, total: int) -> RenderableType:
        from chronotile.report.output import plain_table, size_text

        found = self._fragments()
        table = plain_table("bytes", "share", "fragment", "why", "freed by", right=2)
        table.columns[2].no_wrap = True
        for (name, reason, command), (size, _) in list(found.items())[:LARGEST]:
            table.add_row(size_text(size), _share(size, total), name, reason, self._near(command))
        if len(found) > LARGEST:
            table.add_row("", "", f"and {len(found) - LARGEST:,} more (--json)", "", "")
        return table

    def _near(self, command: str | None) -> str:
        """A command, with the array as a user in this folder would name it."""
        from chronotile.report.output import place_text

        near = printable(place_text(self.array))
        return (command or "").replace(printable(self.array), near)


def _share(size: int, total: int) -> str:
    return f"{100 * size / total:.1f} %" if total else ""


def _field_table(fields: dict[Any, tuple[int, int]], total: int) -> RenderableType:
    from chronotile.report.output import plain_table, size_text

    table = plain_table("bytes", "share", "files", "field", "part", right=3)
    for (field, part), (size, files) in list(fields.items())[:FIELDS]:
        table.add_row(size_text(size), _share(size, total), f"{files:,}", field or "", part)
    if len(fields) > FIELDS:
        table.add_row("", "", "", f"and {len(fields) - FIELDS:,} more (--json)", "")
    return table


@click.command(epilog="\b\nExample:\n  chronotile usage demo/array -o usage.html")
@array_argument
@click.option(
    "-o", "--output", metavar="FILE", type=Place("file"), help="A treemap: .html, .svg or .png."
)
@access_options
@reporting
@or_group("group_usage:group_usage")
def usage(array: str, output: str | None, access: Access) -> UsageReport:
    """Why ARRAY is so large: bytes by reason, by field and part, and the largest fragments.

    Each comes with the command that frees it, and what would be lost by it. The sums are what the
    storage lists, to the byte. Nothing is changed.
    """
    form = "" if output is None else form_of(output, FORMS)
    from chronotile.change.usage import measure_usage
    from chronotile.report.output import progress

    log, store = access.open_log(array), access.open_store(array)
    with progress("listing files"):
        measured = measure_usage(store, log.history, log.rules)
        report = UsageReport(array=log.array, usage=measured, output=output)
        if output is not None:
            Path(output).write_bytes(_draw(report, form))
    return report


def _draw(report: UsageReport, form: str) -> bytes:
    from chronotile.report.usage_map import to_html, to_png, to_svg

    if form == ".html":
        return to_html(report.array, report.rows, report.lines()).encode()
    if form == ".png":
        return to_png(report.array, report.rows)
    return to_svg(report.array, report.rows).encode()
