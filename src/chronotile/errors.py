"""The errors of the project.

In: nothing, or text from anywhere. Out: one root, `ChronotileError`, and its few kinds. Every
message says where, what was expected and what was found; every error can be pickled, as Spark
sends it. Knows nothing of styles.
"""

from __future__ import annotations

import re
import shlex
from typing import TYPE_CHECKING

from chronotile.safe_text import did_you_mean, printable

if TYPE_CHECKING:
    from collections.abc import Collection

_FOUND = re.compile(r"[,;] found:? ")
_SEMICOLON = re.compile("; ")
_COMMAND = re.compile(r".+: chronotile .+")


GIVE_KEY = "--key-file FILE (in Python key=…)"
NEEDS_KEY = f"the array is encrypted, and no key was given; give {GIVE_KEY}"


def no_field(name: str, fields: Collection[str]) -> str:
    """Say that there is no such field, and which is meant or which there are.

    >>> no_field("foo", ["id", "amount"])
    "there is no field 'foo'; there are id, amount"
    """
    some = ", ".join(map(printable, [*fields][:12]))
    return f"there is no field {name!r:.80}{did_you_mean(name, fields) or f'; there are {some}'}"


def option(name: str, value: str = "") -> str:
    """Name an option of a change, for a shell and for Python.

    >>> option("any_time"), option("at", "TIME")
    ('--any-time (in Python any_time=True)', '--at TIME (in Python at=…)')
    """
    shell = f"--{name.replace('_', '-')}{value and f' {value}'}"
    return f"{shell} (in Python {name}={'…' if value else True})"


class ChronotileError(Exception):
    """The root of every error that this package raises on purpose.

    >>> str(ChronotileError("a.del", "expected a tile, found 3 bytes"))
    'a.del: expected a tile, found 3 bytes'
    """

    exit_code = 1
    """The exit status of the command line."""
    hint: str | None = None
    """What to try, if it is the same for every error of a kind."""

    def __init__(self, where: str, problem: str) -> None:
        super().__init__(where, problem)
        self.where = where
        self.problem = problem

    @property
    def place(self) -> str:
        """The file or array; the byte too, if it is known."""
        return self.where

    def __str__(self) -> str:
        return f"{self.place}: {self.problem}"

    def _render_traceback_(self) -> list[str]:
        """Give what a notebook shows instead of frames: the message, and what to try."""
        hint = f" ({self.hint})" if self.hint else ""
        return [*map(printable, f"{type(self).__name__}: {self}{hint}".split("\n"))]

    def to_dict(self) -> dict[str, str | None]:
        """Give the parts of the message, as `--json` prints them.

        >>> ChronotileError("a.del", "expected a tile, found 3 bytes").to_dict()
        {'where': 'a.del', 'expected': 'a tile', 'found': '3 bytes', 'hint': None}
        """
        return {"where": self.place, **split_problem(self.problem, self.hint)}


def split_problem(problem: str, hint: str | None = None) -> dict[str, str | None]:
    """Take "expected …, found …", "expected …; …" or "…; give …" apart, and a hint at the end.

    Any other problem is all `found`. The first "found" and the last "give" count: only the text
    between them may come from a file. Without a hint of the error's own, a command behind the last
    "; to …: " is one; a quoted text that ends so is not, as its quote is left open.

    >>> split_problem("expected at least one, found none: 'x, found y'")["found"]
    "none: 'x, found y'"
    >>> split_problem("'soon' is not a time; give one such as now")
    {'expected': 'one such as now', 'found': "'soon' is not a time", 'hint': None}
    >>> split_problem("no tag; to list all: chronotile tag list a")
    {'expected': None, 'found': 'no tag', 'hint': 'to list all: chronotile tag list a'}
    """
    rest, _, command = problem.rpartition("; to ")
    if hint is None and rest and _COMMAND.fullmatch(command) and _is_shell(command):
        problem, hint = rest, f"to {command}"
    return _expected_and_found(problem) | {"hint": hint}


def _is_shell(text: str) -> bool:
    try:
        return bool(shlex.split(text))
    except ValueError:
        return False


def _expected_and_found(problem: str) -> dict[str, str | None]:
    if not problem.startswith("expected "):
        what, _, wanted = problem.rpartition("; give ")
        return {"expected": wanted, "found": what} if what else {"expected": None, "found": problem}
    text = problem.removeprefix("expected ")
    expected, *found = (_FOUND if _FOUND.search(text) else _SEMICOLON).split(text, maxsplit=1)
    return {"expected": expected, "found": found[0] if found else None}


class ReadError(ChronotileError):
    """Something could not be read: its content is not known."""

    exit_code = 3


class BadNameError(ChronotileError, ValueError):
    """A name or path that is not allowed."""


class WrongCallError(ChronotileError, ValueError):
    """An argument or option that cannot mean anything here."""

    exit_code = 2


class BadTimeError(ChronotileError, ValueError):
    """A time that cannot be read, or a window that ends before it starts."""

    exit_code = 2


class BadFileError(ReadError, ValueError):
    """Bytes that do not fit the kind of their file.

    >>> str(BadFileError("a.del", "expected 34 bytes, found 3", offset=0))
    'a.del: at byte 0: expected 34 bytes, found 3'
    """

    def __init__(self, where: str, problem: str, offset: int | None = None) -> None:
        super().__init__(where, problem)
        self.args = (where, problem, offset)  # what a pickle makes the error from
        self.offset = offset

    @property
    def place(self) -> str:
        """The file; the byte too, if it is known."""
        return self.where if self.offset is None else f"{self.where}: at byte {self.offset}"


class MissingSchemaError(BadFileError):
    """Metadata of a fragment whose schema is not in the array any more.

    >>> str(MissingSchemaError("m.tdb", "__schema/__1_1_ab"))
    'm.tdb: its schema file __schema/__1_1_ab is missing'
    """

    def __init__(self, where: str, schema: str, offset: int | None = None) -> None:
        super().__init__(where, f"its schema file {schema} is missing", offset)
        self.args = (where, schema, offset)
        self.schema = schema
        """The file, relative to the array."""


class TooLargeError(BadFileError):
    """A size over the limit that the caller set."""


class UnsupportedFilterError(BadFileError):
    """A tile with a filter that this package does not have."""


class UnknownVersionError(BadFileError):
    """A format version that this package does not know: nothing is said of what follows it."""


class KeyNeededError(ReadError):
    """An encrypted tile, and no key to open it."""


class WrongKeyError(ReadError):
    """An encrypted tile, and a key that does not open it."""

    hint = f"give the key that the array was made with: {GIVE_KEY}"


def is_damage(error: BaseException) -> bool:
    """Tell whether an error is about bytes that a repair can take out.

    >>> is_damage(BadFileError("a", "cut")), is_damage(TooLargeError("a", "1 GB"))
    (True, False)
    """
    no_damage = UnsupportedFilterError | TooLargeError
    return isinstance(error, BadFileError) and not isinstance(error, no_damage)


class PredicateError(ChronotileError, ValueError):
    """A predicate or update value that does not fit the schema, or cannot be read."""

    exit_code = 2


class StorageError(ReadError, OSError):
    """The storage failed, after all retries."""


class ArrayNotFoundError(ReadError, FileNotFoundError):
    """No array at that place."""


class ChangedError(ReadError):
    """The array changed while it was read: try again."""

    hint = "try again"
