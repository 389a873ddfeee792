"""The ends of many files on a disk, with few calls.

In: an open folder, and names of folders and files below it. Out: the last bytes and the size of
each file. Follows no symbolic link; leaves every error to the careful path of `local_disk`.
"""

from __future__ import annotations

import os
import stat
from typing import TypeAlias

PLAIN_FILE = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
"""How a file is opened. Not blocking: opening a named pipe would wait forever."""
_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC

Tail: TypeAlias = tuple[bytes, int]
"""The last bytes of a file, and its size."""


def read_between(file: int, start: int, end: int) -> bytes:
    """The bytes of an open file from `start` to before `end`, or to its end."""
    parts: list[bytes] = []
    while start < end and (part := os.pread(file, end - start, start)):
        parts.append(part)
        start += len(part)
    return b"".join(parts)


def tail_below(beside: int, folder: str, name: str, length: int) -> Tail | None:
    """The end of a file in a folder; None if either is not what it should be.

    Args:
        beside: The open folder that holds the file's folder.
        folder: The name of the file's folder.
        name: The name of the file.
        length: How many bytes, at most; 0 asks only for the size.
    """
    if not length:
        return _size_below(beside, f"{folder}/{name}")
    try:
        inside = os.open(folder, _FOLDER, dir_fd=beside)
    except OSError:
        return None
    try:
        file = os.open(name, PLAIN_FILE, dir_fd=inside)
        try:
            status = os.fstat(file)
            if not stat.S_ISREG(status.st_mode):
                return None
            size = status.st_size
            return read_between(file, max(size - length, 0), size), size
        finally:
            os.close(file)
    except OSError:
        return None
    finally:
        os.close(inside)


def _size_below(beside: int, path: str) -> Tail | None:
    # Nothing is opened: a folder that has just become a link could tell no more than a size.
    try:
        status = os.stat(path, dir_fd=beside, follow_symlinks=False)
    except OSError:
        return None
    return (b"", status.st_size) if stat.S_ISREG(status.st_mode) else None
