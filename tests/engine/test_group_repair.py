"""A group whose own files are damaged: the engine is the judge of what a repair leaves."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from random import Random
from typing import TYPE_CHECKING

import pytest
import tiledb
from support.array_places import array_files
from support.group_histories import by_engine, by_us, make_array, opened
from support.verbs import repair_group

import chronotile as ct
from chronotile.check.findings import RefusedError
from chronotile.cli import main
from chronotile.single_file.decode import GroupFile

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

LONG_AGO = (1_700_000_000, 1_700_000_000)
DAMAGES: dict[str, Callable[[bytes], bytes]] = {
    "empty": lambda _: b"",
    "cut in the head": lambda data: data[:20],
    "cut by half": lambda data: data[: len(data) // 2],
    "cut by one": lambda data: data[:-1],
    "zeros": lambda data: bytes(len(data)),
    "a bit of the stream": lambda data: data[:-12] + bytes([data[-12] ^ 8]) + data[-11:],
    "a bit of the sum": lambda data: data[:-1] + bytes([data[-1] ^ 1]),
    "another file": lambda _: b"no list of members",
}


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Three sessions: `a` comes, `b` comes, `c` comes and `a` goes; a group inside; metadata."""
    group = tmp_path_factory.mktemp("groups") / "whole"
    tiledb.Group.create(str(group))
    tiledb.Group.create(str(group / "inner"))
    for name in "abc":
        make_array(str(group / name))
    make_array(str(group / "inner" / "deep"))
    with opened(str(group / "inner"), "w", 5) as inner:
        inner.add("deep", "deep", relative=True)
    for at, name in ((10, "a"), (20, "b"), (30, "c")):
        with opened(str(group), "w", at) as writer:
            writer.add(name, name, relative=True)
            if name == "b":
                writer.add("inner", "inner", relative=True)
            if name == "c":
                writer.remove("a")
            writer.meta[name] = at
    return group


def lists_of(group: Path) -> list[Path]:
    return sorted((group / "__group").iterdir(), key=lambda path: int(path.name.split("_")[2]))


def damage(group: Path, number: int, how: Callable[[bytes], bytes]) -> Path:
    file = lists_of(group)[number]
    file.write_bytes(how(file.read_bytes()))
    os.utime(file, LONG_AGO)
    return file


def said_by_engine(group: Path, at: int | None) -> set[str | None]:
    """The names of members, whether they are there or not."""
    with opened(str(group), "r", at) as reader:
        return {one.name for one in reader}


def names(group: Path) -> set[str | None]:
    return {name for name, _, _ in by_engine(str(group), None)}


