"""Rows: `rows`, `diff`, `blame`.

In: an array or a group, and which rows. Out: rows in the format that the user asked for, on
standard output or in a file, batch by batch; notes on standard error. All but a plain `diff` need
the engine; the room `rows` decides what the rows are.
"""

from __future__ import annotations

import functools
import sys
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

import click

from chronotile.cli.options import (
    MOMENT,
    access_options,
    array_argument,
    command,
    form_of,
    json_option,
    member_option,
    say,
    window_options,
    wrong_call,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    import pyarrow as pa

    from chronotile.cli.options import Access
    from chronotile.format.timestamps import Ends


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
    """The rows that a command found."""

    schema: pa.Schema
    batches: Iterable[pa.RecordBatch]
    notes: tuple[str, ...] = ()
    heading: str | None = None
    """A line above the table."""


def row_options(function: F) -> F:
    """Add `--format`, `--limit`, `-o` and `--json`; print the `RowsToPrint` of the command."""

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


@command(epilog="\b\nExample:\n  chronotile rows demo/array --where 'amount > 3' --limit 10")
@array_argument
@window_options
@click.option("--where", metavar="P", help="Only rows that satisfy this predicate.")
@click.option("--fields", metavar="A,B", help="Only these dimensions and attributes.")
@click.option(
    "--removed-by", metavar="NAME", help="What this delete or update took, as it was before."
)
@click.option(
    "--values", metavar="FIELD=VALUE", multiple=True, help="With --removed-by: only such rows."
)
@member_option
@access_options
@row_options
def rows(
    array: str,
    window: Ends,
    where: str | None,
    fields: str | None,
    removed_by: str | None,
    values: tuple[str, ...],
    member: dict[str, Any],
    access: Access,
) -> RowsToPrint:
    """Show the rows that an open of ARRAY at a window should see, with updates carried out.

    The engine hides the rows of an update; here they have the values that the update sets. Of a
    group: the rows of every array in it. Needs the engine: pip install 'chronotile[engine]'.
    """
    from chronotile.show.output import place_text, window_text

    place = access.open(array, member)
    if removed_by is not None:
        if where is not None or fields is not None:
            raise wrong_call("--removed-by: expected it without --where and --fields")
        found = place.removed_reader(removed_by, values, **member)
        word = "changed" if found.change.is_update else "removed"
        heading = f"{place_text(found.at.log.array)}, rows that {found.change.name} {word}"
        return RowsToPrint(found.schema, found.batches(), (), heading)
    if values:
        raise wrong_call("--values: expected --removed-by with it")
    chosen = None if fields is None else [name.strip() for name in fields.split(",")]
    reader = place.row_reader(*window, where=where, fields=chosen, **member)
    heading = f"{place_text(place.uri)}, rows at {window_text(reader.start, reader.end)}"
    return RowsToPrint(reader.schema, reader.batches(), reader.notes, heading)


@command(epilog="\b\nExample:\n  chronotile diff demo/array yesterday now --rows")
@array_argument
@click.argument("t1", metavar="T1", type=MOMENT)
@click.argument("t2", metavar="T2", type=MOMENT)
@click.option("--rows", is_flag=True, help="The rows that differ; this needs the engine.")
@member_option
@access_options
@row_options
def diff(
    array: str,
    t1: int | str,
    t2: int | str,
    rows: bool,
    member: dict[str, Any],
    access: Access,
) -> RowsToPrint:
    """Show what an open of ARRAY at T2 sees that one at T1 does not, and the reverse.

    Rows that are the same at both moments are left out, whatever happened in between.
    """
    from chronotile.show.output import place_text, window_text

    if member and not rows:
        raise wrong_call("--member: expected --rows with it")
    place = access.open(array, member)
    first, last = place.moment(t1, "T1"), place.moment(t2, "T2")
    table, notes = place.diff_with_notes(first, last, rows=rows, **member)
    heading = f"{place_text(place.uri)}, what changed in {window_text(first, last)}"
    return RowsToPrint(table.schema, table.to_batches(), notes, heading)


@command(epilog="\b\nExample:\n  chronotile blame demo/array --row id=7")
@array_argument
@click.option(
    "--row",
    "row",
    metavar="FIELD=VALUE",
    multiple=True,
    required=True,
    help="What the row holds: where it is, or a value that it once had. Again for more fields.",
)
@member_option
@access_options
@row_options
def blame(array: str, row: tuple[str, ...], member: dict[str, Any], access: Access) -> RowsToPrint:
    """List every commit that wrote, changed or removed a row of ARRAY, in order.

    A row that was removed is shown as it was before, any other as it was after. Of a group: in
    every array that has the fields. Needs the engine: pip install 'chronotile[engine]'.
    """
    from chronotile.show.output import place_text

    place = access.open(array, member)
    table, notes = place.blame_with_notes(row, **member)
    heading = f"{place_text(place.uri)}, what happened to rows with {', '.join(row)}"
    return RowsToPrint(table.schema, table.to_batches(), notes, heading)
