"""Tags of a group, added and removed: a name for a moment of a whole dataset.

In: a dataset, a name, a moment. Out: one file in the group's own metadata, which every TileDB
program reads; a mark in each member; and `GroupReport`.

The group's own metadata is the truth. The marks are there for a vacuum that is run on a member by
itself, as a fleet's maintenance does: an array cannot know of its groups. They go into the arrays
and groups at any depth that are members now or were at that moment, less those outside of the
dataset's folder: these are told. The group's own file is always the last, so that the same command,
broken off anywhere and run again, does the rest: a tag is there only when all members know of it. A
tag that somebody set through TileDB has no marks; adding it again, at its own moment, makes them.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

from chronotile.change.change_report import Report
from chronotile.change.group_tags import metadata_of_group, tags_of_group
from chronotile.change.merged_files import group_metadata
from chronotile.check.findings import RefusedError
from chronotile.dataset.member_tree import LOST
from chronotile.dataset.over_members import OUTSIDE, GroupReport, Outcome
from chronotile.errors import ChronotileError, ReadError
from chronotile.format.tag_entries import check_name, mark_item, tag_item
from chronotile.format.timestamps import now_ms
from chronotile.history.group_reading import read_group
from chronotile.storage.compared_put import put_compared
from chronotile.time_machine.tag import (
    mark_tag,
    mark_words,
    metadata_step,
    refuse_taken,
    tag_words,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from chronotile.change.change_report import Step
    from chronotile.dataset.member_tree import Node
    from chronotile.dataset.open_dataset import Dataset
    from chronotile.format.array_metadata import MetadataItem
    from chronotile.format.timestamps import Moment
    from chronotile.history.group_reading import GroupHistory
    from chronotile.storage.store import Store


class _Planned(NamedTuple):
    """What is done to one member, or to the group itself."""

    store: Store
    outcome: Outcome


def tag_dataset(
    dataset: Dataset,
    name: str,
    *,
    at: Moment | None = None,
    move: bool = False,
    dry_run: bool = False,
    outside: bool = False,
    before: Callable[[GroupReport], None] | None = None,
) -> GroupReport:
    """Gives a moment of a dataset a name.

    Args:
        dataset: The group.
        name: The name: a letter first, then letters, digits and _.:/@+-.
        at: The moment, in any spelling; now, if it is left out.
        move: Let a tag of that name name this moment from now on.
        dry_run: Change nothing.
        outside: Mark also members that lie outside of the dataset's folder.
        before: Called with the planned steps of all members before the first.

    Raises:
        RefusedError: There is such a tag already, or a member cannot be read whole at the moment:
            nothing was changed.
    """
    check_name(name, dataset.uri)
    moment = now_ms() if at is None else dataset.moment(at)
    known = (dataset.known_tags.own if move else dataset.tags).get(name)
    refuse_taken(dataset.uri, name, known if known != moment else None, move=move)
    nodes = _members(dataset, moment, known)
    planned = list(_marked(dataset, nodes, name, moment, outside=outside, there=True))
    if known not in (None, moment):
        assert known is not None
        planned += _marked(dataset, nodes, name, known, outside=outside, there=False)
    if known != moment:
        planned.append(_own(dataset, tag_item(name, moment), tag_words(name, moment)))
    return _carry_out(dataset, planned, before, dry_run=dry_run)


def untag_dataset(
    dataset: Dataset,
    name: str,
    *,
    dry_run: bool = False,
    outside: bool = False,
    before: Callable[[GroupReport], None] | None = None,
) -> GroupReport:
    """Takes a tag of a group away: from then on a vacuum may remove what only it needs.

    Raises:
        RefusedError: There is no such tag, or a member cannot be read: nothing was changed.
    """
    tags = dataset.known_tags
    known = tags.own.get(name)
    planned: list[_Planned] = []
    if known is not None:
        nodes = _members(dataset, known)
        planned += _marked(dataset, nodes, name, known, outside=outside, there=False)
    elif name not in tags.odd:
        tags.checked(dataset.uri)
        raise RefusedError(dataset.uri, f"expected the name of a group's tag, found {name!r:.120}")
    planned.append(_own(dataset, tag_item(name, None), tag_words(name, None)))
    return _carry_out(dataset, planned, before, dry_run=dry_run)


def _members(dataset: Dataset, *moments: int | None) -> list[Node]:
    """The members now and at some moments, each place once."""
    ends = (*(end for end in moments if end is not None), None)
    nodes = {node.uri: node for end in ends for node in dataset.tree(end)}
    return [nodes[uri] for uri in sorted(nodes, key=lambda uri: nodes[uri].path)]


def _marked(
    dataset: Dataset, nodes: list[Node], name: str, moment: int, *, outside: bool, there: bool
) -> Iterator[_Planned]:
    """Plans the marks of all members.

    Raises:
        RefusedError: A member is gone, or cannot be read whole at the moment.
        ReadError: A member cannot be read.
    """
    for node in nodes:
        if node.found in LOST and there:
            problem = f"expected every member, found that {node.path} cannot be read"
            raise RefusedError(dataset.uri, f"{problem}: {node.problem}")
        if node.store is None or node.found not in ("array", "group"):
            continue
        told = Outcome(path=node.path, array=node.store.uri, is_group=node.found == "group")
        if not (node.is_inside or outside):
            yield _Planned(node.store, replace(told, error=OUTSIDE, skipped=True))
            continue
        try:
            report = _mark(dataset, node, name, moment, there=there)
        except ChronotileError as error:
            problem = f"expected that every member can, found {node.path}"
            kind = ReadError if isinstance(error, ReadError) else RefusedError
            raise kind(dataset.uri, f"{problem}: {error}; nothing was changed") from error
        if report.steps:
            yield _Planned(node.store, replace(told, report=report))


def _mark(dataset: Dataset, node: Node, name: str, moment: int, *, there: bool) -> Report:
    """The plan of one member's mark."""
    assert node.store is not None  # it was found there
    store, key = node.store, dataset.key
    if node.found == "array":
        return mark_tag(store.uri, name, moment, there=there, dry_run=True, key=key, store=store)
    history = node.history or read_group(store, key=key)
    if there == ((name, moment) in tags_of_group(store, history).of_groups):
        return Report("tag", store.uri, dry_run=True, steps=())
    words = mark_words(name, moment, there=there)
    step = _group_step(store, history, mark_item(name, moment, there=there), words)
    return Report("tag", store.uri, dry_run=True, steps=(step,))


