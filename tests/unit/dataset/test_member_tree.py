"""Members of every odd kind, each looked up where it lies."""

from __future__ import annotations

from typing import TYPE_CHECKING

from support.groups import codes_of, found_in, member, put_array, put_list

import chronotile as ct
from chronotile.dataset.member_tree import MOST_NESTED

if TYPE_CHECKING:
    from pathlib import Path


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
