"""Where output goes: a pipe that nobody reads, a terminal without colour, a file of a name."""

from __future__ import annotations

import json
import os
import re
import subprocess
from typing import TYPE_CHECKING, Any

import pytest
from support.engine_arrays import EngineArray
from support.terminals import PROGRAM, on_terminal

from chronotile.cli import main, sample

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture(scope="module")
def array(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return sample.unpack(tmp_path_factory.mktemp("output")).array


def without_reader(*arguments: object, both: bool = False) -> tuple[int, bytes]:
    """Run the program with an output that its reader has closed; gives status and errors."""
    reading, writing = os.pipe()
    os.close(reading)
    try:
        done = subprocess.run(
            [*PROGRAM, *map(str, arguments)],
            stdout=writing,
            stderr=writing if both else subprocess.PIPE,
            timeout=60,
            check=False,
        )
    finally:
        os.close(writing)
    return done.returncode, done.stderr or b""


@pytest.mark.parametrize(
    ("command", "status"),
    [
        ("rows ARRAY", 0),
        ("rows ARRAY --format jsonl", 0),
        ("rows ARRAY --format parquet", 0),
        ("rows ARRAY --format arrow", 0),
        ("fragments ARRAY", 0),
        ("log ARRAY --follow", 0),
        ("check ARRAY", 1),
        ("check ARRAY --fail-on none", 0),
        ("rows --help", 0),
    ],
)
def test_a_reader_that_closes_the_pipe_changes_no_status(
    command: str, status: int, array: Path
) -> None:
    found = without_reader(*command.replace("ARRAY", str(array)).split())
    assert found == (status, b""), "and nothing is said of the pipe"


def test_nobody_reads_of_an_error(array: Path) -> None:
    assert without_reader("rows", array, "--where", "nowhere", both=True)[0] == 2
    assert without_reader("log", array / "nowhere", "--json", both=True)[0] == 3


def test_a_change_that_nobody_reads_of_is_written_down_to_its_end(tmp_path: Path) -> None:
    """The record says `begun` until the report takes its place."""
    array = EngineArray(tmp_path / "array").create()
    for at in (10, 20):
        array.write(at, {at: at})
    status, errors = without_reader("consolidate", array.uri)
    (record,) = (tmp_path / "array" / "__chronotile" / "operations").iterdir()
    document = json.loads(record.read_text())
    undo = f"to undo: chronotile undo {array.uri} {document['id']}\n"
    assert (status, errors.decode(), document["state"]) == (0, undo, "done")
    assert without_reader("undo", array.uri, both=True)[0] == 0
    assert array.files("__commits", "*.con") == []


def test_a_process_without_standard_output(array: Path) -> None:
    command = " ".join([*PROGRAM, "fragments", str(array), ">&-"])
    done = subprocess.run(["bash", "-c", command], capture_output=True, timeout=60, check=False)
    assert (done.returncode, done.stderr) == (0, b"")


@pytest.mark.parametrize("off", ["", "1"])
def test_a_terminal_without_colour(off: str, array: Path) -> None:
    """A setting that is empty counts as none, as no-color.org has it."""
    _, seen = on_terminal(["log", str(array)], NO_COLOR=off)
    assert bool(re.search(r"\x1b\[[\d;]*m", seen)) == (not off)


@pytest.mark.parametrize(
    ("command", "known"),
    [
        ("report ARRAY", ".html or .htm"),
        ("timeline ARRAY", ".html, .svg or .png"),
        ("usage ARRAY", ".html, .svg or .png"),
        ("rows ARRAY", ".ipc, or --format"),
        ("diff ARRAY 0 now", ".ipc, or --format"),
        ("blame ARRAY --row id=1", ".ipc, or --format"),
    ],
)
@pytest.mark.parametrize("name", ["x.txt", "x", "x.table"])
def test_a_file_whose_name_says_another_form(
    command: str, known: str, name: str, array: Path, tmp_path: Path, capsys: Any
) -> None:
    target = tmp_path / name
    arguments = command.replace("ARRAY", str(array)).split()
    assert main([*arguments, "-o", str(target)]) == 2
    assert f"{known}, found '{target}'" in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []


def test_a_table_goes_into_no_file(array: Path, tmp_path: Path, capsys: Any) -> None:
    target = tmp_path / "x.txt"
    assert main(["rows", str(array), "--format", "table", "-o", str(target)]) == 2
    assert "expected it without -o" in capsys.readouterr().err
    assert main(["rows", str(array), "--format", "csv", "-o", str(target)]) == 0
    assert target.read_text().startswith("id,")
    assert main(["report", str(array), "-o", str(tmp_path / "PAGE.HTML")]) == 0


def test_a_broken_pipe_of_something_else_is_an_error(
    array: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """As of a connection to Spark: it must not pass for a reader who has had enough."""

    def lost(*_: object, **__: object) -> None:
        raise BrokenPipeError(32, "Broken pipe")

    for name in ("chronotile.history.read_history.read_history", "chronotile.log.Log.view"):
        with monkeypatch.context() as patch:
            patch.setattr(name, lost)
            assert main(["log", str(array)]) == 1
        assert "Broken pipe" in capfd.readouterr().err


def test_a_shell_completes_commands() -> None:
    settings = {"COMP_WORDS": "chronotile vis", "COMP_CWORD": "1"}
    done = subprocess.run(
        PROGRAM,
        env=os.environ | settings | {"_CHRONOTILE_COMPLETE": "bash_complete"},
        capture_output=True,
        timeout=60,
        check=False,
    )
    assert (done.returncode, done.stdout) == (0, b"plain,visible\n")
