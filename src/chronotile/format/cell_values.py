"""Values of a field.

In: a `Field` and the raw bytes of one cell, a Python value or a JSON value. Out: any other of
the three. Knows nothing of conditions: callers tell NULL from the empty string.
"""

from __future__ import annotations

import math
import struct
from typing import TYPE_CHECKING

import numpy as np

from chronotile.errors import PredicateError
from chronotile.format.datatypes import Datatype
from chronotile.format.datetime_values import text_to_ticks, ticks_to_text

if TYPE_CHECKING:
    from chronotile.format.schema import Enumeration, Field

Scalar = int | float | bool | str | bytes
Value = Scalar | tuple[Scalar, ...] | None
"""A date or time is its count of units; bytes that cannot be read as their type stay bytes."""
Json = None | bool | int | float | str | list["Json"] | dict[str, "Json"]

_ENCODINGS = {
    Datatype.CHAR: "utf-8",
    Datatype.STRING_ASCII: "ascii",
    Datatype.STRING_UTF8: "utf-8",
    Datatype.STRING_UTF16: "utf-16-le",
    Datatype.STRING_UTF32: "utf-32-le",
    Datatype.STRING_UCS2: "utf-16-le",
    Datatype.STRING_UCS4: "utf-32-le",
    Datatype.GEOM_WKT: "utf-8",
}
_FLOAT_NAMES = {"NaN": math.nan, "Infinity": math.inf, "-Infinity": -math.inf}


def is_text(datatype: Datatype) -> bool:
    """Return True if values of that datatype are read as text.

    >>> is_text(Datatype.CHAR), is_text(Datatype.BLOB)
    (True, False)
    """
    return datatype in _ENCODINGS


def decode(field: Field, raw: bytes) -> Value:
    """Read the raw bytes of one cell.

    Returns:
        The value; the label, for an enumeration; None for a number or date of no bytes, which is
        NULL; the bytes themselves if they do not fit the field's type, or it lacks its labels.

    >>> from chronotile.format.schema import Field
    >>> a = Field(name="a", datatype=Datatype.INT32)
    >>> decode(a, bytes.fromhex("09030000")), decode(a, b"xy"), decode(a, b"")
    (777, b'xy', None)
    """
    if field.enumeration_name is not None:
        return _label(field, raw)
    encoding = _ENCODINGS.get(field.datatype)
    if encoding is not None:
        try:
            return raw.decode(encoding)
        except UnicodeDecodeError:
            return raw
    code = field.datatype.code
    if code is None:
        return raw
    if not raw:
        return None
    count, rest = divmod(len(raw), field.datatype.size)
    if rest or (not field.is_var and count != field.cell_val_num):
        return raw
    numbers = tuple(_scalar(field.datatype, n) for n in struct.unpack(f"<{count}{code}", raw))
    return numbers[0] if field.cell_val_num == 1 else numbers


def encode(field: Field, value: object) -> bytes:
    """Write a value, as `decode` gives it, as the raw bytes of one cell.

    Dates and times may be ISO-8601 text or objects of `datetime`; None is NULL.

    Raises:
        PredicateError: The value is of another type, out of range, or would lose precision.

    >>> from chronotile.format.schema import Field
    >>> encode(Field(name="d", datatype=Datatype.DATETIME_DAY), "1970-01-02").hex()
    '0100000000000000'
    """
    value = _plain(value)
    if value is None:
        if not field.nullable:
            raise PredicateError(field.name, "expected a value, found NULL: it is not nullable")
        return b""
    if field.enumeration_name is not None:
        return _index(field, value)
    if field.datatype.code is None:
        return _pad(field, _bytes(field, value))
    if field.cell_val_num == 1:
        return _number(field, value)
    if not isinstance(value, tuple | list):
        raise _wrong(field, "a list of values", value)
    if not field.is_var and len(value) != field.cell_val_num:
        raise _wrong(field, f"{field.cell_val_num} values", value)
    return b"".join(_number(field, part) for part in value)


def to_json(field: Field, value: Value) -> Json:
    """Give a value as JSON holds it.

    >>> from chronotile.format.schema import Field
    >>> f = Field(name="f", datatype=Datatype.FLOAT32)
    >>> to_json(f, float("nan")), to_json(f, b"xy")
    ('NaN', '7879')
    """
    if isinstance(value, tuple):
        return [to_json(field, part) for part in value]
    if isinstance(value, str):
        value = bytes_unless_text(value)
    if isinstance(value, bytes):
        return value.hex()
    if isinstance(value, int) and field.value_datatype.is_temporal:
        return ticks_to_text(field.value_datatype, value)
    if isinstance(value, float) and not math.isfinite(value):
        return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
    return value


def raw_to_json(field: Field, raw: bytes) -> Json:
    """Give the raw bytes of one cell as JSON holds their value."""
    return to_json(field, decode(field, raw))


def from_json(field: Field, document: Json) -> Value:
    r"""Read a value that `to_json` gave; text of a text field is text, never hex.

    Raises:
        PredicateError: The document is no value of that field.

    >>> from chronotile.format.schema import Field
    >>> from_json(Field(name="b", datatype=Datatype.BLOB), "00ff")
    b'\x00\xff'
    """
    if isinstance(document, dict):
        raise _wrong(field, "a value", document)
    if isinstance(document, list):
        return tuple(_json_scalar(field, part) for part in document)
    return None if document is None else _json_scalar(field, document)


def _json_scalar(field: Field, document: Json) -> Scalar:
    if document is None or isinstance(document, list | dict):
        raise _wrong(field, "a single value", document)
    datatype = field.value_datatype
    if isinstance(document, str):
        if datatype.is_temporal:
            return text_to_ticks(datatype, document)
        if datatype.is_float and document in _FLOAT_NAMES:
            return _FLOAT_NAMES[document]
        if not is_text(datatype) and datatype.code is None:
            try:
                return bytes.fromhex(document)
            except ValueError as cause:
                raise _wrong(field, "hex digits", document) from cause
    return document


