"""Times that can no longer be read, as a dense array was consolidated and vacuumed: who says so."""

from __future__ import annotations

import json
import pickle
import random
import shlex
from typing import TYPE_CHECKING, Any

import pytest
import tiledb
from support.corpus_cases import log_of
from support.engine_arrays import EngineArray

import chronotile as ct
from chronotile.cli import main
from chronotile.visibility.gaps import TimeGoneError

if TYPE_CHECKING:
    from pathlib import Path

TIMES = range(10, 60, 10)
WINDOWS = [(start, end) for start in (0, 10, 15, 30, 45) for end in range(start, 65, 5)]


def dense(place: Path) -> EngineArray:
    """Of three tiles: the engine merges no fragments that overlap an older one."""
    return EngineArray(place).create(sparse=False, upper=29)


def rows(array: EngineArray, start: int, end: int) -> Any:
    return ct.read_rows(array.uri, start=start, end=end).to_pylist()


def nearest(array: EngineArray, start: int, end: int) -> tuple[int, int] | None:
    """The window that the refusal of another names; None if it is not refused."""
    try:
        rows(array, start, end)
    except TimeGoneError as error:
        place, *words = shlex.split(error.hint or "")[2:]
        assert place == array.uri
        said = dict(zip(words[::2], map(int, words[1::2]), strict=True))
        return said.get("--start", 0), said["--end"]
    return None


@pytest.fixture(params=["all", "some"])
def torn(request: pytest.FixtureRequest, tmp_path: Path) -> EngineArray:
    """All writes up to 30 are merged, or only those from 20 on: then 25 sees a part."""
    array, is_all = dense(tmp_path / "array"), request.param == "all"
    whole = range(30) if is_all else range(20, 30)
    for at, cells in ((10, whole), (20, range(5)), (30, range(3)), (50, range(2))):
        array.write(at, dict.fromkeys(cells, at))
    array.consolidate("fragments", (0 if is_all else 15, 35))
    array.vacuum("fragments")
    return array


@pytest.mark.parametrize("seed", range(6))
def test_rows_are_those_of_the_time_or_refused(seed: int, tmp_path: Path) -> None:
    """The twin has the same writes, and was never maintained: it remembers every window."""
    chance = random.Random(seed)
    array, twin = dense(tmp_path / "array"), dense(tmp_path / "twin")
    for at in TIMES:
        first = chance.randrange(30)
        cells = dict.fromkeys(range(first, chance.randrange(first, 30) + 1), at)
        for one in (array, twin):
            one.write(at, cells)
        if chance.random() < 0.6:
            array.consolidate("fragments", (chance.choice([0, 10, 15, 20, 35]), at))
        if chance.random() < 0.6:
            array.vacuum("fragments")
    for window in WINDOWS:
        readable = nearest(array, *window) or window
        assert rows(array, *readable) == rows(twin, *readable), (window, readable)


