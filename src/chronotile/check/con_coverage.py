"""Which `.con` and `.ign` files are no longer needed, from columns.

In: a commit table. Out: paths. Says what `Ledger.superseded` says, with no Python object a commit;
the tests hold the two to each other. Decides nothing, and removes nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyarrow.compute as pc

from chronotile.check.ledger import rank
from chronotile.format.kinds import OK
from chronotile.history import text_columns

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable

    from chronotile.history.commit_table import CommitTable, Mask
    from chronotile.history.uri_columns import I64


def superseded_cons(table: CommitTable) -> tuple[str, ...]:
    """The `.con` files of which each commit that counts stands in a later one, latest first."""
    cons = [number for number, source in enumerate(table.sources) if not source.loose]
    # One that holds nothing that counts goes even if it is alone.
    ids = commit_ids(table) if len(cons) > 1 else np.arange(len(table))
    known = np.zeros(len(table), bool)
    found = []
    for number in sorted(cons, key=lambda at: rank(table.sources[at].path), reverse=True):
        rows = np.flatnonzero(table.source == number)
        held = ids[rows[_counting(table, rows)]]
        if known[held].all():
            found.append(table.sources[number].path)
        else:
            known[held] = True
    return tuple(found)


def free_ignores(table: CommitTable, paths: Iterable[str], gone: Collection[str]) -> list[str]:
    """The `.ign` files among some paths that name no write of a `.con` that is not gone."""
    wanted = [*paths]
    if not wanted:
        return []
    standing = np.array([not s.loose and s.path not in gone for s in table.sources], bool)
    rows = np.flatnonzero(table.ignored & standing[table.source] & (table.uris.ext <= OK))
    used = {table.ignores[table.uri(row)] for row in rows.tolist()}
    return [path for path in wanted if path not in used]


def _counting(table: CommitTable, rows: I64) -> Mask:
    """Which rows count where they stand: an ignored delete or update does, a write does not."""
    counting: Mask = ~(table.ignored[rows] & (table.uris.ext[rows] <= OK))
    return counting


def commit_ids(table: CommitTable) -> I64:
    """A number for each row; the same for rows of one URI and, if they have any, one tile."""
    uris = table.uris
    if not len(table):
        return np.empty(0, np.int64)
    alike = np.ones(len(table) - 1, bool)
    for column in (uris.t1, uris.t2, uris.key):
        alike &= column[1:] == column[:-1]
    pairs = np.flatnonzero(alike)
    same = np.asarray(
        pc.equal(text_columns.uris(table, pairs), text_columns.uris(table, pairs + 1)), bool
    )
    ids = np.arange(len(table))
    ids[1:][alike] = 0
    ids = np.maximum.accumulate(ids)
    # Of several commits in one run, and of tiles, equal neighbours do not tell: texts do.
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
