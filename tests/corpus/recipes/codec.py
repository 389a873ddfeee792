"""One cell's value as bytes and as JSON.

In: a datatype's name and a Python value, or bytes. Out: the other of the two.
Knows nothing of arrays, fields or files.
"""

from __future__ import annotations

import math
import struct
from typing import Any

_CODES = {
    "int8": "b",
    "uint8": "B",
    "int16": "h",
    "uint16": "H",
    "int32": "i",
    "uint32": "I",
    "int64": "q",
    "uint64": "Q",
    "float32": "f",
    "float64": "d",
    "bool": "?",
}
TEXT = ("ascii", "utf8", "char")


def code_of(datatype: str) -> str:
    """The `struct` code of a fixed-size datatype, or an empty string.

    >>> code_of("datetime_day"), code_of("utf8")
    ('q', '')
    """
    if datatype.startswith(("datetime_", "time_")):
        return "q"
    return _CODES.get(datatype, "")


def encode(datatype: str, value: Any) -> bytes:
    r"""A value as the engine stores it.

    >>> encode("int32", -2), encode("utf8", "é"), encode("blob", b"\x01")
    (b'\xfe\xff\xff\xff', b'\xc3\xa9', b'\x01')
    """
    if isinstance(value, bytes):
        return value
    if isinstance(value, str):
        return value.encode()
    return struct.pack("<" + code_of(datatype), value)


def decode(datatype: str, data: bytes) -> Any:
    r"""What JSON shows of a value: text, number, or hex for bytes that are not text.

    >>> decode("int16", b"\x01\x00"), decode("blob", b"\xff"), decode("ascii", b"ab")
    (1, 'ff', 'ab')
    """
    if datatype in TEXT:
        return data.decode()
    code = code_of(datatype)
    if not code:
        return data.hex()
    count = len(data) // struct.calcsize(code)
    values = [_plain(value) for value in struct.unpack(f"<{count}{code}", data)]
    return values[0] if count == 1 else values


def _plain(value: Any) -> Any:
    # JSON has no word for these.
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    return value
