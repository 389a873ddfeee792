"""Spans that are found by one look at a column hold the rows that a plain comparison finds."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pytest
from support.strategies import make_field

from chronotile.conditions import column
from chronotile.conditions.column import Column
from chronotile.format.datatypes import VAR_NUM, Datatype
from chronotile.rows.updates import number_grid, spans_in_column
from chronotile.rows.updates.number_grid import IntegerGrid, entries_at, grid_of
from chronotile.rows.updates.rows_in_spans import RowsByCode, RowsInOrder, RowsOneByOne, rows_marked
from chronotile.rows.updates.sought_spans import Sought
from chronotile.rows.updates.spans_in_column import spans_in

if TYPE_CHECKING:
    import numpy.typing as npt

    Numbers = npt.NDArray[Any]

KINDS = (
    Datatype.INT8,
    Datatype.UINT8,
    Datatype.INT16,
    Datatype.INT32,
    Datatype.UINT32,
    Datatype.INT64,
    Datatype.UINT64,
    Datatype.DATETIME_MS,
    Datatype.FLOAT32,
    Datatype.FLOAT64,
)


@pytest.fixture(autouse=True)
def small_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Several blocks and a sample, also of few numbers."""
    monkeypatch.setattr(number_grid, "_BLOCK", 7)
    monkeypatch.setattr(column, "_SAMPLE", 5)


def numbers_of(datatype: Datatype, chance: np.random.Generator, count: int) -> Numbers:
    """Numbers of one kind: close together, far apart, or with the ends of the type among them."""
    kind = np.dtype(f"<{datatype.code}")
    if kind.kind == "f":
        scale = chance.choice([1e-300, 1.0, 1e30, 1e308])
        numbers = (chance.random(count) - 0.5) * scale
        odd = np.array([np.nan, np.inf, -np.inf, 0.0, -0.0])
        is_odd = chance.random(count) < chance.choice([0.0, 0.3])
        with np.errstate(over="ignore"):
            return np.where(is_odd, chance.choice(odd, count), numbers).astype(kind)
    limits = np.iinfo(kind)
    width = int(chance.choice([1, 100, 2**16, 2**40, 2**64]))
    low = min(int(chance.integers(limits.min, limits.max, dtype=kind)), limits.max - 1)
    high = min(low + width, limits.max)
    return chance.integers(low, high, count, kind, endpoint=True)


def column_of(datatype: Datatype, numbers: Numbers) -> Column:
    cells = pa.array(numbers)
    return Column(make_field("x", datatype), cells)


def spans_among(numbers: Numbers, chance: np.random.Generator, count: int) -> Sought:
    """Spans from one number to another, some of one number only, some beyond the column."""
    kind = numbers.dtype
    ends = (-np.inf, np.inf) if kind.kind == "f" else (np.iinfo(kind).min, np.iinfo(kind).max)
    known = np.concatenate([numbers[~np.isnan(numbers)], np.array(ends, kind)])
    one, other = chance.choice(known, (2, count))
    is_point = chance.random(count) < 0.5
    return Sought(3, np.minimum(one, other), np.where(is_point, one, np.maximum(one, other)))


def plain_rows(numbers: Numbers, sought: Sought, at: int) -> list[int]:
    inside = (numbers >= sought.lows[at]) & (numbers <= sought.highs[at])
    return np.flatnonzero(inside).tolist()


@pytest.mark.parametrize("datatype", KINDS)
@pytest.mark.parametrize("few", [0, 99])
def test_rows_of_spans_are_those_of_a_plain_comparison(
    datatype: Datatype, few: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(spans_in_column, "_FEW_SPANS", few)
    ways = set()
    for seed in range(40):
        chance = np.random.default_rng(seed)
        numbers = numbers_of(datatype, chance, int(chance.integers(1, 40)))
        numbers = np.sort(numbers) if seed % 3 == 0 else numbers
        whole = column_of(datatype, numbers)
        sought = spans_among(numbers, chance, int(chance.integers(1, 9)))
        spans = spans_in(whole, sought)
        is_wanted = (spans.shares < np.inf) & (spans.shares > 0)
        is_wanted &= chance.random(len(sought.lows)) < 0.8
        found = spans.found(is_wanted)
        ways.add(type(found))
        mask = np.zeros(len(numbers), bool)
        found.mark(mask)
        kept = np.flatnonzero(mask | (chance.random(len(numbers)) < 0.3))
        part = found.part(kept, whole.of(kept))
        for at in range(len(sought.lows)):
            rows = plain_rows(numbers, sought, at)
            if spans.shares[at] == 0:
                assert rows == [], seed
            wanted = rows if is_wanted[at] else []
            assert sorted(found.rows(at).tolist()) == wanted, (seed, at)
            assert mask[wanted].all(), (seed, at)
            assert sorted(kept[part.rows(at)].tolist()) == wanted, (seed, at)
    assert {RowsInOrder, RowsOneByOne if few else RowsByCode} <= ways


@pytest.mark.parametrize("width", [VAR_NUM, 2])
def test_rows_of_texts_are_those_that_hold_them(width: int) -> None:
    pool = (b"aa", b"a\0", b"\0\0", b"bb", *((b"", b"a", b"ccc") if width == VAR_NUM else ()))
    kind = pa.large_binary() if width == VAR_NUM else pa.binary(width)
    field = make_field("x", Datatype.STRING_ASCII, num=width, nullable=True)
    for seed in range(100):
        chance = random.Random(seed)
        texts = [chance.choice((*pool, None)) for _ in range(chance.randint(1, 30))]
        lows = np.array(chance.sample((*pool, b"longer"), 4), object)
        whole = Column(field, pa.array(texts, kind))
        spans = spans_in(whole, Sought(0, lows, lows))
        assert (spans.shares > 0).all()
        is_wanted = np.array([chance.random() < 0.7 for _ in lows])
        found = spans.found(is_wanted)
        mask = np.zeros(len(texts), bool)
        found.mark(mask)
        kept = np.flatnonzero(mask)
        part = found.part(kept, whole.of(kept))
        for at, low in enumerate(lows):
            rows = [row for row, text in enumerate(texts) if text == low and is_wanted[at]]
            assert found.rows(at).tolist() == rows, (seed, at)
            assert kept[part.rows(at)].tolist() == rows, (seed, at)


@pytest.mark.parametrize("datatype", KINDS)
def test_places_are_in_the_order_of_the_numbers(datatype: Datatype) -> None:
    """And those that are looked up in blocks are the same, which a table of places shows."""
    for seed in range(40):
        chance = np.random.default_rng(seed)
        numbers = numbers_of(datatype, chance, 30)
        grid = grid_of(column_of(datatype, numbers))
        if grid is None:
            continue
        is_number = ~np.isnan(numbers)
        places = grid.nearest(numbers).astype(np.int64)
        assert ((places >= 0) & (places <= grid.last)).all(), seed
        order = np.argsort(numbers[is_number])
        assert (np.diff(places[is_number][order]) >= 0).all(), seed
        table = np.arange(grid.last + 1, dtype=np.uint32)
        assert entries_at(grid, numbers, table).tolist() == places.tolist(), seed
        if isinstance(grid, IntegerGrid) and grid.is_exact:
            assert [int(grid.low) + place for place in places.tolist()] == numbers.tolist()


def test_rows_are_those_that_a_mask_marks() -> None:
    for count in (0, 1, 7, 8, 9, 64, 1000):
        for share in (0.0, 0.01, 0.09, 0.2, 1.0):
            mask = np.random.default_rng(count).random(count) < share
            assert rows_marked(mask).tolist() == np.flatnonzero(mask).tolist(), (count, share)
