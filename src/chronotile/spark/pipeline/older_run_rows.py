"""Rows of an older run that a later one repeats: of unchanged arrays, and of unreadable ones.

In: an older run, and the arrays of a bucket. Out: what it noted of them, their rows as the later
run repeats them, and findings on those that could not be read. Reads only the older run's files.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc

from chronotile.check.findings import finding
from chronotile.dataset.check_all import UNREADABLE
from chronotile.spark.pipeline.bucket_writer import totals_in
from chronotile.spark.pipeline.buckets import Division, bucket_of, may_share
from chronotile.spark.pipeline.run_columns import DRESSED
from chronotile.spark.pipeline.run_summary import Totals
from chronotile.spark.pipeline.unchanged_arrays import Noted
from chronotile.spark.pipeline.unreadable_limit import Unread
from chronotile.tables.array_tables import SCHEMAS, columns, findings_table

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

    from chronotile.dataset.find_arrays import Unlisted
    from chronotile.spark.pipeline.runs import Part, Run

LISTINGS = columns("array string, listing string, marks string, requests_after bigint")
"""What the next run needs to know of an array, as `unchanged.Noted` explains; both are null if the
array could not be read properly."""

WRITTEN: dict[str, pa.Schema] = {**{name: DRESSED[name] for name in SCHEMAS}, "listings": LISTINGS}
"""Every table that a run writes of each array; the last also holds the totals."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OlderBucket:
    """What an older run holds of the arrays of one bucket."""

    run: Run
    parts: tuple[Part, ...]
    """The files that may have rows of them."""
    bucket: int
    buckets: int
    """How the arrays are divided now."""
    is_whole: bool
    """Whether they were divided so then, so that the files have rows of no other arrays."""

    def tables(self, name: str) -> Iterator[pa.Table]:
        """One table, a row group at a time; only the rows of the bucket's arrays are meant."""
        for part in self.parts:
            if part.table == name:
                file = self.run.open(part)
                for group in range(file.num_row_groups):
                    yield with_columns_of_now(name, file.read_row_group(group))

    @property
    def can_stay(self) -> bool:
        """Whether the files are just those of the bucket, so that a later run can have them too."""
        return self.is_whole and all(part.bucket == self.bucket for part in self.parts)

    def _own(self, array: str) -> bool:
        return bucket_of(array, self.buckets) == self.bucket

    def noted(self) -> tuple[dict[str, Noted], Totals]:
        """Array -> what the run noted of it, and the totals of all files."""
        noted, totals = {}, Totals()
        for part in (part for part in self.parts if part.table == "listings"):
            file = self.run.open(part)
            totals += totals_in(file.metadata.metadata)
            table = with_columns_of_now("listings", file.read())
            columns = (table[name].to_pylist() for name in ("array", *Noted._fields))
            for array, *words in zip(*columns, strict=True):
                if self._own(array):
                    noted[array] = Noted(*words)
        return noted, totals

    def known(self) -> dict[str, str]:
        """Array that the run has rows of -> the name of the run that read them."""
        known: dict[str, str] = {}
        for table in self.tables("arrays"):
            table = table.filter(pc.field("commits").is_valid())
            read_in = pc.fill_null(table["stale"], self.run.name)
            pairs = zip(table["array"].to_pylist(), read_in.to_pylist(), strict=True)
            known |= {array: name for array, name in pairs if self._own(array)}
        return known

    def findings(self) -> Iterator[dict[str, Any]]:
        """The findings on the bucket's arrays."""
        for table in self.tables("findings"):
            yield from (row for row in table.to_pylist() if self._own(row["array"]))

    def rows(self, arrays: Collection[str], stale: Collection[str]) -> Iterator[tuple[str, Any]]:
        """Each table with the rows of some arrays, as a later run repeats them.

        Args:
            arrays: The arrays that have not changed.
            stale: The arrays that could not be read.
        """
        wanted = pa.array([*arrays, *stale], pa.string())
        unread = pa.array([*stale], pa.string())
        for name in dict.fromkeys(part.table for part in self.parts):
            for table in self.tables(name):
                rows = table.filter(pc.is_in(table["array"], wanted))
                if len(rows):
                    yield name, as_stale(name, rows, unread, self.run.name)


