"""Timestamped names: there and back, and what is no name."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.commit_strategies import TIMES, UUIDS, VERSIONS, names, odd_names

from chronotile.errors import BadNameError
from chronotile.format.names import (
    MAX_TIMESTAMP,
    MAX_VERSION,
    Name,
    format_name,
    new_name,
    parse_name,
    time_order,
    version_of,
)

UUID = "00112233445566778899aabbccddeeff"


@given(TIMES, TIMES, UUIDS, st.one_of(st.none(), VERSIONS))
def test_there_and_back(one: int, other: int, uuid: str, version: int | None) -> None:
    t1, t2 = sorted((one, other))
    text = format_name(t1, t2, uuid, version)
    era = 2 if version is None else 3
    assert parse_name(text) == Name(t1, t2, uuid, version, era, text)


@given(names())
def test_the_text_is_kept(text: str) -> None:
    name = parse_name(text)
    assert name.text == text
    assert name.t1 <= name.t2
    assert name.uuid in text


@given(st.one_of(odd_names(), st.text(max_size=60)))
def test_any_text_is_a_name_or_an_error_that_says_where(text: str) -> None:
    error = None
    try:
        assert parse_name(text).text == text
        assert text.isascii()
    except BadNameError as caught:
        error = str(caught)
    assert error is None or ("expected" in error and len(error) < 300)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (f"__10_20_{UUID}_22", (10, 20, 22, 3)),
        (f"__10_20_{UUID}", (10, 20, None, 2)),
        (f"__{UUID}_10_20", (20, 20, None, 1)),  # the engine takes the last for both
        (f"__{UUID}_10", (10, 10, None, 1)),
        (f"__007_08_{UUID}_022", (7, 8, 22, 3)),
        (f"__0_{MAX_TIMESTAMP}_{UUID}_{MAX_VERSION}", (0, MAX_TIMESTAMP, MAX_VERSION, 3)),
    ],
)
def test_eras(text: str, expected: tuple[int, int, int | None, int]) -> None:
    name = parse_name(text)
    assert (name.t1, name.t2, name.version, name.era) == expected


@pytest.mark.parametrize(
    "text",
    [
        "",
        "__",
        f"_10_20_{UUID}_22",
        f"__10_20_{UUID}_",
        f"__10_20_{UUID}_22_",
        f"__10_20_{UUID}_22\n",
        f"__10_20_{UUID}_22.wrt",
        f"__20_10_{UUID}_22",
        f"__-1_20_{UUID}_22",
        f"__+1_20_{UUID}_22",
        f"__ 1_20_{UUID}_22",
        f"__1_20_{UUID[:-1]}_22",
        f"__1_20_{UUID}0_22",
        f"__1_20_{UUID.upper()}_22",
        f"__٣_٣_{UUID}_22",
        f"__1_{MAX_TIMESTAMP + 1}_{UUID}_22",
        f"__1_1_{UUID}_{MAX_VERSION + 1}",
        f"__{'9' * 21}_{'9' * 21}_{UUID}_22",
    ],
)
def test_no_names(text: str) -> None:
    with pytest.raises(BadNameError, match="expected"):
        parse_name(text)


@pytest.mark.parametrize(
    "parts",
    [(2, 1, UUID, 22), (-1, 1, UUID, 22), (1, 1, "ab", 22), (1, 1, UUID, -1), (1, 1, "A" * 32, 1)],
)
def test_names_that_are_not_made(parts: tuple[int, int, str, int]) -> None:
    with pytest.raises(BadNameError):
        format_name(*parts)


def test_new_names_differ() -> None:
    made = {new_name(1, 2, 22) for _ in range(100)}
    assert len(made) == 100


def test_versions() -> None:
    texts = (f"__1_1_{UUID}_22", f"__1_1_{UUID}", f"__{UUID}_1")
    assert [version_of(parse_name(text)) for text in texts] == [22, 4, 2]


@given(st.lists(names(), max_size=10))
def test_time_order_is_of_numbers(found: list[str]) -> None:
    ordered = sorted(map(parse_name, found), key=time_order)
    assert [(name.t1, name.t2) for name in ordered] == sorted((n.t1, n.t2) for n in ordered)
