"""Datasets: members, logs and views of a group that is open, and what is no group."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from support.groups import codes_of, found_in, member, put_array, put_list

import chronotile as ct
from chronotile.errors import ArrayNotFoundError, BadFileError, ChronotileError

if TYPE_CHECKING:
    from pathlib import Path


def test_members_are_followed_to_any_depth(group: Path) -> None:
    assert found_in(group) == {"cells": "array", "inner": "group", "inner/deep": "array"}
    dataset = ct.open_dataset(str(group))
    assert {m.name for m in dataset.members()} == {"cells", "inner"}
    assert [m.name for m in dataset.members(9)] == []
    assert set(dataset.logs()) == {"cells", "inner/deep"}
    assert set(dataset.view().views) == {"cells", "inner/deep"}
    assert codes_of(group) == []


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
    with pytest.raises(ChronotileError, match="at: -1 is not a time"):
        ct.open_dataset(str(tmp_path)).members(-1)
    put_array(tmp_path / "a")
    with pytest.raises(ArrayNotFoundError, match="expected a group, found an array"):
        ct.open_dataset(str(tmp_path / "a"))
    with pytest.raises(ArrayNotFoundError, match="expected an array, found a group"):
        ct.open_log(str(tmp_path))
    put_list(tmp_path / "lake" / "deep" / "g", 1)
    put_array(tmp_path / "lake" / "b")
    below = "found no schema; 1 array and 1 group below: chronotile ls .*/lake"
    with pytest.raises(ArrayNotFoundError, match=below):
        ct.open_log(str(tmp_path / "lake"))
