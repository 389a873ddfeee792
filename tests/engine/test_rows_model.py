"""Rows held to a plain dictionary that plays the same history."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import pytest
from support.row_histories import RowHistory

from chronotile.history.reading import read_history
from chronotile.log import Log
from chronotile.rows.read import rows_of
from chronotile.storage.store import open_store

if TYPE_CHECKING:
    import pathlib

    import pyarrow as pa

WINDOWS = 20


def listed(table: pa.Table) -> list[dict[str, Any]]:
    """Rows that equal themselves, NaN too, in the order of the model."""
    return sorted(map(plain, table.to_pylist()), key=repr)


def plain(row: dict[str, Any]) -> dict[str, Any]:
    return {
        name: "nan" if isinstance(value, float) and math.isnan(value) else value
        for name, value in row.items()
    }


def log_of(uri: str) -> Log:
    store = open_store(uri)
    return Log(read_history(store, labels=True), store)


def modelled(history: RowHistory, start: int, end: int) -> list[dict[str, Any]]:
    return sorted(map(plain, history.model.rows(start, end)), key=repr)


@pytest.mark.parametrize("first", range(0, 50, 10))
def test_rows_are_those_of_the_model(first: int, tmp_path: pathlib.Path) -> None:
    for seed in range(first, first + 10):
        history = RowHistory(seed, tmp_path / str(seed), consolidates=seed % 3 == 0)
        history.live(12)
        log = log_of(history.array.uri)
        for start, end in history.windows(WINDOWS):
            found = listed(rows_of(log, start, end).table())
            assert found == modelled(history, start, end), (seed, start, end)
