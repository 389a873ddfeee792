"""Windows that are named by tags: which moments they are, array by array.

In: options whose window may name tags. Out: the window of one array, in ms; or options with the
window of the group that is the root. An array that has no such tag is an error: rows of another
window would be wrong, and no rows would be too.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from chronotile.dataset.open_dataset import open_dataset
from chronotile.errors import ArrayNotFoundError, BadTimeError
from chronotile.tables.gathered_rows import LAST

if TYPE_CHECKING:
    from chronotile.log import Log
    from chronotile.spark.source.options import Options


def window_of(log: Log, options: Options) -> tuple[int, int]:
    """The window of one array.

    Raises:
        BadTimeError: It has no tag of that name, or the window would end before it starts.
    """
    start, end = (
        log.moment(moment, f"option {name!r} of {log.array}") if isinstance(moment, str) else moment
        for name, moment in (("start", options.start), ("end", options.end))
    )
    if start > end:
        problem = f"expected a window that ends after it starts, found {start} to {end}"
        raise BadTimeError(f"option 'start' of {log.array}", problem)
    return start, end


def with_tags_of_roots(options: Options) -> Options:
    """The options, with the moments of tags that every root has: each is a group then.

    Of such a group all members are read at its own tag, whatever tags they have themselves.
    """
    if not options.roots:
        return options
    return replace(
        options, start=_moment(options, options.start), end=_moment(options, options.end)
    )


def _moment(options: Options, moment: int | str) -> int | str:
    """The moment of a tag that every root has, if they agree; else what was given."""
    if isinstance(moment, int):
        return moment
    moments: set[int | None] = set()
    for root in options.roots:
        try:
            dataset = open_dataset(root, options.read_key(), options.storage_options)
        except ArrayNotFoundError:
            return moment
        moments.add(dataset.known_tags.checked(dataset.uri).moment(moment))
    found = moments.pop() if len(moments) == 1 else None
    return moment if found is None else min(found, LAST)
