"""A `.con` from columns: the fast path of the writer.

In: a commit table and some of its rows. Out: the bytes of a consolidated commits file with these
records, in that order. Opens no tile. Tests compare it with `commit_files.encode_record`.
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from chronotile.format.kinds import DEL, UPD
from chronotile.history import text_columns

if TYPE_CHECKING:
    from collections.abc import Iterator

    from chronotile.history.commit_table import CommitTable
    from chronotile.history.uri_columns import I64

_U64 = struct.Struct("<Q")
_LONG = 16
"""Average rows in a run from which copying runs is worth it."""
_AT_ONCE = 1 << 20
"""Lines that are joined into one text: Arrow keeps a text below 2 GiB."""


def encode_rows(table: CommitTable, rows: I64) -> bytes:
    """The records of some rows as the content of a `.con`."""
    if not len(rows):
        return b""
    firsts, ends = _runs(table, rows)
    if len(firsts) * _LONG < len(rows):
        return b"".join(_copied(table, rows, firsts, ends))
    return _gathered(table, rows)


def _runs(table: CommitTable, rows: I64) -> tuple[I64, I64]:
    """Where runs of rows begin, and where the record of each row ends.

    The records of a run follow one another in one `.con`. A loose record is a run by itself.
    """
    source, start = table.source[rows], table.uris.start[rows]
    ends = start + table.uris.length[rows] + 1
    place = np.searchsorted(table.tile_rows, rows)
    place[place == len(table.tile_rows)] = 0
    if len(table.tile_rows):
        has_tile = table.tile_rows[place] == rows
        ends[has_tile] = (table.tile_offset + table.tile_length)[place[has_tile]]
    loose = np.array([one.loose for one in table.sources], bool)[source]
    follows = (start[1:] == ends[:-1]) & (source[1:] == source[:-1]) & ~loose[1:]
    return np.concatenate(([0], np.flatnonzero(~follows) + 1)), ends


def _copied(table: CommitTable, rows: I64, firsts: I64, ends: I64) -> Iterator[bytes | memoryview]:
    """The bytes of each run, as they stand in their `.con`."""
    for first, after in zip(firsts.tolist(), [*firsts[1:].tolist(), len(rows)], strict=True):
        row = int(rows[first])
        source = table.sources[int(table.source[row])]
        if source.loose or ends[after - 1] > len(source.data):
            yield _gathered(table, rows[first:after])
        else:
            yield source.data[int(table.uris.start[row]) : int(ends[after - 1])]


def _gathered(table: CommitTable, rows: I64) -> bytes:
    """The records, assembled from their lines and tiles."""
    lines = text_columns.uris(table, rows)
    ext = table.uris.ext[rows]
    out: list[bytes] = []
    first = 0
    for at in np.flatnonzero((ext == DEL) | (ext == UPD)).tolist():
        tile = table.tile(int(rows[at]))[0]
        out += (_joined(lines[first : at + 1]), _U64.pack(len(tile)), tile)
        first = at + 1
    out.append(_joined(lines[first:]))
    return b"".join(out)


def _joined(lines: pa.Array) -> bytes:
    """The lines, each with its newline."""
    out = []
    for first in range(0, len(lines), _AT_ONCE):
        some = lines[first : first + _AT_ONCE]
        one = pa.ListArray.from_arrays(pa.array([0, len(some)], pa.int32()), some)
        out.append(pc.binary_join(one, "\n").cast(pa.binary())[0].as_py() + b"\n")
    return b"".join(out)
