"""Standard output: the one place that writes to it.

In: a report, which can give itself as JSON and as text. Out: one JSON document; or text, with
colour on a terminal and plain in a pipe. Knows nothing of what a report says. Much of it comes from
files, so everything is made printable here; only our own styles reach a terminal unchanged.
"""

from __future__ import annotations

import itertools
import json
import os
import re
import sys
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, TextIO, runtime_checkable

import click

from chronotile.check.findings import count_text as count_text  # the commands take it from here
from chronotile.format.timestamps import time_text
from chronotile.safe_text import printable, printable_json
from chronotile.show.error_messages import unless_closed

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from rich.console import Console, RenderableType

    from chronotile.show.styled import Text as Text
    from chronotile.show.styled import plain_table as plain_table

_MANY = 200
_CHUNK = 2000
"""Lines to write at once."""
_COMPACT = json.JSONEncoder(ensure_ascii=False).encode


def _later(name: str) -> Any:
    """Load Rich for the first text or table with a style: JSON and plain lines need none."""

    def made(*given: Any, **options: Any) -> Any:
        from chronotile.show import styled

        return getattr(styled, name)(*given, **options)

    return made


if not TYPE_CHECKING:
    Text, plain_table = _later("Text"), _later("plain_table")


def _terminal(stream: TextIO) -> Console | None:
    """Give a console on a terminal, or what the environment says to take for one, else None."""
    forced = os.environ.get("FORCE_COLOR") or os.environ.get("TTY_COMPATIBLE")
    if not (forced or stream.isatty()):
        return None  # most output is for a pipe: it does without Rich
    from rich.console import Console

    console = Console(file=stream)
    return console if console.is_terminal else None


class Result(Protocol):
    """The result of a command."""

    def to_json(self) -> Any:
        """Give one JSON document."""

    def to_text(self) -> Iterable[RenderableType]:
        """Give lines, tables and trees."""


class Answer(NamedTuple):
    """The result of a command that needs no class of its own."""

    json: Any
    """The document, or a function that makes it."""
    text: Iterable[RenderableType]
    status: int = 0
    """The exit status."""

    def to_json(self) -> Any:
        """Give the document."""
        return self.json() if callable(self.json) else self.json

    def to_text(self) -> Iterable[RenderableType]:
        """Give the parts of the text."""
        return self.text


@runtime_checkable
class Streamed(Protocol):
    """A result whose lines are made and written one by one, as there may be very many."""

    def to_json(self) -> Any:
        """Give one JSON document; not of what is live."""

    @property
    def is_live(self) -> bool:
        """True if the lines come as things happen, and not at once."""

    def lines(self, *, width: int | None, colour: bool) -> Iterator[str]:
        """Give the lines, printable, for a terminal of a width, or for a pipe."""

    def json_lines(self) -> Iterator[Any]:
        """Give JSON documents, each as something happens; only of what is live."""


def emit(report: Result | Streamed, *, as_json: bool) -> None:
    """Write a report to standard output.

    >>> emit(Answer({"answer": 42}, ["42"]), as_json=False)
    42
    >>> emit(Answer({"answer": 42}, ["42"]), as_json=True)
    {
      "answer": 42
    }
    """
    with unless_closed(sys.stdout):
        _emit(report, as_json=as_json)


def _emit(report: Result | Streamed, *, as_json: bool) -> None:
    if as_json and isinstance(report, Streamed) and report.is_live:
        for document in report.json_lines():
            sys.stdout.write(_encodable(printable_json(_COMPACT(document))) + "\n")
            sys.stdout.flush()
        return
    if as_json:
        sys.stdout.write(_encodable(json_text(report.to_json())) + "\n")
        return
    if isinstance(report, Streamed):
        _stream(report)
        return
    from chronotile.show.styled import print_parts

    print_parts(report.to_text())


def _stream(report: Streamed) -> None:
    """Write lines: through a pager on a terminal, else many at once, or each as it comes."""
    console = _terminal(sys.stdout)
    width = None if console is None else console.width
    colour = bool(console and console.color_system and not console.no_color)
    lines = report.lines(width=width, colour=colour)
    if report.is_live:
        for line in lines:
            sys.stdout.write(f"{line}\n")
            sys.stdout.flush()
    elif console is not None and sys.stdin.isatty():
        # Less leaves at once if all fits the screen, passes colours on, and clears nothing.
        os.environ.setdefault("LESS", "FRX")
        click.echo_via_pager((f"{line}\n" for line in lines), color=colour)
    else:
        while chunk := list(itertools.islice(lines, _CHUNK)):
            sys.stdout.write("\n".join(chunk) + "\n")


def json_text(value: Any) -> str:
    r"""Write JSON for people, with escapes for what cannot be printed.

    >>> print(json_text({"\u202e": "é\x7f"}))
    {
      "\u202e": "é\u007f"
    }
    """
    return printable_json(_document(value))


def _encodable(document: str) -> str:
    """Escape characters of JSON that the encoding of standard output may lack."""
    encoding = getattr(sys.stdout, "encoding", None) or "utf-8"
    if document.isascii() or encoding.lower().startswith("utf"):
        return document
    return re.sub(r"[^ -~\n]+", lambda found: json.dumps(found.group())[1:-1], document)


def _document(value: Any, indent: str = "") -> str:
    """Write JSON for people; a long list has one item per line, which is also twice as fast.

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


@contextmanager
def progress(words: str, total: int | None = None) -> Iterator[Callable[..., None]]:
    """Show progress on standard error, if that is a terminal, and clear it at the end.

    Gives a function to call for each thing done; `total` is the number of all, if it is known. A
    number given to the function is added to the total.

    >>> with progress("counting") as step:
    ...     step()
    """
    console = _terminal(sys.stderr)
    if console is None:
        yield lambda _=None: None
        return
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

    columns = (
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        TextColumn("{task.completed:,}"),
        TimeElapsedColumn(),
    )
    with Progress(*columns, console=console, transient=True) as bar:
        task = bar.add_task(printable(words), total=total)

        def step(more: int | None = None) -> None:
            if more is None:
                bar.advance(task)
            else:
                bar.update(task, total=(bar.tasks[0].total or 0) + more)

        yield step


def size_text(size: int | None) -> str:
    """Write a number of bytes, for people.

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
    """Write the place of an array, relative to the current folder if it lies in there.

    >>> place_text("s3://lake/sales")
    's3://lake/sales'
    """
    try:
        return str(Path(array).relative_to(Path.cwd()))
    except (ValueError, OSError):
        return array


def window_text(start: int, end: int) -> str:
    """Write a window, for people.

    >>> window_text(0, 2**64 - 1)
    '[0, 18446744073709551615] (from the start to after the year 9999)'
    """
    if start == end:
        return f"[{start}, {end}] ({time_text(end)} alone)"
    first = "the start" if start == 0 else time_text(start)
    return f"[{start}, {end}] (from {first} to {time_text(end)})"
