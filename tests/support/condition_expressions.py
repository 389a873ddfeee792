"""Conditions for other engines.

In: a tree, a schema and the sense in which it is meant. Out: SQL that Spark and DuckDB both
read, or a `pyarrow.compute` expression. Knows no rows; a value that cannot be typed is refused.

A filter keeps the rows where it is true, so unknown counts as false, as it does in TileDB. Both
forms have `Not` pushed down and nested `or` merged first.
"""

from __future__ import annotations

import functools
import math
import operator
import re
from typing import TYPE_CHECKING, Any, assert_never

from support.condition_truth import field_of

from chronotile.conditions.tree import (
    AllOf,
    AnyOf,
    Compare,
    Condition,
    Not,
    Op,
    flatten,
    fold,
    member_of,
)
from chronotile.conditions.truth import Sense, leaf_truth
from chronotile.errors import PredicateError
from chronotile.format import cell_values
from chronotile.format.datatypes import Datatype
from chronotile.format.datetime_values import text_to_ticks, ticks_to_text

if TYPE_CHECKING:
    from chronotile.format.cell_values import Scalar
    from chronotile.format.schema import Field, Schema

_SQL_OPS = {Op.LT: "<", Op.LE: "<=", Op.GT: ">", Op.GE: ">=", Op.EQ: "=", Op.NE: "<>"}
_PLAIN_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_PLAIN_TEXT = re.compile(r"[^\x00-\x1f'\\]+")
_SQL_WORDS = re.compile(
    r"ALL|AND|ANY|AS|ASC|BETWEEN|BOTH|BY|CASE|CAST|CHECK|COLLATE|COLUMN|CREATE|CROSS"
    r"|CURRENT_DATE|CURRENT_TIME|CURRENT_TIMESTAMP|CURRENT_USER|DATE|DEFAULT|DESC|DISTINCT"
    r"|DO|ELSE|END|EXCEPT|EXISTS|FALSE|FETCH|FOR|FROM|FULL|GRANT|GROUP|HAVING|ILIKE|IN|INNER"
    r"|INTERSECT|INTERVAL|INTO|IS|JOIN|LATERAL|LEADING|LEFT|LIKE|LIMIT|MINUS|NATURAL|NOT"
    r"|NULL|OFFSET|ON|ONLY|OR|ORDER|OUTER|OVERLAPS|PIVOT|PRIMARY|REFERENCES|RIGHT|SELECT"
    r"|SEMI|ANTI|SESSION_USER|SOME|SYMMETRIC|TABLE|THEN|TIME|TIMESTAMP|TO|TRAILING|TRUE"
    r"|UNION|UNIQUE|UNPIVOT|USER|USING|VARIADIC|WHEN|WHERE|WINDOW|WITH"
)
"""Reserved in Spark (ANSI mode) or in DuckDB."""
_SQL_DATES = (
    Datatype.DATETIME_YEAR,
    Datatype.DATETIME_MONTH,
    Datatype.DATETIME_WEEK,
    Datatype.DATETIME_DAY,
)
_SQL_TIMESTAMPS = (
    Datatype.DATETIME_HR,
    Datatype.DATETIME_MIN,
    Datatype.DATETIME_SEC,
    Datatype.DATETIME_MS,
    Datatype.DATETIME_US,
)
INTEGERS = frozenset(
    {
        Datatype.INT8,
        Datatype.INT16,
        Datatype.INT32,
        Datatype.INT64,
        Datatype.UINT8,
        Datatype.UINT16,
        Datatype.UINT32,
        Datatype.UINT64,
    }
)
_ARROW_UNITS = {
    Datatype.DATETIME_SEC: "s",
    Datatype.DATETIME_MS: "ms",
    Datatype.DATETIME_US: "us",
    Datatype.DATETIME_NS: "ns",
}


