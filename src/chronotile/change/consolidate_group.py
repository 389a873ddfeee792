"""Consolidation of a group's own files: one list of members for many, one file of metadata.

In: a group. Out: the plan of new files; nothing is removed, and no member is touched. The engine
has no such thing for lists of members: each holds all members that its writer knew, and an open
reads all lists one after the other.

The merged list holds the last entry of every key, deletions too. Its name has the moment of the
last list that it replaces, and not their range, for the engine sorts lists by their first moment:
the merged one must come last of all that it holds. A list that is written meanwhile comes after it,
and wins; one that is dated back comes before it, and can neither bring a removed member back nor
lose a new one. A `.vac` of the same name hides the lists that it replaces from every window that
sees the merged one. No answer depends on the `.vac`: with or without it, the last entries are the
same; in a copied group, whose `.vac` hides nothing, too.

Every maintainer writes a list of its own, even if there is one that says the same: its writer might
take it back.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from chronotile.change.consolidate_metadata import plan_metadata
from chronotile.change.merged_files import Merge, group_lists, group_metadata
from chronotile.change.plan import Plan, put
from chronotile.check.findings import RefusedError, count_text
from chronotile.format.commit_files import encode_lines
from chronotile.format.groups import encode_details
from chronotile.format.kinds import GROUP
from chronotile.format.names import MAX_TIMESTAMP, new_name
from chronotile.history.group_reading import GroupHistory, read_group
from chronotile.visibility.group_members import (
    files_at,
    is_first_version,
    key_of,
    last_entries,
    members_at,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from chronotile.format.groups import GroupEntry
    from chronotile.history.group_reading import DetailsFile
    from chronotile.storage.store import Store


def plan_consolidate_group(store: Store, key: bytes | None) -> Plan:
    """Plan one list of members for many, and one file of metadata for many.

    An open at any time sees the same members before and after. Nothing is removed.

    Raises:
        RefusedError: A list of members is damaged.
    """
    history = sound_group(store, key)
    found = (plan_lists(store, history), plan_metadata(store, group_metadata(store, history)))
    merges = [one for one in found if isinstance(one, Merge)]
    return Plan(
        command="consolidate",
        array=store.uri,
        stages=tuple(stage for merge in merges for stage in merge.stages()),
        notes=tuple(one for one in found if isinstance(one, str)),
    )


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


def plan_lists(store: Store, history: GroupHistory) -> Merge | str | None:
    """Plan one list for all that an open at any later time reads; or say why there is none."""
    files = files_at(history, 0, MAX_TIMESTAMP)
    if files and is_first_version(files[-1].name):
        return "lists of version 1 stay: the newest alone names the members"
    if len(files) < 2:
        return None
    if (undecided := _undecided(files)) is not None:
        return f"lists of members stay: several of one time say different things of {undecided!r}"
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
    return Merge(
        known=folder,
        merged=put(f"{GROUP}/{text}", data, reason),
        vacuum=put(f"{GROUP}/{text}.vac", lines, f"hides {count_text(len(files), 'list')}"),
        last=t1,
    )


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
