"""A group's own files merged and removed: the engine sees the same, whatever happens meanwhile."""

from __future__ import annotations

import subprocess
import sys
import threading
from typing import TYPE_CHECKING

import pytest
import tiledb
from support.group_histories import GroupWriter, by_engine, by_us, make_places, opened
from support.verbs import consolidate_group, vacuum_group

import chronotile as ct
from chronotile.check.findings import RefusedError
from chronotile.errors import ChangedError
from chronotile.storage.store import open_store

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture(scope="module")
def places(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_places(tmp_path_factory.mktemp("places"))


def lists_of(group: Path) -> list[str]:
    return sorted(path.name for path in (group / "__group").iterdir())


@pytest.mark.parametrize("seed", range(8))
def test_every_moment_sees_the_same_members(seed: int, tmp_path: Path, places: Path) -> None:
    group = tmp_path / "group"
    writer = GroupWriter(100 + seed, str(group), places)
    for _ in range(8):
        writer.session()
    for key in "ab":
        with opened(str(group), "w", 3000 + ord(key)) as one:
            one.meta[key] = key
    moments = [0, *sorted(writer.moments), None]
    before = {moment: by_engine(str(group), moment) for moment in moments}
    planned = consolidate_group(str(group), dry_run=True)
    assert consolidate_group(str(group)).steps[0].path.startswith(planned.steps[0].path[:9])
    for moment in moments:
        assert by_engine(str(group), moment) == by_us(str(group), moment) == before[moment], moment
    undecided = "several of one time" in "".join(planned.notes)
    vacuum_group(str(group))
    assert by_engine(str(group), None) == by_us(str(group), None) == before[None]
    assert undecided or len(lists_of(group)) == 1
    with opened(str(group), "r") as one:
        assert dict(one.meta) == {"a": "a", "b": "b"}
    assert not consolidate_group(str(group)).steps or undecided
    # The engine goes on with the group as if nothing had happened.
    with opened(str(group), "w", 9000) as one:
        one.add(str(places / "array0"), "afterwards")
    assert by_engine(str(group), None) == by_us(str(group), None)
    assert "afterwards" in {name for name, _, _ in by_us(str(group), None)}


def test_a_list_that_is_dated_back_brings_no_removed_member_back(
    tmp_path: Path, places: Path
) -> None:
    group = str(tmp_path / "group")
    tiledb.Group.create(group)
    with opened(group, "w", 10) as one:
        one.add(str(places / "array0"), "a")
    with opened(group, "w", 20) as one:
        one.remove("a")
        one.add(str(places / "array1"), "b")
    consolidate_group(group)
    with opened(group, "w", 15) as late:
        late.add(str(places / "array2"), "c")
    assert {name for name, _, _ in by_engine(group, None)} == {"b", "c"}
    consolidate_group(group)
    vacuum_group(group)
    assert {name for name, _, _ in by_engine(group, None)} == {"b", "c"}
    assert len(lists_of(tmp_path / "group")) == 1


def test_a_copied_group_keeps_its_members(tmp_path: Path, places: Path) -> None:
    """Its `.vac` lists the files of the old place, and hides nothing here."""
    import shutil

    writer = GroupWriter(7, str(tmp_path / "old"), places)
    for _ in range(5):
        writer.session()
    consolidate_group(str(tmp_path / "old"))
    shutil.copytree(tmp_path / "old", tmp_path / "new")
    there = {(name, kind) for name, _, kind in by_engine(str(tmp_path / "old"), None)}
    for step in (lambda _: None, consolidate_group, vacuum_group):
        step(str(tmp_path / "new"))
        here = by_engine(str(tmp_path / "new"), None)
        assert {(name, kind) for name, _, kind in here} == there
        assert by_us(str(tmp_path / "new"), None) == here


def test_broken_off_at_any_step(tmp_path: Path, places: Path) -> None:
    group = tmp_path / "group"
    writer = GroupWriter(11, str(group), places)
    for _ in range(6):
        writer.session()
    wanted = by_engine(str(group), None)
    for change in (consolidate_group, vacuum_group):
        for allowed in range(60):
            left = [allowed]

            def stop(what: str, _: str, left: list[int] = left) -> None:
                if what in ("put", "remove", "put.done", "remove.done"):
                    left[0] -= 1
                    if left[0] < 0:
                        raise KeyboardInterrupt

            try:
                change(str(group), store=open_store(str(group)).watched(stop))
            except KeyboardInterrupt:
                assert by_engine(str(group), None) == by_us(str(group), None) == wanted
                continue
            break
        else:
            pytest.fail("it never ended")
        assert by_engine(str(group), None) == wanted
    assert len(lists_of(group)) == 1


WRITER = """
import random, sys, time, tiledb
group, place, seed = sys.argv[1:]
chance = random.Random(int(seed))
kept = set()
def opened(at):
    # An engine fails to open a group while another writes a list: on a disk it is empty at first.
    for _ in range(1000):
        try:
            return tiledb.Group(group, "w", tiledb.Config(at))
        except tiledb.TileDBError:
            pass
for number in range(60):
    # Maintainers refuse a group that never rests: let it rest now and then.
    time.sleep(chance.random() * 0.05)
    at = {} if chance.random() < 0.7 else {"sm.group.timestamp_end": str(chance.randint(1, 99))}
    one = opened(at)
    one.add(place, f"{seed}-{number}")
    one.close()
    kept.add(f"{seed}-{number}")
    if not at and number % 9 == 8:
        one = opened({})
        one.remove(f"{seed}-{number}")
        one.close()
        kept.discard(f"{seed}-{number}")
print(" ".join(sorted(kept)))
"""


def test_no_member_is_lost_to_maintainers_while_engines_write(tmp_path: Path, places: Path) -> None:
    """Two engines add and remove members, some dated back; two maintainers merge and vacuum."""
    group = str(tmp_path / "group")
    tiledb.Group.create(group)
    place = str(places / "array0")
    engines = [
        subprocess.Popen(
            [sys.executable, "-c", WRITER, group, place, str(seed)],
            stdout=subprocess.PIPE,
            text=True,
        )
        for seed in (1, 2)
    ]
    merged = [0]
    over = threading.Event()

    def maintain() -> None:
        while not over.is_set():
            for change in (consolidate_group, vacuum_group):
                try:
                    merged[0] += bool(change(group).steps)
                except (ChangedError, RefusedError):
                    continue  # a list that an engine is just writing is no list yet

    threads = [threading.Thread(target=maintain) for _ in range(2)]
    for thread in threads:
        thread.start()
    outputs = [engine.communicate(timeout=120)[0] for engine in engines]
    over.set()
    for thread in threads:
        thread.join()
    wanted = {name for output in outputs for name in output.split()}
    assert len(wanted) > 90
    assert all(engine.returncode == 0 for engine in engines)
    assert {name for name, _, _ in by_engine(group, None)} >= wanted
    assert by_engine(group, None) == by_us(group, None)
    assert merged[0] > 0
    consolidate_group(group)
    vacuum_group(group)
    found = {member.name for member in ct.open_dataset(group).members()}
    assert found >= wanted
