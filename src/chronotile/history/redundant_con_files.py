"""Consolidated commits files: which of them can go, and the bytes of a new one.

In: a commit table. Out: the `.con` and `.ign` files that nobody needs, the `.con` that holds a
loose commit too, the records of one `.con`; and the content of a `.con` of some rows. Writes and
removes nothing, opens no tile, and knows nothing of windows.

Several maintainers may remove `.con` files at once, the engine among them, and each may be slow: it
removes today what it planned yesterday. No two of them may remove each other's copy, so all go by
one order. The engine keeps the first `.con`, by the text of its path, with all commits that no
`.ign` names, each once, and with no other; it removes the rest. If one holds a delete, it removes
none (F5): then we alone do, and go by which was made later (see `commit_files`).

So one `.con` takes the place of another if it holds every effective commit of that one, and

  - holds more that no `.ign` names: nobody removes the larger one for the smaller one. If it holds
    more deletes or updates, it must be the later one: a later one that lacks them was made in order
    to take them out of the array; or
  - holds no more, and comes first: of files with deletes or updates the later one, of others one
    without a repetition, then by the text of the path. If either holds a commit that an `.ign`
    names, a plan from before the `.ign` may keep the other one. Then the `.con` that stays must be
    newer than the `.ign`: such a plan does not know it.

The first of this order that holds a commit is removed by nobody. A `.con` whose commits stand only
in several others stays: a consolidation makes one that holds them all.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

import numpy as np
import pyarrow as pa

from chronotile.format import arrow_compute as pc
from chronotile.format.commit_files import rank
from chronotile.format.kinds import DEL, OK, UPD
from chronotile.format.names import MAX_TIMESTAMP
from chronotile.history import text_columns

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping

    from chronotile.history.commit_table import CommitTable
    from chronotile.history.uri_columns import I64, Mask

    Records: TypeAlias = Mapping[str, bytes | None]

_U64 = struct.Struct("<Q")
_LONG = 16
"""Average rows in a run from which copying runs is worth it."""
_AT_ONCE = 1 << 20
"""Lines that are joined into one text: Arrow keeps a text below 2 GiB."""


class _Con(NamedTuple):
    """The facts that decide if a `.con` can take the place of another."""

    path: str
    effective: int
    """The number of effective commits in it."""
    weight: int
    """The number of commits in it that no `.ign` names."""
    tiles: int
    """The number of deletes and updates in it."""
    has_ignored: bool
    has_repeated: bool

    def place(self) -> tuple[int, bool, int, bool, str]:
        """Give its place in the order in which `.con` files are kept."""
        made = -rank(self.path)[0] if self.tiles else 0
        return -self.weight, self.has_ignored, made, self.has_repeated, self.path


@dataclass(frozen=True, eq=False)
class Coverage:
    """The files of one table, and the commits that each of them holds."""

    table: CommitTable
    ignored: Mask
    """Mask of the rows that an `.ign` names, or that a new one is about to name."""

    @cached_property
    def _ids(self) -> I64:
        return commit_ids(self.table)

    @cached_property
    def _effective(self) -> Mask:
        """Mask of the rows that are effective in their file: all but ignored writes."""
        return ~(self.ignored & (self.table.uris.ext <= OK))

    @cached_property
    def _numbers(self) -> dict[str, int]:
        """The `.con` files, each with the number of its source."""
        sources = enumerate(self.table.sources)
        return {source.path: number for number, source in sources if not source.loose}

    @cached_property
    def _own(self) -> dict[str, I64]:
        """The sorted numbers of the effective commits of each `.con`."""
        return {
            path: np.unique(self._ids[rows[self._effective[rows]]])
            for path in self._numbers
            for rows in (self._rows(path),)
        }

    def _rows(self, path: str) -> I64:
        return np.flatnonzero(self.table.source == self._numbers[path])

    @cached_property
    def _cons(self) -> list[_Con]:
        """The `.con` files, in the order in which they are kept."""
        cons = []
        for path in self._numbers:
            rows = self._rows(path)
            ignored = self.ignored[rows]
            # A single file is compared with none: its rows need no common numbers.
            ids = self._ids[rows] if len(self._numbers) > 1 else rows
            cons.append(
                _Con(
                    path=path,
                    effective=int(np.count_nonzero(self._effective[rows])),
                    weight=len(np.unique(ids[~ignored])),
                    tiles=int(np.count_nonzero(self.table.uris.ext[rows] > OK)),
                    has_ignored=bool(ignored.any()),
                    has_repeated=len(np.unique(ids)) < len(rows),
                )
            )
        return sorted(cons, key=_Con.place)

    def _holds(self, one: str, other: str) -> bool:
        """Return True if a `.con` holds every effective commit of another."""
        mine, wanted = self._own[one], self._own[other]
        if not len(wanted) or not len(mine) or not mine[0] <= wanted[0] <= wanted[-1] <= mine[-1]:
            return not len(wanted)
        return bool((mine[mine.searchsorted(wanted)] == wanted).all())

    def superseded(self, times: Mapping[str, int] | None = None) -> dict[str, str | None]:
        """Find the `.con` files that can go, each with one that stays and holds its commits.

        One without an effective commit needs no other: None stands for it.

        Without the times at which `.con` and `.ign` files were written, files that differ only in
        ignored commits stay.
        """
        gone: dict[str, str | None] = {}
        staying: list[_Con] = []
        for con in self._cons:
            if not con.effective:
                gone[con.path] = None
                continue
            for one in staying:
                if self._holds(one.path, con.path) and self._is_kept_for(one, con, times or {}):
                    gone[con.path] = one.path
                    break
            else:
                staying.append(con)
        return gone

    def _is_kept_for(self, one: _Con, other: _Con, times: Mapping[str, int]) -> bool:
        """Return True if nobody removes a `.con` for another that comes later in the order."""
        if one.weight > other.weight:
            return one.tiles == other.tiles or rank(one.path) > rank(other.path)
        if not (one.has_ignored or other.has_ignored):
            return True
        rows = self._rows(other.path)
        uris = text_columns.uris(self.table, rows[self.ignored[rows]]).to_pylist()
        ignores = {self.table.ignores.get(uri, "") for uri in uris}
        latest = max((times.get(path, MAX_TIMESTAMP) for path in ignores), default=MAX_TIMESTAMP)
        return not one.has_ignored and times.get(one.path, 0) > latest

    def free_ignores(self, paths: Iterable[str], gone: Collection[str]) -> list[str]:
        """Find the `.ign` files among some paths that name no write of a `.con` outside `gone`."""
        table = self.table
        in_con = np.array([not source.loose for source in table.sources], bool)
        named = table.ignored & in_con[table.source] & (table.uris.ext <= OK)
        rows = [row for row in np.flatnonzero(named).tolist() if table.path(row) not in gone]
        needed = {table.ignores[table.uri(row)] for row in rows}
        return [path for path in paths if path not in needed]

    def count_held(self, rows: I64) -> int:
        """Count the rows among some that a `.con` holds too."""
        if not len(rows) or not self._numbers:
            return 0
        in_con = np.zeros(len(self.table), bool)
        for path in self._numbers:
            in_con[self._ids[self._rows(path)]] = True
        return int(np.count_nonzero(in_con[self._ids[rows]]))

    def holders(self, rows: I64) -> Iterator[tuple[int, str]]:
        """Find the effective rows among some that a `.con` holds too, with the one that is kept."""
        kept: dict[int, str] = {}
        wanted = np.zeros(len(self.table), bool)
        wanted[self._ids[rows]] = True
        for con in reversed(self._cons):
            own = self._ids[self._rows(con.path)]
            kept |= dict.fromkeys(own[wanted[own]].tolist(), con.path)
        for row in rows[self._effective[rows]].tolist():
            if (holder := kept.get(int(self._ids[row]))) is not None:
                yield row, holder

    def uris(self, path: str) -> frozenset[str] | None:
        """List the URIs of the commits of one `.con`; None if the table does not know the file."""
        if path not in self._numbers:
            return None
        return frozenset(text_columns.uris(self.table, self._rows(path)).to_pylist())

    def records(self, path: str) -> Records:
        """Give the commits of one `.con` by their URIs, each with its tile if it has one."""
        table, rows = self.table, self._rows(path)
        has_tile = np.isin(rows, table.condition_rows)
        return {
            table.uri(row): table.tile(row)[0] if tiled else None
            for row, tiled in zip(rows.tolist(), has_tile.tolist(), strict=True)
        }


def coverage(table: CommitTable, ignoring: Collection[str] = ()) -> Coverage:
    """Give the coverage of a table, as if an `.ign` named these URIs too."""
    if not ignoring:
        return Coverage(table, table.ignored)
    ignored = table.ignored.copy()
    ignored[table.find(ignoring)] = True
    return Coverage(table, ignored)


def differing_tiles(table: CommitTable) -> Iterator[tuple[str, str]]:
    """Find each `.con` that holds two different tiles of one commit, and the commit's URI."""
    known: dict[tuple[str, str], bytes] = {}
    for row in table.condition_rows.tolist():
        if not table.is_loose(row):
            path, uri, tile = table.path(row), table.uri(row), table.tile(row)[0]
            if known.setdefault((path, uri), tile) != tile:
                yield path, uri


