"""The time machine over all members of a group, judged by the engine."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
import tiledb
from support.engine_arrays import EngineArray
from support.verbs import publish_dataset

import chronotile as ct
from chronotile.change import executor
from chronotile.check.findings import RefusedError
from chronotile.cli import main
from chronotile.dataset import publish_members
from chronotile.format.names import parse_name
from chronotile.format.timestamps import now_ms
from chronotile.group import Group
from chronotile.storage.store import open_store, put_compared

if TYPE_CHECKING:
    import pathlib

NOW = (0, 1 << 60)
MEMBERS = ("obs", "inner/x")
LEAD_MS = 10_000
"""How far ahead a moment lies: opens after each step come before it on a busy machine too."""


def make_group(folder: pathlib.Path) -> list[EngineArray]:
    """A group with an array, and with a group that has another."""
    for place in (folder, folder / "inner"):
        tiledb.Group.create(str(place))
    arrays = [EngineArray(folder / name).create() for name in MEMBERS]
    for place, member in ((folder, "obs"), (folder, "inner"), (folder / "inner", "x")):
        with tiledb.Group(str(place), "w") as group:
            group.add(member, name=member, relative=True)
    return arrays


@pytest.fixture
def dataset(tmp_path: pathlib.Path) -> tuple[str, list[EngineArray]]:
    arrays = make_group(tmp_path / "group")
    for array in arrays:
        array.write(10, {1: 1, 2: 2})
        array.delete(20, "a == 1")
        array.write(30, {3: 3})
    return str(tmp_path / "group"), arrays


def run(capsys: pytest.CaptureFixture[str], *arguments: str, status: int = 0) -> Any:
    found = main([*arguments, "--json"])
    said = capsys.readouterr()
    assert found == status, said
    return json.loads(said.out) if said.out else json.loads(said.err.splitlines()[-1])


def answers(arrays: list[EngineArray]) -> list[Any]:
    return [array.answer(*NOW) for array in arrays]


def test_restore_and_undo(
    dataset: tuple[str, list[EngineArray]], capsys: pytest.CaptureFixture[str]
) -> None:
    group, arrays = dataset
    before = answers(arrays)
    report = run(capsys, "restore", group, "--to", "15")
    assert [one["member"] for one in report["members"]] == ["inner/x", "obs"]
    assert answers(arrays) == [((1, 1), (2, 2))] * 2
    assert [one["steps"] != [] for one in run(capsys, "undo", group)["members"]] == [True, True]
    assert answers(arrays) == before
    run(capsys, "undo", group, status=1)
    assert answers(arrays) == before


def test_all_of_it_in_python(
    dataset: tuple[str, list[EngineArray]], tmp_path: pathlib.Path
) -> None:
    group, arrays = dataset
    before, then = answers(arrays), [((1, 1), (2, 2))] * 2
    ct.open_dataset(group).add_tag("v1", at=15)
    copy = str(tmp_path / "clone")
    ct.open_dataset(group).clone(copy)
    assert ct.open_dataset(copy).tags == {"v1": 15}
    assert ct.open_dataset(group).restore("v1", dry_run=True).has_steps
    assert answers(arrays) == before
    report = ct.open_dataset(group).restore("v1")
    assert answers(arrays) == then
    ct.open_dataset(group).undo(report)
    assert answers(arrays) == before
    (delete,) = ct.open_log(arrays[0].uri).view().deletes
    report = ct.open_dataset(group).undelete(delete.name)
    assert answers(arrays) == [((1, 1), (2, 2), (3, 3)), before[1]]
    ct.open_dataset(group).undo(report)
    assert answers(arrays) == before
    for stage in make_group(tmp_path / "stage"):
        stage.write(50, {5: 5})
    report = ct.open_dataset(group).publish(str(tmp_path / "stage"))
    assert answers(arrays) == [(*rows, (5, 5)) for rows in before]
    ct.open_dataset(group).undo(report)
    ct.open_dataset(group).remove_tag("v1")
    assert answers(arrays) == before
    with pytest.raises(RefusedError, match="the group has no tag 'v1'"):
        ct.open_dataset(group).remove_tag("v1")
    arrays[1].consolidate("fragments")
    arrays[1].vacuum("fragments")
    with pytest.raises(
        RefusedError, match=r"the member inner/x cannot be changed: .*nothing was changed"
    ):
        ct.open(group).restore(15, commits_only=True)
    assert answers(arrays) == before


def test_a_restore_at_a_moment_to_come_shows_in_all_members_at_once(
    dataset: tuple[str, list[EngineArray]],
) -> None:
    group, arrays = dataset
    before, seen = answers(arrays), list[Any]()

    def look(operation: str, path: str) -> None:
        if operation.partition(".")[0] in ("put", "copy") and "__chronotile" not in path:
            seen.append([array.answer(0, now_ms()) for array in arrays])

    opened, moment = open_store(group, on_operation=look), now_ms() + LEAD_MS
    Group(opened).restore(15, at=moment)
    assert len(seen) > 10
    assert all(found == before for found in seen)
    assert [array.answer(0, moment - 1) for array in arrays] == before
    assert [array.answer(0, moment + 100) for array in arrays] == [((1, 1), (2, 2))] * 2


def test_a_member_that_cannot_stops_all(
    dataset: tuple[str, list[EngineArray]], capsys: pytest.CaptureFixture[str]
) -> None:
    group, arrays = dataset
    arrays[1].consolidate("fragments")
    arrays[1].vacuum("fragments")
    before = answers(arrays)
    said = run(capsys, "restore", group, "--to", "15", "--commits-only", status=1)
    words = said["error"]["found"]
    assert words.startswith("the member inner/x cannot be changed: ")
    assert (words.count("nothing was changed"), words.count("--member PATTERN")) == (1, 1)
    assert answers(arrays) == before
    run(capsys, "restore", group, "--to", "15", "--member", "obs")
    assert answers(arrays) == [((1, 1), (2, 2)), before[1]]
    run(capsys, "undo", group)
    run(capsys, "restore", group, "--to", "15")
    assert answers(arrays) == [((1, 1), (2, 2))] * 2, "with rows written again"


def test_clone(
    dataset: tuple[str, list[EngineArray]],
    tmp_path: pathlib.Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    group, arrays = dataset
    with tiledb.Group(group, "w") as opened:
        opened.meta["kept"] = 7
    run(capsys, "clone", group, str(tmp_path / "clone"))
    copies = [EngineArray(tmp_path / "clone" / name) for name in MEMBERS]
    assert answers(copies) == answers(arrays)
    with tiledb.Group(str(tmp_path / "clone")) as opened:
        assert sorted(member.name for member in opened) == ["inner", "obs"]
        assert all(member.uri.startswith(f"file://{tmp_path}/clone/") for member in opened)
        assert opened.meta["kept"] == 7
    copies[0].delete(40, "a == 3")
    assert answers(copies) != answers(arrays)
    # What if the delete of one member had not happened; and what came after a tag alone.
    (delete,) = ct.open_log(arrays[1].uri).view().deletes
    run(capsys, "clone", group, str(tmp_path / "if"), "--without", delete.name)
    copies = [EngineArray(tmp_path / "if" / name) for name in MEMBERS]
    assert answers(copies) == [answers(arrays)[0], ((1, 1), (2, 2), (3, 3))]
    (told,) = (one for one in ct.open(tmp_path / "if").operations().to_pylist())
    assert (told["command"], told["state"]) == ("clone", "final")
    assert json.loads(told["options"])["without"] == [delete.name]
    said = run(capsys, "clone", group, str(tmp_path / "if"), status=1)
    assert "choose another place" in said["error"]["found"]
    assert answers(copies) == [answers(arrays)[0], ((1, 1), (2, 2), (3, 3))]
    said = run(capsys, "clone", group, str(tmp_path / "no"), "--without", "x", status=2)
    assert said["error"]["found"] == "'x' fits no commit"
    run(capsys, "tag", "add", group, "v1", "--at", "25")
    run(capsys, "tag", "add", arrays[0].uri, "v1", "--at", "5")
    run(capsys, "clone", group, str(tmp_path / "since"), "--start", "v1")
    copies = [EngineArray(tmp_path / "since" / name) for name in MEMBERS]
    assert answers(copies) == [((3, 3),)] * 2


def test_publish(
    dataset: tuple[str, list[EngineArray]],
    tmp_path: pathlib.Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    group, arrays = dataset
    before = answers(arrays)
    stages = make_group(tmp_path / "stage")
    for stage in stages:
        stage.write(50, {5: 5})
    run(capsys, "publish", str(tmp_path / "stage"), group)
    assert answers(arrays) == [(*rows, (5, 5)) for rows in before]
    run(capsys, "undo", group)
    assert answers(arrays) == before


def test_what_publish_refuses_changes_nothing(
    dataset: tuple[str, list[EngineArray]],
    tmp_path: pathlib.Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    group, arrays = dataset
    before = answers(arrays)
    stages = make_group(tmp_path / "stage")
    for at in (50, 60):
        stages[0].write(at, {5: at})
    stages[0].consolidate("fragments")
    stages[0].vacuum("fragments")
    stages[1].write(50, {5: 5})
    stage = str(tmp_path / "stage")
    said = run(capsys, "publish", stage, group, status=1)
    assert "its cells keep their own" in str(said)
    assert "--own-times" in str(said)
    assert answers(arrays) == before
    run(capsys, "publish", stage, group, "--own-times", "--at", "70", status=2)
    # Copies that take longer than there is time are not committed.
    monkeypatch.setattr(publish_members, "_PACES", {"quick": publish_members._Pace(0, 0, 0, 10)})
    said = run(capsys, "publish", stage, group, "--member", "inner/*", status=1)
    assert "nothing is visible" in str(said)
    assert answers(arrays) == before
    run(capsys, "publish", stage, group, "--own-times")
    assert answers(arrays) == [(*before[0], (60, 5)), (*before[1], (5, 5))]
    EngineArray(tmp_path / "stage" / "y").create()
    with tiledb.Group(stage, "w") as opened:
        opened.add("y", name="y", relative=True)
    said = run(capsys, "publish", stage, group, "--own-times", "--member", "y", status=1)
    assert said["error"]["found"].startswith(f"{stage}/y is staged for 'y': ")


def test_all_that_is_published_shows_at_one_moment(
    dataset: tuple[str, list[EngineArray]], tmp_path: pathlib.Path
) -> None:
    group, arrays = dataset
    before = answers(arrays)
    for number, stage in enumerate(make_group(tmp_path / "stage"), 1):
        for at in range(number):
            stage.write(50 + at, {5 + at: 5})
    seen: list[Any] = []

    def look(operation: str, path: str) -> None:
        if operation.partition(".")[0] in ("put", "copy") and "__chronotile" not in path:
            seen.append([array.answer(0, now_ms()) for array in arrays])

    opened = open_store(group, on_operation=look)
    moment = now_ms() + LEAD_MS
    report = publish_dataset(Group(opened), str(tmp_path / "stage"), at=moment)
    assert len(seen) >= 30
    assert all(found == before for found in seen)
    assert f"whole from {moment + 1} on: 2 fragments take a millisecond each" in report.notes[0]
    new = [(*before[0], (5, 5)), (*before[1], (5, 5), (5, 6))]
    assert [array.answer(0, moment + 1) for array in arrays] == new
    assert [array.answer(0, moment - 1) for array in arrays] == before
    report = publish_dataset(ct.open_dataset(group), str(tmp_path / "stage"))
    assert not report.has_steps, "it is there already"
    assert report.notes == ()


def test_undelete_finds_the_member(
    dataset: tuple[str, list[EngineArray]], capsys: pytest.CaptureFixture[str]
) -> None:
    group, arrays = dataset
    before = answers(arrays)
    (delete,) = ct.open_log(arrays[1].uri).view().deletes
    report = run(capsys, "undelete", group, delete.name)
    assert [one["member"] for one in report["members"]] == ["inner/x"]
    assert answers(arrays) == [before[0], ((1, 1), (2, 2), (3, 3))]
    run(capsys, "undo", group)
    assert answers(arrays) == before
    run(capsys, "undelete", group, parse_name(delete.name).uuid[:12], "--ever")
    assert answers(arrays) == [before[0], ((1, 1), (2, 2), (3, 3))]
    said = run(capsys, "undelete", group, "x", status=2)
    assert said["error"]["found"] == "'x' fits no commit"


def test_a_change_that_was_broken_off(
    dataset: tuple[str, list[EngineArray]],
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """It is taken back by the record of each member; in one process, as in a notebook."""
    group, arrays = dataset
    before, total = answers(arrays), [0]

    def stop(store: Any, path: str, data: bytes) -> None:
        total[0] -= 1
        if total[0] < 0:
            raise KeyboardInterrupt
        put_compared(store, path, data)

    monkeypatch.setattr(executor, "put_compared", stop)
    total[0] = 2
    assert main(["tag", "add", group, "v1", "--at", "20"]) != 0
    capsys.readouterr()
    total[0] = 1 << 30
    assert ct.open_log(arrays[1].uri).known_tags.of_groups == (("v1", 20),)
    assert "taken back" in str(run(capsys, "undo", group)["notes"])
    assert ct.open_log(arrays[1].uri).known_tags.of_groups == ()
    total[0] = 4
    assert main(["restore", group, "--to", "15"]) != 0
    capsys.readouterr()
    assert answers(arrays) not in (before, [((1, 1), (2, 2))] * 2)
    total[0] = 1 << 30
    assert "taken back" in str(run(capsys, "undo", group)["notes"])
    assert answers(arrays) == before
    # Killed before it put anything, there is nothing to undo, and then the change before it.
    run(capsys, "restore", group, "--to", "15")
    total[0] = 0
    assert main(["restore", group, "--to", "5"]) != 0
    capsys.readouterr()
    total[0] = 1 << 30
    run(capsys, "undo", group)
    assert answers(arrays) == [((1, 1), (2, 2))] * 2
    run(capsys, "undo", group)
    assert answers(arrays) == before
