from __future__ import annotations

import dataclasses
import datetime
import json
import math
import struct
from typing import TYPE_CHECKING

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.strategies import (
    COLOURS,
    NUMBERS,
    any_fields,
    make_enumeration,
    make_field,
    raw_values,
    same,
)

from chronotile.errors import PredicateError
from chronotile.format import cell_values
from chronotile.format.datatypes import VAR_NUM, Datatype
from chronotile.format.datetime_values import NOT_A_TIME, text_to_ticks, ticks_to_text

if TYPE_CHECKING:
    from chronotile.format.schema import Field

DATETIMES = [datatype for datatype in Datatype if datatype.is_datetime]
TIMES = [datatype for datatype in Datatype if datatype.is_time]
UNITS = ("Y", "M", "W", "D", "h", "m", "s", "ms", "us", "ns", "ps", "fs", "as")
NUMPY_UNITS = dict(zip(DATETIMES, UNITS, strict=True))
INT64 = st.integers(-(2**63) + 1, 2**63 - 1)


@given(st.data(), any_fields())
def test_bytes_that_fit_come_back_from_every_form(data: st.DataObject, field: Field) -> None:
    raw = data.draw(raw_values(field))
    value = cell_values.decode(field, raw)
    if value is None:
        assert raw == b""
        return
    assert cell_values.encode(field, value) == raw
    document = json.loads(json.dumps(cell_values.to_json(field, value), allow_nan=False))
    if isinstance(value, bytes) and cell_values.is_text(field.datatype):
        assert document == value.hex()
    else:
        assert same(cell_values.from_json(field, document), value)


@given(any_fields(), st.binary(max_size=20))
def test_any_bytes_have_a_value_and_a_json_form(field: Field, raw: bytes) -> None:
    value = cell_values.decode(field, raw)
    document = json.loads(json.dumps(cell_values.to_json(field, value), allow_nan=False))
    if isinstance(value, bytes):
        assert (value, document) == (raw, raw.hex())
    else:
        assert same(cell_values.from_json(field, document), value)


@given(st.sampled_from(NUMBERS), st.binary(max_size=9))
def test_bytes_of_a_wrong_size_stay_bytes(datatype: Datatype, raw: bytes) -> None:
    value = cell_values.decode(make_field("a", datatype), raw)
    assert (value is None) == (raw == b"")
    assert isinstance(value, bytes) == (len(raw) not in (0, datatype.size))


@given(st.sampled_from(DATETIMES), INT64)
def test_dates_of_any_unit_come_back_from_their_text(datatype: Datatype, ticks: int) -> None:
    assert text_to_ticks(datatype, ticks_to_text(datatype, ticks)) == ticks


@given(st.sampled_from(TIMES), INT64)
def test_times_of_any_unit_come_back_from_their_text(datatype: Datatype, ticks: int) -> None:
    assert text_to_ticks(datatype, ticks_to_text(datatype, ticks)) == ticks


@given(st.sampled_from(DATETIMES), st.integers(-(10**6), 10**6))
def test_dates_agree_with_numpy(datatype: Datatype, ticks: int) -> None:
    unit = NUMPY_UNITS[datatype]
    theirs = str(np.array(ticks, dtype="i8").astype(f"M8[{unit}]"))
    ours = ticks_to_text(datatype, ticks)
    # NumPy writes no plus before long years, three digits for -1, and no minutes of whole hours.
    if theirs.startswith("-"):
        year, dash, rest = theirs[1:].partition("-")
        theirs = f"-{year.zfill(4)}{dash}{rest}"
    assert ours.removeprefix("+") == (f"{theirs}:00" if unit == "h" else theirs)


@given(st.datetimes())
def test_dates_agree_with_datetime(moment: datetime.datetime) -> None:
    ticks = (moment - datetime.datetime(1970, 1, 1)) // datetime.timedelta(microseconds=1)
    assert text_to_ticks(Datatype.DATETIME_US, moment.isoformat()) == ticks
    assert datetime.datetime.fromisoformat(ticks_to_text(Datatype.DATETIME_US, ticks)) == moment
    field = make_field("t", Datatype.DATETIME_US)
    assert cell_values.encode(field, moment) == struct.pack("<q", ticks)


