"""One change over all members: planned first, nothing outside, one failure stops no other."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
from support.groups import member, put_array, put_list
from support.verbs import consolidate_group

import chronotile as ct
from chronotile.change.plan import Report, put
from chronotile.dataset.over_members import OUTSIDE, GroupReport, Target, change_members
from chronotile.errors import ChronotileError

if TYPE_CHECKING:
    from pathlib import Path

    from chronotile.dataset.open_dataset import Dataset


@pytest.fixture
def dataset(tmp_path: Path) -> Dataset:
    """Two arrays inside, one outside, one that is gone."""
    group = tmp_path / "group"
    for name in ("a", "b"):
        put_array(group / name, "sparse-loose")
    put_array(tmp_path / "elsewhere", "sparse-loose")
    put_list(group, 10, member("a", "a"), member("b", "b"), member("gone", "gone"))
    put_list(group, 20, member(str(tmp_path / "elsewhere"), "far"))
    return ct.open_dataset(str(group))


class Recorder:
    """A change that writes down what it is called with, and fails as it is told."""

    def __init__(self, *refuses: str, breaks: str = "") -> None:
        self.refuses, self.breaks = refuses, breaks
        self.calls: list[tuple[str, bool, dict[str, Any]]] = []

    def __call__(self, array: str, *, dry_run: bool, **options: Any) -> Report:
        assert options.pop("store").uri == array
        assert options.pop("key") is None
        name = array.rpartition("/")[2]
        self.calls.append((name, dry_run, options))
        if name in self.refuses:
            raise ChronotileError(array, "expected a sound array, found damage")
        if name == self.breaks and not dry_run:
            raise RuntimeError("the disk is full")
        return Report("touch", array, dry_run=dry_run, steps=(put("x", b"12", "why"),))


def test_all_are_planned_before_one_is_changed(dataset: Dataset) -> None:
    change = Recorder("b")
    told: list[GroupReport] = []
    done = change_members(dataset, "touch", change, {"speed": 3}, before=told.append)
    assert change.calls == [
        ("a", True, {"speed": 3}),
        ("b", True, {"speed": 3}),
        ("a", False, {"speed": 3}),
    ]
    (plan,) = told
    assert {one.path: one.error for one in plan.outcomes if one.error} == {
        "b": f"{dataset.uri}/b: expected a sound array, found damage",
        "far": OUTSIDE,
        "gone": "nothing is there",
    }
    assert [one.path for one in done.failed] == ["b", "gone"]
    assert done.summary() == "4 members: put 1 file (2 bytes), 2 failed, 1 left alone"
    document = json.loads(done.to_json())
    assert [one["member"] for one in document["members"]] == ["a", "b", "far", "gone"]
    assert json.loads(plan.begun_json())["state"] == "begun"


def test_a_failure_in_the_midst_stops_no_other(dataset: Dataset) -> None:
    change = Recorder(breaks="a")
    done = change_members(dataset, "touch", change)
    assert [name for name, dry_run, _ in change.calls if not dry_run] == ["a", "b"]
    (first, second) = (one for one in done.outcomes if one.path in "ab")
    assert first.error == "RuntimeError: the disk is full"
    assert second.report is not None
    assert not second.report.dry_run


def test_a_dry_run_changes_nothing_and_patterns_choose(dataset: Dataset) -> None:
    change = Recorder()
    assert change_members(dataset, "touch", change, dry_run=True).dry_run
    assert all(dry_run for _, dry_run, _ in change.calls)
    change = Recorder()
    done = change_members(dataset, "touch", change, pattern="b")
    assert {name for name, _, _ in change.calls} == {"b"}
    assert not done.failed


def test_outside_must_be_asked_for_and_options_can_differ(dataset: Dataset) -> None:
    change = Recorder()

    def options(target: Target) -> dict[str, Any]:
        return {"path": target.path}

    change_members(dataset, "touch", change, options, outside=True)
    assert [o["path"] for _, dry_run, o in change.calls if not dry_run] == ["a", "b", "far"]


def test_real_changes_and_the_groups_own_files(dataset: Dataset, tmp_path: Path) -> None:
    done = change_members(dataset, "consolidate", ct.consolidate, change_group=consolidate_group)
    assert [one.path for one in done.outcomes if one.report is not None] == ["", "a", "b"]
    assert list((tmp_path / "group" / "a" / "__commits").glob("*.con"))
    assert not list((tmp_path / "elsewhere" / "__commits").glob("*.con"))
    assert len(ct.open_dataset(dataset.uri).members()) == 4
    assert len(list((tmp_path / "group" / "__group").glob("*.vac"))) == 1
