"""A store whose listing is known already, as from an inventory of a bucket.

In: a store, and the objects of an array. Out: a store that lists from these, and asks the storage
for bytes only. It refuses every change: who changes an array looks for himself. Knows no file's
meaning.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, NoReturn

from chronotile.errors import ArrayNotFoundError, StorageError
from chronotile.storage.store import Entry, Folder, Names, Store

if TYPE_CHECKING:
    from collections.abc import Iterable

    from chronotile.storage.bucket import Bucket
    from chronotile.storage.local_disk import Disk


def listed(store: Store, entries: Iterable[Entry], folders: frozenset[str]) -> Store:
    """Give the same store, with a listing of it that is known.

    Args:
        store: Where the array is.
        entries: Its files. A path that ends with a slash says that there is such a folder.
        folders: The folders whose listing is complete; of others the storage is asked.

    >>> from chronotile.storage.store import open_store
    >>> known = [Entry("__schema/s", 3), Entry("__fragments/f/")]
    >>> store = listed(open_store("memory:doc-listed"), known, frozenset({"", "__fragments"}))
    >>> store.list_dir().folders, store.list_names("__fragments").folders
    (('__fragments', '__schema'), ('f',))
    """
    known = replace(store)
    backend = _Listed(store.uri, store._backend, entries, folders)
    object.__setattr__(known, "_backend", backend)
    return known


class _Listed:
    """A backend that knows some folders."""

    def __init__(
        self, uri: str, below: Disk | Bucket, entries: Iterable[Entry], folders: frozenset[str]
    ) -> None:
        self._uri = uri
        self._below = below
        self._files: dict[str, list[Entry]] = {folder: [] for folder in folders}
        self._folders: dict[str, set[str]] = {folder: set() for folder in folders}
        self._entries: dict[str, Entry] = {}
        for entry in entries:
            self._take(entry)
        self.batch = below.batch
        self.concurrency = below.concurrency
        self.check_child = below.check_child
        self.read, self.view = below.read, below.view
        self.read_range, self.read_tail = below.read_range, below.read_tail
        self.walk = below.walk

    def _take(self, entry: Entry) -> None:
        above, _, name = entry.path.rpartition("/")
        if name:
            self._entries[entry.path] = entry
            if above in self._files:
                self._files[above].append(entry)
        while above:
            folder = above
            above = folder.rpartition("/")[0]
            if above in self._folders:
                self._folders[above].add(folder)

    def list_dir(self, path: str, *, sizes: bool) -> Folder:
        """List one level."""
        if path not in self._files:
            return self._below.list_dir(path, sizes=sizes)
        found = Folder(tuple(sorted(self._files[path])), tuple(sorted(self._folders[path])))
        if not path and not found.files and not found.folders:
            raise ArrayNotFoundError(self._uri, "expected objects below it, found none")
        return found

    def list_names(self, path: str) -> Names:
        """List one level as bare names."""
        return self.list_dir(path, sizes=False).bare()

    def change_time(self, path: str) -> None:
        """Give None: a listing does not say when a folder changed."""

    def head(self, path: str) -> Entry:
        """Size and time of one object."""
        return self._entries.get(path) or self._below.head(path)

    def _refuse(self, *_: object) -> NoReturn:
        raise StorageError(self._uri, "expected only reading from a known listing, found a change")

    put = exchange = duplicate = remove = settle = remove_folders = _refuse
