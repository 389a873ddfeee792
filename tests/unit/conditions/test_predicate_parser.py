from __future__ import annotations

import ast
import string
import struct
import warnings
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.strategies import (
    COLOURS,
    RICH,
    SIZES,
    comparisons,
    make_field,
    make_schema,
    predicates,
    trees,
)

from chronotile.conditions.predicate_parser import MAX_LENGTH, parse_literal, parse_predicate
from chronotile.conditions.text import to_text
from chronotile.conditions.tree import AllOf, AnyOf, Compare, Op, flatten, member_of, negate
from chronotile.errors import PredicateError
from chronotile.format import cell_values
from chronotile.format.datatypes import VAR_NUM, Datatype

if TYPE_CHECKING:
    from chronotile.conditions.tree import Condition

SCHEMA = make_schema(
    make_field("d", Datatype.INT64, dimension=True),
    make_field("a", Datatype.INT32),
    make_field("x y", Datatype.INT32),
    make_field("orig.ident", Datatype.INT32),
    make_field("n", Datatype.INT32, nullable=True),
    make_field("f", Datatype.FLOAT64),
    make_field("g", Datatype.FLOAT32),
    make_field("s", Datatype.STRING_UTF8, num=VAR_NUM),
    make_field("ns", Datatype.STRING_ASCII, num=VAR_NUM, nullable=True),
    make_field("t", Datatype.DATETIME_MS),
    make_field("flag", Datatype.BOOL),
    make_field("col", Datatype.INT8, enumeration=COLOURS),
    make_field("size", Datatype.UINT8, enumeration=SIZES),
    make_field("blob", Datatype.BLOB, num=VAR_NUM),
    make_field("wide", Datatype.STRING_UTF16, num=VAR_NUM),
    make_field("pair", Datatype.INT32, num=2),
    make_field("many", Datatype.INT32, num=VAR_NUM),
    make_field("c3", Datatype.CHAR, num=3),
    make_field("number", Datatype.INT32),
    make_field("class", Datatype.INT32),
    make_field("from", Datatype.INT32),
    make_field("ﬁ", Datatype.INT32),
    make_field("m²", Datatype.INT32),
    make_field("bits", Datatype.BLOB, num=VAR_NUM, nullable=True),
)


def leaf(name: str, op: Op, value: object = None) -> Compare:
    field = SCHEMA.field(name)
    assert field is not None
    return Compare(
        field=name, op=op, value=b"" if value is None else cell_values.encode(field, value)
    )


def members(name: str, op: Op, *found: object) -> Compare:
    field = SCHEMA.field(name)
    assert field is not None
    return member_of(name, op, tuple(cell_values.encode(field, value) for value in found))


A1, A2, A3 = (leaf("a", Op.EQ, n) for n in (1, 2, 3))


