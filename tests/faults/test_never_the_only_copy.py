"""Maintenance never removes the only copy, and repair takes the way that loses nothing."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING

import numpy as np
import pytest
import tiledb
from support.array_places import array_files
from support.engine_arrays import EngineArray
from support.histories import History

from chronotile import consolidate, open_log, repair, undo, vacuum, write_delete
from chronotile.check.findings import RefusedError
from chronotile.errors import ChronotileError

if TYPE_CHECKING:
    import pathlib
    from collections.abc import Callable

KEY = "0123456789abcdef0123456789abcdef"
FULL = ((10, 10), (20, 20), (30, 30))


@pytest.fixture
def array(tmp_path: pathlib.Path) -> EngineArray:
    made = EngineArray(tmp_path / "array").create()
    for at in (10, 20, 30):
        made.write(at, {at: at})
    return made


@pytest.fixture
def merged(array: EngineArray) -> EngineArray:
    """Three fragments, and the one that the engine made of them."""
    array.consolidate("fragments")
    assert array.answer() == FULL
    return array


def fragment(array: EngineArray, times: str) -> pathlib.Path:
    (found,) = (array.folder / "__fragments").glob(f"__{times}_*")
    return found


def codes(array: EngineArray, severity: str = "error", key: str | None = None) -> set[str]:
    found = open_log(array.uri, key=key).check()
    return {item.code for item in found if item.severity == severity}


def lose_metadata(folder: pathlib.Path) -> None:
    (folder / "__fragment_metadata.tdb").unlink()


def lose_cells(folder: pathlib.Path) -> None:
    (folder / "a0.tdb").unlink()


def lose_all(folder: pathlib.Path) -> None:
    for path in folder.iterdir():
        path.unlink()


def cut_cells(folder: pathlib.Path) -> None:
    (folder / "d0.tdb").write_bytes((folder / "d0.tdb").read_bytes()[:-1])


def cut_metadata(folder: pathlib.Path) -> None:
    path = folder / "__fragment_metadata.tdb"
    path.write_bytes(path.read_bytes()[:-9])


def flip_offsets(folder: pathlib.Path) -> None:
    """Damage the tile that says where cells are: the first one."""
    path = folder / "__fragment_metadata.tdb"
    data = bytearray(path.read_bytes())
    data[95] ^= 1
    path.write_bytes(data)


DAMAGE = [lose_metadata, lose_cells, lose_all, cut_cells, cut_metadata, flip_offsets]


@pytest.mark.parametrize("damage", DAMAGE)
def test_a_vacuum_keeps_what_a_damaged_fragment_was_made_from(
    merged: EngineArray, damage: Callable[[pathlib.Path], None]
) -> None:
    damage(fragment(merged, "10_30"))
    assert isinstance(merged.answer(), str), "the engine reads it no more"
    assert codes(merged) & {"fragment-damaged", "fragment-file-missing"}
    report = vacuum(merged.uri)
    assert not report.steps
    assert "may be the only copy" in report.notes[0]
    mended = repair(merged.uri)
    assert not mended.findings
    assert "the rows of" in mended.notes[0]
    assert merged.answer() == FULL
    assert codes(merged) == set()


@pytest.mark.parametrize("damage", [*DAMAGE, shutil.rmtree])
def test_a_repair_can_be_undone(
    merged: EngineArray, damage: Callable[[pathlib.Path], None]
) -> None:
    damage(fragment(merged, "10_30"))
    before = array_files(merged.folder)
    report = repair(merged.uri)
    assert report.quarantine
    undo(merged.uri, report)
    assert array_files(merged.folder) == before


def test_a_whole_fragment_still_lets_its_sources_go(merged: EngineArray) -> None:
    vacuum(merged.uri)
    assert len(merged.files("__fragments")) == 1
    assert merged.answer() == FULL


def test_several_fragments_of_one_consolidation_must_all_be_whole(tmp_path: pathlib.Path) -> None:
    dim = tiledb.Dim("x", domain=(0, 99), tile=2, dtype=np.int64)
    array = EngineArray(tmp_path / "array").create(dims=[dim], capacity=2)
    for at in (10, 20):
        array.write(at, {x: x for x in range(at, at + 9)})
    array.consolidate("fragments", sm__consolidation__max_fragment_size="600")
    made = sorted((array.folder / "__fragments").glob("__10_20_*"))
    assert len(made) > 1
    before = array.answer()
    for folder in made:
        cells = (folder / "a0.tdb").read_bytes()
        (folder / "a0.tdb").unlink()
        assert not [step for step in vacuum(array.uri).steps if "__fragments" in step.path]
        (folder / "a0.tdb").write_bytes(cells)
    assert vacuum(array.uri).steps
    assert len(array.files("__fragments")) == len(made)
    assert array.answer() == before


def test_a_merged_fragment_that_is_gone_gives_way_to_its_sources(merged: EngineArray) -> None:
    shutil.rmtree(fragment(merged, "10_30"))
    assert isinstance(merged.answer(), str)
    planned = repair(merged.uri, dry_run=True)
    assert any(step.path.endswith(".vac") for step in planned.steps)
    report = repair(merged.uri)
    assert not report.findings
    assert merged.answer() == FULL
    assert merged.answer(0, 15) == ((10, 10),)


def test_a_hidden_fragment_that_is_gone_brings_nothing_back(tmp_path: pathlib.Path) -> None:
    """What it was made from is held by the fragment that replaced it."""
    array = EngineArray(tmp_path / "array").create(duplicates=True)
    for at in (10, 20, 30):
        array.write(at, {at: at})
    array.consolidate("fragments", (0, 25))
    array.consolidate("fragments")
    before = array.answers([(0, 40), (0, 25), (15, 40)])
    assert before[(0, 40)] == FULL
    shutil.rmtree(fragment(array, "10_20"))
    assert not repair(array.uri).findings
    assert array.answers(before) == before


def test_sources_whose_commits_are_gone_are_committed_again(merged: EngineArray) -> None:
    """A vacuum was broken off after the commits went, and the merged fragment is lost too."""
    for name in merged.files("__commits", "*.wrt"):
        if not name.startswith("__10_30_"):
            (merged.commits_folder / name).unlink()
    shutil.rmtree(fragment(merged, "10_30"))
    report = repair(merged.uri)
    assert not report.findings
    assert merged.answer() == FULL


def test_what_stays_away_is_said(merged: EngineArray) -> None:
    shutil.rmtree(fragment(merged, "20_20"))
    shutil.rmtree(fragment(merged, "10_30"))
    report = repair(merged.uri)
    assert "_22 are not here" in report.notes[0]
    assert merged.answer() == ((10, 10), (30, 30))


def test_a_fragment_that_can_be_read_in_part_stays(array: EngineArray) -> None:
    lose_cells(fragment(array, "20_20"))
    report = repair(array.uri)
    assert not report.steps
    assert {item.code for item in report.findings} == {"fragment-file-missing"}
    assert "--accept-loss" in report.findings[0].hint
    report = repair(array.uri, accept_loss=True)
    assert not report.findings
    assert "holds no copy of the rows" in report.notes[0]
    assert array.answer() == ((10, 10), (30, 30))


def other_digit(text: str) -> str:
    """The same with its last digit before the version changed: beyond the eighth of the uuid."""
    at = text.rindex("_") - 1
    return text[:at] + ("0" if text[at] != "0" else "1") + text[at + 1 :]


def test_a_wrong_digit_in_a_con_is_no_orphan(array: EngineArray) -> None:
    array.consolidate("commits")
    array.vacuum("commits")
    (con,) = array.commits_folder.glob("*.con")
    name = fragment(array, "20_20").name
    con.write_bytes(con.read_bytes().replace(name.encode(), other_digit(name).encode()))
    assert isinstance(array.answer(), str)
    visible = [one.name for one in open_log(array.uri).view().fragments]
    assert len(visible) == 2, "a folder that is not there is not named"
    (item,) = (i for i in open_log(array.uri).check() if i.severity == "error")
    assert item.code == "commit-without-fragment"
    assert name in item.message
    with pytest.raises(RefusedError, match="commit-without-fragment"):
        vacuum(array.uri, whole_orphans=True, orphans_age_ms=-60_000)
    report = repair(array.uri)
    assert not report.findings
    assert "its name damaged" in report.notes[0]
    assert array.answer() == FULL


def test_a_folder_whose_name_tells_another_time_is_not_committed(array: EngineArray) -> None:
    folder = fragment(array, "20_20")
    folder.rename(folder.with_name(folder.name.replace("__20_", "__10_", 1)))
    report = repair(array.uri)
    assert "its name damaged: it stays" in report.notes[0]
    assert array.answer() == ((10, 10), (30, 30))
    assert array.answer(0, 15) == ((10, 10),)


def test_a_fragment_that_lacks_only_its_commit_is_kept(array: EngineArray) -> None:
    """The file of its commit may have been lost."""
    (commit,) = array.commits_folder.glob("__20_*")
    commit.unlink()
    report = vacuum(array.uri, orphans=True, orphans_age_ms=-60_000)
    assert not report.steps
    assert "may have been lost" in report.notes[0]
    assert vacuum(array.uri, whole_orphans=True, orphans_age_ms=-60_000).steps


def test_a_hidden_commit_without_its_fragment_keeps_its_vac(merged: EngineArray) -> None:
    """Without the `.vac` the engine would look for the fragment."""
    shutil.rmtree(fragment(merged, "20_20"))
    before = merged.answer()
    assert before == FULL
    assert "commit-without-fragment" not in codes(merged)
    vacuum(merged.uri)
    assert merged.answer() == before


@pytest.mark.parametrize("extra", [b"\0", b"x" * 500])
def test_bytes_behind_a_delete_bring_no_row_back(array: EngineArray, extra: bytes) -> None:
    array.delete(40, "a == 10")
    (delete,) = array.commits_folder.glob("*.del")
    delete.write_bytes(delete.read_bytes() + extra)
    before = array.answer()
    assert before == FULL[1:], "the engine reads it without complaint"
    assert codes(array) == set()
    assert "tile-corrupt" in codes(array, "warning")
    assert not repair(array.uri).steps
    consolidate(array.uri)
    vacuum(array.uri)
    assert array.answer() == before


def test_the_header_of_a_tile_is_read_as_the_engine_reads_it(array: EngineArray) -> None:
    """Each bit of a delete's header and framing, flipped: what the engine takes is no error."""
    array.delete(40, "a == 10")
    (delete,) = array.commits_folder.glob("*.del")
    data = delete.read_bytes()
    # The size of a filter's options is not looked at by the engine: 43 is left out.
    for at in (*range(8), 12, 20, 21, 28, 29, 30, 34, 38, 42, 47, 48, 52, 60, 64, 68, 72, 76, 80):
        for bit in (0, 7):
            flipped = bytearray(data)
            flipped[at] ^= 1 << bit
            delete.write_bytes(flipped)
            reads = not isinstance(array.answer(), str)
            assert reads == (codes(array) == set()), (at, bit)


