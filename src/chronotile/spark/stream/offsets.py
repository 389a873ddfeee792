"""What a stream remembers of commits, and fingerprints of listings.

In: names of commits, listings. Out: hashes, and short texts that change with a listing. The name
identifies a commit, never its time: a commit that is dated in the past is new all the same. A
stream keeps 8 bytes of the name's hash: see `batch_plans` and `batch_records`. Knows nothing of
Spark.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import fields
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from chronotile.storage.place import MissingObjectError

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    import numpy.typing as npt

    from chronotile.history.listing import Listing
    from chronotile.storage.store import Entry, Store

Hashes: TypeAlias = "npt.NDArray[np.uint64]"
"""Hashes of commits, sorted, each once."""
Offset: TypeAlias = dict[str, Any]

GRAIN_MS = 3_000
"""A little more than the coarsest resolution of a file's time that is in use."""
NONE = np.empty(0, np.uint64)


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
