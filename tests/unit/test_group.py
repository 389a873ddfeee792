"""A group from Python: its tables, its pictures, and changes of its members."""

from __future__ import annotations

from pathlib import Path

import pytest

import chronotile as ct
from chronotile.cli import sample
from chronotile.errors import ChronotileError


@pytest.fixture
def group(tmp_path: Path) -> ct.Group:
    opened = ct.open(sample.unpack(tmp_path / "demo").dataset)
    assert isinstance(opened, ct.Group)
    return opened


PATHS = {"derived/daily", "readings", "stations"}


@pytest.mark.parametrize("table", ["commits", "fragments", "lifelines", "events"])
def test_a_table_has_the_rows_of_every_array(table: str, group: ct.Group) -> None:
    joined = getattr(group, table)()
    assert joined.column_names[0] == "member"
    assert set(joined["member"].to_pylist()) >= PATHS
    one = getattr(group, table)(member="readings")
    alone = getattr(ct.open(f"{group.uri}/readings"), table)()
    assert one.num_rows == alone.num_rows
    assert set(one["member"].to_pylist()) == {"readings"}


def test_usage_counts_every_file(group: ct.Group) -> None:
    used = group.usage()
    files = [path for path in Path(group.uri).rglob("*") if path.is_file()]
    assert used.num_rows == len(files)
    assert sum(used["bytes"].to_pylist()) == sum(path.stat().st_size for path in files)


def test_a_view_covers_a_window(group: ct.Group) -> None:
    whole = group.view(end="2024-06-05")
    late = group.view("2024-06-04", "2024-06-05", member="readings")
    assert set(whole.views) == PATHS
    assert [len(view.fragments) for view in late.views.values()] == [1]
    explained = group.explain(end="2024-06-05")
    assert {path: len(view.explain()) for path, view in whole.views.items()} == {
        path: len(items) for path, items in explained.items()
    }


def test_a_timeline_has_a_lane_for_each_array(group: ct.Group, tmp_path: Path) -> None:
    drawn = group.timeline(tmp_path / "t.svg", as_of="2024-06-05", height="bytes")
    text = (tmp_path / "t.svg").read_text("utf-8")
    assert (drawn.size, drawn.errors) == (len(text.encode()), {})
    assert all(path in text for path in PATHS)


def test_a_pattern_that_fits_no_member_is_refused(group: ct.Group) -> None:
    for table in (group.commits, group.usage, group.fragments):
        with pytest.raises(ChronotileError, match="expected members that fit 'x', found none"):
            table(member="x")


def test_cells_are_checked_in_every_member(group: ct.Group) -> None:
    (cells,) = Path(group.uri, "stations", "__fragments").glob("*/a0.tdb")
    data = bytearray(cells.read_bytes())
    data[-1] ^= 0xFF
    cells.write_bytes(data)
    assert "stations" not in {Path(item.array).name for item in group.check()}
    assert "stations" in {Path(item.array).name for item in group.check(deep=True)}
    with pytest.raises(ChronotileError, match="found both"):
        group.check(deep=True, log_only=True)


def test_rows_of_a_member_are_deleted_and_brought_back(group: ct.Group) -> None:
    with pytest.raises(ChronotileError, match="--member derived/daily or readings or stations"):
        group.delete("station == 1")
    done = group.delete("station == 1", member="stations", allow_null_loss=True)
    assert [one.path for one in done.outcomes if one.has_steps] == ["stations"]
    deletes = group.view().views["stations"].deletes
    assert [delete.text for delete in deletes] == ["station == 1"]
    group.undo()
    assert not group.view().views["stations"].deletes


def test_a_restore_that_rewrites_rows_can_be_undone(group: ct.Group) -> None:
    before = group.rows(member="readings").num_rows
    group.restore("2024-06-03T12:00", rewrite=True, member="readings")
    assert group.operations()["command"].to_pylist() == ["restore"]
    assert group.rows(member="readings").num_rows != before
    group.undo()
    assert group.rows(member="readings").num_rows == before
    assert group.operations()["state"].to_pylist() == ["done", "undone"]


def test_an_operation_is_found_by_the_start_of_its_id(group: ct.Group) -> None:
    report = group.tag("release-1", at="2024-06-03")
    assert report.operation is not None
    assert group.operation(report.operation[:6])["command"] == "tag"
    with pytest.raises(ChronotileError, match=r"'nothing'; to list all: chronotile operations"):
        group.operation("nothing")
