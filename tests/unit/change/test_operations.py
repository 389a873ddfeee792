"""Records of operations: what they say, what they leave out, and what becomes of old ones."""

from __future__ import annotations

import getpass
import json
import re
import shutil
import socket
import time
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
import tiledb
from support.corpus_cases import ROOT as CORPUS
from support.engine_arrays import EngineArray
from support.terminals import on_terminal
from support.verbs import consolidate_group, vacuum_group

import chronotile as ct
from chronotile.array import Array
from chronotile.change.operations import (
    OPERATIONS,
    QUARANTINE,
    list_operations,
    operation_of,
    read_operation,
    stamp,
    tell_operations,
)
from chronotile.check.findings import RefusedError
from chronotile.cli import main
from chronotile.fleet.find_arrays import find_arrays
from chronotile.format.timestamps import iso_time
from chronotile.rows.engine import NoEngineError
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
    deleted = str(ct.open(made.uri).delete("a == 1").operation)
    kept = made.folder.with_name("kept")
    shutil.move(made.folder / "__chronotile", kept)
    shutil.rmtree(made.folder)
    other = EngineArray(made.uri).create()
    other.write(10, {1: 1})
    shutil.move(kept, made.folder / "__chronotile")
    assert tell_operations(open_store(made.uri)) == []
    with pytest.raises(ct.ChronotileError, match="nothing to undo"):
        ct.undo(made.uri)
    with pytest.raises(ct.ChronotileError, match="no operation here has"):
        ct.open(made.uri).operation(deleted)


def of_delete(array: EngineArray) -> list[str]:
    """Name the deletes among an array's operations, from the list and by their ids."""
    place = ct.open(array.uri)
    listed = [one["id"] for one in tell_operations(place.store) if one["command"] == "delete"]
    assert all(place.operation(id_)["command"] == "delete" for id_ in listed)
    return listed


def test_an_array_keeps_its_records_when_schemas_come_and_go(tmp_path: Path) -> None:
    older = EngineArray(tmp_path / "older").create()
    older.write(10, {1: 1})
    time.sleep(0.01)
    made = EngineArray(tmp_path / "array").create()
    made.write(10, {1: 1, 2: 2})
    first = ct.open(made.uri).delete("a == 1").operation
    publish = ct.publish(older.uri, made.uri, at="now")
    assert of_delete(made) == [first], "the schema of what is published is older"
    second = ct.open(made.uri).delete("a == 2").operation
    ct.undo(made.uri, publish.operation)
    assert of_delete(made) == [second, first], "it is gone again"
    made.evolve(add=tiledb.Attr("b", dtype=np.int32), at=5)
    assert of_delete(made) == [second, first], "an evolution of the past"
    ct.undo(made.uri, first)


def test_an_old_array_keeps_its_records_when_it_is_evolved(tmp_path: Path) -> None:
    shutil.copytree(CORPUS / "old-sparse-v4" / "array", tmp_path / "array")
    array = EngineArray(tmp_path / "array")
    operation = ct.open(array.uri).tag("first").operation
    array.evolve(add=tiledb.Attr("b", dtype=np.int32))
    assert [one["id"] for one in tell_operations(open_store(array.uri))] == [operation]
    ct.undo(array.uri)


def test_a_group_keeps_its_records_when_its_lists_are_merged(tmp_path: Path) -> None:
    group = tmp_path / "group"
    tiledb.Group.create(str(group))
    store = open_store(group)
    before = ct.open(group).tag("empty").operation
    for name in ("a", "b"):
        EngineArray(group / name).create()
        with tiledb.Group(str(group), "w") as opened:
            opened.add(name, name=name, relative=True)
        time.sleep(0.002)
    tagged = ct.open(group).tag("two").operation
    consolidate_group(str(group))
    vacuum_group(str(group))
    assert len(store.list_names("__group").files) == 1
    assert {one["id"] for one in tell_operations(store)} >= {before, tagged}
    (kept,) = (group / "__group").iterdir()
    kept.unlink()
    with tiledb.Group(str(group), "w") as opened:
        opened.add("a", name="a", relative=True)
    left = {one["id"] for one in tell_operations(store)}
    assert tagged not in left, "another group at the same place"


def test_a_clock_that_goes_back_keeps_the_order(made: EngineArray) -> None:
    place = ct.open(made.uri)
    first = place.tag("first").operation
    aged(records(made)[0], -0.01)
    second = place.delete("a == 1").operation
    assert [one["id"] for one in tell_operations(place.store)] == [second, first]
    (path,) = (path for path in records(made) if str(second) in path.name)
    assert document(path)["time"] == tell_operations(place.store)[0]["time"]
    assert place.undo().undoes == second


