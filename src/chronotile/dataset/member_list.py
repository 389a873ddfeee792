"""The members of one group at a moment, as its lists tell them.

In: a group that was read, and a moment. Out: `Member`s, each with its place. Does not look at the
storage: whether a member is there, `tree` finds out.

A group can have very many members: they are counted at once, and each is made an object when a
caller looks at the first of them.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from itertools import repeat
from typing import TYPE_CHECKING, NamedTuple, overload

from chronotile.dataset.member_place import member_store
from chronotile.errors import ChronotileError
from chronotile.storage.place import are_plain
from chronotile.visibility.group_members import left_at, members_at

if TYPE_CHECKING:
    from collections.abc import Iterator

    from chronotile.format.group_folding import LeftMembers
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


class Members(Sequence[Member]):
    """The members of one group, in no order; a sequence like a tuple, made when it is looked at."""

    def __init__(self, group: Store, left: LeftMembers) -> None:
        self._group, self._left = group, left

    def __len__(self) -> int:
        return len(self._left)

    @cached_property
    def names(self) -> list[str | None]:
        """The name of each: much faster than by way of the members."""
        return self._left.names()

    @cached_property
    def _all(self) -> tuple[Member, ...]:
        fields, group = self._left.fields(), self._group.uri
        if not (all(fields.relative) and are_plain(fields.uris)):
            return tuple(member_at(self._group, entry)[0] for entry in fields.entries())
        # What nearly all groups are like: a path below the group needs no closer look.
        below = f"{group.rstrip('/')}/"
        places = [below + uri for uri in fields.uris]
        columns = (fields.names, fields.kinds, places, fields.uris, fields.relative)
        rows = zip(*columns, repeat(group, len(places)), strict=True)
        # As `Member._make` does, but for a call in Python for each.
        return tuple(map(tuple.__new__, repeat(Member), rows))

    def __iter__(self) -> Iterator[Member]:
        return iter(self._all)

    @overload
    def __getitem__(self, at: int) -> Member: ...
    @overload
    def __getitem__(self, at: slice) -> tuple[Member, ...]: ...
    def __getitem__(self, at: int | slice) -> Member | tuple[Member, ...]:
        return self._all[at]

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Sequence) and self._all == tuple(other)

    def __hash__(self) -> int:
        return hash(self._all)

    def __repr__(self) -> str:
        return repr(self._all)


def direct_members(store: Store, history: GroupHistory, end: int) -> Sequence[Member]:
    """The members of one group at a moment, in no order; no look at the storage.

    Raises:
        ChronotileError: A list of members cannot be read.
    """
    left = left_at(history, 0, end)
    if left is not None:
        return Members(store, left)
    return tuple(member_at(store, entry)[0] for entry in members_at(history, 0, end).values())


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
