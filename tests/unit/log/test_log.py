"""The log as users hold it: its tables, keys, pickles, threads, and what pruning risks."""

from __future__ import annotations

import copy
import os
import pickle
import re
import shutil
import struct
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from corpus.recipes.scene import KEY
from support.con_files import encode_con
from support.corpus_cases import CASES, expected, log_of
from support.engine_arrays import EngineArray
from support.groups import member, put_list
from support.typed_predicates import meaning, meaning_of_json, value_meaning

import chronotile as ct
from chronotile.cli import main
from chronotile.conditions.codec import encode
from chronotile.conditions.tree import Compare, Op
from chronotile.dataset.open_dataset import dataset_at, member_rows
from chronotile.errors import (
    ArrayNotFoundError,
    BadTimeError,
    KeyNeededError,
    WrongKeyError,
)
from chronotile.fleet.array_tables import ArrayTables
from chronotile.format import tiles
from chronotile.format.commit_files import ConRecord
from chronotile.format.tiles import encode as encode_tile
from chronotile.storage.store import open_store

if TYPE_CHECKING:
    from collections.abc import Iterator

    from chronotile.log import Log

SECRET = [case for case in CASES if expected(case)["key"]]


def said(log: Log) -> list[object]:
    ends = (0, 15, 25, 40, 10_000)
    views = [log.view(0, end) for end in ends]
    return [*(view.to_dict() for view in views), *(view.explain() for view in views)]


def test_nothing_there(tmp_path: Path) -> None:
    for place in (tmp_path, tmp_path / "none"):
        with pytest.raises(ArrayNotFoundError):
            ct.open_log(str(place))


def test_windows_that_are_none() -> None:
    log = log_of("sparse-loose")
    for window in ((-1, 5), (6, 5), (0, 1 << 64), (0, "then"), ("now", 5)):
        with pytest.raises(
            BadTimeError, match=r"is not a time|is neither a time nor a tag|the window ends before"
        ):
            log.view(*window)
    assert log.view().end > 1_700_000_000_000
    assert len(log.view(5, 5).fragments) == 0


def test_json_form() -> None:
    log = log_of("sparse-everything-v22")
    said = log.view(0, 39).to_dict()
    assert list(said) == ["array", "start", "end", "schema", "fragments", "deletes", "updates"]
    fragment, _ = said["fragments"]
    assert list(fragment) == ["name", "t1", "t2", "version", "partial", "source"]
    assert (fragment["t1"], fragment["t2"], fragment["version"]) == (10, 20, 22)
    first, _ = said["deletes"]
    assert first["text"] == "a < 3"
    assert first["source"].endswith(".con")
    value = {"field": "a", "value": 3, "raw": "03000000"}
    assert first["stored"] == {"op": "ge", **value}
    assert first["predicate"] == {"op": "lt", **value}
    data = (Path(log.array) / first["source"]).read_bytes()
    assert data[first["offset"] :].startswith(struct.pack("<I", 22))


@pytest.mark.parametrize("case", CASES)
def test_commits(case: str) -> None:
    log = log_of(case)
    rows = log.commits().to_pylist()
    assert [(row["t1"], row["t2"]) for row in rows] == sorted((r["t1"], r["t2"]) for r in rows)
    array = Path(log.array)
    for row in rows:
        assert (array / row["source"]).is_file()
        assert row["uuid"] in row["name"]
        assert (row["offset"] is None) == (row["kind"] == "write")
    loose = {
        (row["name"], Path(row["source"]).suffix)
        for row in rows
        if row["loose"] and not row["source"].endswith(".tdb")
    }
    misnamed = {Path(one.path).name for one in log.history.problems if one.kind == "name"}
    files = [*array.glob("__commits/*"), *array.glob("*.ok")]
    assert loose == {
        (path.stem, path.suffix)
        for path in files
        if path.suffix in (".wrt", ".ok", ".del", ".upd") and path.name not in misnamed
    }


