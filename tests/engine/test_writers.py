"""Deletes and updates that this package writes: the engine reads and obeys them."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import numpy as np
import pytest
import tiledb
from support.engine_arrays import EngineArray

from chronotile import open_log, write_delete, write_update
from chronotile.check.findings import RefusedError
from chronotile.errors import ChronotileError, KeyNeededError, PredicateError

if TYPE_CHECKING:
    import pathlib

KEY = "0123456789abcdef0123456789abcdef"


@pytest.fixture
def array(tmp_path: pathlib.Path) -> EngineArray:
    made = EngineArray(tmp_path / "array").create()
    made.write(10, {x: x for x in range(8)})
    return made


@pytest.mark.parametrize(
    ("where", "left"),
    [
        ("a < 3", {3, 4, 5, 6, 7}),
        ("a >= 6", {0, 1, 2, 3, 4, 5}),
        ("x == 2 or a == 5", {0, 1, 3, 4, 6, 7}),
        ("x > 1 and a < 5", {0, 1, 5, 6, 7}),
        ("not (a < 3)", {0, 1, 2}),
        ("a in [1, 2, 7]", {0, 3, 4, 5, 6}),
        ("a != 4", {4}),
    ],
)
def test_the_engine_obeys_a_delete(array: EngineArray, where: str, left: set[int]) -> None:
    report = write_delete(array.uri, where, timestamp=20)
    answer = array.answer()
    assert not isinstance(answer, str), answer
    assert {row[0] for row in answer} == left
    assert len(array.answer(0, 19)) == 8
    (delete,) = open_log(array.uri).view(0, 30).deletes
    assert report.steps[0].path == delete.source
    assert (delete.t1, delete.t2, delete.version) == (20, 20, 22)
    assert report.steps[0].size == (array.folder / delete.source).stat().st_size


def test_the_file_is_what_the_engine_would_have_written(array: EngineArray) -> None:
    write_delete(array.uri, "a < 3 and x == 2", timestamp=20)
    array.delete(30, "a < 3 and x == 2")
    ours, theirs = (one.stored for one in open_log(array.uri).view(0, 40).deletes)
    assert ours == theirs
    sizes = {path.stat().st_size for path in array.commits_folder.glob("*.del")}
    assert len(sizes) == 1


def test_now_is_the_default(array: EngineArray) -> None:
    before = int(time.time() * 1000)
    write_delete(array.uri, "a == 1")
    (delete,) = open_log(array.uri).view().deletes
    assert before <= delete.t1 <= int(time.time() * 1000)


def test_a_dry_run_writes_nothing(array: EngineArray) -> None:
    report = write_delete(array.uri, "a == 1", dry_run=True)
    assert report.steps[0].op == "put"
    assert report.steps[0].reason == "delete where a == 1"
    assert array.files("__commits", "*.del") == []


def test_an_encrypted_array(tmp_path: pathlib.Path) -> None:
    array = EngineArray(tmp_path / "array", key=KEY).create()
    array.write(10, {1: 1, 2: 2})
    with pytest.raises(KeyNeededError):
        write_delete(array.uri, "a == 1", timestamp=20)
    write_delete(array.uri, "a == 1", timestamp=20, key=KEY)
    assert array.answer() == ((2, 2),)
    (path,) = array.commits_folder.glob("*.del")
    assert b"\x01a" not in path.read_bytes()


def test_a_key_does_not_encrypt_what_is_plain(array: EngineArray) -> None:
    write_delete(array.uri, "a < 7", timestamp=20, key=KEY)
    assert array.answer() == ((7, 7),)


def test_dense_arrays_have_no_deletes(tmp_path: pathlib.Path) -> None:
    array = EngineArray(tmp_path / "array").create(sparse=False)
    with pytest.raises(RefusedError, match="dense"):
        write_delete(array.uri, "a == 1")
    assert array.files("__commits") == []


def test_a_predicate_that_does_not_fit(array: EngineArray) -> None:
    for where in ("b == 1", "a == 'x'", "a <", ""):
        with pytest.raises(PredicateError):
            write_delete(array.uri, where)
    assert array.files("__commits", "*.del") == []


def test_a_field_that_is_gone_later(tmp_path: pathlib.Path) -> None:
    """A delete in the past must be readable under every schema since."""
    array = EngineArray(tmp_path / "array").create(
        attrs=[tiledb.Attr("a", dtype=np.int32), tiledb.Attr("b", dtype=np.int32)]
    )
    array.write_raw(10, x=[1, 2], a=[1, 2], b=[1, 2])
    array.evolve(drop="b")
    with pytest.raises(ChronotileError):
        write_delete(array.uri, "b == 1", timestamp=20)
    write_delete(array.uri, "a == 1", timestamp=20)
    assert array.answer() == ((2, 2),)


def test_text_and_nan(tmp_path: pathlib.Path) -> None:
    attrs = [tiledb.Attr("f", dtype=np.float64), tiledb.Attr("s", dtype="ascii", var=True)]
    array = EngineArray(tmp_path / "array").create(attrs=attrs)
    array.write_raw(10, x=[1, 2, 3], f=[1.0, float("nan"), 3.0], s=["one", "two", "three"])
    with pytest.raises(RefusedError, match="NaN"):
        write_delete(array.uri, "f > 2", timestamp=20)
    write_delete(array.uri, "s == 'two'", timestamp=20)
    assert [row[2] for row in array.answer()] == [1, 3]


def test_an_update(array: EngineArray) -> None:
    with pytest.raises(RefusedError, match="treats an update as a delete"):
        write_update(array.uri, "a == 2", {"a": 9})
    assert array.files("__commits", "*.upd") == []
    write_update(array.uri, "a == 2", {"a": 9}, timestamp=20, experimental=True)
    array.commit(30, "a == 3", a=9)
    ours, theirs = open_log(array.uri).view(0, 40).updates
    assert ours.text == "a == 2"
    assert ours.values == theirs.values
    assert {row[0] for row in array.answer()} == {0, 1, 4, 5, 6, 7}
