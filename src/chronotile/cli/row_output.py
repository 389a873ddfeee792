"""Rows as a command prints them: the options, and the writing.

In: Arrow batches with their notes. Out: rows in the format that the user asked for, on standard
output or in a file; notes on standard error. Knows nothing of where the rows come from.
"""

from __future__ import annotations

import functools
import sys
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

import click

from chronotile.cli.options import form_of, json_option, say, wrong_call

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    import pyarrow as pa

F = TypeVar("F", bound="Callable[..., Any]")
SHOWN = 1000
"""Rows that a table shows if no limit is given; the other formats give all."""
SUFFIXES = {
    ".csv": "csv",
    ".jsonl": "jsonl",
    ".ndjson": "jsonl",
    ".json": "jsonl",
    ".parquet": "parquet",
    ".arrow": "arrow",
    ".feather": "arrow",
    ".ipc": "arrow",
}
"""How the name of a file ends -> the format that it then has."""
FORMATS = ("table", "csv", "jsonl", "parquet", "arrow")
"""What rows can be written as; `report.row_formats` writes all but the table."""


class RowsToPrint(NamedTuple):
    """What a command found."""

    schema: pa.Schema
    batches: Iterable[pa.RecordBatch]
    notes: tuple[str, ...] = ()
    heading: str | None = None
    """A line above the table."""


def row_options(function: F) -> F:
    """Adds `--format`, `--limit`, `-o` and `--json`; prints the `RowsToPrint` of the command."""

    @click.option(
        "--format",
        "form",
        type=click.Choice(FORMATS),
        help="How to write the rows: a table, unless it goes into a file.",
    )
    @click.option(
        "-n", "--limit", metavar="N", type=click.IntRange(0), help="At most this many rows."
    )
    @click.option(
        "-o", "--out", "output", metavar="FILE", type=click.Path(dir_okay=False), help="A file."
    )
    @json_option
    @functools.wraps(function)
    def call(
        *args: Any,
        form: str | None,
        limit: int | None,
        output: str | None,
        as_json: bool,
        **rest: Any,
    ) -> int:
        if as_json and (form is not None or output is not None):
            raise wrong_call("--json: expected it without --format and -o")
        chosen = form or _by_name(output)
        if chosen == "table" and output is not None:
            raise wrong_call("--format table: expected it without -o, found a file")
        found: RowsToPrint = function(*args, **rest)
        for note in found.notes:
            say(f"note: {note}")
        batches = _watched(found.batches, limit)
        if as_json:
            _emit_json(found, batches)
        elif chosen == "table":
            _emit_table(found, batches, limit)
        else:
            _write(found, batches, chosen, output)
        return 0

    return call  # type: ignore[return-value]  # the same to click, which passes names


def _by_name(output: str | None) -> str:
    if output is None:
        return "table"
    return SUFFIXES[form_of(output, tuple(SUFFIXES), ", or --format")]


def _watched(batches: Iterable[pa.RecordBatch], limit: int | None) -> Iterator[pa.RecordBatch]:
    from chronotile.show.output import progress
    from chronotile.show.row_formats import limited

    with progress("reading rows, in batches") as step:
        for batch in limited(batches, limit):
            step()
            yield batch


def _emit_json(found: RowsToPrint, batches: Iterable[pa.RecordBatch]) -> None:
    from chronotile.show.output import emit
    from chronotile.show.row_formats import plain_rows

    class Document:
        def to_json(self) -> Any:
            rows = [row for batch in batches for row in plain_rows(batch)]
            return {"rows": rows, "notes": list(found.notes)}

        def to_text(self) -> Iterable[str]:
            return ()

    emit(Document(), as_json=True)


def _emit_table(found: RowsToPrint, batches: Iterable[pa.RecordBatch], limit: int | None) -> None:
    from chronotile.show.output import Text, count_text, emit, plain_table
    from chronotile.show.row_formats import limited, text_rows

    class Shown:
        def to_json(self) -> Any:
            return None

        def to_text(self) -> Iterator[Any]:
            if found.heading:
                yield Text(found.heading, "bold")
            table, count = plain_table(*found.schema.names), 0
            most = SHOWN if limit is None else limit
            for batch in limited(batches, most + 1):
                for row in text_rows(batch):
                    count += 1
                    if count <= most:
                        table.add_row(*row)
            yield table
            more = count > most
            words = f"the first {most:,} rows" if more else count_text(count, "row")
            yield Text(f"{words}; --format or -o gives all" if more else words, "dim")

    emit(Shown(), as_json=False)


def _write(
    found: RowsToPrint, batches: Iterable[pa.RecordBatch], form: str, output: str | None
) -> None:
    from chronotile.show.error_messages import unless_closed
    from chronotile.show.row_formats import BINARY, writer

    if output is None and form in BINARY and sys.stdout.isatty():
        raise wrong_call(f"--format {form}: expected a file (-o) or a pipe, found a terminal")
    with unless_closed(sys.stdout), ExitStack() as stack:
        out: Any = sys.stdout.buffer
        if output is not None:
            out = stack.enter_context(Path(output).open("wb"))
        sys.stdout.flush()
        escaped = output is None and sys.stdout.isatty()
        count = writer(form)(found.schema, batches, out, escaped=escaped)
        out.flush()
    if output is not None:
        from chronotile.show.output import count_text

        say(f"{count_text(count, 'row')} in {output}")
