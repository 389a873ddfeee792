"""The sample that the package ships: the engine wrote it, and reads it."""

from __future__ import annotations

from pathlib import Path

import pytest
import tiledb
from support.engine_arrays import EngineArray
from support.engines import engine

import chronotile as ct
from chronotile.cli import sample
from chronotile.format.kinds import EVENTS
from chronotile.format.timestamps import to_ms


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> sample.Sample:
    return sample.unpack(tmp_path_factory.mktemp("sample"))


def test_the_engine_reads_real_cells(made: sample.Sample) -> None:
    array = EngineArray(made.array)
    before = array.answer(0, to_ms(sample.FIRST_DELETE) - 1)
    after = array.answer(0, to_ms(sample.FIRST_DELETE))
    assert (len(before), len(after)) == (80, 66)
    gone = set(before) - set(after)
    assert {amount for amount, *_ in gone if isinstance(amount, float)}, "less than it asked for"
    assert None in {amount for amount, *_ in gone}, "NULLs that its author did not mean"
    assert len(array.answer()) == 204
    with tiledb.open(array.uri, ctx=array.ctx) as opened:
        assert opened.meta["source"] == "till export, v2"
        assert opened.schema.has_attr("channel")


def test_the_history_is_worth_telling(made: sample.Sample) -> None:
    log = ct.open_log(made.array)
    events = log.events().to_pylist()
    assert {event["kind"] for event in events} == set(EVENTS) - {"fragment-meta"}
    reasons = {event["reason"] for event in events}
    assert {"in-window", "superseded", "ignored", "uncommitted"} <= reasons
    assert not [item for item in log.check(deep=True) if item.severity == "error"]
    assert max(log.commits()["t2"].to_pylist()) == to_ms(sample.LAST_WRITE)
    assert [update.t2 for update in log.view().updates] == [to_ms(sample.UPDATE)]


def test_applied_deletes_are_counted_in_reach_only(made: sample.Sample) -> None:
    words = ct.open_log(made.array).events(kinds=["delete"])["text"].to_pylist()
    assert [text.rpartition("; ")[2] for text in words] == [
        "in force in 3 fragments, applied in 1 of them by a merge",
        "in force in 1 fragment, applied in it by a merge",
    ]


def test_the_dataset_is_a_group_of_three(made: sample.Sample) -> None:
    ctx = engine()
    with tiledb.Group(str(made.dataset), ctx=ctx) as group:
        assert {member.name for member in group} == {"stations", "readings", "derived"}
    found = ct.check_fleet(made.dataset)
    names = {Path(uri).name for uri in found.arrays}
    assert names == {"stations", "readings", "daily"}
    assert found.worst() == "warning"
    assert len(EngineArray(made.dataset / "readings").answer()) == 20


def test_it_is_small_and_dated(made: sample.Sample) -> None:
    assert (Path(sample.__file__).parent / "sample.zip").stat().st_size < 80_000
    (con,) = (made.array / "__commits").glob("*.con")
    assert con.stat().st_mtime * 1000 == to_ms("2024-05-08T02:10")
