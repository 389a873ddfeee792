"""The events of a history: in order, at once, short enough for a terminal, and as they come."""

from __future__ import annotations

import re
import subprocess
import sys
import threading
from typing import TYPE_CHECKING, Any

import pytest
from support.corpus_cases import CASES
from support.handmade_array import make_sample
from support.terminals import PROGRAM, on_terminal

import chronotile as ct
from chronotile.cli import sample
from chronotile.cli.program import main
from chronotile.errors import ChronotileError
from chronotile.show.story import EventFilter
from chronotile.storage.store import open_store

if TYPE_CHECKING:
    from pathlib import Path

    from support.servers import S3Server


@pytest.fixture
def array(tmp_path: Path) -> Path:
    return sample.unpack(tmp_path).array


@pytest.mark.parametrize("case", CASES.values(), ids=list(CASES))
def test_every_object_is_an_event_in_order(case: Any) -> None:
    log = ct.open_log(case.array, key=case.key)
    story = log.story(sizes=False)
    forward = list(story.events(EventFilter(), reverse=True))
    assert list(story.events(EventFilter())) == forward[::-1]
    assert [event.t2 or 0 for event in forward] == sorted(event.t2 or 0 for event in forward)
    every = [item for item in log.view().explain() if "__enumerations/" not in item.path]
    kinds = {"fragment": "write"}
    known = [(kinds.get(item.kind, item.kind), item.name) for item in every if item.kind != "other"]
    assert sorted((event.kind, event.name) for event in forward) == sorted(known)


def test_metadata_and_schemas_tell_what_they_set(array: Path) -> None:
    words = {event["t2"]: event["text"] for event in ct.open_log(array).events().to_pylist()}
    texts = set(words.values())
    assert (
        'changed the array\'s metadata: set currency = "EUR", source = "till export, v1"' in texts
    )
    assert (
        "changed the array's metadata: set chronotile.tag.before-clean-up = 1715601600000" in texts
    )
    assert "changed the schema: added channel (string_ascii, variable length, zstd)" in texts
    assert (
        "created the array: sparse, dimensions id (int64, 0 to 999999, tiles of 1000, zstd); "
        "attributes amount (float64, nullable, zstd), region (string_ascii, variable length, zstd)"
    ) in texts


def test_a_consolidation_tells_when_its_file_was_written(
    array: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["log", str(array), "--kind", "consolidated"]) == 0
    assert capsys.readouterr().out.endswith("_22.con, written 2024-05-08 02:10:00.000 UTC\n")


def test_one_line_has_a_short_id_that_commands_take(
    array: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["log", str(array), "--oneline", "--kind", "delete"]) == 0
    newest, oldest = capsys.readouterr().out.splitlines()
    assert re.fullmatch(r"2024-05-14 16:45:00.000 UTC  delete {7}[0-9a-f]{6}  deleted .*", newest)
    short = oldest.split()[4]
    log = ct.open_log(array)
    name = log.find_name(short)
    assert name == log.view().deletes[0].name
    assert log.find_name(f"__commits/{name}.del") == name
    assert main(["explain", str(array), short]) == 0
    assert f"delete {name}" in capsys.readouterr().out
    for text in ("", "zz"):
        with pytest.raises(ChronotileError, match="fits no commit; give a name"):
            log.find_name(text)


def in_80_columns(*arguments: str, pager: str, status: int = 0) -> str:
    """What a command writes to a terminal of 80 columns."""
    ended, said = on_terminal(arguments, pager=pager, columns=80)
    assert ended == status
    return said.replace("\r\n", "\n")


def test_a_terminal_of_80_columns(array: Path) -> None:
    text = in_80_columns("log", str(array), pager="cat")
    assert "\x1b[33m" in text, "a pager gets colours"
    plain = re.sub(r"\x1b\[[0-9;]*[mK]", "", text).split("wrote a fragment", 1)[1]
    lines = plain.splitlines()
    assert max(map(len, lines)) <= 80
    names = re.findall(r"__\d+_\d+_\S*", plain)
    assert names
    assert all(re.match(r"__\d+_\d+_[0-9a-f]{8}…", name) for name in names), "none is cut"
    short = in_80_columns("log", str(array), "--oneline", pager="cat")
    assert max(len(re.sub(r"\x1b\[[0-9;]*m", "", line)) for line in short.splitlines()) <= 80


