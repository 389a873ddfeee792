"""Moments as people and programs write them."""

from __future__ import annotations

import time
from datetime import UTC, date, datetime, timedelta, timezone
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from chronotile.errors import BadTimeError
from chronotile.format.timestamps import iso_time, local_clock, now_ms, time_text, to_ms

if TYPE_CHECKING:
    from collections.abc import Iterator

HOUR = 3_600_000


@pytest.fixture(autouse=True)
def east_of_greenwich(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("TZ", "Asia/Kolkata")
    time.tzset()
    yield
    monkeypatch.undo()
    time.tzset()


@pytest.mark.parametrize(
    ("moment", "ms"),
    [
        ("0", 0),
        ("18446744073709551615", 2**64 - 1),
        ("1970-01-01T00:00:00Z", 0),
        ("2024-05-01T08:00:00.1239Z", 1714550400123),
        ("2024-05-01T08:00", 1714550400000),
        ("2024-05-01 13:30:00+05:30", 1714550400000),
        ("2024-05-01", 1714521600000),
        (" 12 ", 12),
        (12, 12),
        (np.uint64(2**64 - 1), 2**64 - 1),
        (datetime(2024, 5, 1, 8), 1714550400000),
        (datetime(2024, 5, 1, 8, tzinfo=UTC), 1714550400000),
        (datetime(2024, 5, 1, 10, tzinfo=timezone(timedelta(hours=2))), 1714550400000),
        (date(2024, 5, 1), 1714521600000),
    ],
    ids=repr,
)
def test_a_moment_is_read(moment: Any, ms: int) -> None:
    assert to_ms(moment) == ms


@pytest.mark.parametrize(
    "moment",
    [
        *("", "-1", "1.5", "yesterdy", "18446744073709551616", "9" * 5000, "1969-12-31", "²"),
        *("2x", "h", "-2h", "0001-01-01T00:00+23:59", -2, 2**65, 2.5, None),
        datetime(1969, 12, 31, tzinfo=UTC),
    ],
)
def test_anything_else_is_refused(moment: Any) -> None:
    with pytest.raises(BadTimeError, match=r"--end: .*(is not a time|is before 1970)") as caught:
        to_ms(moment, "--end")
    assert caught.value.exit_code == 2


@pytest.mark.parametrize(
    ("text", "ago"),
    [
        ("now", 0),
        ("90s", 90_000),
        ("30m", HOUR // 2),
        ("2h", 2 * HOUR),
        ("1d12h", 36 * HOUR),
        ("3w", 504 * HOUR),
        ("yesterday", 24 * HOUR),
    ],
)
def test_a_time_ago(text: str, ago: int) -> None:
    before = now_ms()
    assert before <= to_ms(text) + ago <= now_ms()


def test_a_time_ago_stops_at_the_epoch() -> None:
    assert to_ms("99999w") == 0


def test_a_tag_comes_after_times_and_before_days() -> None:
    tags = {"release-1": 7, "now": 8, "2h": 9, "monday": 10}
    assert to_ms("release-1", tags=lambda: tags) == 7
    assert to_ms("now", tags=lambda: tags) > 8
    assert to_ms("monday", tags=lambda: tags) == 10
    with pytest.raises(
        BadTimeError, match=r"'relase-1' is neither a time nor a tag; did you mean release-1\?"
    ):
        to_ms("relase-1", tags=lambda: tags)


@pytest.mark.parametrize(
    ("number", "meant"),
    [
        ("20240514", "the date, give 2024-05-14"),
        (2030, "the year, give 2030-01-01"),
        ("1714550400", "2024-05-01 08:00:00.000 UTC, give 1714550400000"),
    ],
)
def test_a_number_that_is_no_ms_is_refused(number: Any, meant: str) -> None:
    with pytest.raises(BadTimeError, match=f"before everything; if you mean {meant}"):
        to_ms(number, earliest=1714550400000)
    assert to_ms(number, earliest=10) == int(number), "times of a test"
    assert to_ms("20249999", earliest=1714550400000) == 20249999


WEDNESDAY = 1_731_508_200_000
"""2024-11-13 14:30 UTC."""


@pytest.mark.parametrize(
    ("text", "iso"),
    [
        ("monday", "2024-11-11T00:00:00.000Z"),
        ("Wednesday", "2024-11-13T00:00:00.000Z"),
        ("wednesday 14:30", "2024-11-13T14:30:00.000Z"),
        ("wednesday 14:31", "2024-11-06T14:31:00.000Z"),
        ("thursday", "2024-11-07T00:00:00.000Z"),
        ("monday 9:05 Europe/Berlin", "2024-11-11T08:05:00.000Z"),
        ("wednesday 23:30 Asia/Tokyo", "2024-11-13T14:30:00.000Z"),
        ("today 09:00", "2024-11-13T09:00:00.000Z"),
        ("yesterday 09:00:00.5", "2024-11-12T09:00:00.500Z"),
        ("yesterday", "2024-11-12T14:30:00.000Z"),
        ("2024-11-09 14:00 Europe/Berlin", "2024-11-09T13:00:00.000Z"),
        ("2024-07-09 14:00 Europe/Berlin", "2024-07-09T12:00:00.000Z"),
        ("2024-11-09 Asia/Tokyo", "2024-11-08T15:00:00.000Z"),
        ("2024-11-09T14:00+01:00 Asia/Tokyo", "2024-11-09T13:00:00.000Z"),
        ("20241109 14:00 utc", "2024-11-09T14:00:00.000Z"),
        ("NOW", "2024-11-13T14:30:00.000Z"),
        ("Yesterday", "2024-11-12T14:30:00.000Z"),
        ("MONDAY 14:00", "2024-11-11T14:00:00.000Z"),
        ("2024-11-09 14:00 GMT+1", "2024-11-09T13:00:00.000Z"),
        ("2024-11-09 14:00 UTC-05:30", "2024-11-09T19:30:00.000Z"),
    ],
)
def test_days_and_zones(text: str, iso: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("time.time", lambda: WEDNESDAY / 1000)
    assert iso_time(to_ms(text)) == iso


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("mondy", "'mondy' is not a time; did you mean monday?"),
        ("monday 25:00", "'monday 25:00' is not a time; give one such as 2024-05-01"),
        ("monday 14:00 Berlin", "'Berlin' is not a time zone; did you mean Europe/Berlin?"),
        (
            "2024-05-01 14:00 Europe/Brelin",
            "'Europe/Brelin' is not a time zone; did you mean Europe/Berlin?",
        ),
        (
            "2024-05-01 14:00 ../../etc/passwd",
            "'2024-05-01 14:00 ../../etc/passwd' is not a time; give one such as 2024-05-01",
        ),
        ("2024-05-41 UTC", "'2024-05-41 UTC' is not a time; give one such as 2024-05-01"),
        ("3 days", "'3 days' is not a time; give one such as 2024-05-01"),
    ],
)
def test_what_is_no_day(text: str, problem: str) -> None:
    with pytest.raises(BadTimeError) as error:
        to_ms(text)
    assert problem in str(error.value)


@pytest.mark.parametrize("ms", [0, 7, 1714550400123, 253_402_300_799_999])
def test_iso_is_read_back(ms: int) -> None:
    text = iso_time(ms)
    assert text is not None
    assert to_ms(text) == ms


def test_for_people() -> None:
    assert time_text(1714550400123) == "2024-05-01 08:00:00.123 UTC"
    assert time_text(253_402_300_799_999) == "9999-12-31 23:59:59.999 UTC"
    assert time_text(2**64 - 1) == "after the year 9999"
    with local_clock():
        assert time_text(1714550400123) == "2024-05-01 13:30:00.123 +05:30"
        assert time_text(253_402_300_799_999) == "after the year 9999"
    assert time_text(0).endswith(" UTC")