@pytest.fixture
def sealed(tmp_path: pathlib.Path) -> EngineArray:
    made = EngineArray(tmp_path / "array", key=KEY).create()
    for at in (10, 20, 30):
        made.write(at, {at: at})
    made.consolidate("fragments")
    return made


def test_without_its_key_an_array_is_taken_the_careful_way(sealed: EngineArray) -> None:
    before = sealed.answers([(0, 10), (0, 15), (0, 25), (15, 40), (0, 40)])
    unfinished = sealed.folder / "__fragments" / f"__1_1_{'0' * 32}_22"
    unfinished.mkdir()
    assert not open_log(sealed.uri).history.dense
    report = vacuum(sealed.uri)
    assert not [step for step in report.steps if "__fragments" in step.path]
    assert "was not shown to be whole" in report.notes[0]
    assert sealed.answers(before) == before
    assert vacuum(sealed.uri, key=KEY).steps
    assert sealed.answers(before) == before


def test_a_dense_array_is_known_without_its_key(tmp_path: pathlib.Path) -> None:
    array = EngineArray(tmp_path / "array", key=KEY).create(sparse=False)
    array.write(10, {0: 1, 1: 2})
    assert open_log(array.uri).history.dense


@pytest.mark.parametrize("at", [100, -1])
def test_a_damaged_delete_of_an_encrypted_array_is_damage(sealed: EngineArray, at: int) -> None:
    sealed.delete(40, "a == 10")
    (delete,) = sealed.commits_folder.glob("*.del")
    data = bytearray(delete.read_bytes())
    data[at] ^= 1
    delete.write_bytes(data)
    assert isinstance(sealed.answer(), str)
    assert "tile-corrupt" in codes(sealed, key=KEY)
    for upkeep in (consolidate, vacuum):
        with pytest.raises(RefusedError, match="tile-corrupt"):
            upkeep(sealed.uri, key=KEY)
    assert not repair(sealed.uri, key=KEY).findings
    assert sealed.answer() == FULL
    with pytest.raises(ChronotileError, match="expected the key"):
        repair(sealed.uri, key="f" * 32)


