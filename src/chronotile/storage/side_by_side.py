"""Files of one name in many folders that lie side by side: their sizes, and their ends.

In: a store, a folder, the names of folders in it, the name of a file. Out: what the store says of
each file, or its error, in order. On a disk this takes few calls a file; whatever is odd is left to
the store's own careful path. Follows no symbolic link.
"""

from __future__ import annotations

import os
import stat
from contextlib import suppress
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

from chronotile.errors import ChronotileError
from chronotile.storage.disk import PLAIN_FILE
from chronotile.storage.place import plain_names
from chronotile.storage.prefetch import ahead

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from chronotile.storage.store import Store

_FOLDER = os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC | getattr(os, "O_PATH", os.O_RDONLY)
"""How a folder is opened: only to open a file in it."""

Tail: TypeAlias = tuple[bytes, int]
"""The last bytes of a file, and its size."""


class SideBySide(NamedTuple):
    """Files of one name in folders that lie side by side.

    >>> from chronotile.storage.store import open_store
    >>> store = open_store("memory:doc-side-by-side")
    >>> store.put_if_absent("f/one/a.tdb", b"abc")
    >>> files = SideBySide(store, "f", "a.tdb")
    >>> [*files.tails(["one"], 2)], files.sizes(["one"])
    ([(b'bc', 3)], [3])
    """

    store: Store
    folder: str
    """What holds the folders; the root if empty."""
    file: str
    """The name of the file in each."""
    known_sizes: Mapping[str, int] = {}
    """Path -> size of those that are known: a bucket is not asked for it again."""

    def tails(self, names: Sequence[str], length: int) -> Iterator[Tail | ChronotileError]:
        """Give the last bytes of each file, `length` at most, with its size; or its error."""
        beside = self._open(names)
        if beside is None:
            threads = min(self.store.concurrency, len(names))
            yield from ahead(lambda name: self._tail(name, length), names, threads)
            return
        try:
            for name in names:
                yield _tail_below(beside, name, self.file, length) or self._tail(name, length)
        finally:
            os.close(beside)

    def sizes(self, names: Sequence[str]) -> list[int | ChronotileError]:
        """Give the size of each file, or its error."""
        beside = self._open(names)
        if beside is None:
            return [*ahead(self._size, names, min(self.store.concurrency, len(names)))]
        try:
            sizes = _sizes_below(beside, names, f"/{self.file}")
        finally:
            os.close(beside)
        if _ODD not in sizes:
            return [*sizes]
        pairs = zip(names, sizes, strict=True)
        return [self._size(name) if size == _ODD else size for name, size in pairs]

    def _open(self, names: Sequence[str]) -> int | None:
        """Open the folder on a disk, if all names are plain and nobody watches each step."""
        if self.store.on_operation is not None or "/" in self.folder:
            return None
        if plain_names([*names, self.file]) is None:
            return None
        with suppress(ChronotileError):  # the careful path says what is wrong
            return self.store.backend.open_folder(self.folder)
        return None

    def _tail(self, name: str, length: int) -> Tail | ChronotileError:
        path = f"{self.folder}/{name}/{self.file}" if self.folder else f"{name}/{self.file}"
        try:
            return self.store.read_tail(path, length, size=self.known_sizes.get(path))
        except ChronotileError as error:
            return error

    def _size(self, name: str) -> int | ChronotileError:
        tail = self._tail(name, 0)
        return tail if isinstance(tail, ChronotileError) else tail[1]


_ODD = -1
"""In place of the size of what is no file, or cannot be asked."""


def _sizes_below(beside: int, folders: Sequence[str], file: str) -> list[int]:
    # Nothing is opened: a folder that has just become a link could tell no more than a size.
    ask, is_regular = os.stat, stat.S_ISREG
    sizes: list[int] = []
    left = iter(folders)
    while True:
        # What goes wrong goes wrong once: the loop itself, of two calls a file, has no other work.
        try:
            for folder in left:
                status = ask(folder + file, dir_fd=beside, follow_symlinks=False)
                sizes.append(status.st_size if is_regular(status.st_mode) else _ODD)
        except OSError:
            sizes.append(_ODD)
        else:
            return sizes


def _tail_below(beside: int, folder: str, file: str, length: int) -> Tail | None:
    """Read the end of a file in a folder; None if either is not what it should be, or changes."""
    try:
        inside = os.open(folder, _FOLDER, dir_fd=beside)
    except OSError:
        return None
    try:
        opened = os.open(file, PLAIN_FILE, dir_fd=inside)
    except OSError:
        return None
    finally:
        os.close(inside)
    try:
        status = os.fstat(opened)
        size = status.st_size
        data = os.pread(opened, length, max(size - length, 0))
    except OSError:
        return None
    finally:
        os.close(opened)
    is_whole = stat.S_ISREG(status.st_mode) and len(data) == min(length, size)
    return (data, size) if is_whole else None
