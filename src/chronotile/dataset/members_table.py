"""The members of a dataset, each with a summary of what is there.

In: a dataset, and a moment. Out: `MemberRow`s, a group before its members; also the rows of the
Spark table `members`. Reads the log of each array.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from chronotile.errors import ChronotileError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from chronotile.dataset.member_tree import Node
    from chronotile.dataset.open_dataset import Dataset


class MemberRow(NamedTuple):
    """One member."""

    path: str
    depth: int
    name: str | None
    kind: str
    """What it was when it was added."""
    found: str
    """What is there: see `dataset.tree.Found`."""
    uri: str
    stored_uri: str
    is_relative: bool
    is_inside: bool
    """Whether it lies in the folder of the dataset."""
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
        """The JSON form, as `members --json` prints it."""
        return self._asdict()


def member_rows(
    dataset: Dataset,
    at: int | None = None,
    *,
    sizes: bool = True,
    nested: bool = True,
    on_member: Callable[[], None] | None = None,
) -> Iterator[MemberRow]:
    """Summarises the members at a moment.

    Args:
        dataset: The group.
        at: The moment; now if left out.
        sizes: Add up the files of each array.
        nested: Go into the groups that are members.
        on_member: Called after each member.
    """
    nodes = dataset.tree(at) if nested else dataset.direct(at)
    for node in nodes:
        yield _row(dataset, node, sizes=sizes)
        if on_member is not None:
            on_member()


def _row(dataset: Dataset, node: Node, *, sizes: bool) -> MemberRow:
    commits, size, changed, error = None, None, None, None
    if node.history is not None:
        commits = len(node.history.files)
        changed = max((file.name.t2 for file in node.history.files), default=None)
    elif node.found == "array" and node.store is not None:
        log = dataset.read_log(node)
        if isinstance(log, ChronotileError):
            error = str(log)
        else:
            table = log.history.table
            commits = table.commit_count
            changed = int(table.uris.t2.max()) if len(table) else None
        if sizes:
            size = sum(entry.size or 0 for entry in node.store.list_prefix(sizes=True))
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