def test_a_delete_by_a_label_needs_no_con(tmp_path: pathlib.Path) -> None:
    attr = tiledb.Attr("a", dtype=np.int32, enum_label="e")
    labels = tiledb.Enumeration("e", ordered=False, values=["red", "green"])
    array = EngineArray(tmp_path / "array").create(attrs=[attr], enums=[labels])
    array.write(10, {1: 0, 2: 1})
    write_delete(array.uri, "a == 'green'", timestamp=20)
    assert list(array.rows(0, 1 << 60)) == [1]


def test_a_delete_on_a_newer_field_is_refused(array: EngineArray) -> None:
    """F15: it would remove every row that was written before the field was added."""
    evolution = tiledb.ArraySchemaEvolution(array.ctx)
    evolution.add_attribute(tiledb.Attr("b", dtype=np.int32))
    evolution.array_evolve(array.uri)
    now = int(open_log(array.uri).history.schemas[-1].name.t2)  # type: ignore[union-attr]
    array.write_columns(now + 10, [5, 6], {"a": np.array([5, 6]), "b": np.array([7, 8])})
    with pytest.raises(RefusedError, match="in 3 fragments: up to 3 cells"):
        write_delete(array.uri, "b == 7", timestamp=now + 20)
    write_delete(array.uri, "a == 5", timestamp=now + 20)
    assert len(array.answer()) == 4
    report = write_delete(array.uri, "b == 8", timestamp=now + 30, allow_older_loss=True)
    assert any("before b was added" in note for note in report.notes)
    assert array.answer() == ()
    (item,) = (i for i in open_log(array.uri).check() if i.code == "delete-hits-older")
    assert "in 3 fragments: up to 3 cells" in item.message


