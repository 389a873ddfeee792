"""The tables of an array with many commits: they leave in batches, and the rows are the same."""

from __future__ import annotations

import os
import shutil
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest
from support.corpus_cases import CASES, Case
from support.large_arrays import make_large_array

import chronotile as ct
from chronotile.check.findings import number_of
from chronotile.fleet import array_tables
from chronotile.fleet.array_tables import SCHEMAS, ArrayTables
from chronotile.format.kinds import COMMITS, FRAGMENTS
from chronotile.history import missing_fragments
from chronotile.show.fleet_page import FleetPage, to_html

if TYPE_CHECKING:
    from pathlib import Path


def assert_same_in_batches(log: ct.Log, rows: int, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = ArrayTables(log)
    tables = {name: whole.table(name) for name in SCHEMAS}
    with monkeypatch.context() as patch:
        patch.setattr(array_tables, "BATCH_ROWS", rows)
        for name, table in tables.items():
            batches = [*whole.batches(name)]
            assert pa.concat_tables([table.slice(0, 0), *batches]).equals(table), name
            if name == "commits":
                assert len(batches) == -(-len(table) // rows)
                assert all(len(batch) <= rows for batch in batches)


@pytest.mark.parametrize("case", CASES.values(), ids=lambda case: case.name)
def test_the_corpus_in_batches_of_two(case: Case, monkeypatch: pytest.MonkeyPatch) -> None:
    assert_same_in_batches(ct.open_log(str(case.array), key=case.key), 2, monkeypatch)


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
    (commits / f"__1_1_{uuid}_22.ign").write_bytes(b"\n".join(writes[10:14]) + b"\n")
    names = [line.decode().rpartition("/")[2].removesuffix(".wrt") for line in writes]
    listed = "".join(f"/{FRAGMENTS}/{name}\n" for name in names[40:44])
    (commits / f"{names[44]}.vac").write_text(listed)
    for name in names[5:7]:
        (folder / FRAGMENTS / name).rmdir()
    for name in names[20:23]:
        (commits / f"{name}.wrt").touch()
    shutil.copytree(folder / FRAGMENTS / names[0], folder / FRAGMENTS / f"__7_7_{uuid}_22")
    (folder / FRAGMENTS / "stray").mkdir()
    # An array that was changed just now is listed twice if a fragment is lost.
    for changed in (commits, folder / FRAGMENTS):
        os.utime(changed, (1, 1))


@pytest.mark.parametrize("rows", [1, 7, 1000])
def test_an_array_in_which_nothing_is_in_order(
    tmp_path: Path, rows: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    muddled(tmp_path / "array")
    monkeypatch.setattr(missing_fragments, "_STEP", rows)
    log = ct.open_log(tmp_path / "array")
    listing, table = log.history.listing, log.history.table
    committed = {table.name(row) for row in range(len(table))}
    assert {*log.rules.uncommitted} == {*listing.fragments} - committed
    assert len(log.rules.uncommitted) == 2
    lost = {table.name(row) for row in log.history.lost.nonzero()[0].tolist()}
    writes = {table.name(row) for row in log.rules.fragment_rows.tolist()}
    assert lost == writes - {*listing.fragments}
    assert len(lost) == 2
    assert_same_in_batches(log, rows, monkeypatch)


def test_many_findings_of_one_code_are_counted(tmp_path: Path) -> None:
    make_large_array(tmp_path / "array", 500, cons=1)
    tables = ArrayTables(ct.open_log(tmp_path / "array"), max_findings=10)
    made = {name: tables.table(name) for name in SCHEMAS}
    assert made["arrays"]["errors"].to_pylist() == [500]
    lost = [row for row in made["findings"].to_pylist() if row["code"] == "commit-without-fragment"]
    assert [number_of(row["path"], row["message"]) for row in lost] == [1] * 10 + [490]
    page = to_html(FleetPage("r", made, made_ms=0))
    assert "500 errors" in page
    assert "500 more" in page  # 499 of them, and a warning
