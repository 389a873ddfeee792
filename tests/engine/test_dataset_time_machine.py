"""The time machine over all members of a group, judged by the engine."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
import tiledb
from support.engine_arrays import EngineArray

import chronotile as ct
from chronotile.cli import main
from chronotile.format.names import parse_name

if TYPE_CHECKING:
    import pathlib

NOW = (0, 1 << 60)
MEMBERS = ("obs", "inner/x")


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


def test_a_member_that_cannot_stops_all(
    dataset: tuple[str, list[EngineArray]], capsys: pytest.CaptureFixture[str]
) -> None:
    group, arrays = dataset
    arrays[1].consolidate("fragments")
    arrays[1].vacuum("fragments")
    before = answers(arrays)
    said = run(capsys, "restore", group, "--to", "15", status=1)
    assert said["error"]["found"].startswith("inner/x: ")
    assert answers(arrays) == before
    run(capsys, "restore", group, "--to", "15", "--member", "obs")
    assert answers(arrays) == [((1, 1), (2, 2)), before[1]]


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
    said = run(capsys, "undelete", group, "x", status=1)
    assert said["error"]["found"] == "'x': it fits none"
