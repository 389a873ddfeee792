"""Reports on their way out: the one place that writes to standard output.

In: a report, which can give itself as JSON and as text. Out: one JSON document; or text, with
colour on a terminal and plain in a pipe. Knows nothing of what a report says: much of it comes from
files, so all of it is made printable here. Only our own styles reach a terminal as they are.
"""

from __future__ import annotations

import json
import re
import sys
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from rich.console import Console, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text as RichText
from rich.tree import Tree

from chronotile.check.findings import count_text as count_text  # the commands take it from here
from chronotile.errors import printable, printable_json
from chronotile.format.timestamps import local_time

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from rich.style import Style

_MANY = 200
_COMPACT = json.JSONEncoder(ensure_ascii=False).encode
_ANY_WIDTH = 1 << 20
"""Columns of a pipe: no reader of it wants a line cut."""


class Text(RichText):
    r"""Text in a style, with escapes for what cannot be printed.

    Rich by itself passes escape sequences on, and drops some control characters without a trace.

    >>> Text("a\x1b[2J\r", "bold").append("\u202eb", "red").plain
    'a\\x1b[2J\\r\\u202eb'
    """

    def __init__(self, text: str = "", style: str | Style = "") -> None:
        super().__init__(printable(text), style)

    def append(self, text: RichText | str, style: str | Style | None = None) -> Text:
        """Adds text behind it."""
        super().append(printable(text) if isinstance(text, str) else text, style)
        return self


class Report(Protocol):
    """What a command has to say."""

    def to_json(self) -> Any:
        """As one JSON document."""

    def to_text(self) -> Iterable[RenderableType]:
        """As lines, tables and trees."""


def emit(report: Report, *, as_json: bool) -> None:
    """Writes a report to standard output.

    >>> class Answer:
    ...     def to_json(self): return {"answer": 42}
    ...     def to_text(self): yield Text("42")
    >>> emit(Answer(), as_json=False)
    42
    >>> emit(Answer(), as_json=True)
    {
      "answer": 42
    }
    """
    if as_json:
        sys.stdout.write(_encodable(json_text(report.to_json())) + "\n")
        return
    console = Console(file=sys.stdout, highlight=False, markup=False, emoji=False)
    if console.is_terminal:
        for part in report.to_text():
            shown = _shown(part, console)
            console.print(_hung(shown) if isinstance(shown, RichText) else shown)
        return
    console = Console(
        file=sys.stdout, width=_ANY_WIDTH, highlight=False, markup=False, emoji=False, no_color=True
    )
    for part in report.to_text():
        sys.stdout.write(_plain(_shown(part, console), console))


def json_text(value: Any) -> str:
    r"""Writes JSON to look at, in which nothing is hidden.

    >>> print(json_text({"\u202e": "é\x7f"}))
    {
      "\u202e": "é\u007f"
    }
    """
    return printable_json(_document(value))


def _encodable(document: str) -> str:
    """JSON that standard output takes: what it may have no letters for is escaped as JSON does."""
    encoding = getattr(sys.stdout, "encoding", None) or "utf-8"
    if document.isascii() or encoding.lower().startswith("utf"):
        return document
    return re.sub(r"[^ -~\n]+", lambda found: json.dumps(found.group())[1:-1], document)


def _shown(part: RenderableType, console: Console) -> RenderableType:
    """The same, with escapes for what cannot be printed in any text of it."""
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
            for column in part.columns:
                column.header = _shown(column.header, console)
                column._cells[:] = [_shown(cell, console) for cell in column.cells]
            return part
        case Tree():
            part.label = _shown(part.label, console)
            for child in part.children:
                _shown(child, console)
            return part
    message = f"expected a text, a table or a tree, found {type(part).__name__}"
    raise TypeError(message)


def _document(value: Any, indent: str = "") -> str:
    """JSON to look at; of a long list, one item a line, which is also twice as fast.

    >>> print(_document({"a": [1, {"b": 2}]}))
    {
      "a": [
        1,
        {
          "b": 2
        }
      ]
    }
    >>> _document([{"a": 1}] * 1000).splitlines()[1]
    '  {"a": 1},'
    """
    inner = indent + "  "
    if isinstance(value, list) and len(value) > _MANY:
        items = [*map(_COMPACT, value)]
    elif isinstance(value, list) and value:
        items = [_document(item, inner) for item in value]
    elif isinstance(value, dict) and value:
        items = [f"{_COMPACT(name)}: {_document(item, inner)}" for name, item in value.items()]
    else:
        return _COMPACT(value)
    opened, closed = "[]" if isinstance(value, list) else "{}"
    between = f",\n{inner}"
    return f"{opened}\n{inner}{between.join(items)}\n{indent}{closed}"


def _hung(line: RichText) -> RenderableType:
    """A line whose further lines, if it is too long, are indented as the first is."""
    indent = len(line.plain) - len(line.plain.lstrip(" "))
    return Padding(line[indent:], (0, 0, 0, indent)) if indent else line


def _plain(part: RenderableType, console: Console) -> str:
    if isinstance(part, RichText):
        return f"{part.plain}\n"
    with console.capture() as capture:
        console.print(part)
    return "".join(f"{line.rstrip()}\n" for line in capture.get().splitlines())


@contextmanager
def progress(words: str) -> Iterator[Callable[[], None]]:
    """Shows on a terminal's standard error that something takes its time.

    Gives a function to call for each thing done. Nothing is shown where standard error is no
    terminal, and nothing is left when it ends.

    >>> with progress("counting") as step:
    ...     step()
    """
    console = Console(stderr=True)
    if not console.is_terminal:
        yield lambda: None
        return
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

    columns = (
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        TextColumn("{task.completed:,}"),
        TimeElapsedColumn(),
    )
    with Progress(*columns, console=console, transient=True) as bar:
        task = bar.add_task(printable(words), total=None)
        yield lambda: bar.advance(task)


def size_text(size: int | None) -> str:
    """Writes a number of bytes for people.

    >>> size_text(109), size_text(20_480), size_text(None)
    ('109 bytes', '20.5 kB', 'size unknown')
    """
    if size is None:
        return "size unknown"
    if size < 1000:
        return f"{size} byte{'' if size == 1 else 's'}"
    number, units = float(size), iter(("kB", "MB", "GB", "TB", "PB", "EB"))
    unit = ""
    while number >= 999.95:
        number, unit = number / 1000, next(units)
    return f"{number:.1f} {unit}"


def place_text(array: str) -> str:
    """Writes the place of an array as a user here would: without the folders above.

    >>> place_text("s3://lake/sales")
    's3://lake/sales'
    """
    try:
        return str(Path(array).relative_to(Path.cwd()))
    except (ValueError, OSError):
        return array


def window_text(start: int, end: int) -> str:
    """Writes a window for people.

    >>> window_text(0, 2**64 - 1)
    '[0, 18446744073709551615] (from the start to after the year 9999)'
    """
    first = "the start" if start == 0 else local_time(start)
    return f"[{start}, {end}] (from {first} to {local_time(end)})"


def plain_table(*headers: str, right: int = 0) -> Table:
    """A table without lines, as other tools of the command line have it.

    Args:
        headers: The columns.
        right: How many of the first columns are numbers.
    """
    table = Table(box=None, pad_edge=False, show_edge=False, header_style="bold dim")
    table.padding = (0, 2, 0, 0)
    for at, header in enumerate(headers):
        table.add_column(header, justify="right" if at < right else "left", overflow="fold")
    return table
