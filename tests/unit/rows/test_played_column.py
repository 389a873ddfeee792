"""A column that updates set holds what a plain list holds that is set the same way."""

from __future__ import annotations

import math
import random
import struct
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pytest
from support.strategies import make_field

from chronotile.conditions.column import Column
from chronotile.conditions.value_spans import Span
from chronotile.format.datatypes import VAR_NUM, Datatype
from chronotile.rows.cells.cell_columns import stored_type
from chronotile.rows.updates.played_column import PlayedColumn

if TYPE_CHECKING:
    import numpy.typing as npt

    from chronotile.format.schema import Field

POOLS: dict[Field, tuple[Any, ...]] = {
    make_field("whole", Datatype.INT32): (-3, -1, 0, 1, 2, 7),
    make_field("null", Datatype.INT16, nullable=True): (-3, 0, 1, 5),
    make_field("double", Datatype.FLOAT64): (-math.inf, -1.0, 0.0, 0.5, 2.0, math.nan),
    make_field("null double", Datatype.FLOAT64, nullable=True): (-1.0, 0.5, 2.0, math.nan),
    make_field("text", Datatype.STRING_UTF8, num=VAR_NUM, nullable=True): (b"a", b"b", b"cc"),
    make_field("sized", Datatype.STRING_ASCII, num=2): (b"aa", b"a\0", b"bb"),
}


def raw(field: Field, value: Any) -> bytes:
    if value is None or isinstance(value, bytes):
        return value or b""
    return struct.pack(f"<{field.datatype.code}", value)


def played(field: Field, chance: random.Random) -> tuple[PlayedColumn, list[Any]]:
    """A column of which some cells were set, and a list of the same."""

    def value(pool: tuple[Any, ...]) -> Any:
        return None if field.nullable and chance.random() < 0.25 else chance.choice(pool)

    # Of few values: so that all cells, or all that were set, are often in a span or out of it.
    written, given = (tuple(chance.sample(POOLS[field], 2)) for _ in range(2))
    cells = [value(written) for _ in range(chance.randint(1, 9))]
    column = PlayedColumn(Column(field, pa.array(cells, stored_type(field))))
    for _ in range(chance.randint(0, 3)):
        rows = rows_of(chance, len(cells))
        new = value(given)
        column.set(rows, raw(field, new))
        for row in rows.tolist():
            cells[row] = new
    return column, cells


def rows_of(chance: random.Random, count: int) -> npt.NDArray[np.intp]:
    return np.array([row for row in range(count) if chance.random() < 0.6], np.intp)


@pytest.mark.parametrize("field", POOLS, ids=lambda field: field.name)
def test_cells_and_what_they_hold(field: Field) -> None:
    for seed in range(150):
        chance = random.Random(seed)
        column, cells = played(field, chance)
        rows = rows_of(chance, len(cells))
        assert repr(column.cells().to_pylist()) == repr(cells), seed
        assert repr(column.cells(rows).to_pylist()) == repr([cells[row] for row in rows]), seed
        for value in (*POOLS[field], *([None] if field.nullable else [])):
            held = np.broadcast_to(column.holds(rows, raw(field, value)), len(rows))
            wanted = [repr(cells[row]) == repr(value) for row in rows]
            assert held.tolist() == wanted, (seed, value)


@pytest.mark.parametrize("field", POOLS, ids=lambda field: field.name)
def test_which_values_are_in_a_span(field: Field) -> None:
    kind = np.dtype(f"<{field.datatype.code}").type if field.is_number else bytes
    for seed in range(300):
        chance = random.Random(seed)
        column, cells = played(field, chance)
        ends = [one for one in POOLS[field] if one == one]
        low, high = sorted(chance.choices(ends, k=2)) if field.is_number else ends[:1] * 2
        span = Span(field.name, kind(low), kind(high))
        inside = [cell is not None and low <= cell <= high for cell in cells]
        rows = rows_of(chance, len(cells))
        found = np.broadcast_to(column.is_within(span, rows), len(rows))
        assert found.tolist() == [inside[row] for row in rows], seed
        own = column.base.cells.to_pylist()
        their_own = [row for row, cell in enumerate(own) if cell is None or low <= cell <= high]
        parts = column.within(span, np.array(their_own, np.intp))
        assert sorted(row for part in parts for row in part.tolist()) == [
            row for row, is_one in enumerate(inside) if is_one
        ], seed
