"""The plan of a run: which task of the pipeline reads which bucket.

In: options. Out: `FleetPlan`: a share for each bucket that has arrays. The driver lists the top of
the fleet. If that is not all of it, tasks go on from there, and leave what they find in files, one
for each bucket: the driver then knows how many arrays there are, and no array by name.
"""

from __future__ import annotations

import io
import secrets
from dataclasses import dataclass
from functools import partial
from itertools import groupby, islice
from operator import itemgetter
from typing import TYPE_CHECKING, Any, NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq

from chronotile.dataset.find_arrays import Unlisted, find_arrays
from chronotile.spark.buckets import bucket_count, bucket_of
from chronotile.spark.frames import collected, rows_in_tasks
from chronotile.spark.shares import find_fleet
from chronotile.spark.surviving_tasks import Results, run_job
from chronotile.storage.place import Entry

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from pyspark.sql import DataFrame, SparkSession

    from chronotile.dataset.find_arrays import Fleet
    from chronotile.spark.options import Options
    from chronotile.spark.runs import Run

IN_DRIVER = 4096
"""Folders that the driver lists by itself: a fleet of about as many arrays needs no task for it."""
GROUPS = 512
"""Tasks that search for arrays, at most."""
PIECES = 16
"""Pieces of a bucket whose task has died: two such steps find the array that killed it."""
PROBLEMS_MAX = 1000
"""Folders that cannot be listed, of which the driver hears; more of them end the run."""

PLAN = pa.schema(
    [
        ("bucket", pa.int64()),
        ("array", pa.string()),
        ("path", pa.string()),
        ("size", pa.int64()),
        ("modified_ms", pa.int64()),
        ("etag", pa.string()),
    ]
)
"""A row of a plan: an array, or one of its files if a listing of them is at hand."""
_TOLD = pa.schema([("bucket", pa.int64()), ("file", pa.string()), ("arrays", pa.int64())])
_ROWS_IN_GROUP = 1 << 16


