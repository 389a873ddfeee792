"""The text columns say what the table says row by row."""

from __future__ import annotations

import tempfile
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.corpus_cases import CASES

from chronotile import open_log
from chronotile.format.names import parse_name
from chronotile.history import text_columns
from chronotile.history.read_history import read_history
from chronotile.history.uri_columns import single_value
from chronotile.storage.store import open_store


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


times = st.one_of(st.integers(1_000, 1_010), st.integers(0, 2**40))


@settings(max_examples=150, deadline=None)
@given(st.lists(st.tuples(times, st.integers(0, 3), st.integers(0, 2**32 - 1)), max_size=90))
def test_loose_commits_come_in_the_order_of_time(found: list[tuple[int, int, int]]) -> None:
    """Whatever the order of their files, and whichever way they are sorted."""
    names = [f"__{t}_{t + more}_{uuid:08x}{'0' * 24}_22" for t, more, uuid in found]
    case = next(iter(CASES.values()))
    (schema,) = (case.array / "__schema").glob("__*_*_*")
    with tempfile.TemporaryDirectory() as root:
        commits = Path(root, "__commits")
        commits.mkdir()
        for name in names:
            (commits / f"{name}.wrt").touch()
        Path(root, "__schema").mkdir()
        Path(root, "__schema", schema.name).write_bytes(schema.read_bytes())
        table = read_history(open_store(root)).table
    rows = np.arange(len(table))
    parsed = sorted({*names}, key=lambda name: (*parse_name(name)[:2], parse_name(name).uuid))
    assert text_columns.names(table, rows).to_pylist() == parsed
    assert [table.name(row) for row in rows.tolist()] == parsed
    if names:
        assert single_value(table.uris.ext) is not None, "one value stays one"
        assert single_value(table.source) is not None
