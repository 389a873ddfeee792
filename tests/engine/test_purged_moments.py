"""A purging consolidation takes rows out of the past: `moments`, `check --as-of`, `rows` say so."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest
import tiledb
from support.group_histories import make_array, opened
from support.verbs import open_rows

import chronotile as ct

if TYPE_CHECKING:
    from pathlib import Path

TIMES = (10, 11, 20, 25, 26, 29, 30, 31, 40, 50, 55)


def rows(array: Path, at: int) -> list[int]:
    with tiledb.open(str(array), timestamp=at) as opened:
        return sorted(opened[:]["a"].tolist())


@pytest.mark.parametrize("purge", [True, False])
@pytest.mark.parametrize("end", [25, 50], ids=["delete after the merge", "delete inside"])
def test_every_time_that_is_called_whole_reads_as_before(
    end: int, purge: bool, tmp_path: Path
) -> None:
    group, array = tmp_path / "group", tmp_path / "group" / "cells"
    tiledb.Group.create(str(group))
    make_array(str(array))
    with opened(str(group), "w", 1) as writer:
        writer.add("cells", "cells", relative=True)
    for at, keys in ((10, [1, 2, 3]), (20, [4, 5, 6]), (40, [7, 8])):
        with tiledb.open(str(array), "w", timestamp=at) as cells:
            cells[np.array(keys, np.int32)] = np.array(keys, np.int32)
    with tiledb.open(str(array), "d", timestamp=30) as cells:
        cells.query(cond="a < 3").submit()
    before = {at: rows(array, at) for at in TIMES}
    settings = {
        "sm.consolidation.mode": "fragments",
        "sm.consolidation.purge_deleted_cells": str(purge).lower(),
        "sm.consolidation.timestamp_end": str(end),
    }
    tiledb.consolidate(str(array), config=tiledb.Config(settings))
    for vacuumed in (False, True):
        if vacuumed:
            tiledb.vacuum(str(array), config=tiledb.Config({"sm.vacuum.mode": "fragments"}))
        torn = {at for at in TIMES if rows(array, at) != before[at]}
        assert bool(torn) == purge
        dataset = ct.open_dataset(str(group))
        whole = {
            at
            for state in dataset.moments()
            for at in TIMES
            if state.t <= at and (state.until is None or at <= state.until)
        }
        assert set(TIMES) - whole == torn
        for at in TIMES:
            notes = open_rows(str(array), end=at).notes
            assert [("purged them" in note) for note in notes] == [True] * (at in torn), at
            codes = [item.code for item in dataset.check(as_of=at)]
            assert codes == (["as-of-partial"] if at in torn else []), at
