"""JSON and TOML that somebody hands in, and that is anything: one error of ours."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
from support.engine_arrays import EngineArray
from support.groups import member, put_list

import chronotile as ct
from chronotile.cli import main
from chronotile.errors import ChronotileError
from chronotile.fleet.inventory import read_manifest
from chronotile.fleet.policy import read_policy

if TYPE_CHECKING:
    from pathlib import Path

DEEP = b"[" * 100_000 + b"]" * 100_000
NO_OBJECTS = (b"", b"[]", b"[[]]", b"null", b"7", b'"x"', b"{", b"\xff\xfe", b"\0", DEEP)
STEP = {"op": "put", "path": "__commits/x.wrt"}
NO_REPORTS: tuple[dict[str, Any], ...] = (
    {},
    {"members": None},
    {"members": 5},
    {"members": [5]},
    {"members": [{"steps": 5}]},
    {"members": {"steps": []}},
    {"steps": None},
    {"steps": {}},
    {"steps": [5]},
    {"steps": [[]]},
    {"steps": [{}]},
    {"steps": [{"path": 5}]},
    {"steps": [STEP], "added": 5},
    {"steps": [STEP], "added": [5]},
    {"steps": [STEP], "hidden": {"a": 1}},
    {"steps": [STEP], "array": 5},
    {"steps": [{"op": ["put"], "path": "x"}], "state": "begun"},
)


@pytest.fixture
def array(tmp_path: Path) -> EngineArray:
    array = EngineArray(tmp_path / "array").create()
    array.write(10, {1: 1})
    return array


def refused(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    assert main(list(arguments)) in (1, 3)
    said = "".join(capsys.readouterr())
    assert "a fault of chronotile" not in said
    return said


def documents() -> list[bytes]:
    whole = [one | {"array": "ARRAY", "command": "x"} for one in NO_REPORTS if "array" not in one]
    return [*NO_OBJECTS, *(json.dumps(one).encode() for one in (*NO_REPORTS, *whole))]


def test_a_report_that_is_none(
    tmp_path: Path, array: EngineArray, capsys: pytest.CaptureFixture[str]
) -> None:
    """Of an array and of a group."""
    put_list(tmp_path / "group", 1, member("a"))
    for place in (array.uri, str(tmp_path / "group")):
        reports = tmp_path / f"{place}.reports"
        reports.mkdir()
        report = reports / "20240101T000000.000Z-x.json"
        for data in documents():
            report.write_bytes(data.replace(b"ARRAY", place.encode()))
            for more in ((str(report),), (str(report), "--dry-run")):
                refused(capsys, "undo", place, *more)
        report.write_bytes(DEEP)
        (line,) = refused(capsys, "undo", place, str(report)).splitlines()
        assert f"{report}: expected the report of a change, found values nested too deeply" in line
    for one in NO_REPORTS:
        with pytest.raises(ChronotileError):
            ct.undo(array.uri, one)


def test_a_manifest_of_a_quarantine_that_is_none(
    tmp_path: Path, array: EngineArray, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "array.quarantine" / "20240101T000000.000Z"
    folder.mkdir(parents=True)
    some: tuple[dict[str, Any], ...] = (
        {"moved": 5, "put": []},
        {"moved": [5], "put": []},
        {"moved": [[]], "put": [{}]},
        {},
    )
    for data in (*NO_OBJECTS, *(json.dumps(one).encode() for one in some)):
        (folder / "manifest.json").write_bytes(data)
        assert "manifest" in refused(capsys, "repair", array.uri, "--restore", folder.name)


@pytest.mark.parametrize("read", [read_manifest, read_policy])
def test_other_files_that_are_none(tmp_path: Path, read: object) -> None:
    assert callable(read)
    endless: dict[str, Any] = {
        "sourceBucket": "b",
        "destinationBucket": "b",
        "fileFormat": "csv",
        "fileSchema": "",
    }
    endless |= {"creationTimestamp": "1", "files": [{"key": "x", "size": 1e999}]}
    toml = b"a = " + DEEP
    for data in (*NO_OBJECTS[1:], toml, json.dumps(endless).encode()):
        (tmp_path / "file").write_bytes(data)
        with pytest.raises(ChronotileError, match="expected"):
            read(str(tmp_path / "file"))
