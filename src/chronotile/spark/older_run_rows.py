"""The rows of arrays that could not be read: a run repeats those of an older run.

In: an older run, and the arrays. Out: the arrays that it has rows of, these rows as a later run
repeats them, and findings on the others. Touches no storage but the older run's.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc

from chronotile.check.findings import finding
from chronotile.dataset.check_all import UNREADABLE
from chronotile.spark.tables import SCHEMAS, findings_table
from chronotile.spark.unreadable_limit import Unread

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from chronotile.dataset.find_arrays import Unlisted
    from chronotile.spark.runs import Run


def known_arrays(run: Run | None) -> dict[str, str]:
    """Array that a run has rows of -> the name of the run that read them."""
    known: dict[str, str] = {}
    if run is not None:
        for table in run.tables("arrays"):
            table = table.filter(pc.field("commits").is_valid())
            read_in = pc.fill_null(table["stale"], run.name)
            known |= dict(zip(table["array"].to_pylist(), read_in.to_pylist(), strict=True))
    return known


def below(
    folders: Sequence[Unlisted], known: Collection[str], found: Collection[str]
) -> list[Unread]:
    """The arrays that no task could read, as a folder above them could not be listed.

    These are the arrays below it that an older run knows; if it knows none, the folder itself.

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
        problem = f"{folder.uri} cannot be listed: {folder.message}"
        unread |= {uri: Unread(uri, problem) for uri in inside or [folder.uri]}
    return sorted(unread.values())


def rows_of_unread(
    unread: Sequence[Unread], known: Mapping[str, str], arrays: Collection[str]
) -> dict[str, pa.Table]:
    """The rows on arrays that could not be read, beside those that are repeated.

    Args:
        unread: The arrays, and folders.
        known: Array that an older run has rows of -> the run that read them.
        arrays: The arrays of the fleet.
    """
    findings, blank = [], []
    for array, words in unread:
        rows = f"its rows are of run {known[array]}" if array in known else "no run has its rows"
        if array in arrays or array in known:
            findings.append(finding(array, UNREADABLE, "", f"it cannot be read: {words}; {rows}"))
        if array in arrays and array not in known:
            blank.append({"array": array, "errors": 1, "warnings": 0, "infos": 0})
    return {
        "arrays": pa.Table.from_pylist(blank, schema=SCHEMAS["arrays"]),
        "findings": findings_table(tuple(findings)),
    }


def as_stale(name: str, table: pa.Table, stale: pa.Array, run: str) -> pa.Table:
    """The rows of a table as a later run repeats them.

    Args:
        name: The table.
        table: Its rows, in the older run.
        stale: The arrays that the later run could not read.
        run: The name of the older run.
    """
    is_stale = pc.is_in(table["array"], stale)
    if name == "findings":
        # The later run has its own finding on the array itself.
        again = pc.and_(pc.equal(table["code"], UNREADABLE), pc.equal(table["path"], ""))
        return table.filter(pc.invert(pc.and_(is_stale, again)))
    if name == "arrays":
        fresh = pc.and_(is_stale, pc.is_null(table["stale"]))
        table = _with(table, "errors", pc.add(table["errors"], pc.cast(fresh, pa.int64())))
        return _with(table, "stale", pc.if_else(fresh, run, table["stale"]))
    if name == "listings":
        # Without a fingerprint the next run reads the array, whatever its listing is.
        nothing = pa.scalar(None, pa.string())
        return _with(table, "listing", pc.if_else(is_stale, nothing, table["listing"]))
    return table


def with_columns_of_now(name: str, table: pa.Table) -> pa.Table:
    """The rows of an older run, perhaps of an older version, with the columns that a table has now.

    >>> with_columns_of_now("arrays", pa.table({"array": ["a"]})).column_names[:2]
    ['array', 'format_version']
    """
    schema = SCHEMAS.get(name)
    if schema is None or table.schema.names == schema.names:
        return table
    had = frozenset(table.column_names)
    columns = [
        table[field.name] if field.name in had else pa.nulls(len(table), field.type)
        for field in schema
    ]
    return pa.table(columns, schema=schema)


def _with(table: pa.Table, name: str, column: pa.ChunkedArray) -> pa.Table:
    index = table.schema.get_field_index(name)
    return table.set_column(index, table.schema.field(index), column)
