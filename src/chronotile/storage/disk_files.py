"""Folders and new files of a disk, by descriptor.

In: a `Place` on a disk, a checked relative path, bytes. Out: the descriptor of a folder, opened
from the root on without following a link, or one of our errors in place of the disk's; a file that
gets its name when it is whole. Knows nothing of what the bytes mean.
"""

from __future__ import annotations

import ctypes
import errno
import os
import stat
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING

from chronotile.errors import ArrayNotFoundError, ChronotileError, StorageError
from chronotile.storage.place import MissingObjectError, ObjectExistsError, StrangerError

if TYPE_CHECKING:
    from collections.abc import Generator, Iterable

    from chronotile.storage.place import Place

LINK = "a symbolic link, which is never followed"
_DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC
_BELOW = _DIRECTORY | os.O_NOFOLLOW
_TMPFILE = getattr(os, "O_TMPFILE", 0)
NO_LINK = {errno.EXDEV, errno.EPERM, errno.EMLINK, errno.ENOTSUP}
"""How a disk says that it cannot link this file there."""
_NOREPLACE = 1
_UNSUPPORTED = {errno.EOPNOTSUPP, errno.EISDIR, errno.EINVAL, errno.ENOENT}


class OpenFolder:
    """Opens a folder, and gives its descriptor; an error inside names the path."""

    __slots__ = ("_create", "_descriptor", "_folder", "_path", "_place")

    def __init__(self, place: Place, folder: str, path: str, *, create: bool) -> None:
        self._place, self._folder, self._path = place, folder, path
        self._create = create

    def __enter__(self) -> int:
        try:
            self._descriptor = self._opened()
        except OSError as cause:
            self._translate(cause)
            raise
        return self._descriptor

    def __exit__(self, _: object, cause: BaseException | None, trace: object) -> None:
        os.close(self._descriptor)
        if isinstance(cause, OSError):
            self._translate(cause)

    def _translate(self, cause: OSError) -> None:
        """Raise our error for an error of the disk."""
        if isinstance(cause, ChronotileError):
            return
        where = self._place.uri_of(self._path)
        if isinstance(cause, FileNotFoundError):
            raise MissingObjectError(where, "expected a file, found nothing") from None
        if isinstance(cause, FileExistsError):
            raise ObjectExistsError(where, "expected no object, found one") from None
        raise StorageError(where, f"the disk answered: {cause.strerror or cause}") from cause

    def _opened(self) -> int:
        """Open the folder; `""` is the root, which may be a link."""
        if self._folder and "/" not in self._folder and not self._create:
            # One step is enough, and follows no link below the root either.
            try:
                return os.open(f"{self._place.root}/{self._folder}", _BELOW)
            except OSError:
                pass  # the way from the root says what is wrong
        try:
            below = os.open(self._place.root, _DIRECTORY)
        except (FileNotFoundError, NotADirectoryError) as cause:
            kind = "nothing" if isinstance(cause, FileNotFoundError) else "a file"
            problem = f"expected a folder, found {kind}"
            raise ArrayNotFoundError(self._place.uri, problem) from None
        parts = self._folder.split("/") if self._folder else ()
        for depth, part in enumerate(parts, start=1):
            above = below
            try:
                below = self._open_part(above, part, "/".join(parts[:depth]))
            finally:
                os.close(above)
        return below

    def _open_part(self, above: int, part: str, path: str) -> int:
        if self._create:
            with suppress(FileExistsError):
                os.mkdir(part, dir_fd=above)
                os.fsync(above)
        try:
            return os.open(part, _BELOW, dir_fd=above)
        except OSError as cause:
            if cause.errno not in {errno.ENOTDIR, errno.ELOOP}:
                raise
            kind = kind_of(os.stat(part, dir_fd=above, follow_symlinks=False).st_mode)
            where = self._place.uri_of(path)
            raise StrangerError(where, f"expected a folder, found {kind}") from None


