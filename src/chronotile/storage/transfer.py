"""Files that get a second name in another place: links on one disk, copies elsewhere.

In: two stores, and paths in each; or a store, and a temporary folder that stands for a part of it.
Out: the files of the first in the second, new or there already with the same bytes. Never replaces
a file by another; knows nothing of what the files mean.

On one disk a file gets a hard link, or a copy where the disk gives none, as between two devices.
Inside one bucket the storage copies by itself. Between storages the bytes go through this process,
a part at a time: many small files at once, and few large ones, so that memory has a bound whatever
their sizes are. A checksum is taken from the bytes on their way; nothing is read twice.
"""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import tempfile
import time
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Literal, Self, TypeAlias, get_args

from chronotile.errors import ChronotileError, StorageError
from chronotile.storage.place import ObjectExistsError, check_path
from chronotile.storage.prefetch import ahead
from chronotile.storage.processes import runs_here, this_process

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Mapping

    from chronotile.storage.store import Store

Link: TypeAlias = Literal["hard", "symbolic", "copy"]

_LEN_PART = 1 << 23
_LEN_SMALL = 1 << 20
"""A file of at most this size is small."""
_SMALL_AT_ONCE, _LARGE_AT_ONCE = 8, 4
"""Files that are on their way at once between disks, which wait for each file that they keep; of
small files as many as the slower storage is worth."""


class Transfer:
    """Gives files of one store second names in another.

    >>> from chronotile.storage.store import open_store
    >>> here, there = open_store("memory:doc-transfer/a"), open_store("memory:doc-transfer/b")
    >>> here.put_if_absent("x", b"1")
    >>> Transfer(here, there).files({"x": "y"})  # one storage copies by itself: no checksum
    {}
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

    def files(
        self,
        names: Mapping[str, str],
        sizes: Mapping[str, int | None] | None = None,
        on_file: Callable[[], None] | None = None,
    ) -> dict[str, str]:
        """Give files second names: path in the source -> path in the target.

        Args:
            names: The files.
            sizes: Path in the target -> bytes, of those that are known: large ones go few at once.
            on_file: Called after each file.

        Returns:
            Path in the target -> SHA-256 of the bytes that went through this process.

        Raises:
            ObjectExistsError: Another file has that name.
            MissingObjectError: There is no such file.
        """
        known = sizes or {}

        def once(path: str) -> str | None:
            source, target = self._source.checked(path), self._target.checked(names[path])
            with self._target.step("copy", path):
                try:
                    return self._once(source, target, known.get(target))
                except ObjectExistsError:
                    self._refuse_other(source, target)
                    return None

        large = [path for path in names if (known.get(names[path]) or 0) > _LEN_SMALL]
        small = [path for path in names if (known.get(names[path]) or 0) <= _LEN_SMALL]
        taken: dict[str, str] = {}
        many = max(_SMALL_AT_ONCE, self._source.concurrency, self._target.concurrency)
        for some, most in ((small, many), (large, _LARGE_AT_ONCE)):
            threads = 1 if self.links else min(most, len(some))
            for path, checksum in zip(some, ahead(once, some, threads), strict=True):
                if checksum is not None:
                    taken[names[path]] = checksum
                if on_file is not None:
                    on_file()
        self._target.backend.sync_names(tuple(names.values()))
        return taken

    def _once(self, source: str, target: str, size: int | None) -> str | None:
        here, there = self._source.backend, self._target.backend
        if self._may_take and there.take(here, source, target):
            return None
        self.links = False
        size = (here.head(source).size or 0) if size is None else size
        checksum = hashlib.sha256()

        def parts() -> Iterator[bytes]:
            for start in range(0, size, _LEN_PART):
                end = min(start + _LEN_PART, size)
                part = here.read_range(source, start, end, size)
                if len(part) != end - start:
                    problem = f"expected {size} bytes, found {start + len(part)}"
                    raise StorageError(self._source.uri_of(source), problem)
                checksum.update(part)
                yield part

        there.put_parts(target, parts(), size)
        return checksum.hexdigest()

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


_SCRATCH = re.compile(r"chronotile-(?P<host>[0-9a-f]{12})-(?P<pid>\d+)-\w{8}")
_FOREIGN_S = 24 * 3600
"""A temporary folder of another machine that last changed this long ago counts as left over."""


def sweep_scratch(inside: str | None = None) -> None:
    """Remove the temporary folders of processes that were killed.

    Nobody knows what runs on another machine that shares the disk: its folders go after a day.
    """
    own = this_process()["host"]
    for folder in Path(inside or tempfile.gettempdir()).glob("chronotile-*"):
        process = _SCRATCH.fullmatch(folder.name)
        with suppress(FileNotFoundError):  # somebody else has removed it
            if process is None or runs_here(process.groupdict()):
                continue
            if process["host"] == own or time.time() - folder.stat().st_mtime > _FOREIGN_S:
                shutil.rmtree(folder, ignore_errors=True)


class ScratchFolder:
    """A temporary folder that stands for a part of an array; a context manager removes it.

    >>> with ScratchFolder() as scratch:
    ...     scratch.put("__commits/a.wrt", b"")
    ...     (Path(scratch.root) / "__commits/a.wrt").exists()
    True
    """

    def __init__(self, inside: str | None = None) -> None:
        """Make it inside of a folder of this machine; by default where temporary files go."""
        process = this_process()
        prefix = f"chronotile-{process['host']}-{process['pid']}-"
        self.root = tempfile.mkdtemp(prefix=prefix, dir=inside)

    @classmethod
    def at(cls, root: Path) -> Self:
        """Give a folder of which somebody else takes care."""
        folder = cls.__new__(cls)
        folder.root = str(root)
        return folder

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

        `instead` are files that stand in for those of the same names; those of `without` are not
        copied.

        Raises:
            StorageError: A file cannot be read.
        """
        root, own = store.local_path, instead or {}
        if root is not None:
            self.link(root / folder, target, own)
            return
        names = [entry.path.rpartition("/")[2] for entry in store.list_dir(folder).files]
        needed = [f"{folder}/{name}" for name in names if name not in own and name not in without]
        for path, data in store.view_many(needed):
            if isinstance(data, ChronotileError):
                raise data
            self.put(f"{target}/{path.rpartition('/')[2]}", bytes(data))
        for name, other in own.items():
            self.put(f"{target}/{name}", other)

    def link(self, folder: Path, target: str, instead: Mapping[str, bytes] | None = None) -> None:
        """Put a folder of this machine here, as a link; or its files, if some have a stand-in."""
        if not instead:
            self._path(target).symlink_to(folder)
            return
        for path in folder.iterdir():
            if path.name not in instead:
                self._path(f"{target}/{path.name}").symlink_to(path)
        for name, other in instead.items():
            self.put(f"{target}/{name}", other)
