"""The tags of an array, and moments that name one.

In: a store, what was read of the array. Out: the tags that an open now sees; a moment in any
spelling, a tag's name included. Reads metadata only if it is asked for a name.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from chronotile.errors import KeyNeededError, ReadError
from chronotile.format.names import MAX_TIMESTAMP
from chronotile.format.tag_entries import Doubt, Tags, tags_among
from chronotile.format.timestamps import to_ms
from chronotile.history.read_history import MetadataFile, merged_items, open_metadata
from chronotile.visibility.rules import visible_metadata

if TYPE_CHECKING:
    from collections.abc import Sequence

    from chronotile.format.names import Name
    from chronotile.format.timestamps import Moment
    from chronotile.history.read_history import History
    from chronotile.storage.store import Store


def tags_of(store: Store, history: History) -> Tags:
    """Read the tags of an array, and those of its groups that it is marked with.

    Metadata that cannot be opened may hold some: the tags have a doubt for each such file.

    Raises:
        ChangedError: Metadata is gone since the array was listed.
        StorageError: The storage failed.
    """
    names = visible_metadata(history, 0, MAX_TIMESTAMP)
    return tags_in(store, names, history.key, is_sealed=history.is_sealed)


def tags_in(store: Store, names: Sequence[Name], key: bytes | None, *, is_sealed: bool) -> Tags:
    """Read the tags in some files of metadata of an array or a group, as `tags_of` does.

    Args:
        store: Where it is.
        names: The files, in the order in which they count.
        key: The key, if there is one.
        is_sealed: Whether it is encrypted, and there is no key.
    """
    files: list[MetadataFile] = []
    doubts: list[Doubt] = []
    for file in open_metadata(store, names, key):
        if isinstance(file, ReadError):
            lacks_key = is_sealed and isinstance(file, KeyNeededError)
            repair = f"chronotile repair {store.uri} moves it out"
            hint = "--key-file FILE gives the key" if lacks_key else repair
            doubts.append(Doubt(file.where, file.problem, hint, lacks_key))
        else:
            files.append(file)
    tags = tags_among(merged_items(files).values(), store.uri)
    return tags._replace(doubts=(*doubts, *tags.doubts))


def moment_in(store: Store, history: History, moment: Moment) -> int:
    """A time in any spelling, or the moment of a tag, in ms.

    Raises:
        BadTimeError: It is neither.
        ReadError: It may be a tag, and metadata cannot be read.
    """

    def look_up(name: str) -> int | None:
        return tags_of(store, history).checked(store.uri).moment(name)

    first = history.table.first_time
    return to_ms(moment, history.array, look_up=look_up, earliest=first)
