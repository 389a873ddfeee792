"""The Spark data source `chronotile`.

In: options, as `options` explains them, filters and a schema. Out: one of the tables of
`array_tables`, in Arrow batches. Plans from listings, or from an inventory of the bucket; each task
opens what it needs, so that it can run, and run again, anywhere.

Filters on `array`, `kind`, `t1` and `t2` decide which folders are listed, which arrays are opened
and which rows are sent; Spark hands them down from version 4.1 on, if
`spark.sql.python.filterPushdown.enabled` is on. Spark does not tell a Python source which columns a
query selects, but a schema can: with `.schema("name string, cells bigint")` footers are read, as
`cells` stands in them, and with `.schema("name string, t1 bigint")` they are not.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition
from pyspark.sql.pandas.types import from_arrow_schema

from chronotile.check.file_uses import BYTES_OF
from chronotile.errors import ChronotileError
from chronotile.fleet.array_tables import READABLE, SCHEMAS, TABLES, twinned, with_twins
from chronotile.fleet.change_table import (
    ChangePartition,
    change_partitions,
    read_changes,
    schema_of_changes,
)
from chronotile.fleet.flat_listing import Searched, unlisted_rows
from chronotile.fleet.inventory import (
    listing_rows,
    prefixes_in,
    read_manifest,
    read_objects,
    whole_arrays,
)
from chronotile.fleet.options import OF_STREAMS, Options, choose, read_options
from chronotile.fleet.plan import find_fleet, search_wide
from chronotile.fleet.read_share import read_share, with_tags_of_roots
from chronotile.fleet.shares import Share, shares
from chronotile.fleet.stream import CommitStream
from chronotile.history.fragment_facts import SCHEMA as FACTS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from pyspark.sql.types import StructType

    from chronotile.fleet.options import Options


COLUMNS = ("array", "kind", "t1", "t2")

_COMPARISONS: dict[str, Callable[[Any, Any], Any]] = {
    "EqualTo": pc.equal,
    "GreaterThan": pc.greater,
    "GreaterThanOrEqual": pc.greater_equal,
    "LessThan": pc.less,
    "LessThanOrEqual": pc.less_equal,
}
_STARTS = "StringStartsWith"


class Condition(NamedTuple):
    """One filter that is applied here; a row where it is null goes, as in SQL."""

    column: str
    op: str
    """A name in `_COMPARISONS`, or `In`, or `StringStartsWith`."""
    value: Any

    def mask(self, batch: pa.RecordBatch) -> pa.Array:
        """Mask of the rows that satisfy the filter."""
        column = batch.column(self.column)
        if self.op == "In":
            return pc.is_in(column, pa.array(self.value, column.type))
        if self.op == _STARTS:
            return pc.starts_with(column, self.value)
        return _COMPARISONS[self.op](column, pa.scalar(self.value, column.type))


class Filters(NamedTuple):
    """All filters that are applied here; a row must satisfy each."""

    conditions: tuple[Condition, ...] = ()

    @property
    def arrays(self) -> frozenset[str] | None:
        """The only arrays that can have rows; None if any can."""
        named = [
            frozenset(one.value if one.op == "In" else (one.value,))
            for one in self.conditions
            if one.column == "array" and one.op in ("EqualTo", "In")
        ]
        return frozenset.intersection(*named) if named else None

    @property
    def start(self) -> str:
        """The text that the place of every array with rows begins with.

        >>> Filters((Condition("array", "StringStartsWith", "s3://lake/a"),)).start
        's3://lake/a'
        """
        starts = [c.value for c in self.conditions if c.column == "array" and c.op == _STARTS]
        return max(starts, key=len, default="")

    def keep(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Give the rows that satisfy all filters.

        >>> batch = pa.record_batch({"t1": [1, 2, 3]})
        >>> Filters((Condition("t1", "GreaterThan", 1),)).keep(batch).num_rows
        2
        """
        for condition in self.conditions:
            batch = batch.filter(condition.mask(batch))
        return batch

    def keep_arrays(self, rows: pa.Table) -> pa.Table:
        """Give the rows of the arrays that can have rows, as in `inventory.NAMES`."""
        return Filters(tuple(c for c in self.conditions if c.column == "array")).keep(rows)


def _understood(pushed: Any) -> Condition | None:
    op = type(pushed).__name__
    path: tuple[str, ...] = getattr(pushed, "attribute", ())
    if len(path) != 1 or path[0] not in COLUMNS or op not in (*_COMPARISONS, "In", _STARTS):
        return None
    if op == _STARTS and path[0] in ("t1", "t2"):
        return None
    values = tuple(pushed.value) if op == "In" else (pushed.value,)
    wanted = int if path[0] in ("t1", "t2") else str
    if not all(type(value) is wanted for value in values):
        return None
    return Condition(path[0], op, values if op == "In" else values[0])


