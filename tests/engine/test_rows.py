"""Rows of arrays of every kind: types, old formats, buckets, keys, and what the engine refuses."""

from __future__ import annotations

import itertools
import json
import shutil
import subprocess
import sys
import time
from collections import Counter
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pytest
import tiledb
from support.corpus_cases import CASES
from support.engine_arrays import EngineArray, s3_settings
from support.verbs import open_rows

import chronotile as ct
from chronotile import read_rows
from chronotile.array import Array
from chronotile.check.findings import RefusedError
from chronotile.conditions import update_values
from chronotile.errors import BadFileError, ChronotileError, PredicateError
from chronotile.fleet.change_table import change_shares, read_changes
from chronotile.fleet.options import read_options
from chronotile.format.timestamps import now_ms
from chronotile.rows import engine_cells
from chronotile.rows.cell_source import cell_source
from chronotile.rows.engine import EngineError
from chronotile.rows.read_rows import NOTES, notes_of
from chronotile.show.row_formats import plain_rows
from chronotile.storage.store import open_store

if TYPE_CHECKING:
    from pathlib import Path

    from support.servers import S3Server


REFUSED = {
    "bad-": "damaged on purpose",
    "era-one": "older than every engine that reads it",
}


def rows_of(table: pa.Table) -> list[dict[str, Any]]:
    found = [row for batch in table.to_batches() for row in plain_rows(batch)]
    return sorted(found, key=repr)


