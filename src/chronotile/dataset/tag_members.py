"""Tags of a group, added and removed: a name for a moment of a whole dataset.

In: a dataset, a name, a moment. Out: the plans of one file in the group's own metadata, which every
TileDB program reads, and of a mark in each member.

The group's own metadata is the truth. The marks are there for a vacuum that is run on a member by
itself, as a fleet's maintenance does: an array cannot know of its groups. They go into the arrays
and groups at any depth that are members now or were at that moment, less those outside of the
dataset's folder: these are named. The group's own file is always the last: the same command,
broken off anywhere and run again, does the rest: a tag is there only when all members know of it. A
tag that somebody set through TileDB has no marks; adding it again, at its own moment, makes them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from chronotile.change.operations import list_operations
from chronotile.change.tag import plan_mark, plan_tag_file, refuse_taken, similar_tag
from chronotile.check.findings import RefusedError, UnknownNameError
from chronotile.dataset.member_tree import LOST
from chronotile.dataset.over_members import ArrayOrGroup, left_alone, planned_as, refusal
from chronotile.errors import ChronotileError, ReadError
from chronotile.format.tag_entries import check_name
from chronotile.format.timestamps import now_ms
from chronotile.safe_text import shell_word

if TYPE_CHECKING:
    from collections.abc import Iterator

    from chronotile.dataset.member_tree import Node
    from chronotile.dataset.open_dataset import Dataset
    from chronotile.dataset.over_members import MemberPlan
    from chronotile.format.timestamps import Moment


def plan_tag_group(
    dataset: Dataset,
    name: str,
    *,
    at: Moment | None = None,
    move: bool = False,
    outside: bool = False,
) -> list[MemberPlan]:
    """Plan to give a moment of a dataset a name: the marks of all members, then the tag itself.

    Raises:
        RefusedError: There is such a tag already, or a member cannot be read whole at the moment.
    """
    check_name(name, dataset.uri)
    moment = now_ms() if at is None else dataset.moment(at)
    tags = dataset.known_tags
    known = (tags if move else tags.checked(dataset.uri)).own.get(name)
    refuse_taken(dataset.uri, name, known if known != moment else None, move=move)
    nodes = _members(dataset, moment, known)
    planned = list(_marked(dataset, nodes, name, moment, outside=outside, there=True))
    if known not in (None, moment):
        assert known is not None
        planned += _marked(dataset, nodes, name, known, outside=outside, there=False)
    if known != moment:
        planned.append(_own(dataset, name, moment))
    return planned


def plan_untag_group(dataset: Dataset, name: str, *, outside: bool = False) -> list[MemberPlan]:
    """Plan to take a tag of a group away.

    Raises:
        RefusedError: There is no such tag, or a member cannot be read.
    """
    tags = dataset.known_tags
    known = tags.own.get(name)
    planned: list[MemberPlan] = []
    if known is not None:
        nodes = _members(dataset, known)
        planned += _marked(dataset, nodes, name, known, outside=outside, there=False)
    elif name not in tags.odd:
        tags.checked(dataset.uri)
        similar = similar_tag(dataset.uri, name, tags)
        raise UnknownNameError(dataset.uri, f"the group has no tag {name!r:.120}{similar}")
    planned.append(_own(dataset, name, None))
    return planned


def _members(dataset: Dataset, *moments: int | None) -> list[Node]:
    """List the members now and at some moments, each place once."""
    ends = (*(end for end in moments if end is not None), None)
    nodes = {node.uri: node for end in ends for node in dataset.tree(end)}
    return [nodes[uri] for uri in sorted(nodes, key=lambda uri: nodes[uri].path)]


def _marked(
    dataset: Dataset, nodes: list[Node], name: str, moment: int, *, outside: bool, there: bool
) -> Iterator[MemberPlan]:
    """Plan the marks of all members.

    Raises:
        RefusedError: A member is gone, or cannot be read whole at the moment.
        ReadError: A member cannot be read.
    """
    for node in nodes:
        if node.found in LOST and there:
            problem = f"the member {node.path} cannot be read: {node.problem}; to see what is wrong"
            raise RefusedError(
                dataset.uri, f"{problem}: chronotile check {shell_word(dataset.uri)}"
            )
        if node.store is None or node.found not in ("array", "group"):
            continue
        is_group = node.found == "group"
        target = ArrayOrGroup(node.path, node.store, is_group, node.is_inside)
        if not (node.is_inside or outside):
            yield left_alone(target)
            continue
        known = list_operations(node.store)
        try:
            plan = plan_mark(
                node.store, dataset.key, name=name, moment=moment, there=there, is_group=is_group
            )
        except ChronotileError as error:
            is_unread = isinstance(error, ReadError)
            raise refusal(dataset.uri, node.path, str(error), is_unread=is_unread) from error
        if plan.steps:
            yield planned_as(target, plan, known)


def _own(dataset: Dataset, name: str, moment: int | None) -> MemberPlan:
    """Plan the group's own file."""
    target = ArrayOrGroup("", dataset.store, is_group=True, is_inside=True)
    return planned_as(target, plan_tag_file(dataset.store, dataset.group, name, moment))
