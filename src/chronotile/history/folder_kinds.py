"""What a folder is, by the names in it: an array, a group, or a folder above such.

In: a listing, or a store. Out: whether it is an array or a group; for a folder that is no array,
the error that says what it is and what lies below. Opens no file.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, NamedTuple

from chronotile.errors import ArrayNotFoundError, ChronotileError
from chronotile.format.kinds import (
    COMMITS,
    FRAGMENTS,
    GROUP,
    GROUP_MARKER,
    META,
    OLD_SCHEMA,
    OWN,
    SCHEMA,
)

if TYPE_CHECKING:
    from collections.abc import Collection

    from chronotile.storage.store import Folder, Store

OF_ARRAYS = frozenset({SCHEMA, COMMITS, FRAGMENTS})
"""Folders that only an array has."""
OF_GROUPS = frozenset({GROUP, META, OWN})
"""Folders of a group's own files: no array is searched for in them."""

_MOST_LISTED = 200
"""Folders to list before the answer is "at least"."""


class Below(NamedTuple):
    """The arrays and groups below a folder."""

    arrays: tuple[str, ...]
    groups: tuple[str, ...]
    is_all: bool

    def words(self) -> str:
        """How many there are.

        >>> Below(("a", "b"), ("g",), True).words()
        '2 arrays and 1 group below'
        """
        parts = []
        for count, word in ((len(self.arrays), "array"), (len(self.groups), "group")):
            parts += [f"{count} {word}{'' if count == 1 else 's'}"] if count else []
        least = "" if self.is_all else "at least "
        return f"{least}{' and '.join(parts)} below" if parts else "no array or group below"


def is_array(folder: Folder) -> bool:
    """Whether a folder is an array, perhaps a damaged one, by the names in it.

    >>> from chronotile.storage.store import Folder
    >>> is_array(Folder(folders=("__schema",))), is_array(Folder(folders=("__group", "a")))
    (True, False)
    """
    if not OF_ARRAYS.isdisjoint(folder.folders):
        return True
    return any(entry.path == OLD_SCHEMA for entry in folder.files)


def is_group(folder: Folder) -> bool:
    """Whether a folder is a group, by the names in it.

    >>> from chronotile.storage.store import Folder
    >>> is_group(Folder(folders=("__group",))), is_group(Folder(folders=("__schema",)))
    (True, False)
    """
    return GROUP in folder.folders or any(entry.path == GROUP_MARKER for entry in folder.files)


def find_below(store: Store, most: int = _MOST_LISTED) -> Below:
    """Looks for arrays and groups below a folder, level by level, in a limited number of folders.

    >>> from chronotile.storage.store import open_store
    >>> for name in ("a/__schema/s", "b/c/__schema/s", "b/g/__tiledb_group.tdb"):
    ...     open_store("memory:doc-below").put_if_absent(name, b"")
    >>> find_below(open_store("memory:doc-below")).words()
    '2 arrays and 1 group below'
    """
    arrays, groups = list[str](), list[str]()
    waiting, listed = deque([store]), 0
    while waiting and listed < most:
        place = waiting.popleft()
        listed += 1
        try:
            folder = place.list_dir()
        except ChronotileError:
            continue
        if is_array(folder):
            arrays.append(place.uri)
            continue
        if is_group(folder) and place is not store:
            groups.append(place.uri)
        waiting += [place.child(name) for name in folder.folders if name not in OF_GROUPS]
    return Below(tuple(arrays), tuple(groups), not waiting)


def is_group_at(store: Store) -> bool:
    """Look what is at a place: True for a group, False for an array.

    Raises:
        ArrayNotFoundError: It is neither; the message says what is below.
    """
    root = store.list_dir()
    if is_array(root):
        return False
    if is_group(root):
        return True
    raise no_array(store, root.folders)


def no_array(store: Store, folders: Collection[str]) -> ArrayNotFoundError:
    """Make the error of a folder that is no array: it says what the folder is instead."""
    problem = "expected an array, found no schema"
    if GROUP in folders:
        problem = "expected an array, found a group; name one of its members"
        return ArrayNotFoundError(store.uri, problem)
    if not folders or not OF_ARRAYS.isdisjoint(folders):
        return ArrayNotFoundError(store.uri, problem)
    below = find_below(store)
    near = [*below.groups, *below.arrays]
    if not near:
        return ArrayNotFoundError(store.uri, problem)
    return ArrayNotFoundError(store.uri, f"{problem}; {below.words()}; try {near[0]}")