class Place(NamedTuple):
    """An array of a share, and its files if a listing of them is at hand."""

    uri: str
    entries: tuple[Entry, ...] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class BucketShare:
    """The arrays of a bucket, or some of them."""

    bucket: int
    arrays: tuple[str, ...] = ()
    """Their places, if the driver knows them; else a file has them."""
    file: str | None = None
    start: int = 0
    count: int = 0
    """Which arrays of the file, in order."""

    @property
    def size(self) -> int:
        """The number of arrays."""
        return len(self.arrays) or self.count

    def places(self, run: Run) -> Iterator[Place]:
        """The arrays, in order; the file is read as they are asked for."""
        if self.file is None:
            yield from map(Place, self.arrays)
            return
        for number, place in enumerate(_places_in(run, self.file)):
            if number >= self.start + self.count:
                return
            if number >= self.start:
                yield place

    def split(self) -> tuple[BucketShare, ...]:
        """Cuts a share into up to 16 pieces; a share of one array has none.

        >>> [one.arrays for one in BucketShare(bucket=0, arrays=("a", "b")).split()]
        [('a',), ('b',)]
        """
        if self.size < 2:
            return ()
        step = -(-self.size // PIECES)
        starts = range(0, self.size, step)
        if self.file is None:
            pieces = (self.arrays[start : start + step] for start in starts)
            return tuple(BucketShare(bucket=self.bucket, arrays=piece) for piece in pieces)
        return tuple(
            BucketShare(
                bucket=self.bucket,
                file=self.file,
                start=self.start + start,
                count=min(step, self.count - start),
            )
            for start in starts
        )


class FleetPlan(NamedTuple):
    """Everything that the driver knows of a fleet."""

    buckets: int
    shares: tuple[BucketShare, ...]
    arrays: int
    problems: tuple[Unlisted, ...]


def plan_fleet(
    spark: SparkSession,
    options: Options,
    run: Run,
    before: int | None,
    progress: Callable[[int, int], None],
    *,
    follow: bool = False,
) -> FleetPlan:
    """Finds the arrays of a fleet, and divides them.

    Args:
        spark: The session that searches, if the fleet is large.
        options: Where the arrays are.
        run: The run, for files of the plan.
        before: The number of buckets in the last run, if this one uses its tables.
        progress: Called now and then with (tasks done, all tasks).
        follow: Go to members of groups outside of the roots too, if the driver alone can search.
            Tasks, each with folders of its own, would find one member several times.

    Raises:
        ArrayNotFoundError: A root does not exist.
        StorageError: A root cannot be listed.
    """
    fleet = find_fleet(options, weigh=before is None, most=IN_DRIVER)
    if not fleet.left:
        if follow and fleet.groups:
            fleet = find_fleet(options, weigh=before is None, follow=True)
        return _plan_here(fleet, options.partition_bytes, before)
    return _Search(spark, options, run).plan(fleet, before, progress)


def _plan_here(fleet: Fleet, partition_bytes: int, before: int | None) -> FleetPlan:
    weight = sum(array.weight for array in fleet.arrays)
    buckets = bucket_count(len(fleet.arrays), weight, partition_bytes, before)
    arrays: dict[int, list[str]] = {}
    for uri in fleet.uris:
        arrays.setdefault(bucket_of(uri, buckets), []).append(uri)
    shares = [BucketShare(bucket=one, arrays=tuple(arrays[one])) for one in sorted(arrays)]
    return FleetPlan(buckets, tuple(shares), len(fleet.arrays), fleet.problems)


class _FoundFile(NamedTuple):
    """What one task of the search found."""

    file: str
    arrays: int
    problems: tuple[Unlisted, ...] = ()


class _Search:
    """A search by tasks."""

    def __init__(self, spark: SparkSession, options: Options, run: Run) -> None:
        self._spark, self._options, self._run = spark, options, run

    def plan(
        self, top: Fleet, before: int | None, progress: Callable[[int, int], None]
    ) -> FleetPlan:
        groups = [top.left[start::GROUPS] for start in range(min(GROUPS, len(top.left)))]
        work = partial(_search, options=self._options, run=self._run)
        results = Results(self._run.store(), f"{self._run.staging}/results")
        found = run_job(self._spark, work, groups, progress, results)
        found.append(_FoundFile(_write_found(self._run, top.uris), len(top.arrays), top.problems))
        problems = tuple(sorted(problem for one in found for problem in one.problems))
        arrays = sum(one.arrays for one in found)
        buckets = bucket_count(arrays, 0, 1, before)
        rows = self._rows([one.file for one in found], buckets)
        return FleetPlan(buckets, write_plan(rows, buckets, self._run), arrays, problems)

    def _rows(self, files: list[str], buckets: int) -> DataFrame:
        run = self._run

        def read(number: int) -> Iterator[tuple[Any, ...]]:
            found = pq.read_table(io.BytesIO(run.store().read(files[number])))
            for uri in found["array"].to_pylist():
                yield bucket_of(uri, buckets), uri, None, None, None, None

        return rows_in_tasks(self._spark, len(files), read, PLAN)


def _search(folders: tuple[str, ...], options: Options, run: Run) -> _FoundFile:
    fleet = find_arrays(folders, options.storage_options, missing_ok=True)
    problems = fleet.problems[:PROBLEMS_MAX]
    return _FoundFile(_write_found(run, fleet.uris), len(fleet.arrays), problems)


def _write_found(run: Run, uris: Iterable[str]) -> str:
    path = f"{run.staging}/found/{secrets.token_hex(8)}.parquet"
    buffer = io.BytesIO()
    pq.write_table(pa.table({"array": pa.array([*uris], pa.string())}), buffer)
    run.store().put_if_absent(path, buffer.getvalue())
    return path


def write_plan(rows: DataFrame, buckets: int, run: Run) -> tuple[BucketShare, ...]:
    """Brings the rows of each bucket together, and leaves them in a file for each.

    Args:
        rows: Rows as in `PLAN`, in any order.
        buckets: The number of buckets.
        run: The run; its staging folder gets the files.
    """

    def write(given: Iterator[tuple[Any, ...]]) -> Iterator[tuple[Any, ...]]:
        # Rows come in the order of their buckets.
        for bucket, own in groupby(given, key=itemgetter(0)):
            file = _PlanFile(run, bucket)
            while group := list(islice(own, _ROWS_IN_GROUP)):
                file.add(group)
            yield file.end()

    order = ("bucket", "array", "path")
    told = collected(rows.repartition(buckets, "bucket").sortWithinPartitions(*order), write, _TOLD)
    return tuple(BucketShare(bucket=row[0], file=row[1], count=row[2]) for row in sorted(told))


class _PlanFile:
    """The file of one bucket, while it is written."""

    def __init__(self, run: Run, bucket: int) -> None:
        self._run, self._bucket = run, bucket
        self._buffer = io.BytesIO()
        self._writer = pq.ParquetWriter(self._buffer, PLAN, compression="zstd")
        self._arrays, self._last = 0, None

    def add(self, rows: list[tuple[Any, ...]]) -> None:
        columns = zip(*rows, strict=True)
        arrays = [pa.array(column, field.type) for column, field in zip(columns, PLAN, strict=True)]
        for uri in arrays[1].unique().to_pylist():
            self._arrays += uri != self._last
            self._last = uri
        self._writer.write_batch(pa.record_batch(arrays, schema=PLAN))

    def end(self) -> tuple[int, str, int]:
        self._writer.close()
        path = f"{self._run.staging}/plan/{self._bucket:04d}-{secrets.token_hex(8)}.parquet"
        self._run.store().put_if_absent(path, self._buffer.getvalue())
        return self._bucket, path, self._arrays


def _places_in(run: Run, path: str) -> Iterator[Place]:
    file = pq.ParquetFile(io.BytesIO(run.store().read(path)))
    array: str | None = None
    entries: list[Entry] = []
    for batch in file.iter_batches(1 << 16, columns=PLAN.names[1:]):
        for uri, *words in zip(*(column.to_pylist() for column in batch.columns), strict=True):
            if uri != array:
                if array is not None:
                    yield Place(array, tuple(entries) or None)
                array, entries = uri, []
            if words[0] is not None:
                entries.append(Entry(*words))
    if array is not None:
        yield Place(array, tuple(entries) or None)
