"""Tags: names for moments, kept in the array's own metadata.

In: the entries of an array's metadata. Out: the tags among them, each with its moment; entries that
add or remove one. Decides nothing about windows.

A tag is the key `chronotile.tag.NAME`, and its value is the moment in ms, an int64: every TileDB
program can read it, and a copy of the array keeps it.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from chronotile.errors import ChronotileError
from chronotile.format.array_metadata import MetadataItem, number_item, number_of, removal_item

if TYPE_CHECKING:
    from collections.abc import Iterable

PREFIX = b"chronotile.tag."
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_.:/@+-]{0,119}")
_TAKEN = {"now", "yesterday", "today", "tomorrow"}
"""Words that mean a time already, or might one day."""


def check_name(name: str, where: str) -> str:
    """Gives a tag's name back, if it can be told from a time.

    Raises:
        ChronotileError: It is empty, too long, a word for a time, or has other characters.

    >>> check_name("release-1.2", "a")
    'release-1.2'
    """
    if not _NAME.fullmatch(name) or name in _TAKEN:
        expected = "a name that starts with a letter and holds letters, digits and _.:/@+- only"
        raise ChronotileError(where, f"expected {expected}, found {name!r:.80}")
    return name


def tags_among(items: Iterable[MetadataItem]) -> dict[str, int]:
    """The tags among some entries, with their moments, the earliest first.

    >>> tags_among([number_item(b"chronotile.tag.v1", 7), number_item(b"other", 8)])
    {'v1': 7}
    """
    found = {
        item.key.removeprefix(PREFIX).decode("utf-8", "replace"): number_of(item)
        for item in items
        if item.key.startswith(PREFIX) and not item.is_removal
    }
    known = [(ms, name) for name, ms in found.items() if ms is not None and ms >= 0]
    return {name: ms for ms, name in sorted(known)}


def tag_item(name: str, moment: int | None) -> MetadataItem:
    """The entry that sets a tag, or removes it if there is no moment.

    >>> tag_item("v1", None).is_removal
    True
    """
    key = PREFIX + name.encode()
    return removal_item(key) if moment is None else number_item(key, moment)