def test_without_a_record_there_is_no_way_back(made: EngineArray) -> None:
    assert main(["delete", made.uri, "--where", "a == 1", "--no-record"]) == 0
    assert not (made.folder / "__chronotile").exists()
    with pytest.raises(ct.ChronotileError, match="nothing to undo"):
        ct.undo(made.uri)


def test_old_records_are_merged_into_one_file(made: EngineArray) -> None:
    handle = Array(open_store(made.uri))
    for value in (1, 2, 3):
        handle.delete(f"a == {value}")
    before = tell_operations(handle.store)
    old = [aged(path, 91) for path in records(made)[:2]]
    young = next(one["id"] for one in before if one["id"] not in old)
    last = handle.tag("first")
    merged, *others = sorted(records(made), key=lambda path: not path.name.endswith("-merged.json"))
    assert len(document(merged)["records"]) == 2
    assert {path.name.split("-")[1] for path in others} == {young, last.operation}
    told = {one["id"]: one for one in tell_operations(handle.store)}
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


def test_a_vacuum_empties_the_quarantine_of_old_changes(made: EngineArray) -> None:
    handle = Array(open_store(made.uri))
    (made.commits_folder / "notes.wrt").touch()
    old = str(handle.repair().operation)
    (made.commits_folder / "more.wrt").touch()
    young = str(handle.repair().operation)
    quarantine = made.folder / QUARANTINE
    assert {path.name for path in quarantine.iterdir()} == {old, young}
    assert not handle.vacuum(dry_run=True).notes
    (path,) = (path for path in records(made) if old in path.name)
    aged(path, 91)
    planned = handle.vacuum(dry_run=True)
    assert planned.notes == (f"operations that can no longer be undone: {old}",)
    handle.vacuum()
    assert {path.name for path in quarantine.iterdir()} == {young}
    handle.undo(young)
    assert (made.commits_folder / "more.wrt").exists()
    with pytest.raises(ct.ChronotileError, match="a vacuum or an erase removed what it needs"):
        handle.undo(old)


def test_what_removed_files_is_final(made: EngineArray) -> None:
    handle = Array(open_store(made.uri))
    handle.consolidate()
    handle.vacuum()
    states = {one.command: one.state for one in list_operations(handle.store)}
    assert states == {"consolidate": "final", "vacuum": "final"}
    with pytest.raises(RefusedError, match=r"cannot undo the vacuum \w+: it removed files$"):
        handle.undo()


def test_a_vacuum_makes_final_what_it_takes_the_way_back_from(made: EngineArray) -> None:
    handle = Array(open_store(made.uri))
    deleted = handle.delete("a == 1")
    handle.consolidate()
    tagged = handle.tag("kept")
    planned = handle.vacuum(dry_run=True)
    vacuumed = handle.vacuum()
    assert planned.notes == vacuumed.notes
    final = {one.command for one in list_operations(handle.store) if one.state == "final"}
    assert final == {"delete", "consolidate", "vacuum"}
    with pytest.raises(
        RefusedError, match="a vacuum or an erase removed what it needs; to go back"
    ) as error:
        handle.undo(deleted.operation)
    moment = int(str(error.value).rpartition(" ")[2])
    assert f"__commits/__{moment + 1}_" in deleted.steps[0].path
    handle.undo(tagged.operation)
    with pytest.raises(RefusedError, match=r"it removed files$"):
        handle.undo()
    handle.restore(moment)
    assert made.answer() == ((1, 1), (2, 2))


def test_a_compact_that_vacuums_says_that_it_cannot_be_undone(
    made: EngineArray, capsys: pytest.CaptureFixture[str]
) -> None:
    made.write(20, {2: 2})
    assert main(["compact", made.uri, "--quiet", "0s", "--vacuum"]) == 0
    told = capsys.readouterr()
    assert "chronotile undo" not in told.err
    assert "this cannot be undone" in told.out
    states = {one.command: one.state for one in list_operations(open_store(made.uri))}
    assert states == {"compact": "final", "vacuum": "final"}


def test_a_vacuum_of_a_group_makes_its_changes_final(tmp_path: Path) -> None:
    uri = tmp_path / "group"
    tiledb.Group.create(str(uri))
    with tiledb.Group(str(uri), "w") as there:
        for name in ("one", "two"):
            array = EngineArray(uri / name).create()
            array.write(10, {1: 1})
            array.write(20, {2: 2})
            there.add(name, name=name, relative=True)
    group = ct.open(uri)
    tagged = group.tag("kept", at=20)
    group.compact(quiet="0s", vacuum=True)
    states = {one.command: one.state for one in list_operations(group.store)}
    assert states == {"tag": "done", "compact": "final", "vacuum": "final"}
    can = f"to undo the tag before it: chronotile undo {uri} {tagged.operation}$"
    with pytest.raises(RefusedError, match=can):
        group.undo()


