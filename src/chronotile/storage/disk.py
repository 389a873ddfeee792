"""Storage on a local disk.

In: a `Place` on a disk and checked relative paths. Out: listings and bytes. Knows no other
storage, and follows no symbolic link below the root, even one that points inside.
"""

from __future__ import annotations

import errno
import os
import stat
import time
from contextlib import contextmanager, suppress
from itertools import islice
from operator import itemgetter
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from chronotile.errors import ArrayNotFoundError, ChangedError, StorageError, TooLargeError
from chronotile.safe_text import printable
from chronotile.storage.backend import Backend, Traits
from chronotile.storage.disk_files import LINK, NO_LINK, OpenFolder, kind_of, unnamed_file
from chronotile.storage.place import (
    LEFTOVER,
    OTHER_BYTES,
    PAGE,
    Entry,
    Folder,
    MissingObjectError,
    Names,
    Place,
    PlainNames,
    Stranger,
    StrangerError,
    is_path,
    plain_names,
)
from chronotile.storage.prefetch import ahead, cores

if TYPE_CHECKING:
    from collections.abc import Generator, Iterable, Iterator, Sequence


PLAIN_FILE = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
"""How a file is opened. Not blocking: opening a named pipe would wait forever."""
_LEN_READ = 1 << 20
_LEN_LARGE = 1 << 22
"""From this size on memory comes in large pages, and several threads read faster than one."""
_LEN_PAGE = 1 << 21
"""A large page: two threads that fill the same one would wait for each other."""
_AT_ONCE = 1 << 14
"""Entries of a folder that are in memory at once: they take more than their names."""
_TIME_STEP_NS = 3_000_000_000
"""More than the coarsest step of a file's time on any file system in use."""


