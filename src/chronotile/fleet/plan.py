"""The plan of a run: which task of the pipeline reads which bucket.

In: options. Out: `FleetPlan`: a share for each bucket that has arrays. The driver lists the top of
the fleet. If that is not all of it, tasks go on from there, and leave what they find in files, one
for each bucket: the driver then knows how many arrays there are, and no array by name. Folders of
a bucket that have many neighbours are listed flat, and with an inventory of the bucket nobody lists
anything: the files then hold the listing of each array too, so that its reader asks for none.
"""

from __future__ import annotations

import io
import secrets
from functools import partial
from itertools import groupby
from operator import itemgetter
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from chronotile.errors import ChronotileError, StorageError
from chronotile.fleet.find_arrays import Unlisted, find_arrays
from chronotile.fleet.flat_listing import FlatFound, Neighbours, list_flat, unlisted_rows
from chronotile.fleet.inventory import (
    NAMES,
    Inventory,
    InventoryFile,
    listing_rows,
    prefixes_in,
    read_manifest,
    read_objects,
    whole_arrays,
)
from chronotile.fleet.shares import BucketShare, Division, bucket_count, bucket_of, find_fleet
from chronotile.fleet.surviving_tasks import Results, run_job
from chronotile.format.kinds import COMMITS
from chronotile.storage.prefetch import ahead

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from pyspark.sql import DataFrame, SparkSession

    from chronotile.fleet.delta_store import Run
    from chronotile.fleet.find_arrays import Fleet
    from chronotile.fleet.options import Options


IN_DRIVER = 4096
"""Folders that the driver lists by itself: a fleet of about as many arrays needs no task for it."""
GROUPS = 512
"""Tasks that search for arrays, at most."""
PLANNERS = 64
"""Tasks that write the files of a plan, at most: each has one bundle in memory at a time."""
BUCKETS_IN_BUNDLE = 16
"""Buckets whose names are sent together: else a large fleet is sent in a million small pieces."""
IN_FLAT = 64
"""Folders of one flat list, at least, as long as there are so many."""
AT_ONCE = 16
"""Flat lists that the driver asks for at once."""
PROBLEMS_MAX = 1000
"""Folders that cannot be listed, of which the driver hears; more of them end the run."""

_SHUFFLED = pa.schema([("bundle", pa.int64()), ("rows", pa.binary())])


class FleetPlan(NamedTuple):
    """Everything that the driver knows of a fleet."""

    buckets: int
    shares: tuple[BucketShare, ...]
    arrays: int
    problems: tuple[Unlisted, ...]
    inventory: Inventory | None = None
    """The inventory that the arrays were found in."""

    def division(self, before: Division | None) -> Division:
        """How the fleet is divided: as before, or anew."""
        if before is not None and before.buckets == self.buckets:
            return before
        return Division(self.buckets, self.arrays)


def plan_fleet(
    spark: SparkSession | None,
    options: Options,
    run: Run,
    before: Division | None,
    progress: Callable[[int, int], None],
    *,
    follow: bool = False,
) -> FleetPlan:
    """Find the arrays of a fleet, and divides them.

    Args:
        spark: The session that searches, if the fleet is large; None if this process has to.
        options: Where the arrays are.
        run: The run, for files of the plan.
        before: How the last run was divided, if this one uses its tables.
        progress: Called now and then with (tasks done, all tasks).
        follow: Go to members of groups outside of the roots too, if the driver alone can search.
            Tasks, each with folders of its own, would find one member several times.

    Raises:
        ArrayNotFoundError: A root does not exist.
        StorageError: A root cannot be listed.
    """
    if spark is not None and options.inventory is not None:
        return _plan_by_inventory(spark, options, run, before)
    most = None if spark is None else IN_DRIVER
    fleet = find_fleet(options, weigh=before is None, most=most, flat=True)
    wide = sum(len(one.names) for one in fleet.wide)
    if fleet.wide and not fleet.left and (spark is None or wide <= IN_DRIVER):
        return _plan_flat_here(fleet, options, run, before, follow=follow)
    if not fleet.left and not fleet.wide:
        if follow and fleet.groups:
            fleet = find_fleet(options, weigh=before is None, follow=True)
        return _plan_here(fleet, options.partition_bytes, before)
    assert spark is not None
    return _Search(spark, options, run).plan(fleet, before, progress)


