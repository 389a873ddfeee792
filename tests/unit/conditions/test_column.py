"""A part of a column is what its rows hold, however and whenever it is asked for."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pytest
from support.strategies import make_field

from chronotile.conditions import column as columns
from chronotile.conditions.column import Column
from chronotile.format.datatypes import VAR_NUM, Datatype

if TYPE_CHECKING:
    from chronotile.format.schema import Field

FIELDS = (
    make_field("whole", Datatype.INT16),
    make_field("null", Datatype.INT16, nullable=True),
    make_field("double", Datatype.FLOAT64, nullable=True),
    make_field("text", Datatype.STRING_UTF8, num=VAR_NUM, nullable=True),
)
KINDS = dict(zip(FIELDS, (pa.int16(), pa.int16(), pa.float64(), pa.large_binary()), strict=True))


def cells_of(field: Field, chance: np.random.Generator, count: int) -> list[Any]:
    numbers = chance.integers(-50, 50, count).tolist()
    cells: list[Any] = [str(one).encode() for one in numbers] if field.is_var else numbers
    is_null = chance.random(count) < (0.3 if field.nullable else 0)
    return [None if null else cell for null, cell in zip(is_null, cells, strict=True)]


@pytest.mark.parametrize("field", FIELDS, ids=lambda field: field.name)
@pytest.mark.parametrize("many", [1, 4, 10**6])
def test_a_part_holds_the_cells_of_its_rows(
    field: Field, many: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(columns, "_MANY", many)
    for seed in range(30):
        chance = np.random.default_rng(seed)
        cells = cells_of(field, chance, 20)
        part, held = Column(field, pa.array(cells, KINDS[field])), np.array(cells, object)
        for _ in range(3):
            rows = np.flatnonzero(chance.random(len(part)) < 0.8)
            part, held = part.of(rows), held[rows]
            if not field.is_var:
                few = np.flatnonzero(chance.random(len(held)) < 0.3)
                for which in (few, np.arange(len(held)), few):
                    there = [at for at in which.tolist() if held[at] is not None]
                    numbers = dict(zip(which.tolist(), part.numbers_of(which), strict=True))
                    assert [numbers[at] for at in there] == held[there].tolist(), seed
                assert part.bounds is not None
                known = [one for one in held.tolist() if one is not None]
                assert all(part.bounds[0] <= one <= part.bounds[1] for one in known), seed
            assert len(part) == len(held)
            assert part.cells.to_pylist() == held.tolist(), seed
            nulls = np.broadcast_to(part.nulls, len(part))
            assert nulls.tolist() == [one is None for one in held.tolist()], seed


def test_an_order_is_seen_where_there_is_one_and_nowhere_else(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(columns, "_SAMPLE", 5)
    for seed in range(200):
        chance = np.random.default_rng(seed)
        numbers = np.sort(chance.integers(0, 20, int(chance.integers(1, 30))).astype(float))
        if seed % 2:
            numbers[chance.integers(len(numbers))] = chance.choice([np.nan, 5.0, 30.0, -1.0])
        pairs = zip(numbers.tolist(), numbers[1:].tolist(), strict=False)
        is_one = not np.isnan(numbers).any() and all(one <= other for one, other in pairs)
        column = Column(make_field("x", Datatype.FLOAT64), pa.array(numbers))
        assert column.is_ordered == is_one, seed
        ends = None if np.isnan(numbers).any() else (numbers.min(), numbers.max())
        assert column.bounds == ends, seed
