"""Maintenance that is killed leaves a record: what was about to go is written down first."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import pytest
from support.fleets import FleetMaker, make_template

from chronotile import consolidate, open_log, repair, vacuum
from chronotile.array import Array
from chronotile.cli import main
from chronotile.errors import ChronotileError
from chronotile.storage.overlay import overlaid
from chronotile.storage.store import open_store

if TYPE_CHECKING:
    from pathlib import Path

    from chronotile.change.plan import Report

KILLED_AT = 3
SCRIPT = f"""
import os, signal, sys
left = {KILLED_AT}
def heard(event, arguments):
    global left
    if event == "os.remove" and str(arguments[0]).endswith(".wrt"):
        left -= 1
        if not left:
            os.kill(os.getpid(), signal.SIGKILL)
sys.addaudithook(heard)
"""
COMMAND = "from chronotile.cli import main; main(['vacuum', sys.argv[1]])"
FLEET = """
from chronotile.fleet.options import Options
from chronotile.fleet.maintenance import maintain
from chronotile.fleet.policy import PolicyRule
rule = PolicyRule(consolidate="commits", vacuum="commits")
maintain(sys.argv[1], Options(), rule, dry_run=False)
"""


@pytest.fixture
def array(tmp_path: Path) -> Path:
    maker = FleetMaker(make_template(tmp_path / "template"))
    maker.array(tmp_path / "lake" / "array", 10, seed=1, loose=10)
    return tmp_path / "lake" / "array"


def loose(array: Path) -> set[str]:
    return {f"__commits/{path.name}" for path in (array / "__commits").glob("*.wrt")}


def killed(code: str, *arguments: str) -> None:
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT + code, *arguments], check=False, timeout=120
    )
    assert done.returncode == -signal.SIGKILL


def documents(folder: Path) -> dict[str, Any]:
    return {path.name: json.loads(path.read_text()) for path in sorted(folder.rglob("*.json"))}


def removed(document: Any) -> set[str]:
    return {step["path"] for step in document["steps"] if step["op"] == "remove"}


def test_a_command_that_is_killed(array: Path, capsys: pytest.CaptureFixture[str]) -> None:
    consolidate(str(array))
    before = loose(array)
    killed(COMMAND, str(array))
    gone = before - loose(array)
    assert len(gone) == KILLED_AT - 1
    records = array / "__chronotile" / "operations"
    (begun,) = (one for name, one in documents(records).items() if "-vacuum-begun" in name)
    assert begun["state"] == "begun"
    assert removed(begun) == before
    assert main(["vacuum", str(array)]) == 0
    assert "was broken off: what it removed stays removed" in capsys.readouterr().out
    assert loose(array) == set()
    after = documents(records)
    assert len(after) == 3, "and one of the consolidation"
    (done,) = (one for name, one in after.items() if name.endswith("-vacuum-final.json"))
    assert removed(done) == before - gone
    (failed,) = (one for name, one in after.items() if name.endswith("-vacuum-failed.json"))
    assert failed["id"] == begun["id"]
    capsys.readouterr()


def test_maintenance_of_a_fleet_that_is_killed(array: Path) -> None:
    before = loose(array)
    killed(FLEET, str(array))
    assert len(before - loose(array)) == KILLED_AT - 1
    found = documents(array / "__chronotile" / "operations")
    (begun,) = (one for one in found.values() if one.get("state") == "begun")
    assert removed(begun) == before
    assert sorted(one["command"] for one in found.values()) == ["consolidate", "vacuum"]


def test_what_is_about_to_be_done_is_told_before_it_is(array: Path) -> None:
    told: list[Report] = []

    def before(report: Report) -> None:
        told.append(report)
        assert files == sorted(array.rglob("*")), "nothing is touched yet"

    files = sorted(array.rglob("*"))
    done = consolidate(str(array), before=before)
    assert told[-1].steps == done.steps
    files = sorted(array.rglob("*"))
    assert vacuum(str(array), dry_run=True, before=before).steps
    assert len(told) == 1, "a dry run is about to do nothing"
    vacuum(str(array), before=before)
    assert len(told[-1].steps) == 10
    assert len(list((array / "__chronotile" / "operations").iterdir())) == 2
    (array / "__commits" / "notes.wrt").touch()
    files = sorted(array.rglob("*"))
    repair(str(array), before=before)
    assert [step.path for step in told[-1].steps] == ["__commits/notes.wrt"]
    vacuum(str(array), before=before)
    assert len(told) == 3, "nor is one that has nothing to do"


def test_nothing_goes_that_cannot_be_written_down(
    array: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    consolidate(str(array))
    before = loose(array)
    folder = array / "__chronotile"
    shutil.rmtree(folder)
    folder.write_text("in the way")
    assert main(["vacuum", str(array)]) == 3
    said = capsys.readouterr().err
    assert "the record of the change cannot be written" in said
    assert "to go on without a way back, add --no-record" in said
    assert loose(array) == before
    assert main(["vacuum", str(array), "--no-record"]) == 0
    assert loose(array) == set()


def test_an_overlay_shows_what_is_not_there_and_changes_nothing(array: Path) -> None:
    report = consolidate(str(array), dry_run=True)
    (step,) = report.steps
    store = overlaid(open_store(array), {step.path: step.data})
    planned = Array(store).vacuum(dry_run=True)
    assert {one.path for one in planned.steps} == loose(array)
    assert store.read_range(step.path, 2, 9, size=9) == (step.data or b"")[2:9]
    assert store.read_range(min(loose(array)), 0, 9, size=0) == b""
    files = sorted(os.listdir(array / "__commits"))  # noqa: PTH208 - names are what counts
    with pytest.raises(ChronotileError, match="expected only reading, found a change"):
        Array(store).vacuum()
    assert sorted(os.listdir(array / "__commits")) == files  # noqa: PTH208
    assert len(open_log(str(array)).view().fragments) == 10
