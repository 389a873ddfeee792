"""Streams without Spark: the reader is driven as Spark drives it, and killed where that hurts."""

from __future__ import annotations

import json
import os
import random
import time
from collections import Counter
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
import tiledb
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadMaxFiles
from support.fleets import FIRST_MS, FleetMaker, Template, make_template

import chronotile as ct
from chronotile import consolidate, vacuum
from chronotile.errors import ChronotileError
from chronotile.fleet import stream as stream_watch
from chronotile.fleet import stream_state as stream_plans
from chronotile.fleet.options import Options, read_options
from chronotile.fleet.stream import CommitStream, Watch
from chronotile.fleet.stream_state import FORGET_MS, Record, Records, hashes, next_record
from chronotile.storage.store import open_store

if TYPE_CHECKING:
    from pathlib import Path

    from support.servers import FaultProxy


LONG_AGO = 1_600_000_000


@pytest.fixture(scope="module")
def template(tmp_path_factory: pytest.TempPathFactory) -> Template:
    return make_template(tmp_path_factory.mktemp("template") / "array")


@pytest.fixture
def maker(template: Template) -> FleetMaker:
    return FleetMaker(template)


class Query:
    """A query: offsets, and what its sink has got. Each call can be the first after a restart."""

    def __init__(self, root: Path, **options: str) -> None:
        self._options = read_options({"path": str(root), **options}, streaming=True)
        self.reader = CommitStream(self._options)
        self.offset: dict[str, Any] = self.reader.initialOffset()
        self.rows: list[dict[str, Any]] = []

    def restart(self, **options: Any) -> None:
        self._options = replace(self._options, **options)
        self.reader = CommitStream(self._options)

    def plan(self) -> dict[str, Any]:
        limit = self.reader.getDefaultReadLimit()
        end: dict[str, Any] = json.loads(json.dumps(self.reader.latestOffset(self.offset, limit)))
        return end

    def read(self, end: dict[str, Any]) -> list[dict[str, Any]]:
        """The rows of a batch; tasks are processes of their own."""
        rows = []
        for partition in self.reader.partitions(self.offset, end):
            for batch in CommitStream(self._options).read(partition):
                rows += batch.to_pylist()
        return rows

    def step(self) -> int:
        """One trigger; gives how many arrays the batch had."""
        end = self.plan()
        if end == self.offset:
            return 0
        arrays = self.reader.partitions(self.offset, end)
        self.rows += self.read(end)
        self.offset = end
        return sum(len(getattr(one, "arrays", ())) for one in arrays)

    def run_dry(self) -> int:
        """Triggers until nothing is new; gives how many batches that took."""
        return next(number for number in range(1000) if not self.step())

    def names(self) -> Counter[tuple[str, str, str]]:
        return Counter((row["array"], row["name"], row["kind"]) for row in self.rows)


def commits_of(root: Path) -> set[tuple[str, str, str]]:
    found = set()
    for array in sorted(path.parent for path in root.rglob("__schema")):
        table = ct.open_log(str(array)).commits()
        pairs = zip(table["name"].to_pylist(), table["kind"].to_pylist(), strict=True)
        found |= {(str(array), name, kind) for name, kind in pairs}
    return found


class History:
    """Random changes to a fleet, none of which takes a commit out of it."""

    def __init__(self, root: Path, maker: FleetMaker, chance: random.Random) -> None:
        self._root, self._maker, self._chance = root, maker, chance
        self._number = 0
        for name in "ab":
            self.array(name)

    def array(self, name: str) -> bool:
        loose = self._chance.randrange(4)
        self._maker.array(self._root / name, 5, seed=ord(name), deletes=1, loose=loose)
        return True

    def change(self) -> None:
        name = self._chance.choice([path.name for path in sorted(self._root.glob("[a-z]*"))])
        folder, kind = self._root / name, self._chance.randrange(8)
        if kind < 4:
            self._number += 1
            time_ms = self._chance.choice([7, FIRST_MS + self._number])
            delete = self._chance.random() < 0.3
            self._maker.commit(folder, time_ms, uuid=f"{self._number:032x}", delete=delete)
        elif kind == 4 and (folder / "__schema").exists():
            consolidate(str(folder))
            vacuum(str(folder), mode="commits")
        elif kind == 5:
            schema, away = folder / "__schema", folder / "away"
            _ = schema.rename(away) if schema.exists() else away.rename(schema)
        elif kind == 6:
            new = chr(ord("c") + self._number % 20)
            _ = (self._root / new).exists() or self.array(new)

    def heal(self) -> None:
        for away in self._root.glob("*/away"):
            away.rename(away.with_name("__schema"))


