"""Moments, as people, programs and the format write them.

In: a moment in any spelling: ms, a `datetime`, ISO-8601, `now`, `2h`, `yesterday`, `monday 14:00`,
with a zone such as `Europe/Berlin` behind it; or the name of a tag that the caller knows. Out:
milliseconds since the epoch; and from those, text for people and for programs. Every text names its
zone. Knows nothing of windows and of tags.
"""

from __future__ import annotations

import re
import time
from contextlib import contextmanager
from contextvars import ContextVar
from datetime import UTC, date, datetime, timedelta, timezone, tzinfo
from datetime import time as time_of_day
from functools import lru_cache
from typing import TYPE_CHECKING, SupportsIndex, TypeAlias

from chronotile.errors import BadTimeError
from chronotile.format.names import MAX_TIMESTAMP
from chronotile.safe_text import did_you_mean

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

Moment: TypeAlias = "SupportsIndex | str | date"
"""A moment as a caller may give it: ms, a text, a `datetime` or a `date`. UTC, if it names no
zone."""
Ends: TypeAlias = "tuple[Moment, Moment | None]"
"""Start and end of a window as a caller may give them; None is now."""

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_EPOCH_DAY = _EPOCH.toordinal()
_MILLISECOND = timedelta(milliseconds=1)
LAST_CALENDAR_MS = 253_402_300_799_999
"""The last millisecond of the calendar's year 9999."""
_UNITS = {"ms": 1, "s": 1000, "m": 60_000, "h": 3_600_000, "d": 86_400_000, "w": 604_800_000}
"""Unit of a time ago -> milliseconds."""
_AGO = re.compile(r"(?:\d{1,15}(?:ms|[smhdw]))+")
_PART = re.compile(r"(\d+)(ms|[smhdw])")
DAYS = ("monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday")
_WORDED = re.compile(
    rf"(?:(?P<day>today|yesterday|{'|'.join(DAYS)})(?:\s+(?P<clock>\d{{1,2}}:[0-9:.]+))?"
    r"|(?P<iso>\d{4}-?\d\d\S*(?:\s+\d\S*)?))(?:\s+(?P<zone>[A-Za-z][\w/+:-]*))?",
    re.IGNORECASE | re.ASCII,
)
_OFFSET = re.compile(r"(?:GMT|UTC)([+-])(\d{1,2})(?::?([0-5]\d))?", re.IGNORECASE | re.ASCII)
_EXPECTED = (
    "give one such as 2024-05-01, '2024-05-01 14:00 Europe/Berlin', 'monday 14:00', "
    "yesterday, now, 2h for two hours ago, or ms since 1970"
)
_EARLY_MS = 100_000_000_000
"""A time before this, in 1973, is that of a test, or not in ms."""
_LATE_S = 1_000_000_000
"""A number from here on, taken for seconds, is after 2001; below it may be the time of a test."""
_in_local_time: ContextVar[bool] = ContextVar("_in_local_time", default=False)


def now_ms() -> int:
    """Return this moment, in milliseconds since the epoch.

    >>> now_ms() > 1_700_000_000_000
    True
    """
    return int(time.time() * 1000)


def to_ms(
    moment: Moment,
    where: str = "time",
    *,
    tags: Callable[[], Mapping[str, int]] | None = None,
    earliest: int | None = None,
) -> int:
    """Read a moment in any spelling.

    A time without a zone is UTC. A date is its first millisecond. Digits alone are milliseconds.
    Microseconds are cut off. `30m`, `2h`, `1d12h`, `3w` and `yesterday` (24 hours) mean that long
    ago. `monday` is the last Monday at 0:00, `monday 14:00` the last time that it was that; so for
    every day of the week, unless a tag has that name.

    Args:
        moment: A number, a text, a `datetime` or a `date`.
        where: Names the moment in an error.
        tags: Reads the moments of tags; called only if a text may be one.
        earliest: The first time at which there is anything. A number that lies in 1970 to 1973, far
            before it, is refused if it is the seconds of a time after 2001, a date such as
            20240514, or a year.

    Raises:
        BadTimeError: It is none of these, before the epoch, not within 64 bits, or no ms.

    >>> to_ms(1714550400000), to_ms("2024-05-01T08:00:00Z"), to_ms(datetime(2024, 5, 1, 8))
    (1714550400000, 1714550400000, 1714550400000)
    >>> to_ms("2024-05-01 10:00 Europe/Berlin"), to_ms("release-1", tags=lambda: {"release-1": 7})
    (1714550400000, 7)
    >>> to_ms("2024-05-01 10:00 GMT+2") == to_ms("2024-05-01T08:00Z"), to_ms("NOW") > 0
    (True, True)
    >>> to_ms(1714550400, "--end", earliest=1714550400000)  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    chronotile.errors.BadTimeError: --end: 1714550400 ms is 1970-01-20 ...
    """
    if isinstance(moment, date):
        return _of_date(moment, str(moment), where)
    if isinstance(moment, str):
        return _of_text(moment.strip(), where, tags, earliest)
    try:
        return _of_number(moment.__index__(), where, earliest)
    except AttributeError:
        problem = f"a {type(moment).__name__} is not a time; {_EXPECTED}"
        raise BadTimeError(where, problem) from None


