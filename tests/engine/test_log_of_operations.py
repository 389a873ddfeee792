"""What we did to an array, as its log, pictures, reasons and rows tell it."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
from support.engine_arrays import EngineArray
from support.groups import member, put_list

import chronotile as ct
from chronotile.array import Array
from chronotile.cli.program import main
from chronotile.dataset.dataset_events import DatasetFollowing
from chronotile.dataset.open_dataset import dataset_at
from chronotile.format.kinds import DATASET_EVENTS
from chronotile.format.timestamps import now_ms
from chronotile.history.log_watch import LogWatch
from chronotile.history.read_history import read_history
from chronotile.log import Following, Log
from chronotile.show.story import EventFilter, Story
from chronotile.storage.overlay import remembering
from chronotile.storage.store import open_store

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def array(tmp_path: Path) -> Array:
    """Two writes of the engine; then a delete, a consolidation and a restore of ours."""
    made = EngineArray(tmp_path / "array").create()
    start = now_ms() - 100_000
    made.write(start, {x: x for x in range(10)})
    made.write(start + 50_000, {x: -x for x in range(5, 20)})
    opened = ct.open(made.uri)
    assert isinstance(opened, Array)
    opened.delete("a < -10", author="ann", message="test rows")
    opened.consolidate(author="ann", message="tidy")
    opened.restore(start + 10, author="bob", message="bad load")
    return opened


def printed(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    assert main(list(arguments)) == 0
    return capsys.readouterr().out


def ids(array: Array) -> dict[str, str]:
    """Command -> the id of its last operation."""
    return {row["command"]: row["id"] for row in reversed(array.operations().to_pylist())}


def test_log_tells_one_event_for_each_operation(
    array: Array, capsys: pytest.CaptureFixture[str]
) -> None:
    text = printed(capsys, "log", array.uri)
    blocks = text.split("\n\n")[1:]
    assert [block.partition("UTC")[2].split()[1] for block in blocks] == [
        *("restore", "consolidate", "delete", "schema", "write", "write"),
    ]
    restored, merged, deleted = blocks[:3]
    assert "restored the array to " in restored
    assert restored.count("\n") == 2
    assert 'fragments hidden; by bob: "bad load"' in restored
    assert f"operation {ids(array)['restore']}, " in restored
    assert 'put the commits into one file; by ann: "tidy"' in merged
    # A delete that is there knows whether it is in force: it speaks for its operation.
    assert 'deleted rows where `a < -10`; by ann: "test rows"' in deleted
    assert "in force now" in deleted
    assert f"by operation {ids(array)['delete']}" in deleted
    assert "to be removed by the next vacuum" not in text


def test_commits_unfold(array: Array, capsys: pytest.CaptureFixture[str]) -> None:
    text = printed(capsys, "log", array.uri, "--commits")
    restored = text.split("\n\n")[1]
    inner = [line for line in restored.splitlines() if line.startswith("    2")]
    assert any("  write  visible now" in line for line in inner)
    assert "        hid 2 fragments" in restored
    short = printed(capsys, "log", array.uri, "--commits", "--oneline").splitlines()
    assert sum(line.startswith("  2") for line in short) == len(inner) + 1


def test_json_and_events_keep_a_row_a_commit(
    array: Array, capsys: pytest.CaptureFixture[str]
) -> None:
    told = json.loads(printed(capsys, "log", array.uri, "--json"))
    table = array.events()
    assert [one["operation"] for one in told] == table["operation"].to_pylist()
    known = ids(array)
    owners: dict[str, set[str | None]] = {}
    for one in told:
        owners.setdefault(one["kind"], set()).add(one["operation"])
    assert owners["delete"] >= {known["delete"]}
    assert owners["schema"] == {None}
    assert owners["write"] == {None, known["restore"]}
    assert owners["vacuum"] == {known["restore"]}
    assert known["consolidate"] in owners["consolidated"]
    assert {one["kind"] for one in told} <= {
        *("schema", "write", "delete", "vacuum", "consolidated"),
    }
    text_only = ("--commits", "--no-undone")
    assert json.loads(printed(capsys, "log", array.uri, "--json", *text_only)) == told


def test_what_was_undone_is_shown_as_such_or_left_out(
    array: Array, capsys: pytest.CaptureFixture[str]
) -> None:
    restored = ids(array)["restore"]
    array.undo(author="bob")
    undo = ids(array)["undo"]
    text = printed(capsys, "log", array.uri)
    assert f"  restore  undone by {undo}" in text
    assert "undid the restore of " in text
    assert f"operation {restored}; by bob" in text
    left = printed(capsys, "log", array.uri, "--no-undone")
    assert "restored the array" not in left
    assert "undid" not in left
    assert '; by ann: "tidy"' in left


def test_one_kind_is_told_commit_by_commit(
    array: Array, capsys: pytest.CaptureFixture[str]
) -> None:
    text = printed(capsys, "log", array.uri, "--kind", "vacuum")
    assert "hid 2 fragments" in text
    assert f"by operation {ids(array)['restore']}" in text
    assert "restored" not in text


def test_the_window_of_an_operation_is_its_own_time(
    array: Array, capsys: pytest.CaptureFixture[str]
) -> None:
    last = max(array.log.history.table.uris.t2.tolist())
    before = printed(capsys, "log", array.uri, "--end", str(last - 60_000))
    assert "restored" not in before
    assert before.count("wrote a fragment") == 1
    assert printed(capsys, "log", array.uri, "-n", "1", "--oneline").count("\n") == 1


def test_explain_names_the_operation_that_hides(
    array: Array, capsys: pytest.CaptureFixture[str]
) -> None:
    text = printed(capsys, "explain", array.uri)
    assert "hidden by the restore of 2" in text
    restore = ids(array)["restore"]
    assert f'(operation {restore}; by bob: "bad load")' in text


def test_explain_tells_where_the_rows_are_after_an_undelete(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    made = EngineArray(tmp_path / "array").create()
    start = now_ms() - 100_000
    for at in (start, start + 10):
        made.write(at, {x: x for x in range(10)})
    made.delete(start + 20, "a >= 5")
    made.consolidate("fragments")
    (delete,) = ct.open_log(made.uri).view().deletes
    ct.undelete(made.uri, delete.name)
    text = printed(capsys, "explain", made.uri)
    assert "which is hidden too" in text, "the merged fragment, and not its sources, is the cause"
    assert "to see what is wrong" not in text
    assert "nothing to do: the rows show again in new fragments; to see it" in text


def test_the_timeline_has_a_mark_for_each(array: Array) -> None:
    marks = [m for m in array.log.picture(now_ms()).changes if m.kind == "operation"]
    known = ids(array)
    assert {mark.name for mark in marks} == set(known.values())
    (restored,) = (mark for mark in marks if mark.name == known["restore"])
    assert restored.text.startswith("restored the array to ")


def test_blame_and_diff_have_the_operation_beside_the_commit(array: Array) -> None:
    known = ids(array)
    blamed = array.blame(["x=3"])
    assert blamed.schema.names[:3] == ["event", "commit", "operation"]
    assert known["restore"] in blamed["operation"].to_pylist()
    rows = array.diff(0, "now", rows=True)
    assert rows.schema.names[:4] == ["change", "commit", "operation", "t"]
    assert set(rows["operation"].to_pylist()) <= {None, known["restore"]}
    objects = array.diff(0, "now").to_pylist()
    by_kind = {one["kind"]: one["operation"] for one in objects}
    assert (by_kind["fragment"], by_kind["delete"]) == (known["restore"], known["delete"])


def test_a_group_tells_its_operation_once(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    start = now_ms() - 100_000
    for name in ("one", "two"):
        made = EngineArray(tmp_path / "group" / name).create()
        made.write(start, {1: 1, 2: 2})
        made.write(start + 50_000, {3: 3})
    put_list(tmp_path / "group", start - 10, member("one"), member("two"))
    group = ct.open(tmp_path / "group")
    group.restore(start + 10, author="bob", message="bad load")
    text = printed(capsys, "log", group.uri)
    assert text.count("restored the group to ") == 1
    assert "restored the array" not in text
    unfolded = printed(capsys, "log", group.uri, "--commits")
    assert unfolded.count("hid 1 fragment") == 2
    told = json.loads(printed(capsys, "log", group.uri, "--json"))
    assert sum(one["operation"] is not None for one in told) == 2
    opened = dataset_at(open_store(group.uri))
    following = DatasetFollowing(opened.reopened, EventFilter(kinds=frozenset(DATASET_EVENTS)))
    group.undo()
    group.restore(start + 10, author="eve")
    ((restored, commits),) = following.look_folded()
    assert (restored.member, restored.event.kind, len(commits)) == ("", "restore", 2)
    assert following.look_folded() == []


def test_followers_are_told_one_event_for_each_operation(array: Array) -> None:
    store = remembering(open_store(array.uri))

    def story() -> Story:
        return Log(read_history(store), store).story(sizes=False)

    watch, window = LogWatch(store), EventFilter()
    following = Following(watch, story(), window, story)
    array.tag("good")
    array.restore(0, author="eve")
    told = [(event.kind, len(commits)) for event, commits in following.look_folded()]
    assert told == [("tag", 1), ("restore", 1)]
    array.delete("a == 1", any_time=True, at=now_ms() + 5_000, author="ann")
    ((deleted, commits),) = following.look_folded()
    assert deleted.text.endswith("; by ann")
    assert not commits


def test_an_array_without_operations_costs_one_list_more(tmp_path: Path) -> None:
    made = EngineArray(tmp_path / "array").create()
    made.write(10, {1: 1})
    steps: list[tuple[str, str]] = []

    def note(what: str, path: str) -> None:
        steps.append((what, path))

    log = Array(open_store(made.uri, on_operation=note)).log
    steps.clear()
    events: Any = log.events(sizes=False)
    assert events["operation"].to_pylist() == [None] * events.num_rows
    assert [what for what, _ in steps if not what.endswith(".done")] == ["list"]
    assert all("__chronotile" in path for _, path in steps)
