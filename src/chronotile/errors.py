"""The errors of the project.

In: nothing. Out: one root, `ChronotileError`, and its few kinds. Every message says where,
what was expected and what was found; every error can be pickled, as Spark sends it.
"""

from __future__ import annotations


class ChronotileError(Exception):
    """The root of every error that this package raises on purpose.

    >>> str(ChronotileError("a.del", "expected a tile, found 3 bytes"))
    'a.del: expected a tile, found 3 bytes'
    """

    exit_code = 1
    """What the command line exits with."""

    def __init__(self, where: str, problem: str) -> None:
        super().__init__(where, problem)
        self.where = where
        self.problem = problem

    def __str__(self) -> str:
        return f"{self.where}: {self.problem}"


class BadNameError(ChronotileError, ValueError):
    """A name that is no timestamped name."""


class BadFileError(ChronotileError, ValueError):
    """Bytes that are not what their file claims to be.

    >>> str(BadFileError("a.del", "expected 34 bytes, found 3", offset=0))
    'a.del: at byte 0: expected 34 bytes, found 3'
    """

    def __init__(self, where: str, problem: str, offset: int | None = None) -> None:
        Exception.__init__(self, where, problem, offset)
        self.where = where
        self.problem = problem
        self.offset = offset

    def __str__(self) -> str:
        if self.offset is None:
            return f"{self.where}: {self.problem}"
        return f"{self.where}: at byte {self.offset}: {self.problem}"


class TooLargeError(BadFileError):
    """A size that is over the ceiling that the caller set."""


class UnsupportedFilterError(BadFileError):
    """A tile whose pipeline names a filter that is not supported."""


class KeyNeededError(ChronotileError):
    """An encrypted tile, and no key to open it."""


class WrongKeyError(ChronotileError):
    """An encrypted tile, and a key that does not open it."""


class PredicateError(ChronotileError, ValueError):
    """A predicate or update value that does not fit the schema, or cannot be read."""

    exit_code = 2


class StorageError(ChronotileError, OSError):
    """The storage failed, after all retries."""


class ArrayNotFoundError(ChronotileError, FileNotFoundError):
    """No array at that place."""


class ChangedError(ChronotileError):
    """The array changed while it was read: try again."""
