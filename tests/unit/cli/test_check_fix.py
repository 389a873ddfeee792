"""`check --fix`: what its hints say and loses nothing, as operations that can be undone."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
from support.corpus_cases import CASES
from support.engine_arrays import EngineArray

import chronotile as ct
from chronotile.check.debt import MANY_SMALL
from chronotile.cli import sample
from chronotile.cli.program import main


def codes(capsys: pytest.CaptureFixture[str], array: Path, *more: str) -> set[str]:
    main(["check", str(array), "--json", *more])
    return {found["code"] for found in json.loads(capsys.readouterr().out)}


def contents(array: Path) -> dict[str, bytes]:
    """Every file of an array but our own."""
    files = (
        path for path in array.rglob("*") if path.is_file() and "__chronotile" not in str(path)
    )
    return {str(path.relative_to(array)): path.read_bytes() for path in files}


@pytest.fixture
def array(tmp_path: Path) -> Path:
    """An array with an update, and with a commit file that keeps the engine from opening it."""
    made = sample.unpack(tmp_path).array
    (made / "__commits" / "__1_1_no-name.wrt").write_bytes(b"")
    return made


def test_what_can_be_mended_is_mended_and_can_be_undone(
    array: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    before, found = contents(array), codes(capsys, array)
    assert {"name-malformed", "update-deletes", "fragment-without-commit"} <= found
    assert main(["check", str(array), "--fix", "--yes", "--json"]) == 1
    document, err = capsys.readouterr()
    left = {item["code"] for item in json.loads(document)}
    assert not left & {"name-malformed", "update-deletes"}
    assert "fragment-without-commit" in left, (
        "a vacuum removes files, and is nobody's but the user's"
    )
    made = ct.open(str(array)).operations().to_pylist()
    assert [one["command"] for one in reversed(made)][:2] == ["repair", "apply"]
    assert "check --fix: name-malformed" in made[-1]["message"]
    for one in made:
        assert f"; to undo: chronotile undo {array} {one['id']}\n" in err
    for one in made:
        ct.open(str(array)).undo(one["id"])
    assert contents(array) == before


def test_a_terminal_is_asked_and_a_script_must_say_yes(
    array: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    before = contents(array)
    assert main(["check", str(array), "--fix"]) == 2
    assert "--yes" in capsys.readouterr().err
    monkeypatch.setattr("sys.stdin.isatty", lambda: True)
    monkeypatch.setattr("sys.stderr.isatty", lambda: True)
    monkeypatch.setattr("click.confirm", lambda *_, **__: False)
    assert main(["check", str(array), "--fix"]) == 1
    err = capsys.readouterr().err
    assert f"chronotile repair {array}, for name-malformed: " in err
    assert err.endswith("nothing was changed\n")
    assert contents(array) == before


def test_a_damaged_list_is_repaired_in_its_own_group(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    dataset = sample.unpack(tmp_path).dataset
    for file in (dataset / "derived" / "__group").iterdir():
        file.write_bytes(file.read_bytes()[:20])
        os.utime(file, (1, 1))
    main(["check", str(dataset), "--fix", "--yes"])
    err = capsys.readouterr().err
    assert f"done: chronotile repair {dataset / 'derived'}; " in err
    assert f"chronotile repair {dataset}, " not in err
    assert "tile-corrupt" not in {one.code for one in ct.open(dataset).check()}


def test_a_compact_is_left_to_the_user(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    array = EngineArray(tmp_path / "array").create()
    for at in range(1, MANY_SMALL + 1):
        array.write(at, {at % 90: at})
    assert main(["check", array.uri, "--fix", "--yes"]) == 0
    assert f"left alone: chronotile compact {array.uri}: " in capsys.readouterr().err


def test_a_sound_array_needs_nothing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    stations = sample.unpack(tmp_path).dataset / "stations"
    assert main(["check", str(stations), "--fix", "--yes"]) == 0
    assert "nothing to fix" in capsys.readouterr().err
    assert not (stations / "__chronotile").exists()


def test_a_delete_that_cannot_be_read_is_left_out(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for case, code in (("bad-tile", "tile-corrupt"), ("bad-con-tile", "con-truncated")):
        array = Path(CASES[case].copy_to(tmp_path / case))
        assert code in codes(capsys, array)
        assert not codes(capsys, array, "--fix", "--yes") & {"tile-corrupt", "con-truncated"}
