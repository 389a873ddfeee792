"""Files of one name in many folders that lie side by side: their sizes, and their ends.

In: a store, folders, the name of a file. Out: what the store says of
each file, or its error, in order. On a disk this takes few calls a file; whatever is odd is left to
the store's own careful path. Follows no symbolic link.
"""

from __future__ import annotations

import os
import stat
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, TypeAlias

from chronotile.errors import ChronotileError
from chronotile.storage.disk import PLAIN_FILE
from chronotile.storage.place import plain_names
from chronotile.storage.prefetch import ahead

if TYPE_CHECKING:
    from collections.abc import Generator, Iterator, Mapping, Sequence

    from chronotile.storage.store import Store

_FOLDER = os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC | getattr(os, "O_PATH", os.O_RDONLY)
"""How a folder is opened: only to open a file in it."""

Tail: TypeAlias = tuple[bytes, int]
"""The last bytes of a file, and its size."""
Sizes: TypeAlias = "Mapping[str, int]"
"""Path -> size of the files whose size is known: a bucket is not asked for it again."""


def tails(
    store: Store, folders: Sequence[str], file: str, length: int, known: Sizes
) -> Iterator[Tail | ChronotileError]:
    """Give the last bytes of a file in each folder, `length` at most, with its size; or its error.

    >>> from chronotile.storage.store import open_store
    >>> store = open_store("memory:doc-side-by-side")
    >>> store.put_if_absent("f/one/a.tdb", b"abc")
    >>> [*tails(store, ["f/one"], "a.tdb", 2, {})], sizes(store, ["f/one"], "a.tdb", {})
    ([(b'bc', 3)], [3])
    """

    def tail(folder: str) -> Tail | ChronotileError:
        return _tail(store, f"{folder}/{file}", length, known)

    with _opened(store, folders, file) as above:
        if above is None:
            yield from ahead(tail, folders, min(store.concurrency, len(folders)))
            return
        for folder, (parent, name) in zip(folders, above, strict=True):
            yield _tail_below(parent, name, file, length) or tail(folder)


def sizes(
    store: Store, folders: Sequence[str], file: str, known: Sizes
) -> list[int | ChronotileError]:
    """Give the size of a file in each folder, or its error."""

    def size(folder: str) -> int | ChronotileError:
        tail = _tail(store, f"{folder}/{file}", 0, known)
        return tail if isinstance(tail, ChronotileError) else tail[1]

    with _opened(store, folders, file) as above:
        if above is None:
            return [*ahead(size, folders, min(store.concurrency, len(folders)))]
        found: list[int | ChronotileError] = []
        for folder, (parent, name) in zip(folders, above, strict=True):
            # Nothing is opened: a folder that has just become a link tells no more than a size.
            try:
                status = os.stat(f"{name}/{file}", dir_fd=parent, follow_symlinks=False)
            except OSError:
                found.append(size(folder))
            else:
                found.append(status.st_size if stat.S_ISREG(status.st_mode) else size(folder))
        return found


@contextmanager
def _opened(
    store: Store, folders: Sequence[str], file: str
) -> Generator[list[tuple[int, str]] | None]:
    """Open what holds the folders on a disk, if all names are plain and nobody watches.

    Gives for each folder the descriptor of what holds it, and its name there.
    """
    parts = [folder.rpartition("/") for folder in folders]
    parents = {parent for parent, _, _ in parts}
    above: dict[str, int] = {}
    try:
        is_plain = plain_names([*(name for _, _, name in parts), file]) is not None
        if store.on_operation is None and is_plain and not any("/" in one for one in parents):
            with suppress(ChronotileError):  # the careful path says what is wrong
                for parent in parents:
                    descriptor = store.backend.open_folder(parent)
                    if descriptor is not None:
                        above[parent] = descriptor
        is_open = above.keys() == parents
        yield [(above[parent], name) for parent, _, name in parts] if is_open else None
    finally:
        for descriptor in above.values():
            os.close(descriptor)


def _tail(store: Store, path: str, length: int, known: Sizes) -> Tail | ChronotileError:
    try:
        return store.read_tail(path, length, size=known.get(path))
    except ChronotileError as error:
        return error


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
