"""Rows of a group are those of its arrays, each with its member."""

from __future__ import annotations

import json
from collections import Counter
from typing import TYPE_CHECKING, Any

import pytest
import tiledb
from support.engine_arrays import EngineArray
from support.groups import member, put_list

import chronotile as ct
from chronotile.cli.program import main
from chronotile.errors import ChronotileError, PredicateError

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def group(tmp_path: Path) -> Path:
    """Two arrays that are alike, of which one has an update; one with another field, in a group.

    At 15 the second went, and the third came.
    """
    place = tmp_path / "group"
    put_list(place, 5, member("one"), member("two"), member("inner", kind="group"))
    put_list(place, 15, member("two", gone=True))
    one, two = (EngineArray(place / name).create() for name in ("one", "two"))
    one.write(10, {1: 1, 2: 2})
    one.commit(20, "a == 2", a=7)
    one.delete(30, "x == 1")
    two.write(11, {1: 5})
    put_list(place / "inner", 15, member("three"))
    three = EngineArray(place / "inner" / "three")
    three.create(attrs=[tiledb.Attr("b", dtype="float64")])
    three.write_columns(12, [1, 4], {"b": [0.5, 1.5]})
    return place


def rows_of(table: Any) -> list[dict[str, Any]]:
    return sorted(table.to_pylist(), key=repr)


def test_rows_have_their_member_and_null_where_it_lacks_a_field(group: Path) -> None:
    assert rows_of(ct.read_rows(str(group))) == [
        {"member": "inner/three", "x": 1, "a": None, "b": 0.5},
        {"member": "inner/three", "x": 4, "a": None, "b": 1.5},
        {"member": "one", "x": 2, "a": 7, "b": None},
    ]
    then = rows_of(ct.read_rows(str(group), end=14, member="[ot]*"))
    assert then == [
        {"member": "one", "x": 1, "a": 1},
        {"member": "one", "x": 2, "a": 2},
        {"member": "two", "x": 1, "a": 5},
    ]
    assert rows_of(ct.read_rows(str(group), end=14, where="a > 1", fields=["a"])) == [
        {"member": "one", "a": 2},
        {"member": "two", "a": 5},
    ]


def test_a_question_that_no_member_fits_is_refused(group: Path) -> None:
    with pytest.raises(PredicateError, match="there is no field 'c'"):
        ct.read_rows(str(group), fields=["c"])
    with pytest.raises(ChronotileError, match="members that fit 'four', found none"):
        ct.read_rows(str(group), member="four")
    with pytest.raises(ChronotileError, match="expected a group"):
        ct.read_rows(str(group / "one"), member="*")


def test_a_difference_of_logs_counts_what_one_of_rows_counts(group: Path) -> None:
    first = min(file.name.t2 for file in ct.open_dataset(str(group)).group.files)
    last = 1 << 62
    rows = ct.diff(str(group), first - 1, last, rows=True)
    log = ct.diff(str(group), first - 1, last)
    kinds = log["kind"].to_pylist()
    added = [kinds[n] for n, change in enumerate(log["change"].to_pylist()) if change == "added"]
    assert len(added) == len(kinds)
    written = {*rows["commit"].to_pylist()} - {None}
    assert written <= {*log["name"].to_pylist()}, "fragments from before their group had members"


def test_types_that_differ_are_refused_unless_members_are_named(group: Path) -> None:
    other = EngineArray(group / "other").create(attrs=[tiledb.Attr("a", dtype="float64")])
    other.write_columns(13, [3], {"a": [0.25]})
    put_list(group, 16, member("other"))
    with pytest.raises(ChronotileError, match="found a as int32 in one and as double in other"):
        ct.read_rows(str(group))
    assert rows_of(ct.read_rows(str(group), member="other")) == [
        {"member": "other", "x": 3, "a": 0.25}
    ]


def state(group: Path, end: int) -> Counter[str]:
    return Counter(map(repr, map(_known, ct.read_rows(str(group), end=end).to_pylist())))


def _known(row: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in row.items() if value is not None}


@pytest.mark.parametrize(("first", "last"), [(9, 14), (14, 40), (14, 16), (12, 25), (20, 20)])
def test_rows_of_a_diff_turn_one_moment_of_a_group_into_the_other(
    first: int, last: int, group: Path
) -> None:
    found = state(group, first)
    for row in ct.diff(str(group), first, last, rows=True).to_pylist():
        change, _ = row.pop("change"), row.pop("t_time")
        assert (row.pop("commit") is None) == (row.pop("t") is None) == (row["member"] == "two"
                                                                        and last > 14)  # fmt: skip
        found[repr(_known(row))] += 1 if change in ("insert", "update_after") else -1
    assert min(found.values(), default=0) >= 0
    assert +found == state(group, last)


def said(capsys: pytest.CaptureFixture[str], *arguments: object) -> tuple[list[Any], str]:
    assert main([*map(str, arguments), "--json"]) == 0
    out, err = capsys.readouterr()
    return json.loads(out)["rows"], err


def test_the_commands_take_a_group(group: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rows, err = said(capsys, "rows", group, "--where", "a > 1")
    assert rows == [{"member": "one", "x": 2, "a": 7}]
    assert "the member inner/three is left out" in err
    assert err.count("\n") == 1
    assert "\\n" not in err
    rows, _ = said(capsys, "rows", group, "--member", "inner/*")
    assert {row["member"] for row in rows} == {"inner/three"}
    rows, _ = said(capsys, "blame", group, "--row", "x=1")
    assert [(row["member"], row["event"]) for row in rows] == [
        ("inner/three", "wrote"),
        ("one", "wrote"),
        ("one", "removed"),
    ]
    rows, _ = said(capsys, "diff", group, 14, 40, "--rows", "--member", "one")
    assert [(row["change"], row["x"], row["a"]) for row in rows] == [
        ("update_before", 2, 2),
        ("update_after", 2, 7),
        ("delete", 1, 1),
    ]
    first, _ = said(capsys, "diff", group, 14, 40, "--rows", "--member", "one", "-n", 1)
    assert first == rows[:2]
    (name,) = (path.stem for path in (group / "one" / "__commits").glob("*.del"))
    rows, _ = said(capsys, "rows", group, "--removed-by", name)
    assert rows == [{"x": 1, "a": 1}]
    assert ct.removed_rows(str(group), name).to_pylist() == rows
    assert main(["diff", str(group), "1", "2", "--member", "one"]) == 2
    assert main(["rows", str(group), "--removed-by", "__1_1_nobody_22"]) == 2


def test_blame_leaves_a_dense_member_out(group: Path, capsys: pytest.CaptureFixture[str]) -> None:
    put_list(group, 16, member("cube"))
    cube = EngineArray(group / "cube").create(sparse=False)
    cube.write(12, {1: 2, 2: 2})
    rows, err = said(capsys, "blame", group, "--row", "a=2")
    assert {row["member"] for row in rows} == {"one"}
    assert "the member cube is left out" in err
