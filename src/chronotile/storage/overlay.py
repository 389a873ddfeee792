"""An array as it would be with some more files in it, and without some others.

In: a store, files that it does not have, and paths that shall be gone. Out: a store that shows
this, and refuses every change. It serves a plan: what a second step would do after the first.
Knows no file's meaning.
"""

from __future__ import annotations

import time
from dataclasses import replace
from typing import TYPE_CHECKING, NoReturn

from chronotile.errors import StorageError
from chronotile.storage.store import Entry, Folder, Names, Store

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from chronotile.storage.bucket import Bucket
    from chronotile.storage.local_disk import Disk


def overlaid(store: Store, files: Mapping[str, bytes], *, without: Collection[str] = ()) -> Store:
    """Give the same store with these files in it, and without others; it refuses every change.

    A store that is made from it, as by `child`, does not have the files.

    >>> from chronotile.storage.store import open_store
    >>> store = open_store("memory:doc-overlay")
    >>> store.put_if_absent("__commits/a.wrt", b"")
    >>> shown = overlaid(store, {"__commits/b.con": b"x"})
    >>> sorted(shown.list_names("__commits").files), shown.read("__commits/b.con")
    (['a.wrt', 'b.con'], b'x')
    >>> shown.remove(["__commits/a.wrt"])
    Traceback (most recent call last):
    chronotile.errors.StorageError: memory://doc-overlay: expected only a plan, found a change
    """
    plan = replace(store)
    object.__setattr__(plan, "_backend", _Overlay(plan.uri, store._backend, dict(files), without))
    return plan


class _Overlay:
    """A backend with some files added, and others hidden from its listings."""

    def __init__(
        self,
        uri: str,
        below: Disk | Bucket,
        files: dict[str, bytes],
        without: Collection[str],
    ) -> None:
        self._uri = uri
        self._below = below
        self._files = files
        self._gone = frozenset(without)
        self._made_ms = time.time_ns() // 1_000_000
        self.batch = below.batch
        self.concurrency = below.concurrency
        self.check_child = below.check_child
        self.newest_ms = below.newest_ms

    def _added(self, path: str, *, deep: bool = False) -> list[Entry]:
        base = f"{path}/" if path else ""
        return [
            Entry(name, len(data), self._made_ms)
            for name, data in self._files.items()
            if name.startswith(base) and (deep or "/" not in name[len(base) :])
        ]

    def _merged(self, listed: Folder, added: list[Entry]) -> Folder:
        there = [entry for entry in listed.files if entry.path not in self._gone]
        by_path = {entry.path: entry for entry in (*there, *added)}
        return listed._replace(files=tuple(sorted(by_path.values())))

    def list_dir(self, path: str, *, sizes: bool) -> Folder:
        """List one level."""
        return self._merged(self._below.list_dir(path, sizes=sizes), self._added(path))

    def walk(self, path: str, *, sizes: bool) -> Folder:
        """List all levels."""
        return self._merged(self._below.walk(path, sizes=sizes), self._added(path, deep=True))

    def list_names(self, path: str) -> Names:
        """List one level as bare names."""
        listed, added = self._below.list_names(path), self._added(path)
        gone = {p.rpartition("/")[2] for p in self._gone if p.rpartition("/")[0] == path}
        if not added and not gone:
            return listed
        names = set(listed.files) - gone
        names |= {entry.path.rpartition("/")[2] for entry in added}
        return Names(tuple(names), listed.folders, listed.strangers)

    def change_time(self, path: str) -> int | None:
        """The change time of a folder; None if files were added to it or hidden."""
        return None if self._added(path) or self._gone else self._below.change_time(path)

    def head(self, path: str) -> Entry:
        """Size and time of one file."""
        data = self._files.get(path)
        return self._below.head(path) if data is None else Entry(path, len(data), self._made_ms)

    def read(self, path: str, limit: int) -> bytes:
        """All bytes of one file."""
        data = self._files.get(path)
        return self._below.read(path, limit) if data is None else data

    def view(self, path: str, limit: int) -> memoryview:
        """What `read` gives, as a view."""
        data = self._files.get(path)
        return self._below.view(path, limit) if data is None else memoryview(data)

    def read_range(self, path: str, start: int, end: int, size: int | None = None) -> bytes:
        """Some bytes of one file."""
        data = self._files.get(path)
        return self._below.read_range(path, start, end, size) if data is None else data[start:end]

    def read_tail(self, path: str, length: int, size: int | None) -> tuple[bytes, int]:
        """The last bytes of one file, and its size."""
        data = self._files.get(path)
        if data is None:
            return self._below.read_tail(path, length, size)
        return data[max(len(data) - length, 0) :], len(data)

    def _refuse(self, *_: object) -> NoReturn:
        raise StorageError(self._uri, "expected only a plan, found a change")

    put = exchange = duplicate = remove = settle = remove_folders = _refuse