def _plan_here(fleet: Fleet, partition_bytes: int, before: Division | None) -> FleetPlan:
    weight = sum(array.weight for array in fleet.arrays)
    buckets = bucket_count(len(fleet.arrays), weight, partition_bytes, before)
    arrays: dict[int, list[str]] = {}
    for uri in fleet.uris:
        arrays.setdefault(bucket_of(uri, buckets), []).append(uri)
    shares = [BucketShare(bucket=one, arrays=tuple(arrays[one])) for one in sorted(arrays)]
    return FleetPlan(buckets, tuple(shares), len(fleet.arrays), fleet.problems)


def _plan_flat_here(
    fleet: Fleet, options: Options, run: Run, before: Division | None, *, follow: bool
) -> FleetPlan:
    """Give a plan whose flat lists the driver itself asks for: a page tells of many arrays."""
    wide = [part for one in fleet.wide for part in one.divided(IN_FLAT)]
    found = list(ahead(partial(search_flat, options=options), wide, AT_ONCE))
    rows = whole_arrays([unlisted_rows(fleet.uris), *(one.rows for one in found)])
    groups = {*fleet.groups, *(group for one in found for group in one.groups)}
    problems = [*fleet.problems, *(problem for one in found for problem in one.problems)]
    if follow and groups:
        # Members that lie elsewhere; those that were found are not listed again.
        known = frozenset(rows["array"].unique().to_pylist())
        more = find_arrays(
            sorted(groups),
            options.storage_options,
            missing_ok=True,
            known=known,
            follow=True,
            key=options.key,
        )
        rows = whole_arrays([rows, unlisted_rows(uri for uri in more.uris if uri not in known)])
        problems += more.problems
    weight = pc.sum(rows.filter(pc.starts_with(rows["path"], f"{COMMITS}/"))["size"]).as_py() or 0
    arrays = len(rows["array"].unique())
    buckets = bucket_count(arrays, weight, options.partition_bytes, before)
    shares = tuple(_written(rows, buckets, run))
    return FleetPlan(buckets, shares, arrays, tuple(sorted({*problems})))


def _plan_by_inventory(
    spark: SparkSession, options: Options, run: Run, before: Division | None
) -> FleetPlan:
    """Give a plan without a single LIST: tasks read the files of an inventory."""
    from chronotile.fleet.session import rows_in_tasks

    inventory = read_manifest(str(options.inventory), options.storage_options)
    below = prefixes_in(inventory, options.roots)
    if before is not None:
        buckets = before.buckets
    else:
        buckets = bucket_count(_estimated_arrays(spark, inventory, below), 0, 1)

    def read(file: InventoryFile) -> Iterator[pa.RecordBatch]:
        objects = read_objects(inventory, file)
        return by_bundle(listing_rows(objects, inventory.bucket, below), buckets)

    shares: tuple[BucketShare, ...] = ()
    if inventory.files:
        rows = rows_in_tasks(spark, inventory.files, read, _SHUFFLED)
        shares = write_plan(rows, buckets, run)
    arrays = sum(share.count for share in shares)
    return FleetPlan(buckets, shares, arrays, (), inventory)


def _estimated_arrays(spark: SparkSession, inventory: Inventory, below: tuple[str, ...]) -> int:
    """Estimate how many arrays an inventory names: a task counts those in its first file."""
    from chronotile.fleet.session import in_tasks

    def count(_: int, file: InventoryFile) -> str:
        rows = listing_rows(read_objects(inventory, file), inventory.bucket, below)
        return str(len(rows.filter(rows["strong"])["array"].unique()))

    if not inventory.files:
        return 0
    ((_, counted),) = in_tasks(spark, inventory.files[:1], count)
    sizes = [file.size for file in inventory.files]
    share = sum(sizes) / sizes[0] if all(sizes) else len(sizes)
    return int(int(counted) * share)


