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

from chronotile.cli.completion import words_for
from chronotile.cli.options import (
    MOMENT,
    access_options,
    array_argument,
    command,
    completed_as,
    flag,
    form_of,
    json_option,
    member_option,
    out_option,
    say,
    window_options,
    wrong_call,
)
from chronotile.format.timestamps import Ends, span_text, time_text
from chronotile.safe_text import shell_word
from chronotile.show.output import (
    Answer,
    Text,
    count_text,
    emit,
    place_text,
    plain_table,
    progress,
    window_text,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Mapping

    import pyarrow as pa

    from chronotile.cli.options import Access


F = TypeVar("F", bound="Callable[..., Any]")
SHOWN = 1000
"""Rows that a table shows if no limit is given; the other formats give all."""
COUNTED = 100_000
"""Rows that are counted beyond those that a table shows."""
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
"""What rows can be written as; `show.row_formats` writes all but the table."""


class RowsToPrint(NamedTuple):
    """The rows that a command found."""

    schema: pa.Schema
    batches: Iterable[pa.RecordBatch]
    notes: tuple[str, ...] = ()
    heading: str | None = None
    """A line above the table."""
    summary: tuple[str, Mapping[str, Any]] | None = None
    """What is in the rows, for people and for programs."""
    times: tuple[str, ...] = ()
    """Columns of ms, each with a real time behind it."""
    heads: int = 0
    """Columns before the fields of the array: a table leaves out those that are empty."""
    word: str = "row"
    """What one row is."""
    below: Callable[[], str | None] = lambda: None
    """A line below the table, asked for after its rows."""
    is_count: bool = False
    """Whether only the number of rows is asked for."""


def row_options(function: F) -> F:
    """Add `--format`, `--limit`, `-o` and `--json`; print the `RowsToPrint` of the command."""

    @click.option(
        "--format",
        "form",
        type=click.Choice(FORMATS),
        help="How to write the rows (default: a table, or by the ending of the file).",
    )
    @click.option("-n", "--limit", metavar="N", type=click.IntRange(0), help="At most N rows.")
    @out_option("Write to this file.")
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
        if found.is_count:
            count = sum(map(len, _watched(found.batches, limit)))
            emit(Answer({"count": count}, [str(count)]), as_json=as_json)
        elif as_json:
            _emit_json(found, _watched(found.batches, limit))
        elif chosen == "table":
            parts = _table_parts(found, _watched(found.batches, None), limit)
            emit(Answer(None, parts), as_json=False)
        else:
            _write(found, _watched(found.batches, limit), chosen, output)
        return 0

    return call  # type: ignore[return-value]  # the same to click, which passes names


def _by_name(output: str | None) -> str:
    if output is None:
        return "table"
    return SUFFIXES[form_of(output, tuple(SUFFIXES), ", or --format")]


def _watched(batches: Iterable[pa.RecordBatch], limit: int | None) -> Iterator[pa.RecordBatch]:
    from chronotile.show.row_formats import limited

    with progress("reading rows, in batches") as step:
        for batch in limited(batches, limit):
            step()
            yield batch


def _emit_json(found: RowsToPrint, batches: Iterable[pa.RecordBatch]) -> None:
    from chronotile.show.row_formats import plain_rows

    rows = [row for batch in batches for row in plain_rows(batch)]
    summary = {} if found.summary is None else {"summary": found.summary[1]}
    emit(Answer({"rows": rows, "notes": list(found.notes)} | summary, ()), as_json=True)


def _table_parts(
    found: RowsToPrint, batches: Iterable[pa.RecordBatch], limit: int | None
) -> Iterator[Any]:
    from chronotile.show.row_formats import whole_changes

    if found.heading:
        yield Text(found.heading, "bold")
    if found.summary is not None:
        yield found.summary[0]
    rows: list[list[str]] = []
    count, most = 0, SHOWN if limit is None else limit
    for batch in batches:
        left = whole_changes(batch, max(most - len(rows), 0))
        rows += _text_rows(found, batch.slice(0, left))
        count += len(batch)
        if count > most + COUNTED:
            break
    if rows or (found.summary is None and found.word == "row"):
        yield _table(found, rows)
    yield Text(_counted(len(rows), count, limit, found.word), "dim")
    if below := found.below():
        yield Text(below, "yellow")


def _text_rows(found: RowsToPrint, batch: pa.RecordBatch) -> list[list[str]]:
    """Write rows for people: a moment in ms has its time beside it."""
    from chronotile.show.row_formats import text_rows

    names = batch.schema.names
    rows = [*text_rows(batch)]
    for name in found.times:
        at, ms = names.index(name) + 1, batch.column(name).to_pylist()
        for row, moment in zip(rows, ms, strict=True):
            row[at] = "NULL" if moment is None else time_text(moment)
    return rows


def _table(found: RowsToPrint, rows: list[list[str]]) -> Any:
    """Lay rows out; values that a change has set have a star, and empty heads are left out."""
    names = found.schema.names
    kept = [
        at
        for at in range(len(names))
        if at >= found.heads or any(row[at] != "NULL" for row in rows)
    ]
    if found.times == ("t1", "t2"):
        first, last = names.index("t1"), names.index("t2")
        if all(row[first] == row[last] for row in rows):  # nothing was merged over a time
            kept = [at for at in kept if at not in (first, first + 1)]
    words = {"t": "ms", "t_time": "time", "t2": "ms", "t2_time": "time"} if found.times else {}
    if "t1" in [names[at] for at in kept]:
        words = {}
    table = plain_table(*(words.get(names[at], names[at]) for at in kept))
    for row, above in zip(rows, [None, *rows], strict=False):
        is_after = "update_after" in row[: found.heads]
        cells: list[Any] = []
        for at in kept:
            if at < found.heads:
                cells.append("" if row[at] == "NULL" else row[at])
            elif is_after and above is not None and row[at] != above[at]:
                cells.append(Text(f"*{row[at]}", "bold yellow"))
            else:
                cells.append(row[at])
        table.add_row(*cells)
    return table


def _counted(shown: int, count: int, limit: int | None, word: str = "row") -> str:
    """Say how many rows there are, and how many of them are shown.

    >>> _counted(5, 1011, 5), _counted(3, 3, None)
    ('5 of 1,011 rows', '3 rows')
    """
    if count <= shown:
        return count_text(count, word)
    least = "more than " if count > shown + COUNTED else ""
    all_ = "" if limit is not None else "; --format or -o gives all"
    return f"{shown:,} of {least}{count:,} {word}s{all_}"


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
        say(f"{count_text(count, 'row')} in {output}")


@command(epilog="\b\nExample:\n  chronotile rows demo/array --where 'amount > 3' --limit 10")
@array_argument
@window_options
@click.option(
    "--where",
    metavar="P",
    type=completed_as("field"),
    help="Only rows that satisfy this predicate; all rows of the window are read for it.",
)
@click.option(
    "--fields",
    metavar="A,B",
    type=completed_as("field"),
    help="Only these dimensions and attributes.",
)
@click.option(
    "--order-by",
    metavar="A,B",
    type=completed_as("field"),
    help="Sort by these fields, such as 'amount desc,id'; all rows have to fit into memory.",
)
@flag("--count", help="Print only the number of rows.")
@click.option(
    "--removed-by",
    metavar="NAME",
    type=completed_as("commit"),
    help="Show the rows that this delete or update removed, with their old values.",
)
@click.option(
    "--values",
    metavar="FIELD=VALUE",
    multiple=True,
    type=completed_as("field="),
    help="With --removed-by: only rows with this value.",
)
@member_option
@access_options
@row_options
def rows(
    array: str,
    window: Ends,
    where: str | None,
    fields: str | None,
    order_by: str | None,
    count: bool,
    removed_by: str | None,
    values: tuple[str, ...],
    member: dict[str, Any],
    access: Access,
) -> RowsToPrint:
    """Show the rows that an open of ARRAY at a window should see, with updates applied.

    TileDB hides the rows of an update; here they have the values that the update sets. Of a
    group: the rows of every array in it. Needs TileDB: pip install 'chronotile[engine]'.
    """
    place = access.open(array, member)
    if removed_by is not None:
        if where is not None or fields is not None:
            raise wrong_call("--removed-by cannot go with --where or --fields")
        found = place.removed_reader(removed_by, values, **member)
        word = "changed" if found.change.is_update else "removed"
        heading = f"{place_text(found.at.log.array)}, rows that {found.change.name} {word}"
        batches = _ordered(found, order_by)
        return RowsToPrint(found.schema, batches, (), heading, is_count=count)
    if values:
        raise wrong_call("--values needs --removed-by")
    reader = place.row_reader(*window, where=where, fields=_names(fields), **member)
    heading = f"{place_text(place.uri)}, rows at {window_text(reader.start, reader.end)}"
    batches = _ordered(reader, order_by)

    def below() -> str | None:
        return _hidden_in_tiledb(place, getattr(reader, "shown_updates", ()), *window)

    return RowsToPrint(reader.schema, batches, reader.notes, heading, is_count=count, below=below)


def _hidden_in_tiledb(place: Any, names: Collection[str], *window: Any) -> str | None:
    """Say which rows of an array are shown here and hidden in TileDB: those of some updates."""
    from chronotile.array import Array

    if not isinstance(place, Array):
        return None
    loose = [one for one in place.view(*window).updates if not one.offset and one.name in names]
    if not loose:
        return None
    updates = count_text(len(loose), "update")
    apply = f"chronotile apply {shell_word(place_text(place.uri))}"
    return (
        f"the rows of {updates} have their new values here, and TileDB itself hides them; "
        f"to write them into the array: {apply}"
    )


def _names(text: str | None) -> list[str] | None:
    return None if text is None else [name.strip() for name in text.split(",")]


def _ordered(reader: Any, order_by: str | None) -> Iterable[pa.RecordBatch]:
    from chronotile.rows.read_rows import in_order

    order = _names(order_by)
    batches: Iterable[pa.RecordBatch] = (
        reader.batches() if order is None else in_order(reader.table(), order).to_batches()
    )
    return batches


@command(epilog="\b\nExample:\n  chronotile diff demo/array 2024-05-14 2024-05-15 --rows")
@array_argument
@click.argument("t1", metavar="T1", type=MOMENT)
@click.argument("t2", metavar="T2", type=MOMENT)
@flag("--rows", help="Show the rows that differ; needs TileDB.")
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
    """Show what changed in ARRAY between T1 and T2: fragments, deletes and updates, or rows.

    A summary comes first. Rows that are equal at both moments are left out. A changed row has two
    lines, before and after, with a star at each new value.
    """
    from chronotile.rows.diff import summarize, summary_words
    from chronotile.rows.read_rows import notes_of

    if member and not rows:
        raise wrong_call("--member needs --rows")
    place = access.open(array, member)
    first, last = place.moment(t1, "T1"), place.moment(t2, "T2")
    table = place.diff(first, last, rows=rows, **member)
    heading = f"{place_text(place.uri)}, what changed from {span_text(first, last)}"
    counts = summarize(table, rows=rows)
    return RowsToPrint(
        table.schema,
        table.combine_chunks().to_batches(),  # so that no batch ends between before and after
        notes_of(table),
        heading,
        summary=(summary_words(counts), counts),
        times=("t",) if rows else ("t1", "t2"),
        heads=table.column_names.index("t_time") + 1 if rows else table.num_columns,
        word="row" if rows else "change",
    )


@command(epilog="\b\nExample:\n  chronotile blame demo/array --row id=7")
@array_argument
@click.option(
    "--row",
    "row",
    metavar="FIELD=VALUE",
    multiple=True,
    type=completed_as("field="),
    help="A dimension value, or any value the row has or had; again for more fields.  [required]",
)
@member_option
@access_options
@row_options
def blame(array: str, row: tuple[str, ...], member: dict[str, Any], access: Access) -> RowsToPrint:
    """List every commit that wrote, changed or removed a row of ARRAY, in order.

    A removed row is shown as it was before, any other row as it was after. In a group, it looks at
    every array that has the fields. Needs TileDB: pip install 'chronotile[engine]'.
    """
    from chronotile.rows.read_rows import notes_of

    place = access.open(array, member)
    if not row:
        named = words_for("field", click.get_current_context(), "")
        fields = f" with one of its fields: {', '.join(name for name, _ in named)}" if named else ""
        raise wrong_call(f"--row FIELD=VALUE is missing: name the row{fields}")
    table = place.blame(row, **member)
    notes, names = notes_of(table), {*table["commit"].to_pylist()}
    heading = f"{place_text(place.uri)}, what happened to rows with {', '.join(row)}"
    heads = table.column_names.index("t_time") + 1
    return RowsToPrint(
        table.schema,
        table.to_batches(),
        notes,
        heading,
        times=("t",),
        heads=heads,
        word="event",
        below=lambda: (
            _hidden_in_tiledb(place, names)
            if table.num_rows
            else "no commit wrote, changed or removed such a row"
        ),
    )
