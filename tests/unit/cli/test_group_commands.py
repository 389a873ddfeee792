"""Every command that takes an array takes a group."""

from __future__ import annotations

import json
import re
import shutil
from typing import TYPE_CHECKING, Any

import pytest
from support.corpus_cases import GROUPS
from support.groups import member, put_array, put_list

import chronotile as ct
from chronotile.cli import main

if TYPE_CHECKING:
    from pathlib import Path


def run(capsys: pytest.CaptureFixture[str], *args: object) -> tuple[int, str, str]:
    status = main([str(arg) for arg in args])
    out, err = capsys.readouterr()
    return status, out, err


def run_json(capsys: pytest.CaptureFixture[str], *args: object) -> Any:
    return json.loads(run(capsys, *args, "--json")[1])


@pytest.fixture
def group(tmp_path: Path) -> Path:
    place = tmp_path / "group"
    shutil.copytree(GROUPS["group-nested"].group, place)
    return place


def test_members_are_a_tree(capsys: pytest.CaptureFixture[str], group: Path) -> None:
    status, out, _ = run(capsys, "members", group)
    assert status == 0
    assert re.search(
        r"inner  group  3 files that list members.*\n.*dense  array  2 commits, 6.*kB", out
    )
    found = run_json(capsys, "members", group, "--end", 12)
    assert [(one["path"], one["found"]) for one in found["members"]] == [
        ("cells", "array"),
        ("inner", "group"),
        ("inner/dense", "array"),
    ]


def test_one_history_over_all_members(capsys: pytest.CaptureFixture[str], group: Path) -> None:
    events = run_json(capsys, "log", group)
    times = [event["t2"] for event in events]
    assert times == sorted(times, reverse=True)
    assert {event["member"] for event in events} == {"", "inner", "inner/dense", "renamed"}
    texts = {event["text"] for event in events if event["kind"] == "members"}
    assert texts >= {"added cells, inner", "removed cells", "added renamed", "removed later"}
    few = run_json(capsys, "log", group, "--member", "inner/*", "--kind", "write")
    assert {(event["member"], event["kind"]) for event in few} == {("inner/dense", "write")}
    status, out, _ = run(capsys, "log", group, "-n", 1)
    assert status == 0
    assert "created the array" in out
    status, _, err = run(capsys, "log", group, "--member", "nobody")
    assert status == 2
    assert "expected members that fit 'nobody', found none" in err


CHANGES = (
    ("delete", "--where", "a < 3"),
    ("apply",),
    ("consolidate",),
    ("vacuum",),
    ("compact",),
    ("repair",),
    ("erase", "--where", "a < 3", "--yes"),
    ("restore", "--to", "20"),
)


@pytest.mark.parametrize("call", CHANGES, ids=lambda call: call[0])
def test_a_change_of_no_member_is_a_wrong_call(
    capsys: pytest.CaptureFixture[str], group: Path, call: tuple[str, ...]
) -> None:
    command, *options = call
    status, _, err = run(capsys, command, group, *options, "--member", "renamd", "--dry-run")
    assert (status, "did you mean renamed?" in err) == (2, True), err
    status, _, err = run(capsys, command, group, *options, "--member", "inner", "--dry-run")
    if command in ("delete", "apply", "compact", "restore"):  # others change groups too
        assert (status, "--member 'inner/*'" in err) == (2, True), err


def test_before_the_first_list_of_members_there_is_nothing(
    capsys: pytest.CaptureFixture[str], group: Path, tmp_path: Path
) -> None:
    words = "has no list of members yet at 1; its first is of "
    status, _, err = run(capsys, "clone", group, tmp_path / "clone", "--end", 1)
    assert (status, words in err) == (1, True), err
    assert not (tmp_path / "clone").exists()
    status, out, _ = run(capsys, "tag", "add", group, "early", "--at", 1)
    assert (status, words in out) == (0, True), out
    for command in ("visible", "explain", "rows"):
        status, _, err = run(capsys, command, group, "--end", 1)
        assert (status, words in err) == (0, True), (command, err)


def test_a_name_is_explained_in_the_members_that_have_it(
    capsys: pytest.CaptureFixture[str], group: Path
) -> None:
    name, *_ = (path.stem for path in (group / "inner" / "dense" / "__commits").glob("*.wrt"))
    found = run_json(capsys, "explain", group, name)
    assert [one["member"] for one in found["members"] if one["found"] == "array"] == ["inner/dense"]
    assert [*ct.open(str(group)).explain(name)] == ["inner/dense"]
    status, _, err = run(capsys, "explain", group, "__9_9_")
    assert (status, "no fragment and no file" in err) == (2, True)


