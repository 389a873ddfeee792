"""The members of a group and of the groups in it, each looked up where it lies.

In: a group that was read, and a moment. Out: `Member`s, as the lists of members name them, and
`Node`s, a group before its members: what is at the place of each. Lists the folder of each member
once; reads no array.

The URI of a member is text from a file. A relative one stays below its group: `..` is refused. An
absolute one may lie in another bucket or folder, which groups allow: it is a place to read from.
Nothing is written there unless the caller asks for it (`over_members`). Storage options go along
only to the same kind of storage: they may hold secrets.

A group that holds itself, directly or not, is listed once and not followed. A place that two
members name is listed twice and counts once: the second is `doubled`.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Literal, NamedTuple, TypeAlias

import pyarrow as pa

from chronotile.errors import (
    ArrayNotFoundError,
    BadNameError,
    ChronotileError,
    StorageError,
    is_damage,
)
from chronotile.history.group_reading import GroupHistory, read_group
from chronotile.history.listing import is_array, is_group
from chronotile.safe_text import printable
from chronotile.storage.place import Place, find_place
from chronotile.storage.prefetch import ahead
from chronotile.visibility.group_members import members_at

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from chronotile.format.groups import GroupEntry
    from chronotile.storage.store import Folder, Store


def member_store(group: Store, entry: GroupEntry) -> Store:
    """Open the store of a member.

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
    return Members(member_at(store, e)[0] for e in members_at(history, 0, end).values())


def member_at(group: Store, entry: GroupEntry) -> tuple[Member, Store | ChronotileError]:
    """Make a member of an entry, with its place or why that may not be followed."""
    place: Store | ChronotileError
    try:
        place = member_store(group, entry)
        uri = place.uri
    except ChronotileError as error:
        place, uri = error, entry.uri
    member = Member(entry.name, entry.kind, uri, entry.uri, entry.is_relative, group.uri)
    return member, place


NodeKind: TypeAlias = Literal[
    "array", "group", "missing", "neither", "cyclic", "doubled", "refused", "unreadable"
]
"""What is at the place of a member. `neither`: a folder that is no array and no group; `refused`:
its URI is none that may be followed; `unreadable`: the storage refused, or the group is damaged."""

LOST = ("missing", "neither", "refused", "unreadable")
"""Members of which nothing can be read."""

