"""`ls` and `sql` as a user types them, on the sample."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable
from support.spec_files import ROOT

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


def unprivileged(*arguments: object) -> tuple[int, str]:
    call = [sys.executable, "-m", "support.unprivileged", *map(str, arguments)]
    done = subprocess.run(call, cwd=ROOT / "tests", capture_output=True, text=True, check=False)
    return done.returncode, done.stdout


@pytest.mark.parametrize("command", ["ls", "check", "members"])
def test_a_folder_that_refuses_is_named_and_stops_no_other(root: Path, command: str) -> None:
    closed = root / "dataset" / "readings"
    closed.chmod(0)
    try:
        place = root / "dataset" if command == "members" else root
        status, out = unprivileged(command, place, "--json")
    finally:
        closed.chmod(0o755)
    assert status == 3
    rows = json.loads(out)["members"] if command == "members" else json.loads(out)
    refused = [row for row in rows if str(closed) in row.values()]
    assert refused
    assert "unreadable" in {*refused[0].values()}
    if command != "check":
        assert any("daily" in row["uri"] for row in rows), "the others are listed"


def test_a_damaged_list_of_members_is_named_with_its_repair(
    root: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    group = root / "dataset" / "derived"
    for file in (group / "__group").iterdir():
        file.write_bytes(file.read_bytes()[:20])
    for place in (root, group):
        assert main(["ls", str(place), "--json"]) == 3
        rows = {row["uri"]: row for row in json.loads(capsys.readouterr().out)}
        assert rows[str(group)]["finding"] == "unreadable"
        assert main(["check", str(place), "--json"]) == 3
        found = [one for one in json.loads(capsys.readouterr().out) if one["severity"] == "error"]
        hints = [one["hint"] for one in found]
        assert hints
        assert all(hint.endswith(f"chronotile repair {group}") for hint in hints), hints
        assert main(["report", str(place), "-o", str(root / "r.html"), "--json"]) == 3
        capsys.readouterr()
    assert "tile-corrupt" in (root / "r.html").read_text("utf-8")


def test_a_missing_member_is_the_worst_finding_of_its_group(
    root: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    shutil.rmtree(root / "dataset" / "readings")
    rows = {row["uri"]: row for row in answer(capsys, "ls", root)}
    assert rows[str(root / "dataset")]["finding"] == "member-missing"
    assert main(["tables", str(root), "--parquet", "--out", str(root / "t")]) == 0
    codes = pq.read_table(root / "t" / "findings" / "findings.parquet")["code"].to_pylist()
    assert "member-missing" in codes
    assert main(["tables", str(root), "--out", str(root / "d")]) == 0
    stored = DeltaTable(root / "d" / "findings").to_pyarrow_table()
    assert "member-missing" in stored["code"].to_pylist()


def test_sql_asks_for_members_and_operations(
    root: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    done = ct.open(root / "array").consolidate()
    query = "select uri, command from operations where state = 'done' and id = '{}'"
    rows = answer(capsys, "sql", query.format(done.operation), root)["rows"]
    assert rows == [{"uri": str(root / "array"), "command": "consolidate"}]
    query = "select name from members where \"group\" like '%/dataset' order by name"
    rows = answer(capsys, "sql", query, root)["rows"]
    assert [row["name"] for row in rows] == ["derived", "readings", "stations"]


@pytest.mark.parametrize(
    ("query", "roots", "words"),
    [
        ("", ("array",), "expected a query that gives rows, found none"),
        (" ; ", ("array",), "expected a query that gives rows, found none"),
        ("select * from rows", ("array", "dataset"), "the table rows is of one ROOT"),
    ],
)
def test_sql_that_cannot_be_answered_says_why(
    root: Path,
    query: str,
    roots: tuple[str, ...],
    words: str,
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main(["sql", query, *(str(root / one) for one in roots)]) == 2
    assert words in capsys.readouterr().err


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
        ("select * from nothing", "usage, members, operations; and rows, if ROOT is one array"),
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
