"""TileDB's datatypes.

In: a datatype's number. Out: its name, the width of one value, and the kind of values.
Knows nothing of schemas or conditions.
"""

from __future__ import annotations

import enum
import struct

VAR_NUM = 0xFFFF_FFFF
"""The cell value count that stands for "variable length"."""


class Datatype(enum.IntEnum):
    """A datatype, numbered as on disk.

    >>> Datatype(0).name, Datatype.INT32.size, Datatype.STRING_UTF8.is_string
    ('INT32', 4, True)
    """

    INT32 = 0
    INT64 = 1
    FLOAT32 = 2
    FLOAT64 = 3
    CHAR = 4
    INT8 = 5
    UINT8 = 6
    INT16 = 7
    UINT16 = 8
    UINT32 = 9
    UINT64 = 10
    STRING_ASCII = 11
    STRING_UTF8 = 12
    STRING_UTF16 = 13
    STRING_UTF32 = 14
    STRING_UCS2 = 15
    STRING_UCS4 = 16
    ANY = 17
    DATETIME_YEAR = 18
    DATETIME_MONTH = 19
    DATETIME_WEEK = 20
    DATETIME_DAY = 21
    DATETIME_HR = 22
    DATETIME_MIN = 23
    DATETIME_SEC = 24
    DATETIME_MS = 25
    DATETIME_US = 26
    DATETIME_NS = 27
    DATETIME_PS = 28
    DATETIME_FS = 29
    DATETIME_AS = 30
    TIME_HR = 31
    TIME_MIN = 32
    TIME_SEC = 33
    TIME_MS = 34
    TIME_US = 35
    TIME_NS = 36
    TIME_PS = 37
    TIME_FS = 38
    TIME_AS = 39
    BLOB = 40
    BOOL = 41
    GEOM_WKB = 42
    GEOM_WKT = 43

    @property
    def code(self) -> str | None:
        """The `struct` code of a number; None where values are text or bytes."""
        return _CODES.get(self)

    @property
    def size(self) -> int:
        """Bytes of one value."""
        return _SIZES.get(self, 1)

    @property
    def is_datetime(self) -> bool:
        """True if it counts units since the epoch."""
        return Datatype.DATETIME_YEAR <= self <= Datatype.DATETIME_AS

    @property
    def is_time(self) -> bool:
        """True if it counts units since midnight."""
        return Datatype.TIME_HR <= self <= Datatype.TIME_AS

    @property
    def is_temporal(self) -> bool:
        """True if it is a date or a time of any unit."""
        return Datatype.DATETIME_YEAR <= self <= Datatype.TIME_AS

    @property
    def is_float(self) -> bool:
        """True if it can hold NaN."""
        return self in (Datatype.FLOAT32, Datatype.FLOAT64)

    @property
    def is_string(self) -> bool:
        """True if its values are text."""
        return self is Datatype.CHAR or Datatype.STRING_ASCII <= self <= Datatype.STRING_UCS4


_NUMBERS = ("INT8", "INT16", "INT32", "INT64", "UINT8", "UINT16", "UINT32", "UINT64")
_CODES = {
    **{Datatype[name]: code for name, code in zip(_NUMBERS, "bhiqBHIQ", strict=True)},
    Datatype.FLOAT32: "f",
    Datatype.FLOAT64: "d",
    Datatype.BOOL: "B",
    **{datatype: "q" for datatype in Datatype if datatype.is_temporal},
}
_SIZES = {
    **{datatype: struct.calcsize(f"<{code}") for datatype, code in _CODES.items()},
    Datatype.STRING_UTF16: 2,
    Datatype.STRING_UCS2: 2,
    Datatype.STRING_UTF32: 4,
    Datatype.STRING_UCS4: 4,
}
