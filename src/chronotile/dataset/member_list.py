"""The members of one group at a moment, as its lists tell them.

In: a group that was read, and a moment. Out: `Member`s, each with its place. Does not look at the
storage: whether a member is there, `member_tree` finds out.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import pyarrow as pa

from chronotile.dataset.member_place import member_store
from chronotile.errors import ChronotileError
from chronotile.storage.place import plain_names
from chronotile.visibility.group_members import members_at

if TYPE_CHECKING:
    from chronotile.format.groups import GroupEntry
    from chronotile.history.group_reading import GroupHistory
    from chronotile.storage.store import Store


class Member(NamedTuple):
    """A member of one group."""

    name: str | None
    kind: str
    """What it was when it was added: `array`, `group` or `invalid`."""
    uri: str
    """Where it is; as it is stored, if that cannot be followed."""
    stored_uri: str
    is_relative: bool
    group: str
    """Where its group lies."""

    @property
    def title(self) -> str:
        """Its name, else the last part of its URI.

        >>> Member(None, "array", "s3://a/b", "b", True, "s3://a").title
        'b'
        """
        return self.stored_uri.rstrip("/").rpartition("/")[2] if self.name is None else self.name


SCHEMA = pa.schema(
    [
        ("name", pa.string()),
        ("kind", pa.string()),
        ("uri", pa.string()),
        ("stored_uri", pa.string()),
        ("is_relative", pa.bool_()),
    ]
)
"""Members as a table: the fields of `Member`, less the group's place."""


class Members(tuple[Member, ...]):
    """The members of one group, in the order of their keys."""

    __slots__ = ()

    @property
    def table(self) -> pa.Table:
        """All of them, a row each: name, kind, uri, stored_uri, is_relative."""
        columns = [*zip(*self, strict=True)] or [()] * len(SCHEMA)
        return pa.table([*columns[: len(SCHEMA)]], schema=SCHEMA)


def direct_members(store: Store, history: GroupHistory, end: int) -> Members:
    """Give the members of one group at a moment; no look at the storage.

    Raises:
        ChronotileError: A list of members cannot be read.
    """
    entries = members_at(history, 0, end).values()
    if not all(one.is_relative for one in entries) or plain_names([e.uri for e in entries]) is None:
        return Members(member_at(store, entry)[0] for entry in entries)
    # What nearly all groups are like: a name below the group needs no closer look.
    below, group = f"{store.uri.rstrip('/')}/", store.uri
    return Members([Member(e.name, e.kind, below + e.uri, e.uri, True, group) for e in entries])


def member_at(group: Store, entry: GroupEntry) -> tuple[Member, Store | ChronotileError]:
    """A member of a group, and its place or why that may not be followed."""
    place: Store | ChronotileError
    try:
        place = member_store(group, entry)
        uri = place.uri
    except ChronotileError as error:
        place, uri = error, entry.uri
    member = Member(entry.name, entry.kind, uri, entry.uri, entry.is_relative, group.uri)
    return member, place
