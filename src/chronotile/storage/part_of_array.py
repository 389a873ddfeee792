"""A part of an array as a store of its own: some of its names, and shorter versions of some files.

In: a store, the names that each folder shall have, and contents that stand in for those of files.
Out: a store that shows this, asks the storage for all else, and refuses every change. Small files
are read once for all parts of an array. Knows no file's meaning.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, NoReturn

from chronotile.errors import StorageError
from chronotile.storage.store import Entry, Folder, Names, Store

if TYPE_CHECKING:
    from collections.abc import Mapping, MutableMapping

    from chronotile.storage.bucket import Bucket
    from chronotile.storage.local_disk import Disk

LEN_SMALL = 1 << 20
"""Bytes of the largest file that is remembered."""


def narrowed(
    store: Store,
    names: Mapping[str, Names],
    contents: Mapping[str, bytes],
    known: MutableMapping[str, memoryview] | None = None,
) -> Store:
    """Give the same store with other names in some folders, and other bytes in some files.

    Args:
        store: Where the array is.
        names: Folder -> what a listing of it shows; of other folders the storage is asked.
        contents: Path -> the bytes of the file.
        known: Small files that were read before; those that are read now are added.

    >>> from chronotile.storage.store import open_store
    >>> store = open_store("memory:doc-narrowed")
    >>> store.put_if_absent("a/b.con", b"long")
    >>> part = narrowed(store, {"a": Names(("b.con",))}, {"a/b.con": b"l"})
    >>> part.list_names("a").files, part.read("a/b.con")
    (('b.con',), b'l')
    """
    part = replace(store)
    backend = _Narrowed(store.uri, store._backend, names, contents, {} if known is None else known)
    object.__setattr__(part, "_backend", backend)
    return part


class _Narrowed:
    """A backend that shows a part."""

    def __init__(
        self,
        uri: str,
        below: Disk | Bucket,
        names: Mapping[str, Names],
        contents: Mapping[str, bytes],
        known: MutableMapping[str, memoryview],
    ) -> None:
        self._uri, self._below = uri, below
        self._names, self._contents, self._known = names, contents, known
        self.batch = below.batch
        self.concurrency = below.concurrency
        self.check_child = below.check_child
        self.walk, self.change_time = below.walk, below.change_time
        self.read_range, self.read_tail = below.read_range, below.read_tail
        self.head = below.head

    def list_dir(self, path: str, *, sizes: bool) -> Folder:
        """List one level."""
        if path not in self._names:
            return self._below.list_dir(path, sizes=sizes)
        names, base = self._names[path], f"{path}/" if path else ""
        files = tuple(sorted(Entry(base + name) for name in names.files))
        return Folder(files, tuple(sorted(base + name for name in names.folders)), names.strangers)

    def list_names(self, path: str) -> Names:
        """List one level as bare names."""
        found = self._names.get(path)
        return self._below.list_names(path) if found is None else found

    def read(self, path: str, limit: int) -> bytes:
        """All bytes of one file."""
        return bytes(self.view(path, limit))

    def view(self, path: str, limit: int) -> memoryview:
        """What `read` gives, not copied."""
        if path in self._contents:
            return memoryview(self._contents[path])
        if path not in self._known:
            data = self._below.view(path, limit)
            if len(data) > LEN_SMALL:
                return data
            self._known[path] = data
        return self._known[path]

    def _refuse(self, *_: object) -> NoReturn:
        raise StorageError(self._uri, "expected only reading from a part, found a change")

    put = exchange = duplicate = remove = settle = remove_folders = _refuse
