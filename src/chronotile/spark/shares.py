"""Which task reads which arrays.

In: options. Out: `Share` values, each a few arrays whose commit files weigh about as much as
every other's, small enough to send around. Lists folders, and opens no file.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from chronotile.dataset.find_arrays import Fleet, Found, Unlisted, find_arrays

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable

    from chronotile.spark.options import Options

ARRAYS_MAX = 256
"""Arrays in one share, however small they are: what a lost task has to do again."""


SHARES_MIN = 32
"""Shares of a fleet that is too small for more, so that a few cores have work to the end."""


PIECES = 16
"""Of a share whose task has died: two such steps tell which array it was."""


class Share(NamedTuple):
    """What one task reads."""

    arrays: tuple[str, ...]
    problems: tuple[Unlisted, ...] = ()
    """Folders that could not be listed: a task turns them into findings."""


def find_fleet(
    options: Options, only: Collection[str] | None = None, *, weigh: bool = True
) -> Fleet:
    """The arrays that the options ask for, less those that a filter leaves out."""
    listed = options.arrays is not None
    roots = options.uris() if listed else options.roots
    fleet = find_arrays(roots, options.storage_options, weigh=weigh, missing_ok=listed)
    if only is None:
        return fleet
    return Fleet(tuple(array for array in fleet.arrays if array.uri in only), ())


def shares(fleet: Fleet, partition_bytes: int) -> tuple[Share, ...]:
    """Splits a fleet into shares, in order.

    >>> fleet = Fleet((Found("a", 5), Found("b", 5), Found("c", 400)), ())
    >>> [share.arrays for share in shares(fleet, 10)]
    [('a', 'b'), ('c',)]
    """
    total = sum(array.weight for array in fleet.arrays)
    limit = min(partition_bytes, max(total // SHARES_MIN, 1))
    made = [Share(tuple(uris)) for uris in _groups(fleet.arrays, limit)]
    if fleet.problems:
        made.append(Share((), fleet.problems))
    return tuple(made)


def split(share: Share) -> tuple[Share, ...]:
    """A share in up to 16 pieces; none if there is nothing to split.

    >>> [one.arrays for one in split(Share(("a", "b")))], split(Share(("a",)))
    ([('a',), ('b',)], ())
    """
    arrays = share.arrays
    if len(arrays) < 2:
        return ()
    size = -(-len(arrays) // PIECES)
    made = [Share(arrays[at : at + size]) for at in range(0, len(arrays), size)]
    return (*made, Share((), share.problems)) if share.problems else tuple(made)


def _groups(arrays: Iterable[Found], limit: int) -> list[list[str]]:
    groups: list[list[str]] = []
    room = 0
    for array in arrays:
        if not groups or array.weight > room or len(groups[-1]) == ARRAYS_MAX:
            groups.append([])
            room = limit
        groups[-1].append(array.uri)
        room -= array.weight
    return groups