def commit_ids(table: CommitTable) -> I64:
    """Give each row a number; rows of one URI and one tile (or none) have the same one."""
    uris = table.uris
    if not len(table):
        return np.empty(0, np.int64)
    alike = np.ones(len(table) - 1, bool)
    for column in (uris.t1, uris.t2, uris.uuid_start):
        alike &= column[1:] == column[:-1]
    pairs = np.flatnonzero(alike)
    same = np.asarray(
        pc.equal(text_columns.uris(table, pairs), text_columns.uris(table, pairs + 1)), bool
    )
    ids = np.arange(len(table))
    ids[1:][alike] = 0
    ids = np.maximum.accumulate(ids)
    # Neighbours are not enough for runs of several commits, and for tiles: compare the texts.
    unsure = np.zeros(len(table), bool)
    unsure[ids[pairs[~same]]] = True
    in_runs = np.zeros(len(table), bool)
    in_runs[pairs] = in_runs[pairs + 1] = True
    tiles = table.condition_rows[in_runs[table.condition_rows]]
    unsure[ids[tiles]] = True
    holds_tile = frozenset(tiles.tolist())
    known: dict[tuple[str, bytes | None], int] = {}
    for row in np.flatnonzero(unsure[ids]).tolist():
        text = table.uri(row), table.tile(row)[0] if row in holds_tile else None
        ids[row] = known.setdefault(text, row)
    return ids


