"""An array as it would be with some more files in it.

In: a store, and files that are not there. Out: a store that shows both, and that changes nothing.
For plans: what a second step would do once the first is done.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, NoReturn

from chronotile.errors import StorageError
from chronotile.storage.store import Entry, Folder, Names, Store

if TYPE_CHECKING:
    from collections.abc import Mapping

    from chronotile.storage.bucket import Bucket
    from chronotile.storage.local_disk import Disk


def overlaid(store: Store, files: Mapping[str, bytes]) -> Store:
    """The same store with these files in it; whatever would change it is refused.

    It holds for this one value: a store that is made from it, as by `child`, is without them.

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
    made = replace(store)
    object.__setattr__(made, "_backend", _Overlay(made.uri, store._backend, dict(files)))
    return made


class _Overlay:
    """What is there, and some files that are not."""

    def __init__(self, uri: str, below: Disk | Bucket, files: dict[str, bytes]) -> None:
        self._uri = uri
        self._below = below
        self._files = files
        self.batch = below.batch
        self.concurrency = below.concurrency

    def _in(self, path: str, *, deep: bool = False) -> list[Entry]:
        base = f"{path}/" if path else ""
        return [
            Entry(name, len(data))
            for name, data in self._files.items()
            if name.startswith(base) and (deep or "/" not in name[len(base) :])
        ]

    def list_dir(self, path: str, *, sizes: bool) -> Folder:
        """One level."""
        found, own = self._below.list_dir(path, sizes=sizes), self._in(path)
        new = {entry.path for entry in own}
        there = [entry for entry in found.files if entry.path not in new]
        return found._replace(files=tuple(sorted([*there, *own])))

    def list_names(self, path: str) -> Names:
        """One level as bare names."""
        found, own = self._below.list_names(path), self._in(path)
        if not own:
            return found
        names = {entry.path.rpartition("/")[2] for entry in own}
        return Names((*(set(found.files) | names),), found.folders, found.strangers)

    def walk(self, path: str, *, sizes: bool) -> Folder:
        """All levels."""
        found, own = self._below.walk(path, sizes=sizes), self._in(path, deep=True)
        new = {entry.path for entry in own}
        there = [entry for entry in found.files if entry.path not in new]
        return found._replace(files=tuple(sorted([*there, *own])))

    def mark(self, path: str) -> int | None:
        """What is there has a mark; what is added has none."""
        return None if self._in(path) else self._below.mark(path)

    def head(self, path: str) -> Entry:
        """Size and time of one file."""
        data = self._files.get(path)
        return self._below.head(path) if data is None else Entry(path, len(data))

    def read(self, path: str, limit: int) -> bytes:
        """All bytes of one file."""
        data = self._files.get(path)
        return self._below.read(path, limit) if data is None else data

    def view(self, path: str, limit: int) -> memoryview:
        """The same, not copied."""
        data = self._files.get(path)
        return self._below.view(path, limit) if data is None else memoryview(data)

    def read_range(self, path: str, start: int, end: int) -> bytes:
        """Some bytes of one file."""
        data = self._files.get(path)
        return self._below.read_range(path, start, end) if data is None else data[start:end]

    def check_child(self, path: str) -> None:
        """Refuse what the storage refuses."""
        self._below.check_child(path)

    def _refuse(self, *_: object) -> NoReturn:
        raise StorageError(self._uri, "expected only a plan, found a change")

    put = copy = duplicate = same = remove = settle = remove_folders = _refuse
