"""The faults of the engine that users live with, F1 to F13 of the project's notes.

Each is made with the engine itself; the engine shows that it is a fault; `check` finds it; and
where it can be mended, the engine reads the result. F14 and F15 are in `test_applied_deletes`.
"""

from __future__ import annotations

import shutil
import time
from typing import TYPE_CHECKING

import numpy as np
import pytest
import tiledb
from support.engine_arrays import EngineArray

from chronotile import consolidate, open_log, repair, undo, vacuum, write_delete, write_update
from chronotile.check.findings import RefusedError
from chronotile.format.commit_files import decode_con

if TYPE_CHECKING:
    import pathlib

    from chronotile.check.findings import Finding


@pytest.fixture
def array(tmp_path: pathlib.Path) -> EngineArray:
    return EngineArray(tmp_path / "array")


def found(array: EngineArray, code: str) -> list[Finding]:
    return [item for item in open_log(array.uri).check() if item.code == code]


def loud(array: EngineArray) -> set[str]:
    return {item.code for item in open_log(array.uri).check() if item.severity != "info"}


def tidy(array: EngineArray) -> None:
    consolidate(array.uri)
    vacuum(array.uri)


def basic(array: EngineArray) -> EngineArray:
    array.create()
    array.write(10, {1: 1, 2: 2, 3: 3})
    array.delete(15, "a < 2")
    array.write(20, {4: 4})
    return array


def test_f1_deletes_block_the_engines_consolidation(array: EngineArray) -> None:
    basic(array)
    array.consolidate("commits")
    array.vacuum("commits")
    array.write(30, {5: 5})
    with pytest.raises(tiledb.TileDBError, match=r"\.del"):
        array.consolidate("commits")
    assert found(array, "con-blocks-consolidation")
    before = array.answers([(0, 12), (0, 15), (0, 40), (20, 40)])
    tidy(array)
    assert array.files("__commits", "*.wrt") == array.files("__commits", "*.del") == []
    (con,) = array.files("__commits", "*.con")
    assert len(decode_con((array.commits_folder / con).read_bytes(), con)) == 4
    assert array.answers(before) == before
    # The advice that is given leads out of it.
    (item,) = found(array, "con-blocks-consolidation")
    assert "repair" in item.hint
    report = repair(array.uri)
    assert [step.path[-4:] for step in report.steps] == [".del"]
    assert not report.findings
    assert loud(array) == set()
    array.write(50, {6: 6})
    array.consolidate("commits")
    array.vacuum("commits")
    assert array.answers(before) == before


def test_f1_is_not_given_to_a_healthy_array(array: EngineArray) -> None:
    basic(array)
    before = array.answers([(0, 12), (0, 15), (0, 40), (20, 40)])
    tidy(array)
    assert len(array.files("__commits", "*.del")) == 1
    assert loud(array) == set()
    array.write(30, {5: 5})
    array.consolidate("commits")
    assert len(array.files("__commits", "*.con")) == 2
    tidy(array)
    assert array.answers(before) == before | {
        (0, 40): array.answer(0, 40),
        (20, 40): array.answer(20, 40),
    }
    array.consolidate("commits")
    vacuum(array.uri, loose_deletes=True)
    assert array.files("__commits", "*.del") == []
    assert loud(array) == {"con-blocks-consolidation"}


def test_f2_the_name_of_a_con_need_not_cover_it(array: EngineArray) -> None:
    array.create()
    array.write(10, {1: 1})
    array.write(30, {3: 3})
    array.consolidate("commits")
    array.vacuum("commits")
    array.write(15, {2: 2})
    array.consolidate("commits")
    assert any(name.startswith("__10_15_") for name in array.files("__commits", "*.con"))
    assert found(array, "con-name-range")
    before = array.answers([(0, 10), (0, 15), (0, 30), (11, 30)])
    tidy(array)
    (con,) = array.files("__commits", "*.con")
    assert con.startswith("__10_15_"), "an engine that vacuums at the same time keeps it too"
    assert array.answers(before) == before
    assert loud(array) == set()
    (item,) = found(array, "con-name-range")
    assert "after the next write" in item.hint
    array.write(40, {4: 4})
    tidy(array)
    (con,) = array.files("__commits", "*.con")
    assert con.startswith("__10_40_")
    assert array.answers(before) == before
    assert not found(array, "con-name-range")