@pytest.mark.parametrize("seed", range(12))
def test_the_engine_consolidates_commits_after_us(seed: int, tmp_path: pathlib.Path) -> None:
    """What the engine could do before our maintenance, it can do after it (F1)."""
    history = History(seed, tmp_path / "history", ties=False)
    for _ in range(12):
        history.step()
    history.write(max(history.times) + 1000)
    array = history.array
    twin = EngineArray(tmp_path / "twin")
    shutil.copytree(array.uri, twin.uri)
    consolidate(array.uri)
    vacuum(array.uri)
    before = array.answer()

    def consolidates(one: EngineArray) -> bool:
        try:
            one.consolidate("commits")
        except tiledb.TileDBError:
            return False
        return True

    assert consolidates(array) >= consolidates(twin)
    assert array.answer() == before


def test_a_damaged_second_copy_of_a_delete_is_found(array: EngineArray) -> None:
    """The engine decodes a delete from each `.con` that holds it."""
    array.delete(40, "a == 10")
    array.consolidate("commits")
    array.write(50, {50: 50})
    consolidate(array.uri)
    first = min(array.commits_folder.glob("*.con"), key=lambda path: path.stat().st_size)
    data = bytearray(first.read_bytes())
    data[data.index(b".del\n") + 5 + 8 + 61] ^= 2
    first.write_bytes(data)
    assert isinstance(array.answer(), str)
    assert "tile-corrupt" in codes(array)
    assert not repair(array.uri).findings
    assert array.answer() == (*FULL[1:], (50, 50))


def test_a_tile_that_claims_more_than_it_holds(array: EngineArray) -> None:
    path = fragment(array, "20_20") / "__fragment_metadata.tdb"
    data = bytearray(path.read_bytes())
    data[17] ^= 32
    path.write_bytes(data)
    assert isinstance(array.answer(), str)
    assert codes(array) == {"fragment-damaged"}
