"""Which task reads which arrays.

In: options, or the places of arrays. Out: for the data source `Share` values, each a few arrays
whose commit files weigh about as much as those of every other share; for the pipeline buckets,
parts of a fleet that stay the same from run to run, and `BucketShare` values, the arrays of a
bucket that one task reads. All are small enough to send around. Lists folders, and opens no file
but those of a plan.

The number of an array's bucket depends on its place alone, so that a later run rewrites only the
buckets in which something has changed.
"""

from __future__ import annotations

import io
import zlib
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple, TypeVar

import pyarrow.parquet as pq

from chronotile.fleet.find_arrays import Fleet, Unlisted, find_arrays
from chronotile.storage.place import Entry, find_place, is_path

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Sequence

    import pyarrow as pa

    from chronotile.fleet.delta_store import Run
    from chronotile.fleet.options import Options


T = TypeVar("T")

ARRAYS_MAX = 256
"""Arrays in one share, however small they are: a lost task has to read them again."""

SHARES_MIN = 4
"""Shares of a small fleet, so that a few cores have work."""
WEIGHT_MIN = 1 << 19
"""Weight of a share that is worth a task of its own."""
GROUPS_MAX = 64
"""Groups that one task lists the members of."""


class Share(NamedTuple):
    """The share of the arrays that one task reads."""

    arrays: tuple[str, ...]
    problems: tuple[Unlisted, ...] = ()
    """Folders that could not be listed: a task turns them into findings."""


def find_fleet(
    options: Options,
    only: Collection[str] | None = None,
    start: str = "",
    *,
    weigh: bool = True,
    most: int | None = None,
    follow: bool = False,
    flat: bool = False,
) -> Fleet:
    """Give the arrays that the options ask for, without those that a filter leaves out.

    Args:
        options: Where to look.
        only: A filter: the arrays that can have rows; nothing else is listed.
        start: A filter: what the places of arrays begin with; what is elsewhere is not listed.
        weigh: Whether to weigh arrays.
        most: Folders to list at most.
        follow: Whether to go to members of groups that lie outside of the roots.
        flat: Whether to leave folders in a bucket for a flat list, where that is cheaper.
    """
    listed = options.arrays is not None
    roots = options.uris() if listed else options.roots
    narrowed = _narrowed(roots, only, start)
    fleet = find_arrays(
        roots if narrowed is None else narrowed,
        options.storage_options,
        weigh=weigh,
        missing_ok=listed or narrowed is not None,
        most=most,
        follow=follow,
        key=options.key,
        flat=flat,
    )
    if only is None and not start:
        return fleet
    arrays = [
        array
        for array in fleet.arrays
        if (only is None or array.uri in only) and array.uri.startswith(start)
    ]
    return fleet._replace(arrays=tuple(arrays), problems=() if only is not None else fleet.problems)


def _narrowed(
    roots: Sequence[str], only: Collection[str] | None, start: str
) -> tuple[str, ...] | None:
    """Give the folders to look in, if filters make them fewer; None if all roots are needed.

    >>> _narrowed(["s3://lake"], None, "s3://lake/group-1/arr")
    ('s3://lake/group-1',)
    >>> _narrowed(["s3://lake/a"], ["s3://lake/a/x", "s3://lake/a/y"], "")
    ('s3://lake/a/x', 's3://lake/a/y')
    """
    if not start and only is None:
        return None
    if any(wild in root for root in roots for wild in "*?["):
        return None
    tops = [find_place(root).uri.rstrip("/") for root in roots]
    wanted = [start.rpartition("/")[0]] if only is None else sorted(only)
    near = [uri for uri in wanted if any(uri == top or uri.startswith(f"{top}/") for top in tops)]
    # A start that is shorter than a root says nothing about what lies below it, and an array that
    # is elsewhere may be the member of a group.
    return tuple(near) if len(near) == len(wanted) else None