def test_operations_of_members_are_operations_of_the_group(
    capsys: pytest.CaptureFixture[str], group: Path
) -> None:
    inner = group / "inner" / "dense"
    done = ct.open(str(inner)).consolidate()
    whole = ct.open(str(group)).consolidate()
    part = ct.open(str(group / "inner")).operations().to_pylist()[0]
    assert run_json(capsys, "operations", group, part["id"])["group"] == whole.operation
    listed = run_json(capsys, "operations", group)
    places = {one["id"]: one["array"] for one in listed}
    assert places == {done.operation: str(inner), whole.operation: str(group)}
    assert run_json(capsys, "operations", group, done.operation)["id"] == done.operation
    _, out, _ = run(capsys, "operations", group)
    assert "inner/dense: put the commits into one file" in out
    assert f"{group}: put" not in out


def test_nothing_is_staged_for_members_of_that_name(
    capsys: pytest.CaptureFixture[str], group: Path
) -> None:
    status, _, err = run(capsys, "publish", group, group, "--member", "renamd")
    assert (status, "did you mean renamed?" in err) == (2, True), err


def test_the_dataset_as_of_a_moment(capsys: pytest.CaptureFixture[str], group: Path) -> None:
    found = run_json(capsys, "visible", group, "--end", 30)
    seen = {
        one["member"]: len(one["report"]["fragments"])
        for one in found["members"]
        if one["found"] == "array"
    }
    assert seen == {"cells": 2, "inner/dense": 1}
    status, out, _ = run(capsys, "check", group, "--as-of", 15)
    assert status == 1
    assert "as-of-partial" in out
    status, out, _ = run(capsys, "check", group, "--as-of", 30)
    assert status == 0
    assert "at 1970-01-01 00:00:00.030 UTC all 2 arrays can be read whole" in out
    moments = run_json(capsys, "moments", group)
    assert not any(one["t"] <= 15 <= (one["until"] or 99) for one in moments)
    assert "every member can be read whole" in run(capsys, "moments", group)[1]


def test_array_by_array_and_all_together(
    capsys: pytest.CaptureFixture[str], group: Path, tmp_path: Path
) -> None:
    for command in ("explain", "fragments"):
        status, out, _ = run(capsys, command, group)
        assert status == 0
        assert "── inner/dense ──" in out
    used = run_json(capsys, "usage", group)
    files = [path for path in group.rglob("*") if path.is_file() and "stray" not in path.parts]
    members = [p for p in files if "later" not in p.parts]  # no member any more
    assert used["bytes"] == sum(path.stat().st_size for path in members)
    page = tmp_path / "usage.html"
    assert run(capsys, "usage", group, "-o", page)[0] == 0
    assert "inner/dense" in page.read_text()


def test_a_lane_for_each_array(
    capsys: pytest.CaptureFixture[str], group: Path, tmp_path: Path
) -> None:
    page = tmp_path / "timeline.html"
    found = run_json(capsys, "timeline", group, "-o", page)
    assert found["fragments"] == 5
    text = page.read_text()
    model = json.loads(re.search(r'id="model"[^>]*>(.*?)</script>', text, re.DOTALL)[1])  # type: ignore[index]
    assert {bar["name"].partition(": ")[0] for bar in model["bars"]} == {"inner/dense", "renamed"}
    at = [int(moment["ms"]) for moment in model["moments"]].index(30)
    seen = [bar["name"] for bar in model["bars"] if 0 <= bar["first"] <= at <= bar["last"]]
    assert sorted(name.partition(": ")[0] for name in seen) == ["inner/dense", "renamed", "renamed"]
    assert run(capsys, "timeline", group, "-o", tmp_path / "timeline.svg")[0] == 0
    assert ">inner/dense<" in (tmp_path / "timeline.svg").read_text()


