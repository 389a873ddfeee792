"""A store that reads a file once.

In: a store of files that never change, as those of a commit log. Out: the same store, which keeps
what it has read, up to a bound. Listings are made anew each time. Knows no file's meaning.
"""

from __future__ import annotations

import threading
from dataclasses import replace
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from chronotile.storage.bucket import Bucket
    from chronotile.storage.local_disk import Disk
    from chronotile.storage.store import Store

MOST_BYTES = 256 << 20
"""What is kept in all; a file that does not fit any more is read again each time."""


def remembering(store: Store) -> Store:
    """Give the same store, which asks the storage for each file once.

    >>> from chronotile.storage.store import open_store
    >>> plain = open_store("memory:doc-remembering")
    >>> plain.put_if_absent("a", b"abc")
    >>> store = remembering(plain)
    >>> store.read("a")
    b'abc'
    >>> plain.remove(["a"])
    >>> store.read("a")
    b'abc'
    """
    known = replace(store)
    object.__setattr__(known, "_backend", _Remembering(store._backend))
    return known


class _Remembering:
    """A backend that keeps what it has read; all else goes to the one below."""

    def __init__(self, below: Disk | Bucket) -> None:
        self._below = below
        self._kept: dict[str, memoryview] = {}
        self._bytes = 0
        self._lock = threading.Lock()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._below, name)

    def view(self, path: str, limit: int) -> memoryview:
        """The bytes of a file."""
        kept = self._kept.get(path)
        if kept is not None and len(kept) <= limit:
            return kept
        data = self._below.view(path, limit)
        with self._lock:
            if path not in self._kept and self._bytes + len(data) <= MOST_BYTES:
                self._kept[path] = data
                self._bytes += len(data)
        return data

    def read(self, path: str, limit: int) -> bytes:
        """The bytes of a file, as a copy."""
        return bytes(self.view(path, limit))
