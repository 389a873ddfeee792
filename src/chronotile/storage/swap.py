"""One object whose content is exchanged at once.

In: a store, a path, the bytes that are there and those that shall be. Out: the object with the
new bytes; a reader sees all of the old or all of the new ones. Everything else is put only where
nothing is yet: `store` does that.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import obstore

from chronotile.errors import ChangedError
from chronotile.storage.bucket import Bucket
from chronotile.storage.local_disk import Disk
from chronotile.storage.place import MissingObjectError
from chronotile.storage.unnamed_file import unnamed_file

if TYPE_CHECKING:
    from chronotile.storage.store import Store


def swap(store: Store, path: str, old: bytes, new: bytes) -> None:
    """Exchange the content of an object, and compare it.

    Raises:
        ChangedError: The object is gone, or holds other bytes.

    >>> from chronotile.storage.store import open_store
    >>> store = open_store("memory:doc-swap")
    >>> store.put_if_absent("a", b"1")
    >>> swap(store, "a", b"1", b"22")
    >>> store.read("a")
    b'22'
    """
    where = store.uri_of(path)
    _refuse_other(store, path, (old, new))
    with store._step("put", path):
        backend = store._backend
        if isinstance(backend, Disk):
            _replace(backend, store._checked(path), new)
        elif isinstance(backend, Bucket):
            key = backend._place.join(store._checked(path))
            client = backend._client()
            backend._tried(path, lambda: obstore.put(client, key, new, use_multipart=False))
        else:
            raise ChangedError(where, "expected only a plan, found a change")
    _refuse_other(store, path, (new,))


def _refuse_other(store: Store, path: str, known: tuple[bytes, ...]) -> None:
    try:
        found = store.read(path, limit=max(map(len, known)) * 2 + 1024)
    except MissingObjectError:
        problem = "expected it to stay, found it gone: the array is being maintained"
        raise ChangedError(store.uri_of(path), problem) from None
    if found not in known:
        raise ChangedError(store.uri_of(path), "expected it as it was put, found other bytes")


def _replace(disk: Disk, path: str, data: bytes) -> None:
    parent, _, name = path.rpartition("/")
    with (
        disk._in("", path) as root,
        unnamed_file(root, (data,)) as file,
        disk._in(parent, path) as folder,
    ):
        file.replace(name, folder)
        os.fsync(folder)