def shares(fleet: Fleet, partition_bytes: int) -> tuple[Share, ...]:
    """Split a fleet into shares, in order.

    >>> from chronotile.fleet.find_arrays import Found
    >>> fleet = Fleet((Found("a", 5), Found("b", 5), Found("c", 400)), ())
    >>> [share.arrays for share in shares(fleet, 10)]
    [('a', 'b'), ('c',)]
    """
    total = sum(array.weight for array in fleet.arrays)
    limit = min(partition_bytes, max(total // SHARES_MIN, min(WEIGHT_MIN, total), 1))
    groups = packed(fleet.arrays, ARRAYS_MAX, lambda array: array.weight, limit)
    return _with_problems((tuple(array.uri for array in group) for group in groups), fleet.problems)


def group_shares(fleet: Fleet) -> tuple[Share, ...]:
    """Split the groups of a fleet into shares, for the table `members`.

    >>> [share.arrays for share in group_shares(Fleet((), (), groups=("g", "h")))]
    [('g', 'h')]
    """
    return tuple(map(Share, packed(fleet.groups, GROUPS_MAX)))


def _with_problems(
    groups: Iterable[tuple[str, ...]], problems: tuple[Unlisted, ...]
) -> tuple[Share, ...]:
    return (*map(Share, groups), *((Share((), problems),) if problems else ()))


def packed(
    items: Iterable[T], most: int, weight: Callable[[T], int] = lambda _: 0, limit: int = 0
) -> Iterator[tuple[T, ...]]:
    """Group items in order; only a group of one item can weigh more than the limit.

    Args:
        items: The items.
        most: The largest number of items in a group.
        weight: The weight of an item.
        limit: The largest weight of a group.

    >>> list(packed("abcde", 2))
    [('a', 'b'), ('c', 'd'), ('e',)]
    """
    group: list[T] = []
    total = 0
    for item in items:
        if group and (total + weight(item) > limit or len(group) == most):
            yield tuple(group)
            group, total = [], 0
        group.append(item)
        total += weight(item)
    if group:
        yield tuple(group)


FEWEST = 4
"""Buckets of a small fleet: a task each, for a few cores."""
MOST = 4096
"""Buckets of the largest fleet: the driver holds a few files of each, and nothing of an array."""
ARRAYS_IN_BUCKET = 512
OUTGROWN = 8
"""A fleet that needs this many times more, or fewer, buckets gets new ones."""
NO_BUCKET = -1
"""Of rows that no later run repeats, such as those on folders."""


def bucket_of(array: str, buckets: int) -> int:
    """Give the bucket of an array.

    >>> bucket_of("s3://lake/a", 4) == bucket_of("s3://lake/a", 64) % 4
    True
    """
    return zlib.crc32(array.encode("utf-8", "surrogatepass")) % buckets


class Division(NamedTuple):
    """How a fleet is divided."""

    buckets: int
    arrays: int = 0
    """Arrays that it had when it was divided so; 0 if nobody knows."""


def bucket_count(
    arrays: int, weight: int, bytes_in_bucket: int, before: Division | None = None
) -> int:
    """Give the number of buckets for a fleet, a power of two.

    Args:
        arrays: Arrays of the fleet.
        weight: Bytes that reading all of them costs, or 0 if nobody knows.
        bytes_in_bucket: Bytes that one task should read.
        before: How the last run divided it; the number stays if it is about right. If nobody
            knows the weight, an array is taken to weigh what it did then.

    >>> bucket_count(500, 0, 1), bucket_count(10**7, 0, 1), bucket_count(5000, 0, 1, Division(8))
    (4, 4096, 8)
    >>> heavy = Division(bucket_count(2000, 32 << 20, 1 << 20), 2000)
    >>> heavy.buckets, bucket_count(2100, 0, 1, heavy), bucket_count(20, 0, 1, heavy)
    (32, 32, 4)
    """
    wanted = max(arrays // ARRAYS_IN_BUCKET, weight // bytes_in_bucket, 1)
    if before is not None and not weight:
        wanted = max(wanted, before.buckets * arrays // (before.arrays or max(arrays, 1)))
    count = min(max(1 << (wanted - 1).bit_length(), FEWEST), MOST)
    if before is None:
        return count
    is_right = before.buckets < count * OUTGROWN and count < before.buckets * OUTGROWN
    return before.buckets if is_right else count


def may_share(bucket: int, buckets: int, other: int, others: int) -> bool:
    """Tell whether two buckets, of two ways to divide a fleet, can have an array in common.

    >>> may_share(5, 8, 1, 4), may_share(5, 8, 2, 4), may_share(1, 4, 1, 4)
    (True, False, True)
    """
    smaller = min(buckets, others)
    return other != NO_BUCKET and bucket % smaller == other % smaller


PIECES = 16
"""Pieces of a bucket whose task has died: two such steps find the array that killed it."""

_ENTRY = ("path", "size", "modified_ms", "etag")


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
        """Give the arrays, in order; the file is read as they are asked for."""
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


def _places_in(run: Run, path: str) -> Iterator[Place]:
    file = pq.ParquetFile(io.BytesIO(run.store().read(path)))
    yield from listed_places(file.iter_batches(1 << 16, columns=["array", *_ENTRY]))


def listed_places(batches: Iterable[pa.RecordBatch]) -> Iterator[Place]:
    """Give the arrays of rows as in `inventory_arrays.NAMES`, which come array by array.

    A row without a path says that the listing of its array is not known.
    """
    array: str | None = None
    entries: list[Entry] | None = []
    for batch in batches:
        columns = (batch.column(name).to_pylist() for name in ("array", *_ENTRY))
        for uri, *words in zip(*columns, strict=True):
            if uri != array:
                if array is not None:
                    yield Place(array, None if entries is None else tuple(entries))
                array, entries = uri, []
            if words[0] is None:
                entries = None
                continue
            # A name out of bounds is no part of an array, and never a path.
            if entries is not None and is_path(str(words[0]).removesuffix("/")):
                entries.append(Entry(*words))
    if array is not None:
        yield Place(array, None if entries is None else tuple(entries))