@pytest.mark.parametrize("case", [case for case in CASES if not expected(case)["derived"]])
def test_what_was_asked_for_is_told(case: str) -> None:
    """Each delete and update of the corpus, with the predicate and values that its author typed."""
    log = log_of(case)
    view = log.view(0, (1 << 64) - 1)
    commits = {one.name: one for one in (*view.deletes, *view.updates)}
    asked = expected(case)["commits"]
    types = {field["name"]: field["type"] for field in expected(case)["fields"]}
    assert commits.keys() == {one["name"] for one in asked}
    for one in asked:
        found = commits[one["name"]]
        told = found.to_dict()
        assert (found.t1, found.t2) == (one["t"], one["t"])
        assert type(found).__name__.lower() == one["kind"]
        typed = meaning(one["predicate"], types)
        assert meaning(found.text, types) == typed
        assert meaning_of_json(told["predicate"], types) == typed
        assert meaning_of_json(told["stored"], types) != typed
        values = [(value["field"], value["value"]) for value in told.get("values", ())]
        assert [(name, value_meaning(value, types[name])) for name, value in values] == [
            (value["field"], value_meaning(value["value"], types[value["field"]]))
            for value in one["values"]
        ]


@pytest.mark.parametrize("case", SECRET)
def test_without_the_key_all_but_the_conditions_is_told(case: str) -> None:
    secret, log = log_of(case), ct.open_log(log_of(case).array)
    assert log.history.dense == secret.history.dense
    assert {one.kind for one in log.history.problems} == {"encrypted"}
    for window in expected(case)["windows"]:
        ours, full = (one.view(window["start"], window["end"]) for one in (log, secret))
        assert tuple(ours.fragments) == tuple(full.fragments)
        assert ours.schema == full.schema
        assert [d.name for d in ours.deletes] == [d.name for d in full.deletes]
        assert [u.name for u in ours.updates] == [u.name for u in full.updates]
        told = ours.to_dict()
        for delete in (*told["deletes"], *told["updates"]):
            assert delete["stored"] is None
            assert "expected the array's key" in delete["error"]
        for delete in (*ours.deletes, *ours.updates):
            with pytest.raises(KeyNeededError):
                _ = delete.predicate
        hidden = {one.name for one in ours.explain() if one.reason == "unreadable"}
        assert hidden >= {one["name"] for one in told["deletes"]}
    assert log.lifelines().equals(secret.lifelines())
    assert log.commits().equals(secret.commits())


@pytest.mark.parametrize("case", SECRET)
def test_a_wrong_key(case: str) -> None:
    for key in ("another key of 32 characters ....", b"\0" * 32, "too short"):
        with pytest.raises(WrongKeyError):
            ct.open_log(log_of(case).array, key=key)


def test_a_key_that_nobody_asked_for() -> None:
    plain = log_of("sparse-everything-v22")
    assert said(ct.open_log(plain.array, key=KEY)) == said(plain)


def test_no_key_in_what_is_printed() -> None:
    log = log_of(SECRET[0])
    view = log.view()
    for shown in (log, view, log.history, log.rules, view.deletes, tuple(view.deletes)):
        assert KEY not in repr(shown)


@pytest.mark.parametrize("case", CASES)
def test_pickles(case: str) -> None:
    log = log_of(case)
    view = log.view(0, 40)
    before = (view.to_dict(), view.explain(), len(view.fragments))
    for again in (pickle.loads(pickle.dumps(view)), copy.deepcopy(view)):
        assert (again.to_dict(), again.explain(), len(again.fragments)) == before
    assert said(pickle.loads(pickle.dumps(log))) == said(log)
    assert tuple(pickle.loads(pickle.dumps(tuple(view.deletes)))) == tuple(view.deletes)


def test_logs_can_be_compared_and_be_keys() -> None:
    """Each is one of a kind: another of the same array is another key."""
    log, other = log_of("sparse-everything-v22"), ct.open_log(log_of("sparse-everything-v22").array)
    ours = (log, log.view(0, 5), log.rules, log.history)
    theirs = (other, other.view(0, 5), other.rules, other.history)
    known = dict(zip((*ours, *theirs), range(8), strict=True))
    assert [known[one] for one in (*ours, *theirs)] == list(range(8))


@pytest.mark.parametrize("case", ["sparse-everything-v22", "secret-con", "con-many-deletes"])
def test_one_log_in_many_threads(case: str) -> None:
    right = said(log_of(case))
    with ThreadPoolExecutor(16) as pool:
        for _ in range(5):
            log = ct.open_log(log_of(case).array, key=expected(case)["key"])
            answers = pool.map(lambda _, log=log: said(log), range(16))
            assert all(answer == right for answer in answers)