@pytest.mark.parametrize(
    ("text", "node"),
    [
        ("a < 3", leaf("a", Op.LT, 3)),
        ("3 > a", leaf("a", Op.LT, 3)),
        ("  a\n<\t3 ", leaf("a", Op.LT, 3)),
        ("(a < 3)", leaf("a", Op.LT, 3)),
        ("((a) < (3))", leaf("a", Op.LT, 3)),
        ("(3) > (a)", leaf("a", Op.LT, 3)),
        ("a == -3", leaf("a", Op.EQ, -3)),
        ("a == - +-3", leaf("a", Op.EQ, 3)),
        ("a == 0x1F", leaf("a", Op.EQ, 31)),
        ("a == 1_000", leaf("a", Op.EQ, 1000)),
        ("a == 3.0", leaf("a", Op.EQ, 3)),
        ("a == 1e3", leaf("a", Op.EQ, 1000)),
        ("f == 3", leaf("f", Op.EQ, 3.0)),
        ("f == .5", leaf("f", Op.EQ, 0.5)),
        ("f == -0.0", leaf("f", Op.EQ, -0.0)),
        ("g < 0.1", leaf("g", Op.LT, 0.1)),
        ('f < float("inf")', leaf("f", Op.LT, float("inf"))),
        ('f in [float("nan")]', members("f", Op.IN, float("nan"))),
        ("attr('x y') == 3", leaf("x y", Op.EQ, 3)),
        ('attr("orig.ident") in [1, 2]', members("orig.ident", Op.IN, 1, 2)),
        ('dim("d") >= val(7)', leaf("d", Op.GE, 7)),
        ("val(-7) < d", leaf("d", Op.GT, -7)),
        ("s == 'it\\'s'", leaf("s", Op.EQ, "it's")),
        ('s == "\\x41\\u00e9\\U0001f600\\n\\101\\q"', leaf("s", Op.EQ, "Aé😀\nA\\q")),
        ("s == ''", leaf("s", Op.EQ, "")),
        ("s == b'\\xff'", leaf("s", Op.EQ, b"\xff")),
        ("s in ['x', '',]", members("s", Op.IN, "x", "")),
        ("s not in ['x']", members("s", Op.NOT_IN, "x")),
        ("not s in ['x']", members("s", Op.NOT_IN, "x")),
        ("ns == None", leaf("ns", Op.EQ)),
        ("None != ns", leaf("ns", Op.NE)),
        ("ns == ''", replace(leaf("ns", Op.EQ), is_empty_text=True)),
        ("n == None", leaf("n", Op.EQ)),
        ("n is None", leaf("n", Op.EQ)),
        ("n is not None", leaf("n", Op.NE)),
        ("n is null", leaf("n", Op.EQ)),
        ("n IS NULL", leaf("n", Op.EQ)),
        ("not n Is\tNot\n Null", leaf("n", Op.EQ)),
        ("(n IS NOT NULL) & (a == 1)", AllOf(parts=(leaf("n", Op.NE), A1))),
        ("bits is null", leaf("bits", Op.EQ)),
        ("class == 1 or from != 2", AnyOf(parts=(leaf("class", Op.EQ, 1), leaf("from", Op.NE, 2)))),
        ("ﬁ == 1", leaf("ﬁ", Op.EQ, 1)),
        ("m² == 1", leaf("m²", Op.EQ, 1)),
        ("a in (1, 2)", members("a", Op.IN, 1, 2)),
        ("a in (1,)", members("a", Op.IN, 1)),
        ("(a) not in (1)", members("a", Op.NOT_IN, 1)),
        ("1 < a in [2]", AllOf(parts=(leaf("a", Op.GT, 1), members("a", Op.IN, 2)))),
        ("a == -(3)", leaf("a", Op.EQ, -3)),
        ("t >= '1970-01-01T00:00:01'", leaf("t", Op.GE, 1000)),
        ("t >= 1000", leaf("t", Op.GE, 1000)),
        ("t in ['1970-01-01', 5]", members("t", Op.IN, 0, 5)),
        ("flag == True", leaf("flag", Op.EQ, True)),
        ("flag != 0", leaf("flag", Op.NE, False)),
        ("flag in [True, False]", members("flag", Op.IN, True, False)),
        ("col == 'green'", leaf("col", Op.EQ, "green")),
        ("size > 'small'", leaf("size", Op.GT, "small")),
        ("c3 in ['abc', 'a']", members("c3", Op.IN, "abc", "a")),
        ('a == hex("03000000")', leaf("a", Op.EQ, 3)),
        ('number == hex("03000000")', leaf("number", Op.EQ, 3)),
        ("1 < a <= 5", AllOf(parts=(leaf("a", Op.GT, 1), leaf("a", Op.LE, 5)))),
        ("not 1 < a <= 5", AnyOf(parts=(leaf("a", Op.LE, 1), leaf("a", Op.GT, 5)))),
        ("a == 1 or a == 2 and a == 3", AnyOf(parts=(A1, AllOf(parts=(A2, A3))))),
        ("(a == 1 or a == 2) and a == 3", AllOf(parts=(AnyOf(parts=(A1, A2)), A3))),
        ("(a == 1 and a == 2) and a == 3", AllOf(parts=(A1, A2, A3))),
        ("a == 1 and (a == 2 and a == 3)", AllOf(parts=(A1, A2, A3))),
        ("(a == 1) & (a == 2) | (a == 3)", AnyOf(parts=(AllOf(parts=(A1, A2)), A3))),
        ("not (a == 1) & (a == 2)", negate(AllOf(parts=(A1, A2)))),
        ("not a == 1 and a == 2", AllOf(parts=(negate(A1), A2))),
        ("not not not a == 1", negate(A1)),
        ("not (a == 1 or not a == 2)", AllOf(parts=(negate(A1), A2))),
        ("(a == 1) | (a == 2) and a == 3", AllOf(parts=(AnyOf(parts=(A1, A2)), A3))),
        ("always_true(a)", leaf("a", Op.ALWAYS_TRUE)),
        ('not always_false(a, hex("00"))', Compare(field="a", op=Op.ALWAYS_TRUE, value=b"\0")),
    ],
)
def test_what_is_read(text: str, node: Condition) -> None:
    assert parse_predicate(text, SCHEMA) == node