def test_f2_a_con_with_the_right_name_takes_the_place_of_one_that_comes_later(
    array: EngineArray,
) -> None:
    array.create()
    for at in (10, 20, 30):
        array.write(at, {at: at})
    array.consolidate("commits")
    (con,) = array.commits_folder.glob("*.con")
    con.rename(con.with_name(con.name.replace("__10_30_", "__20_30_")))
    (item,) = found(array, "con-name-range")
    assert "consolidate" in item.hint
    tidy(array)
    (name,) = array.files("__commits")
    assert name.startswith("__10_30_")
    assert array.answer() == ((10, 10), (20, 20), (30, 30))
    assert not found(array, "con-name-range")


def test_f3_times_of_different_lengths(array: EngineArray) -> None:
    array.create()
    for at in (9, 10, 100):
        array.write(at, {at % 50: at})
    with pytest.raises(tiledb.TileDBError):
        array.consolidate("commits")
    before = array.answers([(0, 9), (0, 10), (0, 99), (10, 100)])
    tidy(array)
    (con,) = array.files("__commits", "*.con")
    assert con.startswith("__9_100_")
    uris = [r.uri for r in decode_con((array.commits_folder / con).read_bytes(), con)]
    assert [int(uri.split("/__")[1].split("_")[0]) for uri in uris] == [9, 10, 100]
    assert array.answers(before) == before


def test_f4_a_misnamed_fragment(array: EngineArray) -> None:
    array.create()
    array.write(10, {1: 10, 8: 10})
    array.write(40, {4: 40, 8: 40})
    array.consolidate("fragments")
    array.vacuum("fragments")
    array.write(20, {2: 20, 8: 20})
    array.consolidate("fragments")
    (item,) = found(array, "fragment-name-range")
    assert "10 to 20" in item.message
    assert "10 to 40" in item.message
    # At 35 nobody sees the old fragment; a window of 30 to 50 sees only that one.
    windows = [(0, 15), (0, 25), (0, 50), (21, 50), (30, 50), (30, 35)]
    before = array.answers(windows)
    report = vacuum(array.uri)
    assert any("must stay" in note for note in report.notes)
    assert array.answers(windows) == before
    array.vacuum("fragments")
    assert array.answers(windows) != before, "the engine's own vacuum loses cells here"


def test_f5_a_con_with_deletes_is_never_retired(array: EngineArray) -> None:
    basic(array)
    array.consolidate("commits")
    array.write(30, {5: 5})
    array.consolidate("commits")
    array.vacuum("commits")
    assert len(array.files("__commits", "*.con")) == 2
    before = array.answers([(0, 12), (0, 40)])
    consolidate(array.uri)
    assert len(found(array, "con-superseded")) == len(array.files("__commits", "*.con")) - 1 > 0
    vacuum(array.uri)
    assert len(array.files("__commits", "*.con")) == 1
    assert array.answers(before) == before


def nullable(array: EngineArray) -> EngineArray:
    attrs = [tiledb.Attr("a", dtype=np.int32, nullable=True)]
    array.create(attrs=attrs)
    array.write_raw(10, x=[1, 2, 3], a=[1, None, 3])
    return array


def count(array: EngineArray, start: int = 0, end: int = 1 << 60) -> int:
    answer = array.answer(start, end)
    assert not isinstance(answer, str), answer
    return len(answer)


def test_f6_a_delete_of_null_bricks_the_array(array: EngineArray) -> None:
    nullable(array)
    with pytest.raises(RefusedError, match=r"to see these rows: .*--where 'a is null'"):
        write_delete(array.uri, "a == None")
    with pytest.raises(RefusedError, match="cannot read a delete or update that asks for NULL"):
        write_update(array.uri, "a is not null", {"a": 1}, experimental=True)
    assert array.files("__commits", "*.del") == []
    array.commit(20, "a == None")
    assert "size mismatch" in str(array.answer())
    (item,) = found(array, "delete-null")
    assert item.severity == "error"
    report = repair(array.uri)
    assert not report.findings
    assert count(array) == 3
    assert loud(array) == set()
    undo(array.uri, report)
    assert "size mismatch" in str(array.answer())


