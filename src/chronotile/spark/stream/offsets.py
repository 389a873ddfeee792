"""Which commits a stream has read already.

In: commits, by array. Out: offsets, which Spark keeps in a query's checkpoint. An offset tells
which commits were read before it, and two offsets which belong to a batch. Knows nothing of Spark.

The name identifies a commit, never its time: a commit that is dated in the past is new all the
same. A stream keeps 8 bytes of the name's hash, in one of two places:

- in the offset itself: nothing to set up, but Spark writes the offset with every batch;
- in a folder (option `state`): see `batch_plans` and `batch_records`. A query can go over to it
  at any time. `OlderFolder` reads such a folder as an earlier version has left it.
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Sequence
from dataclasses import fields
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from chronotile.errors import ChronotileError
from chronotile.storage.place import MissingObjectError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    import numpy.typing as npt

    from chronotile.history.listing import Listing
    from chronotile.storage.store import Entry, Store

Hashes: TypeAlias = "npt.NDArray[np.uint64]"
"""Hashes of commits, sorted, each once."""
Seen: TypeAlias = "dict[str, Hashes]"
"""Array -> its commits."""
Offset: TypeAlias = dict[str, Any]

IN_OFFSET_MAX = 100_000
"""Commits that an offset may hold: about 1 MB."""
GRAIN_MS = 3_000
"""A little more than the coarsest resolution of a file's time that is in use."""
SEEN = "seen"
"""The key of an offset that holds all commits itself."""
NONE = np.empty(0, np.uint64)

_SNAPSHOT_EVERY = 64
"""After this many batches an earlier version wrote a file with all commits."""


def hashes(names: Iterable[str]) -> Hashes:
    """The hashes of commits, in the given order.

    >>> hashes(["a.wrt"]) == hashes(["b.wrt", "a.wrt"])[1]
    array([ True])
    """
    digests = (hashlib.blake2b(name.encode(), digest_size=8).digest() for name in names)
    return np.frombuffer(b"".join(digests), "<u8").astype(np.uint64)


def listing_fingerprint(store: Store, listing: Listing, began_ms: int) -> str | None:
    """A short text that changes with any name in a listing, and with any file that is read.

    In a bucket a listing tells sizes and ETags; on a disk this asks each file that is read for its
    size and time.

    Args:
        store: Where the array is.
        listing: The listing of the array.
        began_ms: When reading the array, or listing it, began.

    Returns:
        The fingerprint; None if a file was written after that time, or so shortly before that a
        second change would leave it with the same time.
    """
    stamps = file_stamps(store, listing, began_ms)
    return None if stamps is None else fingerprint_of(listing, stamps)


def file_stamps(store: Store, listing: Listing, began_ms: int) -> dict[str, str] | None:
    """Path of each file that is read -> its size and ETag; none if the listing tells them.

    Returns:
        None if a file was written too late, as in `listing_fingerprint`.
    """
    stamps: dict[str, str] = {}
    for path in () if listing.stamps else listing.read_paths():
        try:
            entry = store.head(path)
        except MissingObjectError:
            return None
        if entry.modified_ms is None or entry.modified_ms > began_ms - GRAIN_MS:
            return None
        stamps[path] = stamp_of(entry)
    return stamps


def stamp_of(entry: Entry) -> str:
    """Size and ETag of a file."""
    return f"{entry.size} {entry.etag}"


def fingerprint_of(listing: Listing, stamps: Mapping[str, str]) -> str:
    """The fingerprint of a listing, and of files with these stamps."""
    digest = hashlib.blake2b(digest_size=16)
    for kind in fields(listing):
        names = getattr(listing, kind.name)
        if isinstance(names, Sequence):
            text = "\n".join((kind.name, *sorted(names), ""))
            digest.update(text.encode("utf-8", "surrogatepass"))
    lines = (f"{path} {stamp}" for path, stamp in stamps.items())
    digest.update("\n".join(lines).encode("utf-8", "surrogatepass"))
    return digest.hexdigest()


def without(commits: Mapping[str, Hashes], known: Mapping[str, Hashes]) -> Seen:
    """The commits that are not known; arrays without any are left out.

    >>> {k: v.tolist() for k, v in without({"a": hashes("xy")}, {"a": hashes("x")}).items()} == {
    ...     "a": hashes("y").tolist()}
    True
    """
    rest = {array: np.setdiff1d(one, known.get(array, NONE)) for array, one in commits.items()}
    return {array: new for array, new in rest.items() if len(new)}


def _with(known: Mapping[str, Hashes], more: Mapping[str, Hashes]) -> Seen:
    return {**known, **{a: np.union1d(known.get(a, NONE), one) for a, one in more.items()}}


def _to_json(seen: Mapping[str, Hashes]) -> dict[str, str]:
    return {
        array: base64.b64encode(commits.astype("<u8").tobytes()).decode()
        for array, commits in sorted(seen.items())
    }


def seen_from_json(document: Mapping[str, str]) -> Seen:
    """The commits in an offset, or in a file of an earlier version."""
    return {
        array: np.frombuffer(base64.b64decode(text), "<u8").astype(np.uint64)
        for array, text in document.items()
    }


class OffsetMemory:
    """Keeps all commits in the offset."""

    def first(self) -> Offset:
        """The offset before all commits."""
        return {SEEN: {}}

    def seen(self, offset: Offset) -> Seen:
        """All commits up to an offset."""
        if SEEN not in offset:
            problem = "expected the folder that this query has used so far, found none"
            raise ChronotileError("option 'state'", problem)
        return seen_from_json(offset[SEEN])

    def plan(self, start: Offset, new: Seen, present: Mapping[str, Hashes] | None = None) -> Offset:
        """Plans a batch of new commits; returns its end.

        Args:
            start: The offset that the batch begins at.
            new: The commits of the batch.
            present: Array -> what is in it now. Once the offset is full, others are forgotten.
        """
        together = _with(self.seen(start), new)
        if _count(together) > IN_OFFSET_MAX and present is not None:
            together = {a: np.intersect1d(h, present.get(a, h)) for a, h in together.items()}
        if (count := _count(together)) > IN_OFFSET_MAX:
            problem = f"expected a folder for {count} commits, found none: an offset holds"
            hint = "start the query again with a folder; it goes on where it is"
            raise ChronotileError("option 'state'", f"{problem} {IN_OFFSET_MAX}; {hint}")
        return {SEEN: _to_json(together)}


def _count(seen: Mapping[str, Hashes]) -> int:
    return sum(map(len, seen.values()))


class OlderFolder:
    """The state of an earlier version: file n holds the commits of batch n."""

    def __init__(self, read: Callable[[str], dict[str, Any] | None]) -> None:
        self._read = read

    def seen(self, number: int) -> Seen:
        """All commits up to a batch: a file that holds many batches, and the files after it."""
        first = number - number % _SNAPSHOT_EVERY
        everything = self._read(f"{first}.all.json") if first else {}
        known = seen_from_json(everything or {})
        for batch in range(first + 1 if everything is not None else 1, number + 1):
            known = _with(known, seen_from_json(self._read(f"{batch}.json") or {}))
        return known
