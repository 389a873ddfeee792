from __future__ import annotations

import json
import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.strategies import COLOURS, RICH, make_field, make_schema, raw_values

from chronotile.conditions.tree import UpdateValue
from chronotile.conditions.update_values import parse_assignments, to_json, update_values
from chronotile.errors import PredicateError
from chronotile.format import cell_values
from chronotile.format.datatypes import VAR_NUM, Datatype

SCHEMA = make_schema(
    make_field("d", Datatype.INT64, dimension=True),
    make_field("a", Datatype.INT32),
    make_field("a=b", Datatype.INT32),
    make_field("n", Datatype.INT32, nullable=True),
    make_field("f", Datatype.FLOAT64),
    make_field("s", Datatype.STRING_UTF8, num=VAR_NUM, nullable=True),
    make_field("t", Datatype.DATETIME_DAY),
    make_field("flag", Datatype.BOOL),
    make_field("col", Datatype.INT8, enumeration=COLOURS),
    make_field("blob", Datatype.BLOB, num=VAR_NUM),
    make_field("many", Datatype.INT16, num=VAR_NUM),
)


def test_values_form() -> None:
    found = update_values({"a": 777, "s": "new", "n": None, "t": "1970-01-02"}, SCHEMA)
    assert found == (
        UpdateValue("a", struct.pack("<i", 777)),
        UpdateValue("s", b"new"),
        UpdateValue("n", b""),
        UpdateValue("t", struct.pack("<q", 1)),
    )
    assert to_json(found, SCHEMA) == [
        {"field": "a", "value": 777, "raw": "09030000"},
        {"field": "s", "value": "new", "raw": "6e6577"},
        {"field": "n", "value": None, "raw": ""},
        {"field": "t", "value": "1970-01-02", "raw": "0100000000000000"},
    ]
    assert to_json(found)[0] == {"field": "a", "raw": "09030000"}


@given(st.data())
def test_json_comes_back(data: st.DataObject) -> None:
    name = data.draw(st.sampled_from([field.name for field in RICH.attributes]))
    field = RICH.field(name)
    assert field is not None
    raw = data.draw(raw_values(field))
    (document,) = json.loads(json.dumps(to_json([UpdateValue(name, raw)], RICH), allow_nan=False))
    value = document["value"]
    if value is None:
        assert raw == b""
    else:
        assert update_values({name: value}, RICH) == (UpdateValue(name, raw),)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("a=3", 3),
        ("a = 3", 3),
        ("a=-0x10", -16),
        ("a=3.0", 3),
        ("a=b=4", 4),
        ("n=None", None),
        ("f=0.5", 0.5),
        ('f=float("-inf")', float("-inf")),
        ("s=new", "new"),
        ("s=", ""),
        ("s=a = b", "a = b"),
        ("s='None'", "None"),
        ('s="it\'s"', "it's"),
        ("s=None", None),
        ("s=b'\\xff'", b"\xff"),
        ("t=1970-01-03", 2),
        ("t='1970-01-03'", 2),
        ("t=2", 2),
        ("flag=True", True),
        ("col=green", "green"),
        ("blob=b'x'", b"x"),
        ('blob=hex("00ff")', b"\0\xff"),
    ],
)
def test_assignments(text: str, value: object) -> None:
    (found,) = parse_assignments([text], SCHEMA)
    field = SCHEMA.field(found.field)
    assert field is not None
    assert found.field == ("a=b" if text.startswith("a=b") else text[: text.index("=")].strip())
    assert found.value == cell_values.encode(field, value)


@pytest.mark.parametrize(
    ("texts", "said"),
    [
        ([], "at least one value"),
        (["a"], "expected field=value"),
        (["zz=3"], "there is no field 'zz'; there are "),
        (["flg=True"], "did you mean flag?"),
        (["d=3"], "expected an attribute, found a dimension"),
        (["a=1", "a=2"], "expected one value, found two"),
        (["a=None"], "not nullable"),
        (["a=x"], "a: expected a whole number, found 'x'"),
        (["a=null"], "a: expected a value, found null; write None for NULL"),
        (["a=3000000000"], "a number from"),
        (["a=2.5"], "whole number"),
        (["a=1 2"], "a: expected a whole number, found '1 2'"),
        (["t=1970-01-03T01"], "whole number of DATETIME_DAY"),
        (["col=gren"], "did you mean 'green'"),
        (['a=hex("00")'], "expected 4 bytes"),
    ],
)
def test_assignments_that_are_refused(texts: list[str], said: str) -> None:
    with pytest.raises(PredicateError, match=said.replace("?", r"\?")):
        parse_assignments(texts, SCHEMA)


def test_mappings_that_are_refused() -> None:
    for wanted in ({}, {"zz": 1}, {"d": 1}, {"a": "x"}, {"a": None}, {"blob": "x"}, {"many": 3}):
        with pytest.raises(PredicateError, match=r"expected|there is no field"):
            update_values(wanted, SCHEMA)


def test_lists_and_bytes() -> None:
    assert update_values({"many": [1, 2], "blob": b"x"}, SCHEMA) == (
        UpdateValue("many", b"\1\0\2\0"),
        UpdateValue("blob", b"x"),
    )
