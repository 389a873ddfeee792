"""Rows of many arrays in one table: the same as the tables of each array, one after the other."""

from __future__ import annotations

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st
from support.corpus_cases import CASES

import chronotile as ct
from chronotile.fleet.array_tables import (
    LARGEST_BIGINT,
    SCHEMAS,
    TABLES,
    ArrayTables,
    Piece,
    gathered,
)
from chronotile.format.names import MAX_TIMESTAMP

SCHEMA = pa.schema([("array", pa.string()), ("t1", pa.int64()), ("word", pa.string())])

times = st.integers(0, LARGEST_BIGINT)
words = st.one_of(st.none(), st.text(max_size=3))
uris = st.sampled_from("abc")


WINDOWS = ((0, MAX_TIMESTAMP), (5, 1_000_000), (MAX_TIMESTAMP, MAX_TIMESTAMP))


def test_the_rows_of_a_fleet_are_those_of_each_array() -> None:
    logs = [ct.open_log(str(case.array), key=case.key) for case in CASES.values()]
    tables = [ArrayTables(log, start, end) for log in logs for start, end in WINDOWS]
    for name in SCHEMAS:
        whole = gathered(TABLES[name], [piece for one in tables for piece in one.pieces(name)])
        assert whole.schema.equals(TABLES[name])
        assert whole.to_pylist() == [row for one in tables for row in one.table(name).to_pylist()]


@st.composite
def pieces(draw: st.DrawFn) -> Piece:
    rows = draw(st.lists(st.tuples(uris, times, words), max_size=3))
    made = [{"array": a, "t1": t, "word": w} for a, t, w in rows]
    return made if draw(st.booleans()) else pa.Table.from_pylist(made, schema=SCHEMA)


def rows_of(piece: Piece) -> list[dict[str, object]]:
    return piece if isinstance(piece, list) else piece.to_pylist()


@given(st.lists(pieces(), max_size=6))
def test_pieces_of_all_kinds_keep_their_order(given_: list[Piece]) -> None:
    whole = gathered(SCHEMA, given_)
    assert whole.schema.equals(SCHEMA)
    assert whole.to_pylist() == [row for one in given_ for row in rows_of(one)]
