"""What a vacuum removes of consolidated fragment metadata and of metadata, and what it keeps."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
import tiledb
from support.engine_arrays import EngineArray
from support.footers import consolidated_footers

from chronotile import consolidate, vacuum
from chronotile.errors import ChronotileError
from chronotile.format import tiles
from chronotile.format.consolidated_footers import (
    encode_consolidated_footers,
)

if TYPE_CHECKING:
    import pathlib

    from chronotile.change.plan import Report

KEY = "0123456789abcdef0123456789abcdef"


@pytest.fixture
def array(tmp_path: pathlib.Path) -> EngineArray:
    return EngineArray(tmp_path / "array").create()


def set_keys(array: EngineArray, *times: int) -> None:
    for at in times:
        with tiledb.open(array.uri, "w", timestamp=at, ctx=array.ctx) as opened:
            opened.meta["a"] = at
            opened.meta[f"k{at}"] = at


def metadata(array: EngineArray, start: int = 0, end: int = 9999) -> dict[str, Any]:
    with tiledb.open(array.uri, timestamp=(start, end), ctx=array.ctx) as opened:
        return dict(opened.meta)


@pytest.mark.parametrize("run", [consolidate, vacuum])
def test_a_mode_that_is_none(array: EngineArray, run: Any) -> None:
    with pytest.raises(ChronotileError, match="fragment-meta, array-meta"):
        run(array.uri, mode="meta")


def test_all_steps_are_told_before_the_first(array: EngineArray) -> None:
    set_keys(array, 10, 20)
    array.write(10, {1: 1})
    told: list[list[str]] = []

    def before(planned: Report) -> None:
        assert len(array.files("__meta")) == 2
        assert not array.files("__fragment_meta")
        told.append([step.path for step in planned.steps])

    report = consolidate(array.uri, mode="all", before=before)
    assert told == [[step.path for step in report.steps]]
    folders = [step.path.partition("/")[0] for step in report.steps]
    assert folders == ["__commits", "__fragment_meta", "__meta", "__meta"]
    removed: list[list[str]] = []
    done = vacuum(array.uri, before=lambda plan: removed.append([s.path for s in plan.steps]))
    assert removed == [[step.path for step in done.steps]]


def test_a_meta_goes_if_another_holds_all_of_it(array: EngineArray) -> None:
    for at in (10, 20, 30):
        array.write(at, {at: at})
        consolidate(array.uri, mode="fragment-meta")
    assert len(array.files("__fragment_meta")) == 3
    planned = vacuum(array.uri, mode="fragment-meta", dry_run=True)
    assert len(array.files("__fragment_meta")) == 3
    report = vacuum(array.uri, mode="fragment-meta")
    assert [step.path for step in report.steps] == [step.path for step in planned.steps]
    assert all(step.size and "holds all of it" in step.reason for step in report.steps)
    (left,) = array.files("__fragment_meta")
    assert left.startswith("__10_30_")
    assert report.engine_open_requests == (10, 8)
    assert not vacuum(array.uri).steps or array.files("__fragment_meta") == [left]


def test_of_two_alike_the_later_stays(array: EngineArray) -> None:
    for at in (10, 20):
        array.write(at, {at: at})
    consolidate(array.uri, mode="fragment-meta")
    folder = array.folder / "__fragment_meta"
    (name,) = array.files("__fragment_meta")
    later = f"__10_20_{'f' * 32}_22.meta"
    (folder / later).write_bytes((folder / name).read_bytes())
    vacuum(array.uri, mode="fragment-meta")
    assert array.files("__fragment_meta") == [later]


def test_a_meta_with_a_footer_of_its_own_stays(array: EngineArray) -> None:
    """The engine's vacuum goes by the times in the names, and would remove one of them."""
    for at in (10, 20, 30):
        array.write(at, {at: at})
    (step,) = consolidate(array.uri, mode="fragment-meta").steps
    folder, full = array.folder / "__fragment_meta", array.folder / step.path
    held = sorted(consolidated_footers(tiles.decode(step.data, "x").payload, "x").items())
    full.unlink()
    for number, pairs in enumerate((held[:2], held[1:])):
        data = encode_consolidated_footers(pairs, version=22)
        (folder / f"__10_{number + 20}_{number:032x}_22.meta").write_bytes(data)
    assert not vacuum(array.uri, mode="fragment-meta").steps


