"""Conditions as bytes: there and back, and bytes that are none."""

from __future__ import annotations

import contextlib
import struct
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.condition_expressions import to_arrow, to_sql
from support.condition_from_json import from_json
from support.condition_truth import matches
from support.strategies import make_field, make_schema, raw_conditions, update_lists

from chronotile.conditions.codec import MAX_LEVELS, decode, decode_update, encode, encode_update
from chronotile.conditions.predicate_parser import parse_predicate
from chronotile.conditions.side_effects import also_removes, engine_refuses
from chronotile.conditions.text import to_json, to_text
from chronotile.conditions.tree import AllOf, AnyOf, Compare, Op, flatten, member_of, negate
from chronotile.conditions.truth import Sense
from chronotile.errors import BadFileError, PredicateError
from chronotile.format.datatypes import Datatype

if TYPE_CHECKING:
    from chronotile.conditions.tree import Condition, UpdateValue


A_GE_3 = bytes.fromhex("01030100000061040000000000000003000000")
"""What libtiledb 2.30 wrote for `delete where a < 3`."""
AND_OF_THREE = bytes.fromhex(
    "00010300000000000000"
    "01010100000069040000000000000001000000"
    "01020100000069040000000000000003000000"
    "0103010000006408000000000000000400000000000000"
)
"""What it wrote for `delete where 1 < i <= 3 and d < 4`."""


def int32(number: int) -> bytes:
    return struct.pack("<i", number)


def test_bytes_of_the_engine() -> None:
    assert decode(A_GE_3) == Compare(field="a", op=Op.GE, value=int32(3))
    assert decode(AND_OF_THREE) == AnyOf(
        parts=(
            Compare(field="i", op=Op.LE, value=int32(1)),
            Compare(field="i", op=Op.GT, value=int32(3)),
            Compare(field="d", op=Op.GE, value=struct.pack("<q", 4)),
        )
    )
    assert encode(decode(AND_OF_THREE)) == AND_OF_THREE


@given(raw_conditions())
def test_every_tree_comes_back_from_its_bytes(node: Condition) -> None:
    assert decode(encode(node)) == node


@given(raw_conditions(), update_lists())
def test_every_update_comes_back_from_its_bytes(
    node: Condition, found: tuple[UpdateValue, ...]
) -> None:
    assert decode_update(encode_update(node, found)) == (node, found)


@given(st.binary(max_size=200))
def test_any_bytes_are_a_condition_or_an_error_that_says_where(data: bytes) -> None:
    for reader in (decode, decode_update):
        problem = None
        try:
            reader(data, "x.del")
        except BadFileError as error:
            problem = error
        if problem is not None:
            assert problem.where == "x.del"
            assert problem.offset is not None
            assert 0 <= problem.offset <= len(data)


@given(raw_conditions(), st.data())
def test_bytes_with_one_changed_are_a_condition_or_an_error(
    node: Condition, data: st.DataObject
) -> None:
    payload = bytearray(encode(node))
    payload[data.draw(st.integers(0, len(payload) - 1))] = data.draw(st.integers(0, 255))
    with contextlib.suppress(BadFileError):
        assert encode(decode(bytes(payload))) == payload


@given(raw_conditions())
def test_bytes_cut_short_are_refused(node: Condition) -> None:
    payload = encode(node)
    for size in range(len(payload)):
        with pytest.raises(BadFileError):
            decode(payload[:size])


LEAF = encode(Compare(field="a", op=Op.LT, value=b"x"))
HUGE = b"\xff" * 8