OLD_AND_NEW = [case for case in CASES if case.startswith(("upgraded", "grown", "era", "old"))]


@pytest.mark.parametrize("case", OLD_AND_NEW)
def test_old_layouts(case: str) -> None:
    view = log_of(case).view(0, (1 << 64) - 1)
    array = Path(view.history.array)
    for one in view.fragments:
        new = (array / "__fragments" / one.name).is_dir()
        assert new != (array / one.name).is_dir()
        assert new == (one.version >= 12)


def test_old_and_new_in_one_array() -> None:
    versions = {one.version for one in log_of("upgraded").view(0, (1 << 64) - 1).fragments}
    assert versions == {8, 22}


def test_old_commits_in_a_con(tmp_path: Path) -> None:
    shutil.copytree(log_of("upgraded").array, tmp_path / "array")
    before = ct.open_log(str(tmp_path / "array"))
    marks = sorted((tmp_path / "array").glob("*.ok"))
    assert marks
    con = tmp_path / "array" / "__commits" / f"__10_40_{'c' * 32}_22.con"
    con.write_bytes(encode_con(ConRecord(mark.name, None) for mark in marks))
    for mark in marks:
        mark.unlink()
    after = ct.open_log(str(tmp_path / "array"))
    for end in (5, 10, 25, 40, 50, 10_000):
        ours, theirs = before.view(0, end), after.view(0, end)
        assert [one.name for one in ours.fragments] == [one.name for one in theirs.fragments]
    held = {one.source for one in after.view(0, 40).fragments}
    assert held == {f"__commits/{con.name}"}


