"""Consolidation of commits, on arrays of every era and kind in the corpus.

The engine is asked before and after; the corpus supplies what random histories do not: old
layouts, encryption, updates, enumerations, ignored deletes.
"""

from __future__ import annotations

import random
from typing import TYPE_CHECKING

import numpy as np
import pytest
from support.corpus_cases import CASES, Case
from support.engine_answers import announced, answers, cuts
from support.engine_arrays import EngineArray
from support.ledger import Ledger, read_ledger

from chronotile import consolidate, open_log, vacuum
from chronotile.array import Array
from chronotile.change.consolidate import wanted_order, wanted_rows
from chronotile.check.findings import RefusedError
from chronotile.errors import ChronotileError
from chronotile.format.commit_files import (
    ConRecord,
    decode_con,
    encode_lines,
    encode_record,
    later_name,
    rank,
)
from chronotile.history.redundant_con_files import commit_ids, coverage, encode_rows
from chronotile.storage.store import open_store

if TYPE_CHECKING:
    import pathlib

    from chronotile.history.commit_table import CommitTable
    from chronotile.history.read_history import History


REFUSED = {
    "bad-backwards",
    "bad-con-line",
    "bad-con-tile",
    "bad-empty-delete",
    "bad-name",
    "bad-tile",
    "bad-vac-absolute",
}
"""Cases whose log is damaged: maintenance must not touch them."""
GONE = "bad-no-fragment"
"""A case whose log is sound, but a fragment is gone: nothing is removed from it."""


@pytest.mark.parametrize("case", CASES.values(), ids=lambda case: case.name)
def test_every_era_reads_the_same(case: Case, tmp_path: pathlib.Path) -> None:
    uri = case.copy_to(tmp_path)
    windows = [(window["start"], window["end"]) for window in case.expected["windows"]]
    before = answers(uri, case, windows)
    names = sorted(path for path in (tmp_path / "array").rglob("*"))
    if case.name in REFUSED:
        for upkeep in (consolidate, vacuum):
            with pytest.raises(RefusedError) as refused:
                upkeep(uri)
            assert refused.value.findings
        assert sorted(path for path in (tmp_path / "array").rglob("*")) == names
        return
    lost: list[tuple[int, int]] = []
    # Without the key: no tile needs opening to consolidate.
    key = case.expected["key"]
    if case.expected["format"] >= 12:
        consolidate(uri)
    elif any(name.suffix == ".ok" for name in names):
        with pytest.raises(RefusedError, match="version 12 or later"):
            consolidate(uri)
    else:
        assert not consolidate(uri).steps, "its fragments need no commits"
    assert answers(uri, case, windows) == before, "consolidated"
    if case.name == GONE:
        with pytest.raises(RefusedError, match="commit-without-fragment"):
            vacuum(uri, key=key)
        return
    lost += announced(vacuum(uri, key=key).notes)
    kept = [window for window in windows if not any(cuts(window, times) for times in lost)]
    assert answers(uri, case, kept) == {window: before[window] for window in kept}, "vacuumed"
    assert not vacuum(uri, key=key).steps


def test_enough_of_the_corpus_is_maintained() -> None:
    assert len(CASES) - len(REFUSED) > 100
    assert CASES.keys() >= REFUSED


@pytest.fixture
def array(tmp_path: pathlib.Path) -> EngineArray:
    made = EngineArray(tmp_path / "array").create()
    made.write(9, {1: 1})
    made.delete(100, "a == 1")
    made.write(10, {2: 2})
    return made


def only_con(array: EngineArray) -> pathlib.Path:
    (name,) = array.files("__commits", "*.con")
    return array.commits_folder / name


def test_order_and_name_are_by_numbers(array: EngineArray) -> None:
    report = consolidate(array.uri)
    con = only_con(array)
    assert con.name.startswith("__9_100_")
    records = decode_con(con.read_bytes(), con.name)
    assert [record.uri.split("_")[4] for record in records] == ["9", "10", "100"]
    assert records[2].tile == next(array.commits_folder.glob("*.del")).read_bytes()
    (step,) = report.steps
    assert (step.op, step.size, step.reason) == ("put", con.stat().st_size, "2 writes, 1 delete")


def test_nothing_is_removed_and_nothing_is_done_twice(array: EngineArray) -> None:
    before = set(array.files("__commits"))
    consolidate(array.uri)
    after = set(array.files("__commits"))
    assert before < after
    assert consolidate(array.uri).steps == ()
    assert set(array.files("__commits")) == after


def test_a_dry_run_changes_nothing(array: EngineArray) -> None:
    before = array.files("__commits")
    report = consolidate(array.uri, dry_run=True)
    assert report.dry_run
    assert [step.op for step in report.steps] == ["put"]
    assert report.steps[0].size
    assert array.files("__commits") == before