@pytest.mark.parametrize("seed", range(4))
def test_every_commit_comes_once_whatever_dies(
    tmp_path: Path, maker: FleetMaker, monkeypatch: pytest.MonkeyPatch, seed: int
) -> None:
    monkeypatch.setattr(stream_watch, "RETRY_S", 0.0)
    monkeypatch.setattr(stream_plans, "KEPT", 2)
    chance = random.Random(seed)
    history = History(tmp_path / "root", maker, chance)
    query = Query(tmp_path / "root", state=str(tmp_path / "state"))
    if chance.random() < 0.5:
        query.restart(max_arrays=2)
    for _ in range(24):
        for _ in range(chance.randrange(3)):
            history.change()
        end = query.plan()
        if chance.random() < 0.3:
            query.restart()  # died with the batch planned: the same is planned again
            assert query.plan() == end
        if end == query.offset:
            continue
        first = query.read(end)
        if chance.random() < 0.3:
            query.restart()  # died with the rows read, and not written
            for _ in range(chance.randrange(2)):
                history.change()
            history.heal()
            again = Counter(map(named, query.read(end)))
            assert again == Counter(map(named, first))
        query.rows += first
        query.offset = end
    history.heal()
    query.restart()
    query.run_dry()
    assert set(query.names().values()) == {1}
    assert set(query.names()) == commits_of(tmp_path / "root")


def named(row: dict[str, Any]) -> tuple[str, str, str]:
    return row["array"], row["name"], row["kind"]


