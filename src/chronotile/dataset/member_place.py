"""Where a member of a group lies.

In: the store of a group, and a member as a file names it. Out: a store to read from, or a
`ChronotileError`. Reads nothing.

The URI is text from a file. A relative one stays below its group: `..` is refused. An absolute one
may lie in another bucket or folder, which groups allow: it is a place to read from. Nothing is
written there unless the caller says so (`over_members`). Storage options go along only to the same
kind of storage: they may hold secrets.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from chronotile.errors import BadNameError, StorageError, printable
from chronotile.storage.place import Place, find_place

if TYPE_CHECKING:
    from chronotile.format.groups import GroupEntry
    from chronotile.storage.store import Store


def member_store(group: Store, entry: GroupEntry) -> Store:
    """The store of a member.

    Raises:
        BadNameError: A relative URI leaves its group.
        StorageError: An absolute one is none, or of a storage that this package does not know.

    >>> from chronotile.format.groups import GroupEntry
    >>> from chronotile.storage.store import open_store
    >>> group = open_store("memory://lake/soma")
    >>> member_store(group, GroupEntry("obs", "obs", "array", is_relative=True)).uri
    'memory://lake/soma/obs'
    >>> member_store(group, GroupEntry("../x", None, "array", is_relative=True))
    Traceback (most recent call last):
    chronotile.errors.BadNameError: memory://lake/soma: expected a path below it, found '../x'
    """
    if entry.is_relative:
        path = entry.uri.strip("/")
        place = group.place.child(path) if path else group.place
    else:
        place = _absolute(entry.uri, group.uri)
    return group.at(place)


def _absolute(uri: str, where: str) -> Place:
    if "://" not in uri and not uri.startswith("/"):
        # The engine would take it as below the folder that its process happens to be in.
        problem = "expected an absolute URI of a member, found one that depends on a folder"
        raise BadNameError(where, f"{problem}: {printable(uri[:200])!r}")
    if ".." in uri.split("/"):
        raise BadNameError(where, f"expected a URI without '..', found {printable(uri[:200])!r}")
    try:
        return find_place(uri)
    except StorageError as error:
        raise StorageError(where, f"{error.problem}, as the URI of a member") from error
