"""Arrays that could not be read: what is said of them.

In: the error of a reading. Out: a finding, whether another try may succeed, the error in words.
Touches no storage.

A damaged array differs from one that could not be read: if the storage refuses, or memory runs
out, the array may be sound, and needs no repair.
"""

from __future__ import annotations

from chronotile.check.findings import SEALED, UNREADABLE, Finding, finding, wrong_key
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

_SEALED = (KeyNeededError, WrongKeyError)
_UNSOUND = (BadFileError, BadNameError)
_NO_DAMAGE = (TooLargeError, UnsupportedFilterError)
"""Errors that name a file, but that no repair removes."""


def unreadable(array: str, error: Exception, more: str = "") -> Finding:
    """Make the finding on an array that could not be read at all; `more` ends its message.

    >>> unreadable("a", WrongKeyError("a", "expected its key, found another")).code
    'tile-encrypted'
    """
    code, path, problem = UNREADABLE, "", words(error)
    if isinstance(error, ChronotileError) and error.where.startswith(f"{array}/"):
        path, problem = error.where.removeprefix(f"{array}/"), error.problem
    if isinstance(error, WrongKeyError):
        return wrong_key(array, path, f"it cannot be read: {problem}{more}")
    if isinstance(error, KeyNeededError):
        code = SEALED
    elif isinstance(error, BadFileError) and not isinstance(error, _NO_DAMAGE):
        code = "tile-corrupt"
    return finding(array, code, path, f"it cannot be read: {problem}{more}", severity="error")


def may_pass(error: Exception) -> bool:
    """Tell whether another try may succeed: the reading failed, and the array may be sound.

    >>> from chronotile.errors import StorageError
    >>> may_pass(StorageError("a", "503")), may_pass(ArrayNotFoundError("a", "no schema"))
    (True, False)
    """
    return not isinstance(error, (*_SEALED, *_UNSOUND, ArrayNotFoundError))


def words(error: Exception) -> str:
    """Put an error in words, with its class if it is not ours.

    >>> words(MemoryError())
    'MemoryError'
    """
    if isinstance(error, ChronotileError):
        return str(error)
    return f"{type(error).__name__}: {error}".rstrip(": ")
