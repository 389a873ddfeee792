"""New events as they come: what is told, and how little a look asks of the storage."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import pytest
from support.array_places import InBucket, OnDisk, read_all
from support.corpus_cases import CASES
from support.groups import member, put_array, put_list

import chronotile as ct
from chronotile.dataset.dataset_events import DatasetFollowing
from chronotile.errors import ChronotileError
from chronotile.format.kinds import DATASET_EVENTS
from chronotile.format.names import new_name
from chronotile.history import log_watch
from chronotile.history.read_history import read_history
from chronotile.log import Following, Log
from chronotile.show.story import EventFilter, Story
from chronotile.storage.overlay import remembering
from chronotile.storage.store import Store, open_store

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from support.servers import FaultProxy, S3Server


ARRAY = "sparse-everything-v22"


@pytest.fixture(params=["disk", "bucket"])
def place(
    request: pytest.FixtureRequest, tmp_path: Path, s3: S3Server, bucket: str
) -> OnDisk | InBucket:
    where = OnDisk(tmp_path / "a") if request.param == "disk" else InBucket(s3, bucket, "a")
    where.reset(read_all(CASES[ARRAY].array))
    if isinstance(where, OnDisk):
        # A folder that has changed just now is looked into again.
        for folder in (where.folder, *where.folder.rglob("*")):
            os.utime(folder, (1, 1))
    return where


class Looks:
    """Looks at an array, one after the other."""

    def __init__(self, uri: str, options: dict[str, str] | None = None) -> None:
        self.steps: list[str] = []
        store = remembering(open_store(uri, options, on_operation=self._note))

        def story() -> Story:
            log = Log(read_history(store), store)
            return log.story(sizes=False)

        watch, window = log_watch.LogWatch(store), EventFilter(kinds=frozenset(DATASET_EVENTS))
        self.following = Following(watch, story(), window, story)

    def _note(self, what: str, _: str) -> None:
        if not what.endswith(".done"):
            self.steps.append(what)

    def look(self) -> list[str]:
        """The kinds of events that a look tells."""
        self.steps.clear()
        return [event.kind for event in self.following.look()]


def commit(store: Store, t1: int) -> str:
    name = new_name(t1, t1, 22)
    store.put_if_absent(f"__fragments/{name}/__fragment_metadata.tdb", b"")
    return name


def test_a_look_asks_little_if_nothing_is_new(place: OnDisk | InBucket) -> None:
    looks = Looks(place.uri, place.options)
    plain = open_store(place.uri, place.options)
    assert looks.look() == []
    assert looks.steps == ["list"] * (1 if isinstance(place, OnDisk) else 4)
    name = commit(plain, 9000)
    assert looks.look() == [], "it is not committed yet"
    plain.put_if_absent(f"__commits/{name}.wrt", b"")
    assert looks.look() == ["write"]
    ct.write_delete(place.uri, "a == 3", timestamp=9500, storage_options=place.options)
    assert looks.look() == ["delete"]
    assert looks.look() == []


def test_a_look_reads_only_what_is_new(s3: S3Server, bucket: str, proxy: FaultProxy) -> None:
    place = InBucket(s3, bucket, "a")
    place.reset(read_all(CASES[ARRAY].array))
    looks = Looks(place.uri, proxy.options)
    proxy.seen.clear()
    assert looks.look() == []
    assert ["start-after" in path for _, path, _ in proxy.seen] == [True] * 4
    ct.write_delete(place.uri, "a == 3", timestamp=9500, storage_options=s3.options)
    proxy.seen.clear()
    assert looks.look() == ["delete"]
    read = [path for method, path, _ in proxy.seen if method == "GET" and "list-type" not in path]
    assert len(read) == 2, "the commit, and the record of what we did"
    assert read[0].endswith(".del")
    assert read[1].endswith("-delete-done.json")


def test_a_commit_that_is_dated_in_the_past_is_told_too(place: OnDisk | InBucket) -> None:
    looks = Looks(place.uri, place.options)
    ct.write_delete(place.uri, "a == 3", timestamp=1, any_time=True, storage_options=place.options)
    told = [looks.look() for _ in range(log_watch.ALL_EVERY)]
    assert [kind for kinds in told for kind in kinds] == ["delete"]


def test_what_could_not_be_read_is_told_later(tmp_path: Path) -> None:
    place = OnDisk(tmp_path / "a")
    place.reset(read_all(CASES[ARRAY].array))
    looks = Looks(place.uri)
    ct.write_delete(place.uri, "a == 3")
    schemas = place.folder / "__schema"
    schemas.rename(tmp_path / "away")
    with pytest.raises(ChronotileError):
        looks.look()
    (tmp_path / "away").rename(schemas)
    assert looks.look() == ["delete"]


def test_a_dataset_tells_of_its_members_and_of_new_ones(tmp_path: Path) -> None:
    group = tmp_path / "group"
    put_array(group / "one", ARRAY)
    put_array(group / "two", ARRAY)
    put_list(group, 10, member("one", "one"), member("two", "two"))
    window = EventFilter(kinds=frozenset(DATASET_EVENTS))
    following = DatasetFollowing(lambda: ct.open_dataset(str(group)).dataset, window, sizes=False)
    known = len(following.history.events)
    assert known > 2
    following.look()
    assert following.look() == []
    ct.write_delete(group / "two", "a == 3")
    assert [(one.member, one.event.kind) for one in following.look()] == [("two", "delete")]
    shutil.copytree(group / "one", group / "three")
    put_list(group, 20, member("one", "one"), member("two", "two"), member("three", "three"))
    told = following.look()
    assert {one.member for one in told} == {"", "three"}
    (added,) = (one.event.text for one in told if not one.member)
    assert added == "added three"
    ct.write_delete(group / "three", "a == 4")
    assert [(one.member, one.event.kind) for one in following.look()] == [("three", "delete")]


@contextmanager
def running(*arguments: str) -> Iterator[Any]:
    """`log --follow`, until the block ends."""
    command = [sys.executable, "-m", "chronotile", "log", *arguments, "--follow", "--every", "0.1"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    stop = threading.Timer(60, process.kill)
    stop.start()
    try:
        yield process.stdout
    finally:
        stop.cancel()
        process.kill()
        process.communicate()


def test_json_lines_of_arrays_and_groups(tmp_path: Path) -> None:
    group = tmp_path / "group"
    put_array(group / "one", ARRAY)
    put_list(group, 10, member("one", "one"))
    for where, has_member in ((group / "one", False), (group, True)):
        with running(str(where), "--json", "-n", "2", "--no-size") as lines:
            past = [json.loads(lines.readline()) for _ in range(2)]
            assert past[0]["t2"] <= past[1]["t2"]
            ct.write_delete(group / "one", "a == 3")
            event = json.loads(lines.readline())
            assert event["kind"] == "delete"
            assert event.get("member", "") == ("one" if has_member else "")
    with running(str(group), "--oneline", "-n", "1", "--no-size") as lines:
        assert "(one)" in lines.readline()
        ct.write_delete(group / "one", "a == 5")
        line = lines.readline()
        assert "deleted rows where `a == 5`" in line
        assert line.endswith("(one)\n")
