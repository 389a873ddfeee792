"""Lifelines: when a fragment is visible, and that it is so. Random histories are in the oracle."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from support.corpus_cases import CASES, log_of
from support.engine_arrays import EngineArray
from support.lifeline_views import lifeline_differences

import chronotile as ct

if TYPE_CHECKING:
    from pathlib import Path


@pytest.mark.parametrize("case", CASES)
def test_lifelines_and_views_agree(case: str) -> None:
    assert lifeline_differences(log_of(case)) == []


@pytest.mark.parametrize("case", CASES)
def test_the_reason_is_that_of_explain_afterwards(case: str) -> None:
    log = log_of(case)
    for row in log.lifelines().to_pylist():
        end = (1 << 64) - 1 if row["visible_until"] is None else row["visible_until"] + 1
        (said,) = (
            (one.reason, one.because)
            for one in log.view(0, end).explain()
            if (one.kind, one.name) == ("fragment", row["name"])
        )
        assert said[0] == row["reason"]
        if row["reason"] in ("superseded", "ignored"):
            assert said[1] == row["because"]


def test_one_life(tmp_path: Path) -> None:
    array = EngineArray(tmp_path / "array").create()
    array.write(10, {1: 1})
    array.write(20, {2: 2})
    array.consolidate("fragments")
    rows = ct.open_log(array.uri).lifelines().to_pylist()
    lives = {
        (row["t1"], row["t2"]): (row["visible_from"], row["visible_until"], row["reason"])
        for row in rows
    }
    # From 10 on the consolidated one is read cell by cell, and its `.vac` hides the others.
    assert lives == {
        (10, 10): (None, None, "superseded"),
        (20, 20): (None, None, "superseded"),
        (10, 20): (10, None, "in-window"),
    }


def test_a_dense_life(tmp_path: Path) -> None:
    array = EngineArray(tmp_path / "array").create(sparse=False)
    array.write(10, {1: 1, 2: 2, 3: 3, 4: 4})
    array.write(20, {1: 5, 2: 6, 3: 7, 4: 8})
    array.consolidate("fragments")
    rows = ct.open_log(array.uri).lifelines().to_pylist()
    lives = {(row["t1"], row["t2"]): (row["visible_from"], row["visible_until"]) for row in rows}
    assert lives == {(10, 10): (10, 19), (20, 20): (None, None), (10, 20): (20, None)}
