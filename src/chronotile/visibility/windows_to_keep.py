"""Windows that a vacuum must leave as they are.

In: moments with a reason, such as a tag. Out: `Kept`: whether a window that ends there sees a file.
Knows nothing of what a vacuum removes otherwise.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from chronotile.format.names import MAX_TIMESTAMP

if TYPE_CHECKING:
    from collections.abc import Iterable


class Kept(NamedTuple):
    """The windows that end from one moment to another."""

    label: str
    """Why they are kept, in words."""
    first: int
    last: int

    def sees(self, from_ms: int, until_ms: int) -> bool:
        """Whether one of them sees what is visible from one end on, until before another.

        >>> Kept("the tag v1", 5, 5).sees(5, 6), Kept("the tag v1", 5, 5).sees(1, 5)
        (True, False)
        """
        return self.first < until_ms and from_ms <= self.last


def kept_moments(labelled: Iterable[tuple[str, int]]) -> tuple[Kept, ...]:
    """The windows that end at some moments, each with its reason.

    >>> kept_moments([("the tag v1", 5)])
    (Kept(label='the tag v1', first=5, last=5),)
    """
    return tuple(Kept(label, moment, moment) for label, moment in labelled)


def kept_since(moment: int, label: str) -> Kept:
    """The windows that end at a moment or later."""
    return Kept(label, moment, MAX_TIMESTAMP)
