"""Text and tables that fit a terminal: nothing breaks inside a name, and no column is too narrow.

In: a line, or a table of texts, and the columns of a terminal. Out: the same, with long names
shortened in the middle where they do not fit; a table that fits in no way as a few lines for each
row. A command stays whole, on one line: somebody may paste it. A pipe gets none of this.
"""

from __future__ import annotations

import re
import textwrap
from typing import TYPE_CHECKING, NamedTuple

from rich.table import Table
from rich.text import Text as RichText

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from rich.console import RenderableType
    from rich.table import Column

_LONG_NAME = re.compile(r"(__\d+_\d+_[0-9a-f]{8})[0-9a-f]{24}")
_NAME = re.compile(r"__\d+_\d+_|\.tdb\b")
_COMMAND = re.compile(r"\bchronotile [a-z]")
_GAP = 2
"""Columns between two columns of a table."""
_NARROW = 14
"""The least width of a column of text, if its words are that long."""


def shortened(text: str) -> str:
    """Shorten the names in a text in the middle, up to its first command.

    >>> shortened("in __1_2_00112233445566778899aabbccddeeff_22.wrt")
    'in __1_2_00112233…_22.wrt'
    >>> shortened("chronotile undelete a __1_2_00112233445566778899aabbccddeeff_22")
    'chronotile undelete a __1_2_00112233445566778899aabbccddeeff_22'
    """
    return fit_line(RichText(text), 0).plain


def has_command(text: str) -> bool:
    """Return True if there is a command in a text."""
    return _COMMAND.search(text) is not None


def fit_line(line: RichText, width: int) -> RichText:
    """Shorten the names in a line that is too long for a terminal, up to its first command."""
    if len(line.plain) <= width:
        return line
    command = _COMMAND.search(line.plain)
    end = len(line.plain) if command is None else command.start()
    fresh = line.copy()
    for found in reversed([*_LONG_NAME.finditer(line.plain, 0, end)]):
        head, tail = fresh[: found.end(1)], fresh[found.end() :]
        fresh = RichText.assemble(head, "…", tail)
    fresh.style = line.style
    return fresh


def wrapped(text: str, width: int) -> list[str]:
    """Break a line between words; one with a command stays whole, for the terminal to wrap."""
    if has_command(text):
        return [text]
    return textwrap.wrap(text, width, break_long_words=False, break_on_hyphens=False)


class _Widths(NamedTuple):
    """The width of a column if nothing wraps, and the least that it may have."""

    most: int
    least: int


def fit_table(table: Table, width: int) -> Table | list[RichText]:
    """Make a table no wider than a terminal; or, if that cannot be, a few lines for each row.

    >>> from rich.table import Table
    >>> table = Table("file", "why", box=None)
    >>> table.add_row("__fragments/__1_2_00112233445566778899aabbccddeeff_22", "it is old")
    >>> [line.plain for line in fit_table(table, 20)]
    ['file: __fragments/__1_2_00112233…_22', '  why: it is old']
    """
    gaps = _GAP * max(len(table.columns) - 1, 0)
    widths = [_widths(column) for column in table.columns]
    if sum(one.most for one in widths) + gaps <= width:
        return table
    table = map_cells(table, _short_cell)
    widths = [_widths(column) for column in table.columns]
    room = width - gaps - sum(one.least for one in widths)
    if room < 0:
        return [*_records(table, width)]
    wanted = sum(one.most - one.least for one in widths)
    for column, one in zip(table.columns, widths, strict=True):
        share = (one.most - one.least) * room // wanted if wanted > room else one.most - one.least
        column.width = one.least + share
        column.no_wrap = False
    return table


def map_cells(table: Table, change: Callable[[RenderableType, Column], RenderableType]) -> Table:
    """Copy a table, with each header and cell changed."""
    fresh = Table(box=None, pad_edge=False, show_edge=False, header_style=table.header_style)
    fresh.padding = table.padding
    for column in table.columns:
        fresh.add_column(
            change(column.header, column),
            justify=column.justify,
            overflow=column.overflow,
            no_wrap=column.no_wrap,
        )
    for cells in zip(*(column.cells for column in table.columns), strict=True):
        fresh.add_row(*map(change, cells, table.columns))
    return fresh


def _plain(cell: object) -> str:
    return cell.plain if isinstance(cell, RichText) else str(cell)


def _short_cell(cell: RenderableType, column: Column) -> RenderableType:
    if column.no_wrap:
        return cell
    return fit_line(cell, 0) if isinstance(cell, RichText) else shortened(str(cell))


def _widths(column: Column) -> _Widths:
    texts = [_plain(column.header), *map(_plain, column.cells)]
    # A name stays in one piece, and so does a command or what is short; a very long word may break.
    parts = (
        [text] if len(text) <= _NARROW or has_command(text) else text.split() for text in texts
    )
    words = [word for part in parts for word in part]
    whole = (_NAME.search(word) or has_command(word) for word in words)
    least = max(
        (
            len(word) if is_whole else min(len(word), _NARROW)
            for word, is_whole in zip(words, whole, strict=True)
        ),
        default=1,
    )
    return _Widths(max(map(len, texts)), least)


def _records(table: Table, width: int) -> Iterator[RichText]:
    """Give a few lines for each row: its first name or word, and the others below."""
    heads = [_plain(column.header) for column in table.columns]
    # What tells rows apart comes first: the column of names, if there is one.
    first = max(range(len(heads)), key=lambda at: _widths(table.columns[at]).least)
    for cells in zip(*(column.cells for column in table.columns), strict=True):
        pairs = [(head, _plain(cell)) for head, cell in zip(heads, cells, strict=True)]
        yield RichText(": ".join(pairs[first]))
        others = [
            f"{head}: {text}" for at, (head, text) in enumerate(pairs) if at != first and text
        ]
        short = [text for text in others if len(text) <= 24]
        lines = [", ".join(short)] if short else []
        lines += [text for text in others if text not in short]
        for line in lines:
            yield from (RichText(f"  {part}") for part in wrapped(line, max(width - 2, 20)))
