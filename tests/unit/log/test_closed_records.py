"""A log whose records of operations nobody may read, or of which one is damaged."""

from __future__ import annotations

import subprocess
import sys
from typing import TYPE_CHECKING

import pytest
from support.engine_arrays import EngineArray
from support.spec_files import ROOT

import chronotile as ct

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def made(tmp_path: Path) -> EngineArray:
    array = EngineArray(tmp_path / "array").create()
    array.write(10, {1: 1, 2: 2})
    ct.open(array.uri).delete("a == 1")
    ct.open(array.uri).tag("first")
    return array


@pytest.mark.parametrize("closed", ["__chronotile", "__chronotile/operations", "a record"])
def test_the_log_is_shown_with_a_note(made: EngineArray, closed: str) -> None:
    folder = made.folder / "__chronotile/operations"
    path = min(folder.iterdir()) if closed == "a record" else made.folder / closed
    mode = path.stat().st_mode
    path.chmod(0)
    try:
        for command in ("log", "explain"):
            call = [sys.executable, "-m", "support.unprivileged", command, made.uri]
            done = subprocess.run(
                call, cwd=ROOT / "tests", capture_output=True, text=True, check=False
            )
            assert done.returncode == 0, done.stderr
            assert "a == 1" in done.stdout
            if command == "log":
                assert "note: no operation is shown: " in done.stdout
                assert "Permission denied" in done.stdout
    finally:
        path.chmod(mode)


def test_a_damaged_record_stops_only_who_needs_it(made: EngineArray) -> None:
    folder = made.folder / "__chronotile/operations"
    delete, tag = sorted(folder.iterdir())
    delete.write_text("{")
    assert ct.open(made.uri).events().num_rows == 4
    assert ct.open(made.uri).operations()["command"].to_pylist() == ["tag", "delete"]
    ct.undo(made.uri, tag.name.split("-")[1])
    with pytest.raises(ct.ChronotileError, match="expected a record"):
        ct.undo(made.uri)