MOST_NESTED = 64
"""Groups in groups that are followed: a file that lies must not exhaust the program."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Node:
    """A member of a dataset, at any depth."""

    path: str
    """The titles of the groups around it and its own, with slashes between them."""
    depth: int
    member: Member
    found: NodeKind
    problem: str = ""
    """Why it is not followed, in words."""
    store: Store | None = field(default=None, repr=False)
    """Where it is; None if its URI may not be followed."""
    history: GroupHistory | None = field(default=None, repr=False)
    """Of a group."""
    is_inside: bool = True
    """True if it lies in the folder of the dataset."""
    is_damaged: bool = False
    """True for a group with a list of members that a repair takes out."""

    @property
    def uri(self) -> str:
        """Where it is."""
        return self.member.uri

    def fits(self, pattern: str | None) -> bool:
        """Return True if its path fits a pattern such as `ms/*/X`, or if there is none."""
        return pattern is None or fnmatchcase(self.path, pattern)


@dataclass(frozen=True, slots=True)
class LookedUp:
    """Folders and groups at the places of members, so that none is listed or read twice."""

    folders: dict[str, Folder | ChronotileError] = field(default_factory=dict)
    groups: dict[str, GroupHistory] = field(default_factory=dict)


def walk(
    root: Store,
    history: GroupHistory,
    end: int,
    looked_up: LookedUp | None = None,
    *,
    nested: bool = True,
) -> Iterator[Node]:
    """Look up the members of a group at a moment, and of every group in it.

    `looked_up` holds folders and groups that were read for another moment.

    Raises:
        ChronotileError: The root's own list of members cannot be read.
    """
    walker = _TreeWalk(root, history.key, end, looked_up or LookedUp(), nested)
    yield from walker.members(root, history, "", (root.uri,))


class _TreeWalk:
    def __init__(
        self, root: Store, key: bytes | None, end: int, looked_up: LookedUp, nested: bool
    ) -> None:
        self.root, self.key, self.end, self.looked_up = root, key, end, looked_up
        self.nested = nested
        self.seen: set[str] = {root.uri}

    def members(
        self, store: Store, history: GroupHistory, path: str, above: tuple[str, ...]
    ) -> Iterator[Node]:
        entries = members_at(history, 0, self.end).values()
        placed = [member_at(store, entry) for entry in entries]
        for (member, place), folder in zip(placed, self._listed(placed), strict=True):
            node = self._node(member, place, folder, path, above)
            if node.found != "group" or isinstance(place, ChronotileError):
                yield node
                continue
            yield from self._group(node, place, above)

    def _listed(
        self, placed: Sequence[tuple[Member, Store | ChronotileError]]
    ) -> Iterator[Folder | ChronotileError]:
        """List the folder of each member, or say why there is none."""
        known = self.looked_up.folders
        stores = {p.uri: p for _, p in placed if not isinstance(p, ChronotileError)}
        new = [store for uri, store in stores.items() if uri not in known]
        threads = min(max((store.concurrency for store in new), default=1), len(new))
        known |= {s.uri: f for s, f in zip(new, ahead(_folder, new, threads), strict=True)}
        for _, place in placed:
            yield place if isinstance(place, ChronotileError) else known[place.uri]

    def _group(self, node: Node, place: Store, above: tuple[str, ...]) -> Iterator[Node]:
        if len(above) > MOST_NESTED:
            problem = f"it lies in more than {MOST_NESTED} groups"
            yield replace(node, found="unreadable", problem=problem)
            return
        try:
            groups = self.looked_up.groups
            history = groups.get(place.uri) or read_group(place, key=self.key)
            groups[place.uri] = history
            inner = (*above, place.uri)
            below = list(self.members(place, history, node.path, inner)) if self.nested else []
        except ChronotileError as error:
            damaged = is_damage(error)
            yield replace(node, found="unreadable", problem=error.problem, is_damaged=damaged)
            return
        yield replace(node, history=history)
        yield from below

    def _node(
        self,
        member: Member,
        place: Store | ChronotileError,
        folder: Folder | ChronotileError,
        path: str,
        above: tuple[str, ...],
    ) -> Node:
        found, problem = self._found(place, folder, above)
        store = None if isinstance(place, ChronotileError) else place
        return Node(
            path=f"{path}/{member.title}" if path else member.title,
            depth=len(above) - 1,
            member=member,
            found=found,
            problem=problem,
            store=store,
            is_inside=store is not None and store.place.is_below(self.root.place),
        )

    def _found(
        self,
        place: Store | ChronotileError,
        folder: Folder | ChronotileError,
        above: tuple[str, ...],
    ) -> tuple[NodeKind, str]:
        if isinstance(place, ChronotileError):
            return "refused", place.problem
        if place.uri in above:
            return "cyclic", "it is one of the groups that it lies in"
        if isinstance(folder, ArrayNotFoundError):
            return "missing", "nothing is there"
        if isinstance(folder, ChronotileError):
            return "unreadable", folder.problem
        if not (is_array(folder) or is_group(folder)):
            empty = not (folder.files or folder.folders)
            return ("missing", "an empty folder") if empty else ("neither", "no array, no group")
        if place.uri in self.seen:
            return "doubled", "another member names the same place"
        self.seen.add(place.uri)
        return ("array" if is_array(folder) else "group"), ""


def _folder(place: Store) -> Folder | ChronotileError:
    try:
        return place.list_dir()
    except ChronotileError as error:
        return error