@pytest.mark.parametrize("name", [n for n in CASES if not n.startswith(tuple(REFUSED))])
def test_cells_with_deletes_played_are_what_the_engine_gives(name: str, tmp_path: Path) -> None:
    """Every array of the corpus without updates, straight from the engine and played."""
    case = CASES[name]
    uri = case.copy_to(tmp_path)
    commits = ct.open_log(uri, case.key).commits()
    times = sorted({*commits["t1"].to_pylist(), *commits["t2"].to_pylist()})
    for end in {times[len(times) // 2], times[-1]} if times else ():
        reader = open_rows(uri, end=min(end, 2**63), key=case.key)
        if any(change.is_update for change in reader.at.changes):
            continue
        straight = reader.table()
        played = pa.Table.from_batches(reader.batches(played=True), schema=reader.schema)
        if name != "misnamed":  # played, each cell shows from its own time on (F4)
            assert rows_of(played) == rows_of(straight)


TYPED = (
    tiledb.Attr("i", dtype="int32", nullable=True),
    tiledb.Attr("f", dtype="float32"),
    tiledb.Attr("b", dtype="bool"),
    tiledb.Attr("day", dtype="datetime64[D]"),
    tiledb.Attr("ns", dtype="datetime64[ns]", nullable=True),
    tiledb.Attr("s", dtype="U0", var=True, nullable=True),
    tiledb.Attr("raw", dtype="S0", var=True),
    tiledb.Attr("label", dtype="int8", enum_label="colours"),
)


def typed(folder: Path) -> EngineArray:
    """An array with a field of each sort, and two rows."""
    array = EngineArray(folder / "typed")
    colours = tiledb.Enumeration("colours", False, ["red", "green"])
    array.create(attrs=TYPED, enums=[colours])
    array.write_raw(
        10,
        x=[1, 2],
        i=[None, 7],
        f=[1.5, 2.5],
        b=[True, False],
        day=[0, 19_000],
        ns=[None, 1_500_000_000_000_000_001],
        s=["", None],
        raw=[b"\xff", b"ab"],
        label=[0, 1],
    )
    return array


FIRST = {"x": 1, "i": None, "f": 1.5, "b": True, "day": "1970-01-01T00:00:00", "ns": None}
FIRST |= {"s": "", "label": "red"}
SECOND = {"x": 2, "i": 7, "f": 2.5, "b": False, "day": "2022-01-08T00:00:00"}
SECOND |= {"ns": "2017-07-14T02:40:00.000000001", "s": None, "label": "green"}
SHOWN = list(FIRST)


def test_values_of_every_type_are_shown_and_set(tmp_path: Path) -> None:
    array = typed(tmp_path)
    assert rows_of(read_rows(array.uri, fields=SHOWN)) == [FIRST, SECOND]
    values = {"i": 9, "b": True, "day": "2024-02-29", "ns": None, "s": "ü", "label": "red"}
    ct.write_update(array.uri, "x == 2", values, timestamp=20, experimental=True)
    changed = SECOND | values | {"day": "2024-02-29T00:00:00"}
    assert rows_of(read_rows(array.uri, fields=SHOWN)) == [FIRST, changed]
    assert rows_of(read_rows(array.uri, end=19, fields=SHOWN)) == [FIRST, SECOND]
    ct.write_update(
        array.uri, "label == 'red' and s == 'ü'", {"f": 0.5}, timestamp=30, experimental=True
    )
    assert rows_of(read_rows(array.uri, fields=["x", "f"])) == [
        {"x": 1, "f": 1.5},
        {"x": 2, "f": 0.5},
    ]
    assert rows_of(read_rows(array.uri, fields=["x"], where="i == 9")) == [{"x": 2}]


NULLABLE = ("i", "f", "t", "s", "label", "raw")


@pytest.fixture(scope="module")
def nullable(tmp_path_factory: pytest.TempPathFactory) -> EngineArray:
    """Rows that are NULL in one field each; x == 9 is NULL in all, x == 8 is empty, in none."""
    array = EngineArray(tmp_path_factory.mktemp("nullable") / "array")
    array.create(
        attrs=(
            tiledb.Attr("i", dtype="int32", nullable=True),
            tiledb.Attr("f", dtype="float64", nullable=True),
            tiledb.Attr("t", dtype="datetime64[ms]", nullable=True),
            tiledb.Attr("s", dtype="U0", var=True, nullable=True),
            tiledb.Attr("label", dtype="int8", nullable=True, enum_label="colours"),
            tiledb.Attr("raw", dtype="blob", var=True, nullable=True),
            tiledb.Attr("a", dtype="int32"),
        ),
        enums=[tiledb.Enumeration("colours", False, ["red", "green"])],
    )
    whole = {"i": 1, "f": 1.5, "t": 7, "s": "x", "label": 1, "raw": b"y", "a": 1}
    rows = [{**whole, "x": at, name: None} for at, name in enumerate(NULLABLE)]
    rows += [{"x": 8, **whole, "i": 0, "f": 0.0, "t": 0, "s": "", "label": 0, "raw": b""}]
    rows += [{"x": 9, **dict.fromkeys(whole, None), "a": 0}]
    array.write_raw(10, **{name: [row[name] for row in rows] for name in ("x", *whole)})
    return array


def places(uri: str, where: str, *, played: bool = False) -> set[int]:
    reader = open_rows(uri, where=where, fields=["x"])
    batches = reader.batches(played=played)
    return {row["x"] for batch in batches for row in batch.to_pylist()}


@pytest.mark.parametrize("played", [False, True])
@pytest.mark.parametrize("name", NULLABLE)
def test_null_can_be_asked_for(nullable: EngineArray, name: str, played: bool) -> None:
    null = {NULLABLE.index(name), 9}
    others = {*range(len(NULLABLE)), 8, 9} - null
    for where in (f"{name} == None", f"None == {name}", f"{name} is null", f"{name} IS NULL"):
        assert places(nullable.uri, where, played=played) == null
        assert places(nullable.uri, f"not {where}", played=played) == others
    for where in (f"{name} != None", f"{name} is not None", f"{name} Is Not Null"):
        assert places(nullable.uri, where, played=played) == others
    beside = places(nullable.uri, f"{name} is null and a == 1 or x == 8", played=played)
    assert beside == {NULLABLE.index(name), 8}
    with tiledb.open(nullable.uri) as opened:
        for op, expected in (("==", null), ("!=", others)):
            answer = opened.query(cond=f"{name} {op} None", dims=["x"], attrs=["a"])[:]
            assert {*answer["x"].tolist()} == expected


@pytest.mark.parametrize("played", [False, True])
def test_the_empty_text_is_not_null(nullable: EngineArray, played: bool) -> None:
    assert places(nullable.uri, "s == ''", played=played) == {8}
    assert places(nullable.uri, "s != ''", played=played) == {0, 1, 2, 4, 5}
    assert places(nullable.uri, "s in ['', 'x']", played=played) == {0, 1, 2, 4, 5, 8}


def test_the_history_of_a_row_with_null(nullable: EngineArray) -> None:
    def found(*row: str) -> set[int]:
        return {*ct.blame(nullable.uri, row)["x"].to_pylist()}

    assert found("s=None") == {3, 9}
    assert found("s=''") == {8}
    assert found("i=None", "label=None") == {9}
    assert found("t=None", "a=1") == {2}


def test_null_is_not_asked_of_what_is_never_null(nullable: EngineArray) -> None:
    for where, kind in (("a is null", "not nullable"), ("x != None", "a dimension")):
        with pytest.raises(PredicateError, match=f"is never NULL, as it is {kind}"):
            read_rows(nullable.uri, where=where)


def test_an_update_does_not_take_the_empty_text_for_null(nullable: EngineArray) -> None:
    with pytest.raises(RefusedError, match="an update on disk does not tell one from the other"):
        ct.write_update(nullable.uri, "s == ''", {"a": 2}, experimental=True)


def test_text_that_is_none_is_refused_by_its_field(tmp_path: Path) -> None:
    with pytest.raises(
        ChronotileError, match="raw: expected text of CHAR, found bytes that are none"
    ):
        read_rows(typed(tmp_path).uri)


def test_commits_that_the_engine_refuses_are_left_out_and_named(tmp_path: Path) -> None:
    """F6, F8 and F10: the engine opens none of these, or reads none."""
    for name in ("null-bricks-eq", "schema-drop-named", "bad-no-fragment"):
        uri = CASES[name].copy_to(tmp_path / name)
        with pytest.raises(tiledb.TileDBError), tiledb.open(uri) as opened:
            opened[:]
        table = read_rows(uri)
        notes = (table.schema.metadata or {})[NOTES].decode()
        assert "is left out" in notes, name
        assert table.num_rows, name


def test_deletes_act_where_a_fragment_is_gone(tmp_path: Path) -> None:
    """The engine opens no such array (F10): what it would show without the fragment is read."""
    array = EngineArray(tmp_path / "array").create()
    array.write(10, {1: 1, 2: 2, 3: 3})
    array.delete(30, "a < 3")
    left = array.rows(0, 40), array.rows(20, 40)
    array.write(20, {4: 4, 5: 5})
    gone = next(array.folder.glob("__fragments/__20_20_*"))
    shutil.rmtree(gone)
    for start, wanted in zip((0, 20), left, strict=True):
        table = read_rows(array.uri, start=start, end=40)
        assert dict(zip(*(table[name].to_pylist() for name in ("x", "a")), strict=True)) == wanted
        notes = (table.schema.metadata or {})[NOTES].decode()
        assert f"the write {gone.name} is left out: its fragment is gone" in notes
    assert read_rows(array.uri, where="a < 3").num_rows == 0


def test_an_update_that_sets_a_dimension_is_left_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """We write none; but another program may, and two rows would come to one place."""
    array = EngineArray(tmp_path / "array").create()
    array.write(10, {1: 1, 2: 1})
    with pytest.raises(PredicateError, match="found a dimension"):
        ct.write_update(array.uri, "a == 1", {"x": 7}, timestamp=20, experimental=True)
    with monkeypatch.context() as patched:
        patched.setattr(update_values, "_settable", update_values._known)
        ct.write_update(array.uri, "a == 1", {"x": 7}, timestamp=20, experimental=True)
    table = read_rows(array.uri)
    assert rows_of(table) == [{"x": 1, "a": 1}, {"x": 2, "a": 1}]
    assert "sets the dimension x" in (table.schema.metadata or {})[NOTES].decode()
    report = ct.apply_updates(array.uri)
    assert not report.steps
    assert "sets the dimension x" in "".join(report.notes)
    assert len(array.files("__commits", "*.upd")) == 1


def test_a_bucket_and_a_key(bucket: str, s3: S3Server, tmp_path: Path) -> None:
    options = s3.options
    key = "0123456789abcdef" * 2
    for uri, settings in ((f"{bucket}/a", s3_settings(s3)), (str(tmp_path / "b"), {})):
        array = EngineArray(uri, key=key, settings=settings).create()
        array.write(10, {1: 1, 2: 2})
        opened: dict[str, Any] = {"key": key, "storage_options": options}
        assert rows_of(read_rows(uri, **opened)) == [{"x": 1, "a": 1}, {"x": 2, "a": 2}]
        ct.write_update(uri, "a == 2", {"a": 9}, timestamp=20, experimental=True, **opened)
        assert rows_of(read_rows(uri, **opened)) == [{"x": 1, "a": 1}, {"x": 2, "a": 9}]
        ct.apply_updates(uri, **opened)
        assert array.rows(0, 99) == {1: 1, 2: 9}
        assert ct.diff(uri, 15, 25, rows=True, **opened)["change"].to_pylist() == [
            "update_before",
            "update_after",
        ]


def test_a_key_beyond_ascii(tmp_path: Path) -> None:
    key = "é" * 16
    array = EngineArray(tmp_path / "array", key=key).create()
    array.write(10, {1: 1, 2: 2})
    assert read_rows(array.uri, key=key.encode()).num_rows == 2


def test_dense_rows_are_the_cells_that_were_written(tmp_path: Path) -> None:
    array = EngineArray(tmp_path / "dense").create(sparse=False)
    assert read_rows(array.uri).num_rows == 0
    array.write(10, {3: 30, 4: 40})
    array.write(20, {6: 60})
    fill = int(np.iinfo(np.int32).min)
    assert read_rows(array.uri)["a"].to_pylist() == [30, 40, fill, 60]
    assert rows_of(read_rows(array.uri, end=15)) == [{"x": 3, "a": 30}, {"x": 4, "a": 40}]


def test_rows_written_in_the_millisecond_of_an_update_survive_a_merge(tmp_path: Path) -> None:
    """Once the engine has merged them it hides them from every window."""
    array = EngineArray(tmp_path / "array").create()
    array.write(10, {1: 1})
    array.write(20, {2: 1})
    array.commit(20, "a == 1", a=7)
    array.consolidate("fragments")
    array.vacuum("fragments")
    assert array.answer() == ()
    assert rows_of(read_rows(array.uri)) == [{"x": 1, "a": 7}, {"x": 2, "a": 1}]


@pytest.mark.parametrize("duplicates", [False, True])
@pytest.mark.parametrize("fields", ["ab", "abc"])
@pytest.mark.parametrize("back_first", [False, True])
def test_apply_keeps_the_values_of_an_attribute_that_was_dropped_and_comes_back(
    tmp_path: Path, duplicates: bool, fields: str, back_first: bool
) -> None:
    """The engine shows the values of old fragments again, whichever rows an update has set."""
    b = tiledb.Attr("b", dtype=np.int32, fill=-1)
    attrs = [tiledb.Attr("a", dtype=np.int32), b, tiledb.Attr("c", dtype=np.int32, fill=-3)]
    array = EngineArray(tmp_path / "array")
    array.create(attrs=attrs[: len(fields)], duplicates=duplicates)
    base = now_ms() + 10
    columns = {name: np.array([5, 6], np.int32) for name in fields}
    array.write_columns(base + 1, [1, 2], columns)
    array.evolve(drop="b", at=base + 2)
    del columns["b"]
    array.write_columns(base + 3, [3, 4], columns)
    array.commit(base + 4, "a == 5", a=7)
    if back_first:
        array.evolve(add=b, at=base + 5)
    before = rows_of(read_rows(array.uri, end=base + 9))
    assert ct.apply_updates(array.uri).rows == {"rewritten": 2}
    assert rows_of(read_rows(array.uri, end=base + 9)) == before
    if not back_first:
        array.evolve(add=b, at=base + 5)
    rows = {1: (7, 5), 2: (6, 6), 3: (7, -1), 4: (6, -1)}
    others = {1: 5, 2: 6, 3: 5, 4: 6}
    wanted = [
        {"x": x, "a": a, "b": b} | ({"c": others[x]} if "c" in fields else {})
        for x, (a, b) in rows.items()
    ]
    with tiledb.open(array.uri, timestamp=base + 9, ctx=array.ctx) as opened:
        found = opened[:]
    engine = [
        dict(zip(found, map(int, row), strict=True)) for row in zip(*found.values(), strict=True)
    ]
    assert sorted(engine, key=lambda row: row["x"]) == wanted


def cells_of(batches: list[engine_cells.Cells]) -> list[tuple[Any, ...]]:
    rows = [zip(*(c.to_pylist() for c in b.columns), strict=True) for b in batches]
    return sorted(itertools.chain.from_iterable(rows), key=repr)


def test_many_ranges_give_what_one_gives(tmp_path: Path) -> None:
    """Fragments that lack a field are merged here, range by range."""
    array = EngineArray(tmp_path / "array").create(upper=9999)
    for at in range(10, 20):
        array.write(at, dict.fromkeys(range(at, 1000, 7), at))
    evolution = tiledb.ArraySchemaEvolution(array.ctx)
    evolution.add_attribute(tiledb.Attr("n", dtype="int32", nullable=True))
    evolution.timestamp(25)
    evolution.array_evolve(array.uri)
    array.write_raw(30, x=[5, 500], a=[1, 2], n=[None, 3])
    ct.write_update(
        array.uri, "a > 15", {"n": 4}, timestamp=40, experimental=True, allow_older_loss=True
    )
    reader = open_rows(array.uri)
    source = cell_source(reader.at)
    whole = list(source.batches(reader.fields))
    parts = list(source.batches(reader.fields, most_cells=150))
    assert len(parts) > 5
    assert cells_of(whole) == cells_of(parts)
    model = {x: at for at in range(10, 20) for x in range(at, 1000, 7)} | {5: 1, 500: 2}
    rows = {row["x"]: (row["a"], row["n"]) for row in rows_of(read_rows(array.uri))}
    assert rows == {x: (a, 4 if a > 15 else 3 if x == 500 else None) for x, a in model.items()}


def test_without_the_engine_one_line_says_how_to_get_it(tmp_path: Path) -> None:
    EngineArray(tmp_path / "array").create()
    code = "import sys; sys.modules['tiledb'] = None; from chronotile.cli import run; run()"
    command = [sys.executable, "-c", code, "rows", str(tmp_path / "array")]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == 1
    assert done.stdout == ""
    (line,) = done.stderr.splitlines()
    assert "pip install 'chronotile[engine]'" in line


def test_the_log_alone_tells_what_came_and_went(tmp_path: Path) -> None:
    array = EngineArray(tmp_path / "group" / "member").create()
    array.write(10, {1: 1, 2: 2})
    array.delete(20, "a == 1")
    array.write(30, {3: 3})
    found = ct.diff(array.uri, 15, 35).to_pylist()
    assert [(row["change"], row["kind"], row["t2"], row["cells"]) for row in found] == [
        ("added", "delete", 20, None),
        ("added", "fragment", 30, 1),
    ]
    assert found[0]["what"] == "deleted rows where `a == 1`"
    array.consolidate("fragments")
    merged = ct.diff(array.uri, 5, 35).to_pylist()
    assert [row["kind"] for row in merged] == ["delete", "fragment"]
    group = str(tmp_path / "group")
    tiledb.Group.create(group)
    with tiledb.Group(group, "w") as opened:
        opened.add("member", relative=True)
    of_group = ct.diff(group, 5, "now").to_pylist()
    assert [(row["kind"], row["member"]) for row in of_group] == [
        ("member", "member"),
        ("delete", "member"),
        ("fragment", "member"),
    ]
    assert not len(ct.diff(group, 5, 35, rows=True)), "the member came later"


@pytest.mark.parametrize("how", ["closed", "given up"])
def test_a_reader_that_is_left_leaves_nothing_behind(
    how: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The scratch array goes with it."""
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(scratch))
    monkeypatch.setattr(engine_cells, "_MOST_ROWS", 10)
    array = EngineArray(tmp_path / "array").create()
    array.write(10, {x: x for x in range(100)})
    array.commit(20, "a == 3", a=333)
    batches = open_rows(array.uri).batches()
    assert len(next(batches)) <= 10
    assert list(scratch.iterdir())
    if how == "closed":
        batches.close()
    del batches
    assert not list(scratch.iterdir())


def test_fields_may_have_the_names_of_our_columns(tmp_path: Path) -> None:
    dims = [tiledb.Dim("t", domain=(0, 99), tile=10, dtype="int64")]
    values = {"commit": 1, "t_": 2, "operation": 3}
    attrs = [tiledb.Attr(name, dtype="int32") for name in values]
    array = EngineArray(tmp_path / "array").create(dims=dims, attrs=attrs)
    array.write_columns(10, [7], {name: np.array([one], "i4") for name, one in values.items()})
    (name,) = array.files("__fragments")
    row: dict[str, object] = {"operation": None, "t_time": datetime.fromtimestamp(0.01, UTC)}
    row |= {"t__": 7, "commit_": 1, "t_": 2, "operation_": 3}
    assert ct.diff(array.uri, 5, 15, rows=True).to_pylist() == [
        {"change": "insert", "commit": name, "t": 10, **row}
    ]
    assert ct.blame(array.uri, {"t": 7}).to_pylist() == [
        {"event": "wrote", "commit": name, "t": 10, **row}
    ]
    options = read_options({"path": array.uri, "table": "changes"})
    (part,) = change_shares([array.uri], options)
    ((told,),) = (table.to_pylist() for table in read_changes(part, options))
    assert (told["commit"], told["t"]) == (name, 10)
    assert (json.loads(told["key"]), json.loads(told["row"])) == (
        {"t": 7},
        {"t": 7, **values},
    )


def test_dense_cells_differ_where_they_were_written(tmp_path: Path) -> None:
    array = EngineArray(tmp_path / "dense").create(sparse=False)
    array.write(10, {3: 30, 4: 40})
    array.write(20, {4: 41})
    array.write(30, {5: 50})
    later = ct.diff(array.uri, 15, 35, rows=True).to_pylist()
    assert [(row["change"], row["t"], row["x"], row["a"]) for row in later] == [
        ("update_before", 20, 4, 40),
        ("update_after", 20, 4, 41),
        ("insert", 30, 5, 50),
    ]


@pytest.mark.parametrize("row", ["x=1", "a=1"])
def test_blame_of_a_dense_array_is_refused(row: str, tmp_path: Path) -> None:
    array = EngineArray(tmp_path / "array").create(sparse=False)
    array.write(10, {0: 1, 1: 2, 2: 3})
    with pytest.raises(RefusedError) as refused:
        ct.blame(array.uri, [row])
    hint = f"to list the cells that changed: chronotile diff {array.uri} 0 now --rows"
    assert refused.value.to_dict()["hint"] == hint


@pytest.mark.parametrize("rewrite", [False, True])
@pytest.mark.parametrize("duplicates", [False, True])
def test_a_difference_over_a_restore_is_that_of_the_rows(
    tmp_path: Path, *, duplicates: bool, rewrite: bool
) -> None:
    """Rows that a restore hides go with their fragments: no delete and no cell tells of it."""
    array = EngineArray(tmp_path / "array").create(duplicates=duplicates)
    base = now_ms()
    array.write(base + 1, {1: 1, 2: 2})
    array.write(base + 2, {2: 7, 3: 3})
    time.sleep(0.01)
    opened = Array(open_store(array.uri))
    report = opened.restore(base + 1, rewrite=rewrite)
    if not rewrite:
        counts = {"hidden": 2} if duplicates else {"hidden": 1, "changed back": 1}
        assert report.rows == counts
    time.sleep(0.2)
    end = now_ms()
    found = opened.diff(base + 2, end, rows=True).to_pylist()
    rows = Counter((row["x"], row["a"]) for row in opened.rows(end=base + 2).to_pylist())
    for row in found:
        rows[row["x"], row["a"]] += 1 if row["change"] in ("insert", "update_after") else -1
    assert +rows == Counter((row["x"], row["a"]) for row in opened.rows(end=end).to_pylist())
    assert {row["commit"] for row in found if row["change"] == "delete"} <= {
        path.stem for path in array.commits_folder.glob("*.vac")
    }


def test_a_restore_counts_what_comes_back(tmp_path: Path) -> None:
    """Rows of which only a delete goes; of a dense array cells that differ, and not whole tiles."""
    array = EngineArray(tmp_path / "array").create()
    base = now_ms()
    array.write(base + 1, {1: 1, 2: 2})
    array.delete(base + 2, "a == 1")
    dense = EngineArray(tmp_path / "dense").create(sparse=False)
    dense.write(base + 1, {0: 1, 1: 1, 2: 1})
    dense.write(base + 2, {1: 2})
    time.sleep(0.01)
    assert Array(open_store(array.uri)).restore(base + 1).rows == {"restored": 1}
    opened = Array(open_store(dense.uri))
    report = opened.restore(base + 1)
    assert not report.rows
    assert report.notes[0] == "cells changed back: 1"
    time.sleep(0.2)
    found = opened.diff(base + 2, "now", rows=True)
    assert found["x"].to_pylist() == [1, 1]
    assert found["a"].to_pylist() == [2, 1]


def test_a_name_that_fits_no_delete_or_several_is_refused(tmp_path: Path) -> None:
    array = EngineArray(tmp_path / "array").create()
    for at in range(10, 30):  # of 20 names some begin alike: there are 16 digits
        array.delete(at, "a == 1")
    names = [path.stem for path in array.commits_folder.glob("*.del")]
    ((digit, count), *_) = Counter(name.split("_")[4][0] for name in names).most_common(1)
    with pytest.raises(ChronotileError, match=f"begins the names of {count} deletes"):
        ct.removed_rows(array.uri, digit)
    with pytest.raises(ChronotileError, match="no delete or update has the name 'zz'"):
        ct.removed_rows(array.uri, "zz")


def test_an_error_names_the_array_and_the_way_to_see_the_damage(tmp_path: Path) -> None:
    array = EngineArray(tmp_path / "array").create()
    array.write(1, {1: 1, 2: 2})
    array.commit(2, "a == 1", a=5)  # so a scratch array is read
    (file,) = (array.folder / "__fragments").glob("*/a0.tdb")
    whole = file.read_bytes()
    file.write_bytes(whole[:4])
    with pytest.raises(EngineError) as caught:
        read_rows(array.uri)
    place = f"__fragments/{file.parent.name}/a0.tdb"
    assert place in str(caught.value)
    assert "chronotile-" not in str(caught.value)
    look = f"; to see what is damaged: chronotile check {array.uri}"
    assert str(caught.value).endswith(look)
    file.write_bytes(whole)
    (update,) = array.commits_folder.glob("*.upd")
    update.write_bytes(update.read_bytes()[:-3])
    opened = ct.open(array.uri)
    for ask in (
        lambda: read_rows(array.uri),
        lambda: opened.diff(0, 2, rows=True),
        lambda: opened.blame({"x": 1}),
        opened.apply,
    ):
        with pytest.raises(BadFileError) as damaged:
            ask()
        assert str(damaged.value).startswith(f"{array.uri}: __commits/{update.name}: ")
        assert str(damaged.value).endswith(look)
    (note,) = opened.delete("x == 1", dry_run=True).notes
    assert f"could not be counted: __commits/{update.name}: " in note


def test_a_commit_with_a_bad_name_is_noted(tmp_path: Path) -> None:
    array = EngineArray(tmp_path / "array").create()
    array.write(1, {1: 1})
    array.write(2, {2: 2})
    array.commit(3, "a == 1", a=5)
    commit = min(array.commits_folder.glob("*.wrt"))
    commit.rename(commit.with_name("__abc_1_ff_22.wrt"))
    table = read_rows(array.uri)
    assert table.num_rows == 1
    (note,) = notes_of(table)
    assert note.startswith("TileDB cannot open this array, by __commits/__abc_1_ff_22.wrt")
