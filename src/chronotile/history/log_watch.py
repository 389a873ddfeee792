"""Whether a commit log has changed since it was read.

In: a store, and the listing that was read. Out: a yes or no, look by look. Lists next to nothing: a
disk tells when its folders changed last; a bucket is asked for names behind the last one that is
known, and now and then for all, as a commit may be dated in the past. Opens no file.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from chronotile.errors import ArrayNotFoundError
from chronotile.format.kinds import COMMITS, FRAGMENT_META, GROUP, META, SCHEMA

if TYPE_CHECKING:
    from collections.abc import Sequence

    from chronotile.storage.store import Store

WATCHED_IN_ARRAYS = ("", COMMITS, SCHEMA, META, FRAGMENT_META)
"""Folders of an array that commits, schemas and metadata come into; the root in old versions."""
WATCHED_IN_GROUPS = (GROUP, META)
"""Folders of a group that lists of members and metadata come into."""
ALL_EVERY = 10
"""Of so many looks into a bucket, one lists all names."""


class LogWatch:
    """Looks whether anything new is in some folders.

    To be made before the log is read: what comes while it is read is then not missed.

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
        self._times = self._change_times() if self._has_times else {}
        self._names = {} if self._has_times else self._all_names()

    def has_changed(self) -> bool:
        """Look once; what was new in this look is known in the next one.

        Raises:
            StorageError: The storage failed.
        """
        self._looks += 1
        if self._has_times:
            times = self._change_times()
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
        """Take the log for changed at the next look, as it could not be read after this one."""
        self._times, self._names = {"": -1}, dict.fromkeys(self._folders, frozenset({""}))
        self._looks = -1

    def _has_newer(self, folder: str) -> bool:
        if not folder:
            # A bucket's root has only the names of old versions, which the whole look finds.
            return False
        return bool(self._store.list_after(max(self._names[folder], default=""), folder))

    def _change_times(self) -> dict[str, int | None]:
        there = {"", *self._store.list_names("").folders}
        return {f: self._store.change_time(f) for f in self._folders if f in there}

    def _all_names(self) -> dict[str, frozenset[str]]:
        found = {}
        for folder in self._folders:
            try:
                found[folder] = frozenset(self._store.list_names(folder).files)
            except ArrayNotFoundError:
                found[folder] = frozenset()
        return found
