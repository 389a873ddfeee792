"""`check`, `delete`, `update`, `consolidate`, `vacuum` and `repair` on the command line."""

from __future__ import annotations

import json
import shutil
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
import tiledb
from support.corpus_cases import CASES
from support.engine_arrays import EngineArray

from chronotile.cli import main

if TYPE_CHECKING:
    import pathlib


@pytest.fixture
def array(tmp_path: pathlib.Path) -> EngineArray:
    made = EngineArray(tmp_path / "lake" / "array")
    made.folder.parent.mkdir()
    made.create()
    for at in (10, 20, 30):
        made.write(at, {at: at})
    return made


def run(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str, str]:
    status = main(arguments)
    said = capsys.readouterr()
    return status, said.out, said.err


def run_json(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, Any]:
    status, out, _ = run(capsys, *arguments, "--json")
    return status, json.loads(out)


def test_check(array: EngineArray, capsys: pytest.CaptureFixture[str]) -> None:
    assert run_json(capsys, "check", array.uri) == (0, [])
    (array.commits_folder / "notes.wrt").touch()
    status, found = run_json(capsys, "check", str(array.folder.parent))
    assert status == 1
    (item,) = found
    assert list(item) == ["code", "severity", "array", "path", "message", "hint"]
    assert item["array"] == array.uri
    status, out, _ = run(capsys, "check", array.uri)
    assert status == 1
    assert "name-malformed" in out
    assert "-> to move it to the quarantine: chronotile repair" in out
    assert run_json(capsys, "check", array.uri, "--severity", "error")[0] == 1


def test_debt_alone_is_fine(array: EngineArray, capsys: pytest.CaptureFixture[str]) -> None:
    array.consolidate("commits")
    array.write(40, {40: 40})
    assert main(["consolidate", array.uri]) == 0
    capsys.readouterr()
    status, found = run_json(capsys, "check", array.uri)
    assert status == 0
    assert [item["code"] for item in found] == ["con-superseded"]
    assert run_json(capsys, "check", array.uri, "--severity", "warning") == (0, [])


def test_delete(array: EngineArray, capsys: pytest.CaptureFixture[str]) -> None:
    status, document = run_json(capsys, "delete", array.uri, "--where", "a < 15", "--dry-run")
    assert (status, document["dry_run"]) == (0, True)
    assert len(array.answer()) == 3
    status, out, err = run(capsys, "delete", array.uri, "--where", "a < 15", "--at", "40")
    assert status == 0
    assert "delete where a < 15" in out
    assert len(array.answer()) == 2
    (record,) = (array.folder / "__chronotile" / "operations").iterdir()
    document = json.loads(record.read_text())
    assert document["command"] == "delete"
    assert f"to undo: chronotile undo {array.uri} {document['id']}\n" in err
    assert run(capsys, "delete", array.uri, "--where", "b < 15")[0] == 2


def test_null_loss_wants_a_word(tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str]) -> None:
    attrs = [tiledb.Attr("a", dtype=np.int32, nullable=True)]
    array = EngineArray(tmp_path / "array").create(attrs=attrs)
    array.write_raw(10, x=[1, 2], a=[1, None])
    status, out, err = run(capsys, "delete", array.uri, "--where", "a == 7")
    assert (status, out) == (1, "")
    assert "rows where a is NULL" in err
    assert "--allow-null-loss" in err
    assert run(capsys, "delete", array.uri, "--where", "a == 7", "--allow-null-loss")[0] == 0
    assert len(array.answer()) == 1


def test_update_wants_a_word(array: EngineArray, capsys: pytest.CaptureFixture[str]) -> None:
    command = ("update", array.uri, "--where", "a == 10", "--set", "a=11", "--at", "50")
    status, _, err = run(capsys, *command)
    assert status == 1
    assert "--experimental" in err
    status, out, _ = run(capsys, *command, "--experimental")
    assert status == 0
    assert "treats an update as a delete" in out
    assert len(array.answer()) == 2


def test_modes_of_consolidate_and_vacuum(
    array: EngineArray, capsys: pytest.CaptureFixture[str]
) -> None:
    status, document = run_json(
        capsys, "consolidate", array.uri, "--mode", "fragment-meta", "--dry-run"
    )
    (step,) = document["steps"]
    assert status == 0
    assert step["path"].startswith("__fragment_meta/")
    costs = document["engine_open_requests"]
    assert costs["after"] < costs["before"]
    status, out, _ = run(capsys, "consolidate", array.uri, "--mode", "all")
    assert status == 0
    assert "in a bucket, an open takes" in out
    assert "cannot be undone" not in out
    for more in (["--dry-run"], []):
        status, out, err = run(capsys, "vacuum", array.uri, "--mode", "commits", *more)
        assert (status, out.count("note: this cannot be undone\n")) == (0, 1)
        assert "to undo" not in err
    assert [path.suffix for path in (array.folder / "__fragment_meta").iterdir()] == [".meta"]
    assert run(capsys, "vacuum", array.uri, "--mode", "fragment-meta")[0] == 0
    assert run(capsys, "vacuum", array.uri, "--mode", "array-meta")[0] == 0
    assert run(capsys, "consolidate", array.uri, "--mode", "none")[0] == 2