def test_a_meta_that_holds_more_only_of_what_is_gone(array: EngineArray) -> None:
    array.write(10, {1: 1})
    array.write(99, {2: 2})
    consolidate(array.uri, mode="fragment-meta")
    (old,) = array.files("__fragment_meta")
    array.delete_fragments(99, 99)
    array.write(50, {3: 3})
    consolidate(array.uri, mode="fragment-meta")
    (new,) = {*array.files("__fragment_meta")} - {old}
    vacuum(array.uri, mode="fragment-meta")
    assert array.files("__fragment_meta") == [new], "what is gone needs no footer"
    (array.folder / "__fragment_meta" / old).write_bytes(b"not a tile")
    assert not vacuum(array.uri, mode="fragment-meta").steps, "what cannot be opened stays"


def test_footers_of_fragments_that_go_at_once_do_not_count(array: EngineArray) -> None:
    for at in (10, 20):
        array.write(at, {at: at})
    consolidate(array.uri, mode="fragment-meta")
    array.consolidate("fragments")
    consolidate(array.uri, mode="fragment-meta")
    vacuum(array.uri)
    assert len(array.files("__fragments")) == len(array.files("__fragment_meta")) == 1
    assert not vacuum(array.uri).steps


def test_merged_metadata_goes_and_it_is_said_first(array: EngineArray) -> None:
    set_keys(array, 10, 20, 30)
    consolidate(array.uri, mode="array-meta")
    before = metadata(array)
    said: list[str] = []

    def before_all(plan: Report) -> None:
        assert len(array.files("__meta")) == 5
        said.extend(plan.losses)

    report = vacuum(array.uri, before=before_all)
    (note,) = said
    assert note.startswith("metadata loses time travel from 10 to 30 (")
    assert report.notes[0] == note
    assert report.steps[-1].path.endswith(".vac"), "as long as it lists something it stays"
    assert len(array.files("__meta")) == 1
    assert metadata(array) == before
    assert not metadata(array, 0, 25)


def test_what_was_merged_twice(array: EngineArray) -> None:
    set_keys(array, 10, 20)
    consolidate(array.uri, mode="array-meta")
    set_keys(array, 30)
    array.consolidate("array_meta")
    set_keys(array, 40)
    consolidate(array.uri, mode="array-meta")
    assert len(array.files("__meta")) == 4 + 3 * 2
    before = metadata(array)
    vacuum(array.uri, mode="array-meta")
    assert len(array.files("__meta")) == 1
    assert metadata(array) == before


def test_a_first_merged_file_that_is_gone(array: EngineArray) -> None:
    """It was merged in turn, so what it replaced is not needed either."""
    set_keys(array, 10, 20)
    merged, _ = consolidate(array.uri, mode="array-meta").steps
    set_keys(array, 30)
    consolidate(array.uri, mode="array-meta")
    before = metadata(array)
    (array.folder / merged.path).unlink()
    vacuum(array.uri, mode="array-meta")
    assert len(array.files("__meta")) == 1
    assert metadata(array) == before


@pytest.mark.parametrize("damage", ["gone", "cut"])
def test_nothing_goes_for_a_merged_file_that_cannot_be_read(
    array: EngineArray, damage: str
) -> None:
    set_keys(array, 10, 20)
    merged, _ = consolidate(array.uri, mode="array-meta").steps
    path = array.folder / merged.path
    path.unlink() if damage == "gone" else path.write_bytes(path.read_bytes()[:-5])
    report = vacuum(array.uri, mode="array-meta")
    assert not report.steps
    assert any("is kept" in note for note in report.notes)


def test_a_vacuum_file_that_takes_metadata_back_stays(array: EngineArray) -> None:
    """A `.vac` of its own, without a merged file, hides what it lists: it is no merge."""
    set_keys(array, 10, 20)
    (hidden,) = array.files("__meta", "__20_*")
    lone = array.folder / "__meta" / f"__30_30_{'0' * 32}.vac"
    lone.write_text(f"/__meta/{hidden}\n")
    before = metadata(array)
    report = vacuum(array.uri)
    assert not report.steps
    assert metadata(array) == before == {"a": 10, "k10": 10}


def test_without_its_key_an_encrypted_array_loses_nothing(tmp_path: pathlib.Path) -> None:
    array = EngineArray(tmp_path / "array", key=KEY).create()
    set_keys(array, 10, 20)
    for at in (10, 20):
        array.write(at, {at: at})
        consolidate(array.uri, mode="all", key=KEY)
    files = array.files("__meta"), array.files("__fragment_meta")
    vacuum(array.uri)
    assert (array.files("__meta"), array.files("__fragment_meta")) == files
    vacuum(array.uri, key=KEY)
    assert len(array.files("__meta")) == len(array.files("__fragment_meta")) == 1
    assert metadata(array) == {"a": 20, "k10": 10, "k20": 20}