@pytest.mark.parametrize(
    ("text", "at", "said"),
    [
        ("", 0, "expected a field or a value, found the end"),
        ("a", 0, "expected a comparison such as a > 3, found 'a'"),
        ("a <", 3, "found the end"),
        ("a = 3", 2, "write =="),
        ("a <> 3", 2, "write !="),
        ("a < 3 && a > 1", 6, "expected a comparison, found '&&'; write and"),
        ("a < 3 || a > 1", 6, "found '||'; write or"),
        ("a < 3 AND a > 1", 6, "found 'AND'; write and"),
        ("a < 3 a", 6, "expected an operator or the end, found 'a'"),
        ("(a < 3 a)", 1, "expected and, or, or a comma, found 'a < 3 a'"),
        ("a == 1 & a == 2", 7, "parentheses around the comparisons beside &"),
        ("(a == 1) | a == 2", 9, "write or, or (…) | (…)"),
        ("n is null & a == 2", 10, "write and, or (…) & (…)"),
        ("a > 2024-05-01", 4, "a date needs quotes: FIELD >= '2024-05-01'"),
        ("a > 2024-05-01T10", 12, "a date needs quotes"),
        ("a == 1, a == 2", 0, "expected a comparison such as a > 3, found 'a == 1, a == 2'"),
        ("a + 1 == 3", 0, "expected a field or a value, found 'a + 1'"),
        ("a == 'x' 'y'", 9, "expected an operator or the end"),
        ("s == f'x'", 5, "expected a word of the language"),
        ("s == '''x'''", 5, "expected the end of this string"),
        ("s == 'long\ny'", 5, "expected the end of this string"),
        ("a == (lambda: 3)", 12, "expected a word of the language, found ': 3)'"),
        ("a == __import__('os')", 5, "expected attr, dim, val, hex or float"),
        ("a == a[0]", 5, "expected a field or a value, found 'a[0]'"),
        ("n is 3", 5, "expected None or null after is, found '3'"),
        ("n == null", 5, "found 'null'; to ask for NULL, write FIELD is null"),
        ("a < 3 and", 9, "found the end"),
        ("and a < 3", 0, "found 'and'"),
        ("(a < 3", 0, "expected parentheses in pairs, found '(': '(' was never closed"),
        ("a < 3)", 5, "expected parentheses in pairs, found ')': unmatched ')'"),
        ("(a < 3]", 6, "']' does not match"),
        ("((a < 3) == True)", 2, "expected a field or a value, found 'a < 3'"),
        ("a < 3; drop", 5, "expected a word of the language"),
        ("s == 'x", 5, "expected the end of this string"),
        ("s == '\\xg0'", 5, "expected a string as in Python, found \"'\\\\xg0'\": truncated"),
        ("s == '\\ud800'", 5, "surrogates not allowed"),
        ("s == b'é'", 5, "ASCII"),
        ("s == b'\\777'", 5, "expected a byte after \\, found 777"),
        ("a < 3a", 4, "expected a word"),
        ("aa < 3", 0, "expected a field of the schema, found 'aa'; did you mean a?"),
        ("s == foo", 5, "text needs quotes"),
        ("orig.ident == 3", 0, 'write attr("orig.ident")'),
        ("attr('d') == 3", 0, "expected an attribute, found a dimension: 'd'"),
        ("dim('a') == 3", 0, "expected a dimension, found an attribute: 'a'"),
        ("attr(3) == 3", 5, "expected text in attr()"),
        ("attr('zz') == 3", 0, "expected a field of the schema"),
        ("sin(a) == 3", 0, "expected attr, dim, val, hex or float"),
        ("val(a) == 3", 4, "expected a value in val()"),
        ('a == hex("zz")', 9, "expected hex digits"),
        ('a == hex("00")', 5, "expected 4 bytes, found 1"),
        ("a < d", 4, "found two fields"),
        ("1 < 2", 0, "found two values"),
        ("3 in a", 0, "expected a field before in"),
        ("a in 3", 5, "expected [, found '3'"),
        ("a in []", 5, "expected at least one value"),
        ("a in [1 2]", 6, "expected and, or, or a comma, found '1 2'"),
        ("a in [d]", 6, "expected a value, found a field"),
        ("ns in [None]", 7, "NULL is in no list; write or ns is null"),
        ("s in ['']", 5, "write s == ''"),
        ("a < 'x'", 4, "a: expected a whole number, found 'x'"),
        ("a < 2.5", 4, "expected a whole number, found 2.5"),
        ("a < True", 4, "expected a whole number, found True"),
        ("a < 2147483648", 4, "from -2147483648 to 2147483647"),
        ("a < 12345678901234567.5", 4, "expected a number that INT32 holds"),
        ("f < 0.12345678901234567890", 4, "expected a number that FLOAT64 holds"),
        ("f < 1e999", 4, "within range"),
        ("f < 1e-999", 4, "within range"),
        ("f < 1e" + "9" * 30, 4, "within range"),
        ("f == 9007199254740993", 5, "holds exactly"),
        ("g < 0.123456789", 4, "FLOAT32 holds exactly"),
        ('f < float("nan")', 4, "NaN: nothing is < NaN"),
        ("a == None", 5, "a is never NULL, as it is not nullable"),
        ("d is null", 5, "d is never NULL, as it is a dimension"),
        ("ns < None", 5, "expected a value after <, found None; write ns is null"),
        ("s == 3", 5, "expected text, found 3"),
        ("ns == 'é'", 6, "expected text of STRING_ASCII"),
        ("t > '1970-01-01T00:00:00.0001'", 4, "whole number of DATETIME_MS"),
        ("t > 'soon'", 4, "a date such as"),
        ("flag == 2", 8, "expected True or False"),
        ("col == 'gren'", 7, "did you mean 'green'?"),
        ("col < 'green'", 6, "the labels of col have no order"),
        ("blob == b'x'", 8, "blob, which is BLOB"),
        ("wide == 'x'", 8, "which is STRING_UTF16"),
        ("pair == 3", 8, "one value in each cell"),
        ("many == 3", 8, "one value in each cell"),
        ("c3 == 'abc'", 6, "TileDB would compare its first byte only"),
        ("c3 in ['abcd']", 7, "expected 3 bytes, found 4"),
        ("a == 1 & not a == 2", 9, "expected a field or a value, found 'not'"),
        ("a == " + "9" * 500, 5, "at most 400 digits"),
        ("a < " + "(" * 200 + "3" + ")" * 200, 154, "at most 150 nested (, found more"),
    ],
)
def test_what_is_refused_and_where(text: str, at: int, said: str) -> None:
    with pytest.raises(PredicateError) as caught:
        parse_predicate(text, SCHEMA)
    problem, shown, caret = caught.value.problem.split("\n")
    assert said in problem
    assert caught.value.where == f"predicate, column {at + 1}"
    assert shown[caret.index("^") :].startswith(text[at : at + 5].rstrip())
    assert caught.value.exit_code == 2


