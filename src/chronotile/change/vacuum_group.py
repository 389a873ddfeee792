"""Removal of a group's own files that merged ones replace: lists of members, and metadata.

In: a group. Out: the plan of fewer files. Touches no member.

A list goes if a `.vac` names it, the merged list that the `.vac` belongs to, or one that this was
merged into in turn, is there and can be read, and the lists that an open reads tell of every member
that it tells of. What the plan relies on is read again just before the removal.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from chronotile.change.consolidate_group import sound_group
from chronotile.change.group_tags import tags_of_group
from chronotile.change.kept_windows import Keep, doubtful, windows_of
from chronotile.change.merged_files import MergeFolder, group_lists, group_metadata
from chronotile.change.plan import Plan
from chronotile.change.vacuum_metadata import Replaced, replaced_stages
from chronotile.check.tags import doubtful_tags
from chronotile.format.kinds import META
from chronotile.format.names import MAX_TIMESTAMP
from chronotile.format.timestamps import time_text, to_ms
from chronotile.visibility.group_members import files_at, last_entries

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from chronotile.change.plan import Step
    from chronotile.format.tag_entries import Tags
    from chronotile.format.timestamps import Moment
    from chronotile.history.group_reading import GroupHistory
    from chronotile.history.read_history import VacuumFile
    from chronotile.storage.store import Store
    from chronotile.visibility.lifelines import Kept


def plan_vacuum_group(
    store: Store,
    key: bytes | None,
    *,
    keep: Iterable[Moment] = (),
    keep_days: float | None = None,
    group_tags: Mapping[str, int] | None = None,
) -> Plan:
    """Plan the removal of the lists of members, and the metadata, that merged files replace.

    An open now sees the same before and after. An open at a time before the merged list sees no
    members any more; the plan says so first.

    Args:
        store: The group.
        key: Its key.
        keep: Moments: opens of the group then stay as they are, as those at its tags always do.
        keep_days: And opens at a time within these last days.
        group_tags: And at the tags of a group around it.

    Raises:
        RefusedError: A list of members is damaged.
    """
    history = sound_group(store, key)
    tags = tags_of_group(store, history)
    kept = _kept_windows(store, tags, Keep(tuple(keep), keep_days, group_tags or {}))
    uncovered = [vacuum for vacuum in history.vacuums if not _is_covered(history, vacuum)]
    steps: list[Step] = []
    losses: list[str] = []
    notes = [*doubtful(tags)]
    notes += [
        f"what {vacuum.path} lists is kept: the merged list does not name all of it"
        for vacuum in uncovered
    ]
    relied_on: dict[str, bytes] = {}
    for folder in (
        _without(group_lists(store, history), uncovered),
        group_metadata(store, history),
    ):
        replaced = Replaced(store, folder, kept)
        steps += replaced.steps()
        losses += _losses(folder, replaced)
        notes += replaced.kept_notes()
        relied_on |= {**replaced.readable, **replaced.vacuums}
    return Plan(
        command="vacuum",
        array=store.uri,
        stages=tuple(replaced_stages(steps, relied_on)),
        losses=tuple(losses),
        notes=tuple(notes),
        findings=tuple(doubtful_tags(store.uri, tags)),
    )


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


def _losses(folder: MergeFolder, replaced: Replaced) -> Iterator[str]:
    if folder.folder == META:
        yield from replaced.losses()
        return
    for vacuum in replaced.done:
        if set(vacuum.targets) & set(folder.names):
            first = vacuum.name.t2
            yield (
                f"opens of the group at a time before {first} ({time_text(first)}) will see "
                "no members: the lists of that time go"
            )
