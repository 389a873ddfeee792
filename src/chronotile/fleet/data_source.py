"""The Spark data source `chronotile`.

In: options, as `options` explains them, filters and a schema. Out: one of the tables of
`array_tables`, in Arrow batches. Plans from listings, or from an inventory of the bucket.

Filters on `array`, `kind`, `t1` and `t2` decide which arrays are opened and which rows are sent, if
Spark, from version 4.1 on, hands them down. It does not tell a Python source which columns a query
selects, but a schema can: with `.schema("name string, cells bigint")` footers are read, as `cells`
stands in them, and with `.schema("name string, t1 bigint")` they are not.
"""

from __future__ import annotations

import logging
import operator
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition
from pyspark.sql.pandas.types import from_arrow_schema

from chronotile.check.file_uses import BYTES_OF
from chronotile.errors import ChronotileError
from chronotile.fleet.array_tables import BATCH_ROWS, READABLE, SCHEMAS, twinned, with_twins
from chronotile.fleet.change_table import (
    ChangeShare,
    change_shares,
    read_changes,
    schema_of_changes,
)
from chronotile.fleet.find_arrays import find_all
from chronotile.fleet.flat_listing import to_be_listed
from chronotile.fleet.inventory import (
    listing_rows,
    prefixes_in,
    read_manifest,
    read_objects,
    whole_arrays,
)
from chronotile.fleet.options import OF_STREAMS, Options, choose, read_options
from chronotile.fleet.read_share import read_share, with_tags_of_roots
from chronotile.fleet.shares import Share, shares
from chronotile.fleet.stream import CommitStream
from chronotile.history.fragment_facts import SCHEMA as FACTS

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Sequence

    from pyspark.sql.types import StructType

    from chronotile.fleet.options import Options


_FILTERED = {"array": str, "kind": str, "t1": int, "t2": int}
"""Column whose filters are applied here -> the type of their values."""
_FILTERS: dict[str, Callable[[pc.Expression, Any], pc.Expression]] = {
    "EqualTo": operator.eq,
    "GreaterThan": operator.gt,
    "GreaterThanOrEqual": operator.ge,
    "LessThan": operator.lt,
    "LessThanOrEqual": operator.le,
    "In": pc.Expression.isin,
    "StringStartsWith": pc.starts_with,
}


class RowFilter(NamedTuple):
    """A filter of Spark's that is applied here; a row where it is null goes, as in SQL."""

    column: str
    keeps: pc.Expression


def understood(pushed: Any, columns: Collection[str]) -> RowFilter | None:
    """Give a filter as it is applied here; None if Spark has to apply it."""
    op = type(pushed).__name__
    path: tuple[str, ...] = getattr(pushed, "attribute", ())
    if op not in _FILTERS or len(path) != 1 or path[0] not in columns:
        return None
    values = pushed.value if op == "In" else (pushed.value,)
    if not values or not all(type(value) is _FILTERED.get(path[0]) for value in values):
        return None
    return RowFilter(path[0], _FILTERS[op](pc.field(path[0]), pushed.value))


_log = logging.getLogger(__name__)

_IN_FOOTERS = frozenset(FACTS.names[FACTS.get_field_index("cells") :])
"""Columns of `fragments` that stand in footers."""
_OF_SIZES = frozenset({"bytes", *BYTES_OF.values()})
"""Columns of `arrays` for which every file is listed."""


def with_choice(schema: StructType, columns: pa.Schema, options: Options) -> Options:
    """Choose the columns of a schema: all of the table's, or some of them in any order."""
    own = from_arrow_schema(columns)
    types = {field.name: field.dataType for field in own}
    names = tuple(field.name for field in schema)
    fits = all(types.get(field.name) == field.dataType for field in schema)
    if not names or not fits or len({*names}) != len(names):
        problem = f"expected columns of {own.simpleString()}, found {schema.simpleString()}"
        raise ChronotileError(f"table {options.table}", problem)
    if names == tuple(columns.names):
        return options
    chosen = frozenset(names)
    return replace(
        options,
        columns=names,
        cells=options.table == "fragments" and not chosen.isdisjoint(_IN_FOOTERS),
        sizes=options.table == "arrays" and not chosen.isdisjoint(_OF_SIZES),
    )


