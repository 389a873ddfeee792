"""Values that a predicate names: found in conditions and records, and left out of them."""

from __future__ import annotations

import struct

import pytest

from chronotile.change.erased_names import named_values, quoted_values
from chronotile.conditions.predicate_parser import parse_predicate
from chronotile.conditions.text import to_text
from chronotile.conditions.tree import flatten, negate
from chronotile.format.datatypes import Datatype
from chronotile.format.schema import Field, Schema

VAR = 2**32 - 1
ID = Field(name="id", datatype=Datatype.INT32, is_dimension=True, domain=struct.pack("<ii", 0, 999))
NAME = Field(name="name", datatype=Datatype.STRING_UTF8, cell_val_num=VAR, nullable=True)
AGE = Field(name="age", datatype=Datatype.UINT8)
SCHEMA = Schema(version=22, dimensions=(ID,), attributes=(NAME, AGE))


def rewritten(erased: str, delete: str) -> str | None:
    values = named_values(parse_predicate(erased, SCHEMA), SCHEMA)
    stored = flatten(negate(parse_predicate(delete, SCHEMA)))
    new = values.without(stored, SCHEMA)
    return None if new is None else to_text(flatten(negate(new)), SCHEMA)


@pytest.mark.parametrize(
    ("erased", "delete", "named"),
    [
        ("name == 'Ann'", "name == 'Ann' and age > 3", True),
        ("name == 'Ann'", "name in ['Bob', 'Ann']", True),
        ("name == 'Ann'", "name == 'Anna'", False),
        ("id == 7", "id == 7", True),
        ("id == 7", "age == 7", False),
        ("id < 7", "id == 7", False),
        ("name < 'Ann'", "name == 'Ann'", True),
    ],
)
def test_a_condition_names_a_value_of_its_field(erased: str, delete: str, *, named: bool) -> None:
    values = named_values(parse_predicate(erased, SCHEMA), SCHEMA)
    assert values.are_in(parse_predicate(delete, SCHEMA)) is named


@pytest.mark.parametrize(
    ("erased", "delete", "new"),
    [
        ("id == 7", "id == 7 or age == 3", "id < -2147483648 or age == 3"),
        ("age == 7", "age != 7 and id < 3", "age >= 0 and id < 3"),
        ("id in [7, 8]", "id in [7, 9]", "id in [9]"),
        ("name == 'Ann' and age == 3", "name == 'Ann'", None),
        ("id == 7", "id <= 7", None),
    ],
)
def test_a_delete_means_the_same_without_the_value(
    erased: str, delete: str, new: str | None
) -> None:
    assert rewritten(erased, delete) == new


def test_a_text_is_replaced_by_one_that_no_row_holds() -> None:
    first, second = (rewritten("name == 'Ann'", "name == 'Ann' or age == 3") for _ in range(2))
    assert first is not None
    assert second != first
    assert "Ann" not in first
    assert first.startswith("name == '")
    assert first.endswith("' or age == 3")


def test_a_record_is_redacted_where_it_names_a_value() -> None:
    values = named_values(parse_predicate("name == 'Ann' or id == 7", SCHEMA), SCHEMA)
    record = {
        "message": "Ann, not Anna",
        "options": {"where": "id == 7", "days": 7},
        "steps": [{"path": "__commits/x7.del", "sha256": "77", "reason": "delete where id == 7"}],
    }
    assert values.redact(record) == {
        "message": "[erased], not Anna",
        "options": {"where": "id == [erased]", "days": 7},
        "steps": [
            {"path": "__commits/x7.del", "sha256": "77", "reason": "delete where id == [erased]"}
        ],
    }
    assert record["message"] == "Ann, not Anna"


def test_values_are_found_without_a_schema() -> None:
    values = quoted_values("name == 'Ann' or attr('a note') == \"Bob's\" or id == 77")
    assert sorted(values.texts) == ["Ann", "Bob's"]
    assert values.redact("for Ann and Bob's, not Anna") == "for [erased] and [erased], not Anna"
    assert values.redact("the id 77, a note") == "the id [erased], a note"
    assert values.redact("77 days, hidden") == "77 days, hidden"


def test_a_long_text_is_found_within_a_word_and_in_wide_letters() -> None:
    values = quoted_values("name == 'Vexley'")
    assert values.redact("run_Vexley2") == "run_[erased]2"
    assert values.are_in_bytes("Vexley".encode("utf-16-le"))
    assert not values.are_in_bytes(b"Vex")


def test_the_same_text_counts_in_another_field() -> None:
    note = Field(name="note", datatype=Datatype.STRING_UTF8, cell_val_num=VAR)
    schema = Schema(version=22, dimensions=(ID,), attributes=(NAME, AGE, note))
    values = named_values(parse_predicate("name == 'Ann'", schema), schema)
    other = parse_predicate("note == 'Ann'", schema)
    assert values.are_in(other)
    # Rows that are not erased may hold it there: nobody can write the delete without it.
    assert values.without(flatten(negate(other)), schema) is None
