"""Why an array is so large: every byte is told of, and each command frees what it is said to."""

from __future__ import annotations

import os
import pathlib
import random
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
import tiledb
from support.corpus_cases import CASES, Case
from support.engine_arrays import EngineArray, s3_settings

import chronotile as ct
from chronotile.change.usage import NOTHING, SCHEMA, Usage, measure_usage
from chronotile.check.file_uses import REASONS
from chronotile.errors import StorageError
from chronotile.history.read_footers import FooterReader, StoredFooter
from chronotile.history.read_history import read_history
from chronotile.storage.store import open_store

if TYPE_CHECKING:
    from support.servers import S3Server


def on_disk(array: str | pathlib.Path) -> dict[str, int]:
    """Every regular file below a folder, with its size."""
    found = {}
    for folder, folders, names in os.walk(array):
        if folder == str(array) and "__chronotile" in folders:
            folders.remove("__chronotile")  # records of what was done
        for name in names:
            path = os.path.join(folder, name)  # noqa: PTH118 - names that are no text too
            if not os.path.islink(path) and os.path.isfile(path):  # noqa: PTH113, PTH114
                found[os.path.relpath(path, array)] = os.lstat(path).st_size
    return found


def rows_of(array: str, key: bytes | None = None) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = ct.open_log(array, key=key).usage().to_pylist()
    return rows


def usage_of(array: str, key: bytes | None = None) -> Usage:
    store = open_store(array)
    return measure_usage(store, read_history(store, key=key))


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_the_sum_is_what_the_storage_holds(case: Case) -> None:
    log = ct.open_log(str(case.array), key=case.key)
    table = log.usage()
    assert table.schema == SCHEMA
    rows = table.to_pylist()
    assert {row["path"]: row["bytes"] for row in rows} == on_disk(case.array)
    assert [row["path"] for row in rows] == sorted(row["path"] for row in rows)
    assert {row["reason"] for row in rows} <= set(REASONS)
    seen = {fragment.name for fragment in log.view(0, 2**64 - 1).fragments}
    own = [row for row in rows if not row["path"].startswith("__labels/")]
    visible = {row["fragment"] for row in own if row["reason"] == "visible"}
    there = {row["fragment"] for row in own if row["fragment"] is not None}
    assert visible == seen & there


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_field_and_part_are_those_of_the_footer(case: Case) -> None:
    store = open_store(str(case.array))
    history = read_history(store, key=case.key)
    rows = [row for row in rows_of(str(case.array), case.key) if "__labels" not in row["path"]]
    names = sorted({row["fragment"] for row in rows if row["fragment"] is not None})
    for name, stored in FooterReader(store, history).read(names):
        if not isinstance(stored, StoredFooter):
            continue
        said = {
            row["path"].rpartition("/")[2]: (row["field"], row["part"], row["bytes"])
            for row in rows
            if row["fragment"] == name
        }
        assert said.pop("__fragment_metadata.tdb")[:2] == (None, "metadata")
        wanted = {
            file.name: (file.field, file.part, file.size) for file in stored.footer.cell_files
        }
        assert said == wanted


def gone(before: dict[str, int], array: str) -> set[str]:
    return set(before) - set(on_disk(array))


@pytest.mark.usefixtures("two_days_later")
@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_a_command_frees_what_it_is_said_to(case: Case, tmp_path: pathlib.Path) -> None:
    """Each way is gone, on a copy of its own; and nothing else goes."""
    for folder in ("one", "two"):
        (tmp_path / folder).mkdir()
    array = case.copy_to(tmp_path / "one")
    before = on_disk(array)
    usage = usage_of(array, case.key)
    mine = [way for way in usage.ways if "__labels" not in way.command]
    freed = {way.command.replace(array, "A"): way.paths for way in mine}
    plain = freed.get("chronotile vacuum A", frozenset())
    if any(note.startswith("nothing can be freed now") for note in usage.notes):
        assert not mine
        with pytest.raises(ct.ChronotileError, match="the array is damaged"):
            ct.vacuum(array, key=case.key)
        return
    ct.vacuum(array, key=case.key)
    assert gone(before, array) == plain
    by_vacuum = sum(on_disk(array).values())
    array = case.copy_to(tmp_path / "two")
    try:
        ct.consolidate(array, key=case.key)
    except ct.ChronotileError:
        assert not any("consolidate" in command for command in freed)
    ct.vacuum(array, key=case.key)
    tidy = freed.get("chronotile consolidate A && chronotile vacuum A", frozenset())
    merged = gone(before, array) - plain
    if tidy:
        assert merged == tidy
        assert sum(on_disk(array).values()) < by_vacuum
    else:
        assert sum(on_disk(array).values()) >= by_vacuum, "a way that frees nothing is none"
    ct.vacuum(array, key=case.key, orphans=True)
    ct.vacuum(array, key=case.key, whole_orphans=True)
    assert gone(before, array) - merged == frozenset().union(*freed.values()) - merged


