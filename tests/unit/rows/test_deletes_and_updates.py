"""Changes that are played on columns do what they do to each row by itself."""

from __future__ import annotations

import random
import struct
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pytest
from support.strategies import PLAIN_OPS, make_field

from chronotile.conditions.tree import (
    AllOf,
    AnyOf,
    Compare,
    Op,
    UpdateValue,
    flatten,
    fold,
    member_of,
    negate,
)
from chronotile.conditions.truth import Cell, Sense, leaf_truth
from chronotile.format.datatypes import VAR_NUM, Datatype
from chronotile.rows.deletes_and_updates import NOBODY, CellBatch
from chronotile.rows.engine_cells import Cells, stored_type
from chronotile.rows.snapshot import RowChange

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
BY_NAME = {field.name: field for field in FIELDS}
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

    def change(self, number: int) -> RowChange:
        values = None
        if self.random() < 0.8:
            values = tuple(
                UpdateValue(f.name, b"" if f.nullable and self.random() < 0.2 else self.value(f))
                for f in self.sample(FIELDS[1:], self.randint(1, 2))
            )
        stored = negate(self.predicate())
        return RowChange(name=str(number), t=self.randint(1, 9), stored=stored, values=values)

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


class Row:
    """One row, on which changes act one after the other."""

    def __init__(self, cells: dict[str, bytes | Cell], written: int) -> None:
        self.cells, self.written, self.time = cells, written, written
        self.alive, self.done_by = True, NOBODY

    def act(self, number: int, change: RowChange) -> bool:
        """Let a change act; tell whether it touched the row."""
        newest = change.t - (change.values is not None)
        if not self.alive or self.written > newest:
            return False
        if change.values is None:
            if self.satisfies(change.stored, Sense.STORED):
                return False
            self.alive = False
        else:
            new = {name: self.cell(name, raw) for name, raw in change.values}
            same = all(
                numbered(name, self.cells[name]) == numbered(name, new[name]) for name in new
            )
            if same or not self.satisfies(change.predicate, Sense.PREDICATE):
                return False
            self.cells.update(new)
            self.time = change.t
        self.done_by = number
        return True

    def satisfies(self, node: Condition, sense: Sense) -> bool:
        return fold(
            node,
            lambda leaf: leaf_truth(leaf, BY_NAME[leaf.field], self.cells[leaf.field], sense),
            lambda part, truths: all(truths) if isinstance(part, AllOf) else any(truths),
        )

    @staticmethod
    def cell(name: str, raw: bytes) -> bytes | Cell:
        return Cell.NULL if not raw and BY_NAME[name].nullable else raw


def numbered(name: str, cell: bytes | Cell) -> object:
    """A cell as it is compared: 0.0 is -0.0, and NaN is NaN."""
    code = BY_NAME[name].datatype.code
    if isinstance(cell, Cell) or code is None:
        return cell
    (number,) = struct.unpack(f"<{code}", cell)
    return "NaN" if number != number else number


@pytest.mark.parametrize("first", range(0, 600, 100))
def test_columns_change_as_each_row_does(first: int) -> None:
    for seed in range(first, first + 100):
        chance = Chance(seed)
        changes = [chance.change(number) for number in range(chance.randint(1, 8))]
        columns, times = chance.batch()
        lists = [column.to_pylist() for column in columns]
        rows = [
            Row(
                {
                    field.name: Cell.NULL if value is None else raw(field, value)
                    for field, value in zip(FIELDS, values, strict=True)
                },
                time,
            )
            for *values, time in zip(*lists, times.tolist(), strict=True)
        ]
        batch = CellBatch(FIELDS, Cells(tuple(columns), times))
        for number, change in enumerate(sorted(changes, key=lambda change: change.t)):
            touched = [at for at, row in enumerate(rows) if row.act(number, change)]
            assert batch.act(number, change).tolist() == touched, seed
        for field, cells in zip(FIELDS, batch.cells(), strict=True):
            cells.validate(full=True)
            now = [Cell.NULL if one is None else raw(field, one) for one in cells.to_pylist()]
            assert now == [row.cells[field.name] for row in rows], (seed, field.name)
        assert batch.alive.tolist() == [row.alive for row in rows], seed
        assert batch.times.tolist() == [row.time for row in rows], seed
        assert batch.done_by.tolist() == [row.done_by for row in rows], seed
        some = np.arange(0, len(rows), 2)
        assert [repr(column.to_pylist()) for column in batch.cells(some)] == [
            repr(column.to_pylist()[::2]) for column in batch.cells()
        ]


def test_only_a_row_that_has_all_the_values_already_is_left_alone() -> None:
    whole, double = FIELDS[3], FIELDS[5]
    columns = [pa.array([1, 1, 2, 2], pa.int32()), pa.array([0.5, None, 0.5, None])]
    update = RowChange(
        name="both",
        t=9,
        stored=Compare(field="whole", op=Op.ALWAYS_FALSE),
        values=(UpdateValue("whole", raw(whole, 1)), UpdateValue("double", raw(double, 0.5))),
    )
    batch = CellBatch([whole, double], Cells(tuple(columns), np.zeros(4, np.uint64)))
    assert batch.act(0, update).tolist() == [1, 2, 3]
    assert batch.act(1, update).tolist() == []
    assert batch.cells()[1].to_pylist() == [0.5] * 4
