"""The commit records of an array as an Arrow table.

In: a `CommitTable`. Out: one row a record, in the table's order, with no Python object per row.
Knows nothing of which commits are visible.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from chronotile.format.kinds import COMMIT_WORDS
from chronotile.history import text_columns
from chronotile.history.uri_columns import single_value

if TYPE_CHECKING:
    from chronotile.history.commit_table import CommitTable
    from chronotile.history.uri_columns import I64, Bytes

SCHEMA = pa.schema(
    [
        ("name", pa.string()),
        ("kind", pa.string()),
        ("t1", pa.uint64()),
        ("t2", pa.uint64()),
        ("uuid", pa.string()),
        ("version", pa.int64()),
        ("source", pa.string()),
        ("offset", pa.int64()),
        ("loose", pa.bool_()),
        ("ignored", pa.bool_()),
    ]
)


def commit_rows(table: CommitTable, first: int = 0, last: int | None = None) -> pa.Table:
    """Give one row a commit record, from the record `first` to before the record `last`.

    `offset` is where the tile of a record starts in its file, if it has one.
    """
    uris, some = table.uris, slice(first, last)
    rows = np.arange(len(table))[some]
    return pa.table(
        [
            text_columns.names(table, rows),
            _kinds(uris.ext[some]),
            pa.array(uris.t1[some]),
            pa.array(uris.t2[some]),
            text_columns.uuids(table, rows),
            text_columns.versions(table, rows),
            text_columns.paths(table, rows),
            _offsets(table, rows),
            pa.array(table.loose[some]),
            pa.array(table.ignored[some]),
        ],
        schema=SCHEMA,
    )


def _kinds(ext: Bytes) -> pa.Array:
    if (same := single_value(ext)) is not None:
        return pa.repeat(COMMIT_WORDS[same], len(ext))
    return pa.array(COMMIT_WORDS, pa.string()).take(pa.array(ext))


def _offsets(table: CommitTable, rows: I64) -> pa.Array:
    if not len(table.tile_rows):
        return pa.nulls(len(rows), pa.int64())
    offsets = np.full(len(table), -1, np.int64)
    offsets[table.tile_rows] = np.maximum(table.tile_offset, 0)
    return pa.array(offsets[rows], mask=offsets[rows] < 0)
