"""`rows`, `blame` and `diff` of a group: rows of its arrays, each with its member.

In: a group, and which members. Out: rows to print. What they are is decided in the room `rows`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from chronotile.cli.options import wrong_call
from chronotile.cli.row_output import RowsToPrint

if TYPE_CHECKING:
    from collections.abc import Callable

    from chronotile.dataset.open_dataset import Dataset


def rows_of_group(
    command: Callable[..., Any], dataset: Dataset, pattern: str | None, **given: Any
) -> RowsToPrint:
    """The rows of all members, or what one delete or update of a member took."""
    from chronotile.report.output import place_text, window_text
    from chronotile.rows.group_rows import group_rows, removed_in_group

    if given["removed_by"] is not None:
        holder = removed_in_group(dataset, given["removed_by"], pattern)
        found: RowsToPrint = command(**given | {"array": holder.log.array})
        return found
    fields = given["fields"]
    rows = group_rows(
        dataset,
        given["window"][0],
        given["window"][1],
        where=given["where"],
        fields=None if fields is None else [name.strip() for name in fields.split(",")],
        pattern=pattern,
    )
    heading = f"{place_text(dataset.uri)}, rows at {window_text(rows.start, rows.end)}"
    return RowsToPrint(rows.schema, rows.batches(), rows.notes, heading)


def blame_of_group(
    _: Callable[..., Any], dataset: Dataset, pattern: str | None, **given: Any
) -> RowsToPrint:
    """Every commit that had to do with such rows, in all members."""
    from chronotile.report.output import place_text
    from chronotile.rows.group_rows import blame_group

    table, notes = blame_group(dataset, given["row"], pattern)
    heading = f"{place_text(dataset.uri)}, what happened to rows with {', '.join(given['row'])}"
    return RowsToPrint(table.schema, table.to_batches(), notes, heading)


def diff_of_group(
    _: Callable[..., Any], dataset: Dataset, pattern: str | None, **given: Any
) -> RowsToPrint:
    """What changed in a group between two moments."""
    from chronotile.report.output import place_text, window_text
    from chronotile.rows.diff import diff_of_group as diff

    if pattern is not None and not given["rows"]:
        raise wrong_call("--member: expected --rows with it")
    first, last = dataset.moment(given["t1"], "T1"), dataset.moment(given["t2"], "T2")
    table, notes = diff(dataset, first, last, rows=given["rows"], pattern=pattern)
    heading = f"{place_text(dataset.uri)}, what changed in the group in {window_text(first, last)}"
    return RowsToPrint(table.schema, table.to_batches(), notes, heading)
