"""A dataset: a group with all arrays in it.

In: the place of a group. Out: `Dataset`, which answers for all members: their names at a moment,
their logs, the views of an open at a moment; a row for each member; the dataset as it will be once
damaged lists of members are repaired. Changes nothing.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from typing import TYPE_CHECKING, Any, NamedTuple, NoReturn

from chronotile.change.repair_group import mended_history
from chronotile.change.tag import tags_of_group
from chronotile.check.findings import RefusedError, count_text
from chronotile.dataset.member_tree import LookedUp, Members, Node, direct_members, walk
from chronotile.errors import ChronotileError, WrongCallError
from chronotile.format.timestamps import now_ms, to_ms
from chronotile.history.group_reading import GroupHistory, read_group
from chronotile.history.read_history import read_history
from chronotile.log import Log
from chronotile.safe_text import did_you_mean, shell_word

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from chronotile.format.tag_entries import Tags
    from chronotile.format.timestamps import Moment
    from chronotile.storage.store import Store
    from chronotile.visibility.view import View


@dataclass(frozen=True, slots=True, kw_only=True)
class DatasetView:
    """The objects that an open of every member at one moment sees."""

    end: int
    nodes: tuple[Node, ...]
    """The members at that moment, a group before its members."""
    views: Mapping[str, View]
    """Path of an array in the dataset -> what an open of it sees."""
    errors: Mapping[str, ChronotileError]
    """Path -> why an array could not be read."""


@dataclass(frozen=True, eq=False)
class Dataset:
    """A group and what is in it: a value, read once; arrays are read when they are asked for."""

    store: Store = field(repr=False)
    group: GroupHistory = field(repr=False)
    """The group's own lists of members."""

    def __repr__(self) -> str:
        lists = count_text(len(self.group.files), "list of members", "lists of members")
        return f"<dataset at {self.uri}: {lists}>"

    @property
    def uri(self) -> str:
        """Where the group lies."""
        return self.store.uri

    @property
    def key(self) -> bytes | None:
        """The key that opens encrypted members."""
        return self.group.key

    def reopened(self) -> Dataset:
        """Read the dataset again, as it is now."""
        return Dataset(self.store, read_group(self.store, key=self.key))

    def moment(self, time: Moment, where: str = "time") -> int:
        """Give a time in any spelling, or a tag's name, in ms.

        Raises:
            BadTimeError: It is no time.
            ReadError: It may be a tag, and metadata cannot be read.
        """
        first = min((file.name.t1 for file in self.group.files), default=None)
        return to_ms(time, where, tags=self._tagged, earliest=first)

    def _tagged(self) -> dict[str, int]:
        return self.known_tags.checked(self.uri).by_name()

    @property
    def tags(self) -> dict[str, int]:
        """The tags of the group, with their moments in ms, the earliest first.

        The first call reads the group's own metadata, and no member.

        Raises:
            ReadError: Metadata cannot be read, and may hold a tag; `known_tags` has the others.
        """
        return self.known_tags.checked(self.uri).own

    @cached_property
    def known_tags(self) -> Tags:
        """The tags of the group, and those of groups around it."""
        return tags_of_group(self.store, self.group)

    def _at(self, at: Moment | None) -> int:
        return now_ms() if at is None else self.moment(at, "at")

    def members(self, at: Moment | None = None) -> Members:
        """Give the members of the group itself, at a moment, as `tiledb.Group` lists them.

        Nothing is looked up where the members lie: `member_tree` does that.

        Args:
            at: In ms since the epoch, or in any spelling that `Log.view` takes; now if left out.

        Raises:
            ChronotileError: A list of members cannot be read.
        """
        return direct_members(self.store, self.group, self._at(at))

    def tree(self, at: Moment | None = None) -> tuple[Node, ...]:
        """List the members at any depth, each looked up; a group before its members."""
        # A tree now and one at a moment that is still to come are the same.
        return self._trees(self._at(at))

    def absence(self, at: Moment | None) -> str | None:
        """Say that the group has no list of members yet at a moment, if so."""
        end = self._at(at)
        first = min((file.name.t2 for file in self.group.files), default=end)
        if first <= end:
            return None
        return f"{self.uri} has no list of members yet at {end}; its first is of {first}"

    def fitting(self, pattern: str | None, *moments: Moment | None) -> list[Node]:
        """List the members whose paths fit a pattern, at some moments (now, if none is given).

        Raises:
            WrongCallError: None does at any of them.
        """
        nodes = [node for at in moments or (None,) for node in self.tree(at)]
        fitting = [node for node in nodes if node.fits(pattern)]
        if pattern is not None and not fitting:
            refuse_pattern(self.uri, pattern, [node.path for node in nodes])
        return fitting

    def direct(self, at: Moment | None = None) -> tuple[Node, ...]:
        """List the members of the group itself, each looked up where it lies."""
        end = self._at(at)
        return tuple(walk(self.store, self.group, end, self.looked_up, nested=False))

    @cached_property
    def _trees(self) -> Callable[[int], tuple[Node, ...]]:
        return lru_cache(maxsize=16)(
            lambda end: tuple(walk(self.store, self.group, end, self.looked_up))
        )

    @cached_property
    def looked_up(self) -> LookedUp:
        """The places of members that were looked up so far."""
        return LookedUp()

    def arrays(self, at: Moment | None = None) -> tuple[Node, ...]:
        """List the arrays at any depth, each place once."""
        return tuple(node for node in self.tree(at) if node.found == "array")

    def inner(self) -> tuple[Dataset, ...]:
        """List the groups in it, at any depth, each place once."""
        nodes = (node for node in self.tree() if node.found == "group")
        return tuple(Dataset(n.store, n.history) for n in nodes if n.store and n.history)

    def read_logs(self, at: Moment | None = None) -> Iterator[tuple[Node, Log | ChronotileError]]:
        """Read the log of each array at a moment, or why it cannot be read, one by one."""
        for node in self.arrays(at):
            yield node, self.read_log(node)

    def read_log(self, node: Node) -> Log | ChronotileError:
        """Read the log of one array of the tree, or why it cannot be read."""
        assert node.store is not None  # an array was found there
        try:
            return Log(read_history(node.store, key=self.key), node.store)
        except ChronotileError as error:
            return error

    def logs(self) -> dict[str, Log]:
        """Read the log of every array, by its path in the dataset.

        Raises:
            ChronotileError: An array cannot be read; `read_logs` goes on with the others.
        """
        return {node.path: self.log_of(node) for node in self.arrays()}

    def log_of(self, node: Node) -> Log:
        """Read the log of one array of the tree.

        Raises:
            ChronotileError: It cannot be read; `read_log` gives the error.
        """
        log = self.read_log(node)
        if isinstance(log, ChronotileError):
            raise log
        return log