def duration_ms(text: str, where: str = "duration") -> int:
    """Read a length of time, such as `30m`, `2h`, `1d12h` or `3w`.

    Raises:
        BadTimeError: It is none.

    >>> duration_ms("1d12h")
    129600000
    """
    if not _AGO.fullmatch(text):
        problem = f"{text[:60]!r} is not a length of time; give one such as 30m, 2h, 7d or 3w"
        raise BadTimeError(where, problem)
    return sum(int(number) * _UNITS[unit] for number, unit in _PART.findall(text))


def _of_number(number: int, where: str, earliest: int | None) -> int:
    is_early = earliest is not None and number < _EARLY_MS <= earliest
    if is_early and (meant := _meant(number)):
        problem = f"{number} ms is {time_text(number)}, before everything"
        raise BadTimeError(where, f"{problem}; if you mean {meant}")
    if not 0 <= number <= MAX_TIMESTAMP:
        problem = f"{str(number)[:40]} is not a time: milliseconds have 64 bits, and no sign"
        raise BadTimeError(where, problem)
    return number


def _meant(number: int) -> str | None:
    """Guess the date, the year or the seconds that somebody means by a small number of ms."""
    if number >= _LATE_S:
        return f"{time_text(number * 1000)}, give {number * 1000}"
    if 1970 <= number <= 2100:
        return f"the year, give {number}-01-01"
    try:
        day = datetime.strptime(str(number), "%Y%m%d")
    except ValueError:
        return None
    return f"the date, give {day:%Y-%m-%d}" if 1970 <= day.year <= 2100 else None


def _of_text(
    text: str,
    where: str,
    tags: Callable[[], Mapping[str, int]] | None,
    earliest: int | None,
) -> int:
    if text == "now":
        return now_ms()
    if text.isascii() and text.isdigit():
        number = int(text) if len(text) <= 20 else MAX_TIMESTAMP + 1
        return _of_number(number, where, earliest)
    ago = "1d" if text == "yesterday" else text
    if _AGO.fullmatch(ago):
        return max(now_ms() - duration_ms(ago), 0)
    try:
        return _of_date(datetime.fromisoformat(text), text, where)
    except BadTimeError:
        raise
    except ValueError:
        pass
    known = tags() if tags is not None and text else {}
    if text in known:
        return known[text]
    if text.lower() in ("now", "yesterday") and text != text.lower():
        return _of_text(text.lower(), where, None, earliest)
    words = _WORDED.fullmatch(text)
    moment = None if words is None else _of_words(words, where)
    if moment is not None:
        return _of_date(moment, text, where)
    kinds = "not a time" if tags is None else "neither a time nor a tag"
    similar = [*known, *DAYS, "yesterday", "now"]
    hint = "" if " " in text else did_you_mean(text, similar)
    named = f", or a tag: {', '.join([*known][:5])}" if known else ""
    raise BadTimeError(where, f"{text[:60]!r} is {kinds}{hint or f'; {_EXPECTED}{named}'}")


def _of_words(words: re.Match[str], where: str) -> datetime | None:
    """Read a day, a time of that day and a zone; None if they are none."""
    zone = _zone(words["zone"], where) if words["zone"] else UTC
    try:
        if words["iso"]:
            moment = datetime.fromisoformat(words["iso"])
            return moment if moment.tzinfo is not None else moment.replace(tzinfo=zone)
        clock = time_of_day.fromisoformat((words["clock"] or "00:00").zfill(5))
    except ValueError:
        return None
    day, now = words["day"].lower(), datetime.fromtimestamp(now_ms() / 1000, zone)
    back = (now.weekday() - DAYS.index(day)) % 7 if day in DAYS else int(day == "yesterday")
    moment = datetime.combine(now.date() - timedelta(days=back), clock, zone)
    if day in DAYS and moment > now:
        moment = datetime.combine(moment.date() - timedelta(days=7), clock, zone)
    return moment