def test_a_long_text_is_shown_in_part() -> None:
    text = " and ".join(["a < 3"] * 100) + " and zz < 3" + " and a < 3" * 100
    with pytest.raises(PredicateError) as caught:
        parse_predicate(text, SCHEMA)
    _, shown, caret = caught.value.problem.split("\n")
    assert len(shown) < 140
    assert shown[caret.index("^") :].startswith("zz < 3")


def test_bounds() -> None:
    with pytest.raises(PredicateError, match="at most 1000000 characters"):
        parse_predicate("a" * (MAX_LENGTH + 1), SCHEMA)
    many = parse_predicate(" or ".join(["a == 1"] * 50_000), SCHEMA)
    assert isinstance(many, AnyOf)
    assert len(many.parts) == 50_000
    assert parse_predicate("(" * 150 + "a == 1" + ")" * 150, SCHEMA) == A1
    assert parse_predicate("not " * 49 + "a == 1", SCHEMA) == negate(A1)
    bits = parse_predicate(" | ".join(["(a == 1)"] * 501), SCHEMA)
    assert bits == AnyOf(parts=(A1,) * 501)


HOSTILE = {
    "parentheses": "(" * 100_000 + "a == 1" + ")" * 100_000,
    "brackets": "a in " + "[" * 100_000,
    "not": "not " * 100_001 + "a == 1",
    "signs": "a == " + "- +" * 100_000 + "1",
    "bit signs": " & ".join(["(a == 1)"] * 100_000),
    "items": "a" + "[a]" * 100_000 + " == 1",
    "calls": "attr" + "('a')" * 100_000 + " == 1",
    "not in parentheses": ("not " * 40 + "(") * 150 + "a == 1" + ")" * 150,
    "digits": "a == " + "1" * 900_000 + "x",
    "digits with _": "a == " + "1_" * 400_000 + "e",
    "an open string": "s == '" + "\\'" * 400_000,
    "dots": "." * 900_000,
    "is": "is " * 300_000,
    "NUL": "\0",
    "half a character": "\ud800",
}


