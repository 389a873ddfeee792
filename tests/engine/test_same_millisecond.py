"""Writes of one millisecond: the one is named whose values are shown (F13)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
import tiledb
from support.engine_arrays import EngineArray

import chronotile as ct

if TYPE_CHECKING:
    from pathlib import Path


def written(array: EngineArray, at: int, xs: list[int], value: int) -> str:
    """Write a value to some places; give the name of the write."""
    before = set(array.files("__fragments"))
    array.write(at, dict.fromkeys(xs, value))
    (name,) = set(array.files("__fragments")) - before
    return name


def twins(folder: Path, *, duplicates: bool) -> tuple[EngineArray, dict[int, str]]:
    """Three writes of one millisecond, to one place all of them and to one each; value -> name."""
    array = EngineArray(folder / "array").create(duplicates=duplicates)
    return array, {value: written(array, 10, [5, 20 + value], value) for value in range(3)}


def lines(table: Any, *names: str) -> list[tuple[Any, ...]]:
    return sorted(zip(*(table[name].to_pylist() for name in names), strict=True))


@pytest.mark.parametrize("number", range(4))
def test_the_write_is_named_whose_values_are_shown(number: int, tmp_path: Path) -> None:
    array, names = twins(tmp_path / str(number), duplicates=False)
    (shown,) = (row["a"] for row in ct.read_rows(array.uri).to_pylist() if row["x"] == 5)
    with tiledb.open(array.uri) as opened:
        found = opened.query(order="U")[:]
    assert found["a"][list(found["x"]).index(5)] == shown, "the engine shows it too"
    assert names[shown] == max(names.values())
    told = lines(ct.diff(array.uri, 9, 10, rows=True), "x", "a", "commit")
    assert told == [(5, shown, names[shown]), *((20 + v, v, names[v]) for v in range(3))]
    array.commit(20, "x == 5", a=7)
    events = ct.blame(array.uri, ["x=5"])
    # All three wrote to the place; what was changed is what was shown.
    assert lines(events, "event", "a", "commit")[1:] == [
        ("wrote", value, names[value]) for value in range(3)
    ]
    assert [row["a"] for row in ct.removed_rows(array.uri, _update(array)).to_pylist()] == [shown]
    only = ct.blame(array.uri, ["x=21"])
    assert only["commit"].to_pylist() == [names[1]]


def _update(array: EngineArray) -> str:
    (name,) = array.files("__commits", "*.upd")
    return name.removesuffix(".upd")


def test_each_duplicate_has_its_own_write(tmp_path: Path) -> None:
    array, names = twins(tmp_path, duplicates=True)
    same = written(array, 10, [21], 1)
    told = lines(ct.diff(array.uri, 9, 10, rows=True), "x", "a", "commit")
    wanted = [(x, v, names[v]) for v in range(3) for x in (5, 20 + v)]
    assert told == sorted([*wanted, (21, 1, same)])
    assert lines(ct.blame(array.uri, ["x=21"]), "commit") == sorted([(names[1],), (same,)])


def test_all_are_named_once_their_fragments_are_gone(tmp_path: Path) -> None:
    array, names = twins(tmp_path, duplicates=False)
    array.write(12, {50: 9})
    array.consolidate("commits")
    array.vacuum("commits")
    array.consolidate("fragments")
    array.vacuum("fragments")
    told = ct.blame(array.uri, ["x=21"])["commit"].to_pylist()
    assert told == [" or ".join(sorted(names.values()))]


def test_the_merged_fragment_is_named_once_no_commit_is_left(tmp_path: Path) -> None:
    array, _ = twins(tmp_path, duplicates=False)
    array.write(12, {50: 9})
    array.consolidate("fragments")
    array.vacuum("fragments")
    assert ct.blame(array.uri, ["x=21"])["commit"].to_pylist() == array.files("__fragments")
