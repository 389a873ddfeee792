"""Datasets: members of every odd kind, findings, states as of a moment, and moments."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING

import pytest
from support.groups import member, put_array, put_list

import chronotile as ct
from chronotile.dataset.check_group import MANY_LISTS
from chronotile.dataset.member_tree import MOST_NESTED
from chronotile.errors import ArrayNotFoundError, BadFileError, ChronotileError

if TYPE_CHECKING:
    from pathlib import Path


def found_in(group: Path) -> dict[str, str]:
    return {node.path: node.found for node in ct.open_dataset(str(group)).tree()}


def codes_of(group: Path, as_of: int | None = None) -> list[tuple[str, str, str]]:
    found = ct.open_dataset(str(group)).check(as_of=as_of)
    return sorted((item.code, item.severity, item.path) for item in found)


@pytest.fixture
def group(tmp_path: Path) -> Path:
    """A group with an array, and a group with another array in it."""
    root = tmp_path / "group"
    put_array(root / "cells")
    put_array(root / "inner" / "deep")
    put_list(root, 10, member("cells", "cells"), member("inner", "inner", "group"))
    put_list(root / "inner", 10, member("deep"))
    return root


def test_members_are_followed_to_any_depth(group: Path) -> None:
    assert found_in(group) == {"cells": "array", "inner": "group", "inner/deep": "array"}
    dataset = ct.open_dataset(str(group))
    assert {m.name for m in dataset.members()} == {"cells", "inner"}
    assert [m.name for m in dataset.members(9)] == []
    assert set(dataset.logs()) == {"cells", "inner/deep"}
    assert set(dataset.view().views) == {"cells", "inner/deep"}
    assert codes_of(group) == []


def test_odd_members(group: Path, tmp_path: Path) -> None:
    put_array(tmp_path / "elsewhere")
    put_array(group / "stray")
    (group / "plain").mkdir()
    (group / "plain" / "notes.txt").touch()
    put_list(
        group,
        20,
        member(str(tmp_path / "elsewhere"), "absolute"),
        member("cells", "twice"),
        member("nothing", "gone"),
        member("plain", "plain"),
        member("../elsewhere", "leaves"),
        member("tiledb://cloud/x", "cloud"),
        member("no\u001b[31mcolour", "control"),
    )
    put_list(group / "inner", 20, member(str(group), "up", "group"), member(".", "self", "group"))
    assert found_in(group) == {
        "absolute": "array",
        "cells": "array",
        "cloud": "refused",
        "control": "refused",
        "gone": "missing",
        "inner": "group",
        "inner/deep": "array",
        "inner/self": "refused",
        "inner/up": "cyclic",
        "leaves": "refused",
        "plain": "neither",
        "twice": "doubled",
    }
    assert codes_of(group) == [
        ("member-cyclic", "warning", "up"),
        ("member-doubled", "info", "twice"),
        *(("member-missing", "error", name) for name in ("cloud", "control", "gone", "leaves")),
        ("member-missing", "error", "plain"),
        ("member-missing", "error", "self"),
        ("stray-array", "info", "stray"),
    ]
    messages = "".join(item.message for item in ct.open_dataset(str(group)).check())
    assert "\u001b" not in messages


def test_groups_that_are_nested_too_deep_are_not_followed(tmp_path: Path) -> None:
    place = tmp_path
    for _ in range(MOST_NESTED + 10):
        put_list(place, 10, member("g", "g", "group"))
        place /= "g"
    put_list(place, 10)
    nodes = ct.open_dataset(str(tmp_path)).tree()
    assert [node.found for node in nodes] == ["group"] * MOST_NESTED + ["unreadable"]
    assert "unreadable" in {code for code, _, _ in codes_of(tmp_path)}


def test_a_copied_group_whose_members_are_still_at_the_old_place(tmp_path: Path) -> None:
    old, new = tmp_path / "old", tmp_path / "new"
    put_array(old / "cells")
    put_list(old, 10, member(f"file://{old}/cells", "cells"))
    shutil.copytree(old, new)
    assert codes_of(old) == []
    found = [("member-elsewhere", "warning", "cells"), ("stray-array", "info", "cells")]
    assert codes_of(new) == found
    shutil.rmtree(old)
    assert ("member-missing", "error", "cells") in codes_of(new)


def test_many_lists_are_debt(group: Path) -> None:
    for at in range(20, 20 + MANY_LISTS):
        put_list(group, at, member("cells", "cells"))
    assert codes_of(group) == [("many-member-lists", "info", "__group")]


def test_a_damaged_list_stops_the_group_as_it_stops_the_engine(group: Path) -> None:
    broken = put_list(group, 30, member("cells", "cells"))
    broken.write_bytes(broken.read_bytes()[:-5])
    dataset = ct.open_dataset(str(group))
    assert len(dataset.members(29)) == 2
    with pytest.raises(BadFileError, match=broken.name):
        dataset.members()
    assert ("tile-corrupt", "error", f"__group/{broken.name}") in codes_of(group)


def test_a_list_of_version_1_before_one_of_version_2_stops_it_too(tmp_path: Path) -> None:
    put_list(tmp_path, 10, member("a", "a"), version=1)
    assert len(ct.open_dataset(str(tmp_path)).members()) == 1
    put_list(tmp_path, 20, member("b", "b"), version=1)
    assert [m.name for m in ct.open_dataset(str(tmp_path)).members()] == ["b"]
    put_list(tmp_path, 30, member("c", "c"))
    with pytest.raises(BadFileError, match="expected version 2"):
        ct.open_dataset(str(tmp_path)).members()


def test_what_is_no_group_is_said(tmp_path: Path) -> None:
    with pytest.raises(ArrayNotFoundError, match="found no __group; no array or group below"):
        ct.open_dataset(str(tmp_path))
    put_list(tmp_path, 10)
    with pytest.raises(ChronotileError, match="at: expected"):
        ct.open_dataset(str(tmp_path)).members(-1)
    put_array(tmp_path / "a")
    with pytest.raises(ArrayNotFoundError, match="expected a group, found an array"):
        ct.open_dataset(str(tmp_path / "a"))
    with pytest.raises(ArrayNotFoundError, match="expected an array, found a group"):
        ct.open_log(str(tmp_path))
    put_list(tmp_path / "lake" / "deep" / "g", 1)
    put_array(tmp_path / "lake" / "b")
    below = "found no schema; 1 array and 1 group below; try .*/lake/deep/g"
    with pytest.raises(ArrayNotFoundError, match=below):
        ct.open_log(str(tmp_path / "lake"))


def test_a_merge_that_was_vacuumed_leaves_a_gap(tmp_path: Path) -> None:
    """A dense array merged over 10 to 20 and vacuumed cannot be read whole in between."""
    put_array(tmp_path / "dense", "dense-vacuumed-v22")
    put_array(tmp_path / "kept", "dense-consolidated-v22")
    put_array(tmp_path / "sparse", "sparse-vacuumed")
    names = ("dense", "kept", "sparse")
    put_list(tmp_path, 1, *(member(name, name) for name in names))
    dataset = ct.open_dataset(str(tmp_path))
    (gap,) = {item for item in codes_of(tmp_path, as_of=15) if item[0] == "as-of-partial"}
    assert gap[1:] == ("error", gap[2])
    first, last = map(int, gap[2].split("/__")[1].split("_")[:2])
    assert first <= 15 < last
    assert not [item for item in codes_of(tmp_path, as_of=last) if item[1] == "error"]
    moments = dataset.moments()
    assert moments
    assert not any(moment.t < last and moment.t >= first for moment in moments)
    assert moments[-1].until is None
    for moment in moments:
        found = dataset.check(as_of=moment.t)
        assert not [item for item in found if item.severity != "info"], moment
    assert [item[0] for item in codes_of(tmp_path, as_of=0) if item[1] != "info"] == [
        "as-of-absent"
    ]


def test_events_of_all_members_are_in_one_order(group: Path) -> None:
    put_array(group / "dense", "dense-vacuumed-v22")
    put_list(group, 20, member("dense", "dense"))
    events = ct.open_dataset(str(group)).events().to_pylist()
    times = [event["t2"] for event in events]
    assert times == sorted(times, reverse=True)
    assert {event["member"] for event in events} == {"", "cells", "dense", "inner", "inner/deep"}
    assert {"members", "write", "schema"} <= {event["kind"] for event in events}
