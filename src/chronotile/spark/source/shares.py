"""Which task of the data source reads which arrays.

In: options. Out: `Share` values, each a few arrays whose commit files weigh about as much as those
of every other share, small enough to send around. Lists folders, and opens no file. The shares of
the pipeline are made by `plan`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, TypeVar

from chronotile.dataset.find_arrays import Fleet, Unlisted, find_arrays
from chronotile.storage.place import find_place

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Sequence

    from chronotile.spark.source.options import Options

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
    start: str = "",
    *,
    weigh: bool = True,
    most: int | None = None,
    follow: bool = False,
    flat: bool = False,
) -> Fleet:
    """The arrays that the options ask for, without those that a filter leaves out.

    Args:
        options: Where to look.
        only: A filter: the arrays that can have rows; nothing else is listed.
        start: A filter: what the places of arrays begin with; what is elsewhere is not listed.
        weigh: Whether to weigh arrays.
        most: Folders to list at most.
        follow: Whether to go to members of groups that lie outside of the roots.
        flat: Whether to leave folders in a bucket for a flat list, where that is cheaper.
    """
    listed = options.arrays is not None
    roots = options.uris() if listed else options.roots
    narrowed = _narrowed(roots, only, start)
    fleet = find_arrays(
        roots if narrowed is None else narrowed,
        options.storage_options,
        weigh=weigh,
        missing_ok=listed or narrowed is not None,
        most=most,
        follow=follow,
        key=options.key,
        flat=flat,
    )
    if only is None and not start:
        return fleet
    arrays = [
        array
        for array in fleet.arrays
        if (only is None or array.uri in only) and array.uri.startswith(start)
    ]
    return fleet._replace(arrays=tuple(arrays), problems=() if only is not None else fleet.problems)


def _narrowed(
    roots: Sequence[str], only: Collection[str] | None, start: str
) -> tuple[str, ...] | None:
    """The folders to look in, if filters make them fewer; None if all roots are needed.

    >>> _narrowed(["s3://lake"], None, "s3://lake/group-1/arr")
    ('s3://lake/group-1',)
    >>> _narrowed(["s3://lake/a"], ["s3://lake/a/x", "s3://lake/a/y"], "")
    ('s3://lake/a/x', 's3://lake/a/y')
    """
    if not start and only is None:
        return None
    if any(wild in root for root in roots for wild in "*?["):
        return None
    tops = [find_place(root).uri.rstrip("/") for root in roots]
    wanted = [start.rpartition("/")[0]] if only is None else sorted(only)
    near = [uri for uri in wanted if any(uri == top or uri.startswith(f"{top}/") for top in tops)]
    # A start that is shorter than a root says nothing about what lies below it, and an array that
    # is elsewhere may be the member of a group.
    return tuple(near) if len(near) == len(wanted) else None


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