@pytest.mark.usefixtures("two_days_later")
def test_orphans_strangers_and_odd_names(tmp_path: pathlib.Path) -> None:
    array = EngineArray(tmp_path / "array").create()
    array.write(10, {1: 1})
    array.write(20, {2: 2})
    array.write(30, {3: 3})
    first, second, _ = sorted((array.folder / "__fragments").iterdir())
    (array.commits_folder / f"{first.name}.wrt").unlink()
    (array.commits_folder / f"{second.name}.wrt").unlink()
    (second / "__fragment_metadata.tdb").unlink()
    strangers = {
        "notes.txt": b"hello",
        "__fragments/lost.bin": b"12",
        "__commits/notes": b"123",
        "odd\x1b\n\udcff": b"1234",
        "odd\x01folder/inside": b"12345",
        "deeper/folder/file": b"1",
        f"{first.relative_to(array.folder)}/other.bin": b"123456",
    }
    for name, data in strangers.items():
        target = os.fsencode(array.uri) + b"/" + os.fsencode(name)
        os.makedirs(os.path.dirname(target), exist_ok=True)  # noqa: PTH103, PTH120 - bytes
        with open(target, "wb") as file:  # noqa: PTH123
            file.write(data)
    leftover = ".chronotile-00ff.part"
    (array.folder / leftover).write_bytes(b"1234567")
    (array.folder / "link").symlink_to(array.folder / "notes.txt")
    usage = usage_of(array.uri)
    rows = {row["path"]: row for row in usage.table.to_pylist()}
    assert sum(row["bytes"] for row in rows.values()) == sum(on_disk(array.uri).values())
    assert len(rows) == len(on_disk(array.uri))
    stray = {path: row["bytes"] for path, row in rows.items() if row["reason"] == "stray"}
    assert sorted(stray.values()) == [1, 2, 3, 4, 5, 5, 7]
    assert stray[leftover] == 7
    assert r"odd\x1b\n\udcff" in stray
    command = f"chronotile vacuum {array.uri}"
    assert rows[leftover]["freed_by"] == f"{command} --orphans"
    for folder, freed_by in ((first, "--whole-orphans"), (second, "--orphans")):
        inside = [row for row in rows.values() if row["fragment"] == folder.name]
        assert inside
        assert {(row["reason"], row["freed_by"]) for row in inside} == {
            ("uncommitted", f"{command} {freed_by}")
        }
    other = rows[f"__fragments/{first.name}/other.bin"]
    assert (other["field"], other["part"]) == (None, None)
    lost = {way.command.rpartition(" ")[2]: way.lost for way in usage.ways}
    assert "did not finish" in lost["--orphans"]
    assert "may have been lost" in lost["--whole-orphans"]


def test_a_young_orphan_is_freed_by_nothing_and_that_is_said(tmp_path: pathlib.Path) -> None:
    array = EngineArray(tmp_path / "array").create()
    array.write(10, {1: 1})
    (commit,) = array.commits_folder.glob("*.wrt")
    commit.unlink()
    usage = usage_of(array.uri)
    (way,) = {row["freed_by"] for row in usage.table.to_pylist() if row["reason"] == "uncommitted"}
    assert way is None
    assert any("too young" in note for note in usage.notes)


def test_the_orphans_of_an_array_that_is_a_bucket() -> None:
    case = CASES["bad-uncommitted"]
    store = open_store("memory:usage-of-a-root")
    for file in case.files():
        store.put_if_absent(str(file.relative), file.path.read_bytes())
    usage = measure_usage(store, read_history(store))
    assert sum(usage.table["bytes"].to_pylist()) == sum(on_disk(case.array).values())
    assert not any(note.startswith("orphans stay") for note in usage.notes)


def test_a_damaged_array_frees_nothing_and_says_why() -> None:
    usage = usage_of(str(CASES["bad-name"].array))
    assert not usage.ways
    assert set(usage.table["freed_by"].to_pylist()) == {None}
    (note,) = usage.notes
    assert "the array is damaged: " in note
    assert "(name-malformed); to move it to the quarantine: chronotile repair " in note


def test_time_travel_that_is_lost_is_said() -> None:
    for name, loses in (("dense-consolidated-v22", True), ("sparse-consolidated-v22", False)):
        way = usage_of(str(CASES[name].array)).ways[0]
        assert way.lost.startswith("time travel is lost") == loses
        assert (way.lost == NOTHING) != loses


