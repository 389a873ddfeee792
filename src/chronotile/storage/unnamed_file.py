"""Files that get their name when they are whole.

In: a folder's descriptor and bytes. Out: an open file without a name, on the same disk, and a way
to name it. Knows no store, no path, and nothing of what the bytes mean.
"""

from __future__ import annotations

import errno
import os
import secrets
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Generator, Iterable

_TMPFILE = getattr(os, "O_TMPFILE", 0)
_UNSUPPORTED = {errno.EOPNOTSUPP, errno.EISDIR, errno.EINVAL, errno.ENOENT}


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

        A link appears at once and fails if the name is taken; a rename would replace.

        Raises:
            FileExistsError: The name is taken.
        """
        if self.part is None:
            # With a descriptor for the source Python follows the link below /proc.
            source = f"/proc/self/fd/{self.descriptor}"
            os.link(source, name, src_dir_fd=self.folder, dst_dir_fd=folder)
        else:
            os.link(self.part, name, src_dir_fd=self.folder, dst_dir_fd=folder)

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
    """The name of a file that is not whole; `place.LEFTOVER` knows it again."""
    return f".chronotile-{secrets.token_hex(8)}.part"


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
