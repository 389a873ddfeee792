"""The tables of the fleet, without Spark: equal to what the single-array interface says."""

from __future__ import annotations

import json
import pickle
import shutil
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from pyspark.sql.datasource import (
    EqualTo,
    GreaterThan,
    In,
    IsNull,
    LessThanOrEqual,
    StringStartsWith,
)
from support.corpus_cases import CASES, Case
from support.engine_arrays import EngineArray
from support.fleets import FIRST_MS, FleetMaker, make_template
from support.plain_columns import without_times

import chronotile as ct
from chronotile import consolidate, vacuum
from chronotile.errors import ChronotileError
from chronotile.fleet.array_tables import LARGEST_BIGINT, TABLES, ArrayTables
from chronotile.fleet.data_source import FilteredReader
from chronotile.fleet.flat_listing import to_be_listed
from chronotile.fleet.options import Options, read_options
from chronotile.fleet.read_share import rows_of_array
from chronotile.fleet.shares import ListedArray, shares
from chronotile.fleet.unchanged_arrays import fingerprint_of
from chronotile.format.names import MAX_TIMESTAMP
from chronotile.history.listing import list_array
from chronotile.history.read_history import read_history
from chronotile.storage.store import open_store

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from pathlib import Path

    from support.servers import S3Server


ALL = tuple(CASES.values())


def log_of(case: Case) -> ct.Log:
    return ct.open_log(str(case.array), key=case.key)


def tables_of(array: str, options: Options, names: tuple[str, ...]) -> Mapping[str, pa.Table]:
    place = ListedArray(array)
    return {name: pa.concat_tables(rows_of_array(place, options, name)) for name in names}


