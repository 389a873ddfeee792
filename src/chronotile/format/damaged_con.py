"""What is left of a damaged `.con`, read as the engine reads it.

In: bytes that `commit_files.decode_con` refuses. Out: the records that the engine still finds in
them. Reports no damage.

The engine reads a `.con` line by line and reports no error. It counts a last line without a
newline, and passes over a line with an extension that it does not know. After a delete it skips
as many bytes as the size says, and stops if that is past the end. It does not know that an
update carries a tile too, and reads the tile's bytes as lines; we skip it as the format says.
"""

from __future__ import annotations

import struct
from typing import TypeAlias

from chronotile.format.kinds import TILES, WRITES

_U64 = struct.Struct("<Q")
_KNOWN = tuple(text.encode() for text in (*WRITES, *TILES))
_WITH_TILE = tuple(text.encode() for text in TILES)

UriSpan: TypeAlias = tuple[int, int]
TileSpan: TypeAlias = tuple[int, int, int]


def salvage_con(data: bytes) -> tuple[tuple[UriSpan, ...], tuple[TileSpan, ...]]:
    r"""Find what is left: (start, length) of each URI, and (record, offset, length) of tiles.

    The span of a tile that is cut short ends with the data.

    >>> salvage_con(b"__commits/a.wrt\nnonsense\n__commits/b.wrt")
    (((0, 15), (25, 15)), ())
    """
    uris: list[UriSpan] = []
    tiles: list[TileSpan] = []
    start = 0
    while start < len(data):
        newline = data.find(b"\n", start)
        end = len(data) if newline < 0 else newline
        line = data[start:end]
        if line.endswith(_KNOWN):
            uris.append((start, end - start))
        start = end + 1
        if line.endswith(_WITH_TILE):
            offset = start + _U64.size
            size = _U64.unpack_from(data, start)[0] if offset <= len(data) else 0
            left = max(len(data) - offset, 0)
            tiles.append((len(uris) - 1, min(offset, len(data)), min(size, left)))
            start = offset + size
    return tuple(uris), tuple(tiles)


def cut_line(data: bytes) -> str | None:
    r"""The last line of a `.con` if it was cut before its end; None if it was cut elsewhere.

    >>> cut_line(b"__commits/a.wrt\n__commits/b")
    '__commits/b'
    """
    at = 0
    while at < len(data):
        end = data.find(b"\n", at)
        if end < 0:
            text = data[at:].decode("utf-8", "replace")
            return None if text.endswith((*WRITES, *TILES)) else text
        line = data[at:end]
        at = end + 1
        if line.endswith(_WITH_TILE):
            at += 8 + int.from_bytes(data[at : at + 8], "little")
    return None