def kind_of(mode: int) -> str:
    """Say what an entry of a folder is, by its mode."""
    if stat.S_ISLNK(mode):
        return LINK
    if stat.S_ISDIR(mode):
        return "a folder"
    return "a file" if stat.S_ISREG(mode) else "neither a file nor a folder"


@dataclass(frozen=True, slots=True)
class UnnamedFile:
    """Bytes on a disk that no listing shows yet.

    TileDB lists an array's folders and then asks for each file's size: one that is gone in
    between fails its open. So a file that is being written must not be seen at all. Where the
    file system has no files without a name, `part` is the name that it has meanwhile.
    """

    folder: int
    descriptor: int
    part: str | None

    def link(self, name: str, folder: int) -> None:
        """Give the file a name that is free.

        A link appears at once and fails if the name is taken; so does, on a mount without links, a
        rename that does not replace.

        Raises:
            FileExistsError: The name is taken.
        """
        if self.part is None:
            # With a descriptor for the source Python follows the link below /proc.
            source = f"/proc/self/fd/{self.descriptor}"
            os.link(source, name, src_dir_fd=self.folder, dst_dir_fd=folder)
            return
        try:
            os.link(self.part, name, src_dir_fd=self.folder, dst_dir_fd=folder)
        except OSError as cause:
            if cause.errno not in NO_LINK:
                raise
            _rename(self.part, self.folder, name, folder)

    def replace(self, name: str, folder: int) -> None:
        """Put the file in the place of another one; a reader sees all of one of them."""
        part = self.part or part_name()
        if self.part is None:
            self.link(part, self.folder)
        try:
            os.rename(part, name, src_dir_fd=self.folder, dst_dir_fd=folder)
        except BaseException:
            if self.part is None:
                os.unlink(part, dir_fd=self.folder)
            raise


@contextmanager
def unnamed_file(folder: int, parts: Iterable[bytes]) -> Generator[UnnamedFile]:
    """Write bytes to the disk of a folder; they are gone at the end if nothing named them.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as root:
    ...     folder = os.open(root, os.O_RDONLY)
    ...     with unnamed_file(folder, [b"whole"]) as file:
    ...         before = os.listdir(root)
    ...         file.link("name", folder)
    ...     before, os.listdir(root)
    ...     os.close(folder)
    ([], ['name'])
    """
    descriptor, part = _opened(folder)
    try:
        with open(descriptor, "wb") as out:  # noqa: PTH123 - a descriptor, not a path
            out.writelines(parts)
            out.flush()
            os.fsync(descriptor)
            yield UnnamedFile(folder, descriptor, part)
    finally:
        if part is not None:
            _unlink(part, folder)


def part_name() -> str:
    """Make a name for a file that is not whole; `place.LEFTOVER` knows it again."""
    return f".chronotile-{os.urandom(8).hex()}.part"


def _rename(part: str, above: int, name: str, folder: int) -> None:
    """Give a file a name that is free; Python's own rename takes one that is not."""
    library = ctypes.CDLL(None, use_errno=True)
    if not hasattr(library, "renameat2"):
        raise OSError(errno.ENOTSUP, "this file system has no hard links")
    if library.renameat2(above, os.fsencode(part), folder, os.fsencode(name), _NOREPLACE):
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number), name)


def _opened(folder: int) -> tuple[int, str | None]:
    if _TMPFILE:
        try:
            file = os.open(".", _TMPFILE | os.O_WRONLY | os.O_CLOEXEC, 0o666, dir_fd=folder)
        except OSError as cause:
            if cause.errno not in _UNSUPPORTED:
                raise
        else:
            if os.path.lexists(f"/proc/self/fd/{file}"):
                return file, None
            os.close(file)
    part = part_name()
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
    return os.open(part, flags, 0o666, dir_fd=folder), part


def _unlink(part: str, folder: int) -> None:
    try:
        os.unlink(part, dir_fd=folder)
    except FileNotFoundError:
        return  # It has replaced another file, under that one's name.