def _zone(name: str, where: str) -> tzinfo:
    from zoneinfo import ZoneInfo, ZoneInfoNotFoundError, available_timezones

    if name.upper() in ("UTC", "GMT", "Z"):
        return UTC
    if offset := _OFFSET.fullmatch(name):
        ahead = timedelta(hours=int(offset[2]), minutes=int(offset[3] or 0))
        if ahead < timedelta(days=1):
            return timezone(ahead if offset[1] == "+" else -ahead)
    try:
        return ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        zones = available_timezones()
        fitting = [one for one in zones if one.lower().endswith(f"/{name.lower()}")]
        hint = f"; did you mean {min(fitting)}?" if fitting else did_you_mean(name, zones)
        problem = f"{name[:60]!r} is not a time zone{hint or '; give one such as Europe/Berlin'}"
        raise BadTimeError(where, problem) from None


def _of_date(moment: date, text: str, where: str) -> int:
    if not isinstance(moment, datetime):
        moment = datetime(moment.year, moment.month, moment.day, tzinfo=UTC)
    zoned = moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment
    try:
        ms = (zoned - _EPOCH) // _MILLISECOND
    except OverflowError:  # an offset that leaves the calendar
        ms = -1
    if ms < 0:
        raise BadTimeError(where, f"{text[:60]!r} is before 1970: no array has such a time")
    return ms


@contextmanager
def local_clock() -> Iterator[None]:
    """Let `time_text` write local time, with its offset, until the end of the block."""
    token = _in_local_time.set(True)
    try:
        yield
    finally:
        _in_local_time.reset(token)


def is_clock_local() -> bool:
    """Return True if `time_text` writes local time now.

    >>> is_clock_local()
    False
    """
    return _in_local_time.get()


def time_text(ms: int) -> str:
    """Write a moment for people: in UTC, or in local time within `local_clock`.

    >>> time_text(1_714_550_400_120), time_text(2**64 - 1)
    ('2024-05-01 08:00:00.120 UTC', 'after the year 9999')
    """
    if ms > LAST_CALENDAR_MS:
        return "after the year 9999"
    seconds, rest = divmod(ms, 1000)
    if not _in_local_time.get():
        return f"{_text(seconds, ' ')}.{rest:03} UTC"
    try:
        shown = datetime.fromtimestamp(seconds).astimezone()
    except (OverflowError, ValueError):  # the last hours of 9999, east of Greenwich
        return "after the year 9999"
    return f"{shown:%Y-%m-%d %H:%M:%S}.{rest:03} {shown.isoformat()[19:]}"


def span_text(t1: int | None, t2: int | None) -> str:
    """Write a time range for people, with its milliseconds.

    >>> span_text(0, 0)
    '1970-01-01 00:00:00.000 UTC (0)'
    >>> span_text(None, None)
    'at an unknown time'
    """
    if t1 is None or t2 is None:
        return "at an unknown time"
    if t1 == t2:
        return f"{time_text(t2)} ({t2})"
    return f"{time_text(t1)} to {time_text(t2)} ({t1} to {t2})"


def iso_time(ms: int) -> str | None:
    """Write a moment in UTC, for programs; None after the year 9999, where ISO-8601 ends.

    >>> iso_time(1_714_550_400_120), iso_time(2**64 - 1)
    ('2024-05-01T08:00:00.120Z', None)
    """
    if ms > LAST_CALENDAR_MS:
        return None
    seconds, rest = divmod(ms, 1000)
    return f"{_text(seconds, 'T')}.{rest:03}Z"


def _text(seconds: int, between: str) -> str:
    days, rest = divmod(seconds, 86_400)
    minutes, second = divmod(rest, 60)
    return f"{_day(days)}{between}{minutes // 60:02}:{minutes % 60:02}:{second:02}"


@lru_cache(maxsize=1024)
def _day(days: int) -> str:
    return date.fromordinal(_EPOCH_DAY + days).isoformat()
