"""Tags: what the engine sees of them, what a vacuum keeps for them, and what a check says."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
import tiledb
from support.engine_arrays import EngineArray
from support.verbs import add_tag, remove_tag

import chronotile as ct
from chronotile.change.past_state import UnreachableError
from chronotile.check.findings import RefusedError
from chronotile.cli import main
from chronotile.errors import BadTimeError
from chronotile.format.timestamps import now_ms, time_text

if TYPE_CHECKING:
    import pathlib

NOW = (0, 1 << 60)


@pytest.fixture
def array(tmp_path: pathlib.Path) -> EngineArray:
    """A dense array, consolidated and not vacuumed: time travel hangs on the old fragments."""
    array = EngineArray(tmp_path / "array").create(sparse=False)
    for at in (10, 20, 30, 40):
        array.write(at, {1: at, 2: 2 * at})
        with tiledb.open(array.uri, "w", timestamp=at, ctx=array.ctx) as opened:
            opened.meta["at"] = at
    for mode in ("fragments", "array_meta"):
        array.consolidate(mode)
    return array


def test_the_engine_reads_a_tag(array: EngineArray) -> None:
    add_tag(array.uri, "v1", at=20)
    add_tag(array.uri, "release-2", at="v1")
    with tiledb.open(array.uri, ctx=array.ctx) as opened:
        assert opened.meta["chronotile.tag.v1"] == opened.meta["chronotile.tag.release-2"] == 20
    assert ct.open_log(array.uri).tags == {"release-2": 20, "v1": 20}
    with pytest.raises(RefusedError, match="the tag 'v1' names 20 "):
        add_tag(array.uri, "v1", at=30)
    add_tag(array.uri, "v1", at=30, move=True)
    remove_tag(array.uri, "release-2")
    assert ct.open_log(array.uri).tags == {"v1": 30}
    with tiledb.open(array.uri, "w", ctx=array.ctx) as opened:
        opened.meta["chronotile.tag.by-hand"] = 10
    assert ct.open_log(array.uri).tags == {"by-hand": 10, "v1": 30}
    with pytest.raises(RefusedError, match="there is no tag 'nope'"):
        remove_tag(array.uri, "nope")
    for name in ("now", "Monday", "1d", "", "a b", "../x"):
        with pytest.raises(ct.ChronotileError, match=r"starts with a letter|already means a time"):
            add_tag(array.uri, name)


def test_a_tag_can_be_undone(array: EngineArray, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["tag", "add", array.uri, "release/1+hot:fix", "--at", "20", "--dry-run"]) == 0
    assert ct.open_log(array.uri).tags == {}
    assert main(["tag", "add", array.uri, "release/1+hot:fix", "--at", "20"]) == 0
    assert main(["visible", array.uri, "--end", "release/1+hot:fix"]) == 0
    assert main(["tag", "list", array.uri]) == 0
    assert "release/1+hot:fix" in capsys.readouterr().out
    assert main(["undo", array.uri]) == 0
    assert ct.open_log(array.uri).tags == {}


def test_a_tag_stands_for_a_time(array: EngineArray, tmp_path: pathlib.Path) -> None:
    add_tag(array.uri, "v1", at=20)
    log = ct.open_log(array.uri)
    assert log.view(end="v1").end == 20
    with pytest.raises(BadTimeError, match="'v2' is neither a time nor a tag"):
        log.view(end="v2")
    copy = EngineArray(tmp_path / "copy")
    copy.sparse = False
    then = array.answer(0, 20)
    ct.clone(array.uri, copy.uri, end="v1")
    assert copy.answer(*NOW) == then
    ct.restore(array.uri, "v1")
    assert array.answer(*NOW) == then
    assert ct.open_log(array.uri).tags == {"v1": 20}


def test_a_vacuum_keeps_what_a_tag_needs(array: EngineArray) -> None:
    add_tag(array.uri, "v1", at=20)
    add_tag(array.uri, "v2", at=30)
    tagged = array.answers([(0, 20), (0, 30), NOW])
    report = ct.vacuum(array.uri)
    held = [note for note in report.notes if note.startswith("kept for ")]
    assert [note.split(" of ")[0] for note in held] == [
        "kept for the tag v1: 2 fragments",
        "kept for the tag v2: 3 fragments",
    ]
    assert any("is kept for the tag v1, the tag v2" in note for note in report.notes)
    assert len(array.files("__fragments")) == 4
    assert array.answers([(0, 20), (0, 30), NOW]) == tagged
    assert ct.vacuum(array.uri).steps == ()
    assert "superseded-bytes" not in codes(array)
    with tiledb.open(array.uri, timestamp=20, ctx=array.ctx) as opened:
        assert dict(opened.meta.items()) == {"at": 20}
    remove_tag(array.uri, "v2")
    assert "superseded-bytes" in codes(array)
    ct.vacuum(array.uri)
    assert len(array.files("__fragments")) == 3
    assert array.answer(0, 20) == tagged[0, 20]
    assert array.answer(0, 30) != tagged[0, 30]
    remove_tag(array.uri, "v1")
    ct.vacuum(array.uri)
    assert len(array.files("__fragments")) == 1
    assert array.answer(*NOW) == tagged[NOW]


def test_days_and_moments_can_be_kept(tmp_path: pathlib.Path) -> None:
    array = EngineArray(tmp_path / "array").create(sparse=False)
    now, day = now_ms(), 86_400_000
    for place, old in ((1, (31, 30, 29)), (50, (3, 2, 1))):
        for age in old:
            array.write(now - age * day, {place: age, place + 1: age})
        array.consolidate("fragments", (now - old[0] * day, now - old[-1] * day))
    fresh = [(0, now - age * day + day // 2) for age in (3, 2, 1)]
    keep = (0, now - 31 * day)
    before = array.answers([*fresh, keep])
    report = ct.vacuum(array.uri, keep=[keep[1]], keep_days=4)
    assert [note.split(" of ")[0] for note in report.notes if "kept for " in note] == [
        f"kept for {keep[1]} ({time_text(keep[1])}): 1 fragment",
        "kept for the last 4 days: 3 fragments",
    ]
    assert array.answers([*fresh, keep]) == before
    assert len(array.files("__fragments")) == 6
    ct.vacuum(array.uri, keep_days=0.5)
    assert len(array.files("__fragments")) == 2
    assert array.answer(*keep) != before[keep]


def test_a_check_finds_a_tag_that_cannot_be_read_whole(array: EngineArray) -> None:
    add_tag(array.uri, "v1", at=20)
    assert "tag-unreadable" not in codes(array)
    array.vacuum("array_meta")
    (found,) = (item for item in ct.open_log(array.uri).check() if item.code == "tag-unreadable")
    assert "__meta/__10_40_" in found.message
    array.vacuum("fragments")
    (found,) = (item for item in ct.open_log(array.uri).check() if item.code == "tag-unreadable")
    assert "the tag v1 names 20 (1970-01-01 00:00:00.020 UTC)" in found.message
    with pytest.raises(UnreachableError):
        add_tag(array.uri, "v2", at=25)


def codes(array: EngineArray) -> set[str]:
    return {item.code for item in ct.open_log(array.uri).check()}