def to_sql(
    node: Condition, schema: Schema, sense: Sense = Sense.PREDICATE, *, quote: str = '"'
) -> str:
    r"""Write a condition for a WHERE clause.

    One text serves Spark SQL and DuckDB, but for names that need quotes: DuckDB takes `"`,
    Spark takes "`" unless told otherwise. Dates from year to day are DATE, from hour to
    microsecond TIMESTAMP; finer ones, and times of day, are their BIGINT count of units.

    Args:
        node: The condition.
        schema: The types of its fields.
        sense: Whether `None` asks for NULL, or is the empty string that the engine makes of it.
        quote: What encloses a name that is not plain.

    Raises:
        PredicateError: If a field is unknown, or a value does not fit it.

    >>> from chronotile.format.schema import Field, Schema
    >>> s = Field(name="s t", datatype=Datatype.STRING_UTF8, cell_val_num=2**32 - 1,
    ...     nullable=True, is_dimension=False, enumeration_name=None, enumeration=None)
    >>> schema = Schema(version=22, dense=False, allows_duplicates=False, dimensions=(),
    ...                 attributes=(s,), enumeration_files=())
    >>> to_sql(Compare(field="s t", op=Op.EQ, value=b"it's"), schema)
    '"s t" = \'it\' || chr(39) || \'s\''
    """

    def join(node: AllOf | AnyOf | Not, texts: list[str]) -> str:
        match node:
            case AllOf():
                return " AND ".join(f"({text})" for text in texts) or "TRUE"
            case AnyOf():
                return " OR ".join(f"({text})" for text in texts) or "FALSE"
            case Not():
                return f"NOT ({texts[0]})"
            case _:
                assert_never(node)

    return fold(
        flatten(node), lambda leaf: _sql_leaf(leaf, field_of(leaf, schema), sense, quote), join
    )


def to_arrow(node: Condition, schema: Schema, sense: Sense = Sense.PREDICATE) -> Any:
    """Build a `pyarrow.compute` expression to filter a table by.

    Dates from second to nanosecond are timestamps, days are date32; other dates and times
    are int64 counts of units. Enumerations are their labels.

    Args:
        node: The condition.
        schema: The types of its fields.
        sense: As for `to_sql`.

    Raises:
        PredicateError: If a field is unknown, or a value does not fit it.

    >>> from chronotile.format.schema import Field, Schema
    >>> a = Field(name="a", datatype=Datatype.INT8, cell_val_num=1, nullable=True,
    ...           is_dimension=False, enumeration_name=None, enumeration=None)
    >>> schema = Schema(version=22, dense=False, allows_duplicates=False, dimensions=(),
    ...                 attributes=(a,), enumeration_files=())
    >>> str(to_arrow(Compare(field="a", op=Op.LT, value=b"x"), schema))
    '(a < 120)'
    """
    import pyarrow.compute as pc  # a heavy import, for the few who ask

    def join(node: AllOf | AnyOf | Not, found: list[Any]) -> Any:
        match node:
            case AllOf():
                return functools.reduce(operator.and_, found) if found else pc.scalar(True)
            case AnyOf():
                return functools.reduce(operator.or_, found) if found else pc.scalar(False)
            case Not():
                return ~found[0]
            case _:
                assert_never(node)

    return fold(flatten(node), lambda leaf: _arrow_leaf(leaf, field_of(leaf, schema), sense), join)


def _sql_leaf(node: Compare, field: Field, sense: Sense, quote: str) -> str:
    name = node.field
    if not _PLAIN_NAME.fullmatch(name) or _SQL_WORDS.fullmatch(name.upper()):
        name = f"{quote}{name.replace(quote, quote * 2)}{quote}"
    if node.op.is_constant:
        if node.op is Op.ALWAYS_FALSE:
            return "FALSE"
        return f"{name} IS NOT NULL" if sense is Sense.STORED and field.nullable else "TRUE"
    if _asks_null(node, field, sense):
        return f"{name} IS {'NOT ' if node.op is Op.NE else ''}NULL"
    node = _by_label(node, field)
    if node.op.is_set:
        return _sql_members(node, field, name)
    value = _typed(field, node.value)
    if isinstance(value, float) and math.isnan(value):
        # NaN equals nothing in TileDB, but equals itself in SQL.
        return f"{name} IS NOT NULL" if node.op is Op.NE else "FALSE"
    text = f"{name} {_SQL_OPS[node.op]} {_sql_value(field, value)}"
    if field.datatype.is_float and node.op in (Op.GT, Op.GE):
        # In SQL, NaN is the largest number.
        return f"{text} AND NOT isnan({name})"
    return text


def _sql_members(node: Compare, field: Field, name: str) -> str:
    found = [_typed(field, member) for member in node.members]
    nan = any(isinstance(value, float) and math.isnan(value) for value in found)
    listed = ", ".join(_sql_value(field, value) for value in found if value == value)
    tests = [f"{name} IN ({listed})"] if listed else []
    tests += [f"isnan({name})"] if nan else []
    text = " OR ".join(tests) or "FALSE"
    if node.op is Op.IN:
        return text
    return f"NOT ({text}) AND {name} IS NOT NULL"


