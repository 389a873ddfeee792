"""Large commit files, read piece by piece at the borders of records.

In: a store, and a `.con`, `.ign` or `.vac` of it. Out: pieces of whole records with their columns;
where blocks of records stand and which times they have; the records of some times. Memory does not
grow with the file. Knows nothing of windows.

A `.con` has no marks at its borders, and the tile of a delete may hold any bytes: only a reading
from the start tells for certain where a record begins. That reading is fast, and takes place once;
the blocks that it finds let others begin in the middle.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from chronotile.history.lines_to_columns import Tiles, scan_lines, scan_start

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from chronotile.history.commit_table import Mask
    from chronotile.history.uri_columns import I64, U64, Uris
    from chronotile.storage.store import Store

PIECE = 4 << 20
"""Bytes that are read at once, unless one record is larger."""

_NO_TILES = Tiles(*(np.empty(0, np.int64) for _ in Tiles._fields))


class OddRecordError(Exception):
    """A record that pieces cannot deal with: the file must be read as a whole."""


class Block(NamedTuple):
    """Records that follow one another in a file."""

    start: int
    end: int
    """Where they stand in the file."""
    rows: int
    first: int
    last: int
    """The smallest and the largest t1."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Piece:
    """Whole records, with their columns."""

    start: int
    """Where they begin in the file."""
    data: bytes
    uris: Uris
    tiles: Tiles
    is_con: bool = True
    """Whether they are of a `.con`, and not lines of an `.ign` or `.vac`."""

    @property
    def block(self) -> Block:
        """What an index keeps of it."""
        t1 = self.uris.t1
        end = self.start + len(self.data)
        return Block(self.start, end, len(t1), int(t1.min()), int(t1.max()))

    def ends(self) -> I64:
        """Where the record of each row ends, in the piece."""
        ends: I64 = self.uris.start + self.uris.length + 1
        ends[self.tiles.row] = self.tiles.offset + self.tiles.length
        return ends


class Kept(NamedTuple):
    """Records of a file that a reader keeps, one after the other."""

    data: bytes
    tile_place: I64
    """Where each tile stands in `data`."""
    tile_offset: I64
    """Where it stands in the file."""


def read_pieces(store: Store, path: str, start: int, end: int) -> Iterator[Piece]:
    """Reads the records between two borders of a file.

    Raises:
        OddRecordError: A record is damaged or unusual, or the last one is cut.
        MissingObjectError: The file is gone.
    """
    is_con = path.endswith(".con")
    rest, step = b"", PIECE
    at = start
    while at < end:
        more = store.read_range(path, at + len(rest), min(at + len(rest) + step, end), size=end)
        data = rest + more
        found = scan_start(data) if is_con else _lines(data)
        if found is None or not more:
            raise OddRecordError(path)
        uris, tiles, length = found
        rest = data[length:]
        if not length:
            step *= 2  # one record is larger than a piece
            continue
        step = PIECE
        yield Piece(start=at, data=data[:length], uris=uris, tiles=tiles, is_con=is_con)
        at += length


def _lines(data: bytes) -> tuple[Uris, Tiles, int] | None:
    """The lines of an `.ign` or `.vac`; one without a name has the time 0."""
    length = data.rfind(b"\n") + 1
    uris = scan_lines(data[:length], 0, length)
    return None if uris is None else (uris, _NO_TILES, length)


def keep(pieces: Iterable[Piece], is_kept: Callable[[Piece], Mask]) -> Kept:
    """The records of some pieces that a test keeps, as the content of a smaller file."""
    parts: list[bytes] = []
    places: list[I64] = []
    offsets: list[I64] = []
    base = 0
    for piece in pieces:
        mask = is_kept(piece)
        starts, tiles = piece.uris.start, piece.tiles
        lengths = piece.ends() - starts
        data = piece.data
        if not mask.all():
            # Records lie side by side: a mask of bytes cuts out those that go.
            data = np.frombuffer(data, np.uint8)[np.repeat(mask, lengths)].tobytes()
        moved = np.cumsum(np.where(mask, lengths, 0)) - lengths
        kept = mask[tiles.row]
        inside = tiles.offset[kept]
        row = tiles.row[kept]
        places.append(base + moved[row] + inside - starts[row])
        offsets.append(piece.start + inside)
        parts.append(data)
        base += len(data)
    nothing = np.empty(0, np.int64)
    return Kept(
        b"".join(parts), np.concatenate([nothing, *places]), np.concatenate([nothing, *offsets])
    )


def are_between(t1: U64, low: int, high: int) -> Mask:
    """Mask of the times from `low` to `high`, both included."""
    return (t1 >= np.uint64(low)) & (t1 <= np.uint64(high))


def runs_of(blocks: Iterable[Block], low: int, high: int) -> list[tuple[int, int]]:
    """Where the blocks stand that may hold records of some times; neighbours are joined.

    >>> blocks = [Block(0, 9, 1, 5, 5), Block(9, 18, 1, 6, 6), Block(18, 27, 1, 9, 9)]
    >>> runs_of(blocks, 5, 6), runs_of(blocks, 7, 8)
    ([(0, 18)], [])
    """
    runs: list[tuple[int, int]] = []
    for block in blocks:
        if block.first > high or block.last < low:
            continue
        if runs and runs[-1][1] == block.start:
            runs[-1] = runs[-1][0], block.end
        else:
            runs.append((block.start, block.end))
    return runs
