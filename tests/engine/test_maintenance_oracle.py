"""The engine's answers before and after maintenance, over random histories.

The engine is the judge: at random windows it must give the same cells before `consolidate`,
after it, after `vacuum`, and after both again. Windows that a vacuum announced as lost, of dense
arrays, are the only exception.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from support.engine_answers import announced, cuts
from support.engine_arrays import EngineArray, RandomHistory

from chronotile.change.consolidate import consolidate
from chronotile.change.vacuum import vacuum
from chronotile.log import open_log

if TYPE_CHECKING:
    import pathlib

    from support.engine_arrays import Answer, Window

HISTORIES = 40
WINDOWS = 14


def compare(
    array: EngineArray, before: dict[Window, Answer], lost: list[tuple[int, int]], after: str
) -> None:
    for window, answer in before.items():
        if any(cuts(window, times) for times in lost):
            continue
        assert array.answer(*window) == answer, f"at {window}, {after}"


@pytest.mark.parametrize("seed", range(HISTORIES))
def test_every_window_reads_the_same(seed: int, tmp_path: pathlib.Path) -> None:
    array = EngineArray(tmp_path / "array")
    history = RandomHistory(array, seed)
    before = array.answers(history.windows(WINDOWS))
    lost: list[tuple[int, int]] = []
    for turn in ("once", "again"):
        consolidate(array.uri)
        compare(array, before, lost, f"consolidated {turn}")
        done = vacuum(array.uri)
        lost += announced(done.notes)
        compare(array, before, lost, f"vacuumed {turn}")
    assert not consolidate(array.uri).steps
    assert not vacuum(array.uri).steps
    assert_tidy(array)


def assert_tidy(array: EngineArray) -> None:
    """One `.con`, nothing loose that it holds, and no debt."""
    codes = {finding.code for finding in open_log(array.uri).check()}
    assert not codes & {"con-superseded", "delete-duplicate", "con-name-range", "con-truncated"}
    assert len(array.files("__commits", "*.con")) <= 1


def test_there_are_enough_windows() -> None:
    assert HISTORIES * WINDOWS >= 500
