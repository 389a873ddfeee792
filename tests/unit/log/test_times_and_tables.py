"""What a log takes for a time, and the tables that it gives."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest
from support.corpus_cases import CASES, log_of
from support.engine_arrays import EngineArray
from support.plain_columns import without_times

import chronotile as ct
from chronotile.cli import sample
from chronotile.cli.program import main
from chronotile.errors import BadTimeError
from chronotile.format.timestamps import LAST_CALENDAR_MS, now_ms

if TYPE_CHECKING:
    from pathlib import Path

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
    two_hours_ago = log.view(end="2h").end  # before the clock is looked at once more
    assert 0 <= now_ms() - 7_200_000 - two_hours_ago < 60_000
    assert log.view("1970-01-01", "2024-05-01").to_dict() == log.view(0, 1714521600000).to_dict()


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> sample.Sample:
    return sample.unpack(tmp_path_factory.mktemp("times"))


@pytest.mark.parametrize(
    "command",
    [
        *("rows ARRAY --end T", "rows ARRAY --start T", "visible ARRAY --end T"),
        *("explain ARRAY --end T", "log ARRAY --since T", "log ARRAY --until T"),
        *("diff ARRAY T now", "diff ARRAY 0 T", "timeline ARRAY -o ARRAY.html --now T"),
        *("delete ARRAY --where id==1 --at T", "restore ARRAY --to T", "tag add ARRAY x --at T"),
        *("restore ARRAY --to 2024-05-13 --at T", "clone ARRAY ARRAY-2 --end T"),
        "vacuum ARRAY --keep T --dry-run",
        *("rows GROUP --end T", "visible GROUP --end T", "members GROUP --end T"),
        *("check GROUP --as-of T", "restore GROUP --to T", "tag add GROUP x --at T"),
        *("log GROUP --since T", "diff GROUP T now", "clone GROUP GROUP-2 --end T"),
    ],
)
def test_seconds_are_no_milliseconds(
    command: str, made: sample.Sample, capsys: pytest.CaptureFixture[str]
) -> None:
    """A window that ends in 1970 saw nothing, and one that starts there saw everything."""
    seconds = 1_715_590_800
    words = command.replace("ARRAY", str(made.array)).replace("GROUP", str(made.dataset)).split()
    assert main([str(seconds) if word == "T" else word for word in words]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert f"{seconds} ms is 1970-01-20 20:33:10.800 UTC, before everything" in line
    assert line.endswith(f"if you mean 2024-05-13 09:00:00.000 UTC, give {seconds * 1000}")


def test_other_numbers_are_taken_as_they_are(made: sample.Sample, tmp_path: Path) -> None:
    log = ct.open_log(made.array)
    for end in (0, 7, 10**9 - 1, 10**11, 1_715_590_800_000, 2**63):
        assert log.view(end=end).end == log.view(end=str(end)).end == end
    assert log.view(end="1970-01-20T20:33:10.800").end == 1_715_590_800, "a date is meant"
    with pytest.raises(BadTimeError, match="give 1715590800000"):
        log.view(end="1715590800")
    array = EngineArray(tmp_path / "array").create()
    assert ct.open_log(array.uri).view(end=1_715_590_800).end == 1_715_590_800, "nothing is there"
    array.write(20, {1: 1})
    array.write(1_715_590_800_000, {1: 2})
    early = ct.open_log(array.uri).view(end=1_715_590_800)
    assert [one.t1 for one in early.fragments] == [20], "an array whose times are made up"


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