_log = logging.getLogger(__name__)

_IN_FOOTERS = frozenset(FACTS.names[FACTS.get_field_index("cells") :])
"""Columns of `fragments` that stand in footers."""
_OF_SIZES = frozenset({"bytes", *BYTES_OF.values()})
"""Columns of `arrays` for which every file is listed."""


def with_choice(schema: StructType, columns: pa.Schema, options: Options) -> Options:
    """Options for the columns of a schema: all of the table's, or some of them in any order.

    Raises:
        ChronotileError: A column is not of the table, has another type, or is named twice.
    """
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


def inventory_shares(options: Options, filters: Filters) -> tuple[Share, ...]:
    """Divide the arrays of an inventory.

    Raises:
        ChronotileError: The manifest, or a root, is not what it should be.
    """
    inventory = read_manifest(str(options.inventory), options.storage_options)
    below = prefixes_in(inventory, options.roots)
    _log.info("by an inventory that is %.1f hours old", inventory.age_s / 3600)
    objects = (read_objects(inventory, file) for file in inventory.files)
    rows = whole_arrays([listing_rows(one, inventory.bucket, below) for one in objects])
    fresh_ms = inventory.created_ms if options.fresh else None
    return shares(filters.keep_arrays(rows), (), fresh_ms)


def fleet_shares(options: Options, filters: Filters) -> tuple[Share, ...]:
    """Divide the arrays, or of `members` the groups, that a search finds."""
    found = find_all(options, filters)
    if options.table == "members":
        return shares(unlisted_rows(found.groups))
    return shares(found.rows, found.problems)


def find_all(options: Options, filters: Filters) -> Searched:
    """Find the arrays and groups that can have rows."""
    flat = options.table in SCHEMAS
    fleet = find_fleet(options, filters.arrays, filters.start, flat=flat)
    found = search_wide(fleet, options, follow=True)
    problems = () if filters.arrays is not None else found.problems
    return found._replace(rows=filters.keep_arrays(found.rows), problems=problems)


@dataclass
class SharePartition(InputPartition):
    """The share that one task reads."""

    share: Share


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
        return from_arrow_schema(_columns(read_options(_without_state(self.options))))

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
    """Give the columns of a table; beside each of ms a timestamp, which `changes` has itself."""
    if options.table == "changes":
        return schema_of_changes(options)
    return with_twins(READABLE[options.table])


class TableReader(DataSourceReader):
    """Reads one table of a fleet."""

    def __init__(self, options: Options) -> None:
        self.options = options
        self.filters = Filters()

    def partitions(self) -> Sequence[InputPartition]:
        """One task for each share."""
        options, filters = self.options, self.filters
        if options.table == "changes":
            arrays = find_all(options, filters).rows["array"].unique().to_pylist()
            changes = [*change_partitions(arrays, options)]
            return changes or [SharePartition(shares(unlisted_rows(()))[0])]
        by_inventory = options.inventory is not None
        divided = (inventory_shares if by_inventory else fleet_shares)(options, filters)
        return [*map(SharePartition, divided)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Give the rows of one share."""
        if isinstance(partition, ChangePartition):
            for table in read_changes(partition, self.options):
                for batch in map(self.filters.keep, table.to_batches()):
                    yield choose(self.options, batch)
            return
        assert isinstance(partition, SharePartition)
        for batch in read_share(partition.share, self.options):
            kept = self.filters.keep(batch)
            if kept.num_rows:
                yield choose(self.options, twinned(kept))


class FilteredReader(TableReader):
    """Reads one table of a fleet, and takes filters from Spark."""

    def pushFilters(self, filters: list[Any]) -> Iterable[Any]:  # noqa: N802 - Spark's name
        """Take filters; return those that Spark has to apply."""
        columns = TABLES[self.options.table].names
        taken: list[Condition] = []
        for one in filters:
            condition = _understood(one)
            if condition is None or condition.column not in columns:
                yield one
            else:
                taken.append(condition)
        self.filters = Filters(tuple(taken))


def _without_state(options: object) -> dict[str, str]:
    # Spark asks for the schema before it says whether it reads once or streams.
    given: dict[str, str] = dict(options)  # type: ignore[call-overload]
    return {n: v for n, v in given.items() if n.lower() not in OF_STREAMS}
