"""Rows that a delete removes or keeps against the wish of its author."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.condition_rows import MIXED, leaf
from support.condition_truth import matches, removed
from support.strategies import RICH, predicates

from chronotile.conditions.side_effects import also_keeps, also_removes, engine_refuses
from chronotile.conditions.tree import AllOf, AnyOf, Compare, Not, Op, flatten, member_of, negate
from chronotile.conditions.truth import Sense

if TYPE_CHECKING:
    from chronotile.conditions.tree import Condition


@pytest.mark.parametrize(
    ("predicate", "also"),
    [
        (leaf("a", Op.LT, 3), ("rows where a is NULL",)),
        (leaf("a", Op.NE, 3), ("rows where a is NULL",)),
        (leaf("b", Op.LT, 3), ()),
        (leaf("f", Op.LT, 3), ("rows where f is NaN",)),
        (leaf("f", Op.EQ, 3), ()),
        (leaf("f", Op.NE, 3), ()),
        (leaf("g", Op.LT, 3), ("rows where g is NULL or NaN",)),
        (leaf("g", Op.EQ, 3), ("rows where g is NULL",)),
        (leaf("s", Op.LT, "x"), ("rows where s is NULL",)),
        (leaf("s", Op.EQ), ("rows where s is ''",)),
        (leaf("s", Op.NE), ("rows where s is NULL",)),
        (leaf("t", Op.EQ), ()),
        (
            AllOf(parts=(leaf("a", Op.LT, 3), leaf("b", Op.LT, 2))),
            ("rows where a is NULL and b < 2",),
        ),
        (
            AllOf(
                parts=(
                    leaf("a", Op.LT, 3),
                    AnyOf(parts=(leaf("b", Op.LT, 2), leaf("t", Op.EQ, "x"))),
                )
            ),
            ("rows where a is NULL and (b < 2 or t == 'x')",),
        ),
        (AnyOf(parts=(leaf("a", Op.LT, 3), leaf("b", Op.LT, 2))), ("rows where a is NULL",)),
        (
            AllOf(parts=(leaf("a", Op.LT, 3), leaf("s", Op.GT, "x"))),
            (
                "rows where a is NULL and s > 'x'",
                "rows where s is NULL and a < 3",
                "rows where a is NULL and s is NULL",
            ),
        ),
        (
            AnyOf(parts=(leaf("a", Op.LT, 3), leaf("s", Op.GT, "x"))),
            ("rows where a is NULL", "rows where s is NULL"),
        ),
        (Compare(field="b", op=Op.ALWAYS_TRUE), ()),
        (AnyOf(parts=(leaf("a", Op.LT, 3), Compare(field="b", op=Op.ALWAYS_TRUE))), ()),
        (Compare(field="gone", op=Op.LT), ()),
    ],
)
def test_what_is_also_removed(predicate: Condition, also: tuple[str, ...]) -> None:
    assert also_removes(negate(predicate), MIXED) == also


def test_what_is_also_kept() -> None:
    assert also_keeps(negate(leaf("s", Op.NE)), MIXED) == ("rows where s is ''",)
    assert also_keeps(negate(AllOf(parts=(leaf("s", Op.NE), leaf("b", Op.LT, 2)))), MIXED) == (
        "rows where s is '' and b < 2",
    )
    assert also_keeps(negate(leaf("s", Op.EQ)), MIXED) == ()
    assert also_keeps(negate(leaf("a", Op.LT, 3)), MIXED) == ()


@given(st.data())
def test_a_warning_is_given_if_and_only_if_there_is_such_a_row(data: st.DataObject) -> None:
    names = data.draw(
        st.lists(st.sampled_from(["a", "b", "f", "g", "t"]), min_size=1, max_size=3, unique=True)
    )
    samples: dict[str, tuple[object, ...]] = {
        "a": (None, 1, 2, 3),
        "b": (1, 2, 3),
        "f": (float("nan"), 1.0, 2.0, 3.0),
        "g": (None, float("nan"), 1.0, 2.0, 3.0),
        "t": ("1", "2", "3"),
    }
    found: list[Condition] = [
        leaf(name, data.draw(st.sampled_from([Op.LT, Op.GE, Op.EQ, Op.NE])), samples[name][-2])
        for name in names
    ]
    node = found[0]
    for part in found[1:]:
        both = (node, part)
        node = flatten(AllOf(parts=both) if data.draw(st.booleans()) else AnyOf(parts=both))
    rows: list[dict[str, object]] = [{}]
    for name in names:
        rows = [{**row, name: value} for row in rows for value in samples[name]]
    stored = negate(node)
    unasked = [
        row
        for row in rows
        if removed(stored, row, MIXED) and not matches(node, row, MIXED, Sense.PREDICATE)
    ]
    assert bool(also_removes(stored, MIXED)) is bool(unasked)


@pytest.mark.parametrize(
    ("stored", "said"),
    [
        (leaf("a", Op.EQ), "compared with NULL"),
        (leaf("s", Op.EQ), None),
        (Compare(field="gone", op=Op.EQ), "gone is no field"),
        (Compare(field="b", op=Op.EQ, value=b"ab"), "has 2 bytes, not 1"),
        (member_of("b", Op.IN, (b"ab",)), "is not 1 bytes long"),
        (member_of("s", Op.IN, (b"",)), "have no bytes"),
        (member_of("s", Op.IN, (b"", b"x")), None),
        (Not(part=leaf("b", Op.EQ, 1)), "holds NOT"),
        (AllOf(parts=(leaf("b", Op.EQ, 1),)), "combines 1 conditions"),
        (Compare(field="b", op=Op.ALWAYS_TRUE), None),
    ],
)
def test_what_the_engine_refuses(stored: Condition, said: str | None) -> None:
    found = engine_refuses(stored, MIXED)
    assert (said in found[0]) if said else found == ()


@given(predicates(RICH))
def test_what_the_language_takes_the_engine_reads(node: Condition) -> None:
    assert engine_refuses(negate(node), RICH) == ()
