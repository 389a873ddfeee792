"""Consolidation of a group's own files: one list of members for many, one file of metadata.

In: a group. Out: new files, and a report; nothing is removed, and no member is touched. The engine
has no such thing for lists of members: each holds all members that its writer knew, and an open
reads all lists one after the other.

The merged list holds the last entry of every key, deletions too. Its name has the moment of the
last list that it replaces, and not their range, for the engine sorts lists by their first moment:
the merged one must come last of all that it holds. A list that is written meanwhile comes after it,
and wins; one that is dated back comes before it, and can neither bring a removed member back nor
lose a new one. A `.vac` of the same name hides the lists that it replaces from every window that
sees the merged one. No answer depends on the `.vac`: with or without it, the last entries are the
same; in a copied group, whose `.vac` hides nothing, too.

The merged list goes first, then the `.vac`. In between `__group` is listed again: if there is a new
list that is not later, the merged one is taken back, and all begins anew. Every maintainer writes a
list of its own, even if there is one that tells the same: its writer might take it back.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from chronotile.change.change_report import Before, Report, Step, put, tell
from chronotile.change.consolidate_metadata import MetadataPlan, plan_metadata, put_metadata
from chronotile.change.merged_files import (
    MergeFolder,
    group_lists,
    group_metadata,
    put_vacuum,
)
from chronotile.check.findings import RefusedError, count_text
from chronotile.errors import ChangedError
from chronotile.format.commit_files import encode_lines
from chronotile.format.groups import encode_details
from chronotile.format.kinds import GROUP
from chronotile.format.names import MAX_TIMESTAMP, new_name, try_parse
from chronotile.history.group_reading import GroupHistory, read_group
from chronotile.storage.compared_put import put_compared
from chronotile.storage.store import Store, open_store
from chronotile.visibility.group_members import (
    files_at,
    is_first_version,
    key_of,
    last_entries,
    members_at,
)

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from chronotile.format.groups import GroupEntry
    from chronotile.history.details_files import DetailsFile

ATTEMPTS = 3
"""How often to begin anew if somebody else writes a list meanwhile."""


class ListsPlan(NamedTuple):
    """One list for many: the merged list and its `.vac`."""

    steps: tuple[Step, ...] = ()
    notes: tuple[str, ...] = ()
    last: int = 0
    """The first moment of the merged list."""


def consolidate_group(
    group: str,
    *,
    dry_run: bool = False,
    key: bytes | str | None = None,
    storage_options: Mapping[str, str] | None = None,
    store: Store | None = None,
    before: Before = None,
) -> Report:
    """Merges a group's lists of members into one, and its metadata likewise.

    An open at any time sees the same members before and after. Nothing is removed:
    `vacuum_group` does that.

    Args:
        group: A path or a URI.
        dry_run: Write nothing.
        key: The key of an encrypted group.
        storage_options: What the storage needs to know.
        store: The store, if it is open already.
        before: Called with the planned steps, before the first.

    Raises:
        RefusedError: A list of members is damaged.
        ChangedError: Somebody else changes the same files; try again.

    >>> consolidate_group("memory:doc-no-group")  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    chronotile.errors.ArrayNotFoundError: memory://doc-no-group: expected a group, found ...
    """
    opened = store or open_store(group, storage_options)
    for attempt in range(ATTEMPTS):
        history = sound_group(opened, key)
        lists = plan_lists(opened, history)
        known = group_metadata(opened, history)
        metadata = plan_metadata(opened, known)
        report = Report(
            "consolidate",
            opened.uri,
            dry_run=dry_run,
            steps=(*lists.steps, *metadata.steps),
            notes=(*lists.notes, *metadata.notes),
        )
        if dry_run or not report.steps:
            return report
        if attempt == 0:
            tell(before, report)
        try:
            _carry_out(opened, history, lists, known, metadata)
        except ChangedError:
            if attempt == ATTEMPTS - 1:
                raise
            continue
        return report
    raise AssertionError  # the last attempt returned or raised


def sound_group(store: Store, key: bytes | str | None) -> GroupHistory:
    """Reads a group that is about to be changed.

    Raises:
        RefusedError: A list of members cannot be read, or the engine could not open the group.
    """
    history = read_group(store, key=key)
    for problem in history.problems:
        words = f"expected lists of members that can be read, found {problem.path}"
        raise RefusedError(store.uri, f"{words}: {problem.message}")
    members_at(history, 0, MAX_TIMESTAMP)
    return history


def plan_lists(store: Store, history: GroupHistory) -> ListsPlan:
    """Plans one list for all that an open at any later time reads."""
    files = files_at(history, 0, MAX_TIMESTAMP)
    if files and is_first_version(files[-1].name):
        return ListsPlan(notes=("lists of version 1 stay: the newest alone tells the members",))
    if len(files) < 2:
        return ListsPlan()
    if (undecided := _undecided(files)) is not None:
        note = f"lists of members stay: several of one time tell different things of {undecided!r}"
        return ListsPlan(notes=(note,))
    entries = last_entries([file.details for file in files if file.details is not None])
    t1, t2 = max(file.name.t1 for file in files), max(file.name.t2 for file in files)
    folder = group_lists(store, history)
    text = new_name(t1, t2, 2)
    ordered = [entries[key] for key in sorted(entries)]
    is_sealed = any(file.encrypted for file in files)
    data = encode_details(
        ordered, format_version=folder.version, key=history.key if is_sealed else None
    )
    entry_words = count_text(len(entries), "entry", "entries")
    reason = f"{entry_words} of {count_text(len(files), 'list')} of members"
    lines = encode_lines(folder.lines(store, [file.name.text for file in files]))
    steps = (
        put(f"{GROUP}/{text}", data, reason),
        put(f"{GROUP}/{text}.vac", lines, f"hides {count_text(len(files), 'list')}"),
    )
    return ListsPlan(steps, (), t1)


def _undecided(files: Sequence[DetailsFile]) -> str | None:
    """A key of which two lists of one moment, the last that tell of it, tell different things."""
    latest: dict[str, tuple[int, set[GroupEntry]]] = {}
    for file in files:
        for entry in () if file.details is None else file.details.entries:
            key = key_of(entry)
            moment, said = latest.get(key, (-1, set()))
            same = moment == file.name.t1
            latest[key] = (file.name.t1, {*said, entry} if same else {entry})
    return next((key for key, (_, said) in latest.items() if len(said) > 1), None)


def _carry_out(
    store: Store,
    history: GroupHistory,
    lists: ListsPlan,
    known: MergeFolder,
    metadata: MetadataPlan,
) -> None:
    if lists.steps:
        put_lists(store, history, lists)
    if metadata.steps:
        put_metadata(store, known, metadata)


def put_lists(store: Store, history: GroupHistory, plan: ListsPlan) -> None:
    """Puts a merged list and its `.vac`.

    Raises:
        ChangedError: Somebody else wrote a list that is not later; the group is as it was.
    """
    *merged, vacuum = plan.steps
    for step in merged:
        put_compared(store, step.path, step.data)
    before = {*group_lists(store, history).names, *(s.path.rpartition("/")[2] for s in merged)}
    now = set(store.list_names(GROUP).files)
    fresh = [try_parse(text.removesuffix(".vac")) for text in now - before]
    if before - now or any(name is None or name.t1 <= plan.last for name in fresh):
        store.remove([step.path for step in merged])
        problem = "expected the lists of members as they were read, found them changed; try again"
        raise ChangedError(store.uri_of(GROUP), problem)
    put_vacuum(store, vacuum)
