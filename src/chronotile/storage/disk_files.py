"""Every file below a local folder, whatever its name.

In: a place on a disk. Out: entries with sizes. Opens no file, and follows no symbolic link below
the root: a link takes no room of its own.
"""

from __future__ import annotations

import os
import stat
from typing import TYPE_CHECKING

from chronotile.errors import ArrayNotFoundError, StorageError, printable
from chronotile.storage.place import Entry

if TYPE_CHECKING:
    from chronotile.storage.place import Place


def every_file(place: Place) -> tuple[Entry, ...]:
    r"""List all regular files below a place, sorted by path.

    A name that is no path, such as one with a control character in it, gets escapes: it is there
    to be counted, not to be opened.

    Raises:
        ArrayNotFoundError: There is no such folder.
        StorageError: The disk refuses to list a folder.

    >>> import pathlib, tempfile
    >>> from chronotile.storage.place import find_place
    >>> with tempfile.TemporaryDirectory() as root:
    ...     _ = pathlib.Path(root, "a\tb").write_bytes(b"abc")
    ...     [entry[:2] for entry in every_file(find_place(root))]
    [('a\\tb', 3)]
    """
    root = os.path.realpath(place.root)
    found: list[Entry] = []
    try:
        for folder, _, names, descriptor in os.fwalk(root, onerror=_raised):
            base = os.path.relpath(folder, root)
            for name in names:
                try:
                    status = os.stat(name, dir_fd=descriptor, follow_symlinks=False)
                except FileNotFoundError:
                    continue
                if stat.S_ISREG(status.st_mode):
                    path = name if base == "." else f"{base}/{name}"
                    modified_ms = status.st_mtime_ns // 1_000_000
                    found.append(Entry(printable(path), status.st_size, modified_ms))
    except (FileNotFoundError, NotADirectoryError) as cause:
        raise ArrayNotFoundError(place.uri, "expected a folder, found none") from cause
    except OSError as cause:
        where = printable(os.path.relpath(cause.filename or root, root))
        problem = f"the disk answered: {cause.strerror or cause}"
        raise StorageError(place.uri_of(where), problem) from cause
    return tuple(sorted(found))


def _raised(cause: OSError) -> None:
    """Raises an error of the disk, unless a folder has gone since its parent was listed."""
    if not isinstance(cause, FileNotFoundError):
        raise cause
