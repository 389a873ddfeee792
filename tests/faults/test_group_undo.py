"""Changes of a group that are killed, undone, and brought again: all members, or none."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
import tiledb
from support.crashing import Crasher, crasher
from support.engine_arrays import EngineArray

from chronotile.array import Array
from chronotile.change.operations import list_operations
from chronotile.check.findings import RefusedError
from chronotile.group import Group
from chronotile.storage.store import open_store

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from support.engine_arrays import Answer

NAMES = ("m0", "m1")


@pytest.fixture(scope="module")
def killed() -> Iterator[Crasher]:
    with crasher() as running:
        yield running


def make(folder: Path) -> Path:
    """A group of two arrays, each with two writes."""
    tiledb.Group.create(str(folder))
    with tiledb.Group(str(folder), "w") as group:
        for name in NAMES:
            array = EngineArray(folder / name).create()
            array.write(10, {1: 1})
            array.write(20, {2: 2})
            group.add(name, name=name, relative=True)
    return folder


def opened(folder: Path) -> Group:
    return Group(open_store(str(folder)))


def seen(folder: Path) -> list[Answer]:
    return [EngineArray(folder / name).answer() for name in NAMES]


def states(folder: Path) -> dict[str, str]:
    return {one.id: one.state for one in list_operations(open_store(str(folder)))}


def assert_tidy(folder: Path) -> None:
    codes = {one.code for one in opened(folder).check() if one.severity != "info"}
    assert not codes - {"future-commit"}
    opened(folder).vacuum(dry_run=True)


BEFORE = [((1, 1), (2, 2))] * 2
AFTER = [((1, 1),)] * 2


@pytest.mark.parametrize("then", ["undo", "another change", "the same"])
def test_a_killed_restore_is_done_in_all_members_or_in_none(
    killed: Crasher, tmp_path: Path, then: str
) -> None:
    for step in range(1, 60, 2):
        group = make(tmp_path / f"group{step}")
        died, _ = killed.run('restore_group {"to": 10}', str(group), die_at=step)
        if not died:
            break
        begun = "begun" in states(group).values()
        match then:
            case "undo" if begun:
                report = opened(group).undo()
                assert seen(group) == BEFORE, step
                assert report.notes
            case "another change":
                report = opened(group).tag("next", at=10)
                assert seen(group) in (BEFORE, AFTER), step
                assert any("was broken off" in note for note in report.notes) == begun
            case _:
                opened(group).restore(10)
                assert seen(group) == AFTER, step
        assert "begun" not in states(group).values()
        assert_tidy(group)
    assert step > 10


def test_a_killed_undo_is_finished_in_all_members(killed: Crasher, tmp_path: Path) -> None:
    for step in range(1, 60, 2):
        group = make(tmp_path / f"group{step}")
        opened(group).tag("kept", at=10)
        opened(group).restore(10)
        died, _ = killed.run("undo_group {}", str(group), die_at=step)
        if not died:
            break
        if "undone" not in states(group).values() or "begun" in states(group).values():
            opened(group).undo()
        assert seen(group) == BEFORE, step
        assert opened(group).tags == {"kept": 10}, "no older change is taken back"
        assert "begun" not in states(group).values()
        assert_tidy(group)
    assert step > 10


def test_a_change_of_a_group_comes_and_goes(tmp_path: Path) -> None:
    group = make(tmp_path / "group")
    opened(group).restore(10)
    for _ in range(2):
        opened(group).undo()
        assert seen(group) == BEFORE
        undo = next(one for one in list_operations(open_store(str(group))) if one.command == "undo")
        opened(group).undo(undo.id)
        assert seen(group) == AFTER
    opened(group).undo()
    assert seen(group) == BEFORE
    assert_tidy(group)


def test_an_older_change_of_a_group_stays_below_a_later_one(tmp_path: Path) -> None:
    group = make(tmp_path / "group")
    first = opened(group).restore(10)
    for name in NAMES:
        EngineArray(group / name).write(30, {3: 3})
    Array(open_store(str(group / "m1"))).restore(20)
    before = seen(group)
    with pytest.raises(RefusedError, match="builds on it"):
        opened(group).undo()
    with pytest.raises(RefusedError, match="builds on it"):
        opened(group).undo(first)
    assert seen(group) == before


def test_rows_that_were_merged_and_vacuumed_since_are_not_taken_back(tmp_path: Path) -> None:
    group = make(tmp_path / "group")
    array = EngineArray(group / "m1")
    array.delete(25, "a == 2")
    for _ in range(2):
        array.consolidate("fragments")
        array.vacuum("fragments")
        if not states(group):
            (delete,) = Array(open_store(array.uri)).view().deletes
            opened(group).undelete(delete.name)
    assert seen(group) == BEFORE
    with pytest.raises(RefusedError, match="m1"):
        opened(group).undo()
    assert "undone" not in states(group).values()


def test_a_group_is_not_undone_in_part(tmp_path: Path) -> None:
    """A member outside of its folder is undone too; one that was taken out stops the undo."""
    group = make(tmp_path / "group")
    far = EngineArray(tmp_path / "far").create()
    far.write(10, {1: 1})
    far.write(20, {2: 2})
    with tiledb.Group(str(group), "w") as lists:
        lists.add(far.uri, name="far", relative=False)
    opened(group).restore(10, outside=True)
    assert [*seen(group), far.answer()] == [*AFTER, ((1, 1),)]
    with tiledb.Group(str(group), "w") as lists:
        lists.remove("m1")
    with pytest.raises(RefusedError, match="nothing was changed: m1 is no member any more"):
        opened(group).undo()
    assert [*seen(group), far.answer()] == [*AFTER, ((1, 1),)]
    with tiledb.Group(str(group), "w") as lists:
        lists.add("m1", name="again", relative=True)
    opened(group).undo()
    assert [*seen(group), far.answer()] == [*BEFORE, ((1, 1), (2, 2))]


def test_a_record_of_a_group_names_no_place(tmp_path: Path) -> None:
    group = make(tmp_path / "group")
    opened(group).restore(10)
    (record,) = (group / "__chronotile" / "operations").iterdir()
    assert str(group) not in record.read_text(), "a moved group takes its records along"


def test_a_redo_of_a_group_names_the_one_that_comes_before_it(tmp_path: Path) -> None:
    group = make(tmp_path / "group")
    opened(group).delete("a == 1", member="*")
    opened(group).consolidate()
    merged, deleted = (opened(group).undo().operation for _ in range(2))
    with pytest.raises(RefusedError, match=rf"to redo the delete .* undo {group} {deleted}$"):
        opened(group).undo()
    with pytest.raises(RefusedError, match=rf"cannot redo .*first: .* undo {group} {deleted}$"):
        opened(group).undo(merged)
    for one in (deleted, merged):
        opened(group).undo(one)
    assert set(states(group).values()) == {"done", "undone"}
    assert_tidy(group)
