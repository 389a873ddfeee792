"""Reports and quarantines that earlier versions left beside an array, as they wrote them."""

from __future__ import annotations

import hashlib
import json
from typing import TYPE_CHECKING, Any

import pytest
from support.engine_arrays import EngineArray

import chronotile as ct
from chronotile.cli import main

if TYPE_CHECKING:
    from pathlib import Path

STAMP = "20240501T080000.120Z"
TIME = "2024-05-01T08:00:00.120Z"


@pytest.fixture
def made(tmp_path: Path) -> EngineArray:
    array = EngineArray(tmp_path / "array").create()
    array.write(10, {1: 1, 2: 2})
    return array


def reported(array: EngineArray, command: str, steps: list[dict[str, Any]], **more: Any) -> Any:
    """Write the report of a change."""
    report = {"command": command, "array": array.uri, "dry_run": False, "time": TIME}
    report |= {"steps": steps, "notes": [], "findings": [], **more}
    folder = array.folder.with_name("array.reports")
    folder.mkdir()
    (folder / f"{STAMP}-{command}.json").write_text(json.dumps(report))
    return report


@pytest.mark.parametrize("way", ["document", "name", "path", "stamp", "manifest"])
def test_a_repair_is_undone(made: EngineArray, way: str) -> None:
    quarantine = made.folder.with_name("array.quarantine") / STAMP
    quarantine.mkdir(parents=True)
    (quarantine / "0000-notes.wrt").write_bytes(b"a note")
    step = {"path": "__commits/notes.wrt", "size": 6, "reason": "name-malformed"}
    known = {"sha256": hashlib.sha256(b"a note").hexdigest(), "file": "0000-notes.wrt"}
    manifest = {"array": made.uri, "made": TIME, "moved": [step | known], "put": []}
    (quarantine / "manifest.json").write_text(json.dumps(manifest))
    report = reported(made, "repair", [{"op": "move", **step}], quarantine=str(quarantine))
    path = str(made.folder.with_name("array.reports") / f"{STAMP}-repair.json")
    match way:
        case "document":
            ct.undo(made.uri, report=report)
        case "manifest":
            assert main(["repair", made.uri, "--restore", str(quarantine / "manifest.json")]) == 0
        case _:
            given = {"name": f"{STAMP}-repair.json", "path": path, "stamp": STAMP}[way]
            assert main(["undo", made.uri, given]) == 0
    assert (made.commits_folder / "notes.wrt").read_bytes() == b"a note"


def test_a_delete_is_undone(made: EngineArray) -> None:
    before = made.answer()
    done = ct.open(made.uri).delete("a == 1", record=False).to_dict()
    report = reported(made, "delete", done["steps"], added=done["added"])
    assert made.answer() != before
    ct.undo(made.uri, report=report)
    assert made.answer() == before
