"""`chronotile diff`: what changed between two moments.

In: an array, two moments. Out: fragments, deletes, updates, schemas and metadata that came or went;
with `--rows` the rows, for which the engine is needed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from chronotile.cli.options import (
    MOMENT,
    access_options,
    array_argument,
    command,
    member_option,
    wrong_call,
)
from chronotile.cli.row_output import RowsToPrint, row_options

if TYPE_CHECKING:
    from chronotile.cli.options import Access


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
    """What an open of ARRAY at T2 sees that one at T1 does not, and the reverse.

    Rows that are the same at both moments are left out, whatever happened in between.
    """
    from chronotile.show.output import place_text, window_text

    if member and not rows:
        raise wrong_call("--member: expected --rows with it")
    place = access.open(array)
    first, last = place.moment(t1, "T1"), place.moment(t2, "T2")
    table, notes = place.diff_with_notes(first, last, rows=rows, **member)
    heading = f"{place_text(place.uri)}, what changed in {window_text(first, last)}"
    return RowsToPrint(table.schema, table.to_batches(), notes, heading)
