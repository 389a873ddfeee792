"""The text columns say what the table says row by row."""

from __future__ import annotations

import numpy as np
import pytest
from support.corpus_cases import CASES

from chronotile.format.names import parse_name
from chronotile.history import text_columns
from chronotile.log import open_log


@pytest.mark.parametrize("case", CASES)
def test_columns_equal_rows(case: str) -> None:
    table = open_log(str(CASES[case].array), CASES[case].expected.get("key")).history.table
    rows = np.arange(len(table))
    for chosen in (rows, rows[::-1], rows[::2], rows[:0]):
        one_by_one = chosen.tolist()
        names = text_columns.names(table, chosen).to_pylist()
        assert names == [table.name(row) for row in one_by_one]
        uuids = text_columns.uuids(table, chosen).to_pylist()
        assert uuids == [parse_name(name).uuid for name in names]
        versions = text_columns.versions(table, chosen).to_pylist()
        assert versions == [table.version(row) for row in one_by_one]
        paths = text_columns.paths(table, chosen).to_pylist()
        assert paths == [table.path(row) for row in one_by_one]
