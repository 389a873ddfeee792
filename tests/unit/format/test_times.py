"""Moments as people write them."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import pytest

from chronotile.errors import ChronotileError
from chronotile.format.timestamps import iso_time, local_time, now_ms, parse_time

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture(autouse=True)
def east_of_greenwich(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("TZ", "Asia/Kolkata")
    time.tzset()
    yield
    monkeypatch.undo()
    time.tzset()


@pytest.mark.parametrize(
    ("text", "ms"),
    [
        ("0", 0),
        ("18446744073709551615", 2**64 - 1),
        ("1970-01-01T00:00:00Z", 0),
        ("2024-05-01T08:00:00.1239Z", 1714550400123),
        ("2024-05-01T13:30", 1714550400000),
        ("2024-05-01 13:30:00+05:30", 1714550400000),
        ("2024-05-01", 1714501800000),
        (" 12 ", 12),
    ],
)
def test_a_moment_is_read(text: str, ms: int) -> None:
    assert parse_time(text) == ms


@pytest.mark.parametrize(
    "text", ["", "-1", "1.5", "yesterday", "18446744073709551616", "9" * 5000, "1969-12-31", "²"]
)
def test_anything_else_is_refused(text: str) -> None:
    with pytest.raises(ChronotileError, match="--end: expected"):
        parse_time(text, "--end")


def test_now() -> None:
    before = now_ms()
    assert before <= parse_time("now") <= now_ms()


@pytest.mark.parametrize("ms", [0, 7, 1714550400123, 253_402_300_799_999])
def test_iso_is_read_back(ms: int) -> None:
    text = iso_time(ms)
    assert text is not None
    assert parse_time(text) == ms


def test_for_people() -> None:
    assert local_time(1714550400123) == "2024-05-01 13:30:00.123"
    assert local_time(253_402_300_799_999) == "after the year 9999"
    assert local_time(2**64 - 1) == "after the year 9999"
