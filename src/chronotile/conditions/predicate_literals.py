"""What a comparison may be.

In: a field, an op and a literal of the predicate language. Out: the raw bytes to compare with.
Refuses what the engine could not read back, or would take for something else.
"""

from __future__ import annotations

import math
from decimal import Decimal
from typing import TYPE_CHECKING, NamedTuple

from chronotile.conditions.text import field_name
from chronotile.conditions.tree import Op
from chronotile.errors import PredicateError
from chronotile.format import cell_values
from chronotile.format.datatypes import Datatype

if TYPE_CHECKING:
    from chronotile.format.schema import Field

_TEXT = (Datatype.CHAR, Datatype.STRING_ASCII, Datatype.STRING_UTF8)


class Raw(NamedTuple):
    """Bytes that are given as they are."""

    raw: bytes


LiteralValue = int | Decimal | float | str | bytes | Raw | None
"""A number with a point or an exponent is a Decimal: its digits are checked, not rounded."""


def raw_value(field: Field, op: Op, value: LiteralValue) -> bytes:
    """Type a literal by the field that it is compared with.

    Args:
        field: The field.
        op: The comparison.
        value: The literal, or one member of the list of an `in`.

    Raises:
        PredicateError: If the comparison would not do what it says.

    >>> from chronotile.format.schema import Field
    >>> a = Field(name="a", datatype=Datatype.INT8, cell_val_num=1, nullable=False,
    ...           is_dimension=False, enumeration_name=None, enumeration=None)
    >>> raw_value(a, Op.LT, Decimal("3.0")).hex()
    '03'
    """
    _check_comparable(field, op)
    if value is None:
        _check_null(field, op)
        return b""
    if isinstance(value, Raw):
        return sized(field, value)
    if isinstance(value, Decimal):
        value = exact_number(field, value)
    if isinstance(value, float) and math.isnan(value) and not op.is_set:
        problem = f"expected a number, found NaN: nothing is {op.symbol} NaN"
        raise _refused(field, f"{problem}; it can stand in a list after in")
    return cell_values.encode(field, value)


def _check_null(field: Field, op: Op) -> None:
    name = field_name(field.name, field)
    if op.is_set:
        raise _refused(field, "expected a value, found None: NULL is in no list")
    if op not in (Op.EQ, Op.NE):
        raise _refused(field, f"expected a value after {op.symbol}, found None")
    if not field.nullable:
        raise _refused(field, f"expected a value, found None: {name} is never NULL")
    if not field.is_var:
        problem = f"expected a value, found None: {name} has a fixed size"
        raise _refused(field, f"{problem}, and the engine cannot read a delete that asks for NULL")


def _check_comparable(field: Field, op: Op) -> None:
    name = field_name(field.name, field)
    if field.datatype in _TEXT:
        several = not field.is_var and field.cell_val_num > 1
        if several and field.datatype is Datatype.CHAR and not op.is_set:
            problem = f"expected in or not in for {name}, found {op.symbol}"
            raise _refused(field, f"{problem}: the engine would compare its first byte only")
    elif cell_values.number_format(field.datatype) is None:
        problem = f"expected a field that can be compared, found {name}"
        raise _refused(field, f"{problem}, which is {field.datatype.name}")
    elif field.cell_val_num != 1:
        raise _refused(field, f"expected one value to a cell, found {name} with more")
    if field.enumeration is not None and op.is_order and not field.enumeration.ordered:
        problem = f"expected ==, != or in, found {op.symbol}"
        raise _refused(field, f"{problem}: the labels of {name} have no order")


def sized(field: Field, value: Raw) -> bytes:
    """Give bytes that were typed as such.

    Raises:
        PredicateError: If the field's cells have another size.

    >>> from chronotile.format.schema import Field
    >>> f = Field(name="f", datatype=Datatype.INT16, cell_val_num=1, nullable=False,
    ...           is_dimension=False, enumeration_name=None, enumeration=None)
    >>> sized(f, Raw(b"xy"))
    b'xy'
    """
    size = cell_values.cell_size(field)
    if size is not None and len(value.raw) != size:
        raise _refused(field, f"expected {size} bytes, found {len(value.raw)}")
    return value.raw


def exact_number(field: Field, exact: Decimal) -> float:
    """Give the float that a decimal of the predicate language stands for.

    Raises:
        PredicateError: If it is out of range, or has more digits than the field can hold.

    >>> from chronotile.format.schema import Field
    >>> f = Field(name="f", datatype=Datatype.FLOAT64, cell_val_num=1, nullable=False,
    ...           is_dimension=False, enumeration_name=None, enumeration=None)
    >>> exact_number(f, Decimal("0.1"))
    0.1
    """
    number = float(exact)
    if math.isinf(number) or (number == 0.0 and exact):
        raise _refused(field, f"expected a number within range, found {exact}")
    datatype = field.enumeration.datatype if field.enumeration is not None else field.datatype
    # A 32-bit float is judged by `cell_values.encode`, which knows how few digits tell it apart.
    fits = exact == Decimal(number) or datatype is Datatype.FLOAT32
    if not fits and datatype.is_float:
        fits = exact == Decimal(repr(number))
    if not fits:
        raise _refused(field, f"expected a number that {datatype.name} holds, found {exact}")
    return number


def _refused(field: Field, problem: str) -> PredicateError:
    return PredicateError(field.name, problem)
