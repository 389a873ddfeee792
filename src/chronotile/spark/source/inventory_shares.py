"""Which task of the data source reads which arrays, by an inventory of the bucket.

In: options that name a manifest. Out: partitions, each with a few arrays and the listing of each:
no task lists anything. The process that plans holds the listings of all arrays that are asked for,
about 1 kB each: a fleet of many millions is for the pipeline, whose tasks do this.
"""

from __future__ import annotations

import io
import logging
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql.datasource import InputPartition

from chronotile.dataset.find_arrays import WEIGHT_OF_ARRAY, WEIGHT_OF_FILE, Fleet, Found
from chronotile.dataset.inventory import prefixes_in, read_manifest, read_objects
from chronotile.dataset.inventory_arrays import listing_rows, whole_arrays
from chronotile.format.kinds import COMMITS
from chronotile.spark.bucket_share import listed_places
from chronotile.spark.source.shares import shares

if TYPE_CHECKING:
    from collections.abc import Collection

    from chronotile.spark.source.options import Options

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
        """The options, with the listings of these arrays."""
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
    """The arrays in order, each with the weight that `find_arrays` gives it."""
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
