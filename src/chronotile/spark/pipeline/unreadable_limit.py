"""How many arrays of a fleet may be unreadable before a run publishes nothing.

In: a number or a share, as text. Out: `Limit`, and the error of a run that is above it. Touches no
storage, and knows nothing of Spark.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, NamedTuple

from chronotile.errors import ChronotileError, StorageError

if TYPE_CHECKING:
    from collections.abc import Sequence

_NAMED = 3
"""Unreadable arrays that the error names."""
_WORDS_MAX = 300


class Unread(NamedTuple):
    """An array that could not be read, damaged or not."""

    array: str
    words: str
    """The error, in words."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Limit:
    """A number of arrays, or a share of the fleet."""

    text: str
    """The limit as the user wrote it."""
    count: int | None
    share: Fraction = Fraction(0)

    def of(self, total: int) -> int:
        """The number of arrays that may be unreadable in a fleet of `total` arrays.

        >>> [read_limit("0.001").of(total) for total in (5, 999, 1_000, 2_500)]
        [0, 0, 1, 2]
        """
        return int(self.share * total) if self.count is None else self.count


def read_limit(text: str) -> Limit:
    """Parses a limit: `3` is a number of arrays; `0.01`, `1%` and `1/100` are shares.

    Raises:
        ChronotileError: The text is neither.

    >>> read_limit("3").of(10), read_limit("25%").of(10), read_limit("1.0").of(10)
    (3, 2, 10)
    >>> read_limit("many")
    Traceback (most recent call last):
    chronotile.errors.ChronotileError: limit: expected a number of arrays or a share, found 'many'
    """
    if text.isascii() and text.isdigit():
        return Limit(text=text, count=int(text))
    try:
        share = Fraction(text.removesuffix("%")) / (100 if text.endswith("%") else 1)
    except (ValueError, ZeroDivisionError):
        share = Fraction(-1)
    if not 0 <= share <= 1:
        raise ChronotileError("limit", f"expected a number of arrays or a share, found {text!r}")
    return Limit(text=text, count=None, share=share)


MAX_UNREADABLE = read_limit("0.001")
"""1 in 1,000: of a smaller fleet, none."""


class UnreadableError(StorageError):
    """Too many arrays of a fleet could not be read: the run publishes nothing."""

    exit_code = 3


def check_limit(
    out: str, unread: Sequence[Unread], total: int, limit: Limit, *, more: int = 0
) -> None:
    """Refuses a run that could not read more arrays than the limit allows.

    Args:
        out: The output.
        unread: The arrays that could not be read.
        total: All arrays.
        limit: The limit.
        more: Further arrays that could not be read, of which nobody holds the names.

    Raises:
        UnreadableError: The run is above the limit.

    >>> check_limit("out", [Unread("a", "503")], 5, MAX_UNREADABLE)  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    chronotile.spark.pipeline.unreadable_limit.UnreadableError: out: expected at most 0 of 5 ...
    """
    count = len(unread) + more
    if count <= limit.of(total):
        return
    first = "; ".join(one.array for one in unread[:_NAMED])
    others = f" and {count - _NAMED} more" if count > _NAMED else ""
    expected = f"expected at most {limit.of(total)} of {total} arrays unreadable"
    found = f"found {count}: {first}{others} ({unread[0].words[:_WORDS_MAX]})"
    kept = "nothing was published, the last good tables stay"
    raise UnreadableError(out, f"{expected} (--max-unreadable {limit.text}), {found}; {kept}")