def refuse_pattern(group: str, pattern: str, paths: Sequence[str]) -> NoReturn:
    """Refuse a pattern that fits no member; suggest one of these paths.

    Raises:
        WrongCallError: Always.
    """
    hint = did_you_mean(pattern, paths)
    hint = hint or f"; to list all: chronotile members {shell_word(group)}"
    raise WrongCallError(group, f"expected members that fit {pattern!r}, found none{hint}")


def refuse_groups(group: str, pattern: str) -> NoReturn:
    """Refuse a pattern that fits groups, and none of their arrays.

    Raises:
        WrongCallError: Always.
    """
    problem = f"expected members that are arrays, found groups alone that fit {pattern!r}"
    inside = shell_word(f"{pattern}/*")
    raise WrongCallError(group, f"{problem}; for the arrays in them: --member {inside}")


def dataset_at(store: Store, key: bytes | str | None = None) -> Dataset:
    """List and read the lists of members of a group, once.

    Raises:
        ArrayNotFoundError: There is no group.
    """
    return Dataset(store, read_group(store, key=key))


class MemberRow(NamedTuple):
    """One member."""

    path: str
    depth: int
    name: str | None
    kind: str
    """What it was when it was added."""
    found: str
    """What is there: see `member_tree.NodeKind`."""
    uri: str
    stored_uri: str
    is_relative: bool
    is_inside: bool
    """True if it lies in the folder of the dataset."""
    group: str
    """Where its group lies."""
    commits: int | None
    """Commit records of an array, or lists of members of a group; None of anything else."""
    bytes: int | None
    """Of all its files; None if nobody asked."""
    changed: int | None
    """The last time that a name in it tells."""
    problem: str
    error: str | None
    """Why an array could not be read."""

    def to_dict(self) -> dict[str, Any]:
        """Give the JSON form, as `members --json` prints it."""
        return self._asdict()


def member_rows(
    dataset: Dataset,
    at: int | None = None,
    *,
    sizes: bool = True,
    nested: bool = True,
    logs: bool = True,
    on_member: Callable[[], None] | None = None,
) -> Iterator[MemberRow]:
    """Summarise the members at a moment.

    Args:
        dataset: The group.
        at: The moment; now if left out.
        sizes: Add up the files of each array.
        nested: Go into the groups that are members.
        logs: Read the log of each array, for its commits.
        on_member: Called after each member.
    """
    nodes = dataset.tree(at) if nested else dataset.direct(at)
    for node in nodes:
        yield _row(dataset, node, sizes=sizes, logs=logs)
        if on_member is not None:
            on_member()


def _row(dataset: Dataset, node: Node, *, sizes: bool, logs: bool) -> MemberRow:
    commits, size, changed, error = None, None, None, None
    if node.history is not None:
        commits = len(node.history.files)
        changed = max((file.name.t2 for file in node.history.files), default=None)
    elif logs and node.found == "array" and node.store is not None:
        log = dataset.read_log(node)
        if isinstance(log, ChronotileError):
            error = str(log)
        else:
            table = log.history.table
            commits = table.commit_count
            changed = int(table.uris.t2.max()) if len(table) else None
        if sizes and error is None:
            size = sum(entry.size or 0 for entry in node.store.list_prefix())
    member = node.member
    return MemberRow(
        path=node.path,
        depth=node.depth,
        name=member.name,
        kind=member.kind,
        found=node.found,
        uri=node.uri,
        stored_uri=member.stored_uri,
        is_relative=member.is_relative,
        is_inside=node.is_inside,
        group=member.group,
        commits=commits,
        bytes=size,
        changed=changed,
        problem=node.problem,
        error=error,
    )


def as_mended(dataset: Dataset) -> Dataset:
    """Give the dataset with the members that a repair of its groups leaves.

    Raises:
        RefusedError: A damaged list of the dataset's own group has just changed.
    """
    history = mended_history(dataset.store, dataset.key)
    known: dict[str, GroupHistory] = {}
    while True:
        shown = Dataset(dataset.store, history)
        shown.looked_up.groups.update(known)
        broken = [node for node in shown.tree() if node.is_damaged and node.uri not in known]
        if not broken:
            return shown
        before = len(known)
        for node in broken:
            assert node.store is not None  # it was found to be a group
            with suppress(RefusedError):
                known[node.uri] = mended_history(node.store, dataset.key)
        if len(known) == before:
            return shown