class ChronotileSource(DataSource):
    """Commit logs of TileDB arrays as tables.

    Example:
        spark.read.format("chronotile").option("table", "commits").load("s3://lake/arrays")
    """

    @classmethod
    def name(cls) -> str:
        """Give the name of the format."""
        return "chronotile"

    def schema(self) -> StructType:
        """Give the columns of the table that the options name."""
        # Spark asks for the schema before it says whether it reads once or streams.
        given = {n: v for n, v in self.options.items() if n.lower() not in OF_STREAMS}
        return from_arrow_schema(_columns(read_options(given)))

    def reader(self, schema: StructType) -> DataSourceReader:
        """Read the table once."""
        options = with_tags_of_roots(read_options(self.options))
        options = self._checked(schema, options)
        # A reader that takes filters fails if Spark's switch for them is off, which is the
        # default: only a user who asks for such a reader gets it.
        return FilteredReader(options) if options.push_filters else TableReader(options)

    def streamReader(self, schema: StructType) -> CommitStream:  # noqa: N802 - Spark's name
        """Read every new commit, once."""
        options = with_tags_of_roots(read_options(self.options, streaming=True))
        return CommitStream(self._checked(schema, options))

    @staticmethod
    def _checked(schema: StructType, options: Options) -> Options:
        columns = _columns(options)
        options = with_choice(schema, columns, options)
        # Tasks hold to it, whatever schema the array gets meanwhile.
        return options if options.rows == "json" else replace(options, row_columns=columns)


def _columns(options: Options) -> pa.Schema:
    """Give the columns of a table, with twins; `changes` has its own."""
    if options.table == "changes":
        return schema_of_changes(options)
    return with_twins(READABLE[options.table])


class TableReader(DataSourceReader):
    """Reads one table of a fleet."""

    def __init__(self, options: Options) -> None:
        self.options = options
        self.filters: list[RowFilter] = []

    def partitions(self) -> Sequence[InputPartition]:
        """Plan one task for each share; Spark wants one, even if there is nothing to read."""
        return [InputPartition(one) for one in self._shares() or [Share()]]

    def _shares(self) -> Sequence[Share | ChangeShare]:
        """Divide the arrays that can have rows, or of `members` the groups."""
        options = self.options
        if options.inventory is not None:
            inventory = read_manifest(options.inventory, options.storage_options)
            below = prefixes_in(inventory, options.roots)
            _log.info("by an inventory that is %.1f hours old", inventory.age_s / 3600)
            objects = (read_objects(inventory, file) for file in inventory.files)
            rows = whole_arrays([listing_rows(one, inventory.bucket, below) for one in objects])
            fresh_ms = inventory.created_ms if options.fresh else None
            return shares(self._keep(rows, ("array",)), fresh_ms=fresh_ms)
        found = find_all(options, flat=options.table in SCHEMAS)
        for problem in found.problems:
            _log.warning("no rows below %s: %s", problem.uri, problem.message)
        if options.table == "members":
            return shares(to_be_listed(found.groups))
        rows = self._keep(found.rows, ("array",))
        if options.table == "changes":
            return [*change_shares(rows["array"].unique().to_pylist(), options)]
        told = (Share(problems=found.problems),) if found.problems else ()
        return [*shares(rows), *told]

    def _keep(self, rows: pa.Table, columns: Collection[str] = tuple(_FILTERED)) -> pa.Table:
        """Give the rows that satisfy the filters on some columns."""
        for one in self.filters:
            rows = rows.filter(one.keeps) if one.column in columns else rows
        return rows

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Give the rows of one share."""
        share, options = partition.value, self.options
        if isinstance(share, ChangeShare):
            tables = read_changes(share, options)
        else:
            tables = map(twinned, read_share(share, options))
        for table in map(self._keep, tables):
            if len(table):
                yield from choose(options, table).to_batches(BATCH_ROWS)


class FilteredReader(TableReader):
    """Reads one table of a fleet, and takes filters from Spark."""

    def pushFilters(self, filters: list[Any]) -> Iterable[Any]:  # noqa: N802 - Spark's name
        """Take filters; return those that Spark has to apply."""
        columns = READABLE[self.options.table].names
        taken = [(one, understood(one, columns)) for one in filters]
        self.filters = [own for _, own in taken if own is not None]
        return [one for one, own in taken if own is None]