def capped(rows: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    times = ("t1", "t2", "visible_from", "visible_until")
    return [
        {n: min(v, LARGEST_BIGINT) if n in times and v is not None else v for n, v in row.items()}
        for row in rows
    ]


@pytest.mark.parametrize("case", ALL, ids=lambda case: case.name)
def test_tables_say_what_the_log_says(case: Case) -> None:
    log = log_of(case)
    rows = ArrayTables(log)
    facts = dict.fromkeys(TABLES["fragments"].names[9:])
    for name, own, more in (("commits", log.commits(), {}), ("fragments", log.lifelines(), facts)):
        expected = [{"array": log.array} | row | more for row in without_times(own).to_pylist()]
        assert rows.table(name).to_pylist() == capped(expected)
    findings = [found.to_dict() for found in log.check(log_only=True)]
    assert rows.table("findings").to_pylist() == findings
    usage = [{"array": log.array} | row for row in log.usage().to_pylist()]
    assert rows.table("usage").to_pylist() == usage
    for name, schema in TABLES.items():
        assert rows.table(name).schema.equals(schema)


def test_operations_are_those_of_the_array_that_is_there(tmp_path: Path) -> None:
    array = EngineArray(tmp_path / "array").create()
    array.write(10, {1: 1})
    kept = tmp_path / "kept"
    old = ct.open(array.uri).tag("other").operation
    shutil.move(array.folder / "__chronotile", kept)
    shutil.rmtree(array.folder)
    EngineArray(array.folder).create().write(10, {1: 1})
    shutil.move(kept, array.folder / "__chronotile")
    new = ct.open(array.uri).delete("a == 1").operation
    options = read_options({"table": "operations", "path": array.uri})
    (table,) = rows_of_array(ListedArray(array.uri), options, "operations")
    (row,) = table.to_pylist()
    assert old != row["id"] == new
    assert (row["array"], row["command"], row["state"]) == (array.uri, "delete", "done")


@pytest.mark.parametrize("case", ALL, ids=lambda case: case.name)
def test_conditions_say_what_a_view_says(case: Case) -> None:
    log = log_of(case)
    view = log.view(0, MAX_TIMESTAMP)
    expected = {}
    for kind, found in (("delete", view.deletes), ("update", view.updates)):
        for commit in found:
            document = commit.to_dict()
            expected[kind, commit.name] = (
                document["text"],
                document["stored"],
                document["predicate"],
                document.get("values"),
            )
    got = {
        (row["kind"], row["name"]): (
            row["predicate"],
            *(row[name] and json.loads(row[name]) for name in ("stored", "predicate_json")),
            row["values"] and json.loads(row["values"]),
        )
        for row in ArrayTables(log).table("conditions").to_pylist()
    }
    assert got == expected


def requests_in_a_bucket(case: Case) -> tuple[int, int]:
    """What an open of the array takes where every folder has to be asked for; and the lists."""
    calls: list[str] = []
    store = open_store(
        f"memory:test-requests-{case.array.parent.name}",
        on_operation=lambda what, _: calls.append(what),
    )
    for path in case.array.rglob("*"):
        if path.is_file() and (name := path.relative_to(case.array).as_posix()).isascii():
            store.put_if_absent(name, path.read_bytes())
    calls.clear()
    read_history(store, key=case.key)
    return sum(what in {"list", "read", "head"} for what in calls), calls.count("list")


@pytest.mark.parametrize("case", ALL, ids=lambda case: case.name)
def test_the_row_of_an_array_counts_its_other_rows(case: Case) -> None:
    log = log_of(case)
    rows = ArrayTables(log)
    (row,) = rows.table("arrays").to_pylist()
    commits = rows.table("commits").to_pylist()
    effective = {
        (one["name"], one["kind"])
        for one in commits
        if one["loose"] or one["kind"] != "write" or not one["ignored"]
    }
    assert row["commits"] == len(effective)
    assert row["loose_commits"] == sum(commit["loose"] for commit in commits)
    assert row["con_files"] == len(list((case.array / "__commits").glob("*.con")))
    assert row["first_timestamp"] == min((c["t1"] for c in commits), default=None)
    assert row["last_timestamp"] == max((c["t2"] for c in commits), default=None)
    # Where a fragment is gone, a bucket is listed anew to make sure; a disk need not be.
    again = (0, 2) if log.history.lost.any() else (0,)
    requests, lists = requests_in_a_bucket(case)
    assert requests - row["open_requests"] in again
    assert lists - row["open_lists"] in again
    severities = [found.severity for found in log.check(log_only=True)]
    assert (row["errors"], row["warnings"], row["infos"]) == tuple(
        severities.count(word) for word in ("error", "warning", "info")
    )


def test_requests_of_an_engine_are_those_that_check_tells(tmp_path: Path) -> None:
    array = CASES["sparse-loose"].copy_to(tmp_path)
    fragments = len(ct.open_log(array).view().fragments)

    def told() -> int | None:
        (row,) = ArrayTables(ct.open_log(array)).table("arrays").to_pylist()
        requests: int | None = row["engine_open_requests"]
        return requests

    assert told() == 6 + 3 * fragments
    (row,) = ArrayTables(ct.open_log(array)).table("arrays").to_pylist()
    assert row["engine_open_lists"] == 5, "the five folders that an engine lists"
    report = consolidate(array, mode="fragment-meta")
    assert report.engine_open_requests == (6 + 3 * fragments, 8)
    assert told() == 8
    (tmp_path / "array" / report.steps[0].path).write_bytes(b"cut")
    assert told() is None, "a .meta that cannot be opened"


@pytest.mark.parametrize(("commits", "saved"), [(2_100, 2 + 3 * 2_098 - 2), (30, 3 * 28 - 2)])
def test_maintenance_saves_what_it_is_said_to_save(
    commits: int, saved: int, tmp_path: Path
) -> None:
    maker = FleetMaker(make_template(tmp_path / "template"))
    array = str(tmp_path / "a")
    maker.array(tmp_path / "a", commits, seed=3, deletes=2, loose=commits - 10)

    def requests() -> list[int]:
        (row,) = ArrayTables(ct.open_log(array)).table("arrays").to_pylist()
        return [row[f"engine_open_requests{when}"] for when in ("", "_after_maintenance")]

    before, expected = requests()
    consolidate(array, mode="all")
    vacuum(array, mode="commits")
    assert requests()[0] == expected
    assert before - expected == saved


def test_a_window_keeps_the_rows_that_touch_it() -> None:
    log = log_of(CASES["overlaps"])
    whole = ArrayTables(log).table("commits").to_pylist()
    times = sorted({row["t1"] for row in whole} | {row["t2"] for row in whole})
    for start in times:
        for end in (time for time in times if time >= start):
            for name in ("commits", "fragments", "conditions"):
                got = ArrayTables(log, start, end).table(name).to_pylist()
                rows = ArrayTables(log).table(name).to_pylist()
                expected = [
                    row for row in rows if row["t1"] <= end and row.get("t2", row["t1"]) >= start
                ]
                assert got == expected


def test_an_unreadable_array_is_a_row_and_a_finding(tmp_path: Path) -> None:
    for damage in ("nothing", "no schema"):
        folder = tmp_path / damage
        if damage == "no schema":
            (folder / "__commits").mkdir(parents=True)
        tables = tables_of(str(folder), Options(), tuple(TABLES))
        (row,) = tables["arrays"].to_pylist()
        assert (row["array"], row["errors"], row["commits"]) == (str(folder), 1, None)
        (found,) = tables["findings"].to_pylist()
        assert (found["code"], found["severity"]) == ("unreadable", "error")
        assert "repair" not in found["hint"]
        assert len(tables["commits"]) == len(tables["usage"]) == 0


@pytest.mark.parametrize("reach", ["log", "fragments", "deep"])
def test_findings_go_as_far_as_the_user_asks(tmp_path: Path, reach: str) -> None:
    """A bit in a cell file, and a metadata file that is gone."""
    array = CASES["inside-sparse-v22"].copy_to(tmp_path)
    file = min((tmp_path / "array").glob("__fragments/*/a0.tdb"))
    data = file.read_bytes()
    file.write_bytes(data[:8] + b"\xff" + data[9:])
    sorted((tmp_path / "array").glob("__fragments/*/__fragment_metadata.tdb"))[1].unlink()
    options = read_options({"path": array, "check": reach})
    found = tables_of(array, options, ("findings",))["findings"]["code"].to_pylist()
    expected = ["fragment-damaged"] * (reach == "deep")
    expected += ["fragment-file-missing"] * (reach != "log")
    assert [code for code in found if code.startswith("fragment-")] == expected


def test_a_wrong_key_is_a_finding_of_that_array() -> None:
    case = next(case for case in ALL if case.key is not None)
    tables = tables_of(str(case.array), Options(key=b"x" * 32), tuple(TABLES))
    assert [row["code"] for row in tables["findings"].to_pylist()] == ["tile-encrypted"]


@pytest.mark.parametrize("form", ["raw", "line", "hex"])
def test_a_key_in_a_file_opens_an_array(tmp_path: Path, form: str) -> None:
    case = next(case for case in ALL if case.key is not None and "update" in case.name)
    assert case.key is not None
    written = {"raw": case.key, "line": case.key + b"\n", "hex": case.key.hex().encode()}[form]
    (tmp_path / form).write_bytes(written)
    options = read_options({"path": str(case.array), "key_file": str(tmp_path / form)})
    found = tables_of(str(case.array), options, ("conditions",))["conditions"].to_pylist()
    assert found == ArrayTables(log_of(case)).table("conditions").to_pylist()
    assert [row["predicate"] for row in found] == ["a == 2", "x == 3"]


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({}, "expected a root"),
        ({"path": "a", "tabel": "commits"}, "did you mean 'table'"),
        ({"path": "a", "table": "comits"}, "expected one of arrays, commits"),
        ({"path": "a", "start": "5", "end": "4"}, "ends before it starts"),
        ({"path": "a", "start": "5 o'clock"}, "'start'"),
        ({"path": "a", "table": "arrays", "end": "4"}, "expected a window only with"),
        ({"path": "a", "secret_key": "short"}, "expected 32 bytes or 64 hex digits, found 5"),
        ({"path": "a", "arrays": "b.txt"}, "found both"),
        ({"path": "a", "push_filters": "maybe"}, "expected one of true, false"),
        ({"path": "a", "state": "s"}, "only with readStream"),
        ({"path": "a", "maxArraysPerTrigger": "3"}, "only with readStream"),
        ({"path": "a", "maxArraysPerTrigger": "0"}, "expected a number of arrays"),
        ({"paths": "a"}, "JSON list"),
    ],
)
def test_options_are_checked_up_front(given: dict[str, str], words: str) -> None:
    with pytest.raises(ChronotileError, match="option") as raised:
        read_options(given)
    assert words in str(raised.value)