def bytes_unless_text(label: str) -> str | bytes:
    r"""Give a label back; as bytes if its file does not hold it as UTF-8.

    >>> bytes_unless_text("a"), bytes_unless_text("\udcff")
    ('a', b'\xff')
    """
    try:
        label.encode()
    except UnicodeEncodeError:
        return label.encode("utf-8", "surrogateescape")
    return label


def _plain(value: object) -> object:
    # NumPy's dates keep their unit only in their text; its other scalars have `item`.
    if type(value).__name__ == "datetime64":
        return str(value)
    if hasattr(value, "item") and hasattr(value, "dtype"):
        return value.item()
    if hasattr(value, "isoformat"):
        return str(value.isoformat())
    return value


def _scalar(datatype: Datatype, number: float) -> Scalar:
    if datatype is Datatype.BOOL:
        return bool(number)
    return _shortest(number) if datatype is Datatype.FLOAT32 else number


def _shortest(number: float) -> float:
    """Return the decimal of fewest digits that is this 32-bit float, as people type it."""
    return float(str(np.float32(number)))


def _single(number: float) -> float | None:
    try:
        return float(struct.unpack("<f", struct.pack("<f", number))[0])
    except OverflowError:
        return None


def _label(field: Field, raw: bytes) -> Value:
    if not raw:
        return None
    labels = field.enumeration.labels if field.enumeration is not None else ()
    if len(raw) != field.datatype.size:
        return raw
    (index,) = struct.unpack(f"<{field.datatype.code}", raw)
    return _typed_label(field, labels[index]) if 0 <= index < len(labels) else raw


def _typed_label(field: Field, label: Scalar) -> Scalar:
    is_single = field.value_datatype is Datatype.FLOAT32
    return _shortest(label) if is_single and isinstance(label, float) else label


def _index(field: Field, label: object) -> bytes:
    enumeration = field.enumeration
    if enumeration is None:
        problem = f"expected the labels of enumeration {field.enumeration_name!r}, found none"
        raise PredicateError(field.name, problem)
    datatype = enumeration.datatype
    if isinstance(label, bytes) and is_text(datatype):
        label = label.decode("utf-8", "surrogateescape")
    elif isinstance(label, str) and datatype.is_temporal:
        label = text_to_ticks(datatype, label)
    for index, known in enumerate(enumeration.labels):
        same = label in (known, _typed_label(field, known))
        if same and isinstance(known, bool) == isinstance(label, bool):
            return _number(field, index)
    raise PredicateError(field.name, _unknown_label(enumeration, label))


def _unknown_label(enumeration: Enumeration, label: object) -> str:
    problem = f"expected a label of enumeration {enumeration.name!r}, found {label!r}"
    import difflib

    near = difflib.get_close_matches(str(label), [str(known) for known in enumeration.labels], n=1)
    return f"{problem}; did you mean {near[0]!r}?" if near else problem


def _bytes(field: Field, value: object) -> bytes:
    if isinstance(value, bytes | bytearray):
        return bytes(value)
    encoding = _ENCODINGS.get(field.datatype)
    if encoding is None:
        raise _wrong(field, "bytes", value)
    if not isinstance(value, str):
        raise _wrong(field, "text", value)
    try:
        return value.encode(encoding)
    except UnicodeEncodeError as cause:
        raise _wrong(field, f"text of {field.datatype.name}", value) from cause


def _pad(field: Field, raw: bytes) -> bytes:
    size = field.cell_size
    if size is None:
        return raw
    if len(raw) > size or (len(raw) != size and not is_text(field.datatype)):
        raise PredicateError(field.name, f"expected {size} bytes, found {len(raw)}")
    return raw.ljust(size, b"\0")


def _number(field: Field, value: object) -> bytes:
    datatype = field.datatype
    code = f"<{datatype.code}"
    if datatype is Datatype.BOOL:
        if not isinstance(value, int) or value not in (0, 1):
            raise _wrong(field, "True or False", value)
        return bytes([value])
    if datatype.is_float:
        return struct.pack(code, _float(field, value))
    if datatype.is_temporal and isinstance(value, str):
        value = text_to_ticks(datatype, value)
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    if not isinstance(value, int) or isinstance(value, bool):
        raise _wrong(field, "a whole number", value)
    try:
        return struct.pack(code, value)
    except struct.error as cause:
        bits = 8 * datatype.size
        low = -(1 << bits - 1) if code[1].islower() else 0
        raise _wrong(field, f"a number from {low} to {low + (1 << bits) - 1}", value) from cause


def _float(field: Field, value: object) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise _wrong(field, "a number", value)
    try:
        number = float(value)
    except OverflowError as cause:
        raise _wrong(field, f"a number that {field.datatype.name} can hold", value) from cause
    kept = number
    if field.datatype is Datatype.FLOAT32 and math.isfinite(number):
        single = _single(number)
        if single is None:
            raise _wrong(field, "a number that FLOAT32 can hold", value)
        # A user may give a 32-bit float in full, or in as few digits as tell it apart.
        kept = number if single == number else _shortest(single)
    if kept != value and not math.isnan(number):
        raise _wrong(field, f"a number that {field.datatype.name} holds exactly", value)
    return number


def _wrong(field: Field, expected: str, found: object) -> PredicateError:
    shown = repr(found)
    shown = shown if len(shown) <= 60 else f"{shown[:57]}..."
    return PredicateError(field.name, f"expected {expected}, found {shown}")
