"""Records of operations: what they say, what they leave out, and what becomes of old ones."""

from __future__ import annotations

import getpass
import json
import shutil
import socket
from typing import TYPE_CHECKING, Any

import pytest
from support.engine_arrays import EngineArray

import chronotile as ct
from chronotile.array import Array
from chronotile.change.operations import (
    OPERATIONS,
    describe_operations,
    list_operations,
    operation_of,
    read_operation,
    stamp,
)
from chronotile.cli import main
from chronotile.format.timestamps import iso_time
from chronotile.storage.store import open_store

if TYPE_CHECKING:
    from pathlib import Path

DAY_MS = 24 * 3_600_000


@pytest.fixture
def made(tmp_path: Path) -> EngineArray:
    array = EngineArray(tmp_path / "array").create()
    array.write(10, {1: 1, 2: 2})
    return array


def records(array: EngineArray) -> list[Path]:
    return sorted((array.folder / OPERATIONS).iterdir())


def document(path: Path) -> dict[str, Any]:
    found = json.loads(path.read_text())
    assert isinstance(found, dict)
    return found


def aged(path: Path, days: float) -> str:
    """Let a record be that old; give its id."""
    known = operation_of(path.name)
    assert known is not None
    at = known.at_ms - int(days * DAY_MS)
    text = path.read_text().replace(document(path)["time"], str(iso_time(at)))
    path.unlink()
    path.with_name(path.name.replace(stamp(known.at_ms), stamp(at))).write_text(text)
    return known.id


def test_a_record_says_who_what_when_and_why(made: EngineArray) -> None:
    report = Array(open_store(made.uri)).delete("a == 1", message="a bad load")
    (path,) = records(made)
    known = operation_of(path.name)
    assert known is not None
    assert (known.id, known.command, known.state) == (report.operation, "delete", "done")
    said = document(path)
    assert said["author"] == f"{getpass.getuser()}@{socket.gethostname()}"
    assert said["message"] == "a bad load"
    assert said["options"]["where"] == "a == 1"
    assert said["schema"].startswith("__schema/__")
    assert [step["path"] for step in said["steps"]] == list(report.added)
    assert made.uri not in path.read_text(), "a moved array takes its records along"


def test_nobody_is_named_if_the_author_is_empty(made: EngineArray) -> None:
    ct.open(made.uri).delete("a == 1", author="")
    (path,) = records(made)
    assert document(path)["author"] == ""
    for name in (getpass.getuser() + "@", socket.gethostname()):
        assert name not in path.read_text()


def test_no_key_reaches_a_record(tmp_path: Path) -> None:
    key = "0123456789abcdef0123456789abcdef"
    array = EngineArray(tmp_path / "array", key=key).create()
    array.write(10, {1: 1})
    ct.open(array.uri, key=key, storage_options={"aws_secret_access_key": "hidden"}).delete(
        "a == 1"
    )
    (path,) = records(array)
    assert key not in path.read_text()
    assert "hidden" not in path.read_text()


def test_another_array_at_the_same_place_inherits_nothing(made: EngineArray) -> None:
    ct.open(made.uri).delete("a == 1")
    kept = made.folder.with_name("kept")
    shutil.move(made.folder / "__chronotile", kept)
    shutil.rmtree(made.folder)
    other = EngineArray(made.uri).create()
    other.write(10, {1: 1})
    shutil.move(kept, made.folder / "__chronotile")
    assert describe_operations(open_store(made.uri)) == []
    with pytest.raises(ct.ChronotileError, match="found none that stands"):
        ct.undo(made.uri)


def test_without_a_record_there_is_no_way_back(made: EngineArray) -> None:
    assert main(["delete", made.uri, "--where", "a == 1", "--no-record"]) == 0
    assert not (made.folder / "__chronotile").exists()
    with pytest.raises(ct.ChronotileError, match="found none that stands"):
        ct.undo(made.uri)


def test_old_records_are_merged_into_one_file(made: EngineArray) -> None:
    handle = Array(open_store(made.uri))
    for value in (1, 2, 3):
        handle.delete(f"a == {value}")
    before = describe_operations(handle.store)
    old = [aged(path, 91) for path in records(made)[:2]]
    young = next(one["id"] for one in before if one["id"] not in old)
    last = handle.tag("first")
    merged, *others = sorted(records(made), key=lambda path: not path.name.endswith("-merged.json"))
    assert len(document(merged)["records"]) == 2
    assert {path.name.split("-")[1] for path in others} == {young, last.operation}
    told = {one["id"]: one for one in describe_operations(handle.store)}
    assert told.keys() == {*old, young, last.operation}
    for one in before:
        assert told[one["id"]] == one | {"time": told[one["id"]]["time"]}


def test_an_old_operation_can_still_be_undone(made: EngineArray) -> None:
    handle = Array(open_store(made.uri))
    for value in (1, 2):
        handle.delete(f"a == {value}")
    first, second = (aged(path, 91) for path in records(made))
    handle.tag("first")
    handle.undo(first)
    assert made.answer() == ((1, 1),)
    states = {one.id: one.state for one in list_operations(handle.store)}
    assert (states[first], states[second]) == ("undone", "done")
    handle.undo(next(one.id for one in list_operations(handle.store) if one.command == "undo"))
    assert made.answer() == ()
    handle.tag("later")  # merges again what has become loose
    states = {one.id: one.state for one in list_operations(handle.store)}
    assert (states[first], states[second]) == ("done", "done")
    assert all(read_operation(handle.store, one)["id"] for one in list_operations(handle.store))
