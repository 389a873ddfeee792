"""Which commit stands in which file, from columns.

In: a commit table. Out: the `.con` and `.ign` files that nobody needs, the `.con` that holds a
loose commit too, the records of one `.con`. Removes nothing, and knows nothing of windows.

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

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

import numpy as np
import pyarrow.compute as pc

from chronotile.format.commit_files import rank
from chronotile.format.kinds import OK
from chronotile.format.names import MAX_TIMESTAMP
from chronotile.history import text_columns

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping

    from chronotile.history.commit_table import CommitTable, Mask
    from chronotile.history.uri_columns import I64

    Records: TypeAlias = Mapping[str, bytes | None]


class _Con(NamedTuple):
    """What decides whether a `.con` can take the place of another."""

    path: str
    effective: int
    """How many effective commits it holds."""
    weight: int
    """How many commits it holds that no `.ign` names."""
    tiles: int
    """How many deletes and updates it holds."""
    has_ignored: bool
    has_repeated: bool

    def place(self) -> tuple[int, bool, int, bool, str]:
        """Its place in the order in which `.con` files are kept."""
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
        found = []
        for path in self._numbers:
            rows = self._rows(path)
            ignored = self.ignored[rows]
            # A single file is compared with none: its rows need no common numbers.
            ids = self._ids[rows] if len(self._numbers) > 1 else rows
            found.append(
                _Con(
                    path=path,
                    effective=int(np.count_nonzero(self._effective[rows])),
                    weight=len(np.unique(ids[~ignored])),
                    tiles=int(np.count_nonzero(self.table.uris.ext[rows] > OK)),
                    has_ignored=bool(ignored.any()),
                    has_repeated=len(np.unique(ids)) < len(rows),
                )
            )
        return sorted(found, key=_Con.place)

    def _holds(self, one: str, other: str) -> bool:
        """Whether a `.con` holds every effective commit of another."""
        mine, wanted = self._own[one], self._own[other]
        if not len(wanted) or not len(mine) or not mine[0] <= wanted[0] <= wanted[-1] <= mine[-1]:
            return not len(wanted)
        return bool((mine[mine.searchsorted(wanted)] == wanted).all())

    def superseded(self, times: Mapping[str, int] | None = None) -> dict[str, str | None]:
        """The `.con` files that can go, each with one that stays and holds its effective commits.

        One without an effective commit needs no other: None stands for it.

        Args:
            times: When `.con` and `.ign` files were written; without it, files that differ only in
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
        """Whether nobody removes a `.con` for another that comes later in the order."""
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
        """The `.ign` files among some paths that name no write of a `.con` outside `gone`."""
        needed = {ignore for con, ignore in self.ignored_in() if con not in gone}
        return [path for path in paths if path not in needed]

    def ignored_in(self) -> frozenset[tuple[str, str]]:
        """Each `.con` with the `.ign` files that name a write of it."""
        table = self.table
        in_con = np.array([not source.loose for source in table.sources], bool)
        named = table.ignored & in_con[table.source] & (table.uris.ext <= OK)
        rows = np.flatnonzero(named).tolist()
        return frozenset((table.path(row), table.ignores[table.uri(row)]) for row in rows)

    def count_held(self, rows: I64) -> int:
        """How many of some rows a `.con` holds too."""
        if not len(rows) or not self._numbers:
            return 0
        in_con = np.zeros(len(self.table), bool)
        for path in self._numbers:
            in_con[self._ids[self._rows(path)]] = True
        return int(np.count_nonzero(in_con[self._ids[rows]]))

    def holders(self, rows: I64) -> Iterator[tuple[int, str]]:
        """The effective rows among some that a `.con` holds too, with the one that is kept."""
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
        """The URIs of the commits of one `.con`; None if the table does not know the file."""
        if path not in self._numbers:
            return None
        return frozenset(text_columns.uris(self.table, self._rows(path)).to_pylist())

    def records(self, path: str) -> Records:
        """The commits of one `.con` by their URIs, each with its tile if it has one."""
        table, rows = self.table, self._rows(path)
        has_tile = np.isin(rows, table.tile_rows)
        return {
            table.uri(row): table.tile(row)[0] if tiled else None
            for row, tiled in zip(rows.tolist(), has_tile.tolist(), strict=True)
        }


def coverage(table: CommitTable, ignoring: Collection[str] = ()) -> Coverage:
    """The coverage of a table, as if an `.ign` named these URIs too."""
    if not ignoring:
        return Coverage(table, table.ignored)
    ignored = table.ignored.copy()
    ignored[table.find(ignoring)] = True
    return Coverage(table, ignored)


def differing_tiles(table: CommitTable) -> Iterator[tuple[str, str]]:
    """Each `.con` that holds two different tiles of one commit, and the URI of the commit."""
    known: dict[tuple[str, str], bytes] = {}
    for row in table.tile_rows.tolist():
        if not table.is_loose(row):
            path, uri, tile = table.path(row), table.uri(row), table.tile(row)[0]
            if known.setdefault((path, uri), tile) != tile:
                yield path, uri


def commit_ids(table: CommitTable) -> I64:
    """A number for each row; rows of one URI and one tile (or none) have the same number."""
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
    tiles = table.tile_rows[in_runs[table.tile_rows]]
    unsure[ids[tiles]] = True
    holds_tile = frozenset(tiles.tolist())
    known: dict[tuple[str, bytes | None], int] = {}
    for row in np.flatnonzero(unsure[ids]).tolist():
        text = table.uri(row), table.tile(row)[0] if row in holds_tile else None
        ids[row] = known.setdefault(text, row)
    return ids
