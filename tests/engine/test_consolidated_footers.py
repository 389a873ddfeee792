"""A `.meta` of ours: the engine takes every footer from it, and reads the same."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING, Any

import pytest
import tiledb
from support.corpus_cases import CASES
from support.engine_answers import answers
from support.engine_arrays import EngineArray
from support.footers import consolidated_footers
from support.histories import History

import chronotile as ct
from chronotile.errors import ChronotileError, KeyNeededError
from chronotile.format import tiles
from chronotile.format.commit_files import rank
from chronotile.format.names import parse_name

if TYPE_CHECKING:
    import pathlib

KEY = "0123456789abcdef0123456789abcdef"


def metas(array: EngineArray) -> list[str]:
    return array.files("__fragment_meta", "*.meta")


def unconsolidated(array: EngineArray) -> int:
    return int(tiledb.array_fragments(array.uri, ctx=array.ctx).unconsolidated_metadata_num)


@pytest.mark.parametrize("count", [1, 2, 5])
def test_the_engine_takes_every_footer_from_it(tmp_path: pathlib.Path, count: int) -> None:
    array = EngineArray(tmp_path / "array").create()
    for at in range(9, 9 + count):  # 9 and 10 have different numbers of digits
        array.write(at, {at: at})
    before, was = array.answer(), unconsolidated(array)
    report = ct.consolidate(array.uri, mode="fragment-meta")
    assert (was, unconsolidated(array)) == (count, 0)
    assert array.answer() == before
    (name,) = metas(array)
    assert parse_name(name.removesuffix(".meta"))[:2] == (9, 8 + count)
    assert [step.path for step in report.steps] == [f"__fragment_meta/{name}"]
    assert not ct.consolidate(array.uri, mode="fragment-meta").steps


def test_the_same_bytes_as_the_engine(tmp_path: pathlib.Path) -> None:
    array = EngineArray(tmp_path / "array").create()
    array.live()
    ct.consolidate(array.uri, mode="fragment-meta")
    (ours,) = metas(array)
    array.consolidate("fragment_meta")
    (theirs,) = {*metas(array)} - {ours}
    held = []
    for name in (ours, theirs):
        data = (array.folder / "__fragment_meta" / name).read_bytes()
        held.append(consolidated_footers(tiles.decode(data, name).payload, name))
    assert held[0] == held[1]


@pytest.mark.parametrize("seed", range(8))
def test_random_histories_read_the_same(seed: int, tmp_path: pathlib.Path) -> None:
    history = History(seed, tmp_path / "history", ties=False)
    for _ in range(10):
        history.step()
    array = history.array
    before = array.answers(history.windows(8))
    ct.consolidate(array.uri, mode="all")
    assert array.answers(before) == before
    assert unconsolidated(array) == 0
    ct.vacuum(array.uri, mode="fragment-meta")
    assert array.answers(before) == before
    assert len(metas(array)) <= 1
    assert not ct.consolidate(array.uri, mode="all").steps


def test_a_later_one_is_later_than_the_engines(tmp_path: pathlib.Path) -> None:
    array = EngineArray(tmp_path / "array").create()
    for at in (10, 20):
        array.write(at, {at: at})
    array.consolidate("fragment_meta")
    (old,) = metas(array)
    assert not ct.consolidate(array.uri, mode="fragment-meta").steps
    array.write(5, {5: 5})
    ct.consolidate(array.uri, mode="fragment-meta")
    (new,) = {*metas(array)} - {old}
    assert rank(new) > rank(old)
    assert unconsolidated(array) == 0


def test_an_encrypted_array(tmp_path: pathlib.Path) -> None:
    array = EngineArray(tmp_path / "array", key=KEY).create()
    for at in (10, 20):
        array.write(at, {at: at})
    before = array.answer()
    with pytest.raises(KeyNeededError, match="key"):
        ct.consolidate(array.uri, mode="fragment-meta")
    assert not metas(array)
    ct.consolidate(array.uri, mode="fragment-meta", key=KEY)
    (name,) = metas(array)
    assert tiles.decode(
        (array.folder / "__fragment_meta" / name).read_bytes(), name, key=KEY.encode()
    ).encrypted
    assert array.answer() == before


def test_a_key_that_is_not_needed_encrypts_nothing(tmp_path: pathlib.Path) -> None:
    array = EngineArray(tmp_path / "array").create()
    array.write(10, {1: 1})
    (step,) = ct.consolidate(array.uri, mode="fragment-meta", key=KEY).steps
    assert not tiles.decode(step.data, "x").encrypted
    assert unconsolidated(array) == 0


def test_a_fragment_without_a_readable_footer_is_left_out(tmp_path: pathlib.Path) -> None:
    array = EngineArray(tmp_path / "array").create()
    for at in (10, 20):
        array.write(at, {at: at})
    (name,) = array.files("__fragments", "__20_*")
    path = array.folder / "__fragments" / name / "__fragment_metadata.tdb"
    path.write_bytes(path.read_bytes()[:-9])
    report = ct.consolidate(array.uri, mode="fragment-meta")
    assert report.notes[0].startswith(f"{name} is left out")
    (meta,) = metas(array)
    data = (array.folder / "__fragment_meta" / meta).read_bytes()
    assert name not in consolidated_footers(tiles.decode(data, meta).payload, meta)
    assert not ct.consolidate(array.uri, mode="fragment-meta").steps


def corpus_cases() -> list[Any]:
    return [
        c for c in CASES.values() if c.name.startswith(("old-", "inside-", "grown", "huge-times"))
    ]


@pytest.mark.parametrize("case", corpus_cases(), ids=lambda case: str(case.name))
def test_arrays_of_every_engine(case: Any, tmp_path: pathlib.Path) -> None:
    """Old layouts, all kinds of fields, encrypted: the engine reads what it read before."""
    folder = tmp_path / "array"
    shutil.copytree(case.array, folder)
    windows = [(0, 1 << 60), (0, 25)]
    before = answers(str(folder), case, windows)
    key = None if case.key is None else case.key.decode()
    try:
        report = ct.consolidate(str(folder), mode="fragment-meta", key=key)
    except ChronotileError as error:
        pytest.fail(f"{case.name}: {error}")
    assert answers(str(folder), case, windows) == before
    put = [step.path for step in report.steps]
    assert all(folder.joinpath(path).exists() for path in put)


def test_check_tells_what_opens_cost(tmp_path: pathlib.Path) -> None:
    array = EngineArray(tmp_path / "array").create()
    for at in range(1, 22):
        array.write(at, {at: at})
    (found,) = ct.open_log(array.uri).check()
    assert (found.code, found.severity) == ("metadata-unconsolidated", "info")
    assert "21 of 21" in found.message
    assert found.message.endswith("costs 69 requests in a bucket, and would cost 8")
    assert f": chronotile consolidate {array.uri} --mode fragment-meta" in found.hint
    done = ct.consolidate(array.uri, mode="fragment-meta")
    assert done.engine_open_requests == (69, 8), "as the finding says: the record costs one"
    assert not ct.open_log(array.uri).check()
