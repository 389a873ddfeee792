"""The words of the predicate language.

In: text. Out: its tokens in order, and the values of its strings. Knows nothing of grammar or
schemas. An error shows the text, with a caret under the column.
"""

from __future__ import annotations

import re
import unicodedata
from typing import NamedTuple

from chronotile.errors import PredicateError

MAX_LENGTH = 1_000_000
"""Characters of the longest predicate that `tokens` takes."""

_TOKEN = re.compile(
    r"""(?P<bytes>[bB](?:'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*"))
    |(?P<string>'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*")
    |(?P<number>(?:0[xX][0-9a-fA-F_]+|(?:[0-9][0-9_]*\.?[0-9_]*|\.[0-9][0-9_]*)(?:[eE][+-]?[0-9]+)?)
       (?!\w))
    |(?P<name>[^\W\d]\w*)
    |(?P<symbol><=|>=|==|!=|<>|&&|\|\||[-<>()\[\],&|+.=!~^])
    |(?P<end>\Z)""",
    re.VERBOSE | re.DOTALL,
)
_ESCAPE = re.compile(
    r"\\(?:x[0-9a-fA-F]{2}|u[0-9a-fA-F]{4}|U[0-9a-fA-F]{8}|(?P<octal>[0-7]{1,3})"
    r"""|[\n\\'"abfnrtv]|(?P<cut>[xuU]))"""
)
"""A backslash with a meaning; `cut` lacks digits. Any other backslash stands for itself."""
_SHOWN = 60


class Token(NamedTuple):
    """A word of a predicate, and where it starts."""

    kind: str
    """One of bytes, string, number, name, symbol, end."""
    text: str
    start: int


def tokens(text: str) -> tuple[Token, ...]:
    """Split a predicate into its words; the last is always the end.

    Raises:
        PredicateError: Some part of it is no word.

    >>> [token.text for token in tokens("a <= -3")]
    ['a', '<=', '-', '3', '']
    """
    if len(text) > MAX_LENGTH:
        problem = f"expected at most {MAX_LENGTH} characters, found {len(text)}"
        raise PredicateError("predicate", problem)
    words: list[Token] = []
    start = 0
    while not words or words[-1].kind != "end":
        while text[start : start + 1].isspace():
            start += 1
        match = _TOKEN.match(text, start)
        if match is None:
            what = "the end of this string" if text[start] in "'\"" else "a word of the language"
            raise at_place(text, start, f"expected {what}, found {text[start : start + 20]!r}")
        words.append(Token(match.lastgroup or "", match.group(), start))
        start = match.end()
    return tuple(words)


def string_value(token: Token, text: str) -> str | bytes:
    r"""The value of a string or bytes token, its escapes resolved as in Python.

    Raises:
        PredicateError: An escape has no meaning, or a character is no byte.

    >>> string_value(Token("string", r"'a\'\x41'", 0), r"'a\'\x41'")
    "a'A"
    """
    binary = token.kind == "bytes"
    start = 2 if binary else 1
    body = token.text[start:-1]

    def resolved(match: re.Match[str]) -> str:
        escape, where = match.group(), token.start + start + match.start()
        if binary and escape[1] in "uU":
            return escape
        if match["cut"]:
            raise at_place(text, where, f"expected hex digits after {escape}, found others")
        try:
            octal = match["octal"]
            value = chr(int(octal, 8)) if octal else escape.encode().decode("unicode_escape")
            value.encode("latin-1" if binary else "utf-8")
        except UnicodeError as cause:
            raise at_place(text, where, f"expected a character, found {escape!r}") from cause
        return value

    value = _ESCAPE.sub(resolved, body)
    if not binary:
        return value
    if not body.isascii():
        problem = "expected ASCII in a bytes literal, found other characters"
        raise at_place(text, token.start, problem)
    return value.encode("latin-1")


def _width(character: str) -> int:
    """The columns that a character takes on a terminal."""
    if unicodedata.combining(character):
        return 0
    return 2 if unicodedata.east_asian_width(character) in "WF" else 1


def at_place(text: str, index: int, problem: str) -> PredicateError:
    """Make an error that shows the text, with a caret under a character.

    >>> print(at_place("a << 3", 3, "expected a value, found '<'"))
    predicate, column 4: expected a value, found '<'
      a << 3
         ^
    """
    first, last = max(0, index - _SHOWN), index + _SHOWN
    shown = "".join(c if c.isprintable() else " " for c in text[first:last])
    before, after = "… " if first else "", " …" if last < len(text) else ""
    caret = " " * (len(before) + sum(map(_width, shown[: index - first])))
    lines = f"{problem}\n  {before}{shown}{after}\n  {caret}^"
    return PredicateError(f"predicate, column {index + 1}", lines)


class Cursor:
    """The tokens of a predicate, and the index of the next one.

    >>> Cursor("a < 3").take().text
    'a'
    """

    def __init__(self, text: str) -> None:
        self.text = text
        self.tokens = tokens(text)
        self.index = 0

    def peek(self, ahead: int = 0) -> Token:
        """The next token, or one behind it; past the last token, the last one."""
        return self.tokens[min(self.index + ahead, len(self.tokens) - 1)]

    def take(self) -> Token:
        """Give the next token, and move past it."""
        token = self.peek()
        self.index += 1
        return token

    def is_word(self, word: str) -> bool:
        """Whether the next token is this word."""
        return self.peek().kind == "name" and self.peek().text == word

    def expect(self, symbol: str) -> Token:
        """Take this symbol, or raise a `PredicateError` if another token is next."""
        token = self.take()
        if token.kind != "symbol" or token.text != symbol:
            raise self.fail(f"expected {symbol}, found {token.text or 'the end'!r}", token.start)
        return token

    def fail(self, problem: str, index: int) -> PredicateError:
        """Make an error that points to a character."""
        return at_place(self.text, index, problem)