@pytest.mark.parametrize("name", HOSTILE)
def test_a_hostile_text_is_refused(name: str) -> None:
    with pytest.raises(PredicateError):
        parse_predicate(HOSTILE[name], SCHEMA)


def test_a_long_list() -> None:
    text = f"a in [{', '.join(str(n) for n in range(20_000))}]"
    node = parse_predicate(text, SCHEMA)
    assert isinstance(node, Compare)
    assert node.members[-1] == struct.pack("<i", 19_999)


@given(predicates(RICH))
def test_text_is_read_back(node: Condition) -> None:
    assert parse_predicate(to_text(node, RICH), RICH) == node


@given(trees(comparisons(RICH), flat=False))
def test_text_of_any_tree_is_read_back_flat(node: Condition) -> None:
    assert parse_predicate(to_text(node, RICH), RICH) == flatten(node)


@given(predicates(RICH))
def test_text_without_a_schema_is_read_back_with_one(node: Condition) -> None:
    text = to_text(node).replace('attr("key dim")', 'dim("key dim")')
    assert parse_predicate(text, RICH) == node


WORDS = (
    *("a", "s", "ns", "and", "or", "not", "in", "<", "==", "(", ")", "[", "]", ",", "3", "'x'"),
    *("None", "&", "|", "-", "attr", "val", ".", "=", "1e5", "b'x'", "hex", '"00"', "always_true"),
    *("is", "IS", "null", "n", "class", "''", "lambda", ":", "if", "else", "f", "{", "}", "\\"),
)


JOINED = st.builds(
    str.join, st.sampled_from(("", " ")), st.lists(st.sampled_from(WORDS), max_size=12)
)


@given(JOINED | st.text(max_size=30))
def test_any_text_is_a_predicate_or_an_error(text: str) -> None:
    try:
        node = parse_predicate(text, SCHEMA)
    except PredicateError:
        return
    assert parse_predicate(to_text(node, SCHEMA), SCHEMA) == node


def test_literals() -> None:
    assert parse_literal("'x'") == "x"
    for text in ("", "a", "3 4", "a < 3"):
        with pytest.raises(PredicateError):
            parse_literal(text)


@given(st.text(st.characters(codec="utf-8")) | st.binary())
def test_a_string_is_read_as_python_reads_it(value: str | bytes) -> None:
    assert parse_literal(repr(value)) == value


@pytest.mark.parametrize("prefix", ["", "b"])
@pytest.mark.parametrize("follows", ["", "0", "41", "0041", "00000041", "777"])
def test_an_escape_means_what_it_means_in_python(prefix: str, follows: str) -> None:
    for one in sorted({*string.printable} - {"N", "\r"}):
        text = f"{prefix}'a\\{one}{follows}z'"
        with warnings.catch_warnings(action="ignore"):  # of escapes that mean nothing
            try:
                expected = ast.literal_eval(text)
            except SyntaxError:
                expected = None
        try:
            found = parse_literal(text)
        except PredicateError:
            found = None
        # Python cuts a byte that is too large, and warns of such a letter; both are refused here.
        if one in "4567" and follows[1:2].isdigit():
            assert found is None
        else:
            assert found == expected, text
