"""The errors of the project, and text that is safe to print.

In: nothing, or text from anywhere. Out: one root, `ChronotileError`, and its few kinds; and the
text with escapes for all that cannot be seen. Every message says where, what was expected and what
was found; every error can be pickled, as Spark sends it.

Text from files may hold what moves a cursor, colours a terminal, turns the order of letters around
or shows nothing at all. Whoever writes text to a terminal, a page or a picture, writes it
`printable`; whoever writes JSON, writes it with `printable_json`. Both know nothing of styles.
"""

from __future__ import annotations

import json
import re

_NOT_ASCII_TEXT = re.compile(r"[^ -~]+")
_NOT_JSON_TEXT = re.compile(r"[^\n -~]+")
_FOUND = re.compile(r"[,;] found:? ")
_SEMICOLON = re.compile("; ")
# Letters and marks, by their category, that show nothing: fillers, variation selectors, the
# empty Braille pattern. `str.isprintable` knows the rest: control and format characters,
# separators but the space, surrogates, and what is private or not assigned.
_UNSEEN = re.compile(
    "[\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180f\u2800\u3164\ufe00-\ufe0f\uffa0"
    "\U000e0100-\U000e01ef]"
)


def is_printable(character: str) -> bool:
    r"""Tell whether a character shows as itself, and changes nothing around it.

    >>> is_printable("ä"), is_printable("\u202e"), is_printable("\x9b"), is_printable("\n")
    (True, False, False, False)
    """
    return character.isprintable() and _UNSEEN.match(character) is None


def printable(text: str) -> str:
    r"""Escape what cannot be printed, as Python's `repr` does.

    A backslash stays as it is. So a text that is escaped already does not change, and a predicate,
    whose strings are escaped, can be copied from where it is shown. JSON has the exact text.

    >>> printable("a\udcff\nb")
    'a\\udcff\\nb'
    >>> printable(printable("\x1b[2J Größe")) == "\\x1b[2J Größe"
    True
    """
    return _NOT_ASCII_TEXT.sub(_escaped, text)


def printable_json(document: str) -> str:
    r"""Escape what cannot be printed in a JSON document; what it says stays the same.

    >>> printable_json('{"ä": "\u202e\U000e0001"}')
    '{"ä": "\\u202e\\udb40\\udc01"}'
    """
    if document.isascii() and "\x7f" not in document:
        return document  # the encoder has escaped all other control characters
    return _NOT_JSON_TEXT.sub(_escaped_in_json, document)


def _escaped(found: re.Match[str]) -> str:
    return "".join(
        c if is_printable(c) else c.encode("unicode_escape").decode("ascii") for c in found.group()
    )


def _escaped_in_json(found: re.Match[str]) -> str:
    return "".join(c if is_printable(c) else json.dumps(c)[1:-1] for c in found.group())


class ChronotileError(Exception):
    """The root of every error that this package raises on purpose.

    >>> str(ChronotileError("a.del", "expected a tile, found 3 bytes"))
    'a.del: expected a tile, found 3 bytes'
    """

    exit_code = 1
    """What the command line exits with."""
    hint: str | None = None
    """What to try, where a kind of error always asks for the same."""

    def __init__(self, where: str, problem: str) -> None:
        super().__init__(where, problem)
        self.where = where
        self.problem = problem

    @property
    def place(self) -> str:
        """Where, to the byte if that is known."""
        return self.where

    def __str__(self) -> str:
        return f"{self.place}: {self.problem}"

    def to_dict(self) -> dict[str, str | None]:
        """The parts of the message, as `--json` prints them.

        >>> ChronotileError("a.del", "expected a tile, found 3 bytes").to_dict()
        {'where': 'a.del', 'expected': 'a tile', 'found': '3 bytes', 'hint': None}
        """
        return {"where": self.place, **split_problem(self.problem), "hint": self.hint}


def split_problem(problem: str) -> dict[str, str | None]:
    """Take "expected …, found …" or "expected …; …" apart; else all is what was found.

    The first "found" counts: what was expected is in words of ours, what was found may be anything.

    >>> split_problem("expected at least one, found none: 'x, found y'")["found"]
    "none: 'x, found y'"
    >>> split_problem("the storage answered: no")
    {'expected': None, 'found': 'the storage answered: no'}
    """
    if not problem.startswith("expected "):
        return {"expected": None, "found": problem}
    told = problem.removeprefix("expected ")
    expected, *found = (_FOUND if _FOUND.search(told) else _SEMICOLON).split(told, maxsplit=1)
    return {"expected": expected, "found": found[0] if found else None}


class ReadError(ChronotileError):
    """Something could not be read: what it holds is not known."""

    exit_code = 3


class BadNameError(ChronotileError, ValueError):
    """A name that is no timestamped name."""


class BadFileError(ReadError, ValueError):
    """Bytes that are not what their file claims to be.

    >>> str(BadFileError("a.del", "expected 34 bytes, found 3", offset=0))
    'a.del: at byte 0: expected 34 bytes, found 3'
    """

    def __init__(self, where: str, problem: str, offset: int | None = None) -> None:
        Exception.__init__(self, where, problem, offset)
        self.where = where
        self.problem = problem
        self.offset = offset

    @property
    def place(self) -> str:
        """The file, and the byte if that is known."""
        return self.where if self.offset is None else f"{self.where}: at byte {self.offset}"


class TooLargeError(BadFileError):
    """A size that is over the ceiling that the caller set."""


class UnsupportedFilterError(BadFileError):
    """A tile whose pipeline names a filter that is not supported."""


class KeyNeededError(ReadError):
    """An encrypted tile, and no key to open it."""


class WrongKeyError(ReadError):
    """An encrypted tile, and a key that does not open it."""

    hint = "give the key that the array was made with: --key-file FILE"


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