def test_maintenance_goes_member_by_member(capsys: pytest.CaptureFixture[str], group: Path) -> None:
    plan = run_json(capsys, "consolidate", group, "--dry-run")
    assert [one["member"] for one in plan["members"]] == ["", "inner", "inner/dense", "renamed"]
    records = group / "__chronotile" / "operations"
    assert not records.exists()
    status, out, err = run(capsys, "consolidate", group)
    assert status == 0
    assert "the group itself: put 2 files" in out
    (record,) = records.iterdir()
    assert json.loads(record.read_text())["command"] == "consolidate"
    assert f"to undo: chronotile undo {group}" in err
    status, out, err = run(capsys, "vacuum", group)
    assert status == 0
    assert "will see no members: the lists of that time go" in err
    assert len(list((group / "__group").iterdir())) == 1
    assert run(capsys, "repair", group)[0] == 0
    shutil.rmtree(group / "inner" / "dense")
    status, out, _ = run(capsys, "consolidate", group)
    assert status == 1
    assert "inner/dense: nothing is there" in out
    status, out, _ = run(capsys, "moments", group)
    assert "not now: the member inner/dense: nothing is there" in out
    status, out, _ = run(capsys, "restore", group, "--to", 1, "--dry-run")
    assert (status, "the change would be refused" in out) == (1, True)
    status, _, err = run(capsys, "repair", group)
    assert (status, f"left alone: member-missing  {group}/inner/dense: " in err) == (1, True)
    for call in (("clone", group, group.parent / "clone"), ("tag", "add", group, "t1")):
        status, _, err = run(capsys, *call)
        assert (status, f"to see what is wrong: chronotile check {group}" in err) == (1, True)
    assert repr(ct.open(str(group)).vacuum(dry_run=True)).startswith(f"<vacuum of {group}: the ")
    status, _, err = run(capsys, "delete", group, "--where", "a < 3")
    assert status == 2
    assert "name the member whose rows are meant: --member " in err


def test_a_finding_on_a_group_in_another_comes_once(
    capsys: pytest.CaptureFixture[str], group: Path
) -> None:
    """Even if the lists of the outer group are damaged."""
    shutil.rmtree(group / "inner" / "dense")
    (group / "__group" / "junk").write_bytes(b"")
    found = run_json(capsys, "check", group)
    missing = [item["message"] for item in found if item["code"] == "member-missing"]
    assert missing == ["the member inner/dense is not there"]


def test_check_tells_of_groups_and_follows_members(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    put_array(tmp_path / "elsewhere", "bare")
    put_array(tmp_path / "lake" / "group" / "stray")
    group = tmp_path / "lake" / "group"
    put_list(group, 10, member(str(tmp_path / "elsewhere"), "far"), member("gone", "gone"))
    status, out, _ = run(capsys, "check", tmp_path / "lake")
    assert status == 1
    assert "member-missing" in out
    assert "stray-array" in out
    assert "2 arrays" in out


def test_names_out_of_files_cannot_move_a_cursor(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    put_array(tmp_path / "a")
    evil = "evil\x1b[31m\u202ename\nnew"
    put_list(tmp_path, 10, member("a", evil), member("z\x07", "b\x9b"))
    for command in ("members", "log", "visible", "explain", "fragments", "check", "moments"):
        _, out, err = run(capsys, command, tmp_path)
        assert not re.search("[\x00-\x09\x0b-\x1f\x7f-\x9f\u202e]", out + err), command
    _status, out, _ = run(capsys, "consolidate", tmp_path, "--dry-run")
    assert "\x1b" not in out
    assert [one["name"] for one in run_json(capsys, "members", tmp_path)["members"]] == [
        "b\x9b",
        evil,
    ]


def test_a_plain_folder_says_what_is_below(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    put_array(tmp_path / "lake" / "a")
    put_list(tmp_path / "lake" / "g", 1)
    for command in ("log", "visible", "explain", "fragments", "usage", "vacuum", "repair"):
        status, _, err = run(capsys, command, tmp_path / "lake")
        assert status == 3
        assert f"1 array and 1 group below: chronotile ls {tmp_path}/lake" in err, command
    status, _, err = run(capsys, "members", tmp_path / "lake")
    assert status == 3
    assert f"1 array and 1 group below: chronotile ls {tmp_path}/lake" in err
    assert run(capsys, "log", tmp_path / "lake" / "a", "--member", "x")[0] == 2


def test_a_damaged_member_is_checked_as_one_place(
    capsys: pytest.CaptureFixture[str], group: Path
) -> None:
    (group / "inner" / "__group" / "__99_99_00112233445566778899aabbccddeeff_2").write_bytes(b"x")
    inner = group / "inner"
    _, out, _ = run(capsys, "check", group)
    assert [line for line in out.splitlines() if line.startswith("/")].count(str(inner)) == 1
    status, _, err = run(capsys, "rows", group)
    assert (status, f"to look into it: chronotile check {inner}" in err) == (3, True)
