from __future__ import annotations

import contextlib
import json
import struct
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from support.condition_expressions import INTEGERS, to_arrow, to_sql
from support.condition_from_json import from_json
from support.condition_truth import matches, removed
from support.strategies import (
    COLOURS,
    RICH,
    SIZES,
    comparisons,
    make_field,
    make_schema,
    predicates,
    raw_comparisons,
    raw_conditions,
    trees,
    update_lists,
)

from chronotile.conditions.codec import MAX_LEVELS, decode, decode_update, encode, encode_update
from chronotile.conditions.predicate_parser import parse_predicate
from chronotile.conditions.side_effects import also_keeps, also_removes, engine_refuses
from chronotile.conditions.text import to_json, to_text
from chronotile.conditions.tree import (
    AllOf,
    AnyOf,
    Compare,
    Not,
    Op,
    fields,
    flatten,
    leaves,
    member_of,
    negate,
)
from chronotile.conditions.truth import Cell, Sense, leaf_truth
from chronotile.errors import BadFileError, ChronotileError, PredicateError
from chronotile.format import cell_values
from chronotile.format.datatypes import VAR_NUM, Datatype

if TYPE_CHECKING:
    from collections.abc import Iterator

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


# Bytes.


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


# The tree.


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


def rows_of(data: st.DataObject, node: Condition) -> dict[str, object]:
    """A row that is likely to meet the values of the condition."""
    row: dict[str, object] = {}
    for leaf in leaves(node):
        field = RICH.field(leaf.field)
        assert field is not None
        known = [cell_values.decode(field, raw) for raw in leaf.members or (leaf.value,)]
        choices = [*known, *([None] if field.nullable else [])]
        if field.datatype.is_float and not field.is_dimension:
            choices.append(float("nan"))
        if field.datatype in INTEGERS and field.enumeration is None:
            choices += [0, 1, 5]
        row[leaf.field] = data.draw(st.sampled_from(choices))
    return row


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


# Text and JSON.


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


# Truth.

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


# What a delete does beyond what it says.

MIXED = make_schema(
    make_field("a", Datatype.INT8, nullable=True),
    make_field("b", Datatype.INT8),
    make_field("f", Datatype.FLOAT64),
    make_field("g", Datatype.FLOAT64, nullable=True),
    make_field("s", Datatype.STRING_UTF8, num=VAR_NUM, nullable=True),
    make_field("t", Datatype.STRING_UTF8, num=VAR_NUM),
)


def leaf(name: str, op: Op, value: object = None) -> Compare:
    field = MIXED.field(name)
    assert field is not None
    return Compare(
        field=name, op=op, value=b"" if value is None else cell_values.encode(field, value)
    )


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


# Other engines.


def arrow_table(schema_fields: list[str], rows: list[dict[str, object]]) -> object:
    import pyarrow as pa
    from support.condition_expressions import _arrow_type

    columns = {}
    for name in schema_fields:
        field = RICH.field(name)
        assert field is not None
        cells = []
        for row in rows:
            value = row[name]
            cells.append(value.decode("latin-1") if isinstance(value, bytes) else value)
        columns[name] = pa.array(cells, type=_arrow_type(field))
    return pa.table(columns)


# A date32 ends long before an int64 of days.
ARROW = make_schema(
    *(field for field in RICH.fields if field.datatype is not Datatype.DATETIME_DAY)
)


@given(predicates(ARROW), st.data(), st.sampled_from(list(Sense)))
@example(node=Compare(field="n_size", op=Op.GE, value=b"\1\0"), data=None, sense=Sense.PREDICATE)
def test_arrow_keeps_the_same_rows(
    node: Condition, data: st.DataObject | None, sense: Sense
) -> None:
    import pyarrow as pa

    if data is None:
        rows: list[dict[str, object]] = [{"n_size": label} for label in (*SIZES.labels, None)]
    else:
        rows = [rows_of(data, node) for _ in range(3)]
    # Arrow, unlike the engine, takes -0.0 for 0.0 in a list.
    zeros = (bytes(4), bytes(8), bytes(3) + b"\x80", bytes(7) + b"\x80")
    if any(set(part.members) & set(zeros) for part in leaves(node)):
        return
    table = arrow_table(list(fields(node)), rows)
    assert isinstance(table, pa.Table)
    kept = table.filter(to_arrow(node, RICH, sense))
    wanted = [row for row in rows if matches(node, row, RICH, sense)]
    left = arrow_table(list(fields(node)), wanted)
    assert isinstance(left, pa.Table)
    for ours, theirs in zip(kept.columns, left.columns, strict=True):
        if pa.types.is_floating(ours.type):  # as text, in which NaN is NaN
            assert repr(ours.to_pylist()) == repr(theirs.to_pylist())
        else:
            assert ours.equals(theirs)


