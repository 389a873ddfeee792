"""Rows of one table, gathered from many arrays into one Arrow table.

In: what each array has: rows as dicts, columns as its log gives them, or a table. Out: one table of
the wanted schema, with the rows in the order in which they came. Knows nothing of what they mean.

A call of Arrow takes its time even for one row, and a fleet has many arrays of few rows: so each
column is made once for all of them.
"""

from __future__ import annotations

from itertools import groupby
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

import pyarrow as pa
import pyarrow.compute as pc

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

LAST = (1 << 63) - 1
"""The largest `bigint`."""


class Rows(NamedTuple):
    """Some rows of a table, the name of the array among them."""

    rows: list[dict[str, Any]]

    def __len__(self) -> int:
        return len(self.rows)


class Columns(NamedTuple):
    """Columns of the rows of one array, in any order; those that are not there are null."""

    array: str
    table: pa.Table
    """Without the name of the array; its times are unsigned."""

    def __len__(self) -> int:
        return len(self.table)


Piece: TypeAlias = Rows | Columns | pa.Table
"""Some rows of a table, as they are at hand; a `Table` has its columns already."""


def gathered(schema: pa.Schema, pieces: Iterable[Piece]) -> pa.Table:
    """The rows of all pieces as one table; its first column is the array, if a piece has columns.

    >>> schema = pa.schema([("array", pa.string()), ("t1", pa.int64())])
    >>> own = pa.table({"t1": pa.array([7, 2**64 - 1], pa.uint64())})
    >>> gathered(schema, [Rows([{"array": "a", "t1": 5}]), Columns("b", own)]).to_pylist()[1:]
    [{'array': 'b', 't1': 7}, {'array': 'b', 't1': 9223372036854775807}]
    """
    tables = [_made(schema, list(alike)) for _, alike in groupby(pieces, _shape)]
    if len(tables) == 1:
        return tables[0]
    return pa.concat_tables(tables) if tables else schema.empty_table()


def rows_of(piece: Rows | pa.Table) -> list[dict[str, Any]]:
    """The rows of a piece, as dicts."""
    return piece.rows if isinstance(piece, Rows) else piece.to_pylist()


def _shape(piece: Piece) -> tuple[type, tuple[str, ...]]:
    """What neighbours have in common that are put together."""
    return type(piece), tuple(piece.table.column_names) if isinstance(piece, Columns) else ()


def _made(schema: pa.Schema, alike: Sequence[Piece]) -> pa.Table:
    """One table of pieces of one shape."""
    if columns := [piece for piece in alike if isinstance(piece, Columns)]:
        return _of_columns(schema, columns)
    if isinstance(alike[0], pa.Table):
        return pa.concat_tables(alike)
    rows = [row for piece in alike if isinstance(piece, Rows) for row in piece.rows]
    # A column takes its time even without a row.
    return pa.Table.from_pylist(rows, schema=schema) if rows else schema.empty_table()


def _of_columns(schema: pa.Schema, alike: Sequence[Columns]) -> pa.Table:
    own = pa.concat_tables([piece.table for piece in alike])
    arrays = [pa.repeat(piece.array, len(piece)) for piece in alike]
    there = frozenset(own.column_names)
    columns = [
        _bigints(own[one.name]) if one.name in there else pa.nulls(len(own), one.type)
        for one in list(schema)[1:]
    ]
    return pa.table([pa.chunked_array(arrays, pa.string()), *columns], schema=schema)


def _bigints(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """A column of times as `bigint`; any other as it is.

    A larger time, which no clock reaches, becomes the largest `bigint`.
    """
    if column.type != pa.uint64():
        return column
    try:
        return column.cast(pa.int64())
    except pa.ArrowInvalid:
        last = pa.scalar(LAST, pa.uint64())
        return pc.min_element_wise(column, last, skip_nulls=False).cast(pa.int64())
