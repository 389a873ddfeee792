"""JSON and TOML that somebody hands in, such as a report or a policy; and JSON that is written.

In: bytes. Out: one object; or one error that says what was expected, whatever the bytes are. Knows
no field of an object.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from chronotile.errors import BadFileError
from chronotile.safe_text import printable_json

if TYPE_CHECKING:
    from collections.abc import Callable


def read_json(data: bytes, where: str, what: str) -> dict[str, Any]:
    """Read one JSON object.

    `what` says what it should be, in words.

    >>> read_json(b"[]", "a.json", "a report")
    Traceback (most recent call last):
    chronotile.errors.BadFileError: a.json: expected a report, found a list
    """
    return _read(json.loads, data, where, what)


def json_text(document: dict[str, Any]) -> str:
    """Write a document as JSON text that can be printed."""
    return printable_json(json.dumps(document, indent=2, ensure_ascii=False)) + "\n"


def read_toml(data: bytes, where: str, what: str) -> dict[str, Any]:
    """Read a TOML file.

    >>> read_toml(b"a = 1", "a.toml", "a policy in TOML")
    {'a': 1}
    """
    import tomllib

    return _read(lambda raw: tomllib.loads(raw.decode()), data, where, what)


def _read(parse: Callable[[bytes], Any], data: bytes, where: str, what: str) -> dict[str, Any]:
    try:
        document = parse(data)
    except RecursionError:
        raise BadFileError(where, f"expected {what}, found values nested too deeply") from None
    except ValueError as cause:
        raise BadFileError(where, f"expected {what}, found: {cause!s:.200}") from None
    if not isinstance(document, dict):
        words = {list: "a list", str: "a text", type(None): "null"}
        found = words.get(type(document), "a number or a truth value")
        raise BadFileError(where, f"expected {what}, found {found}")
    return document