def test_below_a_final_change_undo_names_the_one_that_it_can_take_back(made: EngineArray) -> None:
    handle = Array(open_store(made.uri))
    handle.consolidate()
    handle.delete("a == 1")
    handle.vacuum()
    delete = next(one for one in list_operations(handle.store) if one.command == "delete")
    with pytest.raises(RefusedError, match=f"to undo the delete before it: .*{delete.id}$"):
        handle.undo()
    handle.undo(delete.id)


def test_the_command_lists_an_array_a_group_or_a_folder(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    group = tmp_path / "root" / "group"
    tiledb.Group.create(str(group))
    with tiledb.Group(str(group), "w") as opened:
        for name in ("one", "two"):
            EngineArray(group / name).create().write(10, {1: 1})
            opened.add(name, name=name, relative=True)
    alone = EngineArray(tmp_path / "root" / "alone").create()
    alone.write(10, {1: 1})
    Array(open_store(alone.uri)).tag("first", message="why not")
    ct.open(group).tag("second")

    def listed(place: object, *more: str) -> Any:
        assert main(["operations", str(place), *more, "--json"]) == 0
        return json.loads(capsys.readouterr().out)

    root = tmp_path / "root"
    assert [(one["array"], one["command"]) for one in listed(root)] == [
        (str(group), "tag"),
        (alone.uri, "tag"),
    ]
    (of_group,) = listed(group)
    assert [one["group"] for one in listed(group / "one")] == [of_group["id"]]
    (of_array,) = listed(alone.uri)
    assert listed(alone.uri, of_array["id"][:4])["message"] == "why not"
    monkeypatch.chdir(root)
    assert listed("show", of_array["id"])["message"] == "why not"
    assert listed(root, of_group["id"])["command"] == "tag"
    assert main(["operations", "show", "ffffffff"]) == 2
    assert "0 arrays have an operation whose id starts with 'ffffffff'" in capsys.readouterr().err
    assert main(["operations", str(root)]) == 0
    out = capsys.readouterr().out
    assert re.search(r"alone: set the tag 'first'; \"why not\"", out)
    (row,) = ct.open(alone.uri).operations().to_pylist()
    assert (row["id"], row["state"]) == (of_array["id"], "done")


def test_a_moved_array_takes_its_way_back_along(made: EngineArray, tmp_path: Path) -> None:
    before = made.answer()
    Array(open_store(made.uri)).delete("a == 1")
    moved = EngineArray(made.folder.rename(tmp_path / "moved"))
    handle = Array(open_store(moved.uri))
    planned = handle.undo(dry_run=True)
    assert moved.answer() != before
    assert [step.to_dict() for step in handle.undo().steps] == [
        step.to_dict() for step in planned.steps
    ]
    assert moved.answer() == before


def test_a_search_passes_over_what_is_kept(made: EngineArray, tmp_path: Path) -> None:
    """A quarantine can hold a whole array, such as that of a member that was taken out."""
    Array(open_store(made.uri)).tag("first")
    shutil.copytree(made.folder, tmp_path / "copy")
    shutil.move(tmp_path / "copy", made.folder / QUARANTINE / "0123abcd" / "array")
    assert find_arrays(tmp_path).uris == (made.uri,)


def test_without_the_engine_a_delete_says_how_many_rows_at_most(
    made: EngineArray, monkeypatch: pytest.MonkeyPatch
) -> None:
    made.write(20, {3: 3})
    assert Array(open_store(made.uri)).delete("a >= 2", dry_run=True).rows == {"deleted": 2}

    def missing() -> None:
        raise NoEngineError("tiledb", "expected the engine, found none")

    monkeypatch.setattr("chronotile.rows.counted.require_engine", missing)
    planned = Array(open_store(made.uri)).delete("a >= 2", dry_run=True)
    assert planned.rows == {}
    assert "up to 3 rows, in 2 fragments" in planned.notes


def test_a_terminal_is_asked_about_a_predicate_that_matches_nothing(made: EngineArray) -> None:
    call = ("delete", made.uri, "--where", "a == 77")
    for answer, status, deletes in (("n", 1, 0), ("y", 0, 1)):
        ended, shown = on_terminal(call, answer=answer)
        assert ended == status
        assert "No row matches. Go on all the same?" in shown
        assert len(ct.open_log(made.uri).view().deletes) == deletes


def test_ids_of_new_files_differ_in_their_first_digits(made: EngineArray) -> None:
    handle = Array(open_store(made.uri))
    for number in range(12):
        handle.tag(f"t{number}")
        made.write(20 + number, {3: number})
        handle.consolidate()
    names = [*made.files("__commits", "*.con"), *made.files("__meta", "*[0-9a-f]")]
    ids = {name.split("_")[4][:6] for name in names}
    assert len(ids) == len(names) > 12