def test_a_key_has_a_name_that_spark_hides() -> None:
    assert read_options({"path": "a", "secret_key": "k" * 32}).key == b"k" * 32
    with pytest.raises(ChronotileError, match="expected a known option"):
        read_options({"path": "a", "key": "k" * 32})
    storage = {"storage.region": "r", "storage.secret.account_key": "hush"}
    given = read_options({"path": "a", **storage})
    assert given.storage_options == {"region": "r", "account_key": "hush"}


def test_a_key_is_never_shown() -> None:
    given = {"secret_key": "k" * 32, "storage.secret_access_key": "hush"}
    options = read_options({"path": "a", **given})
    assert "kkk" not in repr(options)
    assert "hush" not in repr(options)


def test_only_tables_with_rows_that_stay_are_streamed() -> None:
    with pytest.raises(ChronotileError, match="expected one of commits, conditions, findings"):
        read_options({"path": "a", "table": "arrays"}, streaming=True)
    with pytest.raises(ChronotileError, match="expected a folder for what the stream has read"):
        read_options({"path": "a", "table": "commits"}, streaming=True)


@pytest.mark.parametrize("form", ["parquet", "csv", "txt"])
def test_a_table_of_arrays(tmp_path: Path, form: str) -> None:

    uris = ["s3://lake/a", "/data/b"]
    table, place = pa.table({"uri": uris}), tmp_path / f"arrays.{form}"
    if form == "parquet":
        pa.parquet.write_table(table, place)
    elif form == "csv":
        pa.csv.write_csv(table, place)
    else:
        place.write_text("\n".join(uris))
    options = read_options({"arrays": str(place), "column": "uri"})
    assert options.uris() == tuple(uris)
    if form != "txt":
        with pytest.raises(ChronotileError, match="expected a column 'array', found uri"):
            read_options({"arrays": str(place)}).uris()


