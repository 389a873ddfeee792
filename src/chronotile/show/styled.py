"""Text, tables and trees with styles: the one place that gives Rich what to print.

In: parts of a report. Out: the same on standard output, with colour and as wide as a terminal, or
plain and never cut in a pipe. Much of it comes from files, so everything is made printable here;
only our own styles reach a terminal unchanged.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from rich.console import Console, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text as RichText
from rich.tree import Tree

from chronotile.safe_text import printable
from chronotile.show.terminal_fit import fit_line, fit_table, has_command, map_cells

if TYPE_CHECKING:
    from collections.abc import Iterable

    from rich.style import Style

_ANY_WIDTH = 1 << 20
"""Columns of a pipe: its lines are never cut."""


class Text(RichText):
    r"""Text in a style, with escapes for what cannot be printed.

    Rich by itself passes escape sequences on, and drops some control characters without a trace.

    >>> Text("a\x1b[2J\r", "bold").append("\u202eb", "red").plain
    'a\\x1b[2J\\r\\u202eb'
    """

    def __init__(self, text: str = "", style: str | Style = "") -> None:
        super().__init__(printable(text), style)

    def append(self, text: RichText | str, style: str | Style | None = None) -> Text:
        """Add text behind it."""
        super().append(printable(text) if isinstance(text, str) else text, style)
        return self


def print_parts(parts: Iterable[RenderableType]) -> None:
    """Print the parts of a report to standard output, one after the other."""
    console = Console(file=sys.stdout, highlight=False, markup=False, emoji=False)
    if console.is_terminal:
        for part in parts:
            _print(_shown(part, console), console)
        return
    console = Console(
        file=sys.stdout, width=_ANY_WIDTH, highlight=False, markup=False, emoji=False, no_color=True
    )
    for part in parts:
        sys.stdout.write(_plain(_shown(part, console), console))


def _print(part: RenderableType, console: Console) -> None:
    """Print a part of a report to a terminal, whose width it keeps to."""
    fitted: RenderableType | list[RichText] = part
    if isinstance(part, RichText):
        fitted = fit_line(part, console.width)
    elif isinstance(part, Table):
        fitted = fit_table(part, console.width)
    for one in fitted if isinstance(fitted, list) else [fitted]:
        if isinstance(one, RichText) and has_command(one.plain):
            console.print(one, soft_wrap=True)  # the terminal wraps it: no line break is copied
        else:
            console.print(_hung(one) if isinstance(one, RichText) else one)


def _shown(part: RenderableType, console: Console) -> RenderableType:
    """Escape what cannot be printed in all texts of a part."""
    match part:
        case str():
            return Text(part)
        case Text():
            return part
        case RichText():
            fresh = Text("", part.style)
            for segment in part.render(console):
                fresh.append(segment.text, segment.style)
            return fresh
        case Table():
            return map_cells(part, lambda cell, _: _shown(cell, console))
        case Tree():
            part.label = _shown(part.label, console)
            for child in part.children:
                _shown(child, console)
            return part
    message = f"expected a text, a table or a tree, found {type(part).__name__}"
    raise TypeError(message)


def _hung(line: RichText) -> RenderableType:
    """Keep the indent of a line that is too long and wraps."""
    indent = len(line.plain) - len(line.plain.lstrip(" "))
    return Padding(line[indent:], (0, 0, 0, indent)) if indent else line


def _plain(part: RenderableType, console: Console) -> str:
    if isinstance(part, RichText):
        return f"{part.plain}\n"
    with console.capture() as capture:
        console.print(part)
    return "".join(f"{line.rstrip()}\n" for line in capture.get().splitlines())


def plain_table(*headers: str, right: int = 0) -> Table:
    """Make a table without lines; the first `right` columns are numbers."""
    table = Table(box=None, pad_edge=False, show_edge=False, header_style="bold dim")
    table.padding = (0, 2, 0, 0)
    for at, header in enumerate(headers):
        table.add_column(header, justify="right" if at < right else "left", overflow="fold")
    return table
