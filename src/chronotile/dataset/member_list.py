"""The members of one group at a moment, as its lists tell them.

In: a group that was read, and a moment. Out: `Member`s, each with its place. Does not look at the
storage: whether a member is there, `member_tree` finds out.

A group can have very many members: they are counted at once, and each is made an object when a
caller looks at the first of them.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from itertools import repeat
from typing import TYPE_CHECKING, NamedTuple, overload

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from chronotile.dataset.member_place import member_store
from chronotile.errors import ChronotileError
from chronotile.format.group_columns import MemberColumns
from chronotile.storage.place import are_plain_letters
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


class Members(Sequence[Member]):
    """The members of one group, in no order; a sequence like a tuple, made when it is looked at."""

    def __init__(self, group: Store, left: LeftMembers) -> None:
        self._group, self._left = group, left

    def __len__(self) -> int:
        return len(self._left)

    @cached_property
    def table(self) -> pa.Table:
        """All of them, a row each: name, kind, uri, stored_uri, is_relative; no object for any."""
        uris, names, kinds, relative = self._left.members()
        if len(self) and pc.all(relative).as_py() and _are_plain(uris):
            # What nearly all groups are like: a path below the group needs no closer look.
            below = f"{self._group.uri.rstrip('/')}/"
            places = pc.binary_join_element_wise(below, uris, "")
        else:
            entries = MemberColumns(uris, names, kinds, relative).entries()
            places = pa.array(
                [member_at(self._group, entry)[0].uri for entry in entries], pa.string()
            )
        return pa.table([names, kinds, places, uris, relative], schema=SCHEMA)

    @cached_property
    def _all(self) -> tuple[Member, ...]:
        columns = (column.to_pylist() for column in self.table.columns)
        rows = zip(*columns, repeat(self._group.uri, len(self)), strict=True)
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


def _are_plain(uris: pa.Array) -> bool:
    """Whether all URIs are single names, as the format writes its own."""
    _, offsets, data = uris.buffers()
    bounds = np.frombuffer(offsets, np.int32)[uris.offset :][: len(uris) + 1]
    text, starts = np.frombuffer(data, np.uint8)[: bounds[-1]], bounds[:-1]
    if (starts == bounds[1:]).any():
        return False
    return are_plain_letters(text[bounds[0] :].tobytes(), text[starts].tobytes())


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
