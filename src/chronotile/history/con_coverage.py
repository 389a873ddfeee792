"""Which commit stands in which file, from columns.

In: a commit table. Out: the `.con` and `.ign` files that nobody needs, the `.con` that holds a
loose commit too, the records of one `.con`. Removes nothing, and knows nothing of windows.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, TypeAlias

import numpy as np
import pyarrow.compute as pc

from chronotile.format.con_names import rank
from chronotile.format.kinds import OK
from chronotile.history import text_columns

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping

    from chronotile.history.commit_table import CommitTable, Mask
    from chronotile.history.uri_columns import I64

    Records: TypeAlias = Mapping[str, bytes | None]


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
    def _later_first(self) -> list[int]:
        """The numbers of the `.con` files, the latest first."""
        sources = self.table.sources
        cons = (number for number, source in enumerate(sources) if not source.loose)
        return sorted(cons, key=lambda number: rank(sources[number].path), reverse=True)

    def cons(self) -> list[str]:
        """The `.con` files, the latest first."""
        return [self.table.sources[number].path for number in self._later_first]

    @cached_property
    def _effective(self) -> Mask:
        """Mask of the rows that are effective in their file: all but ignored writes."""
        return ~(self.ignored & (self.table.uris.ext <= OK))

    def _rows(self, number: int) -> I64:
        return np.flatnonzero(self.table.source == number)

    def superseded(self) -> tuple[str, ...]:
        """The `.con` files of which each effective commit stands in a later one, latest first."""
        numbers = self._later_first
        # A file without an effective commit is superseded even if it is the only one.
        ids = self._ids if len(numbers) > 1 else np.arange(len(self.table))
        known = np.zeros(len(self.table), bool)
        superseded = []
        for number in numbers:
            rows = self._rows(number)
            own = ids[rows[self._effective[rows]]]
            if known[own].all():
                superseded.append(self.table.sources[number].path)
            known[own] = True
        return tuple(superseded)

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
        if not len(rows) or not self._later_first:
            return 0
        in_con = np.zeros(len(self.table), bool)
        for number in self._later_first:
            in_con[self._ids[self._rows(number)]] = True
        return int(np.count_nonzero(in_con[self._ids[rows]]))

    def holders(self, rows: I64) -> Iterator[tuple[int, str]]:
        """The effective rows among some that a `.con` holds too, with the latest such `.con`."""
        latest: dict[int, str] = {}
        wanted = np.zeros(len(self.table), bool)
        wanted[self._ids[rows]] = True
        for number in reversed(self._later_first):
            own = self._ids[self._rows(number)]
            path = self.table.sources[number].path
            latest |= dict.fromkeys(own[wanted[own]].tolist(), path)
        for row in rows[self._effective[rows]].tolist():
            if (holder := latest.get(int(self._ids[row]))) is not None:
                yield row, holder

    def uris(self, path: str) -> frozenset[str] | None:
        """The URIs of the commits of one `.con`; None if the table does not know the file."""
        rows = self._rows_of(path)
        return None if rows is None else frozenset(text_columns.uris(self.table, rows).to_pylist())

    def records(self, path: str) -> Records:
        """The commits of one `.con` by their URIs, each with its tile if it has one."""
        table, rows = self.table, self._rows_of(path)
        if rows is None:
            return {}
        has_tile = np.isin(rows, table.tile_rows)
        return {
            table.uri(row): table.tile(row)[0] if tiled else None
            for row, tiled in zip(rows.tolist(), has_tile.tolist(), strict=True)
        }

    def _rows_of(self, path: str) -> I64 | None:
        for number in self._later_first:
            if self.table.sources[number].path == path:
                return self._rows(number)
        return None


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
