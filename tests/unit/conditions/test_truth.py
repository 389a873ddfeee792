"""Truth: that of one cell as the engine has it; that of columns is the truth of each cell."""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.condition_truth import matches, removed
from support.strategies import RICH, comparisons, make_field, make_schema, raw_values, trees

from chronotile.conditions.tree import AllOf, AnyOf, Compare, Op, flatten, member_of
from chronotile.conditions.truth import (
    Cell,
    Column,
    Sense,
    column_truth,
    leaf_truth,
    rows_asked_for,
    rows_kept,
)
from chronotile.errors import PredicateError
from chronotile.format import cell_values
from chronotile.format.datatypes import VAR_NUM, Datatype

if TYPE_CHECKING:
    from chronotile.conditions.tree import Condition
    from chronotile.format.schema import Field


NULLABLE_TEXT = make_field("s", Datatype.STRING_UTF8, num=VAR_NUM, nullable=True)
FLOAT = make_field("f", Datatype.FLOAT64)
NAN = struct.pack("<d", float("nan"))
ONE = struct.pack("<d", 1.0)


@pytest.mark.parametrize("op", list(Op))
def test_null_makes_every_stored_comparison_false(op: Op) -> None:
    for value in (b"", b"x"):
        node = Compare(field="s", op=op, value=value, offsets=(0,) if op.is_set else ())
        assert not leaf_truth(node, NULLABLE_TEXT, Cell.NULL, Sense.STORED)
        assert not leaf_truth(node, NULLABLE_TEXT, Cell.ABSENT, Sense.STORED)


@pytest.mark.parametrize("op", [Op.LT, Op.LE, Op.GT, Op.GE, Op.EQ, Op.NE])
def test_nan_compares_as_in_ieee_754(op: Op) -> None:
    for cell, value in ((NAN, ONE), (ONE, NAN), (NAN, NAN)):
        node = Compare(field="f", op=op, value=value)
        for sense in Sense:
            assert leaf_truth(node, FLOAT, cell, sense) is (op is Op.NE)


def test_members_are_compared_as_bytes() -> None:
    zero, minus_zero = struct.pack("<d", 0.0), struct.pack("<d", -0.0)
    node = member_of("f", Op.IN, (NAN, zero))
    assert leaf_truth(node, FLOAT, NAN, Sense.STORED)
    assert not leaf_truth(node, FLOAT, minus_zero, Sense.STORED)
    assert leaf_truth(Compare(field="f", op=Op.EQ, value=zero), FLOAT, minus_zero, Sense.STORED)


def test_no_bytes_are_null_when_asked_and_empty_text_when_stored() -> None:
    for op, asked, stored in (
        (Op.EQ, (True, False), (False, True)),
        (Op.NE, (False, True), (False, False)),
    ):
        node = Compare(field="s", op=op)
        cells: tuple[bytes | Cell, ...] = (Cell.NULL, b"")
        assert tuple(leaf_truth(node, NULLABLE_TEXT, c, Sense.PREDICATE) for c in cells) == asked
        assert tuple(leaf_truth(node, NULLABLE_TEXT, c, Sense.STORED) for c in cells) == stored


def test_fields_that_were_added_later() -> None:
    schema = make_schema(make_field("a", Datatype.INT8), make_field("b", Datatype.INT8))
    a, b = Compare(field="a", op=Op.EQ, value=b"\1"), Compare(field="b", op=Op.EQ, value=b"\1")
    assert not removed(AnyOf(parts=(b, a)), {"a": 1}, schema)
    assert removed(AnyOf(parts=(a, b)), {"a": 1}, schema)
    assert removed(AllOf(parts=(a, b)), {"a": 1}, schema)
    with pytest.raises(PredicateError, match="expected a field of the schema"):
        removed(Compare(field="c", op=Op.EQ), {}, schema)


def test_or_directly_in_or_is_taken_for_and() -> None:
    schema = make_schema(make_field("a", Datatype.INT8))
    a = {n: Compare(field="a", op=Op.EQ, value=bytes([n])) for n in (1, 2, 3)}
    node = AnyOf(parts=(a[1], AnyOf(parts=(a[2], a[3]))))
    assert [removed(node, {"a": n}, schema) for n in (1, 2, 3)] == [True] * 3
    assert [removed(flatten(node), {"a": n}, schema) for n in (1, 2, 3)] == [False] * 3


