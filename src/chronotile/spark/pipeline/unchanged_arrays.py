"""Whether an array is as it was when an earlier run read it.

In: a store, and what the earlier run noted. Out: `Noted`, for the next run, and a yes or no. Lists
folders and asks for sizes and times of files; opens none.

A fingerprint covers every name of a listing, and size and ETag of each file that is read. On a disk
marks are cheaper, to make and to compare: the times at which the folders changed last, and size and
time of each file that is read, so that a folder with 1,000 fragments costs one question and not
1,000 names. A note has one of the two; earlier versions noted both on a disk.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, NamedTuple

from chronotile.errors import ChronotileError
from chronotile.history.listing import Listing, list_array
from chronotile.spark.stream.offsets import (
    file_stamps,
    fingerprint_of,
    listing_fingerprint,
    stamp_of,
)

if TYPE_CHECKING:
    from collections.abc import Mapping

    from chronotile.storage.store import Store

_FILES_MAX = 64
"""Files that a note may name; an array with more is compared by its fingerprint."""


class Noted(NamedTuple):
    """What a run notes of an array that it has read."""

    listing: str | None = None
    """The fingerprint of its listing; None if there are marks, or it was written just before."""
    marks: str | None = None
    """Times of folders and files, on a disk; None if they do not tell enough."""
    asked: str | None = None
    """The options that the array was read with, as JSON."""
    totals: str | None = None
    """What the array adds to a summary, as JSON."""


NOTHING = Noted()
"""Of an array that could not be read properly."""


def note(
    store: Store, listing: Listing, began_ms: int, times: Mapping[str, int | None] | None = None
) -> Noted:
    """What to note of an array that was just read.

    Args:
        store: Where the array is.
        listing: The listing that was read.
        began_ms: When reading began.
        times: What `listing.folder_times` gave before that, if more was read than the listing.
    """
    stamps, times = file_stamps(store, listing, began_ms), times or listing.folder_times
    if stamps is None:
        return NOTHING
    # A folder whose time is too fresh, or that appeared meanwhile, decides nothing.
    if (
        not times
        or len(stamps) > _FILES_MAX
        or None in times.values()
        or any(path.rpartition("/")[0] not in times for path in stamps)
    ):
        return Noted(fingerprint_of(listing, stamps))
    return Noted(marks=json.dumps({"folders": dict(times), "files": stamps}))


def is_unchanged(store: Store, noted: Noted, began_ms: int) -> bool:
    """Whether an array is as it was noted.

    Raises:
        ChronotileError: The array cannot be listed.
    """
    if noted.marks is not None and _is_as_marked(store, json.loads(noted.marks)):
        return True
    if noted.listing is None:
        return False
    return listing_fingerprint(store, list_array(store), began_ms) == noted.listing


def _is_as_marked(store: Store, marks: dict[str, dict[str, object]]) -> bool:
    try:
        if any(store.change_time(path) != time for path, time in marks["folders"].items()):
            return False
        files = marks["files"].items()
        return all(stamp_of(store.head(path)) == stamp for path, stamp in files)
    except ChronotileError:
        return False
