"""The files of an array's metadata, opened: keys and values as of a window.

In: a store, names of files of `__meta`. Out: their entries, file by file, and merged into what an
open sees. Knows nothing of windows, and of what the values mean.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from chronotile.errors import ChangedError, ChronotileError, ReadError, StorageError
from chronotile.format import tiles
from chronotile.format.array_metadata import MetadataItem, decode_items
from chronotile.format.kinds import META
from chronotile.storage.store import MissingObjectError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from chronotile.format.names import Name
    from chronotile.storage.store import Store


class MetadataFile:
    """A file of `__meta`, decoded."""

    def __init__(self, name: Name, tile: tiles.Tile, where: str) -> None:
        self.name, self.is_encrypted, self.payload = name, tile.encrypted, tile.payload
        # Of one key, the last entry counts.
        self.items = {item.key: item for item in decode_items(tile.payload, where)}


def open_metadata(
    store: Store, names: Sequence[Name], key: bytes | None
) -> Iterator[MetadataFile | ReadError]:
    """Open files of `__meta`, in the order of the names; give why one cannot be opened.

    Raises:
        ChangedError: A file is gone since the array was listed.
        StorageError: The storage failed.
    """
    paths = [f"{META}/{name.text}" for name in names]
    for name, (path, data) in zip(names, store.read_many(paths), strict=True):
        if isinstance(data, MissingObjectError):
            problem = "expected the metadata as it was listed, found it changed; try again"
            raise ChangedError(store.uri_of(path), problem)
        if isinstance(data, StorageError):
            raise data
        yield _opened(name, path, data, key)


def _opened(
    name: Name, path: str, data: bytes | ChronotileError, key: bytes | None
) -> MetadataFile | ReadError:
    try:
        if isinstance(data, ChronotileError):
            raise data
        return MetadataFile(name, tiles.decode(data, path, key=key), path)
    except ReadError as error:
        return error


def read_metadata(store: Store, names: Sequence[Name], key: bytes | None) -> Iterator[MetadataFile]:
    """Open files of `__meta`, in the order of the names.

    Raises:
        ChangedError: A file is gone since the array was listed.
        BadFileError: A file is damaged.
        KeyNeededError, WrongKeyError: The array is encrypted, and the key is missing or another.
    """
    for file in open_metadata(store, names, key):
        if isinstance(file, ReadError):
            raise file
        yield file


def merged_items(files: Iterable[MetadataFile]) -> dict[bytes, MetadataItem]:
    """What files say together, in their order: the later wins, and a removal drops the key."""
    merged: dict[bytes, MetadataItem] = {}
    for file in files:
        merged |= file.items
    return {key: item for key, item in merged.items() if not item.is_removal}