@pytest.fixture
def misnamed_con(tmp_path: Path) -> EngineArray:
    """An array with a `.con` whose name does not cover what it holds (F2)."""
    array = EngineArray(tmp_path / "array").create()
    for at in (10, 40, 20):
        array.write(at, {at // 10: at})
        if at == 40:
            array.consolidate("fragments")
            array.vacuum("fragments")
    # Now (10, 40) comes before (20, 20): the engine calls their `.con` (10, 20).
    array.consolidate("commits")
    array.vacuum("commits")
    return array


def test_a_con_is_read_whatever_its_name(misnamed_con: EngineArray) -> None:
    (con,) = (path.name for path in (Path(misnamed_con.uri) / "__commits").glob("*.con"))
    assert con.startswith("__10_20_")
    window = (25, 50)
    view = ct.open_log(misnamed_con.uri).view(*window)
    seen = [(one.t1, one.t2) for one in view.fragments]
    assert seen == [(10, 40)]
    assert misnamed_con.rows(*window) == {4: 40}  # the engine reads every `.con`, as we do


def test_a_delete_in_two_files_is_in_force_once(tmp_path: Path) -> None:
    """Loose, and in two `.con` files."""
    array = EngineArray(tmp_path / "array").create()
    array.write(10, {1: 1, 2: 2})
    array.delete(20, "a == 1")
    commits = Path(array.uri) / "__commits"
    (delete,) = commits.glob("*.del")
    record = ConRecord(f"__commits/{delete.name}", delete.read_bytes())
    for digit in "ab":
        (commits / f"__20_20_{digit * 32}_22.con").write_bytes(encode_con([record]))
    log = ct.open_log(array.uri)
    assert [one.text for one in log.view().deletes] == ["a == 1"]
    assert log.commits().num_rows == 4
    assert array.rows(0, 100) == {2: 2}


def test_a_commit_in_a_con_and_in_a_loose_file_counts_once(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """In every place that tells a number of commits; one that an `.ign` took out counts nowhere."""
    array, day = EngineArray(tmp_path / "array").create(), 86_400_000
    for at in range(4):
        array.write(1_700_000_000_000 + at * day, {at: at})
    array.consolidate("commits")

    put_list(tmp_path, 1, member("array"))

    def counted() -> tuple[str, int, int, list[tuple[str, int]]]:
        log = ct.open_log(array.uri)
        (row,) = ArrayTables(log).table("arrays").to_pylist()
        (in_group,) = member_rows(dataset_at(open_store(str(tmp_path))))
        assert main(["log", array.uri]) == 0
        headline = capsys.readouterr().out.partition(";")[0].rpartition(", ")[2]
        assert main(["report", array.uri, "-o", str(tmp_path / "timeline_page.html")]) == 0
        page = (tmp_path / "timeline_page.html").read_text()
        (heat,) = re.findall(r"(\d+) commits?, most of them", page)
        spans = sorted((span.kind, len(span.times)) for span in log.picture(0).spans)
        assert repr(log).endswith(f": {row['commits']} commits>")
        assert f"<th>commits</th><td>{row['commits']}</td>" in log._repr_html_()
        assert int(heat) == row["commits"] == in_group.commits
        return headline, row["commits"], row["loose_commits"], spans

    assert counted() == (
        "4 commits (4 are stored twice: in a .con and in their own files)",
        4,
        4,
        [("con", 4)],
    )
    array.vacuum("commits")
    assert counted() == ("4 commits", 4, 0, [("con", 4)])
    array.consolidate("fragments")
    assert counted() == ("5 commits", 5, 1, [("con", 4)])
    array.consolidate("commits")  # a second `.con`, with all of them
    array.vacuum("fragments")
    assert counted() == (
        "1 commit (1 is stored twice: in a .con and in its own file)",
        1,
        1,
        [("con", 4), ("con", 5), ("ign", 4)],
    )


@pytest.mark.parametrize("key", [None, KEY.encode()])
def test_a_delete_that_we_write_is_read_by_the_engine(tmp_path: Path, key: bytes | None) -> None:
    array = EngineArray(tmp_path / "array", key=KEY if key else None).create()
    array.write(10, {1: 1, 2: 2, 3: 3})
    stored = Compare(field="a", op=Op.GE, value=struct.pack("<i", 3))
    name = f"__20_20_{'0' * 32}_22.del"
    tile = encode_tile(encode(stored), version=22, key=key)
    (Path(array.uri) / "__commits" / name).write_bytes(tile)
    assert array.rows(0, 100) == {3: 3}
    (delete,) = ct.open_log(array.uri, key=key).view().deletes
    assert delete.text == "a < 3"


def test_a_moved_array_says_the_same(tmp_path: Path) -> None:
    for case in ("sparse-consolidated-v16", "dense-consolidated-v16", "bad-vac-absolute"):
        shutil.copytree(log_of(case).array, tmp_path / case)
        moved = ct.open_log(str(tmp_path / case))
        for one, other in zip(said(moved), said(log_of(case)), strict=True):
            if isinstance(one, dict) and isinstance(other, dict):
                assert {**one, "array": ""} == {**other, "array": ""}
            else:
                assert one == other


def test_tiles_are_opened_when_asked_for_and_equal_ones_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = EngineArray(tmp_path / "array").create()
    for at in (10, 20, 30):
        made.delete(at, "a < 12345")
    made.delete(40, "a < 54321")
    opened: list[bytes] = []
    decode = tiles.decode

    def counted(data: bytes, where: str, **more: Any) -> tiles.Tile:
        opened.append(data)
        return decode(data, where, **more)

    log = ct.open_log(made.uri)
    monkeypatch.setattr(tiles, "decode", counted)
    deletes = log.view().deletes
    assert len(log.commits()) == len(deletes) == 4
    assert opened == []
    assert [delete.text for delete in deletes] == ["a < 12345"] * 3 + ["a < 54321"]
    assert len(opened) == len(set(opened)) == 2


def test_no_file_is_asked_for_its_size_to_list_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A million commit files are not a million calls."""

    class Bare:
        """An entry of a folder that cannot tell more than its name and what it is."""

        def __init__(self, entry: os.DirEntry[str]) -> None:
            self.name, self.is_file, self.is_dir = entry.name, entry.is_file, entry.is_dir

    made = EngineArray(tmp_path / "array").create()
    made.live()
    expected = ct.open_log(made.uri).commits()
    scan = os.scandir

    @contextmanager
    def scandir(folder: int) -> Iterator[Iterator[Bare]]:
        with scan(folder) as entries:
            yield map(Bare, entries)

    monkeypatch.setattr(os, "scandir", scandir)
    assert ct.open_log(made.uri).commits().equals(expected)