@pytest.mark.usefixtures("two_days_later")
def test_a_vacuum_of_orphans_loses_what_any_vacuum_does(tmp_path: pathlib.Path) -> None:
    array = pathlib.Path(CASES["dense-consolidated-v22"].copy_to(tmp_path))
    orphan = array / "__fragments" / f"__90_90_{'0' * 32}_22"
    orphan.mkdir()
    (orphan / "a0.tdb").write_bytes(b"12")
    (way,) = (way for way in usage_of(str(array)).ways if way.command.endswith("--orphans"))
    assert way.paths == {f"__fragments/{orphan.name}/a0.tdb"}
    assert "did not finish" in way.lost
    assert "time travel is lost" in way.lost


@pytest.mark.usefixtures("two_days_later")
def test_an_ignored_fragment_goes_once_no_con_names_it(tmp_path: pathlib.Path) -> None:
    array = EngineArray(tmp_path / "array").create()
    for at in (10, 20, 30):
        array.write(at, {at: at})
    ct.consolidate(array.uri)
    ct.vacuum(array.uri)
    first, second, _ = sorted(array.files("__fragments"))
    lines = "".join(f"__commits/{name}.wrt\n" for name in (first, second))
    (array.commits_folder / f"__10_20_{'0' * 32}_22.ign").write_text(lines)
    (array.folder / "__fragments" / second / "a0.tdb").unlink()
    rows = rows_of(array.uri)
    vacuum = f"chronotile vacuum {array.uri}"
    tidy = f"chronotile consolidate {array.uri} && {vacuum}"
    for name, option in ((first, "--whole-orphans"), (second, "--orphans")):
        inside = [row for row in rows if row["fragment"] == name]
        said = {(row["reason"], row["freed_by"]) for row in inside}
        assert said == {("ignored", f"{tidy} && {vacuum} {option}")}
    ct.consolidate(array.uri)
    ct.vacuum(array.uri)
    assert set(array.files("__fragments")) >= {first, second}
    ct.vacuum(array.uri, orphans=True)
    assert first in array.files("__fragments")
    assert second not in array.files("__fragments")
    ct.vacuum(array.uri, whole_orphans=True)
    assert first not in array.files("__fragments")


def metadata_reads(array: str) -> int:
    """How many fragments' metadata a look at the usage reads."""
    seen: list[str] = []
    store = open_store(array, on_operation=lambda what, path: seen.append(f"{what} {path}"))
    measure_usage(store, read_history(store))
    return sum(one.startswith("read ") and one.endswith("_metadata.tdb") for one in seen)


def test_footers_are_read_only_where_schemas_differ(tmp_path: pathlib.Path) -> None:
    attrs = [tiledb.Attr("a", dtype=np.int32), tiledb.Attr("b", dtype=np.int32)]
    array = EngineArray(tmp_path / "array").create(attrs=attrs)
    for at in (10, 20, 30):
        array.write_columns(at, [at], {"a": [1], "b": [2]})
    assert metadata_reads(array.uri) == 0
    array.evolve(drop="a")
    assert metadata_reads(array.uri) == 3, "a0.tdb was a, and would now be b"
    fields = {row["field"] for row in rows_of(array.uri) if row["path"].endswith("/a0.tdb")}
    assert fields == {"a"}


@pytest.mark.parametrize("case", ["schema-drop", "schema-retype", "overlaps", "labels"])
def test_damaged_metadata_of_fragments_hides_no_byte(case: str, tmp_path: pathlib.Path) -> None:
    array = CASES[case].copy_to(tmp_path)
    chance = random.Random(case)
    for path in sorted(pathlib.Path(array).rglob("__fragment_metadata.tdb")):
        data = path.read_bytes()
        at = chance.randrange(len(data))
        path.write_bytes(chance.choice([b"", data[:at], data[:at] + b"\xff" * (len(data) - at)]))
    assert {row["path"]: row["bytes"] for row in rows_of(array)} == on_disk(array)


@pytest.mark.parametrize("case", ["schema-drop", "overlaps", "labels", "bad-uncommitted"])
def test_storage_that_fails_is_an_error_at_every_step(case: str) -> None:
    """No outage is taken for an array without files, or one that nothing frees."""
    history = read_history(open_store(str(CASES[case].array)))
    steps: list[str] = []
    failing = -1

    def hook(what: str, path: str) -> None:
        if not what.endswith(".done"):
            if len(steps) == failing:
                raise StorageError(path, "the storage answered: 503")
            steps.append(what)

    def measure() -> None:
        steps.clear()
        measure_usage(open_store(str(CASES[case].array), on_operation=hook), history)

    measure()
    for number in range(len(steps)):
        failing = number
        with pytest.raises(StorageError, match="503"):
            measure()


