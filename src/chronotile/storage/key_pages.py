"""Keys of a bucket, a page at a time, from any key on.

In: a store of a bucket, and a name. Out: the next objects below the store, at any depth, in the
order of their keys. One page is one request. Knows no file's meaning.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import obstore

from chronotile.errors import ArrayNotFoundError, StorageError
from chronotile.storage.bucket import Bucket
from chronotile.storage.place import PAGE, MissingObjectError

if TYPE_CHECKING:
    from chronotile.storage.store import Entry, Store

PAGED = frozenset({"s3", "gs", "memory"})
"""Storage that can begin a list at any key: Azure's would send all that come before, too."""

_AS_IT_IS = re.compile(r"[A-Za-z0-9_./=+@:,-]*")


def can_begin_at(name: str) -> bool:
    """Whether a list can begin at a name: other letters would be sent in another form.

    >>> can_begin_at("a/__commits/__1_1_ab_22.wrt"), can_begin_at("a~")
    (True, False)
    """
    return _AS_IT_IS.fullmatch(name) is not None


def page_after(store: Store, name: str) -> tuple[Entry, ...]:
    """The objects behind a name, a page of them; fewer than a page are the last.

    Raises:
        ArrayNotFoundError: There is no such bucket.
        StorageError: The storage refuses, or is none that has pages.

    >>> from chronotile.storage.store import open_store
    >>> store = open_store("memory:doc-page")
    >>> for key in ("a/x", "b/x", "c/y/z"):
    ...     store.put_if_absent(key, b"")
    >>> [entry.path for entry in page_after(store, "a/x")]
    ['b/x', 'c/y/z']
    """
    bucket = store._backend
    if not isinstance(bucket, Bucket) or store.place.scheme not in PAGED:
        raise StorageError(store.uri, "expected storage that lists from a key on, found none")

    def look() -> tuple[Entry, ...]:
        client, prefix = bucket._client(), store.place.root or None
        pages = obstore.list(client, prefix, offset=store.place.join(name), chunk_size=PAGE)
        return tuple(bucket._entry(meta) for meta in next(iter(pages), ()))

    with store._step("list", name):
        try:
            return bucket._tried(name, look)
        except MissingObjectError:
            raise ArrayNotFoundError(store.uri, "expected a bucket, found none") from None