class OlderRun:
    """The last run, if this one can use its tables."""

    def __init__(self, run_: Run | None) -> None:
        self.run = run_
        end = run_.read_end() if run_ else None
        self.division = Division(end["buckets"], end.get("divided_at", 0)) if end else None
        self._parts: dict[int, list[Part]] = {}
        for part in run_.parts() if run_ else ():
            self._parts.setdefault(part.bucket, []).append(part)

    def bucket(self, bucket: int, buckets: int) -> OlderBucket | None:
        """What the run holds of a bucket, as the fleet is divided now."""
        if self.run is None or self.division is None:
            return None
        then = self.division.buckets
        parts = [
            part
            for own, of_bucket in self._parts.items()
            if may_share(bucket, buckets, own, then)
            for part in of_bucket
            if part.table in WRITTEN
        ]
        whole = buckets == then
        return OlderBucket(
            run=self.run, parts=tuple(parts), bucket=bucket, buckets=buckets, is_whole=whole
        )

    def has(self, bucket: int) -> bool:
        """Whether the run may have rows of a bucket."""
        return bool(self._parts.get(bucket)) or self.division is None

    def parts_of(self, buckets: Iterable[int]) -> list[Part]:
        """The files of some buckets, of which the new run has the same."""
        return [part for bucket in buckets for part in self._parts.get(bucket, ())]


def hidden_below(
    folders: Sequence[Unlisted], known: Collection[str], found: Collection[str]
) -> dict[str, Unread]:
    """The arrays that an older run knows and that are missing, as a folder cannot be listed.

    >>> from chronotile.dataset.find_arrays import Unlisted
    >>> hidden_below([Unlisted("s3://b/g", "403")], ["s3://b/g/a", "s3://b/h"], [])
    {'s3://b/g/a': Unread(array='s3://b/g/a', words='s3://b/g cannot be listed: 403')}
    """
    unread: dict[str, Unread] = {}
    for folder in folders:
        if not folder.missing:
            start = f"{folder.uri.rstrip('/')}/"
            inside = [uri for uri in known if uri.startswith(start) and uri not in found]
            unread |= {uri: unlisted_unread(folder, uri) for uri in inside}
    return unread


def unlisted_unread(folder: Unlisted, array: str) -> Unread:
    """An array, or the folder itself, that could not be read as the folder cannot be listed."""
    return Unread(array, f"{folder.uri} cannot be listed: {folder.message}")


def rows_of_unread(
    unread: Mapping[str, str], known: Mapping[str, str], hidden: Collection[str]
) -> dict[str, pa.Table]:
    """The rows on arrays that could not be read, beside those that are repeated.

    Args:
        unread: Array -> why it could not be read.
        known: Array that an older run has rows of -> the run that read them.
        hidden: The arrays among them that only the older run knows.
    """
    findings, blank, listings = [], [], []
    for array, words in unread.items():
        rows = f"its rows are of run {known[array]}" if array in known else "no run has its rows"
        findings.append(finding(array, UNREADABLE, "", f"it cannot be read: {words}; {rows}"))
        if array not in hidden and array not in known:
            blank.append({"array": array, "errors": 1, "warnings": 0, "infos": 0})
            listings.append({"array": array})
    return {
        "arrays": pa.Table.from_pylist(blank, schema=SCHEMAS["arrays"]),
        "findings": findings_table(tuple(findings)),
        "listings": pa.Table.from_pylist(listings, schema=LISTINGS),
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
        for column in Noted._fields:
            table = _with(table, column, pc.if_else(is_stale, nothing, table[column]))
        return table
    return table


def with_columns_of_now(name: str, table: pa.Table) -> pa.Table:
    """The rows of an older run, perhaps of an older version, with the columns that a table has now.

    >>> with_columns_of_now("arrays", pa.table({"array": ["a"]})).column_names[:2]
    ['array', 'format_version']
    """
    schema = WRITTEN[name]
    if table.schema.names == schema.names:
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
