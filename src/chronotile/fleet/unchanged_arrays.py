"""Arrays that are as they were when an earlier run read them.

In: a store, and what was noted. Out: `Noted`, for the next run, and a yes or no. Lists folders and
asks for sizes and times of files; opens none.

A fingerprint covers every name of a listing, and size and ETag of each file that is read. On a disk
marks are cheaper, to make and to compare: the times at which the folders changed last, and size and
time of each file that is read, so that a folder with 1,000 fragments costs one question and not
1,000 names.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import fields
from typing import TYPE_CHECKING, NamedTuple

from chronotile.errors import ChronotileError
from chronotile.history.listing import Listing, list_array
from chronotile.storage.place import MissingObjectError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from chronotile.storage.store import Entry, Store


GRAIN_MS = 3_000
"""A little more than the coarsest resolution of a file's time that is in use."""


def file_stamps(store: Store, listing: Listing, began_ms: int) -> dict[str, str] | None:
    """Give path -> size and time of each file that is read, unless the listing tells them.

    None if a file was written after reading began, or so shortly before that a second change would
    leave it with the same time.
    """
    stamps: dict[str, str] = {}
    for path in () if listing.stamps else listing.read_paths():
        try:
            entry = store.head(path)
        except MissingObjectError:
            return None
        if entry.modified_ms is None or entry.modified_ms > began_ms - GRAIN_MS:
            return None
        stamps[path] = stamp_of(entry)
    return stamps


def stamp_of(entry: Entry) -> str:
    """Give size and ETag of a file."""
    return f"{entry.size} {entry.etag}"


def fingerprint_of(listing: Listing, stamps: Mapping[str, str]) -> str:
    """Give a short text that changes with any name in a listing, and with any of these stamps."""
    digest = hashlib.blake2b(digest_size=16)
    for kind in fields(listing):
        names = getattr(listing, kind.name)
        if isinstance(names, Sequence):
            text = "\n".join((kind.name, *sorted(names), ""))
            digest.update(text.encode("utf-8", "surrogatepass"))
    lines = (f"{path} {stamp}" for path, stamp in stamps.items())
    digest.update("\n".join(lines).encode("utf-8", "surrogatepass"))
    return digest.hexdigest()


_FILES_MAX = 64
"""Files that a note may name; an array with more is compared by its fingerprint."""


class Noted(NamedTuple):
    """The note of a run on an array that it has read."""

    listing: str | None = None
    """The fingerprint of its listing; None if there are marks, or it was written just before."""
    marks: str | None = None
    """Times of folders and files, on a disk; None if they do not tell enough."""
    asked: str | None = None
    """The options that the array was read with, as JSON."""


NOTHING = Noted()
"""Of an array that could not be read properly."""


def note(
    store: Store, listing: Listing, began_ms: int, times: Mapping[str, int | None] | None = None
) -> Noted:
    """Tell what to note of an array that was just read.

    `times` is what `folder_times` gave before that, if more was read than the listing.
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
    """Tell whether an array is as it was noted.

    Raises:
        ChronotileError: The array cannot be listed.
    """
    if noted.marks is not None and _is_as_marked(store, json.loads(noted.marks)):
        return True
    if noted.listing is None:
        return False
    listing = list_array(store)
    stamps = file_stamps(store, listing, began_ms)
    return stamps is not None and fingerprint_of(listing, stamps) == noted.listing


def _is_as_marked(store: Store, marks: dict[str, dict[str, object]]) -> bool:
    try:
        if any(store.change_time(path) != time for path, time in marks["folders"].items()):
            return False
        files = marks["files"].items()
        return all(stamp_of(store.head(path)) == stamp for path, stamp in files)
    except ChronotileError:
        return False
