"""A put that is believed only after it was read back.

In: a store, a path, bytes. Out: the object is there with these bytes, or an error. Knows nothing
of what the bytes mean.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from chronotile.errors import ChangedError, StorageError
from chronotile.storage.place import MissingObjectError

if TYPE_CHECKING:
    from chronotile.storage.store import Store


def put_compared(store: Store, path: str, data: bytes) -> None:
    """Writes a new object, reads it back and compares.

    Raises:
        ObjectExistsError: The name is taken; the object there stays.
        ChangedError: The object is gone already: somebody else changes the array.
        StorageError: The bytes read back are not the bytes written.

    >>> from chronotile.storage.store import open_store
    >>> store = open_store("memory:doc-put-compared")
    >>> put_compared(store, "__commits/a.ign", b"x")
    >>> store.read("__commits/a.ign")
    b'x'
    """
    store.put_if_absent(path, data)
    try:
        stored = store.read(path, limit=max(len(data), 1) * 2)
    except MissingObjectError as cause:
        problem = "expected what was just written, found it gone: the array is being maintained"
        raise ChangedError(store.uri_of(path), problem) from cause
    if stored != data:
        problem = f"expected the {len(data)} bytes just written, found {len(stored)} others"
        raise StorageError(store.uri_of(path), problem)
