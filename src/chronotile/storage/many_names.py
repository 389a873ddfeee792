"""Names of a folder that has very many, a few thousand at a time.

In: a store and a folder. Out: `Names`, piece by piece, in no order; and a place on the local disk
where names wait, by number. Memory does not grow with the folder. Knows nothing of what they mean.

A bucket gives the folders of a prefix only all at once, so their names are taken from a flat
listing of the files below: that costs more pages, and no memory.
"""

from __future__ import annotations

import os
from contextlib import suppress
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Self

from chronotile.storage.bucket import Bucket
from chronotile.storage.local_disk import Disk, sorted_out
from chronotile.storage.place import Folder, MissingObjectError, Names
from chronotile.storage.scratch_folder import ScratchFolder

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from chronotile.storage.store import Store

AT_ONCE = 1 << 14
"""Names of one piece, at most."""


def stream_names(store: Store, path: str) -> Iterator[Names]:
    """List one level, piece by piece.

    >>> from chronotile.storage.store import open_store
    >>> store = open_store("memory:doc-stream")
    >>> for name in ("a/x", "a/f/1", "a/f/2"):
    ...     store.put_if_absent(name, b"")
    >>> [(sorted(names.files), names.folders) for names in stream_names(store, "a")]
    [(['x'], ('f',))]
    """
    backend = store._backend
    with store._step("list", path):
        if isinstance(backend, Disk):
            with suppress(MissingObjectError):
                yield from _on_disk(backend, path)
        elif isinstance(backend, Bucket):
            yield from backend.stream_names(path, AT_ONCE)
        else:
            yield backend.list_names(path)


def _on_disk(disk: Disk, path: str) -> Iterator[Names]:
    folder = disk.open_folder(path)
    try:
        with os.scandir(folder) as scan:
            while items := list(islice(scan, AT_ONCE)):
                files, folders, strangers = sorted_out(items, f"{path}/", sizes=False)
                found = Folder(tuple(files), tuple(folders), tuple(strangers))
                yield found.bare()._replace(entries=())
    finally:
        os.close(folder)


class WaitingNames:
    """Names on the local disk, by the number of the part that needs them.

    >>> with WaitingNames() as waiting:
    ...     waiting.add(3, ["a", "b"])
    ...     waiting.names(3), waiting.names(4)
    (['a', 'b'], [])
    """

    def __init__(self) -> None:
        self._scratch = ScratchFolder()
        self._buffers: dict[int, list[str]] = {}
        self._held = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._scratch.__exit__()

    def add(self, number: int, names: Iterable[str]) -> None:
        """Takes names of a part, which hold no newline."""
        buffer = self._buffers.setdefault(number, [])
        before = len(buffer)
        buffer += names
        self._held += len(buffer) - before
        if self._held >= AT_ONCE:
            for one, held in self._buffers.items():
                self._write(one, held)
            self._buffers, self._held = {}, 0

    def _file(self, number: int) -> Path:
        return Path(self._scratch.root) / str(number)

    def _write(self, number: int, names: list[str]) -> None:
        with self._file(number).open("a", encoding="utf-8", errors="surrogateescape") as file:
            file.writelines(f"{name}\n" for name in names)

    def names(self, number: int) -> list[str]:
        """The names of a part, in the order in which they came."""
        written: list[str] = []
        with suppress(FileNotFoundError):
            text = self._file(number).read_text("utf-8", errors="surrogateescape")
            written = text.split("\n")[:-1]
        return written + self._buffers.get(number, [])
