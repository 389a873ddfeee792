"""An array whose listing is known, as an inventory has it.

In: a store, and the files of the array. Out: a store that lists nothing, or, if the array has newer
commits than the listing, the plain one. Reads no file.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from chronotile.format.kinds import COMMITS
from chronotile.history.listing import LISTED
from chronotile.storage.overlay import listed

if TYPE_CHECKING:
    from collections.abc import Iterable

    from chronotile.storage.store import Entry, Store


def known_store(store: Store, entries: Iterable[Entry], newer_than: int | None = None) -> Store:
    """The store of an array, with its listing.

    Args:
        store: Where the array is.
        entries: Its files, as in an inventory.
        newer_than: Ask, with one request, for commits dated after this, in ms; None asks nothing.
    """
    # The names of commits begin with their time, so that one short list has the new ones.
    if newer_than is not None and store.list_after(f"__{newer_than}", COMMITS):
        return store
    return listed(store, entries, LISTED)
