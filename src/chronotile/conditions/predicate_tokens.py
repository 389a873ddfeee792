"""The words of the predicate language.

In: text. Out: its tokens, one after the other, and the values of its strings. Knows nothing of
grammar or schemas. An error shows the text, with a caret under the place.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from chronotile.errors import PredicateError

MAX_LENGTH = 1_000_000
"""The longest predicate that is read, in characters."""

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
_SPACE = re.compile(r"\s*")
_ESCAPE = re.compile(
    r"\\(?:x[0-9a-fA-F]{2}|u[0-9a-fA-F]{4}|U[0-9a-fA-F]{8}|(?P<octal>[0-7]{1,3})"
    r"""|[\n\\'"abfnrtv]|(?P<cut>[xuU]))"""
)
"""What means something after a backslash; `cut` lacks digits. Any other backslash is itself."""
_SHOWN = 60


class Token(NamedTuple):
    """A word of a predicate, and where it starts."""

    kind: str
    """One of bytes, string, number, name, symbol, end."""
    text: str
    at: int


def tokens(text: str) -> tuple[Token, ...]:
    """Split a predicate into its words; the last is always the end.

    Raises:
        PredicateError: If something in it is no word.

    >>> [token.text for token in tokens("a <= -3")]
    ['a', '<=', '-', '3', '']
    """
    if len(text) > MAX_LENGTH:
        problem = f"expected at most {MAX_LENGTH} characters, found {len(text)}"
        raise PredicateError("predicate", problem)
    found: list[Token] = []
    at = 0
    while not found or found[-1].kind != "end":
        at = _skip_space(text, at)
        token = _TOKEN.match(text, at)
        if token is None:
            character = text[at]
            what = "the end of this string" if character in "'\"" else "a word of the language"
            raise at_place(text, at, f"expected {what}, found {text[at : at + 20]!r}")
        found.append(Token(token.lastgroup or "", token.group(), at))
        at = token.end()
    return tuple(found)


def string_value(token: Token, text: str) -> str | bytes:
    r"""The value of a string or bytes token, its escapes resolved as in Python.

    Raises:
        PredicateError: If an escape has no meaning, or a character is no byte.

    >>> string_value(Token("string", r"'a\'\x41'", 0), r"'a\'\x41'")
    "a'A"
    """
    binary = token.kind == "bytes"
    start = 2 if binary else 1
    body = token.text[start:-1]

    def resolved(found: re.Match[str]) -> str:
        escape, where = found.group(), token.at + start + found.start()
        if binary and escape[1] in "uU":
            return escape
        if found["cut"]:
            raise at_place(text, where, f"expected hex digits after {escape}, found others")
        try:
            octal = found["octal"]
            value = chr(int(octal, 8)) if octal else escape.encode().decode("unicode_escape")
            value.encode("latin-1" if binary else "utf-8")
        except UnicodeError as cause:
            raise at_place(text, where, f"expected a character, found {escape!r}") from cause
        return value

    value = _ESCAPE.sub(resolved, body)
    if not binary:
        return value
    if not body.isascii():
        raise at_place(text, token.at, "expected ASCII in a bytes literal, found other characters")
    return value.encode("latin-1")


def at_place(text: str, at: int, problem: str) -> PredicateError:
    """Make an error that shows the text, with a caret under the place.

    >>> print(at_place("a << 3", 3, "expected a value, found '<'"))
    predicate, column 4: expected a value, found '<'
      a << 3
         ^
    """
    first = max(0, at - _SHOWN)
    shown = "".join(c if c.isprintable() else " " for c in text[first : at + _SHOWN])
    before, after = "… " if first else "", " …" if at + _SHOWN < len(text) else ""
    caret = " " * (len(before) + at - first)
    return PredicateError(
        f"predicate, column {at + 1}", f"{problem}\n  {before}{shown}{after}\n  {caret}^"
    )


class Cursor:
    """The tokens of a predicate, and the place that its reader has reached.

    >>> Cursor("a < 3").take().text
    'a'
    """

    def __init__(self, text: str) -> None:
        self.text = text
        self.tokens = tokens(text)
        self.index = 0

    def peek(self, ahead: int = 0) -> Token:
        """The next token, or one behind it; the last one is there forever."""
        return self.tokens[min(self.index + ahead, len(self.tokens) - 1)]

    def take(self) -> Token:
        """The next token; the reader passes it."""
        token = self.peek()
        self.index += 1
        return token

    def is_word(self, word: str) -> bool:
        """Whether the next token is this word."""
        return self.peek().kind == "name" and self.peek().text == word

    def expect(self, symbol: str) -> Token:
        """Take this symbol.

        Raises:
            PredicateError: If another token is next.
        """
        token = self.take()
        if token.kind != "symbol" or token.text != symbol:
            raise self.fail(f"expected {symbol}, found {token.text or 'the end'!r}", token)
        return token

    def fail(self, problem: str, token: Token) -> PredicateError:
        """Make an error that points to a token."""
        return at_place(self.text, token.at, problem)

    def fail_at(self, problem: str, at: int) -> PredicateError:
        """Make an error that points to a character."""
        return at_place(self.text, at, problem)


def _skip_space(text: str, at: int) -> int:
    space = _SPACE.match(text, at)
    return space.end() if space else at
