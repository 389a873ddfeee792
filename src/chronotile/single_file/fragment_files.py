"""The files that tell of fragments: the metadata of one, and the footers of many.

In: the bytes of a file, or its opened tile. Out: a frozen value. Their numbers mean little without
the schema that a footer names: `FragmentMetadataFile.decode` takes it.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from chronotile.errors import ChronotileError
from chronotile.format.consolidated_footers import ListedFooter, decode_consolidated_footers
from chronotile.format.fragment_footer import read_head
from chronotile.format.fragment_metadata import (
    FragmentMetadata,
    Frame,
    decode_metadata,
    frame_metadata,
)

if TYPE_CHECKING:
    from chronotile.format.kinds import Kind
    from chronotile.format.schema import Schema
    from chronotile.format.tiles import Tile


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsolidatedFootersFile:
    """A `.meta`."""

    kind: Kind
    tile: Tile
    footers: tuple[ListedFooter, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class FragmentMetadataFile:
    """A `__fragment_metadata.tdb`."""

    kind: Kind
    frame: Frame
    data: bytes = field(repr=False)
    where: str = field(repr=False, compare=False)

    def decode(self, schema: Schema, key: bytes | None = None) -> FragmentMetadata:
        """Reads all of it.

        Args:
            schema: The schema that `frame.head` names.
            key: The AES-256 key of an encrypted array.

        Raises:
            BadFileError: It is damaged, or not of this schema.
        """
        return decode_metadata(self.data, schema, self.where, key=key)


def frame_metadata_file(data: bytes, where: str) -> FragmentMetadataFile:
    """Takes a `__fragment_metadata.tdb`.

    Raises:
        BadFileError: It has no footer of a known version.
    """
    frame = frame_metadata(data, where)
    return FragmentMetadataFile(kind="fragment-metadata", frame=frame, data=data, where=where)


def decode_footers_file(tile: Tile, where: str) -> ConsolidatedFootersFile:
    """Reads the payload of a `.meta`.

    Raises:
        BadFileError: It is damaged.
    """
    footers = decode_consolidated_footers(tile.payload, where)
    return ConsolidatedFootersFile(kind="fragment-meta", tile=tile, footers=footers)


def is_framed(data: bytes, where: str) -> bool:
    """Whether bytes are tiles with a footer behind them."""
    try:
        return bool(frame_metadata(data, where).tiles)
    except ChronotileError:
        return False


def is_packed(file: ConsolidatedFootersFile) -> bool:
    """Whether footers follow their names at once, as in all that the engine writes."""
    footers = file.footers
    end = 4 + sum(16 + len(item.name.encode()) for item in footers)
    try:
        for item in footers:
            read_head(item.footer, item.name)
    except ChronotileError:
        return False
    return bool(footers) and min(item.offset for item in footers) == end
