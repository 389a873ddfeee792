"""`chronotile blame`: every commit that had to do with a row.

In: an array, and what the row holds. Out: who wrote, changed or removed it, in order. Needs the
engine.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from chronotile.cli.options import access_options, array_argument, command, member_option
from chronotile.cli.row_output import RowsToPrint, row_options

if TYPE_CHECKING:
    from chronotile.cli.options import Access


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
    """Every commit that wrote, changed or removed a row of ARRAY, in order.

    A row that was removed is shown as it was before, any other as it was after. Of a group: in
    every array that has the fields. Needs the engine: pip install 'chronotile[engine]'.
    """
    from chronotile.show.output import place_text

    place = access.open(array)
    table, notes = place.blame_with_notes(row, **member)
    heading = f"{place_text(place.uri)}, what happened to rows with {', '.join(row)}"
    return RowsToPrint(table.schema, table.to_batches(), notes, heading)
