"""Trees, negated and flattened, ask for the rows that they asked for before."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hypothesis import given
from hypothesis import strategies as st
from support.condition_rows import rows_of
from support.condition_truth import matches, removed
from support.strategies import RICH, comparisons, predicates, raw_comparisons, trees

from chronotile.conditions.tree import (
    AllOf,
    AnyOf,
    Compare,
    Not,
    Op,
    fields,
    flatten,
    leaves,
    negate,
)
from chronotile.conditions.truth import Sense

if TYPE_CHECKING:
    from chronotile.conditions.tree import Condition


@given(trees(raw_comparisons()))
def test_negation_is_its_own_inverse(node: Condition) -> None:
    assert negate(negate(node)) == node
    assert [leaf.op.negated for leaf in leaves(negate(node))] == [leaf.op for leaf in leaves(node)]


def test_negation_is_pushed_down_to_the_leaves() -> None:
    a, b = Compare(field="a", op=Op.LT), Compare(field="b", op=Op.IN, value=b"x", offsets=(0,))
    assert negate(AllOf(parts=(a, b))) == AnyOf(
        parts=(
            Compare(field="a", op=Op.GE),
            Compare(field="b", op=Op.NOT_IN, value=b"x", offsets=(0,)),
        )
    )
    assert negate(Not(part=a)) == a


@given(trees(raw_comparisons(), flat=False))
def test_flat_trees(node: Condition) -> None:
    flat = flatten(node)
    assert flatten(flat) == flat
    assert fields(flat) == fields(node)
    assert [leaf.value for leaf in leaves(flat)] == [leaf.value for leaf in leaves(node)]


@given(trees(comparisons(RICH), flat=False), st.data())
def test_a_flat_tree_asks_for_the_same_rows(node: Condition, data: st.DataObject) -> None:
    row = rows_of(data, node)
    asked = matches(node, row, RICH, Sense.PREDICATE)
    assert matches(flatten(node), row, RICH, Sense.PREDICATE) is asked


@given(predicates(RICH), st.data())
def test_what_is_asked_for_is_removed(node: Condition, data: st.DataObject) -> None:
    row = rows_of(data, node)
    none_asked = any(not leaf.value and leaf.op in (Op.EQ, Op.NE) for leaf in leaves(node))
    if matches(node, row, RICH, Sense.PREDICATE) and not none_asked:
        assert removed(negate(node), row, RICH)
