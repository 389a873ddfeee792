"""Values of a field.

In: a `Field` and the raw bytes of one cell, a Python value or a JSON value. Out: any other of
the three. Knows nothing of conditions: NULL and the empty string are told apart by callers.
"""

from __future__ import annotations

import difflib
import math
import struct
from typing import TYPE_CHECKING

from chronotile.errors import PredicateError
from chronotile.format.datatypes import Datatype
from chronotile.format.datetime_values import text_to_ticks, ticks_to_text

if TYPE_CHECKING:
    from chronotile.format.schema import Enumeration, Field

Scalar = int | float | bool | str | bytes
Value = Scalar | tuple[Scalar, ...] | None
"""A date or time is its count of units; bytes that cannot be read as their type stay bytes."""
Json = None | bool | int | float | str | list["Json"] | dict[str, "Json"]

_NUMBERS = {
    Datatype.INT8: "b",
    Datatype.INT16: "h",
    Datatype.INT32: "i",
    Datatype.INT64: "q",
    Datatype.UINT8: "B",
    Datatype.UINT16: "H",
    Datatype.UINT32: "I",
    Datatype.UINT64: "Q",
    Datatype.FLOAT32: "f",
    Datatype.FLOAT64: "d",
    Datatype.BOOL: "B",
    **{datatype: "q" for datatype in Datatype if datatype.is_datetime or datatype.is_time},
}
_TEXTS = {
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
    """Tell whether values of that datatype are read as text.

    >>> is_text(Datatype.CHAR), is_text(Datatype.BLOB)
    (True, False)
    """
    return datatype in _TEXTS


def number_format(datatype: Datatype) -> str | None:
    """The `struct` code of a datatype, or None where it is text or bytes.

    >>> number_format(Datatype.DATETIME_MS), number_format(Datatype.BLOB)
    ('q', None)
    """
    return _NUMBERS.get(datatype)


def cell_size(field: Field) -> int | None:
    """Bytes of a cell, or None where cells vary in length.

    >>> from chronotile.format.schema import Field
    >>> cell_size(Field(name="a", datatype=Datatype.INT16, cell_val_num=3, nullable=False,
    ...                 is_dimension=False, enumeration_name=None, enumeration=None))
    6
    """
    return None if field.is_var else field.datatype.size * field.cell_val_num


def decode(field: Field, raw: bytes) -> Value:
    """Read the raw bytes of one cell.

    Args:
        field: What the bytes are a value of.
        raw: The bytes. None of a number or date stands for NULL.

    Returns:
        The value; the label, for an enumeration; the bytes themselves where they do not fit
        the field's type, or its labels are not at hand.

    >>> from chronotile.format.schema import Field
    >>> a = Field(name="a", datatype=Datatype.INT32, cell_val_num=1, nullable=False,
    ...           is_dimension=False, enumeration_name=None, enumeration=None)
    >>> decode(a, bytes.fromhex("09030000")), decode(a, b"xy"), decode(a, b"")
    (777, b'xy', None)
    """
    if field.enumeration_name is not None:
        return _label(field, raw)
    encoding = _TEXTS.get(field.datatype)
    if encoding is not None:
        try:
            return raw.decode(encoding)
        except UnicodeDecodeError:
            return raw
    code = _NUMBERS.get(field.datatype)
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
    """Write a value as the raw bytes of one cell.

    Args:
        field: What the value is for.
        value: As `decode` gives it. Dates and times may be ISO-8601 text or objects of
            `datetime`; None stands for NULL.

    Raises:
        PredicateError: If the value is of another type, out of range, or would lose precision.

    >>> from chronotile.format.schema import Field
    >>> d = Field(name="d", datatype=Datatype.DATETIME_DAY, cell_val_num=1, nullable=False,
    ...           is_dimension=True, enumeration_name=None, enumeration=None)
    >>> encode(d, "1970-01-02").hex()
    '0100000000000000'
    """
    value = _plain(value)
    if value is None:
        if not field.nullable:
            raise PredicateError(field.name, "expected a value, found NULL: it is not nullable")
        return b""
    if field.enumeration_name is not None:
        return _index(field, value)
    if is_text(field.datatype) or field.datatype not in _NUMBERS:
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
    >>> f = Field(name="f", datatype=Datatype.FLOAT32, cell_val_num=1, nullable=False,
    ...           is_dimension=False, enumeration_name=None, enumeration=None)
    >>> to_json(f, float("nan")), to_json(f, b"xy")
    ('NaN', '7879')
    """
    if isinstance(value, tuple):
        return [to_json(field, part) for part in value]
    if isinstance(value, str) and not value.isascii():
        value = _as_bytes_unless_text(value)
    if isinstance(value, bytes):
        return value.hex()
    datatype = field.enumeration.datatype if field.enumeration is not None else field.datatype
    if isinstance(value, int) and (datatype.is_datetime or datatype.is_time):
        return ticks_to_text(datatype, value)
    if isinstance(value, float) and not math.isfinite(value):
        return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
    return value


def from_json(field: Field, document: Json) -> Value:
    r"""Take back what `to_json` gave; text of a text field is text, never hex.

    Raises:
        PredicateError: If the document is no value of that field.

    >>> from chronotile.format.schema import Field
    >>> b = Field(name="b", datatype=Datatype.BLOB, cell_val_num=1, nullable=False,
    ...           is_dimension=False, enumeration_name=None, enumeration=None)
    >>> from_json(b, "00ff")
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
    datatype = field.enumeration.datatype if field.enumeration is not None else field.datatype
    if isinstance(document, str):
        if datatype.is_datetime or datatype.is_time:
            return text_to_ticks(datatype, document)
        if datatype.is_float and document in _FLOAT_NAMES:
            return _FLOAT_NAMES[document]
        if not is_text(datatype) and datatype not in _NUMBERS:
            try:
                return bytes.fromhex(document)
            except ValueError as cause:
                raise _wrong(field, "hex digits", document) from cause
    return document


def _as_bytes_unless_text(text: str) -> str | bytes:
    # A label that is not UTF-8 comes from its file with each odd byte as a lone surrogate.
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-8", "surrogateescape")
    return text


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
    """The decimal of fewest digits that is this 32-bit float, as people type it."""
    if not math.isfinite(number):
        return number
    for digits in range(6, 9):
        short = float(f"{number:.{digits}g}")
        if _single(short) == number:
            return short
    return float(f"{number:.9g}")


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
    (index,) = struct.unpack(f"<{_NUMBERS[field.datatype]}", raw)
    return _typed_label(field, labels[index]) if 0 <= index < len(labels) else raw


def _typed_label(field: Field, label: Scalar) -> Scalar:
    single = field.enumeration is not None and field.enumeration.datatype is Datatype.FLOAT32
    return _shortest(label) if single and isinstance(label, float) else label


def _index(field: Field, label: object) -> bytes:
    enumeration = field.enumeration
    if enumeration is None:
        problem = f"expected the labels of enumeration {field.enumeration_name!r}, found none"
        raise PredicateError(field.name, problem)
    datatype = enumeration.datatype
    if isinstance(label, bytes) and is_text(datatype):
        label = label.decode("utf-8", "surrogateescape")
    elif isinstance(label, str) and (datatype.is_datetime or datatype.is_time):
        label = text_to_ticks(datatype, label)
    for index, known in enumerate(enumeration.labels):
        same = label in (known, _typed_label(field, known))
        if same and isinstance(known, bool) == isinstance(label, bool):
            return _number(field, index)
    raise PredicateError(field.name, _unknown_label(enumeration, label))


def _unknown_label(enumeration: Enumeration, label: object) -> str:
    problem = f"expected a label of enumeration {enumeration.name!r}, found {label!r}"
    near = difflib.get_close_matches(str(label), [str(known) for known in enumeration.labels], n=1)
    return f"{problem}; did you mean {near[0]!r}?" if near else problem


def _bytes(field: Field, value: object) -> bytes:
    if isinstance(value, bytes | bytearray):
        return bytes(value)
    encoding = _TEXTS.get(field.datatype)
    if encoding is None:
        raise _wrong(field, "bytes", value)
    if not isinstance(value, str):
        raise _wrong(field, "text", value)
    try:
        return value.encode(encoding)
    except UnicodeEncodeError as cause:
        raise _wrong(field, f"text of {field.datatype.name}", value) from cause


def _pad(field: Field, raw: bytes) -> bytes:
    size = cell_size(field)
    if size is None:
        return raw
    if len(raw) > size or (len(raw) != size and not is_text(field.datatype)):
        raise PredicateError(field.name, f"expected {size} bytes, found {len(raw)}")
    return raw.ljust(size, b"\0")


def _number(field: Field, value: object) -> bytes:
    datatype = field.datatype
    code = f"<{_NUMBERS[datatype]}"
    if datatype.is_datetime or datatype.is_time:
        if isinstance(value, str):
            value = text_to_ticks(datatype, value)
    elif datatype is Datatype.BOOL:
        if not isinstance(value, int) or value not in (0, 1):
            raise _wrong(field, "True or False", value)
        return bytes([value])
    elif datatype.is_float:
        return struct.pack(code, _float(field, value))
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    if not isinstance(value, int) or isinstance(value, bool):
        raise _wrong(field, "a whole number", value)
    try:
        return struct.pack(code, value)
    except struct.error as cause:
        bits = 8 * datatype.size
        low, high = (
            (-(1 << bits - 1), (1 << bits - 1) - 1) if code[1].islower() else (0, 2**bits - 1)
        )
        raise _wrong(field, f"a number from {low} to {high}", value) from cause


def _float(field: Field, value: object) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise _wrong(field, "a number", value)
    try:
        number = float(value)
    except OverflowError as cause:
        raise _wrong(field, f"a number that {field.datatype.name} can hold", value) from cause
    if math.isnan(number):
        return number
    kept = number
    if field.datatype is Datatype.FLOAT32:
        single = _single(number)
        if single is None:
            raise _wrong(field, "a number that FLOAT32 can hold", value)
        # A 32-bit float may be given in full, or in as few digits as tell it apart.
        kept = number if single == number else _shortest(single)
    if kept != value:
        raise _wrong(field, f"a number that {field.datatype.name} holds exactly", value)
    return number


def _wrong(field: Field, expected: str, found: object) -> PredicateError:
    shown = repr(found)
    shown = shown if len(shown) <= 60 else f"{shown[:57]}..."
    return PredicateError(field.name, f"expected {expected}, found {shown}")
