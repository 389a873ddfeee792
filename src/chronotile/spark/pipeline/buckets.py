"""Buckets: a fleet in parts that stay the same from run to run.

In: the place of an array. Out: the number of its bucket, which depends on nothing else. A task
reads one bucket and writes its files, so that a later run rewrites only the buckets in which
something has changed. Touches no storage.
"""

from __future__ import annotations

import zlib
from typing import NamedTuple

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
    """The bucket of an array.

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
    """The number of buckets for a fleet, a power of two.

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
    """Whether two buckets, of two ways to divide a fleet, can have an array in common.

    >>> may_share(5, 8, 1, 4), may_share(5, 8, 2, 4), may_share(1, 4, 1, 4)
    (True, False, True)
    """
    smaller = min(buckets, others)
    return other != NO_BUCKET and bucket % smaller == other % smaller