def test_nothing_is_refused_before_a_vacuum(tmp_path: Path) -> None:
    array = dense(tmp_path / "array")
    for at in TIMES:
        array.write(at, dict.fromkeys(range(at // 10), at))
    before = {window: rows(array, *window) for window in WINDOWS}
    array.consolidate("fragments")
    assert {window: rows(array, *window) for window in WINDOWS} == before


@pytest.mark.parametrize(
    ("command", "hint"),
    [
        ("rows ARRAY --end 25", "rows ARRAY --end 30"),
        ("rows ARRAY --start 25 --end 60", "rows ARRAY --start FIRST --end 60"),
        ("rows ARRAY --start 15 --end 25", "rows ARRAY --start FROM --end 30"),
        ("diff ARRAY 25 60", "diff ARRAY 30 60"),
        ("diff ARRAY 25 60 --rows", "diff ARRAY 30 60"),
        ("diff ARRAY 5 25", "diff ARRAY 5 30"),
        ("diff ARRAY 5 25 --rows", "diff ARRAY 5 30"),
    ],
)
def test_a_command_names_the_nearest_time(
    command: str, hint: str, torn: EngineArray, capsys: pytest.CaptureFixture[str]
) -> None:
    first = ct.open_log(torn.uri).view(end=30).fragments[-1].t1
    wanted = hint.replace("FIRST", str(first)).replace("FROM", str(min(first, 15)))
    assert main(command.replace("ARRAY", torn.uri).split()) == 1
    text = capsys.readouterr()
    assert text.out == ""
    assert f"merged the writes from {first} to 30, and a vacuum removed them" in text.err
    assert main([*command.replace("ARRAY", torn.uri).split(), "--json"]) == 1
    error = json.loads(capsys.readouterr().err)["error"]
    assert error["hint"] == f"chronotile {wanted.replace('ARRAY', torn.uri)}"
    assert error["hint"] in text.err
    assert main(shlex.split(error["hint"])[1:]) == 0


def test_an_earlier_time_is_named_where_something_is_seen(tmp_path: Path) -> None:
    array = dense(tmp_path / "my array")
    for at in TIMES:
        array.write(at, {20 if at < 30 else 1: at})
    array.consolidate("fragments", (25, 45))
    array.vacuum("fragments")
    with pytest.raises(TimeGoneError) as caught:
        rows(array, 0, 35)
    called = f"chronotile rows '{array.uri}' --end"
    assert str(caught.value).endswith(f"nearest: {called} 40, or {called} 29")
    assert rows(array, 0, 29)
    copy = pickle.loads(pickle.dumps(caught.value))
    assert (str(copy), copy.hint) == (str(caught.value), f"{called} 40")


@pytest.mark.parametrize("command", ["visible", "explain"])
def test_a_view_says_so_beside_its_answer(
    command: str, torn: EngineArray, capsys: pytest.CaptureFixture[str]
) -> None:
    for more in ([], ["--json"]):
        assert main([command, torn.uri, "--end", "25", *more]) == 0
        text = capsys.readouterr()
        assert "note" not in text.out
        (line,) = text.err.splitlines()
        assert line.startswith(f"note: {torn.uri} can no longer be read whole here: __")
        assert f"nearest: chronotile {command} {torn.uri} --end 30" in line
        assert main([command, torn.uri, "--end", "30", *more]) == 0
        assert capsys.readouterr().err == ""
    assert ct.open_log(torn.uri).view(end=25).gap is not None
    assert ct.open_log(torn.uri).view(end=30).gap is None


def test_of_a_group(torn: EngineArray, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    tiledb.Group.create(str(tmp_path / "group"))
    config = tiledb.Config({"sm.group.timestamp_end": "1"})
    with tiledb.Group(str(tmp_path / "group"), "w", config) as group:
        group.add(torn.uri, name="member")
    group_uri = str(tmp_path / "group")
    for command in ("rows --end 25", "diff 25 60", "diff 25 60 --rows"):
        name, *rest = command.split()
        assert main([name, group_uri, *rest]) == 1
        assert f"{torn.uri}: expected all that was written up to 25" in capsys.readouterr().err
    with pytest.raises(TimeGoneError):
        ct.read_rows(group_uri, end=25)
    assert main(["visible", group_uri, "--end", "25"]) == 0
    assert f"note: {torn.uri} can no longer be read whole" in capsys.readouterr().err


def test_a_clone_of_such_a_time_is_refused(
    torn: EngineArray, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for window in (["--end", "25"], ["--start", "25"]):
        assert main(["clone", torn.uri, str(tmp_path / "clone"), *window]) == 1
        assert "was merged from is gone" in capsys.readouterr().err
        assert not (tmp_path / "clone").exists()
    assert main(["clone", torn.uri, str(tmp_path / "clone"), "--end", "30"]) == 0


def test_a_sparse_array_has_times_of_cells_or_is_old(tmp_path: Path) -> None:
    array = EngineArray(tmp_path / "array").create()
    for at in TIMES:
        array.write(at, {at: at})
    before = {window: rows(array, *window) for window in WINDOWS}
    array.consolidate("fragments")
    array.vacuum("fragments")
    assert {window: rows(array, *window) for window in WINDOWS} == before
    old = log_of("upgraded-vacuumed")  # its merged fragment is of version 8
    assert [end for end in (5, 10, 29, 30, 50) if old.view(end=end).gap] == [10, 29]