def test_dimension_labels_are_told_of_as_arrays() -> None:
    rows = rows_of(str(CASES["labels"].array))
    inside = [row for row in rows if row["path"].startswith("__labels/")]
    assert {row["reason"] for row in inside} >= {"visible", "schema", "commit-log"}
    assert any(row["field"] and row["part"] == "data" for row in inside)


def test_a_folder_of_labels_that_is_no_array_is_stray(tmp_path: pathlib.Path) -> None:
    array = EngineArray(tmp_path / "array").create()
    folder = array.folder / "__labels" / "none"
    folder.mkdir(parents=True)
    (folder / "file").write_bytes(b"123")
    (row,) = (row for row in rows_of(array.uri) if row["path"].startswith("__labels/"))
    assert (row["reason"], row["bytes"], row["freed_by"]) == ("stray", 3, None)


def test_an_encrypted_array_without_its_key_has_no_fields() -> None:
    case = CASES["secret-loose-v22"]
    assert any(row["field"] for row in rows_of(str(case.array), case.key))
    rows = rows_of(str(case.array))
    assert {row["field"] for row in rows} == {None}
    assert sum(row["bytes"] for row in rows) == sum(on_disk(case.array).values())


def test_a_folder_that_cannot_be_listed_is_an_error(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    array = EngineArray(tmp_path / "array").create()
    log = ct.open_log(array.uri)

    scan = os.scandir

    def refuse(path: Any) -> Any:
        if isinstance(path, int):
            return scan(path)
        raise PermissionError(13, "Permission denied", os.fspath(path))

    monkeypatch.setattr(os, "scandir", refuse)
    with pytest.raises(StorageError, match="Permission denied"):
        log.usage()


def live(uri: str, seed: int, settings: dict[str, str] | None = None) -> EngineArray:
    """An array of many kinds of fields, with a random history."""
    chance = random.Random(seed)
    sparse = chance.random() < 0.6
    dims = [tiledb.Dim("x", domain=(0, 99), tile=10, dtype=np.int64)]
    attrs = [
        tiledb.Attr("a", dtype=np.int32),
        tiledb.Attr("t", dtype="ascii", var=True),
        tiledb.Attr("n", dtype=np.float64, nullable=True),
    ]
    array = EngineArray(uri, settings=settings).create(sparse=sparse, dims=dims, attrs=attrs)
    for step in range(1, 9):
        at = step * 10
        kind = chance.choice(
            ["write", "write", "write", "fragments", "commits", "vacuum", "delete"]
        )
        if kind == "write" or step < 3:
            xs = sorted(chance.sample(range(100), 3)) if sparse else list(range(10))
            values = {
                "a": np.arange(len(xs), dtype=np.int32),
                "t": np.array(["xyz" * n for n in range(len(xs))], dtype=object),
                "n": np.arange(len(xs), dtype=np.float64),
            }
            with tiledb.open(uri, "w", timestamp=at, ctx=array.ctx) as opened:
                if sparse:
                    opened[xs] = values
                else:
                    opened[0:10] = values
        elif kind == "delete" and sparse:
            array.delete(at, "a == 1")
        elif kind == "vacuum":
            array.vacuum("fragments")
        elif kind in ("fragments", "commits"):
            array.consolidate(kind)
    return array


@pytest.mark.parametrize("seed", range(6))
def test_random_arrays(seed: int, tmp_path: pathlib.Path) -> None:
    array = live(str(tmp_path / "array"), seed)
    rows = rows_of(array.uri)
    assert {row["path"]: row["bytes"] for row in rows} == on_disk(array.uri)
    cells = [row for row in rows if row["fragment"] and row["part"] != "metadata"]
    assert all(row["field"] and row["part"] for row in cells)
    freed = {row["path"] for row in rows if row["freed_by"] == f"chronotile vacuum {array.uri}"}
    before = on_disk(array.uri)
    ct.vacuum(array.uri)
    assert gone(before, array.uri) == freed


def test_a_bucket(s3: S3Server, bucket: str) -> None:
    """The sum is what the bucket lists, and the plans are asked for with the same options."""
    array = live(f"{bucket}/array", 2, s3_settings(s3))
    s3.send("PUT", f"{array.uri.removeprefix('s3://')}/stray/a b", b"12345")
    listed = {
        entry.path.removeprefix("array/"): entry.size
        for entry in open_store(bucket, s3.options).list_prefix()
    }
    rows = ct.open_log(array.uri, storage_options=s3.options).usage().to_pylist()
    assert {row["path"]: row["bytes"] for row in rows} == listed
    assert {row["reason"] for row in rows} >= {"visible", "schema", "stray"}
    freed = {row["path"] for row in rows if row["freed_by"] == f"chronotile vacuum {array.uri}"}
    done = ct.vacuum(array.uri, storage_options=s3.options)
    assert {step.path for step in done.steps if step.op == "remove"} == freed
