"""Moments, as people and as the format write them.

In: milliseconds, an ISO-8601 time or `now`; or milliseconds since the epoch. Out: the other one.
Knows nothing of windows, and reads the clock only for `now`.
"""

from __future__ import annotations

import time
from datetime import UTC, datetime, timedelta

from chronotile.errors import ChronotileError
from chronotile.format.names import MAX_TIMESTAMP

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MILLISECOND = timedelta(milliseconds=1)
_LAST = 253_402_300_799_999
"""The last millisecond of the calendar's year 9999."""


def now_ms() -> int:
    """This moment, in milliseconds since the epoch.

    >>> now_ms() > 1_700_000_000_000
    True
    """
    return int(time.time() * 1000)


def parse_time(text: str, where: str = "time") -> int:
    """Read a moment: milliseconds, an ISO-8601 time, or `now`.

    A time without an offset is local time, as `log` shows it; a date is its first millisecond.
    Digits alone are milliseconds. Microseconds are cut off. `where` names the text in an error.

    Raises:
        ChronotileError: It is none of these, or before the epoch.

    >>> parse_time("1714550400000"), parse_time("2024-05-01T08:00:00Z")
    (1714550400000, 1714550400000)
    """
    text = text.strip()
    if text == "now":
        return now_ms()
    if text.isascii() and text.isdigit():
        moment = int(text) if len(text) <= 20 else MAX_TIMESTAMP + 1
        if moment > MAX_TIMESTAMP:
            raise ChronotileError(where, f"expected milliseconds of 64 bits, found {text:.40}")
        return moment
    try:
        moment = (datetime.fromisoformat(text).astimezone(UTC) - _EPOCH) // _MILLISECOND
    except (ValueError, OverflowError) as cause:
        expected = "milliseconds, an ISO-8601 time or now"
        raise ChronotileError(where, f"expected {expected}, found {text[:60]!r}") from cause
    if moment < 0:
        raise ChronotileError(where, f"expected a time after 1970 began, found {text[:60]!r}")
    return moment


def local_time(ms: int) -> str:
    """Write a moment in local time, for people.

    >>> len(local_time(1_714_550_400_000))
    23
    >>> local_time(2**64 - 1)
    'after the year 9999'
    """
    if ms > _LAST:
        return "after the year 9999"
    seconds, rest = divmod(ms, 1000)
    try:
        shown = datetime.fromtimestamp(seconds).astimezone()
    except (OverflowError, ValueError):  # the last hours of 9999, east of Greenwich
        return "after the year 9999"
    return f"{shown:%Y-%m-%d %H:%M:%S}.{rest:03}"


def iso_time(ms: int) -> str | None:
    """Write a moment in UTC, for programs; None after the year 9999, where ISO-8601 ends.

    >>> iso_time(1_714_550_400_120), iso_time(2**64 - 1)
    ('2024-05-01T08:00:00.120Z', None)
    """
    if ms > _LAST:
        return None
    seconds, rest = divmod(ms, 1000)
    shown = datetime.fromtimestamp(seconds, UTC)
    return f"{shown:%Y-%m-%dT%H:%M:%S}.{rest:03}Z"
