"""The specs against the three pages of the format that the project implements, row by row."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, NamedTuple

import pytest
from support.spec_files import ROOT, types

if TYPE_CHECKING:
    from collections.abc import Iterator

SEEDS = ROOT / "tests" / "specs" / "seeds"
WIDTHS = {"uint8_t": "u1", "uint32_t": "u4", "uint64_t": "u8"}

# One entry a table, in the order of the page: the types whose fields, one after the other,
# make up the table's rows.
TABLES: dict[str, tuple[tuple[str, ...], ...]] = {
    "update_commit_file": (
        ("condition_node", "expression_head", "condition_node.children"),
        ("condition_node", "value_node"),
        ("update_values", "update_value"),
    ),
    "consolidated_commits_file": (
        ("commit_record",),
        ("commit_record", "delete_record"),
        ("commit_record", "update_record"),
    ),
    "array_file_hierarchy": (),
}

# What the pages call each field of the specs.
FIELDS = {
    "Node type": "node_type",
    "Combination op": "combination_op",
    "Num children": "num_children",
    "Children": "children",
    "Op": "op",
    "Field name size": "len_field_name",
    "Field name value": "field_name",
    "Value size": "len_value",
    "Value content": "value",
    "Number of values": "num_values",
    "Commit URI followed by a new line character": "uri",
    "URI followed by a new line character": "uri",
    "Serialized delete condition tile size": "len_tile",
    "Serialized delete condition tile": "tile",
    "Serialized update condition tile size": "len_tile",
    "Serialized update condition tile": "tile",
}


class Row(NamedTuple):
    field: str
    type: str


def tables(page: str) -> Iterator[list[Row]]:
    """The field tables of a page; "X 1", "…", "X N" count as one row X."""
    rows: list[Row] = []
    for line in [*(SEEDS / f"{page}.md").read_text().splitlines(), ""]:
        cells = [cell.strip() for cell in line.strip().strip("|").split("|")]
        if not line.startswith("|"):
            if rows:
                yield rows
            rows = []
        elif cells[0] not in ("**Field**", ":---", "…"):
            field = re.sub(r" (1|N)$", "", cells[0])
            if field not in {row.field for row in rows}:
                rows.append(Row(field, cells[1].strip("`")))


def fields(parts: tuple[str, ...]) -> list[dict[str, Any]]:
    """The fields that the pages name, in the order in which they are read."""
    found = []
    for part in parts:
        kind, _, only = part.partition(".")
        for field in types()[kind][1]["seq"]:
            repeated = field["id"] == "children" and not only
            if field["id"] in FIELDS.values() and not repeated and only in ("", field["id"]):
                found.append(field)
    return found


CASES = [
    pytest.param(page, index, parts, id=f"{page}-{index}")
    for page, all_parts in TABLES.items()
    for index, parts in enumerate(all_parts)
]


@pytest.mark.parametrize(("page", "index", "parts"), CASES)
def test_a_table_row_by_row(page: str, index: int, parts: tuple[str, ...]) -> None:
    rows = list(tables(page))[index]
    found = fields(parts)
    assert len(found) == len(rows), f"{[f['id'] for f in found]} against {rows}"
    for row, field in zip(rows, found, strict=True):
        assert field["id"] == FIELDS[row.field], row
        check_width(row, field)


def check_width(row: Row, field: dict[str, Any]) -> None:
    if row.type == "NODE":
        assert field["type"].startswith("condition_node")
    elif row.type in WIDTHS:
        assert field["type"] == WIDTHS[row.type], row
    elif row.field == "Num children":
        # The page says `uint64_t[]`; it is one number, as in the page on deletes.
        assert row.type == "uint64_t[]"
        assert field["type"] == "u8"
    else:
        assert row.type == "uint8_t[]", row
        assert field["type"] == "strz" or field["size"].startswith("len_"), row


@pytest.mark.parametrize("page", TABLES)
def test_no_table_of_a_page_is_left_out(page: str) -> None:
    assert len(list(tables(page))) == len(TABLES[page])


@pytest.mark.parametrize(
    ("kind", "field", "text"),
    [
        ("condition", "node_types", "0 for expression node"),
        ("condition", "node_types", "1 for value node"),
        ("condition", "combination_ops", "AND(0), OR(1), NOT(2)"),
        ("condition", "ops", "LT(0), LE(1), GT(2), GE(3), EQ(4), NE(5)"),
    ],
)
def test_the_numbers_that_the_page_gives(kind: str, field: str, text: str) -> None:
    assert text in (SEEDS / "update_commit_file.md").read_text()
    numbers = {int(n): v["-orig-id"] for n, v in types()[kind][1]["enums"][field].items()}
    for name, number in re.findall(r"([A-Z]+)\((\d)\)", text):
        assert numbers[int(number)] == f"TILEDB_{name}"
    for number, name in re.findall(r"(\d) for (\w+) node", text):
        assert numbers[int(number)] == name.upper()


def test_the_hierarchy_names_no_commit_file_without_a_spec() -> None:
    page = (SEEDS / "array_file_hierarchy.md").read_text()
    extensions = set(re.findall(r"<timestamped_name>\.(\w+)", page))
    described = {d["meta"].get("file-extension") for _, d in types().values() if "meta" in d}
    assert extensions - described == {"wrt"}, "which is empty"