def test_f6_inside_a_con(array: EngineArray) -> None:
    nullable(array)
    array.commit(20, "a == None")
    array.commit(25, "a == 1")
    array.consolidate("commits")
    array.vacuum("commits")
    assert isinstance(array.answer(), str)
    assert found(array, "delete-null")
    repair(array.uri)
    assert count(array, 0, 22) == 3
    assert count(array) == 1  # F7: the NULL row goes with `a == 1`


def test_f7_null_rows_go_too(array: EngineArray) -> None:
    nullable(array)
    with pytest.raises(RefusedError, match="rows where a is NULL"):
        write_delete(array.uri, "a > 2", timestamp=20)
    assert array.files("__commits", "*.del") == []
    report = write_delete(array.uri, "a > 2", timestamp=20, allow_null_loss=True)
    assert "also removes rows where a is NULL" in report.notes
    assert count(array, 0, 19) == 3
    assert count(array) == 1
    (item,) = found(array, "delete-hits-null")
    assert item.severity == "warning"
    array.commit(30, "a == 77")
    assert len(found(array, "delete-hits-null")) == 2


def test_f8_a_dropped_field(array: EngineArray) -> None:
    array.create(attrs=[tiledb.Attr("a", dtype=np.int32), tiledb.Attr("b", dtype=np.int32)])
    now = int(time.time() * 1000)
    array.write_raw(now - 50, x=[1, 2], a=[1, 2], b=[10, 20])
    array.commit(now - 40, "b == 10")
    assert count(array) == 1
    array.evolve(drop="b")
    assert "Field doesn't exist" in str(array.answer())
    (item,) = found(array, "delete-dropped-field")
    assert item.severity == "error"
    report = repair(array.uri)
    assert any("become visible again" in note for note in report.notes)
    assert count(array) == 2
    assert found(array, "delete-dropped-field") == []


@pytest.mark.parametrize("left", [12, 14, 30, 46, 50, 53])
def test_f9_a_con_cut_in_its_last_line(array: EngineArray, left: int) -> None:
    array.create()
    for at in (10, 20, 30):
        array.write(at, {at: at})
    array.consolidate("commits")
    array.vacuum("commits")
    before = array.answers([(0, 10), (0, 25), (0, 30), (25, 40)])
    (con,) = array.files("__commits", "*.con")
    path = array.commits_folder / con
    data = path.read_bytes()
    path.write_bytes(data[: data.rindex(b"__commits/") + left])
    assert count(array) == 2, "the engine reads it without complaint"
    (item,) = found(array, "con-truncated")
    assert item.severity == "error"
    for upkeep in (consolidate, vacuum):
        with pytest.raises(RefusedError, match="con-truncated"):
            upkeep(array.uri)
    report = repair(array.uri)
    assert not report.findings
    assert any("was cut in its last entry" in note for note in report.notes)
    assert array.answers(before) == before
    assert found(array, "con-truncated") == []
    tidy(array)
    assert array.answers(before) == before


def test_f9_what_cannot_be_told_is_told(array: EngineArray) -> None:
    array.create()
    for at in (10, 20, 21):
        array.write(at, {at: at})
    array.consolidate("commits")
    array.vacuum("commits")
    (con,) = array.files("__commits", "*.con")
    path = array.commits_folder / con
    data = path.read_bytes()
    # Both of the last two are cut: what is left of the name, `__2`, fits two folders.
    path.write_bytes(data[: data.index(b"__commits/__20_") + 13])
    report = repair(array.uri)
    assert [item.code for item in report.findings] == ["con-truncated"]
    assert "with which 2 commits begin" in report.findings[0].message
    assert path.exists()
    with pytest.raises(RefusedError):
        vacuum(array.uri, whole_orphans=True, orphans_age_ms=0)
    assert len(array.files("__fragments")) == 3
    report = repair(array.uri, accept_loss=True)
    assert not report.findings
    assert count(array) == 1
    undo(array.uri, report)
    assert path.read_bytes() == data[: data.index(b"__commits/__20_") + 13]


def test_f9_a_con_cut_between_two_records(array: EngineArray) -> None:
    array.create()
    for at in (10, 20, 30):
        array.write(at, {at: at})
    array.consolidate("commits")
    array.vacuum("commits")
    (con,) = array.files("__commits", "*.con")
    path = array.commits_folder / con
    data = path.read_bytes()
    path.write_bytes(data[: data.rindex(b"__commits/")])
    assert count(array) == 2
    (item,) = found(array, "con-truncated")
    assert "30" in item.message
    assert found(array, "fragment-without-commit")
    with pytest.raises(RefusedError, match="may be what it lost"):
        vacuum(array.uri, whole_orphans=True, orphans_age_ms=0)


