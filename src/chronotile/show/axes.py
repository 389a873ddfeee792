"""The time axis of a picture: its ends, where a moment lies, its ticks.

In: a `Picture`, or two ends. Out: places in ms, and ticks with the date and the time of day that
they need: down to one ms, up to centuries. The page's script makes the same ticks as one zooms.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, NamedTuple

from chronotile.format.timestamps import LAST_CALENDAR_MS, is_clock_local

if TYPE_CHECKING:
    from collections.abc import Iterator

    from chronotile.show.picture import Picture

CALENDAR_FROM = 100_000_000_000
"""Times before this (in 1973) are test data: the axis shows them as numbers, not as dates."""
_S, _MIN, _H, _DAY = 1_000, 60_000, 3_600_000, 86_400_000
STEPS = (
    *(1, 2, 5, 10, 20, 50, 100, 200, 500),
    *(_S, 2 * _S, 5 * _S, 10 * _S, 15 * _S, 30 * _S),
    *(_MIN, 2 * _MIN, 5 * _MIN, 10 * _MIN, 15 * _MIN, 30 * _MIN),
    *(_H, 2 * _H, 3 * _H, 6 * _H, 12 * _H, _DAY, 2 * _DAY, 4 * _DAY, 7 * _DAY, 14 * _DAY),
)
"""Distances of ticks, in ms; longer ones are whole months."""
MONTHS = (1, 3, 6, 12, 24, 60, 120, 240, 600, 1200)


class Tick(NamedTuple):
    """A place on the axis, and what stands there."""

    ms: float
    text: str
    day: str
    """The date below it, if `text` is a time of day; empty if the tick before has the same."""


def position(picture: Picture, moment: int) -> float:
    """Place a moment on the axis; what lies outside of it, at its end."""
    low, high = ends(picture)
    return min(max(float(picture.moments[moment]), low), high)


def ends(picture: Picture) -> tuple[float, float]:
    """Find the ends of the axis: a little before the first moment, and after the last one."""
    first, last = map(float, picture.reach)
    # Around a single date there is an hour.
    least = _H / 2 if first == last >= CALENDAR_FROM else 1.0
    margin = max((last - first) * 0.05, least, first * 1e-15)
    return max(first - margin, 0.0), last + margin


def is_calendar(low: float, high: float) -> bool:
    """Return True if an axis has dates.

    >>> is_calendar(1, 9), is_calendar(1_714_550_400_000, 1_714_550_400_040)
    (False, True)
    """
    return low >= CALENDAR_FROM and high <= LAST_CALENDAR_MS


def axis_title(low: float, high: float) -> str:
    """Name the axis."""
    if not is_calendar(low, high):
        return "time (ms)"
    return "local time" if is_clock_local() else "time (UTC)"


def ticks(low: float, high: float, most: float) -> Iterator[Tick]:
    """Give ticks between two ends, as far apart as if there were that many.

    >>> [tick.text for tick in ticks(1_714_550_400_000, 1_714_550_400_040, 4)]
    ['08:00:00.000', '08:00:00.010', '08:00:00.020', '08:00:00.030', '08:00:00.040']
    >>> [tick.text for tick in ticks(3, 9, 3)]
    ['4', '6', '8']
    """
    wanted = (high - low) / max(most, 1)
    if not is_calendar(low, high):
        scale = 10.0 ** max(len(str(int(wanted))) - 1, 0)
        step = int(next(scale * by for by in (1, 2, 5, 10) if scale * by >= wanted))
        first = -int(-low // step) * step
        for number in range(first, int(high) + 1, step):
            yield Tick(number, f"{number:,}", "")
        return
    before = ""
    for ms, form in _calendar(low, high, wanted):
        when = _date(ms)
        text = when.strftime(form)
        text += f".{ms % 1000:03.0f}" if form.endswith("%S") and wanted < _S else ""
        day = f"{when:%Y-%m-%d}" if "%H" in form else ""
        yield Tick(ms, text, day if day != before else "")
        before = day


def _date(ms: float) -> datetime:
    when = datetime.fromtimestamp(ms // 1000, UTC)
    return when.astimezone() if is_clock_local() else when


def _calendar(low: float, high: float, wanted: float) -> Iterator[tuple[float, str]]:
    step = next((step for step in STEPS if step >= wanted), None)
    if step is not None:
        form = "%Y-%m-%d" if step >= _DAY else "%H:%M" if step >= _MIN else "%H:%M:%S"
        shift = (_date(low).utcoffset() or datetime.min - datetime.min).total_seconds() * 1000
        first = -int(-(low + shift) // step) * step - int(shift)
        yield from ((ms, form) for ms in range(first, int(high) + 1, step))
        return
    months = next((by for by in MONTHS if by * 31 * _DAY >= wanted), MONTHS[-1])
    start = _date(low)
    place = (start.year * 12 + start.month - 1) // months * months
    while True:
        when = start.replace(
            year=place // 12, month=place % 12 + 1, day=1, hour=0, minute=0, second=0
        )
        place += months
        if when.timestamp() * 1000 > high or place >= 9999 * 12:
            return
        if when.timestamp() * 1000 >= low:
            yield when.timestamp() * 1000, "%Y" if months >= 12 else "%Y-%m"