@pytest.mark.parametrize("number", [0, 1, 2])
@pytest.mark.parametrize("how", DAMAGES)
def test_the_engine_opens_the_group_again_and_undo_brings_all_back(
    how: str, number: int, whole: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    group = tmp_path / "group"
    shutil.copytree(whole, group)
    file = damage(group, number, DAMAGES[how])
    with pytest.raises(tiledb.TileDBError):
        by_engine(str(group), None)
    (found,) = [item for item in ct.open_dataset(str(group)).check() if item.severity == "error"]
    assert (found.code, found.path) == ("tile-corrupt", f"__group/{file.name}")
    assert found.hint.endswith(f": chronotile repair {group}")
    before = array_files(group)
    assert main(["repair", str(group), "--dry-run", "--json"]) == 0
    planned = json.loads(capsys.readouterr().out)["members"][0]
    assert (planned["member"], planned["kind"]) == ("", "group")
    assert any(file.name in note for note in planned["notes"])
    assert array_files(group) == before
    assert main(["repair", str(group), "--json"]) == 0
    out = json.loads(capsys.readouterr().out)["members"]
    assert [step["path"] for step in out[0]["steps"] if step["op"] == "move"] == [
        f"__group/{file.name}"
    ]
    assert by_engine(str(group), None) == by_us(str(group), None)
    saved = [step for step in out[0]["steps"] if step["op"] == "put"]
    # Each list holds what its session knew; the last alone tells that `c` came and `a` went.
    if number < 2 or how == "cut by one":
        assert names(group) == {"b", "c", "inner"}
    elif not saved:
        assert names(group) == {"a", "b", "inner"}
    found_now = ct.open_dataset(str(group)).check()
    strays = {one.path for one in found_now if one.code == "stray-array"}
    assert ("c" in strays) == ("c" not in names(group))
    assert not [one for one in found_now if one.severity == "error"]
    assert main(["undo", str(group)]) == 0
    assert array_files(group) == before


def test_the_start_of_a_list_that_was_cut_is_saved(tmp_path: Path) -> None:
    """What stands before the cut counts, deletions too; the report says how much is lost."""
    group = tmp_path / "group"
    tiledb.Group.create(str(group))
    for at in (10, 20):
        with opened(str(group), "w", at) as writer:
            for number in range(4000):
                if at == 20 and number % 2:
                    writer.remove(f"member-{number:05}-10")
                writer.add(f"array-{number:05}-{at}", f"member-{number:05}-{at}", relative=True)
    before = said_by_engine(group, 15)
    damage(group, 1, lambda data: data[: len(data) * 3 // 4])
    report = repair_group(str(group))
    assert report.findings == ()
    (put,) = [step for step in report.steps if step.op == "put"]
    (note,) = [note for note in report.notes if "cut short" in note]
    file = ct.parse(group / put.path)
    assert isinstance(file, GroupFile)
    saved = file.details.entries
    assert f": {len(saved):,} entries of " in note
    assert note.endswith(" lost")
    after = said_by_engine(group, None)
    assert after == {one.name for one in ct.open_dataset(str(group)).members()}
    kept = {entry.name for entry in saved if not entry.is_deletion}
    gone = {entry.name for entry in saved if entry.is_deletion}
    assert len(kept) > 1000
    assert gone
    assert after == (before - gone) | kept
    assert said_by_engine(group, 15) == before


def test_names_that_stop_the_engine_and_damaged_metadata_go_out(
    whole: Path, tmp_path: Path
) -> None:
    group = tmp_path / "group"
    shutil.copytree(whole, group)
    for name in ("garbage", "__40_40_zz_2", "__x.vac"):
        (group / "__group" / name).write_bytes(b"x")
        os.utime(group / "__group" / name, LONG_AGO)
    meta = sorted((group / "__meta").iterdir())[1]
    meta.write_bytes(meta.read_bytes()[:-3])
    with pytest.raises(tiledb.TileDBError):
        by_engine(str(group), None)
    codes = {(item.code, item.path) for item in ct.open_dataset(str(group)).check()}
    assert codes >= {("name-malformed", "__group/garbage"), ("tile-corrupt", f"__meta/{meta.name}")}
    report = repair_group(str(group))
    moved = {step.path for step in report.steps}
    assert moved == {"__group/garbage", "__group/__40_40_zz_2", f"__meta/{meta.name}"}
    assert report.findings == ()
    with opened(str(group), "r") as reader:
        assert dict(reader.meta) == {"a": 10, "c": 30}
    assert names(group) == {"b", "c", "inner"}


def test_a_group_inside_is_repaired_with_its_members(
    whole: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Both groups are damaged, and an array in each is planned all the same."""
    group = tmp_path / "group"
    shutil.copytree(whole, group)
    damage(group, 2, DAMAGES["empty"])
    with opened(str(group / "inner"), "w", 6) as inner:
        inner.meta["k"] = 1
        inner.add(str(group / "c"), "other")
    damage(group / "inner", 1, DAMAGES["a bit of the sum"])
    assert main(["repair", str(group), "--json"]) == 0
    told = json.loads(capsys.readouterr().out)["members"]
    assert {one["member"] for one in told} >= {"", "inner", "inner/deep", "a", "b"}
    assert {one["member"] for one in told if one["steps"]} == {"", "inner"}
    assert names(group) == {"a", "b", "inner"}
    assert names(group / "inner") == {"deep"}


def test_a_list_that_may_be_in_the_writing_is_left_alone(whole: Path, tmp_path: Path) -> None:
    group = tmp_path / "group"
    shutil.copytree(whole, group)
    file = damage(group, 2, DAMAGES["empty"])
    os.utime(file)
    with pytest.raises(RefusedError, match="may still be in the writing"):
        repair_group(str(group))
    assert main(["repair", str(group)]) == 1
    assert file.exists()


JUDGE = """
import sys, tiledb
for group in sys.stdin.read().split():
    try:
        with tiledb.Group(group, "r") as opened:
            print(group, "opens", *sorted(str(one.name) for one in opened), flush=True)
    except tiledb.TileDBError:
        print(group, "fails", flush=True)
"""


def judged(groups: list[Path]) -> dict[str, list[str]]:
    """What the engine says of groups, in a process of its own: hostile bytes may end it."""
    done = subprocess.run(
        [sys.executable, "-c", JUDGE],
        input="\n".join(map(str, groups)),
        capture_output=True,
        text=True,
        check=True,
        timeout=120,
    )
    return {line.split()[0]: line.split()[1:] for line in done.stdout.splitlines()}


def test_random_damage_is_judged_as_the_engine_does_and_mended(whole: Path, tmp_path: Path) -> None:
    groups = []
    for seed in range(60):
        chance = Random(seed)
        group = tmp_path / f"group{seed}"
        shutil.copytree(whole, group)

        def spoil(data: bytes, chance: Random = chance) -> bytes:
            spoilt = bytearray(data)
            for _ in range(chance.randint(1, 2)):
                spoilt[chance.randrange(len(data))] ^= 1 << chance.randrange(8)
            return bytes(spoilt[: chance.choice([len(data), chance.randrange(len(data))])])

        damage(group, chance.randrange(3), spoil)
        groups.append(group)
    before = judged(groups)
    broken = [group for group in groups if before[str(group)][0] == "fails"]
    assert len(broken) > 20
    for group in groups:
        report = repair_group(str(group))
        assert report.findings == ()
        assert bool(report.steps) == (group in broken), group.name
    after = judged(groups)
    for group in groups:
        said, *members = after[str(group)]
        assert said == "opens"
        assert members == sorted(str(one.name) for one in ct.open_dataset(str(group)).members())
