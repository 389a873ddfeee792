"""`rows`, `diff`, `blame` and `apply` as a user types them, on the sample array."""

from __future__ import annotations

import csv
import json
from typing import TYPE_CHECKING

import pyarrow.ipc
import pyarrow.parquet
import pytest

from chronotile.cli import sample
from chronotile.cli.program import main

if TYPE_CHECKING:
    from pathlib import Path

TAG = "before-clean-up"


@pytest.fixture
def array(tmp_path: Path) -> str:
    return str(sample.unpack(tmp_path).array)


def said(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    assert main(list(arguments)) == 0, capsys.readouterr().err
    return capsys.readouterr().out


@pytest.mark.parametrize(
    "window", [(), ("--end", TAG), ("--start", "2024-05-02", "--end", "2024-05-10")]
)
def test_a_table_of_rows_tells_its_window(
    window: tuple[str, ...], array: str, capsys: pytest.CaptureFixture[str]
) -> None:
    head, *lines = said(capsys, "rows", array, *window, "--limit", "3").splitlines()
    assert "rows at [" in head
    assert head.endswith("UTC)")
    assert len(lines) >= 4, "a heading, and three rows"


def test_a_tag_and_its_moment_give_the_same_rows(
    array: str, capsys: pytest.CaptureFixture[str]
) -> None:
    by_tag = json.loads(said(capsys, "rows", array, "--end", TAG, "--json"))
    by_time = json.loads(said(capsys, "rows", array, "--end", "2024-05-13T12:00Z", "--json"))
    assert by_tag == by_time
    assert by_tag["rows"]


@pytest.mark.parametrize("suffix", ["csv", "jsonl", "parquet", "arrow"])
def test_a_file_holds_the_rows_of_the_document(
    suffix: str, array: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    wanted = json.loads(said(capsys, "rows", array, "--fields", "id,region", "--json"))["rows"]
    file = tmp_path / f"rows.{suffix}"
    assert said(capsys, "rows", array, "--fields", "id,region", "-o", str(file)) == ""
    found: list[dict[str, object]]
    if suffix == "csv":
        with file.open(newline="") as opened:
            found = [row | {"id": int(row["id"])} for row in csv.DictReader(opened)]
    elif suffix == "jsonl":
        found = [json.loads(line) for line in file.read_text().splitlines()]
    elif suffix == "parquet":
        found = pyarrow.parquet.read_table(file).to_pylist()
    else:
        found = pyarrow.ipc.open_file(file).read_all().to_pylist()
    assert sorted(found, key=lambda row: str(row["id"])) == sorted(
        wanted, key=lambda row: str(row["id"])
    )


@pytest.mark.parametrize("rows", [(), ("--rows",)])
def test_a_difference_between_a_tag_and_now(
    rows: tuple[str, ...], array: str, capsys: pytest.CaptureFixture[str]
) -> None:
    text = said(capsys, "diff", array, TAG, "now", *rows)
    assert "what changed from 2024-05-13 12:00:00.000 UTC to " in text.splitlines()[0]
    document = json.loads(said(capsys, "diff", array, TAG, "2024-05-20", *rows, "--json"))
    changes = {row["change"] for row in document["rows"]}
    assert changes <= ({"insert", "delete", "update_before", "update_after"} if rows else
                       {"added", "removed"})  # fmt: skip
    assert changes


def test_moments_in_the_wrong_order_are_refused(
    array: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["diff", array, "now", TAG]) != 0
    assert "give the earlier one first" in capsys.readouterr().err


def test_blame_names_the_write_and_the_update(
    array: str, capsys: pytest.CaptureFixture[str]
) -> None:
    document = json.loads(said(capsys, "blame", array, "--row", "id=81", "--json"))
    assert [row["event"] for row in document["rows"]] == ["wrote", "changed"]


def test_values_choose_among_the_rows_that_a_delete_took(
    array: str, capsys: pytest.CaptureFixture[str]
) -> None:
    deletes = [
        event["name"]
        for event in json.loads(said(capsys, "log", array, "--kind", "delete", "--json"))
    ]
    taken = {
        name: json.loads(said(capsys, "rows", array, "--removed-by", name, "--json"))["rows"]
        for name in deletes
    }
    name, rows = next((name, rows) for name, rows in taken.items() if len(rows) > 1)
    row = rows[0]
    by_id = ("--values", f"id={row['id']}")
    found = json.loads(said(capsys, "rows", array, "--removed-by", name, *by_id, "--json"))["rows"]
    assert found == [one for one in rows if one["id"] == row["id"]]
    both = (*by_id, "--values", "region=nowhere")
    assert not json.loads(said(capsys, "rows", array, "--removed-by", name, *both, "--json"))[
        "rows"
    ]
    assert main(["rows", array, *by_id]) == 2
    assert "--values needs --removed-by" in capsys.readouterr().err
    assert main(["rows", array, "--removed-by", name, "--values", "never=1"]) == 2
    assert "never" in capsys.readouterr().err
    # The same asked the other way round: who removed this row?
    told = json.loads(said(capsys, "blame", array, "--row", f"id={row['id']}", "--json"))["rows"]
    assert name in [event["commit"] for event in told if event["event"] == "removed"]


def test_applied_updates_are_told_and_can_be_planned_first(
    array: str, capsys: pytest.CaptureFixture[str]
) -> None:
    before = json.loads(said(capsys, "rows", array, "--json"))["rows"]
    planned = json.loads(said(capsys, "apply", array, "--dry-run", "--json"))
    assert planned["dry_run"]
    said(capsys, "apply", array)
    after = json.loads(said(capsys, "rows", array, "--json"))["rows"]
    key = lambda row: row["id"]  # noqa: E731 - said twice in one line
    assert sorted(after, key=key) == sorted(before, key=key)
    assert "nothing to do" in said(capsys, "apply", array)


@pytest.mark.parametrize(
    ("where", "count"),
    [
        ("id in (1, 2, 3) and not id == 2", 2),
        ("id not in (1, 2)", 203),
        ("amount is null", 18),
        ("amount is not null", 187),
        ("not (amount is null or id in [1, 2, 3])", 184),
    ],
)
def test_rows_are_counted(
    where: str, count: int, array: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert said(capsys, "rows", array, "--where", where, "--count") == f"{count}\n"
    document = json.loads(said(capsys, "rows", array, "--where", where, "--count", "--json"))
    assert document == {"count": count}


def test_a_limit_says_how_many_rows_there_are(
    array: str, capsys: pytest.CaptureFixture[str]
) -> None:
    lines = said(capsys, "rows", array, "-n", "5").splitlines()
    assert len(lines) == 9, "a heading, names, five rows, how many there are, and what TileDB hides"
    assert lines[-2] == "5 of 205 rows"
    assert lines[-1].startswith(
        "the rows of 1 update have their new values here, and TileDB itself hides them"
    )


def test_what_tiledb_hides_is_told_only_of_rows_of_updates(
    array: str, capsys: pytest.CaptureFixture[str]
) -> None:
    hidden = "the rows of 1 update have their new values here"
    assert hidden in said(capsys, "rows", array, "--where", "id == 81")
    assert hidden in said(capsys, "blame", array, "--row", "id=81")
    assert hidden not in said(capsys, "rows", array, "--where", "id < 5")
    assert hidden not in said(capsys, "blame", array, "--row", "id=7")


def test_rows_come_in_the_order_that_is_asked_for(
    array: str, capsys: pytest.CaptureFixture[str]
) -> None:
    ordered = ("rows", array, "--order-by", "region, amount desc", "--json")
    rows = json.loads(said(capsys, *ordered))["rows"]
    keys = [(r["region"], r["amount"] is None, -(r["amount"] or 0)) for r in rows]
    assert keys == sorted(keys)
    assert len(rows) == 205
    assert main(["rows", array, "--order-by", "amuont"]) == 2
    assert "did you mean amount?" in capsys.readouterr().err


def test_a_difference_begins_with_a_summary_and_marks_what_changed(
    array: str, capsys: pytest.CaptureFixture[str]
) -> None:
    day = ("2024-05-09", "2024-05-10")
    _, summary, head, before, after, count = said(
        capsys, "diff", array, *day, "--rows"
    ).splitlines()
    assert summary == "1 row updated (region in 1)"
    assert head.split()[:4] == ["change", "commit", "ms", "time"]
    assert "2024-05-09 11:00:00.000 UTC" in before
    assert (before.split()[0], after.split()[0]) == ("update_before", "update_after")
    assert (before.split()[-1], after.split()[-1], count) == ("south", "*north", "2 rows")
    document = json.loads(said(capsys, "diff", array, *day, "--rows", "--json"))
    assert document["summary"] == {
        "insert": 0,
        "delete": 0,
        "update": 1,
        "fields": {"region": 1},
    }
    assert document["rows"][0]["t_time"] == "2024-05-09T11:00:00.000Z"
    _, summary, *_ = said(capsys, "diff", array, "2024-05-05", "2024-05-10").splitlines()
    assert summary == "added: 1 fragment (40 cells, 4.6 kB), 1 update"
    *_, summary = said(capsys, "diff", array, "1", "2").splitlines()
    assert summary == "0 changes"
