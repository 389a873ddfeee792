"""Conditions as text and as JSON."""

from __future__ import annotations

import json
import struct
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.condition_from_json import from_json
from support.strategies import (
    COLOURS,
    RICH,
    comparisons,
    make_field,
    make_schema,
    raw_comparisons,
    raw_conditions,
    trees,
)

from chronotile.conditions.codec import MAX_LEVELS
from chronotile.conditions.side_effects import also_removes, engine_refuses
from chronotile.conditions.text import to_json, to_text
from chronotile.conditions.tree import AnyOf, Compare, Not, Op, leaves, member_of
from chronotile.errors import PredicateError
from chronotile.format.datatypes import VAR_NUM, Datatype

if TYPE_CHECKING:
    from collections.abc import Iterator

    from chronotile.conditions.tree import Condition


def int32(number: int) -> bytes:
    return struct.pack("<i", number)


@given(trees(comparisons(RICH), flat=False))
def test_json_comes_back(node: Condition) -> None:
    document = json.loads(json.dumps(to_json(node, RICH), allow_nan=False))
    assert from_json(document, RICH) == node


@given(raw_conditions())
def test_json_and_text_without_a_schema(node: Condition) -> None:
    document = json.loads(json.dumps(to_json(node)))
    assert "value" not in document
    assert to_text(node)
    if not any(leaf.op.is_set for leaf in leaves(node)):
        assert from_json(document) == node


@given(
    trees(
        st.builds(
            lambda name, leaf: Compare(
                field=name, op=leaf.op, value=leaf.value, offsets=leaf.offsets
            ),
            st.sampled_from([field.name for field in RICH.fields]),
            raw_comparisons(),
        ),
        flat=False,
    )
)
def test_any_bytes_have_text_and_json(node: Condition) -> None:
    document = json.loads(json.dumps(to_json(node, RICH), allow_nan=False))
    assert list(raw_of(document)) == [part.value.hex() for part in leaves(node)]
    text = to_text(node, RICH)
    assert text.encode()
    for part in leaves(node):
        assert part.op.is_constant or part.op.symbol in text
    for said in (*engine_refuses(node, RICH), *also_removes(node, RICH)):
        assert said.encode()


def raw_of(document: Any) -> Iterator[str]:
    """The raw values of a condition's JSON, from left to right."""
    if "children" not in document:
        yield document["raw"]
    for child in document.get("children", ()):
        yield from raw_of(child)


def test_json_form() -> None:
    schema = make_schema(
        make_field("a", Datatype.INT32),
        make_field("s", Datatype.STRING_UTF8, num=VAR_NUM, nullable=True),
        make_field("c", Datatype.INT8, enumeration=COLOURS),
        make_field("t", Datatype.DATETIME_MS),
    )
    node = AnyOf(
        parts=(
            Compare(field="a", op=Op.LT, value=int32(3)),
            member_of("s", Op.IN, (b"x", b"", b"\xff")),
            Compare(field="s", op=Op.EQ),
            Compare(field="c", op=Op.NE, value=b"\x01"),
            Compare(field="t", op=Op.GE, value=bytes(8)),
            Not(part=Compare(field="a", op=Op.ALWAYS_TRUE)),
        )
    )
    assert to_json(node, schema) == {
        "op": "or",
        "children": [
            {"op": "lt", "field": "a", "value": 3, "raw": "03000000"},
            {"op": "in", "field": "s", "value": ["x", "", "ff"], "raw": "78ff"},
            {"op": "eq", "field": "s", "value": None, "raw": ""},
            {"op": "ne", "field": "c", "value": "green", "raw": "01"},
            {
                "op": "ge",
                "field": "t",
                "value": "1970-01-01T00:00:00.000",
                "raw": "0000000000000000",
            },
            {
                "op": "not",
                "children": [{"op": "always_true", "field": "a", "value": None, "raw": ""}],
            },
        ],
    }
    assert to_text(node, schema) == (
        "a < 3 or s in ['x', '', b'\\xff'] or s == None or c != 'green'"
        " or t >= '1970-01-01T00:00:00.000' or (not (always_true(a)))"
    )
    assert from_json(to_json(node, schema), schema) == node


@pytest.mark.parametrize(
    "document",
    [
        None,
        [],
        {},
        {"op": 3},
        {"op": "xor", "children": []},
        {"op": "and"},
        {"op": "not", "children": []},
        {"op": "lt", "raw": "00"},
        {"op": "lt", "field": "a", "raw": "0"},
        {"op": "lt", "field": "a", "raw": 3},
        {"op": "lt", "field": "a", "value": 3},
        {"op": "in", "field": "a", "raw": "00"},
        {"op": "in", "field": "string_utf8", "raw": "00", "value": ["x"]},
    ],
)
def test_json_that_is_refused(document: object) -> None:
    with pytest.raises(PredicateError, match="expected"):
        from_json(document, RICH)


def test_json_that_is_too_deep() -> None:
    document: object = {"op": "lt", "field": "a", "raw": ""}
    for _ in range(MAX_LEVELS):
        document = {"op": "and", "children": [document]}
    with pytest.raises(PredicateError, match="levels"):
        from_json(document)
