"""The tags of an array, and moments that name one.

In: a store, what was read of the array. Out: the tags that an open now sees; a moment in any
spelling, a tag's name included. Reads metadata only if it is asked for a name.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from chronotile.errors import BadFileError, KeyNeededError
from chronotile.format.names import MAX_TIMESTAMP
from chronotile.format.tag_entries import Tags, tags_among
from chronotile.format.timestamps import to_ms
from chronotile.history.array_metadata_files import merged_items, read_metadata
from chronotile.visibility.rules import visible_metadata

if TYPE_CHECKING:
    from chronotile.format.timestamps import Moment
    from chronotile.history.read_history import History
    from chronotile.storage.store import Store


def tags_of(store: Store, history: History) -> Tags:
    """The tags of an array, and those of its groups that it is marked with.

    Metadata that cannot be opened holds none.

    Raises:
        ChangedError: Metadata is gone since the array was listed.
        StorageError: The storage failed.
    """
    names = visible_metadata(history, 0, MAX_TIMESTAMP)
    if not names:
        return Tags({})
    try:
        return tags_among(merged_items(read_metadata(store, names, history.key)).values())
    except (BadFileError, KeyNeededError):
        return Tags({})


def moment_in(store: Store, history: History, moment: Moment) -> int:
    """A time in any spelling, or the moment of a tag, in ms.

    Raises:
        BadTimeError: It is neither.
    """
    return to_ms(
        moment,
        history.array,
        look_up=lambda name: tags_of(store, history).moment(name),
        earliest=history.table.first_time,
    )
