"""Faults that undo had, each held by a test; the engine reads what is there afterwards."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import numpy as np
import pytest
import tiledb
from support.array_places import OnDisk, read_all
from support.crashing import Crasher, crasher
from support.engine_arrays import EngineArray

from chronotile.array import Array
from chronotile.change import settle
from chronotile.change.operations import list_operations, unfinished_copies
from chronotile.change.undo import read_record
from chronotile.check.findings import RefusedError
from chronotile.errors import ChronotileError
from chronotile.format.timestamps import now_ms
from chronotile.storage.store import open_store

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from support.engine_arrays import Answer, Window

    from chronotile.change.operations import Operation
    from chronotile.change.undo import ChangeRecord
    from chronotile.storage.store import Store

WINDOWS: tuple[Window, ...] = ((0, 10), (0, 20), (15, 30), (0, 1 << 60))
REAL = 1_700_000_000_000
"""The engine consolidates commits only if all times have as many digits (F3)."""


@pytest.fixture(scope="module")
def killed() -> Iterator[Crasher]:
    with crasher() as running:
        yield running


@pytest.fixture
def made(tmp_path: Path) -> EngineArray:
    array = EngineArray(tmp_path / "array").create()
    array.write(10, {1: 1, 2: 2, 3: 3})
    array.write(20, {2: 20, 4: 40})
    return array


def seen(array: EngineArray) -> dict[Window, Answer]:
    return {window: array.answer(*window, metadata=True) for window in WINDOWS}


def opened(array: EngineArray) -> Array:
    return Array(open_store(array.uri))


def states(array: EngineArray) -> dict[str, str]:
    return {one.id: one.state for one in list_operations(open_store(array.uri))}


def assert_tidy(array: EngineArray) -> None:
    codes = {one.code for one in opened(array).check() if one.severity != "info"}
    assert not codes - {"future-commit"}
    opened(array).vacuum(dry_run=True)


def key(array: EngineArray, value: int) -> None:
    time.sleep(0.002)  # of two values of one millisecond nobody knows which one counts
    with tiledb.open(array.uri, "w", ctx=array.ctx) as there:
        there.meta["k"] = value


def add_b(array: EngineArray) -> None:
    time.sleep(0.002)
    evolution = tiledb.ArraySchemaEvolution(array.ctx)
    evolution.add_attribute(tiledb.Attr("b", dtype=np.int32))
    evolution.array_evolve(array.uri)


def has_b(array: EngineArray, at: int) -> bool:
    with tiledb.open(array.uri, timestamp=at, ctx=array.ctx) as there:
        return bool(there.schema.has_attr("b"))


def test_a_killed_undo_that_is_run_again_takes_nothing_older_back(
    killed: Crasher, tmp_path: Path
) -> None:
    for at in range(1, 20):
        array = EngineArray(tmp_path / str(at)).create()
        array.write(10, {1: 1, 2: 2, 3: 3})
        first = opened(array).delete("a == 1")
        older = seen(array)
        second = opened(array).delete("a == 2")
        died, _ = killed.run("undo {}", array.uri, die_at=at)
        if not died:
            assert at > 6
            return
        if any(state == "begun" for state in states(array).values()):
            planned = opened(array).undo(dry_run=True)
            assert any("was broken off" in note for note in planned.notes)
        if states(array)[second.operation or ""] != "undone" or "begun" in states(array).values():
            opened(array).undo()
        assert states(array)[first.operation or ""] == "done", f"killed at {at}"
        assert states(array)[second.operation or ""] == "undone", f"killed at {at}"
        assert seen(array) == older, f"killed at {at}"
    raise AssertionError("it never ended")


@pytest.mark.parametrize("reading", [1, 2])
def test_two_may_settle_a_killed_change(
    killed: Crasher, made: EngineArray, monkeypatch: pytest.MonkeyPatch, reading: int
) -> None:
    """The other one is done between two reads of the record; both go on with their own change."""
    before, store = seen(made), open_store(made.uri)
    assert killed.run('restore {"to": 10}', made.uri, die_at=3)[0]
    assert "begun" in states(made).values()
    readings = 0

    def read(store: Store, operation: Operation) -> ChangeRecord:
        nonlocal readings
        readings += 1
        if readings == reading:
            assert settle.settle(store, None, exclusive=True)
        return read_record(store, operation)

    monkeypatch.setattr(settle, "read_record", read)
    assert settle.settle(store, None, exclusive=True) == ()
    assert set(states(made).values()) == {"failed"}
    assert seen(made) == before


def test_a_killed_change_that_is_undone_takes_nothing_older_back(
    killed: Crasher, tmp_path: Path
) -> None:
    for at in range(1, 40):
        array = EngineArray(tmp_path / str(at)).create()
        array.write(10, {1: 1, 2: 2, 3: 3})
        first = opened(array).delete("a == 1")
        before = seen(array)
        died, _ = killed.run('restore {"to": 10}', array.uri, die_at=at)
        if len(states(array)) > 1:
            opened(array).undo()
            assert seen(array) == before, f"killed at {at}"
            assert_tidy(array)
        assert states(array)[first.operation or ""] == "done", f"killed at {at}"
        if not died:
            assert at > 10
            return
    raise AssertionError("it never ended")


@pytest.mark.parametrize("vacuumed", [False, True])
def test_apply_is_not_undone_below_a_consolidation(made: EngineArray, vacuumed: bool) -> None:
    handle = opened(made)
    handle.update("a == 3", ["a=7"], experimental=True)
    handle.apply()
    made.consolidate("fragments")
    if vacuumed:
        made.vacuum("fragments")
    before = seen(made)
    with pytest.raises(RefusedError, match=r"it added.*chronotile restore"):
        handle.undo()
    assert seen(made) == before


def test_an_update_that_a_fragment_has_applied_is_final(made: EngineArray) -> None:
    handle = opened(made)
    handle.update("a == 3", ["a=7"], experimental=True)
    made.consolidate("fragments")
    made.vacuum("fragments")
    before = seen(made)
    with pytest.raises(RefusedError, match="has applied"):
        handle.undo()
    assert seen(made) == before


def test_an_older_restore_below_a_later_one_stays(made: EngineArray) -> None:
    handle = opened(made)
    first = handle.restore(10)
    second = handle.restore(20)
    before = seen(made)
    with pytest.raises(RefusedError, match=f"restore {second.operation} builds on it"):
        handle.undo(first)
    assert seen(made) == before
    handle.undo(second)
    handle.undo(first)
    assert_tidy(made)


@pytest.mark.parametrize("ours", [False, True])
def test_a_restore_is_not_undone_once_its_metadata_is_merged(made: EngineArray, ours: bool) -> None:
    key(made, 1)
    handle = opened(made)
    later = seen(made)
    report = handle.restore(20)
    key(made, 2)
    before = seen(made)
    if ours:
        merged = handle.consolidate("array-meta")
        with pytest.raises(RefusedError, match=f"consolidate {merged.operation} builds on"):
            handle.undo(report)
        handle.undo(merged)
        assert seen(made) == before
        handle.undo(report)
        assert seen(made) != later, "the key that was written since stays"
        assert seen(made)[WINDOWS[-1]][-1] == (("k", 2),)
        return
    made.consolidate("array_meta")
    before = seen(made)
    with pytest.raises(RefusedError, match=r"its metadata was merged into .*restore"):
        handle.undo()
    assert seen(made) == before


def test_a_delete_that_a_later_consolidation_holds_names_it(tmp_path: Path) -> None:
    array = EngineArray(tmp_path / "array").create()
    array.write(REAL, {1: 1, 2: 2})
    handle = opened(array)
    before = array.answer()
    delete = handle.delete("a == 1")
    merged = handle.consolidate()
    with pytest.raises(RefusedError, match=f"consolidate {merged.operation} builds on it"):
        handle.undo(delete)
    handle.undo()
    handle.undo()
    assert array.answer() == before


@pytest.mark.parametrize("dense", [False, True])
def test_nothing_is_left_of_what_was_undone(tmp_path: Path, dense: bool) -> None:
    array = EngineArray(tmp_path / "array").create(sparse=not dense)
    array.write(10, {1: 1, 2: 2, 3: 3})
    array.write(20, {2: 20, 3: 30})
    array.write(30, {3: 31})
    array.consolidate("fragments")
    handle = opened(array)
    before, fragments = seen(array), array.files("__fragments")
    commits = array.files("__commits")
    handle.restore(20)
    handle.restore(10)
    handle.undo()
    assert_tidy(array)
    handle.undo()
    assert_tidy(array)
    assert (seen(array), array.files("__fragments")) == (before, fragments)
    assert array.files("__commits") == commits


def test_writes_with_the_schema_of_a_publication_do_not_hold_its_undo(
    made: EngineArray, tmp_path: Path
) -> None:
    staging = EngineArray(tmp_path / "staging").create()
    staging.write(25, {9: 9})
    handle = opened(made)
    handle.publish(staging.uri)
    made.write(30, {5: 5})
    handle.undo()
    assert made.answer() == ((1, 1), (20, 2), (3, 3), (40, 4), (5, 5))
    assert_tidy(made)


def test_a_killed_undo_below_later_writes_brings_the_schema_of_before_back(
    killed: Crasher, tmp_path: Path
) -> None:
    """Files of the restored schema stay: a write uses the one that a publication brought."""
    attrs = [tiledb.Attr(name, dtype=np.int32) for name in ("a", "b")]
    array = EngineArray(tmp_path / "array").create(attrs=attrs)
    then = now_ms()
    array.write_raw(then, x=[1], a=[1], b=[1])
    time.sleep(0.002)
    array.evolve(drop="b")
    restored = opened(array).restore(then).operation or ""
    staging = EngineArray(tmp_path / "staging").create(attrs=attrs)
    staging.write_raw(now_ms(), x=[2], a=[2], b=[2])
    opened(array).publish(staging.uri)
    array.write_raw(now_ms(), x=[3], a=[3], b=[3])
    opened(array).undo()
    files = read_all(array.folder)
    assert array.answer() == ((1, 1, 1), (3, 3, 3))
    for at in range(1, 40):
        place = OnDisk(tmp_path / str(at))
        place.reset(files)
        there = place.array
        died, _ = killed.run("undo {}", there.uri, die_at=at)
        if states(there)[restored] != "undone" or "begun" in states(there).values():
            opened(there).undo()
        assert there.answer() == ((1, 1), (3, 3)), f"killed at {at}"
        if not died:
            assert at > 4
            return
    raise AssertionError("it never ended")


def test_a_killed_undo_hides_each_schema_that_later_writes_use(
    killed: Crasher, tmp_path: Path
) -> None:
    """Once the first of two schemas was hidden, the next run passed the second over."""
    attrs = [tiledb.Attr(name, dtype=np.int32) for name in ("a", "b")]
    array = EngineArray(tmp_path / "array").create(attrs=attrs)
    then = now_ms()
    array.write_raw(then, x=[1], a=[1], b=[1])
    time.sleep(0.002)
    array.evolve(drop="b")
    restored = opened(array).restore(then).operation or ""
    array.write_raw(now_ms(), x=[2], a=[2], b=[2])
    staging = EngineArray(tmp_path / "staging").create(attrs=attrs)
    staging.write_raw(now_ms(), x=[3], a=[3], b=[3])
    opened(array).publish(staging.uri)
    time.sleep(0.002)
    array.write_raw(now_ms(), x=[4], a=[4], b=[4])
    opened(array).undo()
    files = read_all(array.folder)
    assert array.answer() == ((1, 1, 1), (2, 2, 2), (4, 4, 4))
    for at in range(1, 40):
        place = OnDisk(tmp_path / str(at))
        place.reset(files)
        there = place.array
        died, _ = killed.run("undo {}", there.uri, die_at=at)
        if states(there)[restored] != "undone" or "begun" in states(there).values():
            opened(there).undo()
        assert there.answer() == ((1, 1), (2, 2), (4, 4)), f"killed at {at}"
        if not died:
            assert at > 4
            return
    raise AssertionError("it never ended")


@pytest.mark.parametrize("dense", [False, True])
def test_an_evolution_counts_that_says_the_same_as_a_restore_that_is_undone(
    tmp_path: Path, dense: bool
) -> None:
    """A later restore, undone first, lay between: the evolution was taken for a part of a write."""
    array = EngineArray(tmp_path / "array").create(sparse=not dense)
    array.write(now_ms(), {1: 1})
    add_b(array)
    with_b = now_ms()
    time.sleep(0.002)
    array.evolve(drop="b")
    without_b = now_ms()
    opened(array).restore(with_b)
    restored = now_ms()
    opened(array).restore(without_b)
    add_b(array)
    assert [has_b(array, at) for at in (without_b, restored, now_ms())] == [False, True, True]
    opened(array).undo()
    assert [has_b(array, at) for at in (without_b, restored, now_ms())] == [False, True, True]
    undo = opened(array).undo()
    assert [has_b(array, at) for at in (without_b, restored, now_ms())] == [False, False, True]
    opened(array).undo(undo)
    assert [has_b(array, at) for at in (without_b, restored, now_ms())] == [False, True, True]


def test_an_undo_that_is_undone_leaves_later_evolutions_alone(tmp_path: Path) -> None:
    """One of them said the same as the schema that the undo had brought back."""
    array = EngineArray(tmp_path / "array").create()
    b = tiledb.Attr("b", dtype=np.int32)
    then = now_ms()
    array.write(then, {1: 1})
    time.sleep(0.002)
    array.evolve(add=b)
    restored = opened(array).restore(then).operation
    array.write(now_ms(), {2: 2})  # it uses the restored schema, whose file stays
    ends = [then, now_ms()]
    for change in ({"add": b}, {"drop": "b"}):
        time.sleep(0.002)
        ends.append(now_ms())
        array.evolve(**change, at=ends[-1])
    windows = [(0, end) for end in ends]
    before = array.answers(windows)
    undo = opened(array).undo().operation
    undone = array.answers(windows)
    assert undone == before | {windows[1]: before[windows[2]]}
    for _ in range(2):
        redo = opened(array).undo(undo).operation
        assert array.answers(windows) == before
        undo = opened(array).undo(restored).operation
        assert array.answers(windows) == undone
        assert redo != undo


def test_a_change_comes_and_goes_any_number_of_times(made: EngineArray) -> None:
    made.delete(30, "a >= 3")
    handle = opened(made)
    before = seen(made)
    report = handle.restore(20)
    after = seen(made)
    for _ in range(3):
        undo = handle.undo()
        assert seen(made) == before
        assert_tidy(made)
        handle.undo(undo)
        assert seen(made) == after
        assert states(made)[report.operation or ""] == "done"


def test_an_empty_folder_of_a_killed_change_goes(
    killed: Crasher, made: EngineArray, tmp_path: Path
) -> None:
    staging = EngineArray(tmp_path / "staging").create()
    staging.write(25, {9: 9})
    handle, fragments = opened(made), made.files("__fragments")
    for at in range(1, 30):
        died, _ = killed.run(f'publish {{"staging": "{staging.uri}"}}', made.uri, die_at=at)
        if not died:
            break
        if "begun" not in states(made).values():
            continue
        (folder,) = unfinished_copies(handle.store)
        if not (made.folder / folder).exists():
            (made.folder / folder).mkdir()
        handle.undo()
        assert made.files("__fragments") == fragments, f"killed at {at}"
        assert_tidy(made)
        return
    raise AssertionError("it was never killed")


@pytest.mark.parametrize("duplicates", [False, True])
def test_a_killed_apply_of_an_update_that_was_applied_is_taken_back(
    killed: Crasher, tmp_path: Path, duplicates: bool
) -> None:
    """Another update takes the place of the one that goes (F14).

    With duplicates, a delete of the same name comes too, which no fragment has applied.
    """
    for at in range(1, 30):
        array = EngineArray(tmp_path / str(at)).create(duplicates=duplicates)
        array.write(10, {1: 1, 2: 2, 3: 3})
        array.write(20, {5: 5})
        update = opened(array).update("a == 3", ["a=7"], experimental=True)
        array.consolidate("fragments")
        before = seen(array)
        died, _ = killed.run("apply {}", array.uri, die_at=at)
        if len(states(array)) > 1:
            opened(array).undo()
            assert seen(array) == before, f"killed at {at}"
            assert "final" not in states(array).values(), f"killed at {at}"
        assert states(array)[update.operation or ""] == "done", f"killed at {at}"
        if not died:
            return
    raise AssertionError("it never ended")


def test_an_apply_whose_delete_was_applied_is_final(tmp_path: Path) -> None:
    """Where duplicates are allowed, its rows and the delete of the old ones have one name."""
    for turn in range(6):  # which of the two was looked at was left to chance
        array = EngineArray(tmp_path / str(turn)).create(duplicates=True)
        array.write(10, {1: 1, 2: 2, 3: 3})
        array.write(20, {5: 5})
        opened(array).update("a == 3", ["a=7"], at=30, experimental=True)
        applied = opened(array).apply()
        array.consolidate("fragments", (0, 20))
        before = seen(array)
        with pytest.raises(RefusedError, match="and has applied __30_30_"):
            opened(array).undo()
        assert seen(array) == before
        assert states(array)[applied.operation or ""] == "done"


def test_a_killed_restore_that_writes_rows_leaves_nothing(killed: Crasher, tmp_path: Path) -> None:
    """Its fragments, its `.con` and its `.vac` were in no record."""
    for step in range(1, 60):
        array = EngineArray(tmp_path / f"array{step}").create()
        array.write(10, {1: 1, 2: 2})
        array.write(20, {3: 3})
        before = seen(array)
        died, _ = killed.run('rewrite {"to": 10}', array.uri, die_at=step)
        if not died:
            break
        opened(array).tag("next", at=10, record=False)  # settles it
        assert "begun" not in states(array).values()
        if "done" in states(array).values():
            opened(array).undo()
        assert {window: rows[:-1] for window, rows in seen(array).items()} == {
            window: rows[:-1] for window, rows in before.items()
        }, step
        assert_tidy(array)
    assert step > 6


def test_merged_metadata_is_not_taken_out_once_the_engine_has_vacuumed(made: EngineArray) -> None:
    for value in (1, 2):
        key(made, value)
    opened(made).consolidate("array-meta")
    made.vacuum("array_meta")
    before = seen(made)
    with pytest.raises(RefusedError, match=r"a vacuum removed .*, which it put"):
        opened(made).undo()
    assert seen(made) == before


def test_rows_of_an_update_do_not_show_after_a_restore_to_before_them(made: EngineArray) -> None:
    made.write(30, {7: 5})
    opened(made).update("a == 5", ["a=50"], at=40, experimental=True)
    opened(made).restore(10)
    before = made.answer()
    report = opened(made).apply()
    assert made.answer() == before
    assert any("a restore since hides all that it touches" in note for note in report.notes)
    opened(made).undo()
    assert opened(made).apply().rows == {"rewritten": 1}
    assert (50, 7) in made.answer()


def test_an_undelete_behind_a_replay_finds_the_delete_that_counts(made: EngineArray) -> None:
    made.delete(25, "a == 1")
    made.write(30, {5: 5})
    made.delete(35, "a == 5")
    first, second = (name.removesuffix(".del") for name in made.files("__commits", "*.del"))
    opened(made).undelete(second)  # everything is replayed without it, and the first comes again
    assert not opened(made).undelete(second).steps
    opened(made).undelete(first)
    everything = ((1, 1), (20, 2), (3, 3), (40, 4), (5, 5))
    assert made.answer() == everything
    again = opened(made).undelete(first)
    assert not again.steps
    assert "brought back the rows" in again.notes[-1]
    opened(made).undo()
    opened(made).undo()
    assert made.answer() == everything[1:4]


def test_an_undelete_for_ever_that_was_killed_can_be_run_again(
    killed: Crasher, tmp_path: Path
) -> None:
    for step in range(1, 20):
        array = EngineArray(tmp_path / f"array{step}").create()
        array.write(10, {1: 1})
        array.delete(20, "a == 1")
        (name,) = (file.removesuffix(".del") for file in array.files("__commits", "*.del"))
        what = f'undelete {{"name": "{name}", "ever": true}}'
        died, _ = killed.run(what, array.uri, die_at=step)
        if not died:
            break
        if "done" not in states(array).values():
            try:
                opened(array).undelete(name, ever=True)
            except ChronotileError as error:
                assert "it had done everything" in error.problem  # noqa: PT017 (it may succeed)
        assert array.answer() == ((1, 1),), step
    assert step > 3


def test_rows_that_a_purge_took_are_counted(made: EngineArray) -> None:
    opened(made).delete("a >= 20", at=30)
    made.write(40, {9: 9})
    made.consolidate("fragments", sm__consolidation__purge_deleted_cells="true")
    made.vacuum("fragments")
    (name,) = (file.removesuffix(".del") for file in made.files("__commits", "*.del"))
    with pytest.raises(RefusedError, match=r"2 rows that \w+ removed are gone: a purge took them"):
        opened(made).undelete(name)


def test_rows_that_a_purge_only_hides_are_not_lost(made: EngineArray) -> None:
    handle = opened(made)
    handle.delete("a >= 20", at=30)
    (name,) = (file.removesuffix(".del") for file in made.files("__commits", "*.del"))
    made.write(40, {9: 9})
    purge = handle.compact(quiet="0s", purge=True)
    with pytest.raises(RefusedError, match=f"a purge hides 2 rows .*undo .* {purge.operation}"):
        opened(made).undelete(name)
    opened(made).undo(purge)
    assert opened(made).undelete(name).rows == {"restored": 2}


def test_each_way_back_says_how_many_rows_it_touches(made: EngineArray) -> None:
    opened(made).delete("a >= 20", at=30)
    (name,) = (file.removesuffix(".del") for file in made.files("__commits", "*.del"))
    assert opened(made).undelete(name, dry_run=True).rows == {"restored": 2}
    assert opened(made).undelete(name, dry_run=True, ever=True).rows == {"restored": 2}
    assert opened(made).restore(10, dry_run=True).rows == {"restored": 1}
    staging = EngineArray(made.folder.with_name("staging")).create()
    staging.write(50, {5: 5, 6: 6, 7: 7})
    assert opened(made).publish(staging.uri, dry_run=True).rows == {"published": 3}


def test_a_redo_below_one_that_it_relies_on_is_refused(made: EngineArray) -> None:
    deleted = opened(made).delete("a == 1")
    merged = opened(made).consolidate()
    undone = [opened(made).undo().operation or "" for _ in range(2)]
    before = seen(made)
    redo = f"to redo the delete {deleted.operation}: chronotile undo {made.uri} {undone[1]}$"
    with pytest.raises(RefusedError, match=redo):
        opened(made).undo()
    first = f"would come back with it; .* chronotile undo {made.uri} {undone[1]}$"
    with pytest.raises(RefusedError, match=f"the consolidate {merged.operation}: .*{first}"):
        opened(made).undo(undone[0])
    assert seen(made) == before
    for one in reversed(undone):
        opened(made).undo(one)
    assert_tidy(made)


@pytest.mark.parametrize("ours", [True, False])
def test_a_merge_is_not_redone_over_another_one(tmp_path: Path, ours: bool) -> None:
    array = EngineArray(tmp_path / "array").create(duplicates=True)
    array.write(10, {1: 1, 2: 2})
    array.write(20, {3: 3})
    before = array.answer(0, 30)
    opened(array).compact(quiet="0s")
    undone = opened(array).undo()
    if ours:
        opened(array).compact(quiet="0s")
    else:
        array.consolidate("fragments")
    with pytest.raises(RefusedError, match=r"cannot redo the compact .* since the undo$"):
        opened(array).undo(undone.operation)
    assert array.answer(0, 30) == before


def test_an_undo_of_a_redo_counts_as_an_undo(made: EngineArray) -> None:
    deleted = opened(made).delete("a == 1").operation or ""
    for _ in range(3):
        opened(made).undo(list_operations(open_store(made.uri))[0].id)
    assert states(made)[deleted] == "undone"
    with pytest.raises(RefusedError, match="every change is undone; to redo the delete"):
        opened(made).undo()