def test_a_delete_is_taken_from_the_con_that_holds_it(array: EngineArray) -> None:
    consolidate(array.uri)
    tile = next(array.commits_folder.glob("*.del")).read_bytes()
    vacuum(array.uri, loose_deletes=True)
    assert array.files("__commits", "*.del") == []
    array.write(200, {3: 3})
    consolidate(array.uri)
    vacuum(array.uri)
    con = only_con(array)
    records = decode_con(con.read_bytes(), con.name)
    assert [record.tile for record in records if record.tile is not None] == [tile]


def test_ignored_writes_are_left_out(array: EngineArray) -> None:
    consolidate(array.uri)
    vacuum(array.uri)
    array.delete_fragments(10, 10)
    assert len(array.files("__commits", "*.ign")) == 1
    before = array.answers([(0, 9), (0, 50), (0, 200)])
    consolidate(array.uri)
    assert array.answers(before) == before
    vacuum(array.uri)
    assert array.files("__commits", "*.ign") == []
    con = only_con(array)
    assert len(decode_con(con.read_bytes(), con.name)) == 2
    assert array.answers(before) == before


def test_an_ignored_write_that_is_loose_stays_loose(array: EngineArray) -> None:
    consolidate(array.uri)
    (loose,) = array.files("__commits", "__10_*.wrt")
    ign = array.commits_folder / f"__10_10_{'0' * 32}_22.ign"
    ign.write_text(f"__commits/{loose}\n")
    before = array.answers([(0, 9), (0, 50), (0, 200)])
    report = consolidate(array.uri)
    assert any("1 write left loose" in note for note in report.notes)
    vacuum(array.uri)
    assert array.files("__commits", "*.wrt") == [loose]
    assert array.answers(before) == before


def test_an_ignored_delete_is_kept(array: EngineArray) -> None:
    consolidate(array.uri)
    (loose,) = array.files("__commits", "*.del")
    vacuum(array.uri)
    ign = array.commits_folder / f"__100_100_{'0' * 32}_22.ign"
    ign.write_text(f"__commits/{loose}\n")
    before = array.answers([(0, 9), (0, 50), (0, 200)])
    assert any(item.code == "delete-ignored" for item in open_log(array.uri).check())
    consolidate(array.uri)
    vacuum(array.uri)
    assert not ign.exists()
    assert array.answers(before) == before
    assert len(open_log(array.uri).view(0, 200).deletes) == 1


def test_the_new_con_is_later_than_all_others(array: EngineArray) -> None:
    for at in range(300, 306):
        array.write(at, {at % 90: at})
        consolidate(array.uri)
    ledger = read_ledger(open_log(array.uri).history)
    sizes = [len(ledger.cons[path]) for path in ledger.later_first]
    assert sizes == sorted(sizes, reverse=True)
    assert set(ledger.superseded()) == set(ledger.later_first[1:])


def test_names_rise_even_at_the_end() -> None:
    top = f"__commits/__1_1_{'f' * 31}e_22.con"
    uri = f"__commits/__1_1_{'0' * 32}_22.wrt"
    assert rank(f"{later_name([uri], [top], 22)}.con") > rank(top)


def test_an_encrypted_array_needs_no_key(tmp_path: pathlib.Path) -> None:
    key = "0123456789abcdef0123456789abcdef"
    array = EngineArray(tmp_path / "array", key=key).create()
    array.write(10, {1: 1, 2: 2})
    array.delete(20, "a == 1")
    array.write(30, {3: 3})
    before = array.answers([(0, 15), (0, 25), (0, 40)])
    assert len(before[(0, 25)]) == 1
    consolidate(array.uri)
    vacuum(array.uri)
    assert [name[-4:] for name in array.files("__commits")] == [".con", ".del"]
    assert array.answers(before) == before
    codes = {item.code for item in open_log(array.uri).check()}
    assert "tile-encrypted" in codes


def test_a_con_that_cannot_be_written_changes_nothing(array: EngineArray) -> None:
    def full(operation: str, path: str) -> None:
        if operation == "put":
            raise ChronotileError(path, "the disk is full")

    before = array.files("__commits")
    with pytest.raises(ChronotileError, match="full"):
        Array(open_store(array.uri, on_operation=full)).consolidate()
    assert array.files("__commits") == before


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("updates", [False, True])
def test_the_fast_writer_writes_what_the_slow_one_does(case: str, updates: bool) -> None:
    """Columns against one record at a time, by way of the ledger."""
    history = open_log(str(CASES[case].array), CASES[case].key).history
    try:
        ledger = read_ledger(history)
    except RefusedError:
        return
    found: dict[str, bytes | None] = {}
    for path in ledger.later_first:
        for uri, tile in ledger.cons[path].items():
            if ledger.counts(uri):
                found.setdefault(uri, tile)
    for uri, tile in ledger.loose.items():
        if ledger.counts(uri) and (updates or not uri.endswith(".upd")):
            found.setdefault(uri, tile)
    records = sorted((ConRecord(uri, tile) for uri, tile in found.items()), key=wanted_order)
    rows = wanted_rows(history.table, updates=updates)
    assert encode_rows(history.table, rows) == b"".join(map(encode_record, records))