def test_dates_beyond_datetime() -> None:
    assert ticks_to_text(Datatype.DATETIME_YEAR, 2**63 - 1) == "+9223372036854777777"
    assert ticks_to_text(Datatype.DATETIME_DAY, -1_000_000) == "-0768-02-04"
    assert ticks_to_text(Datatype.DATETIME_AS, -1) == "1969-12-31T23:59:59.999999999999999999"
    assert ticks_to_text(Datatype.DATETIME_NS, NOT_A_TIME) == "NaT"
    assert text_to_ticks(Datatype.DATETIME_NS, "NaT") == NOT_A_TIME
    assert ticks_to_text(Datatype.TIME_HR, -25) == "-25:00"


@pytest.mark.parametrize(
    ("datatype", "text", "ticks"),
    [
        (Datatype.DATETIME_MS, "1970", 0),
        (Datatype.DATETIME_MS, "1970-01-01 00:00:01.5", 1500),
        (Datatype.DATETIME_SEC, "1970-01-01T02:00+02:00", 0),
        (Datatype.DATETIME_SEC, "1969-12-31T23:00:00-0100", 0),
        (Datatype.DATETIME_SEC, "2000-02-29T00:00:00Z", 951782400),
        (Datatype.DATETIME_WEEK, "1970-01-08", 1),
        (Datatype.DATETIME_MONTH, "1971-02-01T00", 13),
        (Datatype.TIME_MS, "01:02:03.004", 3723004),
    ],
)
def test_text_of_dates(datatype: Datatype, text: str, ticks: int) -> None:
    assert text_to_ticks(datatype, text) == ticks


@pytest.mark.parametrize(
    ("datatype", "text", "said"),
    [
        (Datatype.DATETIME_DAY, "1970-01-01T01:00", "whole number of DATETIME_DAY"),
        (Datatype.DATETIME_WEEK, "1970-01-02", "whole number of DATETIME_WEEK"),
        (Datatype.DATETIME_YEAR, "1970-02", "whole number of DATETIME_YEAR"),
        (Datatype.DATETIME_MONTH, "1970-02-02", "whole number of DATETIME_MONTH"),
        (Datatype.DATETIME_MS, "1970-01-01T00:00:00.0001", "whole number of DATETIME_MS"),
        (Datatype.DATETIME_DAY, "1900-02-29", "day of the calendar"),
        (Datatype.DATETIME_DAY, "1970-13-01", "day of the calendar"),
        (Datatype.DATETIME_SEC, "1970-01-01T24:00", "time of day"),
        (Datatype.DATETIME_SEC, "yesterday", "a date such as"),
        (Datatype.DATETIME_SEC, "\uff11970-01-01", "a date such as"),
        (Datatype.TIME_SEC, "1:00", "a time such as"),
        (Datatype.TIME_SEC, "00:60", "time of day"),
    ],
)
def test_text_that_is_no_date(datatype: Datatype, text: str, said: str) -> None:
    with pytest.raises(PredicateError, match=said):
        text_to_ticks(datatype, text)


@pytest.mark.parametrize(
    ("datatype", "value", "said"),
    [
        (Datatype.INT8, 128, "a number from -128 to 127, found 128"),
        (Datatype.UINT64, -1, "a number from 0 to 18446744073709551615"),
        (Datatype.INT32, 2.5, "a whole number"),
        (Datatype.INT32, True, "a whole number"),
        (Datatype.INT32, "3", "a whole number"),
        (Datatype.INT32, None, "not nullable"),
        (Datatype.FLOAT64, 2**53 + 1, "holds exactly"),
        (Datatype.FLOAT32, 2**24 + 1, "holds exactly"),
        (Datatype.FLOAT32, 0.123456789, "holds exactly"),
        (Datatype.FLOAT32, 1e39, "FLOAT32 can hold"),
        (Datatype.FLOAT64, 10**400, "FLOAT64 can hold"),
        (Datatype.FLOAT64, "x", "a number"),
        (Datatype.BOOL, 2, "True or False"),
        (Datatype.DATETIME_DAY, 2**63, "a number from"),
        (Datatype.BLOB, "x", "bytes"),
        (Datatype.CHAR, "ab", "1 bytes, found 2"),
        (Datatype.STRING_ASCII, "é", "text of STRING_ASCII"),
        (Datatype.STRING_UTF8, 3, "text"),
    ],
)
def test_values_that_do_not_fit(datatype: Datatype, value: object, said: str) -> None:
    with pytest.raises(PredicateError, match=said):
        cell_values.encode(make_field("a", datatype), value)


