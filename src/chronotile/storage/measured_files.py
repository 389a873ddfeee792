"""The files of an array with their sizes, and what lies deeper as the sum of each folder.

In: a store, and the folders whose files are wanted one by one. Out: entries: each file of these
folders, and each other folder in them, with a slash at its end and the bytes of all that is below.
In a bucket this is one flat listing, page by page, which `listed` takes for the listing of the
array too; on a disk it asks each file for its size. Opens no file, and follows no link.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from chronotile.errors import ArrayNotFoundError, StorageError, printable
from chronotile.storage.place import Entry

if TYPE_CHECKING:
    from collections.abc import Iterator

    from chronotile.storage.place import Place
    from chronotile.storage.store import Store


def measure(store: Store, folders: frozenset[str]) -> tuple[Entry, ...]:
    """Lists the files of some folders, and sums up the folders below them.

    Args:
        store: Where the array is.
        folders: Folders whose files are told one by one; `""` is the root.

    Raises:
        ArrayNotFoundError: There is nothing.
        StorageError: The storage refuses to list a folder.

    >>> from chronotile.storage.store import open_store
    >>> store = open_store("memory:doc-measure")
    >>> for path in ("__schema/s", "__fragments/f/a.tdb", "__fragments/f/b.tdb"):
    ...     store.put_if_absent(path, b"abc")
    >>> [entry[:2] for entry in measure(store, frozenset({"", "__schema", "__fragments"}))]
    [('__fragments/f/', 6), ('__schema/s', 3)]
    """
    with store._step("list", ""):
        if store.place.scheme == "file":
            return tuple(_on_disk(store.place, folders))
        deeper: dict[str, int] = {}
        found: list[Entry] = []
        for entry in store._backend.walk("", sizes=True).files:
            folder = _summed_folder(entry.path, folders)
            if folder is None:
                found.append(entry)
            else:
                deeper[folder] = deeper.get(folder, 0) + (entry.size or 0)
        return (*(Entry(f"{folder}/", size) for folder, size in deeper.items()), *found)


def _summed_folder(path: str, folders: frozenset[str]) -> str | None:
    """The first folder on the way to a file that is not told file by file."""
    above, _, _ = path.rpartition("/")
    if above in folders:
        return None
    place = path.find("/")
    while path[:place] in folders:
        place = path.find("/", place + 1)
    return path[:place]


def _on_disk(place: Place, folders: frozenset[str]) -> Iterator[Entry]:
    waiting = [""]
    root = os.path.realpath(place.root)
    try:
        while waiting:
            folder = waiting.pop()
            for item in _items(f"{root}/{folder}", required=not folder):
                path = f"{folder}/{item.name}" if folder else item.name
                if not item.is_dir(follow_symlinks=False):
                    size = _size(item)
                    if size is not None:
                        yield Entry(printable(path), size)
                elif path in folders:
                    waiting.append(path)
                else:
                    yield Entry(f"{printable(path)}/", _bytes_below(f"{root}/{path}"))
    except (FileNotFoundError, NotADirectoryError):
        raise ArrayNotFoundError(place.uri, "expected a folder, found none") from None
    except OSError as cause:
        where = printable(os.path.relpath(cause.filename or root, root))
        problem = f"the disk answered: {cause.strerror or cause}"
        raise StorageError(place.uri_of(where), problem) from cause


def _items(folder: str, *, required: bool = False) -> list[os.DirEntry[str]]:
    try:
        with os.scandir(folder) as items:
            return [*items]
    except FileNotFoundError:
        if required:
            raise
        return []  # gone since its parent was listed


def _bytes_below(folder: str) -> int:
    total, waiting = 0, [folder]
    while waiting:
        for item in _items(waiting.pop()):
            if item.is_dir(follow_symlinks=False):
                waiting.append(item.path)
            else:
                total += _size(item) or 0
    return total


def _size(item: os.DirEntry[str]) -> int | None:
    """The size of a regular file; None of anything else, and of one that has just gone."""
    if not item.is_file(follow_symlinks=False):
        return None
    try:
        return item.stat(follow_symlinks=False).st_size
    except FileNotFoundError:
        return None
