"""Files that get a second name in another place: links on one disk, copies elsewhere.

In: two stores, and paths in each; or a store, and a temporary folder that stands for a part of it.
Out: the files of the first in the second, new or there already with the same bytes. Never replaces
a file by another; knows nothing of what the files mean.

On one disk a file gets a hard link, or a copy where the disk gives none, as between two devices.
Inside one bucket the storage copies by itself. Between storages the bytes go through this process,
a few at a time.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Literal, Self, TypeAlias, get_args

from chronotile.errors import ChronotileError, StorageError
from chronotile.storage.place import ObjectExistsError, check_path
from chronotile.storage.prefetch import ahead

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping

    from chronotile.storage.store import Store

Link: TypeAlias = Literal["hard", "symbolic", "copy"]

_LEN_PART = 1 << 23


class Transfer:
    """Gives files of one store second names in another.

    >>> from chronotile.storage.store import open_store
    >>> here, there = open_store("memory:doc-transfer/a"), open_store("memory:doc-transfer/b")
    >>> here.put_if_absent("x", b"1")
    >>> Transfer(here, there).files({"x": "y"})
    >>> there.read("y")
    b'1'
    """

    def __init__(self, source: Store, target: Store, link: Link = "hard") -> None:
        if link not in get_args(Link):
            problem = f"expected one of {', '.join(get_args(Link))}, found {link!r:.40}"
            raise StorageError(target.uri, problem)
        self._source, self._target = source, target
        self._on_disks = source.traits.has_links and target.traits.has_links
        if link == "symbolic" and not self._on_disks:
            raise StorageError(target.uri, "expected two local folders to link, found a bucket")
        self._may_take = link == "hard" or not self._on_disks
        self.links = link != "copy" and target.backend.may_link(source.backend)
        """Whether files are linked, as far as anybody knows: a disk can still refuse a link."""

    def make_root(self, folders: Iterable[str] = ()) -> None:
        """Make the folder of the target, and some in it, where folders exist by themselves."""
        for path in ("", *folders):
            self._target.make_folder(path)

    def folder(self, path: str, new: str) -> None:
        """Make a symbolic link to a folder of the source."""
        with self._target.step("copy", path):
            whole = os.path.realpath(self._source.place.join(path))
            self._target.backend.link_folder(whole, new)

    def files(self, names: Mapping[str, str]) -> None:
        """Give files second names: path in the source -> path in the target.

        Raises:
            ObjectExistsError: Another file has that name.
            MissingObjectError: There is no such file.
        """

        def once(path: str) -> None:
            source, target = self._source.checked(path), self._target.checked(names[path])
            with self._target.step("copy", path):
                try:
                    self._once(source, target)
                except ObjectExistsError:
                    self._refuse_other(source, target)

        for _ in ahead(once, names, self._target.concurrency):
            pass
        self._target.backend.settle(tuple(names.values()))

    def _once(self, source: str, target: str) -> None:
        here, there = self._source.backend, self._target.backend
        if self._may_take and there.take(here, source, target):
            return
        self.links = False
        size = here.head(source).size or 0
        there.put_parts(target, self._parts(source, size), size)

    def _parts(self, source: str, size: int) -> Iterator[bytes]:
        for start in range(0, size, _LEN_PART):
            end = min(start + _LEN_PART, size)
            yield self._source.backend.read_range(source, start, end, size)

    def _refuse_other(self, source: str, target: str) -> None:
        """Refuse a file that is there already and is another one."""
        here, there = self._source.backend, self._target.backend
        old, new = here.head(source), there.head(target)
        if self._on_disks and old.etag == new.etag:
            return
        same = old.size == new.size
        for start in range(0, old.size or 0, _LEN_PART) if same else ():
            end = min(start + _LEN_PART, old.size or 0)
            if here.read_range(source, start, end) != there.read_range(target, start, end):
                same = False
                break
        if not same:
            where = self._target.uri_of(target)
            raise ObjectExistsError(where, "expected no object, found another one")


class ScratchFolder:
    """A temporary folder that stands for a part of an array; a context manager removes it.

    >>> with ScratchFolder() as scratch:
    ...     scratch.put("__commits/a.wrt", b"")
    ...     (Path(scratch.root) / "__commits/a.wrt").exists()
    True
    """

    def __init__(self) -> None:
        self.root = tempfile.mkdtemp(prefix="chronotile-")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        # Links are removed, never what they lead to.
        shutil.rmtree(self.root, ignore_errors=True)

    def _path(self, path: str) -> Path:
        """Give the local path of a file, and make the folders above it."""
        whole = Path(self.root) / check_path(path, self.root)
        whole.parent.mkdir(parents=True, exist_ok=True)
        return whole

    def put(self, path: str, data: bytes) -> None:
        """Write a file of its own."""
        self._path(path).write_bytes(data)

    def make_folder(self, path: str) -> None:
        """Make an empty folder."""
        self._path(path).mkdir(exist_ok=True)

    def take(
        self,
        store: Store,
        folder: str,
        target: str,
        instead: Mapping[str, bytes] | None = None,
        without: Collection[str] = (),
    ) -> None:
        """Put a folder of a store here: links to what lies on this disk, copies of other files.

        Args:
            store: Where it is.
            folder: Relative to the store.
            target: Relative to this folder.
            instead: Files that stand in for those of the same names.
            without: Files that are not needed: they are not copied. Links cost nothing.

        Raises:
            StorageError: A file cannot be read.
        """
        root, own = store.local_path, instead or {}
        if root is not None and not own:
            self._path(target).symlink_to(root / folder)
            return
        names = [entry.path.rpartition("/")[2] for entry in store.list_dir(folder).files]
        others = [name for name in names if name not in own]
        if root is not None:
            for name in others:
                self._path(f"{target}/{name}").symlink_to(root / folder / name)
        else:
            needed = [f"{folder}/{name}" for name in others if name not in without]
            for path, data in store.view_many(needed):
                if isinstance(data, ChronotileError):
                    raise data
                self.put(f"{target}/{path.rpartition('/')[2]}", bytes(data))
        for name, other in own.items():
            self.put(f"{target}/{name}", other)
