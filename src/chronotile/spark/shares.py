"""Which task of the data source reads which arrays.

In: options. Out: `Share` values, each a few arrays whose commit files weigh about as much as those
of every other share, small enough to send around. Lists folders, and opens no file. The shares of
the pipeline are made by `fleet_plan`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, TypeVar

from chronotile.dataset.find_arrays import Fleet, Unlisted, find_arrays

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator

    from chronotile.spark.options import Options

T = TypeVar("T")

ARRAYS_MAX = 256
"""Arrays in one share, however small they are: a lost task has to read them again."""

SHARES_MIN = 4
"""Shares of a small fleet, so that a few cores have work."""
WEIGHT_MIN = 1 << 19
"""Weight of a share that is worth a task of its own."""
GROUPS_MAX = 64
"""Groups that one task lists the members of."""


class Share(NamedTuple):
    """What one task reads."""

    arrays: tuple[str, ...]
    problems: tuple[Unlisted, ...] = ()
    """Folders that could not be listed: a task turns them into findings."""


def find_fleet(
    options: Options,
    only: Collection[str] | None = None,
    *,
    weigh: bool = True,
    most: int | None = None,
    follow: bool = False,
) -> Fleet:
    """The arrays that the options ask for, without those that a filter leaves out.

    Args:
        options: With the roots.
        only: Arrays; None for all.
        weigh: Whether to weigh each array.
        most: Folders to list at most.
        follow: Whether to go to members of groups that lie outside of the roots.
    """
    listed = options.arrays is not None
    roots = options.uris() if listed else options.roots
    fleet = find_arrays(
        roots,
        options.storage_options,
        weigh=weigh,
        missing_ok=listed,
        most=most,
        follow=follow,
        key=options.key,
    )
    if only is None:
        return fleet
    return Fleet(tuple(array for array in fleet.arrays if array.uri in only), ())


def shares(fleet: Fleet, partition_bytes: int) -> tuple[Share, ...]:
    """Splits a fleet into shares, in order.

    >>> from chronotile.dataset.find_arrays import Found
    >>> fleet = Fleet((Found("a", 5), Found("b", 5), Found("c", 400)), ())
    >>> [share.arrays for share in shares(fleet, 10)]
    [('a', 'b'), ('c',)]
    """
    total = sum(array.weight for array in fleet.arrays)
    limit = min(partition_bytes, max(total // SHARES_MIN, min(WEIGHT_MIN, total), 1))
    groups = packed(fleet.arrays, ARRAYS_MAX, lambda array: array.weight, limit)
    return _with_problems((tuple(array.uri for array in group) for group in groups), fleet.problems)


def group_shares(fleet: Fleet) -> tuple[Share, ...]:
    """Splits the groups of a fleet into shares, for the table `members`.

    >>> [share.arrays for share in group_shares(Fleet((), (), groups=("g", "h")))]
    [('g', 'h')]
    """
    return tuple(map(Share, packed(fleet.groups, GROUPS_MAX)))


def _with_problems(
    groups: Iterable[tuple[str, ...]], problems: tuple[Unlisted, ...]
) -> tuple[Share, ...]:
    return (*map(Share, groups), *((Share((), problems),) if problems else ()))


def packed(
    items: Iterable[T], most: int, weight: Callable[[T], int] = lambda _: 0, limit: int = 0
) -> Iterator[tuple[T, ...]]:
    """Groups items in order; only a group of one item can weigh more than the limit.

    Args:
        items: The items.
        most: The largest number of items in a group.
        weight: The weight of an item.
        limit: The largest weight of a group.

    >>> list(packed("abcde", 2))
    [('a', 'b'), ('c', 'd'), ('e',)]
    """
    group: list[T] = []
    total = 0
    for item in items:
        if group and (total + weight(item) > limit or len(group) == most):
            yield tuple(group)
            group, total = [], 0
        group.append(item)
        total += weight(item)
    if group:
        yield tuple(group)
