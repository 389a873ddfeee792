"""Whether an array is as it was when an earlier run read it.

In: a store, and what the earlier run noted. Out: `Noted`, for the next run, and a yes or no. Lists
folders and asks for sizes and times of files; opens none.

A fingerprint covers every name of a listing, and size and ETag of each file that is read. On a disk
a note is cheaper to compare: the times at which the folders changed last, and size and time of each
file that is read, so that a folder with 1,000 fragments costs one question and not 1,000 names.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, NamedTuple

from chronotile.errors import ChronotileError
from chronotile.format.kinds import COMMITS, ENUMERATIONS, FRAGMENT_META, FRAGMENTS, META, SCHEMA
from chronotile.history.listing import Listing, list_array
from chronotile.spark.stream.offsets import listing_fingerprint

if TYPE_CHECKING:
    from chronotile.storage.store import Store

_FOLDERS = ("", COMMITS, FRAGMENTS, FRAGMENT_META, SCHEMA, ENUMERATIONS, META)
_FILES_MAX = 64
"""Files that a note may name; an array with more is compared by its fingerprint."""


class Noted(NamedTuple):
    """What a run notes of an array that it has read."""

    listing: str | None = None
    """The fingerprint of its listing; None if it was written only just before."""
    marks: str | None = None
    """Times of folders and files, on a disk; None if they do not tell enough."""


NOTHING = Noted()
"""Of an array that could not be read properly."""


def folder_times(store: Store) -> dict[str, int | None]:
    """Folder -> when it changed last; on a disk only. To be taken before the array is read."""
    if store.place.scheme != "file":
        return {}
    there = {"", *store.list_names("").folders}
    if SCHEMA in there:
        there |= {f"{SCHEMA}/{name}" for name in store.list_names(SCHEMA).folders}
    return {path: store.change_time(path) for path in _FOLDERS if path in there}


def note(
    store: Store, listing: Listing, began_ms: int, times: dict[str, int | None] | None = None
) -> Noted:
    """What to note of an array that was just read.

    Args:
        store: Where the array is.
        listing: The listing that was read.
        began_ms: When reading began.
        times: What `folder_times` gave before that.
    """
    fingerprint = listing_fingerprint(store, listing, began_ms)
    paths = listing.read_paths()
    if fingerprint is None or not times or len(paths) > _FILES_MAX:
        return Noted(fingerprint)
    # A folder whose time is too fresh, or that appeared meanwhile, decides nothing.
    if None in times.values() or any(path.rpartition("/")[0] not in times for path in paths):
        return Noted(fingerprint)
    marks: dict[str, dict[str, object]] = {"folders": dict(times), "files": {}}
    try:
        marks["files"] = {path: _stamp(store, path) for path in paths}
    except ChronotileError:
        return Noted(fingerprint)
    return Noted(fingerprint, json.dumps(marks))


def note_large(
    store: Store, listing: Listing, began_ms: int, times: dict[str, int | None]
) -> Noted:
    """What to note of a large array: in a bucket, where nothing is marked, nothing.

    Args:
        store: Where the array is.
        listing: What belongs to no time: it has the names of all files that are read.
        began_ms: When reading began.
        times: What `folder_times` gave before that.
    """
    return Noted(None, note(store, listing, began_ms, times).marks)


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
        return all(_stamp(store, path) == stamp for path, stamp in marks["files"].items())
    except ChronotileError:
        return False


def _stamp(store: Store, path: str) -> str:
    entry = store.head(path)
    return f"{entry.size} {entry.etag}"
