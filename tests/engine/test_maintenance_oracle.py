"""The engine's answers before and after maintenance, over random histories.

The engine is the judge: at random windows it must give the same cells before `consolidate`,
after it, after `vacuum`, and after both again. Windows that a vacuum announced as lost, of dense
arrays, are the only exception.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING

import pytest
from support.engine_answers import announced, cuts
from support.histories import History

from chronotile import consolidate, open_log, vacuum

if TYPE_CHECKING:
    import pathlib
    from collections.abc import Callable

    from support.engine_arrays import Answer, EngineArray, Window

HISTORIES = 40
STEPS = 12
WINDOWS = 20


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What maintenance did to one history."""

    dense: bool
    extensions: frozenset[str]
    """Of the files that the log had before."""
    compared: int
    """Windows that had to read the same in the end."""
    with_rows: int
    """Windows at which the engine found something."""
    lost: int
    """Windows that were announced as lost, and not compared."""
    differences: tuple[str, ...]


def differences(
    array: EngineArray, before: dict[Window, Answer], lost: list[tuple[int, int]], after: str
) -> list[str]:
    kept = [window for window in before if not any(cuts(window, times) for times in lost)]
    return [
        f"at {window}, {after}: {before[window]} became {now}"
        for window, now in array.answers(kept).items()
        if now != before[window]
    ]


def live(seed: int, folder: pathlib.Path) -> History:
    history = History(seed, folder, ties=False)
    for _ in range(STEPS):
        history.step()
    return history


def maintain(seed: int, folder: pathlib.Path) -> Outcome:
    history = live(seed, folder)
    array = history.array
    before = array.answers(history.windows(WINDOWS))
    extensions = frozenset(path.suffix for path in array.commits_folder.iterdir())
    lost: list[tuple[int, int]] = []
    found: list[str] = []
    for turn in ("once", "again"):
        consolidate(array.uri)
        found += differences(array, before, lost, f"consolidated {turn}")
        lost += announced(vacuum(array.uri).notes)
        found += differences(array, before, lost, f"vacuumed {turn}")
    assert not consolidate(array.uri).steps
    assert not vacuum(array.uri).steps
    assert_tidy(array)
    gone = sum(any(cuts(window, times) for times in lost) for window in before)
    return Outcome(
        dense=history.dense,
        extensions=extensions,
        compared=len(before) - gone,
        with_rows=sum(
            not isinstance(answer, str) and len(answer) > 0 for answer in before.values()
        ),
        lost=gone,
        differences=tuple(found),
    )


def assert_tidy(array: EngineArray) -> None:
    """One `.con`, nothing loose that it holds, and no debt."""
    codes = {finding.code for finding in open_log(array.uri).check()}
    assert not codes & {"con-superseded", "delete-duplicate", "con-name-range", "con-truncated"}
    assert len(array.files("__commits", "*.con")) <= 1


@pytest.fixture(scope="module")
def outcome_of(tmp_path_factory: pytest.TempPathFactory) -> Callable[[int], Outcome]:
    """The outcome of a history, lived once."""
    folder = tmp_path_factory.mktemp("histories")
    return cache(lambda seed: maintain(seed, folder / str(seed)))


@pytest.mark.parametrize("seed", range(HISTORIES))
def test_every_window_reads_the_same(seed: int, outcome_of: Callable[[int], Outcome]) -> None:
    assert outcome_of(seed).differences == ()


def test_what_the_histories_held(outcome_of: Callable[[int], Outcome]) -> None:
    """Without these the comparison would prove less than it seems to."""
    outcomes = [outcome_of(seed) for seed in range(HISTORIES)]
    assert sum(one.compared for one in outcomes) >= 500
    assert sum(one.with_rows for one in outcomes) >= 400
    assert 0 < sum(one.lost for one in outcomes) < 100
    assert 5 < sum(one.dense for one in outcomes) < HISTORIES - 5
    known = {".wrt", ".del", ".upd", ".con", ".ign", ".vac"}
    assert frozenset().union(*(one.extensions for one in outcomes)) == known
    for extension in known:
        assert sum(extension in one.extensions for one in outcomes) >= 3, extension


def test_a_lost_commit_is_noticed(tmp_path: pathlib.Path) -> None:
    history = live(0, tmp_path / "history")
    array = history.array
    before = array.answers([(0, 1 << 60)])
    consolidate(array.uri)
    assert differences(array, before, [], "consolidated") == []
    vacuum(array.uri)
    (con,) = array.commits_folder.glob("*.con")
    con.unlink()
    (said,) = differences(array, before, [], "without its commits")
    assert said.startswith("at (0, ")
