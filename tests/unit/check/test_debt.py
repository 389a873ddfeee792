"""Debt: bytes that a vacuum would free, small fragments, metadata by the hundred."""

from __future__ import annotations

import re
import shutil
from typing import TYPE_CHECKING

import pytest
import tiledb
from support.corpus_cases import CASES
from support.engine_arrays import EngineArray

import chronotile as ct
from chronotile.check.debt import MANY_META, MANY_SMALL

if TYPE_CHECKING:
    import pathlib

    from chronotile.check.findings import Finding


def found(array: str, code: str, *, key: bytes | None = None) -> list[Finding]:
    return [item for item in ct.open_log(array, key=key).check() if item.code == code]


@pytest.mark.parametrize("name", CASES)
def test_superseded_bytes_are_those_that_a_vacuum_frees(name: str, tmp_path: pathlib.Path) -> None:
    case = CASES[name]
    array = case.copy_to(tmp_path)
    told = found(array, "superseded-bytes", key=case.key)
    try:
        plan = ct.vacuum(array, mode="fragments", dry_run=True, key=case.key)
    except ct.ChronotileError:
        assert not told, "a vacuum refuses"
        return
    freed = sum(
        step.size or 0
        for step in plan.steps
        if step.op == "remove" and not step.path.endswith((".wrt", ".ok", ".vac"))
    )
    said = [
        int(text.replace(",", ""))
        for one in told
        for text in re.findall(r"([\d,]+) byte", one.message)
    ]
    assert said == ([freed] if freed else [])
    loses = any(note.startswith("time travel is lost") for note in plan.notes)
    assert [("would lose" in one.message) for one in told] == ([loses] if freed else [])
    assert not any(
        item.code == "superseded-bytes"
        for item in ct.open_log(array, key=case.key).check(log_only=True)
    )


def copies(array: EngineArray, count: int) -> None:
    """Makes further fragments of the last one, so that there are `count`."""
    (commit,) = array.commits_folder.glob("*.wrt")
    (fragment,) = (array.folder / "__fragments").iterdir()
    for number in range(2, count + 1):
        name = f"__{number}_{number}_{number:032x}_22"
        shutil.copytree(fragment, fragment.with_name(name))
        commit.with_name(f"{name}.wrt").touch()


@pytest.mark.parametrize(
    ("cells", "count", "is_told"), [(3, 0, True), (3, -1, False), (15, 0, False)]
)
def test_many_small_fragments(
    cells: int, count: int, is_told: bool, tmp_path: pathlib.Path
) -> None:
    """A tile of this array holds ten cells: a fragment of three is small, one of fifteen is not."""
    array = EngineArray(tmp_path / "array").create(capacity=10)
    array.write(1, dict.fromkeys(range(cells), 1))
    copies(array, MANY_SMALL + count)
    told = found(array.uri, "many-small-fragments")
    assert bool(told) == is_told
    for one in told:
        assert one.message.startswith(f"{MANY_SMALL} of {MANY_SMALL} visible fragments")
        assert "3 cells each (median)" in one.message
        assert f"compact would merge {MANY_SMALL} of them into about 1" in one.message
        assert f"chronotile compact {array.uri}" in one.hint
        assert one.severity == "info"


def metadata_debt(array: str) -> list[Finding]:
    return [one for one in found(array, "metadata-unconsolidated") if one.path == "__meta"]


def test_metadata_by_the_hundred(tmp_path: pathlib.Path) -> None:
    array = EngineArray(tmp_path / "array").create()
    for number in range(1, MANY_META + 1):
        assert not metadata_debt(array.uri)
        with tiledb.open(array.uri, "w", timestamp=number, ctx=array.ctx) as opened:
            opened.meta[f"k{number}"] = number
    (told,) = metadata_debt(array.uri)
    assert told.severity == "info"
    assert told.message.startswith(f"{MANY_META} files of array metadata")
    array.consolidate("array_meta")
    assert not metadata_debt(array.uri), "a .vac hides them"
