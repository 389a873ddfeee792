"""Checks of every array at or below some folders.

In: folders or arrays. Out: `FleetCheck`: findings, array by array, and the folders that could not
be listed. One array that cannot be read does not stop the others.

That an array is damaged, and that it could not be read, are two things: storage that refuses, or
memory that runs out, says nothing of the array, and nothing must be repaired for it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from chronotile.check.array import check
from chronotile.check.findings import SEVERITIES, Finding, finding
from chronotile.dataset.find_arrays import Unlisted, find_arrays
from chronotile.errors import (
    ArrayNotFoundError,
    BadFileError,
    BadNameError,
    ChronotileError,
    KeyNeededError,
    TooLargeError,
    UnsupportedFilterError,
    WrongKeyError,
)
from chronotile.history.reading import read_history
from chronotile.storage.store import open_store

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

__all__ = ["UNREADABLE", "FleetCheck", "check_fleet", "may_pass", "unreadable"]

UNREADABLE = "unreadable"
"""The code of what could not be read, whatever state it is in."""

_SEALED = (KeyNeededError, WrongKeyError)
_UNSOUND = (BadFileError, BadNameError)
_NO_DAMAGE = (TooLargeError, UnsupportedFilterError)
"""Errors that are told of a file, and that no repair does away with."""


class FleetCheck(NamedTuple):
    """What was found on a fleet."""

    arrays: tuple[str, ...]
    findings: tuple[Finding, ...]
    """Array by array, the worst first; then the folders that could not be listed."""
    problems: tuple[Unlisted, ...]
    """Folders that could not be listed: arrays below them were not checked."""

    def worst(self) -> str | None:
        """The worst severity found.

        >>> FleetCheck((), (), ()).worst() is None
        True
        """
        found = {item.severity for item in self.findings}
        return next((severity for severity in SEVERITIES if severity in found), None)

    def is_whole(self) -> bool:
        """Whether everything could be read.

        >>> FleetCheck((), (unreadable("a", MemoryError()),), ()).is_whole()
        False
        """
        return all(item.code != UNREADABLE for item in self.findings)


def check_fleet(
    roots: str | Iterable[str],
    *,
    key: bytes | None = None,
    storage_options: Mapping[str, str] | None = None,
    on_array: Callable[[str], None] | None = None,
    log_only: bool = False,
) -> FleetCheck:
    """Checks every array at or below the roots.

    Args:
        roots: Arrays, folders above arrays, or patterns of them.
        key: The key of those that are encrypted.
        storage_options: What the storage needs to know.
        on_array: Called with each array before it is read.
        log_only: Look at the commit logs, and at no fragment.

    Raises:
        ArrayNotFoundError: A root does not exist.

    >>> from chronotile.storage.store import open_store
    >>> open_store("memory:doc-fleet").put_if_absent("a/__schema/s", b"")
    >>> [item.code for item in check_fleet("memory:doc-fleet").findings]
    ['name-malformed']
    """
    fleet = find_arrays(roots, storage_options)
    found: list[Finding] = []
    for uri in fleet.uris:
        if on_array is not None:
            on_array(uri)
        try:
            store = open_store(uri, storage_options)
            history = read_history(uri, key=key, store=store)
            found += check(history, store=None if log_only else store)
        except Exception as error:  # one array, whatever comes of it, never stops the others
            found.append(unreadable(uri, error))
    return FleetCheck(fleet.uris, (*found, *map(unlisted, fleet.problems)), fleet.problems)


def unreadable(array: str, error: Exception, more: str = "") -> Finding:
    """The finding on an array that could not be read at all.

    Args:
        array: The array.
        error: What came of reading it.
        more: Further words, if there is more to say.

    >>> from chronotile.errors import StorageError
    >>> unreadable("a", WrongKeyError("a", "expected its key, found another")).code
    'tile-encrypted'
    >>> unreadable("a", StorageError("a", "the storage answered: 503")).code
    'unreadable'
    >>> unreadable("a", BadFileError("a/s", "expected a tile, found 3 bytes")).code
    'tile-corrupt'
    """
    code = UNREADABLE
    if isinstance(error, _SEALED):
        code = "tile-encrypted"
    elif isinstance(error, BadFileError) and not isinstance(error, _NO_DAMAGE):
        code = "tile-corrupt"
    return finding(array, code, "", f"it cannot be read: {words(error)}{more}", severity="error")


def unlisted(folder: Unlisted) -> Finding:
    """The finding on a folder that could not be listed.

    >>> unlisted(Unlisted("s3://lake", "the storage answered: 403")).message
    'it cannot be listed: the storage answered: 403'
    """
    found = "it is not there" if folder.missing else "it cannot be listed"
    return finding(folder.uri, UNREADABLE, "", f"{found}: {folder.message}")


def may_pass(error: Exception) -> bool:
    """Whether the reading failed, and not the array: then another try may succeed.

    >>> from chronotile.errors import StorageError
    >>> may_pass(StorageError("a", "503")), may_pass(ArrayNotFoundError("a", "no schema"))
    (True, False)
    """
    return not isinstance(error, (*_SEALED, *_UNSOUND, ArrayNotFoundError))


def words(error: Exception) -> str:
    """An error in words; one that is not ours with its name.

    >>> words(MemoryError())
    'MemoryError'
    """
    if isinstance(error, ChronotileError):
        return str(error)
    return f"{type(error).__name__}: {error}".rstrip(": ")