def test_floats_of_32_bits_are_as_short_as_people_type_them() -> None:
    field = make_field("f", Datatype.FLOAT32)
    assert cell_values.decode(field, struct.pack("<f", 0.1)) == 0.1
    assert cell_values.encode(field, 0.1) == cell_values.encode(field, np.float32(0.1))
    assert cell_values.decode(field, struct.pack("<f", 16777216.0)) == 16777216.0


@given(st.floats(width=32))
def test_every_float_of_32_bits_comes_back(number: float) -> None:
    field = make_field("f", Datatype.FLOAT32)
    raw = struct.pack("<f", number)
    value = cell_values.decode(field, raw)
    assert isinstance(value, float)
    assert math.isnan(value) if math.isnan(number) else cell_values.encode(field, value) == raw


def test_special_floats_are_valid_json() -> None:
    field = make_field("f", Datatype.FLOAT64)
    for number, name in ((math.nan, "NaN"), (math.inf, "Infinity"), (-math.inf, "-Infinity")):
        assert cell_values.to_json(field, number) == name
        assert same(cell_values.from_json(field, name), number)


def test_labels() -> None:
    field = make_field("c", Datatype.INT8, nullable=True, enumeration=COLOURS)
    assert cell_values.decode(field, b"\x02") == "blüe"
    assert cell_values.encode(field, "blüe") == b"\x02"
    assert [cell_values.decode(field, raw) for raw in (b"\x04", b"\xff", b"\0\0", b"")] == [
        b"\x04",
        b"\xff",
        b"\0\0",
        None,
    ]
    assert cell_values.to_json(field, cell_values.decode(field, b"\xff")) == "ff"
    with pytest.raises(PredicateError, match="did you mean 'green'"):
        cell_values.encode(field, "gren")


def test_labels_that_are_not_at_hand() -> None:
    field = make_field("c", Datatype.INT8, enumeration=COLOURS)
    field = dataclasses.replace(field, enumeration=None)
    assert cell_values.decode(field, b"\x01") == b"\x01"
    with pytest.raises(PredicateError, match="labels of enumeration 'colours', found none"):
        cell_values.encode(field, "red")


def test_labels_that_are_not_text_are_hex() -> None:
    odd = make_enumeration("e", ("a", b"\xff".decode("utf-8", "surrogateescape")), ordered=False)
    field = make_field("e", Datatype.INT8, enumeration=odd)
    value = cell_values.decode(field, b"\x01")
    assert cell_values.to_json(field, value) == "ff"
    assert cell_values.encode(field, b"\xff") == b"\x01"


def test_cells_of_several_values() -> None:
    pair = make_field("p", Datatype.INT16, num=2)
    assert cell_values.decode(pair, b"\1\0\2\0") == (1, 2)
    assert cell_values.encode(pair, [1, 2]) == b"\1\0\2\0"
    assert cell_values.to_json(pair, (1, 2)) == [1, 2]
    with pytest.raises(PredicateError, match="2 values"):
        cell_values.encode(pair, [1])
    with pytest.raises(PredicateError, match="a list of values"):
        cell_values.encode(pair, 1)
    some = make_field("s", Datatype.FLOAT32, num=VAR_NUM)
    assert cell_values.decode(some, struct.pack("<3f", 1, 2, 3)) == (1.0, 2.0, 3.0)


def test_text_of_fixed_size_is_padded() -> None:
    field = make_field("c", Datatype.CHAR, num=3)
    assert cell_values.encode(field, "a") == b"a\0\0"


def test_bytes_that_are_not_text() -> None:
    field = make_field("s", Datatype.STRING_UTF8, num=VAR_NUM)
    assert cell_values.decode(field, b"\xff") == b"\xff"
    assert cell_values.to_json(field, b"\xff") == "ff"
    assert cell_values.encode(field, b"\xff") == b"\xff"
    wide = make_field("w", Datatype.STRING_UTF16, num=VAR_NUM)
    assert cell_values.decode(wide, "é😀".encode("utf-16-le")) == "é😀"
    assert cell_values.decode(wide, b"\0\xd8") == b"\0\xd8"


def test_numpy_scalars() -> None:
    assert cell_values.encode(make_field("a", Datatype.INT16), np.int8(3)) == b"\3\0"
    moment = np.datetime64("1970-01-01T00:00:01", "s")
    assert cell_values.encode(make_field("t", Datatype.DATETIME_MS), moment) == struct.pack(
        "<q", 1000
    )