@pytest.mark.parametrize(
    ("node", "sql"),
    [
        (leaf("a", Op.LT, 3), "a < 3"),
        (leaf("s", Op.EQ), "s IS NULL"),
        (leaf("t", Op.EQ), "t = ''"),
        (
            leaf("t", Op.NE, "it's \\ é\n"),
            "t <> 'it' || chr(39) || 's ' || chr(92) || ' é' || chr(10)",
        ),
        (leaf("f", Op.GT, 0.5), "f > CAST('0.5' AS DOUBLE) AND NOT isnan(f)"),
        (leaf("f", Op.LT, float("inf")), "f < CAST('Infinity' AS DOUBLE)"),
        (member_of("f", Op.IN, (NAN, ONE)), "f IN (CAST('1.0' AS DOUBLE)) OR isnan(f)"),
        (member_of("a", Op.NOT_IN, (b"\1", b"\2")), "NOT (a IN (1, 2)) AND a IS NOT NULL"),
        (
            AnyOf(
                parts=(leaf("a", Op.LT, 3), AllOf(parts=(leaf("b", Op.EQ, 1), leaf("f", Op.LE, 2))))
            ),
            "(a < 3) OR ((b = 1) AND (f <= CAST('2.0' AS DOUBLE)))",
        ),
        (Compare(field="a", op=Op.ALWAYS_FALSE), "FALSE"),
    ],
)
def test_sql(node: Condition, sql: str) -> None:
    assert to_sql(node, MIXED) == sql


def test_sql_of_other_types() -> None:
    def sql(name: str, op: Op, value: object, **options: str) -> str:
        field = RICH.field(name)
        assert field is not None
        node = Compare(field=name, op=op, value=cell_values.encode(field, value))
        return to_sql(node, RICH, **options)  # type: ignore[arg-type]  # quote is text

    assert sql("datetime_ms", Op.GE, "2020-01-02T03:04:05.006") == (
        "datetime_ms >= TIMESTAMP '2020-01-02 03:04:05.006'"
    )
    assert sql("datetime_week", Op.GE, "1970-01-08") == "datetime_week >= DATE '1970-01-08'"
    assert sql("datetime_year", Op.GE, "2020") == "datetime_year >= DATE '2020-01-01'"
    assert sql("datetime_ns", Op.GE, 5) == "datetime_ns >= 5"
    assert (
        sql("uint64", Op.EQ, 2**64 - 1) == "uint64 = CAST('18446744073709551615' AS DECIMAL(20, 0))"
    )
    assert sql("int64", Op.EQ, -(2**63)) == "int64 = CAST('-9223372036854775808' AS BIGINT)"
    assert sql("float32", Op.EQ, 0.1) == "float32 = CAST('0.1' AS FLOAT)"
    assert sql("bool", Op.EQ, True) == "bool = TRUE"
    assert sql("n_size", Op.GE, "medium") == "n_size IN ('medium', 'large')"
    assert sql("not", Op.EQ, 3) == '"not" = 3'
    assert sql("not", Op.EQ, 3, quote="`") == "`not` = 3"
    stored = to_sql(Compare(field="n_string_utf8", op=Op.EQ), RICH, Sense.STORED)
    assert stored == "n_string_utf8 = ''"


def test_values_that_other_engines_cannot_have() -> None:
    broken = Compare(field="a", op=Op.EQ, value=b"abc")
    with pytest.raises(ChronotileError, match="one value of its type"):
        to_sql(broken, MIXED)
    with pytest.raises(ChronotileError, match="one value of its type"):
        to_arrow(broken, MIXED)


def test_dates_that_arrow_does_not_have() -> None:
    field = RICH.field("datetime_day")
    assert field is not None
    fits = Compare(field=field.name, op=Op.EQ, value=cell_values.encode(field, "2020-01-01"))
    assert "2020-01-01" in str(to_arrow(fits, RICH))
    beyond = Compare(field=field.name, op=Op.EQ, value=cell_values.encode(field, 2**40))
    with pytest.raises(PredicateError, match="a value that Arrow holds"):
        to_arrow(beyond, RICH)
