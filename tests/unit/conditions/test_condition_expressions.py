"""Arrow and SQL, which other tests compare with, find the same rows."""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from support.condition_expressions import to_arrow, to_sql
from support.condition_rows import MIXED, leaf, rows_of
from support.condition_truth import matches
from support.strategies import RICH, SIZES, make_schema, predicates

from chronotile.conditions.tree import AllOf, AnyOf, Compare, Op, fields, leaves, member_of
from chronotile.conditions.truth import Sense
from chronotile.errors import ChronotileError, PredicateError
from chronotile.format import cell_values
from chronotile.format.datatypes import Datatype

if TYPE_CHECKING:
    from chronotile.conditions.tree import Condition


NAN = struct.pack("<d", float("nan"))
ONE = struct.pack("<d", 1.0)


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
