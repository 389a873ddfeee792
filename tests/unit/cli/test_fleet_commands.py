"""`ls` and `sql` as a user types them, on the sample."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

import chronotile as ct
from chronotile.cli import sample
from chronotile.cli.program import main

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def root(tmp_path: Path) -> Path:
    sample.unpack(tmp_path)
    return tmp_path


def answer(capsys: pytest.CaptureFixture[str], *arguments: object) -> Any:
    assert main([*map(str, arguments), "--json"]) == 0, capsys.readouterr().err
    return json.loads(capsys.readouterr().out)


def test_a_list_has_every_array_and_group(root: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rows = answer(capsys, "ls", root)
    assert {row["uri"].removeprefix(f"{root}/"): row["kind"] for row in rows} == {
        "array": "sparse",
        "dataset": "group",
        "dataset/derived": "group",
        "dataset/derived/daily": "dense",
        "dataset/readings": "sparse",
        "dataset/stations": "sparse",
    }
    (array,) = (row for row in rows if row["uri"].endswith("/array"))
    files = [path.stat().st_size for path in (root / "array").rglob("*") if path.is_file()]
    assert array["bytes"] == sum(files)
    assert (array["commits"], array["time"]) == (9, "2024-05-16T09:00:00.000Z")
    assert array["severity"] == "warning"
    assert main(["ls", str(root)]) == 0
    *_, last = capsys.readouterr().out.splitlines()
    assert last.startswith("4 arrays, 2 groups, ")


def test_a_path_into_an_array_is_copied_as_the_array(
    root: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    copy = root / "copy"
    assert main(["replicate", str(root / "array" / "__commits"), str(copy)]) == 0
    assert (copy / "__schema").is_dir()
    assert main(["replicate", str(root / "arary"), str(copy)]) == 3
    assert f"did you mean {root / 'array'}?" in capsys.readouterr().err


@pytest.mark.parametrize("sort", ["size", "commits", "changed", "fragments"])
def test_a_list_is_sorted(sort: str, root: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rows = answer(capsys, "ls", root, "--sort", sort)
    numbers = [row["bytes" if sort == "size" else sort] for row in rows]
    known = [number for number in numbers if number is not None]
    assert known == sorted(known, reverse=True)
    assert numbers[: len(known)] == known, "what is not known comes last"


def test_a_damaged_array_comes_first_and_sets_the_status(
    root: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    commits = root / "dataset" / "stations" / "__commits"
    commits.rename(commits.with_name("__commit"))
    commits.write_text("a file, where a folder should be")
    assert main(["ls", str(root), "--sort", "finding"]) == 3
    _, first, *_ = capsys.readouterr().out.splitlines()
    assert "dataset/stations" in first
    assert "error: " in first


def test_a_query_joins_the_tables_of_a_fleet(
    root: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    query = """select uri, count(*) as n, any_value(commits) as all_of_it
    from commits join arrays using (uri) where not dense group by uri order by n desc"""
    found = answer(capsys, "sql", query, root)["rows"]
    assert [row["uri"].rpartition("/")[2] for row in found] == ["array", "readings", "stations"]
    assert [row["n"] for row in found] == [len(ct.open(row["uri"]).commits()) for row in found]


def test_a_query_asks_the_rows_of_an_array(root: Path, capsys: pytest.CaptureFixture[str]) -> None:
    query = "select count(*) as n, count(amount) as known from rows"
    assert answer(capsys, "sql", query, root / "array")["rows"] == [{"n": 205, "known": 187}]
    past = answer(capsys, "sql", query, root / "array", "--as-of", "2024-05-01T12:00")["rows"]
    assert past[0]["n"] < 205
    csv = root / "out.csv"
    assert (
        main(["sql", "select id from rows order by id", str(root / "array"), "-o", str(csv)]) == 0
    )
    assert len(csv.read_text().splitlines()) == 206


@pytest.mark.parametrize(
    ("query", "problem"),
    [
        ("select * from comits", "there is no table 'comits'; did you mean commits?"),
        ("select * from nothing", "usage; and rows, if ROOT is one array or group"),
        ("selct * from commits", "syntax error"),
        ("select nme from commits", "nme"),
    ],
)
def test_a_wrong_query_is_one_line(
    query: str, problem: str, root: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["sql", query, str(root)]) == 2
    out, err = capsys.readouterr()
    assert (out, err.count("\n")) == ("", 1)
    assert problem in err