def encode_rows(table: CommitTable, rows: I64) -> bytes:
    """Encode the records of some rows as the content of a `.con`."""
    if not len(rows):
        return b""
    firsts, ends = _runs(table, rows)
    if len(firsts) * _LONG < len(rows):
        return b"".join(_copied(table, rows, firsts, ends))
    return _gathered(table, rows)


def _runs(table: CommitTable, rows: I64) -> tuple[I64, I64]:
    """Find where runs of rows begin, and where the record of each row ends.

    The records of a run follow one another in one `.con`. A loose record is a run by itself.
    """
    source, start = table.source[rows], table.uris.start[rows]
    ends = start + table.uris.length[rows] + 1
    place = np.searchsorted(table.condition_rows, rows)
    place[place == len(table.condition_rows)] = 0
    if len(table.condition_rows):
        has_tile = table.condition_rows[place] == rows
        ends[has_tile] = (table.tile_offset + table.tile_length)[place[has_tile]]
    loose = np.array([one.loose for one in table.sources], bool)[source]
    follows = (start[1:] == ends[:-1]) & (source[1:] == source[:-1]) & ~loose[1:]
    return np.concatenate(([0], np.flatnonzero(~follows) + 1)), ends


def _copied(table: CommitTable, rows: I64, firsts: I64, ends: I64) -> Iterator[bytes | memoryview]:
    """Copy the bytes of each run, as they stand in their `.con`."""
    for first, after in zip(firsts.tolist(), [*firsts[1:].tolist(), len(rows)], strict=True):
        row = int(rows[first])
        source = table.sources[int(table.source[row])]
        if source.loose or ends[after - 1] > len(source.data):
            yield _gathered(table, rows[first:after])
        else:
            yield source.data[int(table.uris.start[row]) : int(ends[after - 1])]


def _gathered(table: CommitTable, rows: I64) -> bytes:
    """Assemble the records from their lines and tiles."""
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
    """Join the lines, each with its newline."""
    out = []
    for first in range(0, len(lines), _AT_ONCE):
        some = lines[first : first + _AT_ONCE]
        one = pa.ListArray.from_arrays(pa.array([0, len(some)], pa.int32()), some)
        out.append(pc.binary_join(one, "\n").cast(pa.binary())[0].as_py() + b"\n")
    return b"".join(out)
