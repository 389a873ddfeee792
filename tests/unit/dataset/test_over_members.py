"""One change over all members: planned first, nothing outside, one failure stops no other."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
from support.groups import member, put_array, put_list

import chronotile as ct
from chronotile.change.operations import Who, list_operations, read_operation
from chronotile.change.plan import Plan, Stage, put
from chronotile.check.findings import RefusedError
from chronotile.dataset.over_members import OUTSIDE, GroupReport, change_members, plan_members
from chronotile.errors import ChronotileError

if TYPE_CHECKING:
    from pathlib import Path

    from chronotile.dataset.open_dataset import Dataset
    from chronotile.storage.store import Store


@pytest.fixture
def dataset(tmp_path: Path) -> Dataset:
    """Two arrays inside, one outside, one that is gone."""
    group = tmp_path / "group"
    for name in ("a", "b"):
        put_array(group / name, "sparse-loose")
    put_array(tmp_path / "elsewhere", "sparse-loose")
    put_list(group, 10, member("a", "a"), member("b", "b"), member("gone", "gone"))
    put_list(group, 20, member(str(tmp_path / "elsewhere"), "far"))
    return ct.open_dataset(str(group)).dataset


class Recorder:
    """A planner that writes down what it is called with, and fails as it is told."""

    def __init__(self, *refuses: str, breaks: str = "") -> None:
        self.refuses, self.breaks = refuses, breaks
        self.calls: list[tuple[str, dict[str, Any]]] = []

    def __call__(self, store: Store, key: bytes | None, **options: Any) -> Plan:
        assert key is None
        name = store.uri.rpartition("/")[2]
        again = any(name == before for before, _ in self.calls)
        self.calls.append((name, options))
        if name in self.refuses:
            raise ChronotileError(store.uri, "the array is damaged")
        if name == self.breaks and again:
            raise RuntimeError("the disk is full")
        stage = Stage(name="touch", seen="a file", steps=(put("__meta/x", b"12", "why"),))
        return Plan(command="touch", array=store.uri, stages=(stage,))


def changed(dataset: Dataset, planner: Any, **options: Any) -> GroupReport:
    given = {
        name: options.pop(name) for name in ("outside", "pattern", "options") if name in options
    }
    planned = plan_members(dataset, planner, given.pop("options", None), **given)
    return change_members(dataset, "touch", planned, Who(), **options)


def test_all_are_planned_before_one_is_changed(dataset: Dataset) -> None:
    planner = Recorder("b")
    told: list[GroupReport] = []
    done = changed(dataset, planner, options={"speed": 3}, before=told.append)
    assert planner.calls == [("a", {"speed": 3}), ("b", {"speed": 3}), ("a", {"speed": 3})]
    (plan,) = told
    assert {one.path: one.error for one in plan.outcomes if one.error} == {
        "b": f"{dataset.uri}/b: the array is damaged",
        "far": OUTSIDE,
        "gone": "nothing is there",
    }
    assert [one.path for one in done.failed] == ["b", "gone"]
    assert done.summary() == "4 members: put 1 file (2 bytes), 2 failed, 1 left alone"
    assert changed(dataset, planner, pattern="b").summary() == "1 member: 1 failed"
    document = json.loads(done.to_json())
    assert [one["member"] for one in document["members"]] == ["a", "b", "far", "gone"]
    (operation,) = list_operations(dataset.store)
    assert (operation.command, operation.state) == ("touch", "failed")
    (of_member,) = list_operations(dataset.store.child("a"))
    assert read_operation(dataset.store.child("a"), of_member)["group"] == operation.id


def test_a_failure_in_the_midst_stops_no_other(dataset: Dataset) -> None:
    planner = Recorder(breaks="a")
    done = changed(dataset, planner)
    assert [name for name, _ in planner.calls] == ["a", "b", "a", "b"]
    (first, second) = (one for one in done.outcomes if one.path in "ab")
    assert first.error == "RuntimeError: the disk is full"
    assert second.report is not None
    assert not second.report.dry_run


def test_a_dry_run_changes_nothing_and_patterns_choose(dataset: Dataset) -> None:
    planner = Recorder()
    assert changed(dataset, planner, dry_run=True).dry_run
    assert not dataset.store.child("a").list_names("__meta").files
    planner = Recorder()
    done = changed(dataset, planner, pattern="b")
    assert {name for name, _ in planner.calls} == {"b"}
    assert not done.failed


def test_all_or_none(dataset: Dataset) -> None:
    with pytest.raises(RefusedError, match="nothing was changed"):
        changed(dataset, Recorder("b"), all_or_none=True)
    assert not dataset.store.child("a").list_names("__meta").files


def test_outside_must_be_asked_for(dataset: Dataset) -> None:
    done = changed(dataset, Recorder(), outside=True)
    assert [one.path for one in done.outcomes if one.report is not None] == ["a", "b", "far"]


def test_real_changes_and_the_groups_own_files(dataset: Dataset, tmp_path: Path) -> None:
    done = ct.open_dataset(dataset.uri).consolidate()
    assert [one.path for one in done.outcomes if one.report is not None] == ["", "a", "b"]
    assert list((tmp_path / "group" / "a" / "__commits").glob("*.con"))
    assert not list((tmp_path / "elsewhere" / "__commits").glob("*.con"))
    assert len(ct.open_dataset(dataset.uri).members()) == 4
    assert len(list((tmp_path / "group" / "__group").glob("*.vac"))) == 1
