"""Which literals a comparison may have.

In: a field, an op and a literal of the predicate language. Out: the raw bytes to compare with.
Refuses what the engine could not read back, or would read as something else.
"""

from __future__ import annotations

import math
from decimal import Decimal
from typing import TYPE_CHECKING, NamedTuple

from chronotile.conditions.text import field_name
from chronotile.conditions.tree import Compare, Op
from chronotile.errors import PredicateError
from chronotile.format import cell_values
from chronotile.format.datatypes import Datatype

if TYPE_CHECKING:
    from chronotile.format.schema import Field

_TEXT = (Datatype.CHAR, Datatype.STRING_ASCII, Datatype.STRING_UTF8)


class Raw(NamedTuple):
    """Bytes that the user gave as hex."""

    raw: bytes


LiteralValue = int | Decimal | float | str | bytes | Raw | None
"""A number with a point or an exponent is a Decimal: its digits are checked, not rounded."""


def comparison(field: Field, op: Op, value: LiteralValue) -> Compare:
    """Compare a field with a literal.

    Raises:
        PredicateError: The comparison would not do what it says.

    >>> from chronotile.format.schema import Field
    >>> s = Field(name="s", datatype=Datatype.CHAR, cell_val_num=2**32 - 1, nullable=True)
    >>> comparison(s, Op.EQ, "").is_empty_text, comparison(s, Op.EQ, None).is_empty_text
    (True, False)
    """
    raw = raw_value(field, op, value)
    can_be_null = not raw and field.nullable and op in (Op.EQ, Op.NE)
    is_empty_text = can_be_null and isinstance(value, str | bytes)
    return Compare(field=field.name, op=op, value=raw, is_empty_text=is_empty_text)


def raw_value(field: Field, op: Op, value: LiteralValue) -> bytes:
    """Type a literal, or one member of the list of an `in`, by the field that it is compared with.

    Raises:
        PredicateError: The comparison would not do what it says.

    >>> from chronotile.format.schema import Field
    >>> raw_value(Field(name="a", datatype=Datatype.INT8), Op.LT, Decimal("3.0")).hex()
    '03'
    """
    if value is None:
        _check_null(field, op)
        return b""
    _check_comparable(field, op)
    if isinstance(value, float) and math.isnan(value) and not op.is_set:
        problem = f"expected a number, found NaN: nothing is {op.symbol} NaN"
        raise PredicateError(field.name, f"{problem}; it can stand in a list after in")
    return encoded(field, value)


def encoded(field: Field, value: LiteralValue) -> bytes:
    """Give the raw bytes of a literal for a field.

    Raises:
        PredicateError: The field cannot hold the literal.

    >>> from chronotile.format.schema import Field
    >>> encoded(Field(name="f", datatype=Datatype.INT16), Raw(b"xy"))
    b'xy'
    """
    if isinstance(value, Raw):
        size = field.cell_size
        if size is not None and len(value.raw) != size:
            raise PredicateError(field.name, f"expected {size} bytes, found {len(value.raw)}")
        return value.raw
    return cell_values.encode(field, _exact(field, value) if isinstance(value, Decimal) else value)


def _check_null(field: Field, op: Op) -> None:
    name = field_name(field.name, field)
    if op.is_set:
        raise PredicateError(field.name, "expected a value, found None: NULL is in no list")
    if op not in (Op.EQ, Op.NE):
        raise PredicateError(field.name, f"expected a value after {op.symbol}, found None")
    if not field.nullable:
        kind = "a dimension" if field.is_dimension else "not nullable"
        problem = f"expected a value, found None: {name} is never NULL, as it is {kind}"
        raise PredicateError(field.name, problem)


def _check_comparable(field: Field, op: Op) -> None:
    name = field_name(field.name, field)
    problem = None
    if field.datatype in _TEXT:
        several = not field.is_var and field.cell_val_num > 1
        if several and field.datatype is Datatype.CHAR and not op.is_set:
            problem = f"expected in or not in for {name}, found {op.symbol}"
            problem += ": the engine would compare its first byte only"
    elif field.datatype.code is None:
        problem = f"expected a field that can be compared, found {name}"
        problem += f", which is {field.datatype.name}"
    elif field.cell_val_num != 1:
        problem = f"expected one value in each cell, found {name} with more"
    if field.enumeration is not None and op.is_order and not field.enumeration.ordered:
        problem = f"expected ==, != or in, found {op.symbol}: the labels of {name} have no order"
    if problem:
        raise PredicateError(field.name, problem)


def _exact(field: Field, exact: Decimal) -> float:
    """The float that a decimal stands for, unless it has more digits than the field can hold."""
    number, datatype = float(exact), field.value_datatype
    if math.isinf(number) or (number == 0.0 and exact):
        raise PredicateError(field.name, f"expected a number within range, found {exact}")
    # `cell_values.encode` judges a 32-bit float: it knows how few digits tell it apart.
    fits = exact == Decimal(number) or datatype is Datatype.FLOAT32
    if not fits and not (datatype.is_float and exact == Decimal(repr(number))):
        problem = f"expected a number that {datatype.name} holds, found {exact}"
        raise PredicateError(field.name, problem)
    return number
