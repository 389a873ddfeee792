"""The members of a group and of the groups in it, each looked up where it lies.

In: a group that was read, and a moment. Out: `Node`s, a group before its members: what each member
is, and whether that is there. Lists the folder of each member once; reads no array.

A group that holds itself, directly or not, is told once and not followed. A place that two members
name is told twice, and counts once: the second is `doubled`.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Literal, TypeAlias

from chronotile.dataset.member_list import member_at
from chronotile.errors import ArrayNotFoundError, ChronotileError
from chronotile.history.group_reading import GroupHistory, read_group
from chronotile.history.listing import is_array, is_group
from chronotile.storage.prefetch import ahead
from chronotile.visibility.group_members import members_at

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from chronotile.dataset.member_list import Member
    from chronotile.storage.store import Folder, Store

Found: TypeAlias = Literal[
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
    found: Found
    problem: str = ""
    """Why it is not followed, in words."""
    store: Store | None = field(default=None, repr=False)
    """Where it is; None if its URI may not be followed."""
    history: GroupHistory | None = field(default=None, repr=False)
    """Of a group."""
    is_inside: bool = True
    """Whether it lies in the folder of the dataset."""

    @property
    def uri(self) -> str:
        """Where it is."""
        return self.member.uri

    def fits(self, pattern: str | None) -> bool:
        """Whether its path fits a pattern such as `ms/*/X`; every path fits none."""
        return pattern is None or fnmatchcase(self.path, pattern)


@dataclass(frozen=True, slots=True)
class LookedUp:
    """What was found at the places of members, so that no place is listed or read twice."""

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
    """Looks up the members of a group at a moment, and of every group in it.

    Args:
        root: The group.
        history: What was read of it.
        end: The moment.
        looked_up: What is known from another moment.
        nested: Go into the groups that are members.

    Raises:
        ChronotileError: The root's own list of members cannot be read.
    """
    search = _Search(root, history.key, end, looked_up or LookedUp(), nested)
    yield from search.members(root, history, "", (root.uri,))


class _Search:
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
        """The folder of each member, or why there is none."""
        known = self.looked_up.folders
        stores = {p.uri: p for _, p in placed if not isinstance(p, ChronotileError)}
        new = [store for uri, store in stores.items() if uri not in known]
        threads = min(max((store.concurrency for store in new), default=1), len(new))
        known |= {s.uri: f for s, f in zip(new, ahead(_folder, new, threads), strict=True)}
        for _, place in placed:
            yield place if isinstance(place, ChronotileError) else known[place.uri]

    def _group(self, node: Node, place: Store, above: tuple[str, ...]) -> Iterator[Node]:
        if len(above) > MOST_NESTED:
            yield _changed(node, "unreadable", f"it lies in more than {MOST_NESTED} groups")
            return
        try:
            groups = self.looked_up.groups
            history = groups.get(place.uri) or read_group(place, key=self.key)
            groups[place.uri] = history
            inner = (*above, place.uri)
            below = list(self.members(place, history, node.path, inner)) if self.nested else []
        except ChronotileError as error:
            yield _changed(node, "unreadable", error.problem)
            return
        yield Node(
            path=node.path,
            depth=node.depth,
            member=node.member,
            found="group",
            store=place,
            history=history,
            is_inside=node.is_inside,
        )
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
    ) -> tuple[Found, str]:
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


def _changed(node: Node, found: Found, problem: str) -> Node:
    return Node(
        path=node.path,
        depth=node.depth,
        member=node.member,
        found=found,
        problem=problem,
        store=node.store,
        is_inside=node.is_inside,
    )


def _folder(place: Store) -> Folder | ChronotileError:
    try:
        return place.list_dir()
    except ChronotileError as error:
        return error