class Disk(Backend):
    """The objects below one local folder.

    It walks every path from the root by descriptor, one part at a time, so even a link that
    appears between a check and its use cannot lead outside.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as root:
    ...     disk = Disk(Place(scheme="file", root=root))
    ...     disk.put("__commits/a.wrt", b"")
    ...     [entry.path for entry in disk.list_dir("__commits", sizes=False).files]
    ['__commits/a.wrt']
    """

    # Measured on small files in the cache: threads gain nothing, and cost up to five times.
    traits = Traits(
        pace="quick",
        concurrency=1,
        batch=1,
        has_links=True,
        has_change_times=True,
        shows_partial_files=True,
    )

    def __init__(self, place: Place) -> None:
        self._place = place

    def _in(self, folder: str, path: str | None = None, *, create: bool = False) -> OpenFolder:
        return OpenFolder(self._place, folder, folder if path is None else path, create=create)

    def list_dir(self, path: str, *, sizes: bool) -> Folder:
        """List one folder. A folder that is not there is empty, unless it is the root."""
        try:
            with self._in(path) as folder, os.scandir(folder) as items:
                return _sorted(*_sort_out(items, f"{path}/" if path else "", sizes=sizes))
        except MissingObjectError:
            return Folder()

    def list_names(self, path: str) -> Names:
        """List one folder as bare names, in no order; `list_dir` does it if anything is odd."""
        parts = []
        try:
            with self._in(path) as folder:
                changed = _if_past(os.fstat(folder).st_mtime_ns)
                with os.scandir(folder) as scan:
                    while items := list(islice(scan, _AT_ONCE)):
                        parts.append(_plain(items))
        except MissingObjectError:
            return Names()
        plain = [part for part in parts if part is not None]
        if len(plain) < len(parts):
            return self.list_dir(path, sizes=False).bare()._replace(change_time=changed)
        files = PlainNames(b"".join(part[0].lines for part in plain))
        folders = PlainNames(b"".join(part[1].lines for part in plain))
        return Names(files, folders, change_time=changed)

    def change_time(self, path: str) -> int | None:
        """Give the time of a folder's last change; None while the next may get the same time."""
        if "/" not in path:
            # One question is enough, and follows no link below the root either.
            with suppress(OSError):
                where = self._place.join(path)
                found = os.stat(where, follow_symlinks=not path)  # noqa: PTH116 - as all here
                if stat.S_ISDIR(found.st_mode):
                    return _if_past(found.st_mtime_ns)
        # The way from the root says what is wrong.
        with suppress(MissingObjectError), self._in(path) as folder:
            return _if_past(os.fstat(folder).st_mtime_ns)
        return None

    def newest_ms(self, path: str) -> int | None:
        """Give the last change of a folder and of all below it, which no program can set back."""
        newest: list[int] = []
        waiting = [path]
        while waiting:
            above = waiting.pop()
            with suppress(MissingObjectError), self._in(above) as folder:
                found = [os.fstat(folder)]
                with os.scandir(folder) as items:
                    for item in items:
                        if item.is_dir(follow_symlinks=False):
                            waiting.append(f"{above}/{item.name}")
                        else:
                            with suppress(FileNotFoundError):
                                found.append(item.stat(follow_symlinks=False))
                newest += [max(one.st_ctime_ns, one.st_mtime_ns) for one in found]
        return max(newest) // 1_000_000 if newest else None

    def walk(self, path: str) -> Folder:
        """List all files and folders below a folder, at any depth."""
        files: list[Entry] = []
        folders: list[str] = []
        strangers: list[Stranger] = []
        waiting = [path]
        while waiting:
            level = self.list_dir(waiting.pop(), sizes=True)
            files += level.files
            folders += level.folders
            strangers += level.strangers
            waiting += level.folders
        return _sorted(files, folders, strangers)

    def linked_elsewhere(self) -> tuple[str, ...]:
        """List the files with more links than they have names here."""
        names: dict[tuple[int, int, int], list[str]] = {}
        for path, status in self._files():
            if status.st_nlink > 1:
                inode = status.st_dev, status.st_ino, status.st_nlink
                names.setdefault(inode, []).append(printable(path))
        more = (paths for (_, _, links), paths in names.items() if links > len(paths))
        return tuple(sorted(path for paths in more for path in paths))

    def list_files(self) -> tuple[Entry, ...]:
        """List every regular file. A name that is no path gets escapes: it is only counted."""
        files = self._files()
        return tuple(
            sorted(Entry(printable(p), s.st_size, s.st_mtime_ns // 1_000_000) for p, s in files)
        )

    def _files(self) -> Iterator[tuple[str, os.stat_result]]:
        """Walk over every regular file; one that goes meanwhile is left out."""
        root, place = os.path.realpath(self._place.root), self._place
        waiting = [""]
        try:
            while waiting:
                base = waiting.pop()
                try:
                    items = os.scandir(f"{root}/{base}")
                except (FileNotFoundError, NotADirectoryError):
                    if base:
                        continue  # it has gone since its parent was listed
                    raise ArrayNotFoundError(place.uri, "expected a folder, found none") from None
                with items:
                    for item in items:
                        if item.is_dir(follow_symlinks=False):
                            waiting.append(f"{base}{item.name}/")
                        elif item.is_file(follow_symlinks=False):
                            try:
                                status = item.stat(follow_symlinks=False)
                            except FileNotFoundError:
                                continue  # likewise
                            yield base + item.name, status
        except ArrayNotFoundError:
            raise
        except OSError as cause:
            where = printable(os.path.relpath(cause.filename or root, root))
            problem = f"the disk answered: {cause.strerror or cause}"
            raise StorageError(place.uri_of(where), problem) from cause

    def list_after(self, path: str, name: str) -> tuple[Entry, ...]:
        """List the files that come after a name; the disk lists all of them for it."""
        after = f"{path}/{name}" if path else name
        files = self.walk(path).files
        return tuple(entry for entry in files if entry.path > after)[:PAGE]

    @contextmanager
    def _file(self, path: str) -> Generator[tuple[int, os.stat_result]]:
        parent, _, name = path.rpartition("/")
        with self._in(parent, path) as folder:
            try:
                file = os.open(name, PLAIN_FILE, dir_fd=folder)
            except OSError as cause:
                if cause.errno != errno.ELOOP:
                    raise
                where = self._place.uri_of(path)
                raise StrangerError(where, f"expected a file, found {LINK}") from None
            try:
                yield file, self._plain_file(path, os.fstat(file))
            finally:
                os.close(file)

    def _plain_file(self, path: str, status: os.stat_result) -> os.stat_result:
        if not stat.S_ISREG(status.st_mode):
            where, kind = self._place.uri_of(path), kind_of(status.st_mode)
            raise StrangerError(where, f"expected a file, found {kind}")
        return status

    def head(self, path: str) -> Entry:
        """Give size and time of one file."""
        parent, _, name = path.rpartition("/")
        with self._in(parent, path) as folder:
            status = os.stat(name, dir_fd=folder, follow_symlinks=False)
        return _entry(path, self._plain_file(path, status))

    def read(self, path: str, limit: int) -> bytes | memoryview:
        """Read one file; all cores read a large one, into memory of large pages."""
        with self._file(path) as (file, status):
            if _LEN_LARGE <= status.st_size <= limit:
                buffer = np.empty(status.st_size, np.uint8)
                if _is_filled(buffer.data, file):
                    return buffer.data.toreadonly()
            return self._read(path, file, status.st_size, limit)

    def _read(self, path: str, file: int, size: int, limit: int) -> bytes:
        parts: list[bytes] = []
        step = size + 1
        while size <= limit and (part := os.read(file, step)):
            if step == len(part) + 1 and not parts:
                return part  # one byte more was asked for: this is the end
            parts.append(part)
            step = _LEN_READ
            size = max(size, sum(map(len, parts)))
        if size > limit:
            where = self._place.uri_of(path)
            raise TooLargeError(where, f"expected at most {limit} bytes, found {size}")
        return parts[0] if len(parts) == 1 else b"".join(parts)

    def read_range(self, path: str, start: int, end: int, size: int | None = None) -> bytes:  # noqa: ARG002 - a bucket asks less with it
        """Read the bytes from `start` to before `end`, or to the end of the file."""
        with self._file(path) as (file, status):
            return _read_between(file, start, min(end, status.st_size))

    def read_tail(self, path: str, length: int, size: int | None) -> tuple[bytes, int]:  # noqa: ARG002 - a bucket asks less with it
        """Read the last bytes of a file, and give its size."""
        with self._file(path) as (file, status):
            whole = status.st_size
            return _read_between(file, max(whole - length, 0), whole), whole

    def open_folder(self, path: str) -> int:
        """Open a folder and give its descriptor, which the caller closes."""
        return self._in(path).__enter__()

    def put(self, path: str, data: bytes) -> None:
        """Write a new file; readers see all of it or none."""
        self.put_parts(path, (data,), len(data))

    def put_parts(self, path: str, parts: Iterable[bytes], size: int) -> None:  # noqa: ARG002 - a bucket needs it
        """Write a new file part by part; readers see all of it or none."""
        parent, _, name = path.rpartition("/")
        with (
            self._in("", path) as root,
            unnamed_file(root, parts) as file,
            self._in(parent, path, create=True) as folder,
        ):
            file.link(name, folder)
            os.fsync(folder)

    def exchange(self, path: str, old: bytes, new: bytes) -> None:
        """Put new bytes in the place of old ones, if the file holds these just before."""
        parent, _, name = path.rpartition("/")
        with (
            self._in("", path) as root,
            unnamed_file(root, (new,)) as file,
            self._in(parent, path) as folder,
        ):
            stored = self.read(path, max(len(old), len(new)) + _LEN_READ)
            if stored == new:
                return
            if stored != old:
                raise ChangedError(self._place.uri_of(path), OTHER_BYTES)
            file.replace(name, folder)
            os.fsync(folder)

    def may_link(self, other: Backend) -> bool:
        """Tell whether both lie on one device; of a root that is to be made, its parent counts."""
        if not isinstance(other, Disk):
            return False
        here, there = Path(self._place.root), Path(other._place.root)
        with suppress(OSError):
            parent = next(path for path in (here, *here.parents) if path.exists())
            return there.stat().st_dev == parent.stat().st_dev
        return False

    def take(self, other: Backend, source: str, target: str) -> bool:
        """Give a file of a disk a second, new name; `sync_names` makes it last."""
        if not isinstance(other, Disk):
            return False
        other.head(source)
        from_parent, _, from_name = source.rpartition("/")
        to_parent, _, to_name = target.rpartition("/")
        try:
            with (
                other._in(from_parent, source) as old,
                self._in(to_parent, target, create=True) as new,
            ):
                os.link(from_name, to_name, src_dir_fd=old, dst_dir_fd=new, follow_symlinks=False)
        except StorageError as error:
            if not isinstance(error.__cause__, OSError) or error.__cause__.errno not in NO_LINK:
                raise
            return False
        return True

    def link_folder(self, target: str, path: str) -> None:
        """Make a symbolic link to a folder; one that is there already and leads there is fine."""
        parent, _, name = path.rpartition("/")
        with self._in(parent, path, create=True) as below:
            try:
                os.symlink(target, name, dir_fd=below)
            except FileExistsError:
                if os.readlink(name, dir_fd=below) != target:
                    raise
            os.fsync(below)

    def make_folder(self, path: str) -> None:
        """Make a folder and those above it, even the root."""
        try:
            Path(self._place.join(path)).mkdir(parents=True, exist_ok=True)
        except OSError as cause:
            problem = f"the disk answered: {cause.strerror or cause}"
            raise StorageError(self._place.uri_of(path), problem) from cause

    def remove(self, paths: Sequence[str]) -> None:
        """Remove files. One that is gone already is no error; a link or folder is."""
        for path in paths:
            parent, _, name = path.rpartition("/")
            with suppress(MissingObjectError), self._in(parent, path) as folder:
                mode = os.stat(name, dir_fd=folder, follow_symlinks=False).st_mode
                if not stat.S_ISREG(mode):
                    where = self._place.uri_of(path)
                    raise StorageError(where, f"expected a file to remove, found {kind_of(mode)}")
                os.unlink(name, dir_fd=folder)

    def sync_names(self, paths: Sequence[str]) -> None:
        """Make the new or removed names of these paths outlast a loss of power."""
        for parent in sorted({path.rpartition("/")[0] for path in paths}):
            with suppress(MissingObjectError), self._in(parent) as folder:
                os.fsync(folder)

    def remove_folders(self, paths: Sequence[str]) -> None:
        """Remove empty folders, the deepest first."""
        for path in sorted(paths, key=lambda path: path.count("/"), reverse=True):
            parent, _, name = path.rpartition("/")
            with suppress(MissingObjectError), self._in(parent, path) as folder:
                os.rmdir(name, dir_fd=folder)

    def check_child(self, path: str) -> None:
        """Refuse a folder behind a link; one that cannot be opened refuses whoever lists it."""
        try:
            with self._in(path):
                pass
        except StrangerError:
            raise
        except StorageError:
            pass


def _sort_out(
    items: Iterable[os.DirEntry[str]], base: str, *, sizes: bool
) -> tuple[list[Entry], list[str], list[Stranger]]:
    """Sort the entries of a folder into files, folders and strangers."""
    files: list[Entry] = []
    folders: list[str] = []
    strangers: list[Stranger] = []
    for item in items:
        name = item.name
        if not is_path(name):
            strangers.append(_stranger(base + printable(name), item, misnamed=True))
        elif item.is_file(follow_symlinks=False):
            if name[0] == "." and LEFTOVER.fullmatch(name):
                what = "left by an interrupted write"
                strangers.append(Stranger(base + name, what, "leftover"))
            elif not sizes:
                files.append(Entry(base + name))
            else:
                with suppress(FileNotFoundError):
                    files.append(_entry(base + name, item.stat(follow_symlinks=False)))
        elif item.is_dir(follow_symlinks=False):
            folders.append(base + name)
        else:
            strangers.append(_stranger(base + name, item))
    return files, folders, strangers


def _read_between(file: int, start: int, end: int) -> bytes:
    """Read an open file from `start` to before `end`, or to its end."""
    parts: list[bytes] = []
    while start < end and (part := os.pread(file, end - start, start)):
        parts.append(part)
        start += len(part)
    return b"".join(parts)


def _is_filled(buffer: memoryview, file: int) -> bool:
    """Read a file into a buffer of its size; false if the file has another size by now."""
    step = _LEN_PAGE * max(1, len(buffer) // (_LEN_PAGE * 32))

    def read(start: int) -> bool:
        end = min(start + step, len(buffer))
        while start < end and (size := os.preadv(file, [buffer[start:end]], start)):
            start += size
        return start == end

    whole = all(ahead(read, range(0, len(buffer), step), cores()))
    return whole and not os.pread(file, 1, len(buffer))


def _if_past(changed: int) -> int | None:
    """Give a time back unless the next change may get the same one."""
    return changed if changed < time.time_ns() - _TIME_STEP_NS else None


def _plain(items: list[os.DirEntry[str]]) -> tuple[PlainNames, PlainNames] | None:
    """Give the names of files and of folders; None if anything is odd."""
    files = [item.name for item in items if item.is_file(follow_symlinks=False)]
    folders = []
    if len(files) < len(items):  # as a rule all are of one kind, and asked once
        folders = [item.name for item in items if item.is_dir(follow_symlinks=False)]
    plain = plain_names(files), plain_names(folders)
    if len(files) + len(folders) < len(items) or plain[0] is None or plain[1] is None:
        return None
    return plain[0], plain[1]


def _sorted(files: list[Entry], folders: list[str], strangers: list[Stranger]) -> Folder:
    files.sort(key=itemgetter(0))
    return Folder(tuple(files), tuple(sorted(folders)), tuple(sorted(strangers)))


def _stranger(path: str, item: os.DirEntry[str], *, misnamed: bool = False) -> Stranger:
    if misnamed:
        is_folder = item.is_dir(follow_symlinks=False)
        return Stranger(path, "a name out of bounds", "folder" if is_folder else "name")
    if not item.is_symlink():
        return Stranger(path, "neither a file nor a folder", "special")
    if item.is_dir():
        return Stranger(path, LINK, "folder-link")
    return Stranger(path, LINK, "file-link" if item.is_file() else "special")


def _entry(path: str, status: os.stat_result) -> Entry:
    etag = f"{status.st_ino:x}-{status.st_mtime_ns:x}"
    return Entry(path, status.st_size, status.st_mtime_ns // 1_000_000, etag)
