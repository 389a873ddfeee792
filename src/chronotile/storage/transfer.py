"""Files that get a second name in another place: links on one disk, copies elsewhere.

In: two stores, and paths in each. Out: the files of the first in the second, new or there already
with the same bytes. Never replaces a file by another; knows nothing of what the files mean.

On one disk a file gets a hard link, or a copy where the disk gives none, as between two devices.
Inside one bucket the storage copies by itself. Between storages the bytes go through this process,
a few at a time.
"""

from __future__ import annotations

import errno
import os
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Literal, TypeAlias, get_args

import obstore

from chronotile.errors import StorageError
from chronotile.storage.bucket import Bucket
from chronotile.storage.local_disk import Disk
from chronotile.storage.place import MissingObjectError, ObjectExistsError
from chronotile.storage.prefetch import ahead
from chronotile.storage.unnamed_file import unnamed_file

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from chronotile.storage.store import Store

Link: TypeAlias = Literal["hard", "symbolic", "copy"]

_LEN_PART = 1 << 23
_LEN_COPIED = 5 << 30
"""S3 copies no larger object in one request."""
_NO_LINK = {errno.EXDEV, errno.EPERM, errno.EMLINK, errno.ENOTSUP}
"""How a disk says that it cannot link this file there."""


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
        self._source, self._target, self._link = source, target, link
        here, there = source._backend, target._backend
        self._disks = (here, there) if isinstance(here, Disk) and isinstance(there, Disk) else None
        self._buckets: tuple[Bucket, Bucket] | None = None
        if isinstance(here, Bucket) and isinstance(there, Bucket) and _is_same(source, target):
            self._buckets = here, there
        if link == "symbolic" and self._disks is None:
            raise StorageError(target.uri, "expected two local folders to link, found a bucket")
        self.links = self._disks is not None and link != "copy" and _is_one_disk(source, target)
        """Whether files are linked, as far as anybody knows: a disk can still refuse a link."""

    def make_root(self, folders: Iterable[str] = ()) -> None:
        """Make the folder of the target, and some in it, if it is on a disk."""
        for path in ("", *folders) if self._target.place.scheme == "file" else ():
            Path(self._target.place.join(path)).mkdir(parents=True, exist_ok=True)

    def folder(self, path: str, new: str) -> None:
        """Make a symbolic link to a folder of the source."""
        assert self._disks is not None
        whole = os.path.realpath(self._source.place.join(path))
        parent, _, name = new.rpartition("/")
        with (
            self._target._step("copy", path),
            self._disks[1]._in(parent, new, create=True) as below,
        ):
            try:
                os.symlink(whole, name, dir_fd=below)
            except FileExistsError:
                if os.readlink(name, dir_fd=below) != whole:
                    raise
            os.fsync(below)

    def files(self, names: Mapping[str, str]) -> None:
        """Give files second names: path in the source -> path in the target.

        Raises:
            ObjectExistsError: Another file has that name.
            MissingObjectError: There is no such file.
        """

        def once(path: str) -> None:
            source, target = self._source._checked(path), self._target._checked(names[path])
            with self._target._step("copy", path):
                self._once(source, target)

        threads = self._target._backend.concurrency if self._disks is None else 1
        for _ in ahead(once, names, threads):
            pass
        self._target._backend.settle(tuple(names.values()))

    def _once(self, source: str, target: str) -> None:
        if self._disks is not None and self._link == "hard":
            if not self._is_linked(*self._disks, source, target):
                self.links = False
                self._streamed(source, target)
        elif self._buckets is not None:
            self._copied(*self._buckets, source, target)
        else:
            self._streamed(source, target)

    def _copied(self, here: Bucket, there: Bucket, source: str, target: str) -> None:
        """Let the storage copy an object; one that is too large for that goes through here."""
        keys = here._place.join(source), there._place.join(target)
        try:
            here._tried(source, lambda: obstore.copy(here._client(), *keys))
        except MissingObjectError:
            raise
        except StorageError:
            if (here.head(source).size or 0) <= _LEN_COPIED:
                raise
            self._streamed(source, target)

    def _is_linked(self, here: Disk, there: Disk, source: str, target: str) -> bool:
        """Link a file, or find it there; false if the disk gives no link."""
        try:
            self._linked(here, there, source, target)
        except ObjectExistsError:
            self._refuse_other(source, target)
        except StorageError as error:
            cause = error.__cause__
            if not isinstance(cause, OSError) or cause.errno not in _NO_LINK:
                raise
            return False
        return True

    @staticmethod
    def _linked(here: Disk, there: Disk, source: str, target: str) -> None:
        here.head(source)
        from_parent, _, from_name = source.rpartition("/")
        to_parent, _, to_name = target.rpartition("/")
        with here._in(from_parent, source) as old, there._in(to_parent, target, create=True) as new:
            os.link(from_name, to_name, src_dir_fd=old, dst_dir_fd=new, follow_symlinks=False)

    def _streamed(self, source: str, target: str) -> None:
        size = self._source._backend.head(source).size or 0
        backend = self._target._backend
        if isinstance(backend, Disk):
            try:
                _put_parts(backend, target, self._parts(source, size))
            except ObjectExistsError:
                self._refuse_other(source, target)
        elif size <= _LEN_PART:
            try:
                backend.put(target, self._source._backend.read(source, size))
            except ObjectExistsError:
                self._refuse_other(source, target)
        else:
            key = backend._place.join(target)

            def once() -> None:
                obstore.put(backend._client(), key, self._parts(source, size))

            backend._tried(target, once)

    def _parts(self, source: str, size: int) -> Iterator[bytes]:
        for start in range(0, size, _LEN_PART):
            end = min(start + _LEN_PART, size)
            yield self._source._backend.read_range(source, start, end, size)

    def _refuse_other(self, source: str, target: str) -> None:
        """Refuse a file that is there already and is another one."""
        here, there = self._source._backend, self._target._backend
        old, new = here.head(source), there.head(target)
        if self._disks is not None and old.etag == new.etag:
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


def _is_one_disk(source: Store, target: Store) -> bool:
    """Whether two local places lie on one device; of one that is to be made, its parent counts."""
    here, there = Path(source.place.root), Path(target.place.root)
    with suppress(OSError):
        parent = next(path for path in (there, *there.parents) if path.exists())
        return here.stat().st_dev == parent.stat().st_dev
    return False


def _is_same(source: Store, target: Store) -> bool:
    """Whether two stores are in one bucket, with the same access."""
    here, there = source.place, target.place
    same = (here.scheme, here.bucket) == (there.scheme, there.bucket)
    return same and source.options == target.options


def _put_parts(disk: Disk, path: str, parts: Iterator[bytes]) -> None:
    """Write a new file part by part; readers see all of it or none."""
    parent, _, name = path.rpartition("/")
    with (
        disk._in("", path) as root,
        unnamed_file(root, parts) as file,
        disk._in(parent, path, create=True) as folder,
    ):
        file.link(name, folder)
