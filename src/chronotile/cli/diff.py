"""`chronotile diff`: what changed between two moments.

In: an array, two moments. Out: fragments, deletes, updates, schemas and metadata that came or went;
with `--rows` the rows, for which the engine is needed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from chronotile.cli.options import MOMENT, access_options, array_argument, or_group
from chronotile.cli.row_output import RowsToPrint, row_options

if TYPE_CHECKING:
    from chronotile.cli.options import Access


@click.command(epilog="\b\nExample:\n  chronotile diff demo/array yesterday now --rows")
@array_argument
@click.argument("t1", metavar="T1", type=MOMENT)
@click.argument("t2", metavar="T2", type=MOMENT)
@click.option("--rows", is_flag=True, help="The rows that differ; this needs the engine.")
@access_options
@row_options
@or_group("group_rows:diff_of_group")
def diff(array: str, t1: int | str, t2: int | str, rows: bool, access: Access) -> RowsToPrint:
    """What an open of ARRAY at T2 sees that one at T1 does not, and the reverse.

    Rows that are the same at both moments are left out, whatever happened in between.
    """
    from chronotile.report.output import place_text, window_text
    from chronotile.rows.diff import diff_of, open_to_compare

    log = open_to_compare(array, rows=rows, key=access.key, storage_options=access.storage)
    first, last = log.moment(t1, "T1"), log.moment(t2, "T2")
    table = diff_of(log, first, last, rows=rows)
    heading = f"{place_text(array)}, what changed in {window_text(first, last)}"
    return RowsToPrint(table.schema, table.to_batches(), (), heading)
