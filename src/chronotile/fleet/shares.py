"""Which task reads which arrays.

In: rows of listings, as in `inventory.NAMES`. Out: parts of the fleet, which stay the same from
run to run, and `Share` values, the arrays of a part that one task reads. All are small enough to
send around. Opens no file but those of a plan.

The number of an array's part depends on its place alone, so that a later run rewrites only the
parts in which something has changed.
"""

from __future__ import annotations

import io
import zlib
from dataclasses import dataclass, replace
from itertools import chain, groupby, islice, pairwise
from operator import itemgetter
from typing import TYPE_CHECKING, NamedTuple, TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from chronotile.storage.place import Entry, is_path

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from chronotile.fleet.delta_store import Run
    from chronotile.fleet.find_arrays import Unlisted


T = TypeVar("T")

_ENTRY = ("path", "size", "modified_ms", "etag")


class ListedArray(NamedTuple):
    """An array of a share, and its files if a listing of them is at hand."""

    uri: str
    entries: tuple[Entry, ...] | None = None


def listed_places(batches: Iterable[pa.RecordBatch]) -> Iterator[ListedArray]:
    """Give the arrays of rows as in `inventory.NAMES`, which come array by array.

    A row without a path says that the listing of its array is not known.
    """
    names = ("array", *_ENTRY)
    columns = ([batch.column(name).to_pylist() for name in names] for batch in batches)
    rows = chain.from_iterable(zip(*one, strict=True) for one in columns)
    for array, own in groupby(rows, itemgetter(0)):
        entries = [Entry(*words) for _, *words in own]
        if any(one.path is None for one in entries):
            yield ListedArray(array)
        else:
            # A name out of bounds is no part of an array, and never a path.
            inside = (one for one in entries if is_path(one.path.removesuffix("/")))
            yield ListedArray(array, tuple(inside))


def to_stream(rows: pa.Table) -> bytes:
    """Give rows as an Arrow stream, compressed."""
    sink, options = io.BytesIO(), pa.ipc.IpcWriteOptions(compression="lz4")
    with pa.ipc.new_stream(sink, rows.schema, options=options) as stream:
        stream.write_table(rows.combine_chunks(), max_chunksize=1 << 16)
    return sink.getvalue()


def packed(items: Iterable[T], most: int) -> Iterator[tuple[T, ...]]:
    """Group items in order, so many in each group."""
    waiting = iter(items)
    while group := tuple(islice(waiting, most)):
        yield group


FEWEST = 4
"""Parts of a small fleet: a task each, for a few cores."""
MOST = 4096
"""Parts of the largest fleet: the driver holds a few files of each, and nothing of an array."""
ARRAYS_IN_PART = 256
OUTGROWN = 8
"""A fleet that needs this many times more, or fewer, parts gets new ones."""
NO_PART = -1
"""Of rows that no later run repeats, such as those on folders."""


def part_of(array: str, parts: int) -> int:
    """Give the part of an array.

    >>> part_of("s3://lake/a", 4) == part_of("s3://lake/a", 64) % 4
    True
    """
    return zlib.crc32(array.encode("utf-8", "surrogatepass")) % parts


def by_part(rows: pa.Table, parts: int) -> Iterator[tuple[int, pa.Table]]:
    """Give the rows of the arrays of each part that has some, in their order."""
    arrays = rows["array"].combine_chunks().dictionary_encode()
    of_array = [part_of(uri, parts) for uri in arrays.dictionary.to_pylist()]
    part = pa.array(of_array, pa.int64()).take(arrays.indices).to_numpy()
    order = np.argsort(part, kind="stable")
    rows, part = rows.take(pa.array(order)), part[order]
    starts = np.flatnonzero(np.diff(part, prepend=-1)).tolist()
    for start, end in pairwise([*starts, len(part)]):
        yield int(part[start]), rows.slice(start, end - start)


def count_arrays(rows: pa.Table) -> int:
    """Count the arrays among some rows."""
    count: int = pc.count_distinct(rows["array"]).as_py()
    return count


def part_count(arrays: int, before: int | None = None) -> int:
    """Give the number of parts for a fleet, a power of two; that of before, if it is about right.

    >>> part_count(500), part_count(10**7), part_count(5000, 8)
    (4, 4096, 8)
    """
    wanted = max(-(-arrays // ARRAYS_IN_PART), 1)
    count = min(max(1 << (wanted - 1).bit_length(), FEWEST), MOST)
    is_right = before is not None and before < count * OUTGROWN and count < before * OUTGROWN
    return before if before is not None and is_right else count


def may_share(part: int, parts: int, other: int, others: int) -> bool:
    """Tell whether two parts, of two ways to divide a fleet, can have an array in common.

    >>> may_share(5, 8, 1, 4), may_share(5, 8, 2, 4), may_share(1, 4, 1, 4)
    (True, False, True)
    """
    smaller = min(parts, others)
    return other != NO_PART and part % smaller == other % smaller


PIECES = 16
"""Pieces of a part whose task has died: two such steps find the array that killed it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Share:
    """The arrays that one task reads: those of a part, or some of them."""

    part: int = NO_PART
    listings: bytes = b""
    """Rows as in `inventory.NAMES`, as an Arrow stream, if the driver knows them."""
    file: str | None = None
    """Else a file of the run has them."""
    start: int = 0
    count: int = 0
    """Which of these arrays, in order."""
    problems: tuple[Unlisted, ...] = ()
    """Folders that could not be listed: a task of the data source turns them into findings."""
    fresh_ms: int | None = None
    """Look for commits that are newer than this, which the listings may lack."""

    def places(self, run: Run | None = None) -> tuple[ListedArray, ...]:
        """Give the arrays, in order; those in a file need the run."""
        data = self.listings
        if self.file is not None:
            assert run is not None
            data = run.store().read(self.file)
        listed = listed_places(pa.ipc.open_stream(data)) if data else iter(())
        return tuple(islice(listed, self.start, self.start + self.count))

    def split(self) -> tuple[Share, ...]:
        """Cut a share into up to 16 pieces; a share of one array has none.

        >>> [(one.start, one.count) for one in Share(part=0, file="f", count=3).split()]
        [(0, 1), (1, 1), (2, 1)]
        """
        if self.count < 2:
            return ()
        step = -(-self.count // PIECES)
        return tuple(
            replace(self, start=self.start + first, count=min(step, self.count - first))
            for first in range(0, self.count, step)
        )


def shares(
    rows: pa.Table, parts: int | None = None, fresh_ms: int | None = None
) -> tuple[Share, ...]:
    """Divide rows of listings by part; into as many as suit them, unless a number is given.

    >>> rows = pa.table({"array": list("aab"), **{name: pa.nulls(3) for name in _ENTRY}})
    >>> sorted(place.uri for share in shares(rows) for place in share.places())
    ['a', 'b']
    """
    return tuple(
        Share(part=n, listings=to_stream(own), count=count_arrays(own), fresh_ms=fresh_ms)
        for n, own in by_part(rows, parts or part_count(count_arrays(rows)))
    )