def column_of(field: Field, cells: list[bytes | None]) -> Column:
    number = field.datatype.code is not None and field.cell_val_num == 1
    if not number:
        kind = pa.large_binary() if field.is_var else pa.binary(field.cell_size or 0)
        return Column(field, pa.array(cells, kind))
    dtype = np.dtype(f"<{field.datatype.code}")
    raw = b"".join(cell or bytes(dtype.itemsize) for cell in cells)
    nulls = np.array([cell is None for cell in cells])
    return Column(field, pa.array(np.frombuffer(raw, dtype), mask=nulls))


def cells_of(field: Field) -> st.SearchStrategy[bytes | None]:
    values: st.SearchStrategy[bytes | None] = raw_values(field)
    if field.datatype.is_float:
        values |= st.just(cell_values.encode(field, float("nan")))
    return values | st.none() if field.nullable else values


@given(st.data(), comparisons(RICH))
def test_a_comparison_of_a_column_is_that_of_its_cells(data: st.DataObject, node: Compare) -> None:
    field = RICH.field(node.field)
    assert field is not None
    cells = data.draw(st.lists(cells_of(field), min_size=1, max_size=6))
    column = column_of(field, cells)
    for sense in Sense:
        found = np.broadcast_to(column_truth(node, column, sense), len(cells))
        wanted = [leaf_truth(node, field, Cell.NULL if c is None else c, sense) for c in cells]
        assert found.tolist() == wanted, sense


@given(st.data(), st.sampled_from([field.name for field in RICH.fields]))
def test_a_column_holds_what_it_is_set_to(data: st.DataObject, name: str) -> None:
    field = RICH.field(name)
    assert field is not None
    cells = data.draw(st.lists(cells_of(field), min_size=1, max_size=6))
    new = data.draw(cells_of(field))
    column, raw = column_of(field, cells), new or b""
    mask = np.array([data.draw(st.booleans()) for _ in cells])
    changed = column.with_value(mask, raw)
    changed.cells.validate(full=True)
    wanted = [new if is_set else cell for is_set, cell in zip(mask, cells, strict=True)]
    expected = column_of(field, [None if one == b"" and field.nullable else one for one in wanted])
    if not (field.is_var and field.nullable):  # where no bytes may also be the empty text
        assert repr(changed.cells.to_pylist()) == repr(expected.cells.to_pylist())
    assert changed.holds(raw)[mask].all()
    shown = column.cells.to_pylist()
    other = None if not raw and field.nullable else column_of(field, [raw]).cells.to_pylist()[0]
    assert column.holds(raw).tolist() == [
        one == other or (one is not None and one != one and other != other) for one in shown
    ]


FEW = [field for field in RICH.fields if field.name in ("d", "n_int32", "n_string_utf8", "float64")]


@given(
    st.data(),
    trees(comparisons(RICH).filter(lambda node: node.field in {f.name for f in FEW}), flat=False),
    st.sets(st.sampled_from(["n_int32", "float64"])),
)
def test_a_tree_is_carried_as_for_one_row(
    data: st.DataObject, node: Condition, lacks: set[str]
) -> None:
    rows = data.draw(
        st.lists(st.fixed_dictionaries({f.name: cells_of(f) for f in FEW}), min_size=1, max_size=4)
    )
    columns = {f.name: column_of(f, [row[f.name] for row in rows]) for f in FEW}
    plain = [
        {f.name: None if (c := row[f.name]) is None else cell_values.decode(f, c) for f in FEW}
        for row in rows
    ]
    flat = flatten(node)
    asked = rows_asked_for(
        flat, lambda leaf: column_truth(leaf, columns[leaf.field], Sense.PREDICATE)
    )
    assert np.broadcast_to(asked, len(rows)).tolist() == [
        matches(node, row, RICH, Sense.PREDICATE) for row in plain
    ]
    kept = rows_kept(
        node,
        lambda leaf: (
            None if leaf.field in lacks else column_truth(leaf, columns[leaf.field], Sense.STORED)
        ),
    )
    less = [{name: v for name, v in row.items() if name not in lacks} for row in plain]
    assert np.broadcast_to(kept, len(rows)).tolist() == [
        matches(node, row, RICH, Sense.STORED) for row in less
    ]
