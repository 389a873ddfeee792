"""Random histories: what the engine reads at random windows is what the log says, cell by cell.

`make oracle` runs the same machinery for longer.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from bench.oracle import Figures, compare, run
from support.histories import History
from support.reference_cells import Reference

import chronotile as ct

if TYPE_CHECKING:
    from pathlib import Path

WINDOWS = 2000
SEED = 1


@pytest.fixture(scope="module")
def figures(tmp_path_factory: pytest.TempPathFactory) -> Figures:
    return run(SEED, WINDOWS, tmp_path_factory.mktemp("oracle"))


def test_no_difference(figures: Figures) -> None:
    assert figures.differences == [], figures.to_text()
    assert figures.windows >= WINDOWS
    assert figures.cells > 5 * WINDOWS


def test_what_the_histories_went_through(figures: Figures) -> None:
    """Without these the comparison would prove less than it seems to."""
    assert min(figures.steps.values()) >= 5, figures.steps
    assert len(figures.steps) == 10
    assert 0 < figures.dense_histories < figures.histories
    assert figures.left_out_f4 > 0
    assert figures.either_f13 > 0
    assert figures.lifelines > 200


def test_known_refusals_and_no_others(figures: Figures) -> None:
    """F1 and F3 stop the engine from consolidating commits, and F3 from naming an `.ign`.

    A fragment that was consolidated from cells at one place and of one time may be unreadable.
    """
    known = {
        "consolidate commits: TileDB internal: Error generating timestamped name",
        "consolidate commits: IO Error: Cannot get file size of",
        "vacuum fragments: TileDB internal: Error generating timestamped name",
        "delete fragments: TileDB internal: Error generating timestamped name",
        "read: TileDB internal: All tiles should have at least one cell",
    }
    assert {refusal for refusal in figures.refused if not refusal.startswith(tuple(known))} == set()


def test_the_oracle_notices(tmp_path: Path) -> None:
    """Held against the view of another window, what the engine gives differs."""
    for seed in (7, 8):
        history = History(seed, tmp_path / str(seed))
        while history.done["write"] < 3:
            history.step()
        log = ct.open_log(history.uri)
        figures = Figures(first_seed=seed)
        reference = Reference([one.name for one in history.fields], history.rank)
        last = max(history.times)
        with history.reader() as reader:
            reader.look(0, last)
            found = reader.rows(history.fields, dense=history.dense)
        compare(history, log.view(0, last), found, reference, figures)
        assert figures.differences == []
        compare(history, log.view(0, 0), found, reference, figures)
        (difference,) = figures.differences
        assert difference["seed"] == seed
        assert difference["window"] == (0, 0)
