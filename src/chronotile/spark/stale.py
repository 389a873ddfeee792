"""Rows of arrays that could not be read: those of the last run that could, marked as such.

In: an older run, and the arrays. Out: which of them it has rows of, these rows as a later run
repeats them, and what is said of the others. Touches no storage but the older run's.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc

from chronotile.check.findings import finding
from chronotile.dataset.check_all import UNREADABLE
from chronotile.spark.limits import Unread
from chronotile.spark.tables import SCHEMAS, findings_table

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from chronotile.dataset.find_arrays import Unlisted
    from chronotile.spark.runs import Run


def known_arrays(run: Run | None) -> dict[str, str]:
    """The arrays that a run has rows of -> the run in which these were read."""
    known: dict[str, str] = {}
    for part in run.parts() if run else ():
        if run is not None and part.table == "arrays":
            table = run.read(part).filter(pc.field("commits").is_valid())
            read_in = pc.fill_null(table["stale"], run.name)
            known |= dict(zip(table["array"].to_pylist(), read_in.to_pylist(), strict=True))
    return known


def below(
    folders: Sequence[Unlisted], known: Collection[str], found: Collection[str]
) -> list[Unread]:
    """What could not be read as a folder could not be listed.

    These are the arrays below it that were there before; if there were none, the folder itself.

    >>> from chronotile.dataset.find_arrays import Unlisted
    >>> below([Unlisted("s3://b/g", "403")], ["s3://b/g/a", "s3://b/h"], [])
    [Unread(array='s3://b/g/a', words='s3://b/g cannot be listed: 403')]
    """
    unread: dict[str, Unread] = {}
    for folder in folders:
        if folder.missing:
            continue
        start = f"{folder.uri.rstrip('/')}/"
        inside = [uri for uri in known if uri.startswith(start) and uri not in found]
        told = f"{folder.uri} cannot be listed: {folder.message}"
        unread |= {uri: Unread(uri, told) for uri in inside or [folder.uri]}
    return sorted(unread.values())


def rows_of_unread(
    unread: Sequence[Unread], known: Mapping[str, str], arrays: Collection[str]
) -> dict[str, pa.Table]:
    """What is said of arrays that could not be read, beside the rows that are repeated.

    Args:
        unread: The arrays, and folders.
        known: Those that an older run has rows of -> the run in which these were read.
        arrays: What of it is an array.
    """
    told = []
    for array, words in unread:
        rows = f"its rows are of run {known[array]}" if array in known else "no run has its rows"
        if array in arrays or array in known:
            told.append(finding(array, UNREADABLE, "", f"it cannot be read: {words}; {rows}"))
    new = [one.array for one in unread if one.array in arrays and one.array not in known]
    counts = {"errors": 1, "warnings": 0, "infos": 0}
    blank = [{"array": array} | counts for array in new]
    return {
        "arrays": pa.Table.from_pylist(blank, schema=SCHEMAS["arrays"]),
        "findings": findings_table(tuple(told)),
    }


def as_stale(name: str, table: pa.Table, stale: pa.Array, run: str) -> pa.Table:
    """The rows of a table as a later run repeats them.

    Args:
        name: The table.
        table: Its rows, in the older run.
        stale: The arrays among them that could not be read this time.
        run: The name of the older run.
    """
    is_stale = pc.is_in(table["array"], stale)
    if name == "findings":
        # What was said of the array itself then is said anew now.
        again = pc.and_(pc.equal(table["code"], UNREADABLE), pc.equal(table["path"], ""))
        return table.filter(pc.invert(pc.and_(is_stale, again)))
    if name == "arrays":
        fresh = pc.and_(is_stale, pc.is_null(table["stale"]))
        more = pc.add(table["errors"], pc.cast(fresh, pa.int64()))
        table = _with(table, "errors", more)
        return _with(table, "stale", pc.if_else(fresh, run, table["stale"]))
    if name == "listings":
        # Without a mark it is read next time, whatever its listing is.
        nothing = pa.scalar(None, pa.string())
        return _with(table, "listing", pc.if_else(is_stale, nothing, table["listing"]))
    return table


def _with(table: pa.Table, name: str, column: pa.ChunkedArray) -> pa.Table:
    at = table.schema.get_field_index(name)
    return table.set_column(at, table.schema.field(at), column)