def test_shares_are_even_small_and_complete() -> None:
    arrays = [f"s3://lake/array-{n:06d}" for n in range(20_000)]
    made = shares(to_be_listed(arrays))
    assert sorted(place.uri for share in made for place in share.places()) == arrays
    loads = [len(share.places()) for share in made]
    assert max(loads) <= 256
    assert min(loads) > 64
    assert max(len(pickle.dumps(share)) for share in made) < 30_000


def test_filters_keep_what_spark_would_keep() -> None:
    rows = pa.Table.from_pylist(
        [
            {"array": a, "kind": k, "t1": t}
            for a in "ab"
            for k in ("write", "delete", None)
            for t in (1, 5)
        ]
    )
    kept = [In(("array",), ("a", "c")), EqualTo(("kind",), "delete"), GreaterThan(("t1",), 1)]
    left = [EqualTo(("kind",), 5), EqualTo(("loose",), True), In(("t1",), (1, None))]
    left += [StringStartsWith(("t1",), "1"), EqualTo(("kind", "a"), "b"), IsNull(("kind",))]
    reader = FilteredReader(read_options({"path": "a"}))
    assert reader.pushFilters([*kept, *left]) == left
    reader = pickle.loads(pickle.dumps(reader))
    assert reader._keep(rows).to_pylist() == [{"array": "a", "kind": "delete", "t1": 5}]
    assert set(reader._keep(rows, ("array",))["array"].to_pylist()) == {"a"}
    reader.pushFilters([StringStartsWith(("kind",), "wr"), LessThanOrEqual(("t1",), 1)])
    assert reader._keep(rows)["array"].to_pylist() == ["a", "b"]


