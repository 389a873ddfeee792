"""`chronotile rows`: the rows of a window.

In: an array, a window, a predicate. Out: rows that an open should see, with updates carried out.
Needs the engine; what the rows are is decided in the room `rows`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from chronotile.cli.options import (
    access_options,
    array_argument,
    command,
    member_option,
    window_options,
    wrong_call,
)
from chronotile.cli.row_output import RowsToPrint, row_options

if TYPE_CHECKING:
    from chronotile.cli.options import Access
    from chronotile.format.timestamps import Ends


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
    """The rows that an open of ARRAY at a window should see, with updates carried out.

    The engine hides the rows of an update; here they have the values that the update sets. Of a
    group: the rows of every array in it. Needs the engine: pip install 'chronotile[engine]'.
    """
    from chronotile.report.output import place_text, window_text

    place = access.open(array)
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
