"""The arrays of a bucket that one task of the pipeline reads.

In: places, or a file of the plan that has them. Out: the places one by one, each with the listing
of its array if that is known; the same in pieces, for a task that has died. Reads only the plan.
"""

from __future__ import annotations

import io
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import pyarrow.parquet as pq

from chronotile.storage.place import Entry, is_path

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    import pyarrow as pa

    from chronotile.spark.pipeline.delta_store import Run

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


def _places_in(run: Run, path: str) -> Iterator[Place]:
    file = pq.ParquetFile(io.BytesIO(run.store().read(path)))
    yield from listed_places(file.iter_batches(1 << 16, columns=["array", *_ENTRY]))


def listed_places(batches: Iterable[pa.RecordBatch]) -> Iterator[Place]:
    """The arrays of rows as in `inventory_arrays.NAMES`, which come array by array.

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