def test_the_driver_opens_no_array(
    tmp_path: Path, maker: FleetMaker, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in "abc":
        maker.array(tmp_path / "root" / name, 6, seed=ord(name), deletes=1, loose=2)
    query = Query(tmp_path / "root", state=str(tmp_path / "state"))
    opened: list[str] = []

    open_array = Options.open_array

    def watched(options: Options, uri: str) -> ct.Log:
        opened.append(uri)
        return open_array(options, uri)

    monkeypatch.setattr(Options, "open_array", watched)
    end = query.plan()
    assert not opened
    assert len(query.read(end)) == 18
    assert len(opened) == 3


def test_a_batch_has_as_many_arrays_as_asked_and_nobody_waits_for_ever(
    tmp_path: Path, maker: FleetMaker
) -> None:
    for name in "abcde":
        maker.array(tmp_path / "root" / name, 3, seed=ord(name))
    query = Query(tmp_path / "root", maxArraysPerTrigger="2", state=str(tmp_path / "state"))
    assert query.reader.getDefaultReadLimit() == ReadMaxFiles(2)
    sizes = []
    for number in range(3):
        # One array that is always busy does not keep the others waiting.
        maker.commit(tmp_path / "root" / "a", FIRST_MS + number, uuid=f"{number:032x}")
        sizes.append(query.step())
    assert sizes == [2, 2, 2]
    assert {row["array"] for row in query.rows} == {str(tmp_path / "root" / n) for n in "abcde"}
    query.run_dry()
    everything = Query(tmp_path / "root", maxArraysPerTrigger="1", state=str(tmp_path / "other"))
    end = everything.reader.latestOffset(everything.offset, ReadAllAvailable())
    assert Counter(map(named, everything.read(end))) == query.names()


def test_available_now_reads_what_was_there_in_several_batches(
    tmp_path: Path, maker: FleetMaker
) -> None:
    for name in "abcde":
        maker.array(tmp_path / "root" / name, 3, seed=ord(name))
    (tmp_path / "root" / "e" / "__schema").rename(tmp_path / "away")
    query = Query(tmp_path / "root", maxArraysPerTrigger="2", state=str(tmp_path / "state"))
    query.reader.prepareForTriggerAvailableNow()
    query.step()
    maker.array(tmp_path / "root" / "new", 3, seed=9)
    assert 1 <= query.run_dry() <= 3  # the array that cannot be read is not tried for ever
    told = query.reader.reportLatestOffset()
    assert told is not None
    assert (told["unreadable"], told["waiting"]) == (1, 0)
    assert {row["array"][-1] for row in query.rows} == set("abcd")
    query.restart()
    query.run_dry()
    assert any(row["array"].endswith("new") for row in query.rows)


def test_state_is_pruned(
    tmp_path: Path, maker: FleetMaker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stream_plans, "KEPT", 2)
    for name in "ab":
        maker.array(tmp_path / "root" / name, 3, seed=ord(name))
    state = tmp_path / "state"
    query = Query(tmp_path / "root", state=str(state))
    sizes, offsets = [], []
    for number in range(40):
        maker.commit(tmp_path / "root" / "a", FIRST_MS + number, uuid=f"{number:032x}")
        offsets.append(query.offset)
        query.step()
        sizes.append(sum(path.is_file() for path in state.rglob("*")))
    assert max(sizes[20:]) <= max(sizes[:20]) <= 20
    assert len(query.rows) == 46
    # The last batches can be read again; one that is long past cannot, and that is said.
    query.restart()
    query.offset = offsets[-2]
    assert [row["name"] for row in query.read(query.plan())] == [query.rows[-2]["name"]]
    query.restart()
    query.offset = offsets[3]
    with pytest.raises(ChronotileError, match="has gone on without this query"):
        query.plan()


def test_what_leaves_an_array_is_forgotten_after_a_while() -> None:
    one, two, three = (hashes([name]) for name in "abc")
    first = next_record("x", None, np.concatenate([one, two]), 1)
    away = next_record("x", first, two, 10)
    assert away.gone.tolist() == one.tolist()
    back = next_record("x", away, np.concatenate([one, two]), 20)
    assert not len(back.new)
    assert not len(back.gone)
    later = next_record("x", away, two, 10 + FORGET_MS)
    assert not len(later.gone)
    assert next_record(
        "x", later, np.concatenate([one, two, three]), 30 + FORGET_MS
    ).new.tolist() == (np.unique(np.concatenate([one, three])).tolist())


def test_of_two_records_the_first_decides(tmp_path: Path) -> None:
    records = Records(str(tmp_path / "state"))
    unread = Record(array="a", unread="cannot be read: 503")
    full = next_record("a", None, hashes("xyz"), 5)
    assert records.put(full, 3) is full
    assert records.put(unread, 3).unread is None
    assert records.put(next_record("a", None, hashes("q"), 5), 3).new.tolist() == full.new.tolist()
    assert records.put(unread, 4).unread
    assert records.put(full, 4).unread
    assert [len(records.unread(batch)) for batch in (2, 3, 4)] == [0, 1, 1]
    (path,) = (tmp_path / "state" / "records").glob("*-3")
    for damage in (b"", path.read_bytes()[:-3], path.read_bytes().replace(b'"a"', b'"b"')):
        path.write_bytes(damage)
        with pytest.raises(ChronotileError, match="expected the record of a, found"):
            records.read("a", 3)


def test_an_array_that_cannot_be_read_is_a_row_of_findings(
    tmp_path: Path,
    maker: FleetMaker,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    monkeypatch.setattr(stream_watch, "RETRY_S", 0.0)
    root = tmp_path / "root"
    for name in "ab":
        maker.array(root / name, 4, seed=ord(name))
    (root / "b" / "__schema").rename(tmp_path / "away")
    query = Query(root, table="findings", state=str(tmp_path / "state"))

    def told() -> list[tuple[str, str]]:
        rows = [(row["array"][-1], row["code"]) for row in query.rows]
        query.rows.clear()
        return rows

    for _ in range(3):
        query.step()
    assert told() == [("b", "unreadable")]  # once, and not at each try
    query.restart()
    query.step()
    assert told() == []
    (tmp_path / "away").rename(root / "b" / "__schema")
    folder = max((root / "b" / "__fragments").iterdir())
    for _ in range(2):
        # A finding that comes back is told again.
        folder.rename(tmp_path / "fragment")
        query.restart(check="fragments")
        touch(root / "b")
        query.step()
        assert ("b", "commit-without-fragment") in told()
        (tmp_path / "fragment").rename(folder)
        touch(root / "b")
        query.step()
        assert ("b", "commit-without-fragment") not in told()
    # A folder that cannot even be listed is a row as well.
    (root / "a" / "__commits").rename(tmp_path / "commits")
    (root / "a" / "__commits").symlink_to(tmp_path / "commits")
    caplog.clear()
    for _ in range(2):
        query.step()
    assert told() == [("a", "unreadable")]
    (line,) = [text for text in caplog.messages if "left for a later" in text]
    assert line.startswith(f"left for a later batch: {root / 'a'} cannot be read: ")
    assert (query.reader.reportLatestOffset() or {})["unreadable"] == 1


def touch(array: Path) -> None:
    """Lets the commit files of an array look changed."""
    (array / "__commits" / f"__1_1_{time.time_ns():032x}_22.ign").write_bytes(b"")


def test_a_stream_tells_what_it_cannot_read(
    tmp_path: Path, maker: FleetMaker, caplog: pytest.LogCaptureFixture
) -> None:
    for name in ("a", "b"):
        maker.array(tmp_path / "root" / name, 4, seed=ord(name))
    away = tmp_path / "root" / "b" / "away"
    commits = away.with_name("__commits")
    commits.rename(away)
    commits.symlink_to(away)
    query = Query(tmp_path / "root", state=str(tmp_path / "state"))
    for _ in range(2):
        end = query.plan()
        batch = query.reader.partitions(query.offset, end)
        assert [one.array for part in batch for one in part.arrays] == [  # type: ignore[attr-defined]
            str(tmp_path / "root" / "a")
        ]
    (told,) = caplog.messages
    assert told.startswith(f"left for a later batch: {commits.parent} cannot be read: ")
    assert query.reader.reportLatestOffset() == {
        "batch": 1,
        "arrays": 1,
        "unreadable": 1,
        "waiting": 0,
    }
    commits.unlink()
    away.rename(commits)
    query.offset = end
    assert query.step() == 1
    assert {row["array"] for row in query.rows} == {str(tmp_path / "root" / "b")}
    assert len(caplog.messages) == 1


def test_the_state_of_an_earlier_version_is_refused(tmp_path: Path, maker: FleetMaker) -> None:
    maker.array(tmp_path / "root" / "a", 4, seed=1)
    query = Query(tmp_path / "root", state=str(tmp_path / "state"))
    query.offset = {"seen": {}}
    with pytest.raises(ChronotileError, match="give the query a new checkpointLocation"):
        query.plan()
    (tmp_path / "state").mkdir(exist_ok=True)
    (tmp_path / "state" / "1.json").write_text(json.dumps({"a": "AAAA"}))
    query.offset = {"batch": 0}
    with pytest.raises(ChronotileError, match="give a new folder"):
        query.plan()


@pytest.fixture
def looks(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The arrays that were looked at in full."""
    seen: list[str] = []
    before = stream_watch._in_full

    def counted(store: Any, *rest: Any) -> Any:
        seen.append(store.uri)
        return before(store, *rest)

    monkeypatch.setattr(stream_watch, "_in_full", counted)
    return seen


def make_old(root: Path) -> None:
    for path in (root, *root.rglob("*")):
        os.utime(path, (LONG_AGO, LONG_AGO))


def test_a_look_at_a_quiet_disk_lists_nothing_and_misses_nothing(
    tmp_path: Path, maker: FleetMaker, looks: list[str]
) -> None:
    root = tmp_path / "root"
    for name in "abc":
        maker.array(root / name, 4, seed=ord(name), loose=2)
    make_old(root)
    watch = Watch(read_options({"path": str(root), "state": "unused"}, streaming=True))
    first = watch.look()
    assert len(looks) == 3
    assert watch.look() == first
    assert len(looks) == 3

    def changed() -> set[str]:
        nonlocal first
        last, first = first, watch.look()
        assert not first.problems
        return {array[-1] for array, mark in first.marks.items() if last.marks.get(array) != mark}

    maker.commit(root / "a", FIRST_MS, uuid="1" * 32)
    assert changed() == {"a"}
    # A file that is still being written: its name is there, all of its content is not yet.
    slow = root / "b" / "__commits" / f"__1_2_{'2' * 32}_22.con"
    slow.write_bytes(b"__commits")
    assert changed() == {"b"}
    times = (root / "b" / "__commits").stat()
    slow.write_bytes(b"__commits/__1_1_" + b"3" * 32 + b"_22.wrt\n")
    os.utime(root / "b" / "__commits", ns=(times.st_atime_ns, times.st_mtime_ns))
    assert changed() == {"b"}
    # A commit as engines before version 12 wrote it, in the root; a new array; one that goes.
    (root / "c" / f"__1_1_{'4' * 32}_11.ok").write_bytes(b"")
    maker.array(root / "group" / "d", 2, seed=5)
    (root / "a").rename(tmp_path / "a")
    assert changed() == {"c", "d"}
    assert {array[-1] for array in first.marks} == set("bcd")


def test_a_stream_follows_the_members_of_a_group(tmp_path: Path, maker: FleetMaker) -> None:
    maker.array(tmp_path / "group" / "inside", 2, seed=1)
    maker.array(tmp_path / "elsewhere" / "outside", 3, seed=2)
    tiledb.Group.create(str(tmp_path / "group"))
    with tiledb.Group(str(tmp_path / "group"), "w") as group:
        group.add(f"file://{tmp_path}/elsewhere/outside", name="outside")
    query = Query(tmp_path / "group", state=str(tmp_path / "state"))
    query.run_dry()
    found = Counter(row["array"].rpartition("/")[2] for row in query.rows)
    assert found == {"inside": 2, "outside": 3}
    maker.commit(tmp_path / "elsewhere" / "outside", FIRST_MS, uuid="1" * 32)
    assert query.step() == 1
    assert len(query.rows) == 6


def test_a_look_at_a_bucket_lists_one_folder_of_an_array(
    tmp_path: Path, maker: FleetMaker, proxy: FaultProxy, bucket: str
) -> None:
    for name in "abc":
        maker.array(tmp_path / "group" / name, 4, seed=ord(name), loose=2)
    store = open_store(bucket, proxy.options)
    for path in sorted(tmp_path.rglob("*")):
        if path.is_file():
            store.put_if_absent(str(path.relative_to(tmp_path)), path.read_bytes())
    options = {f"storage.{name}": value for name, value in proxy.options.items()}
    watch = Watch(read_options({"path": bucket, "state": "unused", **options}, streaming=True))
    first = watch.look()
    assert len(first.marks) == 3
    before = len(proxy.seen)
    assert watch.look() == first
    assert len(proxy.seen) - before == 2 + 3  # the root, the group, and `__commits` of each array
    store.put_if_absent(f"group/b/__commits/__1_1_{'7' * 32}_22.wrt", b"")
    later = watch.look()
    assert [a for a in first.marks if later.marks[a] != first.marks[a]] == [f"{bucket}/group/b"]
