"""Removal of a group's own files that merged ones replace: lists of members, and metadata.

In: a group. Out: fewer files, and a report. Touches no member.

A list goes if a `.vac` names it, the merged list that the `.vac` belongs to, or one that this was
merged into in turn, is there and can be read, and the lists that an open reads tell of every member
that it tells of. What the plan relies on is read again just before the removal.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from chronotile.change.change_report import Before, Report, tell
from chronotile.change.consolidate_group import sound_group
from chronotile.change.group_tags import tags_of_group
from chronotile.change.kept_windows import Keep, doubtful, windows_of
from chronotile.change.merged_files import MergeFolder, group_lists, group_metadata
from chronotile.change.vacuum_metadata import Replaced, remove_replaced
from chronotile.check.unreadable_tags import doubtful_tags
from chronotile.format.kinds import META
from chronotile.format.names import MAX_TIMESTAMP
from chronotile.format.timestamps import time_text, to_ms
from chronotile.storage.store import Store, open_store
from chronotile.visibility.group_members import files_at, last_entries

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from chronotile.change.change_report import Step
    from chronotile.format.tag_entries import Tags
    from chronotile.format.timestamps import Moment
    from chronotile.history.group_reading import GroupHistory
    from chronotile.history.read_history import VacuumFile
    from chronotile.visibility.windows_to_keep import Kept


def vacuum_group(
    group: str,
    *,
    dry_run: bool = False,
    keep: Iterable[Moment] = (),
    keep_days: float | None = None,
    group_tags: Mapping[str, int] | None = None,
    key: bytes | str | None = None,
    storage_options: Mapping[str, str] | None = None,
    store: Store | None = None,
    before: Before = None,
) -> Report:
    """Removes the lists of members, and the metadata, that merged files of a group replace.

    An open now sees the same before and after. An open at a time before the merged list sees no
    members any more; a note says so first.

    Args:
        group: A path or a URI.
        dry_run: Remove nothing.
        keep: Moments: opens of the group then stay as they are, as those at its tags always do.
        keep_days: And opens at a time within so many days.
        group_tags: And at the tags of a group around it.
        key: The key of an encrypted group.
        storage_options: What the storage needs to know.
        store: The store, if it is open already.
        before: Called with the planned steps, before the first.

    Raises:
        RefusedError: A list of members is damaged.
        ChangedError: Somebody else changes the same files; try again.
    """
    opened = store or open_store(group, storage_options)
    history = sound_group(opened, key)
    tags = tags_of_group(opened, history)
    kept = _kept_windows(opened, tags, Keep(tuple(keep), keep_days, group_tags or {}))
    uncovered = [vacuum for vacuum in history.vacuums if not _is_covered(history, vacuum)]
    steps: list[Step] = []
    notes = [*doubtful(tags)]
    notes += [
        f"what {vacuum.path} lists is kept: the merged list does not tell of all of it"
        for vacuum in uncovered
    ]
    relied_on: dict[str, bytes] = {}
    for folder in (
        _without(group_lists(opened, history), uncovered),
        group_metadata(opened, history),
    ):
        replaced = Replaced(opened, folder, kept)
        steps += replaced.steps()
        notes += _notes(folder, replaced)
        relied_on |= {**replaced.readable, **replaced.vacuums}
    report = Report(
        "vacuum",
        opened.uri,
        dry_run=dry_run,
        steps=tuple(steps),
        notes=tuple(notes),
        findings=tuple(doubtful_tags(opened.uri, tags)),
    )
    if dry_run or not steps:
        return report
    tell(before, report)
    remove_replaced(opened, steps, relied_on)
    return report


def _kept_windows(store: Store, tags: Tags, keep: Keep) -> tuple[Kept, ...]:
    def look_up(name: str) -> int | None:
        return tags.checked(store.uri).moment(name)

    moments = [to_ms(one, store.uri, look_up=look_up) for one in keep.moments]
    return windows_of(tags, moments, keep)


def _is_covered(history: GroupHistory, vacuum: VacuumFile) -> bool:
    """Whether the lists that an open reads tell of all that the lists which it hides tell of."""
    details = {file.name.text: file.details for file in history.files}
    live = [file.details for file in files_at(history, 0, MAX_TIMESTAMP)]
    told = last_entries([one for one in live if one is not None]).keys()
    hidden = [found for target in vacuum.targets if (found := details.get(target)) is not None]
    return last_entries(hidden).keys() <= told


def _without(folder: MergeFolder, uncovered: list[VacuumFile]) -> MergeFolder:
    names = {vacuum.path for vacuum in uncovered}
    return replace(folder, vacuums=tuple(v for v in folder.vacuums if v.path not in names))


def _notes(folder: MergeFolder, replaced: Replaced) -> Iterator[str]:
    if folder.folder == META:
        yield from replaced.notes()
        return
    yield from replaced.kept_notes()
    for vacuum in replaced.done:
        if set(vacuum.targets) & set(folder.names):
            first = vacuum.name.t2
            yield (
                f"opens of the group at a time before {first} ({time_text(first)}) will see "
                "no members: the lists of that time go"
            )
