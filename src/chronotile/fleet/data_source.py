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

import io
import logging
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition
from pyspark.sql.pandas.types import from_arrow_schema

from chronotile.check.file_uses import BYTES_OF
from chronotile.errors import ChronotileError
from chronotile.fleet.array_tables import READABLE, TABLES, twinned, with_twins
from chronotile.fleet.change_table import (
    ChangePartition,
    change_partitions,
    read_changes,
    schema_of_changes,
)
from chronotile.fleet.find_arrays import WEIGHT_OF_ARRAY, WEIGHT_OF_FILE, Fleet, Found
from chronotile.fleet.inventory import (
    listing_rows,
    prefixes_in,
    read_manifest,
    read_objects,
    whole_arrays,
)
from chronotile.fleet.options import OF_STREAMS, Options, choose, read_options
from chronotile.fleet.read_share import read_share, with_tags_of_roots
from chronotile.fleet.shares import Share, find_fleet, group_shares, listed_places, shares
from chronotile.fleet.stream import CommitStream
from chronotile.format.kinds import COMMITS
from chronotile.history.fragment_facts import SCHEMA as FACTS

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Sequence

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


class FilterTaker:
    """A reader that applies some filters of Spark."""

    filters: Filters
    options: Any

    def pushFilters(self, filters: list[Any]) -> Iterable[Any]:  # noqa: N802 - Spark's name
        """Take filters; returns those that Spark has to apply."""
        columns = TABLES[self.options.table].names
        taken: list[Condition] = []
        for one in filters:
            condition = _understood(one)
            if condition is None or condition.column not in columns:
                yield one
            else:
                taken.append(condition)
        self.filters = Filters(tuple(taken))


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


_log = logging.getLogger(__name__)


@dataclass
class ListedPartition(InputPartition):
    """The arrays that one task reads, with their listings."""

    arrays: tuple[str, ...]
    listings: bytes
    """Rows as in `inventory_arrays.NAMES`, as an Arrow stream."""
    created_ms: int
    """When the inventory was made."""

    def options(self, options: Options) -> Options:
        """Give the options, with the listings of these arrays."""
        table = pa.ipc.open_stream(self.listings).read_all()
        known = {place.uri: place.entries or () for place in listed_places(table.to_batches())}
        after = self.created_ms if options.fresh else None
        return replace(options, known=known, known_until=after)


def inventory_partitions(
    options: Options, only: Collection[str] | None = None, start: str = ""
) -> list[ListedPartition]:
    """Divides the arrays of an inventory.

    Args:
        options: Which inventory, and which roots in it.
        only: A filter: the arrays that can have rows.
        start: A filter: what the places of arrays begin with.

    Raises:
        ChronotileError: The manifest, or a root, is not what it should be.
    """
    inventory = read_manifest(str(options.inventory), options.storage_options)
    below = prefixes_in(inventory, options.roots)
    _log.info("by an inventory that is %.1f hours old", inventory.age_s / 3600)
    found = []
    for file in inventory.files:
        rows = listing_rows(read_objects(inventory, file), inventory.bucket, below)
        if only is not None:
            rows = rows.filter(pc.is_in(rows["array"], pa.array([*only], pa.string())))
        found.append(rows.filter(pc.starts_with(rows["array"], start)))
    rows = whole_arrays(found)
    fleet = Fleet(tuple(_weighed(rows)), ())
    partitions, at = [], 0
    counts = dict(zip(*_counts(rows), strict=True))
    for share in shares(fleet, options.partition_bytes):
        length = sum(counts[array] for array in share.arrays)
        listings = _stream(rows.slice(at, length))
        partitions.append(ListedPartition(share.arrays, listings, inventory.created_ms))
        at += length
    return partitions


def _counts(rows: pa.Table) -> tuple[list[str], list[int]]:
    counted = rows["array"].value_counts()
    return counted.field("values").to_pylist(), counted.field("counts").to_pylist()


def _weighed(rows: pa.Table) -> list[Found]:
    """Give the arrays in order, each with the weight that `find_arrays` gives it."""
    is_commit = pc.starts_with(rows["path"], f"{COMMITS}/")
    weights = pc.if_else(is_commit, pc.add(pc.fill_null(rows["size"], 0), WEIGHT_OF_FILE), 0)
    table = pa.table({"array": rows["array"], "weight": weights}).group_by("array")
    sums = table.aggregate([("weight", "sum")]).sort_by("array")
    pairs = zip(sums["array"].to_pylist(), sums["weight_sum"].to_pylist(), strict=True)
    return [Found(array, WEIGHT_OF_ARRAY + weight) for array, weight in pairs]


def _stream(rows: pa.Table) -> bytes:
    sink = io.BytesIO()
    with pa.ipc.new_stream(sink, rows.schema) as stream:
        stream.write_table(rows)
    return sink.getvalue()


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
        if self.options.inventory is not None:
            only, start = self.filters.arrays, self.filters.start
            return inventory_partitions(self.options, only, start) or [SharePartition(Share(()))]
        fleet = find_fleet(self.options, self.filters.arrays, self.filters.start, follow=True)
        if self.options.table == "changes":
            parts = change_partitions((array.uri for array in fleet.arrays), self.options)
            return [*parts] or [SharePartition(Share(()))]
        if self.options.table == "members":
            return [SharePartition(share) for share in group_shares(fleet) or (Share(()),)]
        tasks = shares(fleet, self.options.partition_bytes)
        return [SharePartition(share) for share in tasks or (Share(()),)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Give the rows of one share."""
        if isinstance(partition, ChangePartition):
            for table in read_changes(partition, self.options):
                for batch in map(self.filters.keep, table.to_batches()):
                    yield choose(self.options, batch)
            return
        for batch in self._batches(partition):
            kept = self.filters.keep(batch)
            if kept.num_rows:
                yield choose(self.options, twinned(kept))

    def _batches(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        if isinstance(partition, ListedPartition):
            yield from read_share(Share(partition.arrays), partition.options(self.options))
            return
        assert isinstance(partition, SharePartition)
        yield from read_share(partition.share, self.options)


class FilteredReader(FilterTaker, TableReader):
    """Reads one table of a fleet, and takes filters from Spark."""


def _without_state(options: object) -> dict[str, str]:
    # Spark asks for the schema before it says whether it reads once or streams.
    given: dict[str, str] = dict(options)  # type: ignore[call-overload]
    return {n: v for n, v in given.items() if n.lower() not in OF_STREAMS}