@pytest.mark.parametrize(
    "command",
    [
        "visible --cells",
        "explain",
        "check",
        "usage",
        "fragments",
        "vacuum --dry-run",
        "consolidate --dry-run",
        "clone {copy} --dry-run",
        "diff 2024-05-01 2024-05-14",
        "blame --row id=81",
    ],
)
def test_no_command_breaks_a_name_or_squeezes_a_column_at_80(
    command: str, array: Path, tmp_path: Path
) -> None:
    name, *more = command.format(copy=tmp_path / "copy").split()
    status = 1 if name == "check" else 0
    text = in_80_columns(name, str(array), *more, pager="cat", status=status)
    plain = re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]|.*━.*", "", text)
    lines = [line.rstrip() for line in plain.splitlines()]
    paths = re.escape(str(tmp_path))
    assert max(len(line) for line in lines if not re.search(paths, line)) <= 80
    # Every name is whole, or shortened in its middle.
    assert re.findall(r"__\d{13}_\S*", plain)
    for found in re.findall(r"__\d{13}_\S*", plain):
        assert re.match(r"__\d{13}_\d{13}_[0-9a-f]{8}(…|[0-9a-f]{24})(_22)?", found), found
    # The path of a test may be too long for a line.
    short = [line for line in lines if 0 < len(line.strip()) < 3]
    assert [end for end in short if not str(array).endswith(end.strip())] == [], "no such column"


def test_a_pager_that_ends_early_is_fine(array: Path) -> None:
    assert "wrote" not in in_80_columns("log", str(array), pager="true")
    command = f"{sys.executable} -m chronotile log {array} | head -1"
    done = subprocess.run(
        ["bash", "-o", "pipefail", "-c", command], capture_output=True, timeout=60, check=False
    )
    assert (done.returncode, done.stderr) == (0, b"")


def followed(place: str, *options: str) -> subprocess.Popen[str]:
    arguments = ["log", place, "--oneline", "--no-size", "--follow", "--every", "0.1", "-n", "1"]
    return subprocess.Popen([*PROGRAM, *arguments, *options], stdout=subprocess.PIPE, text=True)


def test_new_commits_are_shown_as_they_come(tmp_path: Path, s3: S3Server, bucket: str) -> None:
    made = tmp_path / "array"
    made.mkdir()
    make_sample(str(made))
    there = open_store(f"{bucket}/array", s3.options)
    for path in sorted(made.rglob("*")):
        if path.is_file():
            there.put_if_absent(str(path.relative_to(made)), path.read_bytes())
    options = [part for pair in s3.options.items() for part in ("--storage", "=".join(pair))]
    for place, storage, more in ((str(made), None, []), (f"{bucket}/array", s3.options, options)):
        running = followed(place, *more)
        stop = threading.Timer(60, running.kill)
        stop.start()
        try:
            assert running.stdout is not None
            assert "vacuum" in running.stdout.readline(), "the newest of the past"
            ct.write_delete(place, "id == 12345", storage_options=storage)
            line = running.stdout.readline()
            assert "delete" in line
            assert "deleted rows where `id == 12345`" in line
        finally:
            stop.cancel()
            running.kill()
            running.communicate()


def test_a_summary_names_the_first_few_files(
    array: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    steps = len(ct.vacuum(array, dry_run=True).steps)
    assert steps > 8
    assert main(["vacuum", str(array), "--dry-run"]) == 0
    few = capsys.readouterr().out
    lines = 1 + 1 + 8 + 1 + 1 + 1
    assert few.count("\n") == lines, "a line, a head, 8 files, how many more, a note, requests"
    assert f"and {steps - 8} more (--verbose lists all)" in few
    assert main(["vacuum", str(array), "--dry-run", "--verbose"]) == 0
    assert "more (--verbose" not in capsys.readouterr().out