def test_f10_a_commit_without_its_fragment(array: EngineArray) -> None:
    basic(array)
    array.consolidate("commits")
    array.vacuum("commits")
    array.write(30, {5: 5})
    for name in array.files("__fragments", "__20_*") + array.files("__fragments", "__30_*"):
        shutil.rmtree(array.folder / "__fragments" / name)
    assert "__fragment_metadata.tdb" in str(array.answer())
    assert len(found(array, "commit-without-fragment")) == 2
    with pytest.raises(RefusedError, match="commit-without-fragment"):
        vacuum(array.uri)
    report = repair(array.uri)
    assert not report.findings
    assert {step.op for step in report.steps} == {"put", "move"}
    assert count(array) == 2
    assert found(array, "commit-without-fragment") == []
    tidy(array)
    assert count(array) == 2


def test_f10_a_fragment_without_its_metadata(array: EngineArray) -> None:
    basic(array)
    (name,) = array.files("__fragments", "__20_*")
    (array.folder / "__fragments" / name / "__fragment_metadata.tdb").unlink()
    assert isinstance(array.answer(), str)
    assert not repair(array.uri).findings
    assert count(array) == 2


def test_f11_an_update_deletes(array: EngineArray) -> None:
    array.create()
    array.write(10, {1: 1, 2: 2, 3: 3})
    with pytest.raises(RefusedError, match="--experimental"):
        write_update(array.uri, "a == 2", {"a": 777})
    report = write_update(array.uri, "a == 2", ["a=777"], timestamp=20, experimental=True)
    assert any("treats an update as a delete" in note for note in report.notes)
    assert report.rows == {"updated": 1, "hidden": 1}
    assert count(array) == 2
    # Rows that have the value already are hidden as well, those of the first update no more.
    again = write_update(
        array.uri, "a >= 2", ["a=3"], timestamp=21, experimental=True, dry_run=True
    )
    assert again.rows == {"updated": 1, "hidden": 1}
    assert "hidden now" not in " ".join(again.notes)
    array.commit(25, "a == 3", a=778)
    assert count(array) == 1
    assert len(found(array, "update-deletes")) == 2
    before = array.answers([(0, 15), (0, 22), (0, 30)])
    tidy(array)
    assert len(array.files("__commits", "*.upd")) == 2
    assert array.answers(before) == before
    report = consolidate(array.uri, updates=True)
    assert any("2 updates put into the .con" in note for note in report.notes)
    (item,) = found(array, "con-has-updates")
    assert "2 updates" in item.message
    vacuum(array.uri, updates=True)
    assert array.files("__commits", "*.upd") == []
    assert count(array) == 3, "the engine does not see an update inside a .con"
    assert len(open_log(array.uri).view().updates) == 2


def test_f12_a_delete_in_two_cons(array: EngineArray) -> None:
    basic(array)
    array.consolidate("commits")
    array.consolidate("commits")
    assert len(array.files("__commits", "*.con")) == 2
    (item,) = found(array, "delete-duplicate")
    assert item.severity == "info"
    before = array.answers([(0, 12), (0, 40)])
    vacuum(array.uri)
    assert found(array, "delete-duplicate") == []
    assert len(array.files("__commits", "*.con")) == 1
    assert array.answers(before) == before


def test_f13_two_writes_at_one_millisecond(array: EngineArray) -> None:
    array.create()
    array.write(10, {1: 1})
    array.write(10, {1: 2})
    answer = array.answer()
    assert answer in (((1, 1),), ((2, 1),)), "either may win"
    (item,) = found(array, "same-timestamp")
    assert item.severity == "warning"
    duplicates = EngineArray(array.folder.parent / "duplicates").create(duplicates=True)
    duplicates.write(10, {1: 1})
    duplicates.write(10, {1: 2})
    assert found(duplicates, "same-timestamp") == []


def test_a_clean_array_is_quiet(array: EngineArray) -> None:
    array.create()
    for at in (10, 20, 30):
        array.write(at, {at: at})
    assert open_log(array.uri).check() == ()
    array.delete(40, "a == 10")
    assert open_log(array.uri).check() == ()
    tidy(array)
    assert open_log(array.uri).check() == ()
