"""Windows that a vacuum leaves as they are: those of tags, and those that the caller names.

In: tags, moments, a number of days. Out: the windows, and what they keep from being removed, in
words. Removes nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from chronotile.check.findings import count_text
from chronotile.check.tags import moment_in
from chronotile.format.timestamps import now_ms, time_text
from chronotile.visibility.lifelines import Kept, kept_for, kept_since

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from chronotile.check.vacuumable_fragments import Vacuumable
    from chronotile.format.tag_entries import Tags
    from chronotile.format.timestamps import Moment
    from chronotile.history.read_history import History
    from chronotile.storage.store import Store

_DAY_MS = 86_400_000


def kept_windows(
    store: Store,
    history: History,
    tags: Tags,
    keep: Iterable[Moment],
    days: float | None = None,
    group_tags: Mapping[str, int] = {},
) -> tuple[Kept, ...]:
    """List the windows of an array to keep: of all tags, of moments, of the last days.

    `group_tags` are those of the group through which the array is changed.
    """
    moments = [moment_in(store, history, moment) for moment in keep]
    return windows_of(tags, moments, days, group_tags)


def windows_of(
    tags: Tags, moments: Iterable[int], days: float | None, group_tags: Mapping[str, int]
) -> tuple[Kept, ...]:
    """List the windows of tags, of some moments, of the last days."""
    found = list(kept_for(tags.with_group(group_tags)))
    for at in moments:
        if all((one.first, one.last) != (at, at) for one in found):
            found.append(Kept(f"{at} ({time_text(at)})", at, at))
    if days is not None:
        since = max(now_ms() - int(days * _DAY_MS), 0)
        found.append(kept_since(since, f"the last {days:g} days"))
    return tuple(found)


def doubtful(tags: Tags) -> Iterator[str]:
    """Note the metadata that may hold a tag and cannot be read: a vacuum then keeps more."""
    for doubt in tags.doubts:
        yield f"{doubt}; nothing that a tag could need goes; {doubt.hint}"


def held_by_windows(store: Store, vacuumable: Vacuumable) -> Iterator[str]:
    """Note how many fragments each window keeps."""
    sizes = {
        folder: sum(entry.size or 0 for entry in store.list_prefix(folder))
        for folder in vacuumable.held_folders
    }
    labels = dict.fromkeys(label for found in vacuumable.held_folders.values() for label in found)
    for label in labels:
        own = [size for folder, size in sizes.items() if label in vacuumable.held_folders[folder]]
        yield f"kept for {label}: {count_text(len(own), 'fragment')} of {sum(own):,} bytes"
