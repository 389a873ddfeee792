"""Updates that look at few rows do the same as updates that look at all of them."""

from __future__ import annotations

import random
import struct
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pytest
from support.strategies import PLAIN_OPS, make_field

from chronotile.conditions.column import Column
from chronotile.conditions.tree import (
    AllOf,
    AnyOf,
    Compare,
    Op,
    UpdateValue,
    flatten,
    member_of,
    negate,
)
from chronotile.format.datatypes import VAR_NUM, Datatype
from chronotile.rows.cells.cell_columns import stored_type
from chronotile.rows.cells.cell_source import CellBatch
from chronotile.rows.changes_in_force import Change
from chronotile.rows.updates import number_grid, played_batch, sought_spans, spans_in_column
from chronotile.rows.updates.play_changes import Play
from chronotile.rows.updates.played_batch import PlayedBatch
from chronotile.rows.updates.rows_updates_can_match import candidates
from chronotile.rows.updates.sought_spans import SoughtSpans

if TYPE_CHECKING:
    import numpy.typing as npt

    from chronotile.conditions.tree import Condition
    from chronotile.format.schema import Field

FIELDS = (
    make_field("d", Datatype.INT64, dimension=True),
    make_field("small", Datatype.INT8, nullable=True),
    make_field("large", Datatype.UINT64),
    make_field("whole", Datatype.INT32),
    make_field("single", Datatype.FLOAT32),
    make_field("double", Datatype.FLOAT64, nullable=True),
    make_field("text", Datatype.STRING_UTF8, num=VAR_NUM, nullable=True),
    make_field("blob", Datatype.BLOB, num=VAR_NUM),
    make_field("sized", Datatype.STRING_ASCII, num=2),
)
FLOATS = (-np.inf, -3.0, -1.5, -0.0, 0.0, 0.5, 1.0, 3.0, np.inf, np.nan)
POOLS: dict[str, tuple[Any, ...]] = {
    "d": (-(2**63), 1 - 2**63, -1, 0, 1, 70_000, 2**63 - 1),
    "small": (-128, -127, -1, 0, 1, 127),
    "large": (0, 1, 2**53, 2**53 + 1, 2**63, 2**64 - 1),
    "whole": (-(2**31), -70_000, -1, 0, 1, 2, 2**31 - 1),
    "single": FLOATS,
    "double": (*FLOATS, 5e-324, 1e308, -1e308),
    "text": (b"", b"a", b"b"),
    "blob": (b"", b"a", b"a\0", b"b"),
    "sized": (b"aa", b"a\0", b"bb"),
}
"""Few values of each field, so that many rows hold what a predicate asks for."""


def raw(field: Field, value: Any) -> bytes:
    if field.datatype.code is None:
        return bytes(value)
    return struct.pack(f"<{field.datatype.code}", value)


class Chance(random.Random):
    """Batches and changes, at random."""

    def value(self, field: Field) -> bytes:
        return raw(field, self.choice(POOLS[field.name]))

    def comparison(self) -> Compare:
        field = self.choice(FIELDS)
        kind = self.randrange(12)
        if kind == 0:
            return Compare(field=field.name, op=Op.ALWAYS_FALSE)
        if kind == 1 and field.nullable:
            return Compare(field=field.name, op=self.choice((Op.EQ, Op.NE)))
        if kind < 5:
            members = tuple(self.value(field) for _ in range(self.randint(1, 3)))
            return member_of(field.name, self.choice((Op.IN, Op.IN, Op.NOT_IN)), members)
        return Compare(field=field.name, op=self.choice(PLAIN_OPS), value=self.value(field))

    def predicate(self, depth: int = 2) -> Condition:
        if not depth or self.random() < 0.4:
            return self.comparison()
        parts = tuple(self.predicate(depth - 1) for _ in range(self.randint(2, 3)))
        return flatten(self.choice((AllOf, AnyOf))(parts=parts))

    def change(self, number: int) -> Change:
        values = None
        if self.random() < 0.8:
            values = tuple(
                UpdateValue(f.name, b"" if f.nullable and self.random() < 0.2 else self.value(f))
                for f in self.sample(FIELDS[1:], self.randint(1, 2))
            )
        stored = negate(self.predicate())
        return Change(name=str(number), t=self.randint(1, 9), stored=stored, values=values)

    def batch(self) -> tuple[list[pa.Array], npt.NDArray[np.uint64]]:
        count = self.randint(1, 24)
        columns = []
        for field in FIELDS:
            pool = POOLS[field.name]
            # Some columns have neither NaN nor an end.
            pool = pool[2:-3] if len(pool) > 5 and self.random() < 0.5 else pool
            cells = [
                None if field.nullable and self.random() < 0.2 else self.choice(pool)
                for _ in range(count)
            ]
            columns.append(pa.array(cells, stored_type(field)))
        return columns, np.array([self.randint(0, 5) for _ in range(count)], np.uint64)