def _own(dataset: Dataset, item: MetadataItem, words: str) -> _Planned:
    """The plan of the group's own file."""
    step = _group_step(dataset.store, dataset.group, item, words)
    report = Report("tag", dataset.uri, dry_run=True, steps=(step,))
    outcome = Outcome(path="", array=dataset.uri, is_group=True, report=report)
    return _Planned(dataset.store, outcome)


def _group_step(store: Store, history: GroupHistory, item: MetadataItem, words: str) -> Step:
    """The file of metadata that sets a key of a group, or removes it."""
    folder = group_metadata(store, history)
    is_sealed = any(file.encrypted for file in history.files)
    others = metadata_of_group(store, history)
    key = history.key if is_sealed else None
    return metadata_step(item, others, folder.version, key, words)


def _told(outcome: Outcome, *, dry_run: bool) -> Outcome:
    """What is done, or would be: the plan of a member is a dry run."""
    if outcome.report is None:
        return outcome
    return replace(outcome, report=replace(outcome.report, dry_run=dry_run))


def _carry_out(
    dataset: Dataset,
    planned: list[_Planned],
    before: Callable[[GroupReport], None] | None,
    *,
    dry_run: bool,
) -> GroupReport:
    outcomes = tuple(_told(one.outcome, dry_run=dry_run) for one in planned)
    plan = GroupReport("tag", dataset.uri, dry_run=dry_run, outcomes=outcomes)
    if dry_run or not plan.has_steps:
        return plan
    if before is not None:
        before(plan)
    for store, outcome in planned:
        for step in () if outcome.report is None else outcome.report.steps:
            put_compared(store, step.path, step.data)
    return plan
