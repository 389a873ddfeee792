"""A store as it would be with other files, with a known listing, or with a memory.

In: a store, and what is known or supposed of it. Out: a store that shows this, asks the storage for
the rest, and refuses every change. Knows no file's meaning.
"""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING, NoReturn

from chronotile.errors import ArrayNotFoundError, StorageError
from chronotile.storage.place import Entry, Folder, Names

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping

    from chronotile.storage.backend import Backend
    from chronotile.storage.store import Store

MOST_BYTES = 256 << 20
"""What a memory keeps in all; a file that does not fit any more is read again each time."""


def overlaid(store: Store, files: Mapping[str, bytes], *, without: Collection[str] = ()) -> Store:
    """Give the same store with these files in it, and without others, to plan a second step.

    A store that is made from it, as by `child`, does not have the files.

    >>> from chronotile.storage.store import open_store
    >>> store = open_store("memory:doc-overlay")
    >>> store.put_if_absent("__commits/a.wrt", b"")
    >>> shown = overlaid(store, {"__commits/b.con": b"x"})
    >>> sorted(shown.list_names("__commits").files), shown.read("__commits/b.con")
    (['a.wrt', 'b.con'], b'x')
    >>> shown.remove(["__commits/a.wrt"])
    Traceback (most recent call last):
    chronotile.errors.StorageError: memory://doc-overlay: expected only reading, found a change
    """
    return store.over(_Overlay(store, added=files, gone=without))


def listed(store: Store, entries: Iterable[Entry], folders: Collection[str]) -> Store:
    """Give the same store with a listing that is known, as from an inventory of a bucket.

    A path that ends with a slash says that there is such a folder. `folders` are those whose
    listing is complete; of others the storage is asked.

    >>> from chronotile.storage.store import open_store
    >>> known = [Entry("__schema/s", 3), Entry("__fragments/f/")]
    >>> store = listed(open_store("memory:doc-listed"), known, {"", "__fragments"})
    >>> store.list_dir().folders, store.list_names("__fragments").folders
    (('__fragments', '__schema'), ('f',))
    """
    return store.over(_Overlay(store, entries=entries, folders=folders))


def remembering(store: Store) -> Store:
    """Give the same store, which reads each file once, as those of a commit log never change.

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
    return store.over(_Overlay(store, remembers=True))


class _Overlay:
    """A backend over another one."""

    def __init__(
        self,
        store: Store,
        *,
        added: Mapping[str, bytes] | None = None,
        gone: Collection[str] = (),
        entries: Iterable[Entry] = (),
        folders: Collection[str] = (),
        remembers: bool = False,
    ) -> None:
        self._uri = store.uri
        self._below: Backend = store.backend
        self._added = dict(added or {})
        self._gone = frozenset(gone)
        self._made_ms = time.time_ns() // 1_000_000
        self._known, self._entries = _folders_of(entries, folders)
        self._most_bytes = MOST_BYTES if remembers else 0
        self._kept: dict[str, bytes | memoryview] = {}
        self._lock = threading.Lock()
        below = self._below
        self.traits = below.traits
        self.check_child, self.newest_ms = below.check_child, below.newest_ms
        self.list_files, self.list_after = below.list_files, below.list_after
        self.can_list_after = below.can_list_after
        self.linked_elsewhere = below.linked_elsewhere
        self.keeps_versions = below.keeps_versions

    def _added_to(self, path: str, *, deep: bool = False) -> list[Entry]:
        base = f"{path}/" if path else ""
        return [
            Entry(name, len(data), self._made_ms)
            for name, data in self._added.items()
            if name.startswith(base) and (deep or "/" not in name[len(base) :])
        ]

    def _merged(self, folder: Folder, added: list[Entry]) -> Folder:
        if not added and not self._gone:
            return folder
        there = [entry for entry in folder.files if entry.path not in self._gone]
        by_path = {entry.path: entry for entry in (*there, *added)}
        return folder._replace(files=tuple(sorted(by_path.values())))

    def list_dir(self, path: str, *, sizes: bool) -> Folder:
        known = self._known.get(path)
        if known == Folder() and not path:
            raise ArrayNotFoundError(self._uri, "expected objects below it, found none")
        folder = self._below.list_dir(path, sizes=sizes) if known is None else known
        return self._merged(folder, self._added_to(path))

    def walk(self, path: str) -> Folder:
        folder = self._below.walk(path)
        return self._merged(folder, self._added_to(path, deep=True))

    def list_names(self, path: str) -> Names:
        if path in self._known:
            return self.list_dir(path, sizes=False).bare()
        names, added = self._below.list_names(path), self._added_to(path)
        gone = {p.rpartition("/")[2] for p in self._gone if p.rpartition("/")[0] == path}
        if not added and not gone:
            return names
        files = set(names.files) - gone
        files |= {entry.path.rpartition("/")[2] for entry in added}
        return Names(tuple(files), names.folders, names.strangers)

    def change_time(self, path: str) -> int | None:
        is_other = path in self._known or self._gone or self._added_to(path)
        return None if is_other else self._below.change_time(path)

    def head(self, path: str) -> Entry:
        if path in self._added:
            return Entry(path, len(self._added[path]), self._made_ms)
        return self._entries.get(path) or self._below.head(path)

    def read(self, path: str, limit: int) -> bytes | memoryview:
        if path in self._added:
            return self._added[path]
        kept = self._kept.get(path)
        if kept is not None and len(kept) <= limit:
            return kept
        data = self._below.read(path, limit)
        with self._lock:
            if len(data) <= self._most_bytes and path not in self._kept:
                self._kept[path] = data
                self._most_bytes -= len(data)
        return data

    def read_range(self, path: str, start: int, end: int, size: int | None = None) -> bytes:
        data = self._added.get(path)
        return self._below.read_range(path, start, end, size) if data is None else data[start:end]

    def read_tail(self, path: str, length: int, size: int | None) -> tuple[bytes, int]:
        data = self._added.get(path)
        if data is None:
            return self._below.read_tail(path, length, size)
        return data[max(len(data) - length, 0) :], len(data)

    def open_folder(self, path: str) -> None:
        """Give None: a descriptor would show the storage below."""

    def may_link(self, other: Backend) -> bool:  # noqa: ARG002 - whatever it is
        """Say no: a plan links nothing."""
        return False

    def _refuse(self, *_: object) -> NoReturn:
        raise StorageError(self._uri, "expected only reading, found a change")

    put = put_parts = exchange = remove = remove_folders = sync_names = _refuse
    take = link_folder = make_folder = _refuse


def _folders_of(
    entries: Iterable[Entry], known: Collection[str]
) -> tuple[dict[str, Folder], dict[str, Entry]]:
    """Sort entries into the folders that are known; give also each file by its path."""
    files: dict[str, list[Entry]] = {folder: [] for folder in known}
    folders: dict[str, set[str]] = {folder: set() for folder in known}
    by_path: dict[str, Entry] = {}
    for entry in entries:
        above, _, name = entry.path.rpartition("/")
        if name:
            by_path[entry.path] = entry
            if above in files:
                files[above].append(entry)
        while above:
            folder = above
            above = folder.rpartition("/")[0]
            if above in folders:
                folders[above].add(folder)
    return {
        folder: Folder(tuple(sorted(files[folder])), tuple(sorted(folders[folder])))
        for folder in known
    }, by_path
