"""A folder of a local disk, opened from the root on without following a link.

In: a `Place` on a disk and a checked relative path. Out: a descriptor, or one of our errors in
place of the disk's. Knows nothing of what is in the folder.
"""

from __future__ import annotations

import errno
import os
import stat
from contextlib import suppress
from typing import TYPE_CHECKING

from chronotile.errors import ArrayNotFoundError, ChronotileError, StorageError
from chronotile.storage.place import MissingObjectError, ObjectExistsError, StrangerError

if TYPE_CHECKING:
    from chronotile.storage.place import Place

LINK = "a symbolic link, which is never followed"
_DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC
_BELOW = _DIRECTORY | os.O_NOFOLLOW


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
            raise MissingObjectError(where, "expected an object, found nothing") from None
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
    """What an entry of a folder is, in words, by its mode."""
    if stat.S_ISLNK(mode):
        return LINK
    if stat.S_ISDIR(mode):
        return "a folder"
    return "a file" if stat.S_ISREG(mode) else "neither a file nor a folder"
