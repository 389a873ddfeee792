"""Tags of groups: what the engine sees of them, what a vacuum keeps, and what a check says."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
import tiledb
from support.engine_arrays import EngineArray
from support.verbs import add_tag, remove_tag, tag_dataset, untag_dataset

import chronotile as ct
from chronotile.check.findings import RefusedError
from chronotile.cli import main
from chronotile.format.timestamps import now_ms

if TYPE_CHECKING:
    import pathlib

MEMBERS = ("obs", "inner/x")
TAGGED = ((0, 20), (0, 1 << 60))


class Dataset:
    """A group with a dense array, and with a group that has another; both are consolidated."""

    def __init__(self, folder: pathlib.Path) -> None:
        self.uri, self.inner = str(folder), str(folder / "inner")
        for place in (self.uri, self.inner):
            tiledb.Group.create(place)
        self.arrays = [EngineArray(folder / name).create(sparse=False) for name in MEMBERS]
        for array in self.arrays:
            for at in (10, 20, 30, 40):
                array.write(at, {1: at, 2: 2 * at})
            array.consolidate("fragments")
        for place, member in ((self.uri, "obs"), (self.uri, "inner"), (self.inner, "x")):
            with tiledb.Group(place, "w") as group:
                group.add(member, name=member, relative=True)

    def answers(self) -> list[Any]:
        return [array.answers(TAGGED) for array in self.arrays]

    def fragments(self) -> list[int]:
        return [len(array.files("__fragments")) for array in self.arrays]

    def open(self) -> ct.Dataset:
        return ct.open_dataset(self.uri)


@pytest.fixture
def dataset(tmp_path: pathlib.Path) -> Dataset:
    return Dataset(tmp_path / "group")


def run(capsys: pytest.CaptureFixture[str], *arguments: str, status: int = 0) -> Any:
    found = main([*arguments, "--json"])
    said = capsys.readouterr()
    assert found == status, said
    return json.loads(said.out) if said.out else json.loads(said.err.splitlines()[-1])


def metadata(uri: str) -> dict[str, Any]:
    opener = tiledb.Group if tiledb.object_type(uri) == "group" else tiledb.open
    with opener(uri) as opened:
        return {key: value for key, value in opened.meta.items() if key.startswith("chronotile")}


def test_the_engine_reads_a_tag_of_a_group(
    dataset: Dataset, capsys: pytest.CaptureFixture[str]
) -> None:
    report = run(capsys, "tag", "add", dataset.uri, "v1", "--at", "20")
    assert [one["member"] for one in report["members"]] == ["inner", "inner/x", "obs", ""]
    assert metadata(dataset.uri) == {"chronotile.tag.v1": 20}
    for uri in (dataset.inner, *(array.uri for array in dataset.arrays)):
        assert metadata(uri) == {"chronotile.group-tag.v1@20": 20}
    with tiledb.Group(dataset.uri, "w") as group:
        group.meta["chronotile.tag.by-hand"] = 10
    listed = run(capsys, "tag", "list", dataset.uri)
    assert [(one["name"], one["at"], one["of_group"]) for one in listed] == [
        ("by-hand", 10, False),
        ("v1", 20, False),
    ]
    assert dataset.open().tags == {"by-hand": 10, "v1": 20}
    assert len(tag_dataset(dataset.open(), "by-hand", at=10, dry_run=True).outcomes) == 3, "marks"
    (mark,) = run(capsys, "tag", "list", dataset.arrays[1].uri)
    assert (mark["name"], mark["at"], mark["of_group"]) == ("v1", 20, True)
    # A member by itself can be opened at the tag of its group, and its own tag goes first.
    assert ct.open_log(dataset.arrays[0].uri).view(end="v1").end == 20
    add_tag(dataset.arrays[0].uri, "v1", at=30)
    assert ct.open_log(dataset.arrays[0].uri).view(end="v1").end == 30
    assert dataset.open().view("v1").end == 20
    said = run(capsys, "tag", "remove", dataset.arrays[1].uri, "v1", status=2)
    assert "it is one of a group: name the group" in str(said)


COMMANDS = (
    ("visible", "--end"),
    ("explain", "--end"),
    ("members", "--end"),
    ("check", "--as-of"),
    ("log", "--until"),
    ("timeline", "--now"),
    ("restore", "--dry-run", "--to"),
    ("vacuum", "--dry-run", "--keep"),
)

VARIES = ('"time"', '"path"', '"sha256"', '"added"', '"__commits/')


def test_every_command_takes_it_for_a_time(
    dataset: Dataset, tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str]
) -> None:
    now = now_ms()
    for name, moment in (("then", 20), ("later", now)):
        run(capsys, "tag", "add", dataset.uri, name, "--at", str(moment))
    for command, *options in COMMANDS:
        said = []
        for given in ("later", str(now)):
            more = ["-o", str(tmp_path / f"{given}.html")] if command == "timeline" else []
            main([command, dataset.uri, *options, given, *more, "--json"])
            out = capsys.readouterr().out.replace(str(tmp_path / f"{given}.html"), "")
            said.append(
                [one for one in out.splitlines() if '"time"' not in one and "hex" not in one]
            )
        assert said[0] == said[1] != [], command
    said = run(capsys, "diff", dataset.uri, "then", "later")
    assert said == run(capsys, "diff", dataset.uri, "20", str(now))
    run(capsys, "clone", dataset.uri, str(tmp_path / "clone"), "--end", "later")
    then = [array.answer(0, 20) for array in dataset.arrays]
    run(capsys, "restore", dataset.uri, "--to", "then")
    assert [array.answer(0, 1 << 60) for array in dataset.arrays] == then
    assert dataset.open().tags == {"then": 20, "later": now}
    said = run(capsys, "visible", dataset.uri, "--end", "never", status=2)
    assert said["error"]["found"] == "'never' is neither a time nor a tag"
    assert said["error"]["expected"].startswith("one such as 2024-05-01")


def test_a_vacuum_keeps_what_it_needs(dataset: Dataset, capsys: pytest.CaptureFixture[str]) -> None:
    before = dataset.answers()
    tag_dataset(dataset.open(), "v1", at=20)
    report = run(capsys, "vacuum", dataset.uri)
    held = [note for one in report["members"] for note in one["notes"] if "kept for " in note]
    assert [note.partition(" of ")[0] for note in held] == [
        "kept for the group's tag v1: 2 fragments"
    ] * 2
    assert all(note.endswith(" bytes") for note in held)
    assert dataset.fragments() == [3, 3]
    assert dataset.answers() == before
    # Run on a member by itself, or on the group in between, which cannot know of this one.
    ct.vacuum(dataset.arrays[1].uri)
    run(capsys, "vacuum", dataset.inner)
    assert dataset.answers() == before
    # A mark that somebody took away is made up for by the group.
    with tiledb.open(dataset.arrays[0].uri, "w") as opened:
        del opened.meta["chronotile.group-tag.v1@20"]
    run(capsys, "vacuum", dataset.uri)
    assert dataset.answers() == before
    run(capsys, "vacuum", dataset.uri, "--keep", "20")
    untag_dataset(dataset.open(), "v1")
    assert all(metadata(uri) == {} for uri in (dataset.uri, dataset.inner, dataset.arrays[1].uri))
    run(capsys, "vacuum", dataset.uri, "--keep", "20")
    assert dataset.answers() == before
    run(capsys, "vacuum", dataset.uri)
    assert dataset.fragments() == [1, 1]


def test_a_vacuum_keeps_the_members_of_then(
    dataset: Dataset, capsys: pytest.CaptureFixture[str]
) -> None:
    run(capsys, "tag", "add", dataset.uri, "v1")
    with tiledb.Group(dataset.inner, "w") as group:
        group.remove("x")
    run(capsys, "consolidate", dataset.uri)
    run(capsys, "vacuum", dataset.uri)
    at = dataset.open().tags["v1"]
    config = tiledb.Config({"sm.group.timestamp_end": str(at)})
    with tiledb.Group(dataset.inner, config=config) as group:
        assert [member.name for member in group] == ["x"]
    assert [node.path for node in dataset.open().tree("v1")] == ["inner", "inner/x", "obs"]
    run(capsys, "tag", "remove", dataset.uri, "v1")
    report = run(capsys, "vacuum", dataset.uri)
    assert any(
        step["path"].startswith("__group/") for one in report["members"] for step in one["steps"]
    )


def test_a_check_finds_what_can_no_longer_be_read(dataset: Dataset) -> None:
    tag_dataset(dataset.open(), "v1", at=20)
    assert "tag-unreadable" not in {item.code for item in dataset.open().check()}
    with tiledb.open(dataset.arrays[1].uri, "w") as opened:
        del opened.meta["chronotile.group-tag.v1@20"]
    for array in dataset.arrays:
        array.vacuum("fragments")  # by the engine, which knows nothing of tags
    for findings in (dataset.open().check(), ct.check_fleet(dataset.uri).findings):
        found = [item for item in findings if item.code == "tag-unreadable"]
        assert sorted(item.array for item in found) == sorted(a.uri for a in dataset.arrays)
        assert all("the group's tag v1 names 20 " in item.message for item in found)
    with pytest.raises(
        RefusedError, match=r"the member inner/x cannot be changed: .*; nothing was changed"
    ):
        tag_dataset(dataset.open(), "v2", at=25)
    assert dataset.open().tags == {"v1": 20}


def test_a_tag_moves_and_goes_with_its_marks(dataset: Dataset) -> None:
    with pytest.raises(RefusedError, match="the group has no tag 'v1'"):
        untag_dataset(dataset.open(), "v1")
    tag_dataset(dataset.open(), "v1", at=20)
    assert tag_dataset(dataset.open(), "v1", at=20).has_steps is False
    with pytest.raises(RefusedError, match="the tag 'v1' names 20 "):
        tag_dataset(dataset.open(), "v1", at=30)
    assert tag_dataset(dataset.open(), "v1", at=30, move=True, dry_run=True).has_steps
    assert dataset.open().tags == {"v1": 20}
    # The group in between has a tag of the same name: each keeps its own.
    tag_dataset(ct.open_dataset(dataset.inner), "v1", at=10)
    assert ct.open_log(dataset.arrays[1].uri).known_tags.of_groups == (("v1", 10), ("v1", 20))
    tag_dataset(dataset.open(), "v1", at=30, move=True)
    assert ct.open_log(dataset.arrays[1].uri).known_tags.of_groups == (("v1", 10), ("v1", 30))
    assert ct.open_dataset(dataset.inner).tags == {"v1": 10}
    untag_dataset(dataset.open(), "v1")
    assert ct.open_log(dataset.arrays[1].uri).known_tags.of_groups == (("v1", 10),)
    with pytest.raises(RefusedError, match="name the group"):
        remove_tag(dataset.arrays[1].uri, "v1")


def test_undo_takes_back_what_was_put_into_groups(
    dataset: Dataset, capsys: pytest.CaptureFixture[str]
) -> None:
    run(capsys, "tag", "add", dataset.uri, "v1", "--at", "20")
    run(capsys, "undo", dataset.uri)
    assert [metadata(uri) for uri in (dataset.uri, dataset.inner)] == [{}, {}]
    assert ct.open_log(dataset.arrays[0].uri).known_tags.of_groups == ()
    with tiledb.Group(dataset.uri, "w") as group:
        group.remove("inner")
    members = dataset.open().members()
    run(capsys, "consolidate", dataset.uri)
    merged = len(dataset.open().group.files)
    run(capsys, "undo", dataset.uri)
    assert len(dataset.open().group.files) == merged - 1
    assert list(dataset.open().members()) == list(members)
    run(capsys, "consolidate", dataset.uri)
    run(capsys, "vacuum", dataset.uri)
    said = run(capsys, "undo", dataset.uri, status=1)
    assert "it removed files" in str(said)
