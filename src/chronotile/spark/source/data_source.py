"""The Spark data source `chronotile`.

In: options, as `options` explains them. Out: one of the tables of `tables`, in Arrow batches. Plans
from listings; each task opens what it needs, so that it can run, and run again, anywhere.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition
from pyspark.sql.pandas.types import from_arrow_schema

from chronotile.spark.source.change_table import (
    ChangePartition,
    change_partitions,
    read_changes,
    schema_of_changes,
)
from chronotile.spark.source.chosen_columns import choose, with_choice
from chronotile.spark.source.inventory_shares import ListedPartition, inventory_partitions
from chronotile.spark.source.options import OF_STREAMS, Options, read_options
from chronotile.spark.source.pushed_filters import Filters, FilterTaker
from chronotile.spark.source.read_share import read_share
from chronotile.spark.source.shares import Share, find_fleet, group_shares, shares
from chronotile.spark.source.tag_windows import with_tags_of_roots
from chronotile.spark.stream.reader import CommitStream
from chronotile.tables.array_tables import READABLE
from chronotile.tables.time_twins import twinned, with_twins

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    import pyarrow as pa
    from pyspark.sql.types import StructType


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
        """The name of the format."""
        return "chronotile"

    def schema(self) -> StructType:
        """The columns of the table that the options name."""
        return from_arrow_schema(_columns(read_options(_without_state(self.options))))

    def reader(self, schema: StructType) -> DataSourceReader:
        """Reads the table once."""
        options = with_tags_of_roots(read_options(self.options))
        options = self._checked(schema, options)
        # A reader that takes filters fails if Spark's switch for them is off, which is the
        # default: only a user who asks for such a reader gets it.
        return FilteredReader(options) if options.push_filters else TableReader(options)

    def streamReader(self, schema: StructType) -> CommitStream:  # noqa: N802 - Spark's name
        """Reads every new commit, once."""
        options = with_tags_of_roots(read_options(self.options, streaming=True))
        return CommitStream(self._checked(schema, options))

    @staticmethod
    def _checked(schema: StructType, options: Options) -> Options:
        columns = _columns(options)
        options = with_choice(schema, columns, options)
        # Tasks hold to it, whatever schema the array gets meanwhile.
        return options if options.rows == "json" else replace(options, row_columns=columns)


def _columns(options: Options) -> pa.Schema:
    """The columns of a table; beside each of ms a timestamp, which that of changes has itself."""
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
        """The rows of one share."""
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
