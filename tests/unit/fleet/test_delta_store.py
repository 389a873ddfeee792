"""The tables of a fleet, read and rewritten by others: they are Delta tables like any other."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections import Counter
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import duckdb
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable
from support.fleets import FleetMaker, age, make_template
from support.groups import member, put_list
from support.stored_tables import files, version

import chronotile as ct
from chronotile.fleet import delta_store, run_pipeline
from chronotile.fleet.delta_store import STORED, started_ms
from chronotile.fleet.options import Options
from chronotile.fleet.policy import policy_of
from chronotile.fleet.run_pipeline import Job, run
from chronotile.fleet.surviving_tasks import run_job
from chronotile.storage.store import open_store

if TYPE_CHECKING:
    from pathlib import Path

    from support.servers import S3Server

    from chronotile.fleet.run_summary import Summary


@pytest.fixture(scope="module")
def maker(tmp_path_factory: pytest.TempPathFactory) -> FleetMaker:
    return FleetMaker(make_template(tmp_path_factory.mktemp("template") / "array"))


@pytest.fixture
def root(maker: FleetMaker, tmp_path: Path) -> Path:
    for number in range(6):
        maker.array(tmp_path / "root" / f"a-{number}", 8, seed=number, deletes=1, loose=3)
    age(tmp_path / "root")
    return tmp_path / "root"


def publish(root: Path, out: Path) -> Summary:
    options = Options(roots=(str(root),))
    return run(None, Job(options=options, out=str(out), since_last=True))


def commits_of(root: Path) -> Counter[str]:
    arrays = [path.parent for path in root.rglob("__schema")]
    return Counter({str(one): len(ct.open_log(one).commits()) for one in arrays})


def by_duckdb(out: Path) -> Counter[str]:
    with duckdb.connect() as connection:
        connection.register("commits", DeltaTable(str(out / "commits")).to_pyarrow_dataset())
        counted = connection.sql("SELECT uri, count(*) FROM commits GROUP BY uri")
        return Counter(dict(counted.fetchall()))


def by_polars(out: Path) -> Counter[str]:
    frame = pl.scan_delta(str(out / "commits")).group_by("uri").len().collect()
    return Counter(dict(frame.iter_rows()))


def test_duckdb_and_polars_read_the_tables(maker: FleetMaker, root: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    publish(root, out)
    assert by_duckdb(out) == by_polars(out) == commits_of(root)
    maker.commit(root / "a-1", 7, uuid="1" * 32)
    publish(root, out)
    assert by_duckdb(out) == by_polars(out) == commits_of(root)
    # A plain glob counts the files that are removed, too.
    plain = sum(pq.read_metadata(file).num_rows for file in (out / "commits").rglob("*.parquet"))
    assert plain > commits_of(root).total()


def test_statistics_let_readers_pass_over_files(root: Path, tmp_path: Path) -> None:
    publish(root, tmp_path / "out")
    actions = DeltaTable(str(tmp_path / "out" / "commits")).get_add_actions(flatten=True)
    for name in ("min.uri", "max.uri", "min.t1", "max.t2", "null_count.uri", "num_records"):
        assert None not in actions[name].to_pylist(), name


def test_a_wave_is_one_commit_of_each_table(
    root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The commit tells of which run it is, and `listings`, which is last, of waves."""
    out, waves = tmp_path / "out", list[int]()

    def counted(*given: Any, **named: Any) -> Any:
        waves.append(version(out / "listings"))
        return run_job(*given, **named)

    monkeypatch.setattr(run_pipeline, "ARRAYS_IN_WAVE", 2)
    monkeypatch.setattr(run_pipeline, "run_job", counted)
    told = publish(root, out)
    tables = {name: DeltaTable(str(out / name)) for name in STORED}
    assert len(waves) > 1
    assert waves == [2 * number for number in range(len(waves))]
    assert told.versions["arrays"] == told.versions["commits"] == len(waves)
    for name in told.versions:
        assert tables[name].transaction_version("chronotile") == started_ms(told.run)
    for each in ("begun", "complete"):
        assert tables["listings"].transaction_version(f"chronotile.{each}") == len(waves)
    (row,) = DeltaTable(str(out / "run_history")).to_pyarrow_table().to_pylist()
    assert dict(row["versions"]) == {name: one.version() for name, one in tables.items()}
    for name, table in tables.items():
        names = {field.name for field in table.schema().fields}
        assert {"uri", "bucket"} <= names
        assert ({"run_id", "run_at"} <= names) == (name != "listings")