@pytest.mark.parametrize("seed", range(12))
def test_the_fast_writer_on_long_runs(array: EngineArray, seed: int) -> None:
    """Runs that are copied as they stand: of any length, from several files, cut anywhere."""
    chance = random.Random(seed)
    times = iter(range(1_000, 10_000))
    deletes = [path.read_bytes() for path in array.commits_folder.glob("*.del")]
    for _ in range(3):
        records = []
        for _ in range(chance.randrange(1, 9)):
            records += [record(next(times), ".wrt", chance) for _ in range(chance.randrange(90))]
            records += [
                record(next(times), ".del", chance, tile)
                for tile in deletes * chance.randrange(2 + seed % 2)
            ]
        if chance.random() < 0.3:
            chance.shuffle(records)
        name = f"__1_1_{chance.randbytes(16).hex()}_22.con"
        (array.commits_folder / name).write_bytes(b"".join(map(encode_record, records)))
        (array.folder / record(next(times), ".wrt", chance).uri).touch()
    table = open_log(array.uri).history.table
    for kept in (1.0, 0.99, 0.9, 0.3):
        rows = np.array([r for r in range(len(table)) if chance.random() < kept], np.int64)
        wanted = [ConRecord(table.uri(row), held(table, row)) for row in rows.tolist()]
        assert encode_rows(table, rows) == b"".join(map(encode_record, wanted))


def record(
    when: int, extension: str, chance: random.Random, tile: bytes | None = None
) -> ConRecord:
    uuid = chance.randbytes(16).hex()
    return ConRecord(f"__commits/__{when}_{when}_{uuid}_22{extension}", tile)


def held(table: CommitTable, row: int) -> bytes | None:
    return table.tile(row)[0] if row in table.condition_rows else None


@pytest.mark.parametrize("case", CASES)
def test_columns_say_what_the_ledger_says(case: str) -> None:
    history = open_log(str(CASES[case].array), CASES[case].key).history
    try:
        ledger = read_ledger(history)
    except RefusedError:
        return
    check_holdings(history, ledger)


@pytest.mark.parametrize("seed", range(60))
def test_columns_say_what_the_ledger_says_of_many_cons(array: EngineArray, seed: int) -> None:
    """Commits in several files, ignored ones, tiles that differ, names alike but for their end."""
    chance = random.Random(seed)
    (tile,) = (path.read_bytes() for path in array.commits_folder.glob("*.del"))
    uuids = [f"{'0' * 8}{n:024x}" for n in range(3)]
    known = [
        ConRecord(f"__commits/__{when}_{when}_{uuid}_22{ext}", None if ext == ".wrt" else tile)
        for when in range(1, 4 + seed % 9)
        for uuid in uuids[: 1 + seed % 3]
        for ext in (".wrt", ".del")
    ]
    for number in range(chance.randrange(1, 6)):
        chosen = [one for one in known if chance.random() < chance.choice((0.2, 0.7, 1))]
        changed = [
            one._replace(tile=one.tile + b"\0") if one.tile and chance.random() < 0.1 else one
            for one in chosen
        ]
        name = f"__{number}_{number}_{chance.randbytes(16).hex()}_22.con"
        (array.commits_folder / name).write_bytes(b"".join(map(encode_record, changed)))
    for number in range(chance.randrange(3)):
        name = f"__{number}_{number}_{chance.randbytes(16).hex()}_22.ign"
        lines = [one.uri for one in known if chance.random() < 0.4]
        (array.commits_folder / name).write_bytes(encode_lines(lines))
    history = open_log(array.uri).history
    check_holdings(history, read_ledger(history))


def check_holdings(history: History, ledger: Ledger) -> None:
    files = coverage(history.table)
    gone = files.superseded()
    assert gone == ledger.superseded()
    paths = [f"__commits/{name}" for name in history.listing.non_writes if name.endswith(".ign")]
    wanted = ledger.without(cons=gone).free_ignores(paths)
    assert tuple(files.free_ignores(paths, gone)) == wanted
    assert {path: files.records(path) for path in ledger.cons} == ledger.cons
    assert {path: files.uris(path) for path in ledger.cons} == {
        path: frozenset(held) for path, held in ledger.cons.items()
    }
    loose = np.flatnonzero(history.table.loose & ~history.table.implied)
    covered = {history.table.uri(row): holder for row, holder in files.holders(loose)}
    assert covered == {
        uri: holders[0]
        for uri, tile in ledger.loose.items()
        if ledger.counts(uri)
        and (holders := [p for p in ledger.kept_first if (uri, tile) in ledger.cons[p].items()])
    }
    ids = commit_ids(history.table)
    texts = [
        (history.table.uri(row), held(history.table, row)) for row in range(len(history.table))
    ]
    assert len(set(zip(ids.tolist(), texts, strict=True))) == len(set(texts)) == len({*ids})
