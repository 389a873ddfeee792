"""Rows at two moments, side by side.

In: columns of both moments, who changed each row and when. Out: the table of changes: `change`,
`commit`, `t`, then the row. Knows neither array nor engine.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from chronotile.rows.cells.cell_columns import shown, shown_type

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy.typing as npt

    from chronotile.format.schema import Schema

INSERT, DELETE, BEFORE, AFTER = "insert", "delete", "update_before", "update_after"
_HEAD = (("change", pa.string()), ("commit", pa.string()), ("t", pa.uint64()))


class Pairs(NamedTuple):
    """Rows at two moments, side by side; columns as stored."""

    before: tuple[pa.Array, ...]
    was: npt.NDArray[np.bool_]
    """Whether there was a row before."""
    after: tuple[pa.Array, ...]
    is_there: npt.NDArray[np.bool_]
    """Whether there is one after."""
    commits: list[str | None]
    times: npt.NDArray[np.uint64]


def diff_schema(schema: Schema) -> pa.Schema:
    """The Arrow schema of a table of changed rows."""
    return with_heads(_HEAD, schema)


def with_heads(heads: Sequence[tuple[str, pa.DataType]], schema: Schema) -> pa.Schema:
    """Columns of one's own, then the fields of a schema.

    A field that has the name of such a column, as `t`, gets a `_` behind its own.
    """
    names = [name for name, _ in heads]
    for field in schema.fields:
        name = field.name
        while name in names or (name != field.name and schema.field(name) is not None):
            name += "_"
        names.append(name)
    kinds = [*(kind for _, kind in heads), *map(shown_type, schema.fields)]
    return pa.schema([*zip(names, kinds, strict=True)])


def pairs_table(where: str, schema: Schema, pairs: Pairs) -> pa.Table:
    """The changes; a row that is the same at both moments is left out."""
    kind = diff_schema(schema)
    same = pairs.was & pairs.is_there & _alike(pairs.before, pairs.after)
    both = pairs.was & pairs.is_there & ~same
    parts = []
    for word, rows, columns in (
        (INSERT, pairs.is_there & ~pairs.was, pairs.after),
        (DELETE, pairs.was & ~pairs.is_there, pairs.before),
        (BEFORE, both, pairs.before),
        (AFTER, both, pairs.after),
    ):
        at = np.flatnonzero(rows)
        if len(at):
            cells = [
                shown(field, column.take(pa.array(at)), where)
                for field, column in zip(schema.fields, columns, strict=True)
            ]
            names = pa.array([pairs.commits[place] for place in at.tolist()], pa.string())
            heads = [pa.array([word] * len(at)), names, pa.array(pairs.times[at])]
            parts.append(pa.table([*heads, *cells], schema=kind))
    return pa.concat_tables(parts) if parts else kind.empty_table()


def _alike(one: Sequence[pa.Array], other: Sequence[pa.Array]) -> npt.NDArray[np.bool_]:
    """Mask of the rows that hold the same; NULL and NaN are the same as themselves."""
    same = np.ones(len(one[0]), bool)
    for left, right in zip(one, other, strict=True):
        equal = pc.fill_null(pc.equal(left, right), False)
        if pa.types.is_floating(left.type):
            equal = pc.or_(equal, pc.fill_null(pc.and_(pc.is_nan(left), pc.is_nan(right)), False))
        same &= np.asarray(pc.or_(equal, pc.and_(left.is_null(), right.is_null())))
    return same
