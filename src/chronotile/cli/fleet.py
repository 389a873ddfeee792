"""The commands on all that is below a place: `ls` lists it, `sql` asks it.

In: roots of arrays. Out: a line an array or group; or the answer to a query, in any format that
rows have. `fleet.list_places` and `fleet.sql_query` find out.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from chronotile.cli.options import PlaceType, access_options, command, reporting
from chronotile.cli.rows import RowsToPrint, row_options
from chronotile.format.timestamps import iso_time, time_text
from chronotile.show.output import (
    Answer,
    Text,
    count_text,
    place_text,
    plain_table,
    progress,
    size_text,
)
from chronotile.storage.place import find_place

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    import pyarrow as pa
    from rich.console import RenderableType

    from chronotile.cli.options import Access
    from chronotile.fleet.list_places import PlaceRow, Sort

_STYLES = {"error": "bold red", "warning": "yellow", "info": "dim"}

roots_argument = click.argument(
    "roots", metavar="ROOT…", nargs=-1, required=True, type=PlaceType("dir")
)


def _places(rows: Sequence[PlaceRow]) -> Iterator[RenderableType]:
    table = plain_table("commits", "fragments", "size", "last commit", "kind", "", "worst", right=3)
    table.columns[5].header = "place"
    for row in rows:
        numbers = ("" if n is None else f"{n:,}" for n in (row.commits, row.fragments))
        size = "" if row.bytes is None else size_text(row.bytes)
        changed = "" if row.changed is None else time_text(row.changed)
        worst = f"{row.severity}: {row.finding}" if row.finding else ""
        place = place_text(row.uri)
        style = _STYLES.get(row.severity or "", "")
        table.add_row(*numbers, size, changed, row.kind, place, Text(worst, style))
    groups = sum(row.kind == "group" for row in rows)
    size = size_text(sum(row.bytes or 0 for row in rows))
    if rows:
        yield table
    arrays = count_text(len(rows) - groups, "array")
    yield Text(f"{arrays}, {count_text(groups, 'group')}, {size}", "bold")


@command(name="ls", epilog="\b\nExample:\n  chronotile ls demo --sort size")
@roots_argument
@click.option(
    "--sort",
    type=click.Choice(["place", "kind", "commits", "fragments", "size", "changed", "finding"]),
    default="place",
    help="Sort by this column, the largest, latest or worst first (default: place).",
)
@click.option(
    "--sizes/--no-sizes", default=True, help="Add up the files of each array (default: yes)."
)
@access_options
@reporting
def list_(roots: tuple[str, ...], sort: Sort, sizes: bool, access: Access) -> Answer:
    """List the arrays and groups below ROOT: kind, commits, fragments, size, last change.

    The last column is the worst finding in each log; `chronotile check` looks further. Exits
    with 3 if an array could not be read.
    """
    from chronotile.fleet.list_places import list_places

    places = [find_place(root).uri for root in roots]
    with progress("reading arrays") as step:
        found = list_places(
            places,
            sort=sort,
            sizes=sizes,
            key=access.key,
            storage_options=access.storage,
            on_array=step,
        )
    times = [None if row.changed is None else iso_time(row.changed) for row in found]
    document = [row._asdict() | {"time": time} for row, time in zip(found, times, strict=True)]
    return Answer(document, _places(found), 3 if any(row.is_unread for row in found) else 0)


@command(
    epilog="\b\nExample:\n"
    '  chronotile sql "select uri, name, arrays.bytes as array_bytes from commits '
    'join arrays using (uri)" demo\n'
    '  chronotile sql "select region, sum(amount) from rows group by region" demo/array'
)
@click.argument("query", metavar="QUERY")
@roots_argument
@click.option("--as-of", metavar="TIME", help="The rows at this time (default: now).")
@access_options
@row_options
def sql(query: str, roots: tuple[str, ...], as_of: str | None, access: Access) -> RowsToPrint:
    """Answer a QUERY in SQL over the tables of all arrays below ROOT, with DuckDB.

    The tables are arrays, commits, conditions, fragments, findings, usage, members and operations;
    the column uri joins them. If ROOT is one array or group, rows is a table too, which TileDB
    reads. In fragments, cells and the columns behind it are NULL: `chronotile fragments ARRAY`
    reads them. Needs DuckDB: pip install 'chronotile[sql]'.
    """
    from chronotile.fleet.sql_query import query_fleet

    def rows() -> pa.Table:
        return access.open(roots[0]).rows(end=as_of)

    places = [find_place(root).uri for root in roots]
    with progress("reading arrays") as step:
        table = query_fleet(
            query,
            places,
            rows=rows if len(roots) == 1 else None,
            key=access.key,
            storage_options=access.storage,
            on_array=step,
        )
    return RowsToPrint(table.schema, table.to_batches())
