"""Dates and times of any unit.

In: a datatype and a count of its units, or ISO-8601 text. Out: the other one, exactly.
Knows nothing of fields, and never rounds: it refuses text that is no whole number of units.
"""

from __future__ import annotations

import re
from datetime import date

from chronotile.errors import PredicateError
from chronotile.format.datatypes import Datatype

NOT_A_TIME = -(2**63)
"""The count that NumPy, and so TileDB's Python users, call NaT."""

_SECOND = 10**18
_UNITS = {
    "WEEK": 7 * 86400 * _SECOND,
    "DAY": 86400 * _SECOND,
    "HR": 3600 * _SECOND,
    "MIN": 60 * _SECOND,
    "SEC": _SECOND,
    "MS": 10**15,
    "US": 10**12,
    "NS": 10**9,
    "PS": 10**6,
    "FS": 10**3,
    "AS": 1,
}
_MONTHS = {Datatype.DATETIME_YEAR: 12, Datatype.DATETIME_MONTH: 1}
_ATTOSECONDS = {
    datatype: _UNITS[datatype.name.rpartition("_")[2]]
    for datatype in Datatype
    if datatype.is_temporal and datatype not in _MONTHS
}

_DATETIME = re.compile(
    r"(?P<year>\d{4}|[+-]\d{4,20})"
    r"(?:-(?P<month>\d\d)(?:-(?P<day>\d\d)"
    r"(?:[T ](?P<hour>\d\d)(?::(?P<minute>\d\d)"
    r"(?::(?P<second>\d\d)(?:\.(?P<fraction>\d{1,18}))?)?)?"
    r"(?P<zone>Z|[+-]\d\d:?\d\d)?)?)?)?",
    re.ASCII,
)
_TIME = re.compile(
    r"(?P<sign>-?)(?P<hour>\d{2,20})"
    r"(?::(?P<minute>\d\d)(?::(?P<second>\d\d)(?:\.(?P<fraction>\d{1,18}))?)?)?",
    re.ASCII,
)
_EPOCH = date(1970, 1, 1).toordinal()
_ERA_DAYS = date(401, 1, 1).toordinal() - 1
"""Days of 400 years."""


def ticks_to_text(datatype: Datatype, ticks: int) -> str:
    """Write a count of units since the epoch, or since midnight, as ISO-8601.

    >>> ticks_to_text(Datatype.DATETIME_MS, 1577836800123)
    '2020-01-01T00:00:00.123'
    >>> ticks_to_text(Datatype.DATETIME_YEAR, 10000), ticks_to_text(Datatype.TIME_MIN, 61)
    ('+11970', '01:01')
    """
    if datatype.is_datetime and ticks == NOT_A_TIME:
        return "NaT"
    if datatype in _MONTHS:
        years, month = divmod(ticks * _MONTHS[datatype], 12)
        year = _year_text(1970 + years)
        return year if datatype is Datatype.DATETIME_YEAR else f"{year}-{month + 1:02}"
    unit = _ATTOSECONDS[datatype]
    total = ticks * unit
    if datatype.is_time:
        return ("-" if total < 0 else "") + _clock_text(abs(total), unit)
    days, rest = divmod(total, _UNITS["DAY"])
    date_text = _date_text(days)
    return date_text if unit >= _UNITS["DAY"] else f"{date_text}T{_clock_text(rest, unit)}"


def text_to_ticks(datatype: Datatype, text: str) -> int:
    """Read ISO-8601 text as a count of the datatype's units.

    The text is a date, a date and time, or a time of day. A shorter text stands for its first
    instant. A date without a zone is in UTC.

    Raises:
        PredicateError: The text is no date or time, or no whole number of units.

    >>> text_to_ticks(Datatype.DATETIME_DAY, "1970-02-01")
    31
    """
    if datatype.is_datetime and text == "NaT":
        return NOT_A_TIME
    match = (_TIME if datatype.is_time else _DATETIME).fullmatch(text)
    if match is None:
        kind = "a time such as 13:45:00" if datatype.is_time else "a date such as 2020-01-31"
        raise _wrong(datatype, kind, text)
    part = match.groupdict()
    total = _clock(datatype, text, part)
    unit = _MONTHS.get(datatype) or _ATTOSECONDS[datatype]
    rest = 0
    if datatype.is_time:
        total = -total if part["sign"] else total
    else:
        year, month, day = int(part["year"]), int(part["month"] or 1), int(part["day"] or 1)
        try:
            total += _days(year, month, day) * _UNITS["DAY"] - _zone(part["zone"])
        except ValueError as cause:
            raise _wrong(datatype, "a day of the calendar", text) from cause
        if datatype in _MONTHS:
            rest = total - _days(year, month, 1) * _UNITS["DAY"]
            total = (year - 1970) * 12 + month - 1
    if rest or total % unit:
        raise _wrong(datatype, f"a whole number of {datatype.name} units", text)
    return total // unit


def _wrong(datatype: Datatype, expected: str, text: str) -> PredicateError:
    return PredicateError(datatype.name, f"expected {expected}, found {text!r}")


def _clock(datatype: Datatype, text: str, part: dict[str, str | None]) -> int:
    hour, minute, second = (int(part[name] or 0) for name in ("hour", "minute", "second"))
    if minute > 59 or second > 59 or (datatype.is_datetime and hour > 23):
        raise _wrong(datatype, "a time of day", text)
    fraction = int((part["fraction"] or "").ljust(18, "0"))
    return (hour * 3600 + minute * 60 + second) * _SECOND + fraction


def _zone(text: str | None) -> int:
    if text is None or text == "Z":
        return 0
    minutes = int(text[1:3]) * 60 + int(text[-2:])
    return (-minutes if text[0] == "-" else minutes) * 60 * _SECOND


def _clock_text(attoseconds: int, unit: int) -> str:
    seconds, fraction = divmod(attoseconds, _SECOND)
    minutes, second = divmod(seconds, 60)
    hour, minute = divmod(minutes, 60)
    text = f"{hour:02}:{minute:02}"
    if unit >= 60 * _SECOND:
        return text
    digits = 18 - len(str(unit)) + 1
    return f"{text}:{second:02}" + (f".{fraction:018}"[: digits + 1] if digits else "")


def _year_text(year: int) -> str:
    return f"{year:04}" if 0 <= year <= 9999 else f"{year:+05}"


# The calendar repeats every 400 years: `date` stops at the year 9999, a count of units does not.


def _days(year: int, month: int, day: int) -> int:
    era, year_of_era = divmod(year - 1, 400)
    return era * _ERA_DAYS + date(year_of_era + 1, month, day).toordinal() - _EPOCH


def _date_text(days: int) -> str:
    era, day_of_era = divmod(days + _EPOCH - 1, _ERA_DAYS)
    day = date.fromordinal(day_of_era + 1)
    return f"{_year_text(era * 400 + day.year)}-{day.month:02}-{day.day:02}"
