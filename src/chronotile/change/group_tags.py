"""The tags of a group, in its own metadata.

In: a store, what was read of the group. Out: its tags, and those of groups around it that it is
marked with. Reads the files of metadata, and no member.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from chronotile.change.merged_files import group_metadata
from chronotile.check.tags import tags_in
from chronotile.format.names import Name, time_order, try_parse

if TYPE_CHECKING:
    from chronotile.format.tag_entries import Tags
    from chronotile.history.group_reading import GroupHistory
    from chronotile.storage.store import Store


def metadata_of_group(store: Store, history: GroupHistory) -> list[Name]:
    """The files of metadata that an open of a group reads, in the order in which they count."""
    hidden = {one for vacuum in group_metadata(store, history).vacuums for one in vacuum.targets}
    named = (name for text in history.meta if (name := try_parse(text)) is not None)
    return sorted((name for name in named if name.text not in hidden), key=time_order)


def tags_of_group(store: Store, history: GroupHistory) -> Tags:
    """Read the tags of a group; metadata that cannot be opened gives doubts, as in `tags_of`.

    Raises:
        ChangedError: Metadata is gone since the group was listed.
        StorageError: The storage failed.
    """
    names = metadata_of_group(store, history) if history.meta else []
    return tags_in(store, names, history.key, is_sealed=history.is_sealed)