def test_consolidate_and_vacuum(array: EngineArray, capsys: pytest.CaptureFixture[str]) -> None:
    status, document = run_json(capsys, "consolidate", array.uri, "--dry-run")
    assert (status, [step["op"] for step in document["steps"]]) == (0, ["put"])
    records = array.folder / "__chronotile" / "operations"
    assert not records.exists()
    assert run(capsys, "consolidate", array.uri)[0] == 0
    status, out, _ = run(capsys, "vacuum", array.uri, "--dry-run")
    assert status == 0
    assert out.count(".wrt") == 3
    assert "would remove 3 files" in out
    assert run(capsys, "vacuum", array.uri, "--no-record")[0] == 0
    assert len(array.files("__commits")) == 1
    assert len(list(records.iterdir())) == 1, "a dry run and --no-record leave none"
    status, out, _ = run(capsys, "vacuum", array.uri)
    assert (status, "nothing to do" in out) == (0, True)
    assert len(array.answer()) == 3


def test_a_report_where_the_user_wants_it(
    array: EngineArray, tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str]
) -> None:
    place = tmp_path / "report.json"
    assert run(capsys, "consolidate", array.uri, "--report", str(place))[0] == 0
    assert json.loads(place.read_text())["steps"][0]["op"] == "put"
    array.write(40, {40: 40})
    status, _, err = run(capsys, "consolidate", array.uri, "--report", str(tmp_path / "no" / "x"))
    assert status == 0, "what was to be done is done"
    assert "could not be kept" in err


def test_time_travel_is_announced(
    tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str]
) -> None:
    array = EngineArray(tmp_path / "array").create(sparse=False)
    for at in (10, 20):
        array.write(at, dict.fromkeys(range(3), at))
    array.consolidate("fragments")
    status, out, err = run(capsys, "vacuum", array.uri)
    assert status == 0
    assert err.startswith("note: time travel is lost from 10 to 20")
    assert "time travel is lost" not in out, "it was said before"


def test_a_damaged_array_is_refused(array: EngineArray, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(capsys, "consolidate", array.uri)[0] == 0
    (con,) = array.commits_folder.glob("*.con")
    con.write_bytes(con.read_bytes()[:-9])
    for command in ("consolidate", "vacuum"):
        status, out, err = run(capsys, command, array.uri)
        assert (status, out) == (1, "")
        assert err.count("\n") == 1
        assert "con-truncated" in err
        assert "chronotile repair" in err


def test_repair_and_back(array: EngineArray, capsys: pytest.CaptureFixture[str]) -> None:
    bad = array.commits_folder / "notes.wrt"
    bad.touch()
    assert isinstance(array.answer(), str)
    status, document = run_json(capsys, "repair", array.uri, "--dry-run")
    assert (status, bad.exists()) == (0, True)
    assert document["steps"][0]["path"] == "__commits/notes.wrt"
    status, document = run_json(capsys, "repair", array.uri)
    assert (status, bad.exists()) == (0, False)
    assert len(array.answer()) == 3
    assert main(["undo", array.uri, document["operation"]]) == 0
    assert bad.exists()
    assert run(capsys, "repair", array.uri, "--restore", "/nowhere/manifest.json")[0] == 2


def test_what_cannot_be_mended_is_told(
    array: EngineArray, capsys: pytest.CaptureFixture[str]
) -> None:
    array.write(31, {31: 31})
    assert run(capsys, "consolidate", array.uri)[0] == 0
    assert run(capsys, "vacuum", array.uri)[0] == 0
    (con,) = array.commits_folder.glob("*.con")
    data = con.read_bytes()
    con.write_bytes(data[: data.index(b"__commits/__30_") + 13])
    status, document = run_json(capsys, "repair", array.uri)
    assert status == 1
    assert [item["code"] for item in document["findings"]] == ["con-truncated"]
    assert run(capsys, "repair", array.uri, "--accept-loss")[0] == 0


def test_repair_commits_orphans(array: EngineArray, capsys: pytest.CaptureFixture[str]) -> None:
    for path in array.commits_folder.iterdir():
        path.unlink()
    status, planned = run_json(capsys, "repair", array.uri, "--commit-orphans", "--dry-run")
    assert (status, len(array.answer()), len(planned["steps"])) == (0, 0, 1)
    status, out, err = run(capsys, "repair", array.uri, "--commit-orphans")
    assert status == 0
    assert "commits 3 whole fragments that no commit names" in " ".join(out.split())
    assert f"to undo: chronotile undo {array.uri}" in err
    assert len(array.answer()) == 3
    assert main(["undo", array.uri]) == 0
    assert len(array.answer()) == 0


def test_the_headline_of_a_repair_counts_what_is_left(
    tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The headline read "nothing to do" above an error that repair cannot mend."""
    damaged = tmp_path / "array"
    shutil.copytree(CASES["bad-con-line"].array, damaged)
    _, out, _ = run(capsys, "repair", str(damaged), "--dry-run")
    assert out.splitlines()[0] == f"{damaged}: 1 finding not repaired"
    assert out.count("--accept-loss") == 1


def test_the_headline_of_a_log_says_which_deletes_reach_nothing(
    array: EngineArray, capsys: pytest.CaptureFixture[str]
) -> None:
    """A restore commits old rows again, later than the deletes that had hidden them."""
    array.delete(40, "a == 20")
    head = run(capsys, "log", array.uri)[1].splitlines()[0]
    assert head.endswith("1 delete and 0 updates in force")
    assert run(capsys, "restore", array.uri, "--to", "35")[0] == 0
    head = run(capsys, "log", array.uri)[1].splitlines()[0]
    assert (
        "1 delete and 0 updates in force, but it hides no row: every visible fragment is newer"
        in head
    )
