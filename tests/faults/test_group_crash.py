"""Maintenance of a group's own files, killed by the system at every step: no member is lost."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import threading
from contextlib import suppress
from typing import TYPE_CHECKING

import pytest
import tiledb
from support.crashing import crasher
from support.engine_arrays import s3_settings
from support.group_histories import GroupWriter, by_engine, by_us, make_places
from support.verbs import consolidate_group, vacuum_group

import chronotile as ct
from chronotile.errors import ChangedError
from chronotile.storage.store import open_store

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from support.crashing import Crasher
    from support.servers import S3Server


@pytest.fixture(scope="module")
def dying() -> Iterator[Crasher]:
    with crasher() as running:
        yield running


@pytest.fixture
def group(tmp_path: Path) -> Path:
    """A group with a random history of the engine."""
    writer = GroupWriter(23, str(tmp_path / "group"), make_places(tmp_path / "places"))
    for _ in range(7):
        writer.session()
    return tmp_path / "group"


def test_killed_at_every_step_on_a_disk(dying: Crasher, group: Path) -> None:
    wanted = by_engine(str(group), None)
    for what in ("consolidate-group", "vacuum-group"):
        for step in range(1, 100):
            killed, _ = dying.run(what, str(group), die_at=step)
            assert by_engine(str(group), None) == by_us(str(group), None) == wanted, (what, step)
            if not killed:
                break
        else:
            pytest.fail("it never ended")
        assert step > 2
    assert len(list((group / "__group").iterdir())) == 1


def test_a_repair_that_is_killed_loses_nothing_and_goes_on(
    dying: Crasher, group: Path, tmp_path: Path
) -> None:
    """The damaged list is in the group or, whole, in the quarantine, at every moment."""
    last = max((group / "__group").iterdir(), key=lambda path: int(path.name.split("_")[2]))
    data = last.read_bytes()[:-1]
    last.write_bytes(data)
    os.utime(last, (1_700_000_000, 1_700_000_000))
    shutil.copytree(group, tmp_path / "undisturbed")
    killed, steps = dying.run("repair-group", str(tmp_path / "undisturbed"))
    assert not killed
    wanted = {(name, kind) for name, _, kind in by_us(str(tmp_path / "undisturbed"), None)}
    for step in range(1, steps + 1):
        copy = tmp_path / f"at{step}"
        shutil.copytree(group, copy)
        assert dying.run("repair-group", str(copy), die_at=step)[0]
        places = [copy / "__group", *copy.glob("__chronotile/quarantine/*")]
        kept = [path.read_bytes() for place in places for path in place.iterdir()]
        assert data in kept, step
        assert not dying.run("repair-group", str(copy))[0]
        found = by_engine(str(copy), None)
        assert found == by_us(str(copy), None)
        assert {(name, kind) for name, _, kind in found} == wanted


def uploaded(group: Path, remote: str, options: dict[str, str]) -> None:
    store = open_store(remote, options)
    for path in group.rglob("*"):
        if path.is_file():
            store.put_if_absent(path.relative_to(group).as_posix(), path.read_bytes())


def in_bucket(remote: str, options: dict[str, str]) -> set[tuple[str | None, str]]:
    members = ct.open_dataset(remote, storage_options=options).members()
    return {(member.name, member.uri.removeprefix("file://")) for member in members}


def by_engine_in_bucket(remote: str, server: S3Server) -> set[tuple[str | None, str]]:
    with tiledb.Group(remote, "r", ctx=tiledb.Ctx(s3_settings(server))) as opened:
        return {(one.name, one.uri.removeprefix("file://")) for one in opened}


def test_killed_at_every_step_in_a_bucket(
    dying: Crasher, group: Path, s3: S3Server, bucket: str
) -> None:
    remote = f"{bucket}/group"
    uploaded(group, remote, s3.options)
    wanted = by_engine_in_bucket(remote, s3)
    for what in ("consolidate-group", "vacuum-group"):
        for step in range(1, 100):
            killed, _ = dying.run(what, remote, s3.options, die_at=step)
            assert in_bucket(remote, s3.options) == wanted, (what, step)
            if not killed:
                break
    assert by_engine_in_bucket(remote, s3) == wanted
    assert len(open_store(remote, s3.options).list_names("__group").files) == 1


WRITER = """
import json, os, sys, tiledb
group, seed, settings, merged = json.loads(sys.stdin.read())
ctx, kept = tiledb.Ctx(settings), set()
def opened():
    # An engine fails to open a group if a list that it has just listed is vacuumed.
    for _ in range(1000):
        try:
            return tiledb.Group(group, "w", tiledb.Config(settings), ctx)
        except tiledb.TileDBError:
            pass
for number in range(300):
    if number >= 12 and os.path.exists(merged):
        break
    with opened() as writer:
        writer.add(f"member-{seed}-{number}", f"{seed}-{number}", relative=True)
        kept.add(f"{seed}-{number}")
        if number % 5 == 4:
            writer.remove(f"{seed}-{number - 2}")
            kept.discard(f"{seed}-{number - 2}")
print(json.dumps(sorted(kept)))
"""


@pytest.mark.parametrize("count", [1, 2])
def test_maintainers_race_engines_in_a_bucket(
    count: int, s3: S3Server, bucket: str, tmp_path: Path
) -> None:
    """Two maintainers merge and vacuum while engines add members and take some out.

    The engines go on until something was merged.

    A list of one engine repeats what it read when it began, and so brings back what another one
    has removed meanwhile, whoever maintains the group: only of one engine removals are for good.
    """
    remote, settings = f"{bucket}/race", s3_settings(s3)
    tiledb.Group.create(remote, ctx=tiledb.Ctx(settings))
    engines, merged = [], tmp_path / "merged"
    for seed in range(count):
        engine = subprocess.Popen(
            [sys.executable, "-c", WRITER],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        assert engine.stdin is not None
        engine.stdin.write(json.dumps([remote, seed, settings, str(merged)]))
        engine.stdin.close()
        engines.append(engine)
    over = threading.Event()

    def maintain() -> None:
        while not over.is_set():
            for change in (consolidate_group, vacuum_group):
                with suppress(ChangedError):
                    if change(remote, storage_options=s3.options).steps:
                        merged.touch()

    threads = [threading.Thread(target=maintain) for _ in range(2)]
    for thread in threads:
        thread.start()
    said = []
    try:
        for engine in engines:
            assert engine.stdout is not None
            with engine.stdout:
                said.append(engine.stdout.read())
            assert engine.wait(60) == 0
    finally:
        over.set()
        for thread in threads:
            thread.join()
    wanted = {name for text in said for name in json.loads(text)}
    assert len(wanted) >= 10 * count
    assert merged.exists()
    for _ in range(2):
        found = {str(name) for name, _ in by_engine_in_bucket(remote, s3)}
        assert {name for name, _ in in_bucket(remote, s3.options)} == found >= wanted
        assert found == wanted or count > 1
        consolidate_group(remote, storage_options=s3.options)
        vacuum_group(remote, storage_options=s3.options)