def test_the_generated_arrays_are_arrays_to_the_engine(tmp_path: Path) -> None:
    import tiledb

    maker = FleetMaker(make_template(tmp_path / "template"))
    maker.array(tmp_path / "a", 20, seed=1, deletes=4, loose=6)
    with tiledb.open(str(tmp_path / "a")) as array:
        assert array.schema.sparse
    assert len(tiledb.FragmentInfoList(str(tmp_path / "a"))) == 16
    log = ct.open_log(str(tmp_path / "a"))
    view = log.view()
    assert (len(view.fragments), len(view.deletes)) == (16, 4)
    assert min(view.fragments).t1 >= FIRST_MS
    findings = log.check(log_only=True)
    assert [found.code for found in findings if found.severity == "error"] == []
    shutil.rmtree(tmp_path / "a")


def test_fragments_have_facts_if_they_are_asked_for(tmp_path: Path) -> None:
    array = EngineArray(tmp_path / "array").create()
    for at in (10, 20):
        array.write(at, {at: at, at + 1: at})
    array.delete(30, "a == 10")
    array.consolidate("fragments")
    log = ct.open_log(array.uri)
    plain = ArrayTables(log).table("fragments")
    assert plain.column_names == TABLES["fragments"].names
    assert all(plain[name].null_count == 3 for name in plain.column_names[9:])
    options = read_options({"path": array.uri, "table": "fragments", "cells": "true"})
    rows = tables_of(array.uri, options, ("fragments",))["fragments"].to_pylist()
    facts = {row["name"]: row for row in without_times(log.fragments()).to_pylist()}
    assert len(rows) == len(facts) == 3
    for row in rows:
        wanted = facts[row["name"]]
        assert {name: row[name] for name in wanted} == wanted
    with pytest.raises(ChronotileError, match=r"'cells'.*one of true, false"):
        read_options({"path": array.uri, "cells": "yes"})


def test_usage_of_a_bucket_is_read_with_the_options_of_the_storage(
    s3: S3Server, bucket: str
) -> None:
    case = CASES["sparse-consolidated-v22"]
    array = f"{bucket}/array"
    for file in case.files():
        data = file.path.read_bytes()
        open_store(array, s3.options).put_if_absent(str(file.relative), data)
    options = read_options(
        {"path": array, "table": "usage"} | {f"storage.{n}": v for n, v in s3.options.items()}
    )
    rows = tables_of(array, options, ("usage",))["usage"].to_pylist()
    assert sum(row["bytes"] for row in rows) == sum(f.path.stat().st_size for f in case.files())


def test_every_new_name_changes_the_fingerprint(tmp_path: Path) -> None:
    array = tmp_path / "array"
    shutil.copytree(next(iter(ALL)).array, array)
    store, name = open_store(array), f"__7_7_{'ab' * 16}_22"
    seen = {fingerprint_of(list_array(store), {})}
    for folder in ("__fragments", "__commits", "__schema", "__fragment_meta", "__meta"):
        (array / folder).mkdir(exist_ok=True)
        if folder == "__fragments":
            (array / folder / name).mkdir()
        else:
            (array / folder / f"{name}.wrt").touch()
        seen.add(fingerprint_of(list_array(store), {}))
    assert len(seen) == 6