def _sql_value(field: Field, value: Scalar) -> str:
    datatype = _shown_as(field)
    if isinstance(value, bool):
        return "TRUE" if value else "FALSE"
    if isinstance(value, float):
        kind = "FLOAT" if datatype is Datatype.FLOAT32 else "DOUBLE"
        special = {math.inf: "Infinity", -math.inf: "-Infinity"}
        return f"CAST('{special.get(value, repr(value))}' AS {kind})"
    if isinstance(value, int):
        if datatype in _SQL_DATES:
            return f"DATE '{ticks_to_text(Datatype.DATETIME_DAY, _in_days(datatype, value))}'"
        if datatype in _SQL_TIMESTAMPS:
            return f"TIMESTAMP '{ticks_to_text(datatype, value).replace('T', ' ')}'"
        # -2^63 has no literal of its own, and BIGINT ends below 2^63.
        if abs(value) >= 2**31:
            return f"CAST('{value}' AS {'BIGINT' if value < 2**63 else 'DECIMAL(20, 0)'})"
        return str(value)
    if isinstance(value, bytes):
        return f"unhex('{value.hex()}')"
    return _sql_text(value)


def _sql_text(text: str) -> str:
    # Spark and DuckDB differ on quotes and backslashes inside a literal: neither appears.
    parts = re.findall(r"[^\x00-\x1f'\\]+|[\x00-\x1f'\\]", text)
    return (
        " || ".join(
            f"'{part}'" if _PLAIN_TEXT.fullmatch(part) else f"chr({ord(part)})" for part in parts
        )
        or "''"
    )


def _arrow_leaf(node: Compare, field: Field, sense: Sense) -> Any:
    import pyarrow.compute as pc  # as above

    column = pc.field(node.field)
    if node.op.is_constant:
        constant = pc.scalar(node.op is Op.ALWAYS_TRUE)
        return constant & column.is_valid() if sense is Sense.STORED else constant
    if _asks_null(node, field, sense):
        return column.is_null() if node.op is Op.EQ else column.is_valid()
    node = _by_label(node, field)
    if node.op.is_set:
        inside = column.isin(_arrow_array(field, node.members))
        return inside if node.op is Op.IN else ~inside & column.is_valid()
    value = pc.scalar(_arrow_array(field, (node.value,))[0])
    match node.op:
        case Op.LT:
            return column < value
        case Op.LE:
            return column <= value
        case Op.GT:
            return column > value
        case Op.GE:
            return column >= value
        case Op.EQ:
            return column == value
        case _:
            return column != value


def _arrow_array(field: Field, cells: tuple[bytes, ...]) -> Any:
    import pyarrow as pa  # as above

    try:
        return pa.array([_typed(field, cell) for cell in cells], type=_arrow_type(field))
    except (pa.ArrowInvalid, OverflowError) as cause:
        raise PredicateError(field.name, f"expected a value that Arrow holds: {cause}") from cause


def _arrow_type(field: Field) -> Any:
    import pyarrow as pa  # as above

    datatype = _shown_as(field)
    if datatype in _ARROW_UNITS:
        return pa.timestamp(_ARROW_UNITS[datatype])
    if datatype is Datatype.DATETIME_DAY:
        return pa.date32()
    if datatype.is_datetime or datatype.is_time:
        return pa.int64()
    if datatype is Datatype.BOOL:
        return pa.bool_()
    if datatype in INTEGERS or datatype.is_float:
        names = {Datatype.FLOAT32: "float32", Datatype.FLOAT64: "float64"}
        return pa.type_for_alias(names.get(datatype, datatype.name.lower()))
    return pa.string() if cell_values.is_text(datatype) else pa.binary()


def _asks_null(node: Compare, field: Field, sense: Sense) -> bool:
    none = not node.value and node.op in (Op.EQ, Op.NE)
    return none and field.nullable and sense is Sense.PREDICATE


def _by_label(node: Compare, field: Field) -> Compare:
    """Labels are ordered by their index, which other engines do not see: name them one by one."""
    if field.enumeration is None or not node.op.is_order:
        return node
    cells = (cell_values.encode(field, label) for label in field.enumeration.labels)
    inside = (cell for cell in cells if leaf_truth(node, field, cell, Sense.STORED))
    return member_of(node.field, Op.IN, tuple(inside))


def _shown_as(field: Field) -> Datatype:
    return field.enumeration.datatype if field.enumeration is not None else field.datatype


def _in_days(datatype: Datatype, ticks: int) -> int:
    return text_to_ticks(Datatype.DATETIME_DAY, ticks_to_text(datatype, ticks))


def _typed(field: Field, raw: bytes) -> Scalar:
    value = cell_values.decode(field, raw)
    text = cell_values.is_text(_shown_as(field))
    if value is None or isinstance(value, tuple) or (text and isinstance(value, bytes)):
        raise PredicateError(field.name, f"expected one value of its type, found {raw.hex()!r}")
    if isinstance(value, bytes) and _shown_as(field).code is not None:
        raise PredicateError(field.name, f"expected one value of its type, found {raw.hex()!r}")
    return value