@pytest.mark.parametrize(
    ("payload", "offset", "said"),
    [
        (b"", 0, "expected 2 bytes, found 0"),
        (LEAF + b"x", len(LEAF), "expected the end, found 1 bytes more"),
        (b"\x02" + LEAF[1:], 0, "expected node type 0 or 1, found 2"),
        (b"\x01\x08" + LEAF[2:], 1, "found 8"),
        (b"\x01\xff" + LEAF[2:], 1, "found 255"),
        (b"\0\x03" + bytes(8), 1, "expected combination op 0, 1 or 2, found 3"),
        (b"\0\0" + HUGE, 2, "expected a number of children of at most 0"),
        (b"\0\0" + struct.pack("<Q", 2) + LEAF, 2, "of at most 1, found 2"),
        (b"\0\x02" + struct.pack("<Q", 2) + LEAF * 2, 2, "expected one child of NOT, found 2"),
        (b"\0\x02" + bytes(8), 2, "expected one child of NOT, found 0"),
        (b"\x01\0\xff\xff\xff\xffa", 6, "expected 4294967295 bytes, found 1"),
        (b"\x01\0\x01\0\0\0\xff" + bytes(8), 6, "expected a field name in UTF-8"),
        (b"\x01\0\x01\0\0\0a" + HUGE, 7, "expected a value size of at most 0"),
        (b"\x01\x06\x01\0\0\0a" + bytes(8) + HUGE, 15, "expected a size of offsets"),
        (b"\x01\x06\0\0\0\0" + bytes(8) + struct.pack("<Q", 4) + b"abcd", 14, "8 bytes each"),
        (encode(Compare(field="", op=Op.IN, value=b"ab", offsets=(1, 0))), 24, "that rise"),
        (encode(Compare(field="", op=Op.IN, value=b"ab", offsets=(0, 3))), 24, "up to 2"),
    ],
)
def test_bytes_that_are_refused(payload: bytes, offset: int, said: str) -> None:
    with pytest.raises(BadFileError) as caught:
        decode(payload, "x.del")
    assert said in caught.value.problem
    assert caught.value.offset == offset


def nested(levels: int) -> Condition:
    node: Condition = Compare(field="a", op=Op.LT)
    for level in range(levels - 1):
        node = AllOf(parts=(node,)) if level % 2 else AnyOf(parts=(node,))
    return node


def test_depth() -> None:
    deepest = encode(nested(MAX_LEVELS))
    assert encode(decode(deepest)) == deepest
    with pytest.raises(PredicateError, match="at most 250 levels"):
        encode(nested(MAX_LEVELS + 1))
    too_deep = (b"\0\x02" + struct.pack("<Q", 1)) * 100_000 + LEAF
    with pytest.raises(BadFileError, match="at most 250 levels") as caught:
        decode(too_deep)
    assert caught.value.offset == 10 * (MAX_LEVELS - 1)


def test_every_question_can_be_asked_of_the_deepest_tree() -> None:
    schema = make_schema(make_field("a", Datatype.INT8))
    node: Condition = Compare(field="a", op=Op.LT, value=b"\3")
    for level in range(MAX_LEVELS - 1):
        node = (AllOf if level % 2 else AnyOf)(
            parts=(node, Compare(field="a", op=Op.LT, value=b"\3"))
        )
    assert encode(negate(negate(node))) == encode(node) == encode(flatten(node))
    assert encode(parse_predicate(to_text(node, schema), schema)) == encode(node)
    assert encode(from_json(to_json(node, schema), schema)) == encode(node)
    for sense in Sense:
        assert matches(node, {"a": 2}, schema, sense)
    assert to_sql(node, schema).count("a < 3") == MAX_LEVELS
    assert to_arrow(node, schema) is not None
    assert also_removes(node, schema) == engine_refuses(node, schema) == ()


def test_a_long_list_of_members() -> None:
    members = tuple(f"m{number}".encode() for number in range(20_000))
    node = member_of("s", Op.IN, members)
    assert decode(encode(node)) == node
    assert node.members == members


@pytest.mark.parametrize(
    ("payload", "said"),
    [
        (LEAF, "expected 8 bytes, found 0"),
        (LEAF + HUGE, "expected a number of values of at most 0"),
        (LEAF + struct.pack("<QQ", 1, 9) + bytes(8), "expected the size of a name"),
        (LEAF + struct.pack("<QQQ", 1, 0, 9), "expected a size of at most 0"),
        (LEAF + bytes(8) + b"x", "expected the end"),
    ],
)
def test_updates_that_are_refused(payload: bytes, said: str) -> None:
    with pytest.raises(BadFileError, match=said):
        decode_update(payload)
