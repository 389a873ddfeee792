"""Findings of every array below a folder: none stops the others."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING

import pytest
from support.corpus_cases import CASES

from chronotile.errors import ChronotileError
from chronotile.fleet.check_all import check_fleet

if TYPE_CHECKING:
    import pathlib


def test_a_fleet(tmp_path: pathlib.Path) -> None:
    for name in ("bad-name", "bare", "con-twice"):
        shutil.copytree(CASES[name].array, tmp_path / "lake" / name)
    (tmp_path / "lake" / "bare.quarantine" / "1").mkdir(parents=True)
    fleet = check_fleet(str(tmp_path / "lake"))
    assert len(fleet.arrays) == 3
    assert {item.code for item in fleet.findings} == {"name-malformed", "delete-duplicate"}
    assert fleet.worst() == "error"
    assert {item.array.rpartition("/")[2] for item in fleet.findings} == {"bad-name", "con-twice"}
    assert check_fleet(str(tmp_path / "lake" / "bare")).findings == ()


def test_an_array_that_cannot_be_read_does_not_stop_the_others(tmp_path: pathlib.Path) -> None:
    shutil.copytree(CASES["secret-loose-v22"].array, tmp_path / "a")
    shutil.copytree(CASES["bad-name"].array, tmp_path / "b")
    fleet = check_fleet(str(tmp_path), key=b"x" * 32)
    assert [(item.array[-1], item.code) for item in fleet.findings] == [
        ("a", "tile-encrypted"),
        ("b", "name-malformed"),
    ]


def test_a_fleet_is_opened_to_its_cells(tmp_path: pathlib.Path) -> None:
    found = check_fleet(str(CASES["inside-sparse-v22"].array), deep=True)
    assert found.looked_at.opened == found.looked_at.files == 48
    assert " bytes in all), with their content" in found.looked_at.words("deep")
    with pytest.raises(ChronotileError, match="found both"):
        check_fleet(str(tmp_path), deep=True, log_only=True)
