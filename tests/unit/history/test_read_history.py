"""Histories: what is damaged is told, and loses nothing else; schemas, vacuum files, problems."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from support.corpus_cases import CASES, expected, log_of
from support.engine_arrays import EngineArray

import chronotile as ct
from chronotile.errors import StorageError
from chronotile.history.read_history import read_history
from chronotile.storage.store import open_store
from chronotile.visibility.rules import schema_at

if TYPE_CHECKING:
    from chronotile.log import Log

DAMAGE = {
    "bad-backwards": {"name"},
    "bad-con-line": {"con"},
    "bad-con-tile": {"con"},
    "bad-name": {"name"},
}
"""The cases in which the log itself is damaged; a tile is opened only when it is asked for."""


@pytest.mark.parametrize("case", CASES)
def test_problems(case: str) -> None:
    found = {problem.kind for problem in log_of(case).history.problems}
    assert found == DAMAGE.get(case, set())


@pytest.fixture
def array(tmp_path: Path) -> EngineArray:
    made = EngineArray(tmp_path / "array").create()
    made.live()
    return made


def commits(array: EngineArray, suffix: str) -> Path:
    return next(iter(sorted((Path(array.uri) / "__commits").glob(f"*{suffix}"))))


def names(log: Log) -> list[str]:
    return [one.name for one in log.view(0, 100).fragments]


@pytest.mark.parametrize("suffix", [".ign", ".vac"])
def test_a_last_line_without_its_end(array: EngineArray, suffix: str) -> None:
    """As the engine, we take it; but we say so."""
    before = names(ct.open_log(array.uri))
    path = commits(array, suffix)
    path.write_bytes(path.read_bytes().rstrip(b"\n"))
    after = ct.open_log(array.uri)
    assert names(after) == before
    assert [problem.kind for problem in after.history.problems] == [suffix[1:]]
    rows = array.rows(0, 100)
    assert rows == {3: 30, 4: 40, 5: 50, 7: 7, 8: 8}


@pytest.mark.parametrize("junk", [b"\xff\xfe\n", b"\n", b"\0", b"no line of its kind"])
@pytest.mark.parametrize("suffix", [".con", ".ign", ".vac"])
def test_junk_at_the_end_loses_nothing_else(array: EngineArray, suffix: str, junk: bytes) -> None:
    before = names(ct.open_log(array.uri))
    path = commits(array, suffix)
    path.write_bytes(path.read_bytes() + junk)
    after = ct.open_log(array.uri)
    assert names(after) == before
    assert [problem.kind for problem in after.history.problems] == [suffix[1:]]
    said = {(one.name, one.reason) for one in after.view().explain() if one.kind != "fragment"}
    assert (path.stem, "unreadable") in said


def test_a_con_cut_short_anywhere(array: EngineArray) -> None:
    """What stands before the cut is read, as the engine does (F9)."""
    path = commits(array, ".con")
    data = path.read_bytes()
    whole = ct.open_log(array.uri)
    records = [row for row in whole.commits().to_pylist() if row["source"].endswith(".con")]
    counts = []
    for end in range(0, len(data), 5):
        path.write_bytes(data[:end])
        log = ct.open_log(array.uri)
        left = [row["name"] for row in log.commits().to_pylist() if row["source"].endswith(".con")]
        assert set(left) <= {row["name"] for row in records}
        counts.append(len(left))
    assert counts == sorted(counts)
    assert counts[0] == 0


def test_a_damaged_schema_leaves_the_rest(array: EngineArray) -> None:
    before = ct.open_log(array.uri)
    (schema,) = (Path(array.uri) / "__schema").glob("__*_*")
    schema.write_bytes(b"damaged")
    log = ct.open_log(array.uri)
    assert [problem.kind for problem in log.history.problems] == ["schema"]
    assert log.history.dense is False  # told by its deletes
    assert names(log) == names(before)
    assert log.view().schema == before.view().schema
    (first, _) = log.view().to_dict()["deletes"]
    assert first["text"] is not None
    assert first["predicate"]["raw"] == "03000000"


@pytest.mark.parametrize("dense", [True, False])
def test_dense_or_sparse_without_a_schema(tmp_path: Path, dense: bool) -> None:
    array = EngineArray(tmp_path / "array").create(sparse=not dense)
    array.write(10, {1: 1, 2: 2})
    array.write(20, {1: 3, 2: 4})
    array.consolidate("fragments")
    before = ct.open_log(array.uri)
    (schema,) = (Path(array.uri) / "__schema").glob("__*_*")
    schema.write_bytes(b"damaged")
    log = ct.open_log(array.uri)
    assert log.history.dense is dense
    for end in (5, 10, 15, 20):
        assert tuple(log.view(0, end).fragments) == tuple(before.view(0, end).fragments)


def test_extended_enumerations_keep_their_labels_apart() -> None:
    first, second = (item.schema for item in log_of("schema-extend").history.schemas)
    labels = []
    for schema in (first, second):
        assert schema is not None
        field = schema.field("a")
        assert field is not None
        assert field.enumeration is not None
        labels.append(field.enumeration.labels)
    assert labels == [("ant", "bee"), ("ant", "bee", "cat", "dog")]


@pytest.mark.parametrize("case", [case for case in CASES if case.startswith("schema-")])
def test_the_schema_in_force(case: str) -> None:
    log = log_of(case)
    for window in expected(case)["windows"]:
        if "fields" in window:
            item = schema_at(log.history, window["end"])
            assert item is not None
            assert item.schema is not None
            assert [field.name for field in item.schema.fields] == window["fields"]


@pytest.mark.parametrize("case", [case for case in CASES if case.startswith("meta")])
def test_metadata_files(case: str) -> None:
    """A key shows if and only if a metadata file that sets one is visible: that of 30 drops one."""
    for window in expected(case)["windows"]:
        view = log_of(case).view(window["start"], window["end"])
        shown = [one for one in view.explain() if one.kind == "meta" and one.status == "visible"]
        sets = [one for one in shown if not one.name.startswith("__30_30_")]
        assert bool(sets) == bool(window["metadata"]), window


def test_storage_that_fails_is_no_damage(array: EngineArray, tmp_path: Path) -> None:
    shutil.copytree(array.uri, tmp_path / "copy")
    path = commits(array, ".con")
    path.unlink()
    path.mkdir()
    (path / "file").touch()
    log = ct.open_log(array.uri)  # a folder is a stranger
    assert f"__commits/{path.name}" in log.history.listing.others

    def refuse(operation: str, path: str) -> None:
        if operation == "read" and path.endswith(".con"):
            raise StorageError(path, "expected an answer, found none")

    with pytest.raises(StorageError, match=r"\.con"):
        read_history(open_store(tmp_path / "copy", on_operation=refuse))


def test_figures(array: EngineArray) -> None:
    history = ct.open_log(array.uri).history
    files = [path for path in Path(array.uri).rglob("*") if path.suffix in (".con", ".ign", ".vac")]
    files += [*Path(array.uri).glob("__schema/__*_*"), *Path(array.uri).glob("__commits/*.del")]
    assert history.bytes_read == sum(path.stat().st_size for path in files)
    assert history.requests == 7 + len(files)
