"""Windows that a vacuum must leave as they are.

In: tags, a moment. Out: `Kept`: whether a window that ends there sees a file.
Knows nothing of what a vacuum removes otherwise.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from chronotile.format.names import MAX_TIMESTAMP

if TYPE_CHECKING:
    from chronotile.format.tag_entries import Tags


class Kept(NamedTuple):
    """The windows that end from one moment to another."""

    label: str
    """Why they are kept, in words."""
    first: int
    last: int
    any_start: bool = False
    """Whether windows count that start later than 0."""

    def sees(self, from_ms: int, until_ms: int) -> bool:
        """Whether one of them sees what is visible from one end on, until before another.

        >>> Kept("the tag v1", 5, 5).sees(5, 6), Kept("the tag v1", 5, 5).sees(1, 5)
        (True, False)
        >>> Kept("all", 0, 9).sees(5, 5)
        False
        """
        is_seen = from_ms < until_ms or self.any_start
        return is_seen and self.first < until_ms and from_ms <= self.last


def kept_for(tags: Tags) -> tuple[Kept, ...]:
    """Give the windows of tags; all windows, if there may be a tag that cannot be read.

    >>> from chronotile.format.tag_entries import Tags
    >>> kept_for(Tags({"v1": 5}))
    (Kept(label='the tag v1', first=5, last=5, any_start=False),)
    """
    found = [Kept(label, moment, moment) for label, moment in tags.labelled()]
    if tags.doubts:
        found.append(Kept("a tag that cannot be read", 0, MAX_TIMESTAMP))
    return tuple(found)


def kept_since(moment: int, label: str) -> Kept:
    """The windows that end at a moment or later."""
    return Kept(label, moment, MAX_TIMESTAMP, any_start=True)
