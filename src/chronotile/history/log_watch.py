"""Changes of a log since it was listed.

In: a store, and folders or a listing. Out: a yes or no, look by look; or an error. A look lists
next to nothing: a disk knows when its folders changed last; a bucket is asked for names behind the
last one that is known, and now and then for all, as a commit may be dated in the past. Opens no
file.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from chronotile.errors import ArrayNotFoundError, ChangedError
from chronotile.format.kinds import COMMITS, FRAGMENT_META, FRAGMENTS, GROUP, META, SCHEMA
from chronotile.history.listing import folder_times

if TYPE_CHECKING:
    from collections.abc import Sequence

    from chronotile.history.listing import Listing
    from chronotile.storage.store import Store


WATCHED_IN_ARRAYS = ("", COMMITS, SCHEMA, META, FRAGMENT_META)
"""Folders of an array that commits, schemas and metadata come into; the root in old versions."""
WATCHED_IN_GROUPS = (GROUP, META)
"""Folders of a group that lists of members and metadata come into."""
ALL_EVERY = 10
"""Every tenth look into a bucket lists all names."""


def check_unchanged(store: Store, listing: Listing) -> int:
    """Check that commits and fragments are as they were listed; give the calls that this took.

    Folders are listed one by one, so a listing can hold a commit without its fragment.

    Raises:
        ChangedError: They have changed.
    """
    folders, then = (COMMITS, FRAGMENTS), listing.folder_times
    times = [store.change_time(folder) for folder in folders]
    if None not in times and times == [then.get(folder) for folder in folders]:
        return 0
    commits, fragments = store.list_names(COMMITS), store.list_names(FRAGMENTS)
    now, before = (commits.files, fragments.folders), (listing.commits, listing.fragments)
    # On most disks two listings of an unchanged folder have the same order.
    if now != before and [*map(set, now)] != [*map(set, before)]:
        raise ChangedError(store.uri, "expected it to stay as listed, found it changed")
    return 2


class LogWatch:
    """A watch on some folders for anything new.

    Make it before the log is read: it then misses nothing that comes during the reading.

    >>> from chronotile.storage.store import open_store
    >>> store = open_store("memory:doc-log-watch")
    >>> store.put_if_absent("__commits/__5_5_a.wrt", b"")
    >>> watch = LogWatch(store)
    >>> watch.has_changed()
    False
    >>> store.put_if_absent("__commits/__6_6_b.wrt", b"")
    >>> watch.has_changed(), watch.has_changed()
    (True, False)
    """

    def __init__(self, store: Store, folders: Sequence[str] = WATCHED_IN_ARRAYS) -> None:
        self._store = store
        self._has_times = store.traits.has_change_times
        self._folders = tuple(folders)
        self._looks = 0
        self._times = folder_times(store, self._folders)
        self._names = {} if self._has_times else self._all_names()

    def has_changed(self) -> bool:
        """Look once; the next look knows what this one saw."""
        self._looks += 1
        if self._has_times:
            times = folder_times(self._store, self._folders)
            # A folder that has changed in this very moment may change again in it.
            changed = times != self._times or None in times.values()
            self._times = times
            return changed
        if self._looks % ALL_EVERY and not any(map(self._has_newer, self._folders)):
            return False
        names = self._all_names()
        changed = names != self._names
        self._names = names
        return changed

    def forget(self) -> None:
        """Count the log as changed at the next look, as it could not be read after this one."""
        self._times, self._names = {"": -1}, dict.fromkeys(self._folders, frozenset({""}))
        self._looks = -1

    def _has_newer(self, folder: str) -> bool:
        if not folder:
            # A bucket's root has only the names of old versions, which the whole look finds.
            return False
        return bool(self._store.list_after(max(self._names[folder], default=""), folder))

    def _all_names(self) -> dict[str, frozenset[str]]:
        names = {}
        for folder in self._folders:
            try:
                names[folder] = frozenset(self._store.list_names(folder).files)
            except ArrayNotFoundError:
                names[folder] = frozenset()
        return names