@pytest.fixture
def always_looked_up(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every update that can looks up its rows on a grid, in several blocks."""
    monkeypatch.setattr(sought_spans, "_ONE_IN", 0)
    monkeypatch.setattr(spans_in_column, "_FEW_SPANS", 0)
    monkeypatch.setattr(number_grid, "_BLOCK", 5)
    monkeypatch.setattr(played_batch, "_FEW", 1)


@pytest.mark.usefixtures("always_looked_up")
@pytest.mark.parametrize("first", range(0, 600, 100))
def test_few_rows_are_looked_at_and_none_is_missed(first: int) -> None:
    for seed in range(first, first + 100):
        chance = Chance(seed)
        changes = [chance.change(number) for number in range(chance.randint(1, 8))]
        compare(chance.batch(), sorted(changes, key=lambda change: change.t), seed)


def compare(
    batch: tuple[list[pa.Array], npt.NDArray[np.uint64]], acting: list[Change], seed: int
) -> None:
    slow = Play(FIELDS, *batch)
    sought = SoughtSpans(FIELDS, acting)
    bases = {name: column.base for name, column in slow.columns.items()}
    quick = Play(FIELDS, *batch, candidates=candidates(sought, bases))
    for number, change in enumerate(acting):
        assert quick.act(number, change).tolist() == slow.act(number, change).tolist(), seed
    for name, column in slow.columns.items():
        now, then = quick.columns[name].cells(), column.cells(np.arange(len(batch[1])))
        now.validate(full=True)
        assert repr(now.to_pylist()) == repr(then.to_pylist()), (seed, name)
    assert quick.alive.tolist() == slow.alive.tolist()
    assert quick.times.tolist() == slow.times.tolist()
    assert quick.done_by.tolist() == slow.done_by.tolist()
    played = PlayedBatch(FIELDS, CellBatch(tuple(batch[0]), batch[1], frozenset()), acting, sought)
    played.play()
    assert played.alive.tolist() == slow.alive.tolist(), seed
    assert played.is_whole == slow.alive.all(), seed
    assert played.times.tolist() == slow.times.tolist(), seed
    shown = {name: repr(column.cells().to_pylist()) for name, column in slow.columns.items()}
    # It may write over its cells, so no one else may ask for them then.
    assert {name: repr(played.cells(name).to_pylist()) for name in shown} == shown, seed


def test_an_update_that_matches_few_rows_is_looked_up_and_one_that_matches_many_is_not() -> None:
    """Else the quick way would be quick for nobody."""
    whole, place = FIELDS[3], FIELDS[0]
    columns = {
        "whole": Column(whole, pa.array(np.arange(50_000) % 1000, pa.int32())),
        "d": Column(place, pa.array(np.arange(50_000))),
    }
    seven = Compare(field="whole", op=Op.EQ, value=raw(whole, 7))
    wheres: dict[str, Condition] = {
        "few": seven,
        "many": Compare(field="whole", op=Op.LT, value=raw(whole, 500)),
        "none": Compare(field="whole", op=Op.GT, value=raw(whole, 2000)),
        "fewer": AllOf(parts=(Compare(field="d", op=Op.LT, value=raw(place, 40_000)), seven)),
    }
    updates = [
        Change(name=name, t=9, stored=negate(where), values=(UpdateValue("whole", raw(whole, 1)),))
        for name, where in wheres.items()
    ]
    look = candidates(SoughtSpans([whole, place], updates), columns)
    few, none, fewer = (look.cover(name) for name in ("few", "none", "fewer"))
    assert few is not None
    assert look.rows(few.spans[0]).tolist() == list(range(7, 50_000, 1000))
    assert look.cover("many") is None
    assert none is not None
    assert look.rows(none.spans[0]).tolist() == []
    assert fewer is not None
    assert fewer.spans == few.spans


def test_only_a_row_that_has_all_the_values_already_is_left_alone() -> None:
    whole, double = FIELDS[3], FIELDS[5]
    columns = [pa.array([1, 1, 2, 2], pa.int32()), pa.array([0.5, None, 0.5, None])]
    update = Change(
        name="both",
        t=9,
        stored=Compare(field="whole", op=Op.ALWAYS_FALSE),
        values=(UpdateValue("whole", raw(whole, 1)), UpdateValue("double", raw(double, 0.5))),
    )
    play = Play([whole, double], columns, np.zeros(4, np.uint64))
    assert play.act(0, update).tolist() == [1, 2, 3]
    assert play.act(1, update).tolist() == []
    assert play.columns["double"].cells().to_pylist() == [0.5] * 4
