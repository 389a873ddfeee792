"""The conformance kit: its cases are what is made now, and two readers are right about them."""

from __future__ import annotations

import json
import shutil
import sys
from typing import TYPE_CHECKING, Any

import pytest
from conformance import make_cases
from conformance.subjects import chronotile_reader, tiledb_reader
from support.array_places import read_all
from support.version_23 import UNKNOWN, newer_array

from chronotile.cli.files import (
    Case,
    check_reader,
    command_asker,
    read_cases,
)
from chronotile.cli.program import main
from chronotile.errors import BadFileError

if TYPE_CHECKING:
    from pathlib import Path

CASES = make_cases.HERE / "cases.json"
READER = str(make_cases.HERE / "subjects" / "chronotile_reader.py")
ROOT, EVERY = read_cases(str(CASES))
WINDOWS = [
    case
    for case in EVERY
    if case.chapter.startswith("ENGINE 6") and case.path.startswith("corpus/")
]


def test_the_cases_are_what_is_made_now() -> None:
    assert CASES.read_text("utf-8") == make_cases.text()


@pytest.mark.parametrize("case", ["inside-sparse-v22", "inside-dense-v22"])
def test_the_arrays_of_version_23_are_what_is_made_now(case: str, tmp_path: Path) -> None:
    made = tmp_path / "array"
    shutil.copytree(make_cases.CORPUS / case / "array", made)
    newer_array(made, others=(UNKNOWN,))
    assert read_all(made) == read_all(make_cases.NEWEST / case / "array")


def test_the_cases_fit_their_schema() -> None:
    schema = json.loads((make_cases.HERE / "cases.schema.json").read_text("utf-8"))
    form = schema["$defs"]["case"]
    for case in json.loads(CASES.read_text("utf-8"))["cases"]:
        assert set(form["required"]) <= set(case) <= set(form["properties"])
        assert len(case.get("window", (0, 0))) == 2
        assert case["expect"]


def test_chronotile_is_right_about_all() -> None:
    report = check_reader(
        ROOT, EVERY, lambda path, case: chronotile_reader.answer(path, case.window, case.key)
    )
    assert not report.failures, report.failures[:5]
    assert sum(score.cases for score in report.scores.values()) == len(EVERY)


def test_tiledb_is_right_about_windows() -> None:
    some = [case for case in WINDOWS if "starts" not in case.expect][::12]
    report = check_reader(
        ROOT, some, lambda path, case: tiledb_reader.answer(path, case.window, case.key)
    )
    assert not report.failures, report.failures[:5]
    assert sum(score.cases for score in report.scores.values()) == len(some)


def test_a_reader_that_lies_fails() -> None:
    report = check_reader(ROOT, EVERY, lambda _path, _case: {"t1": -1})
    assert report.status == 1
    assert len(report.failures) == len(EVERY)


def test_a_reader_that_cannot_say_is_not_asked() -> None:
    report = check_reader(ROOT, EVERY, lambda _path, _case: {"cannot_say": True})
    assert report.status == 0
    assert sum(score.not_asked for score in report.scores.values()) == len(EVERY)


def answer_of(code: str, timeout: float = 20) -> Any:
    ask = command_asker([sys.executable, "-c", code], timeout)
    return ask("x", Case("c", "x", {"a": 1}, (1, 2), "k"))


def test_the_command_gets_path_window_and_key() -> None:
    told = answer_of("import json, sys; print(json.dumps({'a': sys.argv[1:]}))")
    assert told == {"a": ["x", "--window", "1", "2", "--key", "k"]}


@pytest.mark.parametrize("code", ["print('no')", "while True: print('x' * 65536)", "1 / 0"])
def test_a_command_that_prints_no_json_or_no_end_has_no_answer(code: str) -> None:
    assert answer_of(code) is None


def test_a_command_that_hangs_is_ended() -> None:
    assert answer_of("import time; time.sleep(60)", timeout=0.5) is None


def test_the_command_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    few = tmp_path / "cases.json"
    document = json.loads(CASES.read_text("utf-8"))
    chosen = [case for case in document["cases"] if "ENGINE 3" in case["chapter"]][:2]
    few.write_text(json.dumps({"root": str(ROOT), "cases": chosen}))
    assert main(["conformance", str(few), "--json", "--", sys.executable, READER]) == 0
    (chapter,) = json.loads(capsys.readouterr().out)["chapters"]
    assert (chapter["passed"], chapter["cases"]) == (2, 2)
    chosen[0]["chapter"] = "\x1b[31mred"
    few.write_text(json.dumps({"root": str(ROOT), "cases": chosen}))
    assert main(["conformance", str(few), "--", sys.executable, "-c", "print('{}')"]) == 1
    assert "\x1b" not in capsys.readouterr().out


def test_tiledb_answers_as_a_command(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    case = {"chapter": "c", "path": "corpus/sparse-loose/array", "window": [0, 1 << 60]}
    names = chronotile_reader.answer(f"{ROOT}/{case['path']}", (0, 1 << 60), None)["fragments"]
    file = tmp_path / "cases.json"
    file.write_text(
        json.dumps({"root": str(ROOT), "cases": [case | {"expect": {"fragments": names}}]})
    )
    monkeypatch.setenv("PYTHONPATH", str(make_cases.ROOT))
    reader = str(make_cases.HERE / "subjects" / "tiledb_reader.py")
    assert main(["conformance", str(file), "--json", "--", sys.executable, reader]) == 0
    assert json.loads(capsys.readouterr().out)["chapters"][0]["passed"] == 1


def test_a_chapter_that_no_case_has_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["conformance", str(CASES), "--only", "ENGINE 99", "--", "false"]) != 0
    assert "expected cases of a chapter with 'ENGINE 99', found none" in capsys.readouterr().err


@pytest.mark.parametrize("path", ["/etc/x", "a/../../x"])
def test_a_path_outside_the_root_is_refused(path: str, tmp_path: Path) -> None:
    file = tmp_path / "cases.json"
    case = {"chapter": "c", "path": path, "expect": {"a": 1}, "edit": {"truncate": 1}}
    file.write_text(json.dumps({"root": ".", "cases": [case]}))
    with pytest.raises(BadFileError, match="below its root"):
        read_cases(str(file))
