"""What a log takes for a time, and the tables that it gives."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest
from support.corpus_cases import CASES, log_of
from support.plain_columns import without_times

import chronotile as ct
from chronotile.cli.program import main
from chronotile.format.timestamps import LAST_CALENDAR_MS, now_ms

if TYPE_CHECKING:
    from support.corpus_cases import Case

EVERYTHING = CASES["sparse-everything-v22"]


def test_a_window_takes_every_spelling() -> None:
    log = ct.open_log(EVERYTHING.array)
    ends = {
        log.view(end=end).end
        for end in (
            *(1714521600000, "1714521600000", "2024-05-01", "2024-05-01T00:00Z"),
            *(datetime(2024, 5, 1, tzinfo=UTC), "2024-05-01T02:00+02:00"),
        )
    }
    assert ends == {1714521600000}
    assert 0 <= now_ms() - 7_200_000 - log.view(end="2h").end < 60_000
    assert log.view("1970-01-01", "2024-05-01").to_dict() == log.view(0, 1714521600000).to_dict()


@pytest.mark.parametrize("case", CASES.values(), ids=list(CASES))
def test_each_column_of_ms_has_a_twin(case: Case) -> None:
    log = ct.open_log(case.array, key=case.key)
    for table in (log.commits(), log.fragments(), log.lifelines(), log.events()):
        ms = [field.name for field in table.schema if field.type == pa.uint64()]
        assert ms
        for row in table.to_pylist():
            for name in ms:
                twin = row[f"{name}_time"]
                if row[name] is None or row[name] > LAST_CALENDAR_MS:
                    assert twin is None
                else:
                    assert twin == datetime.fromtimestamp(row[name] / 1000, UTC)


def test_events_are_what_log_prints(capsys: pytest.CaptureFixture[str]) -> None:
    import json

    for name in ("sparse-everything-v22", "schema-drop-named", "update-v22", "out-of-order"):
        assert main(["log", str(CASES[name].array), "--json"]) == 0
        printed = [
            {name: value for name, value in event.items() if name != "time"}
            for event in json.loads(capsys.readouterr().out)
        ]
        events = log_of(name).events()
        kept = without_times(events)
        assert kept.to_pylist() == printed
    deletes = log_of("sparse-everything-v22").events(kinds=["delete"], since=0, until="now")
    assert set(deletes["kind"].to_pylist()) == {"delete"}
    plain = log_of("sparse-everything-v22").events(sizes=False)
    assert plain.num_rows == log_of("sparse-everything-v22").events().num_rows


def test_one_clock_in_every_command(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    import time

    monkeypatch.setenv("TZ", "Asia/Kolkata")
    time.tzset()
    array = str(EVERYTHING.array)
    for command in (["log"], ["visible"], ["explain", "--end", "35"]):
        for more, zone in (([], "1970-01-01 00:00:00.0"), (["--local"], "1970-01-01 05:30:00.0")):
            assert main([*command, array, *more]) == 0
            out = capsys.readouterr().out
            assert zone in out
            assert (" UTC" in out) == (not more)
            assert (" +05:30" in out) == bool(more)
    monkeypatch.undo()
    time.tzset()
