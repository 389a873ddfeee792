"""Checks of a group: its lists of members, its tags, and the place of each member.

In: a dataset. Out: findings. Leaves the checks of an array to `check`; changes nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from chronotile.change.repair_group import folders_beside, list_findings, twin_of
from chronotile.check.check_array import check, group_metadata
from chronotile.check.findings import (
    CODES,
    SEVERITIES,
    Finding,
    count_text,
    finding,
    unreadable,
)
from chronotile.check.tags import doubtful_tags, unreadable_tags
from chronotile.dataset.moments import span_of
from chronotile.errors import ChronotileError
from chronotile.format.kinds import GROUP, META
from chronotile.format.names import MAX_TIMESTAMP
from chronotile.format.timestamps import now_ms
from chronotile.safe_text import shell_word
from chronotile.visibility.group_members import files_at

if TYPE_CHECKING:
    from collections.abc import Iterator

    from chronotile.check.findings import Severity
    from chronotile.dataset.member_tree import Node
    from chronotile.dataset.moments import Span
    from chronotile.dataset.open_dataset import Dataset
    from chronotile.history.group_reading import GroupHistory
    from chronotile.storage.store import Store


MANY_LISTS = 20
"""From this many lists of members on, merging them is due: each holds all members."""

_GONE = {
    "missing": "is not there",
    "neither": "is no longer an array or a group",
    "refused": "has a URI that cannot be followed",
}


def check_dataset(
    dataset: Dataset, *, log_only: bool = False, deep: bool = False
) -> tuple[Finding, ...]:
    """Find what is wrong with a group, with the groups in it, and with every array."""
    now = now_ms()
    findings = list(check_group(dataset, now))
    try:
        dataset.tree(now)
    except ChronotileError:
        return tuple(findings)  # they say why the members are not known
    for node, log in dataset.read_logs(now):
        if isinstance(log, ChronotileError):
            findings.append(unreadable(node.uri, log))
            continue
        findings += check(log.history, log.rules, None if log_only else node.store, deep=deep)
    return tuple(findings)


def check_group(dataset: Dataset, now: int | None = None) -> Iterator[Finding]:
    """Check a group and the groups in it, without the arrays."""
    own = [*_lists(dataset.group), *group_metadata(dataset.store, dataset.group)]
    yield from own
    try:
        nodes = dataset.tree(now)
    except ChronotileError as error:
        if not any(item.path.startswith(GROUP) for item in own):
            yield unreadable(dataset.uri, error)
        return
    for node in nodes:
        if node.history is not None and node.store is not None:
            yield from _lists(node.history)
            yield from group_metadata(node.store, node.history)
    groups = {dataset.uri: dataset.store}
    groups |= {n.uri: n.store for n in nodes if n.found == "group" and n.store is not None}
    places = {node.uri for node in nodes}
    for uri, store in groups.items():
        members = [node for node in nodes if node.member.group == uri]
        beside = folders_beside(store)
        found = [*_members(uri, store, members, beside), *_strays(uri, store, places, beside)]
        yield from sorted(found, key=lambda item: SEVERITIES.index(item.severity))
    yield from check_tags(dataset)


def _lists(history: GroupHistory) -> Iterator[Finding]:
    yield from list_findings(history)
    seen = len(files_at(history, 0, MAX_TIMESTAMP))
    if seen >= MANY_LISTS:
        message = f"{count_text(seen, 'list')} of members, each with all of them: an open reads all"
        yield finding(history.group, "many-member-lists", GROUP, message)
    loose = [name for name in history.meta if not name.endswith(".vac")]
    if len(loose) >= MANY_LISTS:
        message = f"{count_text(len(loose), 'file')} of metadata: an open reads all of them"
        yield finding(history.group, "many-member-lists", META, message)


def _members(
    uri: str, store: Store, members: list[Node], beside: dict[str, str]
) -> Iterator[Finding]:
    for node in members:
        twin = None
        if not node.member.is_relative and node.store is not None:
            twin = twin_of(node.store.place, store, beside)
        if twin is not None:
            message = f"{node.path} is listed at {node.member.stored_uri}, and {twin} is here"
            yield finding(uri, "member-elsewhere", twin, f"{message}: was the group copied?")
        if node.found in _GONE:
            where = "" if node.member.is_relative else f": {node.member.stored_uri}"
            message = f"the member {node.path} {_GONE[node.found]}{where}"
            more = f" ({node.problem})" if node.found == "refused" else ""
            hint = None if twin is None else CODES["member-elsewhere"][1]
            yield finding(uri, "member-missing", node.member.title, message + more, hint=hint)
        elif node.found == "unreadable":
            message = f"{node.path} cannot be read: {node.problem}"
            mend = f"chronotile repair {shell_word(node.uri)}" if node.is_damaged else None
            yield finding(uri, "unreadable", node.member.title, message, hint=mend)
        elif node.found in ("cyclic", "doubled"):
            message = f"{node.path}: {node.problem}"
            yield finding(uri, f"member-{node.found}", node.member.title, message)


def _strays(uri: str, store: Store, places: set[str], beside: dict[str, str]) -> Iterator[Finding]:
    for name, kind in beside.items():
        if store.child(name).uri not in places:
            message = f"the {kind} {name} lies in the folder, and is no member"
            yield finding(uri, "stray-array", name, message)


def check_as_of(dataset: Dataset, moment: int) -> tuple[Finding, ...]:
    """Find the members that cannot be read whole at a moment.

    Raises:
        ChronotileError: The group's own list of members cannot be read.
    """
    findings: list[Finding] = []
    nodes = dataset.tree(moment)
    if not files_at(dataset.group, 0, moment):
        message = f"the group has no list of members at {moment}"
        findings.append(finding(dataset.uri, "as-of-absent", GROUP, message))
    for node in nodes:
        if node.found in _GONE or node.found == "unreadable":
            message = f"{node.path} {_GONE.get(node.found, 'cannot be read')}"
            code = "unreadable" if node.found == "unreadable" else "member-missing"
            findings.append(finding(dataset.uri, code, node.path, message))
    then = {node.uri for node in nodes}
    for node in dataset.tree():
        if node.found in ("array", "group") and node.uri not in then:
            message = f"{node.path} is not yet a member at {moment}"
            findings.append(
                finding(dataset.uri, "as-of-absent", node.path, message, severity="info")
            )
    for node, log in dataset.read_logs(moment):
        if isinstance(log, ChronotileError):
            findings.append(unreadable(node.uri, log))
            continue
        findings += _as_of(node, span_of(log), moment, dataset.uri)
    return tuple(sorted(findings, key=lambda item: SEVERITIES.index(item.severity)))


def _as_of(node: Node, span: Span, moment: int, group: str) -> Iterator[Finding]:
    if span.created > moment:
        message = f"{node.path} has no state at {moment}: it was created at {span.created}"
        yield finding(node.uri, "as-of-absent", node.path, message, place=group)
        return
    for gap in span.gaps:
        if not gap.t1 <= moment <= gap.t2:
            continue
        message = f"{node.path} has only a part of its state at {moment}"
        why = f"a merge of {gap.t1} to {gap.t2 + 1} was vacuumed"
        if gap.is_purge:
            message = f"{node.path} may have only a part of its state at {moment}"
            why = f"a merge dropped the rows that the delete of {gap.t2 + 1} removed, from every"
            why += " time before it too"
        severity: Severity | None = "warning" if gap.is_purge else None
        path, found = f"__fragments/{gap.fragment}", f"{message}: {why}"
        yield finding(node.uri, "as-of-partial", path, found, severity=severity, place=group)


def check_tags(dataset: Dataset) -> Iterator[Finding]:
    """Check the tags of a group and of the groups in it; reads members only if there is a tag.

    The check of an array finds the tags that the array knows itself.
    """
    for group in (dataset, *dataset.inner()):
        tags = group.known_tags
        yield from doubtful_tags(group.uri, tags)
        if not tags.own:
            continue
        for node, log in group.read_logs():
            # The check of its group reports an array that cannot be read.
            if not isinstance(log, ChronotileError) and node.store is not None:
                yield from unreadable_tags(node.store, log.rules, tags.own, group.uri)