class _FoundFile(NamedTuple):
    """The file with what one task of the search found."""

    file: str
    arrays: int
    problems: tuple[Unlisted, ...] = ()

    @classmethod
    def from_json(cls, document: Any) -> _FoundFile:
        """Make a result of its JSON form."""
        file, arrays, problems = document
        return cls(file, arrays, tuple(Unlisted(*one) for one in problems))


class _Search:
    """A search by tasks."""

    def __init__(self, spark: SparkSession, options: Options, run: Run) -> None:
        self._spark, self._options, self._run = spark, options, run

    def plan(
        self, top: Fleet, before: Division | None, progress: Callable[[int, int], None]
    ) -> FleetPlan:
        groups: list[tuple[str, ...] | Neighbours] = [
            top.left[start::GROUPS] for start in range(min(GROUPS, len(top.left)))
        ]
        wide = sum(len(one.names) for one in top.wide)
        most = max(IN_FLAT, -(-wide // GROUPS))
        groups += [part for one in top.wide for part in one.divided(most)]
        work = partial(_search, options=self._options, run=self._run)
        results = Results(self._run.store(), f"{self._run.folder}/results")
        found = run_job(self._spark, work, groups, _FoundFile.from_json, progress, results)
        rows = unlisted_rows(top.uris)
        found.append(_FoundFile(_write_found(self._run, rows), len(top.arrays), top.problems))
        problems = tuple(sorted(problem for one in found for problem in one.problems))
        arrays = sum(one.arrays for one in found)
        buckets = bucket_count(arrays, 0, 1, before)
        shares = write_plan(self._rows([one.file for one in found], buckets), buckets, self._run)
        # An array that two tasks met was counted twice.
        arrays = sum(share.count for share in shares)
        return FleetPlan(buckets, shares, arrays, problems)

    def _rows(self, files: list[str], buckets: int) -> DataFrame:
        from chronotile.fleet.session import rows_in_tasks

        run = self._run

        def read(file: str) -> Iterator[pa.RecordBatch]:
            return by_bundle(pq.read_table(io.BytesIO(run.store().read(file))), buckets)

        return rows_in_tasks(self._spark, files, read, _SHUFFLED)


def _search(folders: tuple[str, ...] | Neighbours, options: Options, run: Run) -> _FoundFile:
    if isinstance(folders, Neighbours):
        found = search_flat(folders, options)
    else:
        found = walk(folders, options)
    arrays = len(found.rows.filter(found.rows["strong"])["array"].unique())
    return _FoundFile(_write_found(run, found.rows), arrays, found.problems[:PROBLEMS_MAX])


def _write_found(run: Run, rows: pa.Table) -> str:
    return _write_file(run, "found/", rows)


def by_bundle(names: pa.Table, buckets: int) -> Iterator[pa.RecordBatch]:
    """Pack the rows of each bundle of buckets for sending: few, large and compressed."""
    bundles = _bundles(buckets)
    for bundle, own in _grouped(names, bundles):
        buffer = io.BytesIO()
        options = pa.ipc.IpcWriteOptions(compression="lz4")
        with pa.ipc.new_stream(buffer, own.schema, options=options) as stream:
            stream.write_table(own.combine_chunks())
        yield pa.record_batch([[bundle], [buffer.getvalue()]], schema=_SHUFFLED)


def _bundles(buckets: int) -> int:
    """How many bundles there are; a bucket's number tells its bundle, as both are powers of two."""
    return max(buckets // BUCKETS_IN_BUNDLE, 1)


def _grouped(names: pa.Table, count: int) -> Iterator[tuple[int, pa.Table]]:
    """Give the rows of the arrays of each bucket, if there are so many buckets, in their order."""
    arrays = names["array"].combine_chunks().dictionary_encode()
    of_array = [bucket_of(uri, count) for uri in arrays.dictionary.to_pylist()]
    bucket = pa.array(of_array, pa.int64()).take(arrays.indices).to_numpy()
    order = np.argsort(bucket, kind="stable")
    names, bucket = names.take(pa.array(order)), bucket[order]
    starts = np.flatnonzero(np.diff(bucket, prepend=-1)).tolist()
    for start, end in zip(starts, [*starts[1:], len(bucket)], strict=True):
        yield int(bucket[start]), names.slice(start, end - start)


def _written(names: pa.Table, buckets: int, run: Run) -> Iterator[BucketShare]:
    """Leaves the rows of each bucket in a file."""
    for bucket, own in _grouped(names, buckets):
        file = _write_file(run, f"plan/{bucket:04d}-", own)
        yield BucketShare(bucket=bucket, file=file, count=pc.count_distinct(own["array"]).as_py())


def write_plan(rows: DataFrame, buckets: int, run: Run) -> tuple[BucketShare, ...]:
    """Brings the rows of each bucket together, and leaves them in a file for each.

    Args:
        rows: What `by_bundle` gave, in any order.
        buckets: The number of buckets.
        run: The run; its own folder gets the files.
    """
    from chronotile.fleet.session import sink

    def write(batches: Iterator[pa.RecordBatch]) -> list[Any]:
        rows = (
            pair
            for batch in batches
            for pair in zip(*(column.to_pylist() for column in batch.columns), strict=True)
        )
        written = []
        for _, bundle in groupby(rows, key=itemgetter(0)):
            tables = [pa.ipc.open_stream(data).read_all() for _, data in bundle]
            shares = _written(whole_arrays(tables), buckets, run)
            written += [(share.bucket, share.file, share.count) for share in shares]
        return written

    count = min(_bundles(buckets), PLANNERS)
    sorted_rows = rows.repartition(count, "bundle").sortWithinPartitions("bundle")
    written = sink(sorted_rows, write, run.store(), f"{run.folder}/plan.json")
    return tuple(BucketShare(bucket=b, file=f, count=n) for b, f, n in sorted(written))


def _write_file(run: Run, start: str, table: pa.Table) -> str:
    path = f"{run.folder}/{start}{secrets.token_hex(8)}.parquet"
    buffer = io.BytesIO()
    pq.write_table(table, buffer, compression="zstd")
    run.store().put_if_absent(path, buffer.getvalue())
    return path


class Searched(NamedTuple):
    """The arrays that were found among neighbours."""

    rows: pa.Table
    """As in `inventory_arrays.NAMES`."""
    groups: tuple[str, ...] = ()
    problems: tuple[Unlisted, ...] = ()


def search_flat(part: Neighbours, options: Options) -> Searched:
    """Find the arrays of neighbours."""
    try:
        found = list_flat(part, options.storage_options)
    except ChronotileError:
        found = FlatFound(NAMES.empty_table(), (), part.uris, 0)
    walked = walk(found.left, options)
    rows = pa.concat_tables([found.rows, walked.rows])
    return Searched(rows, (*found.groups, *walked.groups), walked.problems)


def walk(folders: Sequence[str], options: Options) -> Searched:
    """Find the arrays of some folders, one level after the other.

    A folder that cannot be listed is told, and stops no other.
    """
    try:
        found = [find_arrays(folders, options.storage_options, missing_ok=True)]
        problems: list[Unlisted] = []
    except StorageError:
        found, problems = [], []
        for folder in folders:
            try:
                found.append(find_arrays(folder, options.storage_options, missing_ok=True))
            except StorageError as error:
                problems.append(Unlisted(folder, error.problem))
    return Searched(
        unlisted_rows(uri for one in found for uri in one.uris),
        tuple(group for one in found for group in one.groups),
        tuple(sorted([*problems, *(problem for one in found for problem in one.problems)])),
    )