def test_an_unchanged_run_commits_nothing(root: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    assert publish(root, out).versions
    before = {name: (version(out / name), files(out / name)) for name in (*STORED, "run_history")}
    stored = sorted(out.rglob("*.parquet"))
    told = publish(root, out)
    assert (told.unchanged, dict(told.versions)) == (6, {})
    assert before == {name: (version(out / name), files(out / name)) for name in before}
    assert sorted(out.rglob("*.parquet")) == stored


@pytest.mark.parametrize("most", [0, 4096])
def test_a_small_fleet_on_a_disk_needs_no_task_to_be_seen_unchanged(
    maker: FleetMaker, root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, most: int
) -> None:
    """Whatever happens to an array then is seen, by the driver and by tasks alike."""
    out = tmp_path / "out"
    for path in (root, *root.rglob("*")):
        os.utime(path, (1_600_000_000, 1_600_000_000))
    publish(root, out)
    with monkeypatch.context() as patched:
        patched.setattr("chronotile.fleet.run_pipeline.run_task", None)
        told = publish(root, out)
    assert (told.unchanged, told.totals.arrays, dict(told.versions)) == (6, 6, {})
    monkeypatch.setattr("chronotile.fleet.run_pipeline.IN_DRIVER", most)
    maker.commit(root / "a-1", 7, uuid="1" * 32)
    shutil.rmtree(root / "a-2")
    (root / "a-3").rename(root / "moved")
    (root / "a-3").mkdir()
    (root / "moved").rename(root / "a-3" / "inner")
    maker.array(root / "a-9", 5, seed=9)
    told = publish(root, out)
    assert (told.read, told.unchanged, told.totals.arrays) == (3, 3, 6)
    assert by_polars(out) == commits_of(root)


def test_an_optimize_of_others_is_respected(maker: FleetMaker, root: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    publish(root, out)
    maker.array(root / "a-7", 5, seed=7)
    age(root)
    publish(root, out)
    for name in ("commits", "listings"):
        DeltaTable(str(out / name)).optimize.compact()
    maker.commit(root / "a-1", 7, uuid="1" * 32)
    told = publish(root, out)
    assert (told.read, told.unchanged) == (1, 6)
    assert by_polars(out) == commits_of(root)
    DeltaTable(str(out / "commits")).optimize.z_order(["t1"])
    maker.commit(root / "a-2", 7, uuid="2" * 32)
    publish(root, out)
    assert by_polars(out) == commits_of(root)


NO_LINKS = """
#include <errno.h>
int linkat(int a, const char *b, int c, const char *d, int e) { errno = EPERM; return -1; }
int link(const char *a, const char *b) { errno = EPERM; return -1; }
"""


@pytest.mark.skipif(shutil.which("cc") is None, reason="a compiler makes the disk without links")
def test_tables_on_a_mount_without_links(root: Path, tmp_path: Path) -> None:
    out, library = tmp_path / "out", tmp_path / "nolinks.so"
    (tmp_path / "nolinks.c").write_text(NO_LINKS)
    subprocess.run(["cc", "-shared", "-fPIC", "-o", library, tmp_path / "nolinks.c"], check=True)
    code = (
        "import sys; from chronotile import cli; from chronotile.storage import disk_files\n"
        "disk_files._TMPFILE = 0\n"
        "sys.exit(cli.main(['tables', *sys.argv[1:], '--since-last']))"
    )
    call = [sys.executable, "-c", code, str(root), "--out", str(out)]
    for _ in range(2):
        subprocess.run(call, check=True, env={**os.environ, "LD_PRELOAD": str(library)})
        assert by_polars(out) == commits_of(root)
    assert version(out / "commits") == 1


@pytest.mark.parametrize("maintained", [False, True])
def test_a_run_writes_and_removes_where_the_guide_says(
    maker: FleetMaker, root: Path, s3: S3Server, bucket: str, maintained: bool
) -> None:
    store = open_store(bucket, s3.options)

    def upload() -> None:
        for path in (path for path in root.rglob("*") if path.is_file()):
            with suppress(ct.errors.ChronotileError):
                store.put_if_absent(f"lake/{path.relative_to(root)}", path.read_bytes())

    def keys() -> set[str]:
        return {entry.path for entry in store.list_prefix()}

    rule = {"arrays": ["**"], "consolidate": "commits", "vacuum": "commits", "always": True}
    job = Job(
        options=Options(roots=(f"{bucket}/lake",), storage=tuple(sorted(s3.options.items()))),
        out=f"{bucket}/tables",
        out_storage=s3.options,
        policy=policy_of({"rule": [rule]}) if maintained else None,
    )
    for number in range(2):
        upload()
        before = keys()
        run(None, job)
        folders = {key.partition("/")[0] for key in keys() - before}
        assert folders == ({"lake", "tables"} if maintained else {"tables"})
        gone = {key.partition("/")[0] for key in before - keys()}
        assert gone == ({"lake"} if maintained else set())
        assert not [key for key in keys() if key.startswith("tables/_chronotile/")]
        maker.commit(root / "a-1", 7 + number, uuid=f"{number}" * 32)


def test_members_of_groups(root: Path, tmp_path: Path, maker: FleetMaker) -> None:
    out, far = tmp_path / "out", tmp_path / "elsewhere"
    maker.array(far, 3, seed=9)
    put_list(root, 10, member(str(far), "far"), member("a-0", "near"), member("gone", "gone"))
    age(tmp_path)
    assert publish(root, out).totals.arrays == 7
    expected = {("far", "array", str(far)), ("near", "array", f"{root}/a-0")}
    expected |= {("gone", "missing", f"{root}/gone")}

    def members(out: Path = out) -> set[tuple[str, ...]]:
        rows = DeltaTable(str(out / "members")).to_pyarrow_table().to_pylist()
        assert {row["group"] for row in rows} == {str(root)}
        return {(row["name"], row["found"], row["uri"]) for row in rows}

    assert members() == expected
    ct.check_fleet(root, out=tmp_path / "checked")
    assert members(tmp_path / "checked") == expected
    assert publish(root, out).versions == {}, "members that are the same are no change"
    put_list(root, 20, member("a-1", "new"))
    assert "members" in publish(root, out).versions
    assert ("new", "array", f"{root}/a-1") in members()


def test_a_history_of_an_earlier_version_gets_the_new_column(
    root: Path, tmp_path: Path, maker: FleetMaker, monkeypatch: pytest.MonkeyPatch
) -> None:
    out, fields = tmp_path / "out", delta_store.RUN_HISTORY
    monkeypatch.setattr(delta_store, "RUN_HISTORY", pa.schema(list(fields)[:-1]))
    first = publish(root, out)
    monkeypatch.undo()
    again = publish(root, out)
    assert (again.versions, again.totals) == ({}, first.totals)
    maker.commit(root / "a-0", 7, uuid="1" * 32)
    assert publish(root, out).totals.commits == first.totals.commits + 1
    rows = DeltaTable(str(out / "run_history")).to_pyarrow_table().sort_by("run_id")
    assert [text is None for text in rows["totals"].to_pylist()] == [True, False]
