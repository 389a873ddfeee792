"""The truth of conditions over columns is the truth of each cell."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st
from support.condition_truth import matches
from support.strategies import RICH, comparisons, raw_values, trees

from chronotile.conditions.tree import flatten
from chronotile.conditions.truth import (
    Cell,
    Column,
    Sense,
    column_truth,
    leaf_truth,
    rows_asked_for,
    rows_kept,
)
from chronotile.format import cell_values

if TYPE_CHECKING:
    from chronotile.conditions.tree import Compare, Condition
    from chronotile.format.schema import Field


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
