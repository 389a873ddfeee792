"""Rows of an older run that a later one repeats: of unchanged arrays, and of unreadable ones.

In: the files of a bucket, as the last run left them. Out: what is noted of its arrays, their rows
as the later run repeats them, and findings on those that could not be read. Reads these files only.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc

from chronotile.check.findings import UNREADABLE, finding
from chronotile.spark.pipeline.buckets import bucket_of, may_share
from chronotile.spark.pipeline.delta_store import BUCKET, LAST, TABLES, read_file
from chronotile.spark.pipeline.unchanged_arrays import Noted
from chronotile.spark.pipeline.unreadable_limit import Unread
from chronotile.tables.array_tables import findings_table

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping, Sequence

    from chronotile.dataset.find_arrays import Unlisted
    from chronotile.spark.pipeline.delta_store import DataFile, Output, Snapshot


@dataclass(frozen=True, slots=True, kw_only=True)
class OlderBucket:
    """What the store holds of the arrays of one bucket."""

    output: Output
    files: tuple[DataFile, ...]
    """The files that may have rows of them."""
    bucket: int
    buckets: int
    """How the arrays are divided now."""
    can_stay: bool
    """Whether the files have rows of no other arrays, so that they can stay as they are."""

    def tables(self, name: str) -> Iterator[pa.Table]:
        """Read one table, a row group at a time, with the rows of the bucket's arrays alone."""
        store = self.output.store()
        for file in self.files:
            if file.table != name:
                continue
            opened = read_file(store, file)
            for group in range(opened.num_row_groups):
                table = with_columns_of_now(name, opened.read_row_group(group))
                if not self.can_stay:
                    own = [bucket_of(a, self.buckets) == self.bucket for a in _arrays(table)]
                    table = table.filter(pa.array(own, pa.bool_()))
                yield table

    def noted(self) -> dict[str, Noted]:
        """Read what is noted of each array."""
        noted = {}
        for table in self.tables(LAST):
            columns = (table[name].to_pylist() for name in ("array", *Noted._fields))
            for array, *words in zip(*columns, strict=True):
                noted[array] = Noted(*words)
        return noted

    def read_in(self) -> dict[str, str]:
        """Tell of each array that there are rows of which run read them."""
        known: dict[str, str] = {}
        for table in self.tables("arrays"):
            table = table.filter(pc.field("commits").is_valid())
            known |= dict(zip(_arrays(table), table["run_id"].to_pylist(), strict=True))
        return known

    def rows(
        self, arrays: Collection[str], stale: Collection[str]
    ) -> Iterator[tuple[str, pa.Table]]:
        """Give each table with the rows of some arrays, as a later run repeats them.

        Args:
            arrays: The arrays that have not changed.
            stale: The arrays that could not be read.
        """
        wanted = pa.array([*arrays, *stale], pa.string())
        unread = pa.array([*stale], pa.string())
        for name in dict.fromkeys(file.table for file in self.files):
            for table in self.tables(name):
                rows = table.filter(pc.is_in(table["array"], wanted))
                if len(rows):
                    yield name, as_stale(name, rows, unread)


def older_bucket(
    output: Output, snapshot: Snapshot, bucket: int, buckets: int
) -> OlderBucket | None:
    """Give what the store holds of a bucket, as the fleet is divided now."""
    if snapshot.division is None:
        return None
    then = snapshot.division.buckets
    files = [
        file
        for name in TABLES
        for file in snapshot.files[name]
        if may_share(bucket, buckets, file.bucket, then)
    ]
    return OlderBucket(
        output=output,
        files=tuple(files),
        bucket=bucket,
        buckets=buckets,
        can_stay=buckets == then,
    )


def hidden_below(
    folders: Sequence[Unlisted], known: Collection[str], found: Collection[str]
) -> dict[str, str]:
    """Give the arrays that an older run knows, and that a folder that cannot be listed hides.

    >>> from chronotile.dataset.find_arrays import Unlisted
    >>> hidden_below([Unlisted("s3://b/g", "403")], ["s3://b/g/a", "s3://b/h"], [])
    {'s3://b/g/a': 's3://b/g cannot be listed: 403'}
    """
    unread: dict[str, str] = {}
    for folder in folders:
        if not folder.missing:
            start = f"{folder.uri.rstrip('/')}/"
            inside = [uri for uri in known if uri.startswith(start) and uri not in found]
            unread |= dict.fromkeys(inside, unlisted_unread(folder, "").words)
    return unread


def unlisted_unread(folder: Unlisted, array: str) -> Unread:
    """Make an array, or the folder itself, unread as the folder cannot be listed."""
    return Unread(array, f"{folder.uri} cannot be listed: {folder.message}")


def findings_on_unread(unread: Mapping[str, str], known: Mapping[str, str]) -> pa.Table:
    """Make the findings on arrays that could not be read.

    Args:
        unread: Array -> why it could not be read.
        known: Array that there are rows of -> the run that read them.
    """
    findings = []
    for array, words in unread.items():
        rows = f"its rows are of run {known[array]}" if array in known else "no run has its rows"
        findings.append(finding(array, UNREADABLE, "", f"it cannot be read: {words}; {rows}"))
    return findings_table(tuple(findings))


def as_stale(name: str, table: pa.Table, stale: pa.Array) -> pa.Table:
    """Give the rows of a table as a later run repeats them.

    Args:
        name: The table.
        table: Its rows, in the older run.
        stale: The arrays that the later run could not read.
    """
    is_stale = pc.is_in(table["array"], stale)
    if name == "findings":
        # The later run has its own finding on the array itself.
        again = pc.and_(pc.equal(table["code"], UNREADABLE), pc.equal(table["path"], ""))
        return table.filter(pc.invert(pc.and_(is_stale, again)))
    if name == "arrays":
        fresh = pc.and_(is_stale, pc.is_null(table["stale"]))
        table = _with(table, "errors", pc.add(table["errors"], pc.cast(fresh, pa.int64())))
        return _with(table, "stale", pc.if_else(fresh, table["run_id"], table["stale"]))
    if name == LAST:
        # Without a fingerprint the next run reads the array, whatever its listing is.
        nothing = pa.scalar(None, pa.string())
        for column in ("listing", "marks"):
            table = _with(table, column, pc.if_else(is_stale, nothing, table[column]))
    return table


def with_columns_of_now(name: str, table: pa.Table) -> pa.Table:
    """Give the rows of an older run, perhaps of an older version, with the columns of now.

    >>> with_columns_of_now("arrays", pa.table({"array": ["a"]})).column_names[:2]
    ['array', 'format_version']
    """
    schema = pa.schema([field for field in TABLES[name] if field.name != BUCKET])
    if table.schema.names == schema.names:
        return table.cast(schema)
    had = frozenset(table.column_names)
    columns = [
        table[field.name] if field.name in had else pa.nulls(len(table), field.type)
        for field in schema
    ]
    return pa.table(columns, schema=schema)


def _arrays(table: pa.Table) -> list[str]:
    arrays: list[str] = table["array"].to_pylist()
    return arrays


def _with(table: pa.Table, name: str, column: pa.ChunkedArray) -> pa.Table:
    index = table.schema.get_field_index(name)
    return table.set_column(index, table.schema.field(index), column)
