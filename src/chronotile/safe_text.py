"""Text that is safe to show: escaped, without secrets, quoted for a shell or HTML.

In: text from anywhere. Out: the same for a terminal, a page, a notebook, JSON or a command line.

Text from files may hold characters that move a cursor, colour a terminal, reverse the order of
letters or show nothing at all. Code that writes to a terminal, a page or a picture passes the text
through `printable`; code that writes JSON passes it through `printable_json`.
"""

from __future__ import annotations

import json
import re
import shlex
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

_NOT_ASCII_TEXT = re.compile(r"[^ -~]+")
_NOT_JSON_TEXT = re.compile(r"[^\n -~]+")
# Letters and marks, by their category, that show nothing: fillers, variation selectors, the
# empty Braille pattern. `str.isprintable` knows the rest: control and format characters,
# separators except the space, surrogates, private and unassigned characters.
_UNSEEN = re.compile(
    "[\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180f\u2800\u3164\ufe00-\ufe0f\uffa0"
    "\U000e0100-\U000e01ef]"
)

SECRET_NAME = "key|secret|token|password|sas|credential|account"
"""What is in the name of an option whose value is a secret, as a regular expression."""
_USER = re.compile(r"(://)[^/@\s]+@")
_QUERY = re.compile(r"(https?://[^\s?]+)\?[^\s)\"']+")


_SHORTEST_SECRET = 4


def without_secrets(text: str, secrets: Iterable[str]) -> str:
    """Leave out secrets, unless they are so short that they stand in other words by chance.

    >>> without_secrets("no access for hush-hush", ["hush-hush", "a"])
    'no access for …'
    """
    for secret in secrets:
        if len(secret) >= _SHORTEST_SECRET:
            text = text.replace(secret, "…").replace(printable(secret), "…")
    return text


def without_queries(text: str) -> str:
    """Leave out the user and the query of an address: a password, a signature.

    >>> without_queries("no 'https://u:p@h/x?sig=1' there")
    "no 'https://…@h/x?…' there"
    """
    return _USER.sub(r"\1…@", _QUERY.sub(r"\1?…", text))


def is_printable(character: str) -> bool:
    r"""Tell whether a character shows as itself, and changes nothing around it.

    >>> is_printable("ä"), is_printable("\u202e"), is_printable("\x9b"), is_printable("\n")
    (True, False, False, False)
    """
    return character.isprintable() and _UNSEEN.match(character) is None


def printable(text: str) -> str:
    r"""Escape the characters that cannot be printed, as Python's `repr` does.

    A backslash stays as it is: escaped text does not change, and a user can copy a predicate,
    whose strings are escaped, from the output. JSON has the exact text.

    >>> printable("a\udcff\nb")
    'a\\udcff\\nb'
    """
    if text.isascii() and text.isprintable():
        return text
    return _NOT_ASCII_TEXT.sub(_escaped, text)


def printable_json(document: str) -> str:
    r"""Escape the characters of a JSON document that cannot be printed; its content stays the same.

    >>> printable_json('{"ä": "\u202e\U000e0001"}')
    '{"ä": "\\u202e\\udb40\\udc01"}'
    """
    if document.isascii() and "\x7f" not in document:
        return document  # the encoder has escaped all other control characters
    return _NOT_JSON_TEXT.sub(_escaped_in_json, document)


def html_card(title: str, rows: Iterable[tuple[str, object]]) -> str:
    r"""Write a title and a table of two columns for a notebook, escaped for HTML.

    >>> html_card("a<b", [("predicate", "x < \x1b")])
    '<table><caption>a&lt;b</caption><tr><th>predicate</th><td>x &lt; \\x1b</td></tr></table>'
    """
    return _html(title, (_html_cell("th", name) + _html_cell("td", value) for name, value in rows))


def html_table(title: str, heads: Iterable[str], rows: Iterable[Iterable[object]]) -> str:
    """Write a title and a table for a notebook, escaped for HTML.

    >>> html_table("tags", ["name"], [["a<b"]])
    '<table><caption>tags</caption><tr><th>name</th></tr><tr><td>a&lt;b</td></tr></table>'
    """
    top = "".join(_html_cell("th", head) for head in heads)
    body = ("".join(_html_cell("td", cell) for cell in row) for row in rows)
    return _html(title, (top, *body) if top else body)


def _html(title: str, rows: Iterable[str]) -> str:
    body = "".join(f"<tr>{row}</tr>" for row in rows)
    return f"<table>{_html_cell('caption', title)}{body}</table>"


def _html_cell(tag: str, value: object) -> str:
    import html

    return f"<{tag}>{html.escape(printable(str(value)))}</{tag}>"


def _escaped(match: re.Match[str]) -> str:
    return "".join(
        c if is_printable(c) else c.encode("unicode_escape").decode("ascii") for c in match.group()
    )


def _escaped_in_json(match: re.Match[str]) -> str:
    return "".join(c if is_printable(c) else json.dumps(c)[1:-1] for c in match.group())


def did_you_mean(word: str, known: Iterable[str], before: str = "") -> str:
    """Suggest the known word that is most like another one, as the end of a message.

    `before` is written in front of it.

    >>> did_you_mean("amuont", ["id", "amount"]), did_you_mean("x", ["id", "amount"])
    ('; did you mean amount?', '')
    """
    import difflib

    by_small = {one.lower(): one for one in known}
    near = difflib.get_close_matches(word.lower(), by_small, n=1)
    return f"; did you mean {before}{printable(by_small[near[0]])}?" if near else ""


def shell_word(text: str) -> str:
    """Quote a text as one word of a command that can be pasted into a shell.

    >>> shell_word("s3://b/a"), shell_word("my array")
    ('s3://b/a', "'my array'")
    """
    return shlex.quote(printable(text))
