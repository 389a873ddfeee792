"""Findings on groups: copied ones, many lists, damaged lists."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING

import pytest
from support.groups import codes_of, member, put_array, put_list

import chronotile as ct
from chronotile.dataset.check_group import MANY_LISTS
from chronotile.errors import BadFileError

if TYPE_CHECKING:
    from pathlib import Path


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
