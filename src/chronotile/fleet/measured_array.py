"""An array to be read together with its listing: one that is made now, or one that is known.

In: a store, and perhaps the files of the array, as an inventory has them. Out: the store to read
the array from, and its files with their sizes. In a bucket one flat listing gives both; on a disk
each file is asked for its size. Reads no file.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from chronotile.errors import ArrayNotFoundError, StorageError
from chronotile.format.kinds import COMMITS
from chronotile.history.listing import LISTED, MEASURED
from chronotile.storage.overlay import listed

if TYPE_CHECKING:
    from collections.abc import Iterable

    from chronotile.storage.store import Entry, Store


class MeasuredArray(NamedTuple):
    """Where to read an array, and what it takes."""

    store: Store
    entries: tuple[Entry, ...] | None
    """As `measure` gives them; None if a folder cannot be listed: the log may be readable."""


def measure_array(store: Store) -> MeasuredArray:
    """List the files of an array with their sizes.

    >>> from chronotile.storage.store import open_store
    >>> store = open_store("memory:doc-measure-array")
    >>> store.put_if_absent("__schema/s", b"abc")
    >>> [entry[:2] for entry in measure_array(store).entries]
    [('__schema/s', 3)]
    """
    try:
        entries = store.measure(MEASURED)
    except (ArrayNotFoundError, StorageError):
        return MeasuredArray(store, None)  # who reads the log gets the error, if it matters there
    if store.traits.pace == "quick":
        return MeasuredArray(store, entries)
    return MeasuredArray(listed(store, entries, LISTED), entries)


def known_store(store: Store, entries: Iterable[Entry], newer_than: int | None = None) -> Store:
    """Give the store of an array, with its listing.

    Args:
        store: Where the array is.
        entries: Its files, as in an inventory.
        newer_than: Ask, with one request, for commits dated after this, in ms; None asks nothing.
    """
    # The names of commits begin with their time, so that one short list has the new ones.
    if newer_than is not None and store.list_after(f"__{newer_than}", COMMITS):
        return store
    return listed(store, entries, LISTED)
