"""Arrays that are read in parts: the same rows as of the whole array, however it is cut."""

from __future__ import annotations

import os
import pickle
import shutil
import tracemalloc
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from support.corpus_cases import CASES, Case
from support.engine_arrays import EngineArray
from support.handmade_array import make_sample
from support.large_arrays import make_large_array
from support.plain_columns import without_times

import chronotile as ct
from chronotile.check.capped_findings import number_told
from chronotile.errors import ChangedError
from chronotile.format.kinds import COMMITS, FRAGMENTS
from chronotile.history import array_parts, log_pieces
from chronotile.history.array_parts import divide_array
from chronotile.history.listing import LargeArrayError
from chronotile.history.read_history import read_history
from chronotile.report.fleet_page import Fleet, to_html
from chronotile.storage.store import open_store
from chronotile.tables.array_tables import SCHEMAS, ArrayTables
from chronotile.tables.large_tables import LargeTables

if TYPE_CHECKING:
    from pathlib import Path

    from chronotile.storage.store import Store

MANY = 10**6


@pytest.fixture(autouse=True)
def _small_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every time is a border, and every few lines are a piece."""
    monkeypatch.setattr(array_parts, "_EVERY", 1)
    monkeypatch.setattr(log_pieces, "PIECE", 200)


def in_parts(store: Store, key: bytes | None = None, rows: int = 2) -> LargeTables | None:
    parts = divide_array(store, rows)
    if parts is None:
        return None
    sent = pickle.loads(pickle.dumps(parts)) if store.place.scheme != "memory" else parts
    return LargeTables(parts=sent, key=key, max_findings=MANY)


def tables_in_parts(large: LargeTables) -> dict[str, pa.Table]:
    pieces: dict[str, list[pa.Table]] = {name: [one.empty_table()] for name, one in SCHEMAS.items()}
    for tables in large.stream(tuple(SCHEMAS)):
        for name, table in tables.items():
            pieces[name].append(table)
    return {name: pa.concat_tables(tables) for name, tables in pieces.items()}


def compared(name: str, table: pa.Table) -> list[dict[str, Any]]:
    rows = table.to_pylist()
    # Fragments that no window sees come last in a whole array, and findings by their severity.
    return sorted(rows, key=repr) if name in ("fragments", "findings") else rows


def assert_same(large: LargeTables, log: ct.Log) -> None:
    whole = ArrayTables(log, max_findings=MANY)
    made = tables_in_parts(large)
    for name in SCHEMAS:
        rows, wanted = compared(name, made[name]), compared(name, whole.table(name))
        if name == "arrays" and all(one.schema is None for one in log.history.schemas):
            # To find out whether it is dense, each part asks for itself.
            rows[0] |= {"open_requests": wanted[0]["open_requests"]}
        assert rows == wanted, name
    both = (large.engine_open, whole.engine_open)
    after = [one.requests_after_maintenance for one in both if one is not None]
    assert len(after) in (0, 2)
    assert len(set(after)) <= 1


@pytest.mark.parametrize("case", CASES.values(), ids=lambda case: case.name)
def test_the_corpus_in_parts_of_two(case: Case) -> None:
    log = ct.open_log(str(case.array), key=case.key)
    large = in_parts(open_store(case.array), case.key)
    history = log.history
    if large is None:
        # Damage, and fragments of the root: such an array is read as a whole.
        old = history.listing.root_fragments or history.listing.root_commits
        assert old or history.problems or any(f.code == "name-malformed" for f in log.check())
        return
    assert_same(large, log)


def test_a_store_of_objects_in_parts() -> None:
    make_sample("memory://large-tables/array")
    store = open_store("memory://large-tables/array")
    for rows in (1, 3, 100):
        large = in_parts(store, rows=rows)
        assert large is not None
        assert_same(large, ct.open_log("memory://large-tables/array"))


def test_restores_that_do_not_hold_in_parts(tmp_path: Path) -> None:
    """A merged fragment that shows what a restore hid, and a write that a delete hides."""
    array = EngineArray(tmp_path / "array").create()
    for at in (10, 20, 30):
        array.write(at, {at: at})
    array.delete(40, "a == 10")
    array.delete(50, "a == 20")
    aside = EngineArray(shutil.copytree(array.uri, tmp_path / "aside"))
    aside.consolidate("fragments")
    (delete,) = (one.name for one in ct.open_log(array.uri).view().deletes if one.t1 == 50)
    ct.undelete(array.uri, delete)
    ct.restore(array.uri, 20, at=2_000_000_000_000)
    array.write(25, {25: 25})
    shutil.copytree(aside.uri, array.uri, dirs_exist_ok=True)
    large = in_parts(open_store(array.uri))
    assert large is not None
    log = ct.open_log(array.uri)
    assert {"restore-undone", "late-write-hidden"} <= {item.code for item in log.check()}
    assert_same(large, log)


def muddled(folder: Path) -> None:
    """Files that overlap, out of order, with ignored, superseded and lost commits in them."""
    make_large_array(folder, 60, cons=3, folders=True)
    commits, cons = folder / COMMITS, sorted((folder / COMMITS).glob("*.con"))
    lines = [line for con in cons for line in con.read_bytes().split(b"\n")]
    writes = [line for line in lines if line.endswith(b".wrt") and line.startswith(b"__commits/")]
    uuid = "ab" * 16
    # All of the first file once more, backwards, with some of the others and one line twice.
    again = [*reversed(writes[:20]), *writes[30:35], writes[31]]
    (commits / f"__1600000000000_1600000000059_{uuid}_22.con").write_bytes(
        b"\n".join(again) + b"\n"
    )
    few = b"\n".join(writes[2:5]) + b"\n"
    (commits / f"__1600000000002_1600000000003_{'cd' * 8:0>32}_22.con").write_bytes(few)
    (commits / f"__1_1_{uuid}_22.ign").write_bytes(b"\n".join(writes[10:14]) + b"\n")
    names = [line.decode().rpartition("/")[2].removesuffix(".wrt") for line in writes]
    merged = names[44]
    listed = "".join(f"/{FRAGMENTS}/{name}\n" for name in names[40:44])
    (commits / f"{merged}.vac").write_text(listed)
    for name in names[5:7]:
        (folder / FRAGMENTS / name).rmdir()
    for name in names[20:23]:
        (commits / f"{name}.wrt").touch()
    shutil.copytree(folder / FRAGMENTS / names[0], folder / FRAGMENTS / f"__7_7_{uuid}_22")
    (folder / FRAGMENTS / "stray").mkdir()
    (commits / f"__{2**64 - 1}_{2**64 - 1}_{uuid}_22.wrt").touch()
    (commits / "no-name.wrt").touch()
    # An array that was changed just now is listed twice if a fragment is lost.
    for changed in (commits, folder / FRAGMENTS):
        os.utime(changed, (1, 1))


@pytest.mark.parametrize("rows", [1, 7, 1000])
def test_an_array_in_which_nothing_is_in_order(tmp_path: Path, rows: int) -> None:
    muddled(tmp_path / "array")
    log = ct.open_log(tmp_path / "array")
    codes = {item.code for item in log.check(log_only=True)}
    assert codes >= {"con-superseded", "commit-without-fragment", "fragment-without-commit"}
    assert codes >= {"con-name-range", "con-blocks-consolidation", "future-commit"}
    large = in_parts(open_store(tmp_path / "array"), rows=rows)
    assert large is not None
    assert_same(large, log)
    # `commits` is in order of time, as of a whole array; a reader of some parts gets their rows.
    each = [large.of_parts(one, one + 1, "commits") for one in range(len(large.parts))]
    rows_of_parts = pa.concat_tables([table for tables in each for table in tables])
    wanted = without_times(log.commits())
    assert rows_of_parts["name"].to_pylist() == wanted["name"].to_pylist()


def test_a_tile_larger_than_a_piece_and_its_offset(tmp_path: Path) -> None:
    make_large_array(tmp_path / "array", 10, cons=2)
    log = ct.open_log(tmp_path / "array")
    large = in_parts(open_store(tmp_path / "array"), rows=3)
    assert large is not None
    made = tables_in_parts(large)["commits"].to_pylist()
    deletes = [row for row in made if row["kind"] == "delete"]
    view = {one.name: one for one in log.view(0, 2**64 - 1).deletes}
    assert [row["offset"] for row in deletes] == [view[row["name"]].offset for row in deletes]
    assert all(row["offset"] > 200 for row in deletes)


def test_many_findings_of_one_code_are_counted(tmp_path: Path) -> None:
    make_large_array(tmp_path / "array", 500, cons=1)
    store = open_store(tmp_path / "array")
    parts = divide_array(store, rows=40)
    assert parts is not None
    large = LargeTables(parts=parts, max_findings=10)
    small = ArrayTables(ct.open_log(tmp_path / "array"), max_findings=10)
    for made in (tables_in_parts(large), {n: small.table(n) for n in SCHEMAS}):
        assert made["arrays"]["errors"].to_pylist() == [500]
        lost = [r for r in made["findings"].to_pylist() if r["code"] == "commit-without-fragment"]
        assert len(lost) == 11
        told = [number_told(row["path"], row["message"]) for row in lost]
        assert told == [1] * 10 + [490]
        page = to_html(Fleet("r", made, made_ms=0))
        assert "500 errors" in page
        assert "and 500 more" in page  # 499 of them, and a warning


def test_a_damaged_file_is_read_as_a_whole(tmp_path: Path) -> None:
    make_large_array(tmp_path / "array", 20, cons=1)
    (con,) = (tmp_path / "array" / COMMITS).glob("*.con")
    con.write_bytes(con.read_bytes()[:-3])
    assert divide_array(open_store(tmp_path / "array")) is None


def test_a_file_that_goes_meanwhile_is_a_change(tmp_path: Path) -> None:
    make_large_array(tmp_path / "array", 20, cons=2)
    large = in_parts(open_store(tmp_path / "array"), rows=4)
    assert large is not None
    rows = large.stream(("commits",))
    next(rows)
    for con in (tmp_path / "array" / COMMITS).glob("*.con"):
        con.unlink()
    with pytest.raises(ChangedError, match="found its commit files changed"):
        list(rows)


def test_an_array_is_large_by_its_names_or_by_its_records(tmp_path: Path) -> None:
    make_large_array(tmp_path / "array", 100, cons=1)
    store = open_store(tmp_path / "array")
    assert len(read_history(store, largest=10_000).table) == 101
    with pytest.raises(LargeArrayError, match="found 8"):
        read_history(store, largest=5_000)
    for number in range(30):
        (tmp_path / "array" / COMMITS / f"__1_1_{number:032x}_22.wrt").touch()
    with pytest.raises(LargeArrayError, match="at most 12 names"):
        read_history(store, largest=1_000)


def test_the_search_for_parts_holds_no_column(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Four times the commits take about the same memory: of their times a few are kept."""
    monkeypatch.setattr(array_parts, "_EVERY", 64)
    monkeypatch.setattr(log_pieces, "PIECE", 1 << 18)
    peaks = []
    for commits in (100_000, 400_000):
        array = tmp_path / f"array-{commits}"
        make_large_array(array, commits)
        divide_array(open_store(array))  # what is kept for every array, once
        tracemalloc.start()
        assert divide_array(open_store(array)) is not None
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
    assert peaks[1] - peaks[0] < 1 << 20, "the times of all would be 2.4 MB more"
