"""What is left of a damaged `.con`, read as the engine reads it.

In: bytes that `commit_files.decode_con` refuses. Out: the records that the engine still finds in
them. Decides nothing: the damage is for others to report.

The engine takes a `.con` line by line and complains of nothing. A last line without its end
counts; a line with an extension that it does not know is passed over; behind a delete it skips
as many bytes as the size says, and stops where that is past the end. It does not know that an
update carries a tile too, and takes the tile's bytes for lines; we skip it as the format says.
"""

from __future__ import annotations

import struct
from typing import TypeAlias

from chronotile.format.kinds import TILES, WRITES

_U64 = struct.Struct("<Q")
_KNOWN = tuple(text.encode() for text in (*WRITES, *TILES))
_WITH_TILE = tuple(text.encode() for text in TILES)


Span: TypeAlias = tuple[int, int]
Held: TypeAlias = tuple[int, int, int]


def salvage_con(data: bytes) -> tuple[tuple[Span, ...], tuple[Held, ...]]:
    r"""Finds what is left: (start, length) of each URI, and (record, offset, length) of tiles.

    A tile that is cut short is given as far as it goes.

    >>> salvage_con(b"__commits/a.wrt\nnonsense\n__commits/b.wrt")
    (((0, 15), (25, 15)), ())
    """
    spans: list[Span] = []
    tiles: list[Held] = []
    at = 0
    while at < len(data):
        found = data.find(b"\n", at)
        end = len(data) if found < 0 else found
        line = data[at:end]
        if line.endswith(_KNOWN):
            spans.append((at, end - at))
        at = end + 1
        if line.endswith(_WITH_TILE):
            offset = at + _U64.size
            size = _U64.unpack_from(data, at)[0] if offset <= len(data) else 0
            left = max(len(data) - offset, 0)
            tiles.append((len(spans) - 1, min(offset, len(data)), min(size, left)))
            at = offset + size
    return tuple(spans), tuple(tiles)


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
        if line.endswith(tuple(text.encode() for text in TILES)):
            at += 8 + int.from_bytes(data[at : at + 8], "little")
    return None
