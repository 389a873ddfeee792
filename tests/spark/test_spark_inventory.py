"""The pipeline by an inventory of a bucket: the same rows as by LIST, and not one LIST."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
from support.fleets import FIRST_MS, FleetMaker, make_template
from support.inventories import make_inventory
from support.spark_sessions import local_session
from support.stored_tables import stored

from chronotile.cli import program as cli
from chronotile.errors import ChronotileError
from chronotile.fleet import flat_listing, register
from chronotile.fleet import plan as fleet_plan
from chronotile.fleet.array_tables import SCHEMAS
from chronotile.fleet.delta_store import STORED
from chronotile.fleet.find_arrays import IN_FLAT
from chronotile.fleet.options import Options, read_options
from chronotile.fleet.run_pipeline import Job, run
from chronotile.format.timestamps import now_ms
from chronotile.storage import bucket as bucket_module
from chronotile.storage.store import open_store

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from pyspark.sql import SparkSession
    from support.servers import FaultProxy, S3Server


@pytest.fixture(scope="module")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    with local_session(tmp_path_factory.mktemp("warehouse")) as session:
        yield session


def rows(out: Path, table: str) -> list[str]:
    found = stored(out / table)
    names = [name for name in found.column_names if name not in ("run_id", "run_at")]
    return sorted(map(repr, found.select(names).to_pylist()))


def test_an_inventory_gives_the_rows_of_a_list(
    spark: SparkSession,
    tmp_path: Path,
    s3: S3Server,
    bucket: str,
    proxy: FaultProxy,
    capfd: pytest.CaptureFixture[str],
) -> None:
    maker = FleetMaker(make_template(tmp_path / "template"))
    root = tmp_path / "root"
    for number in range(8):
        folder = root / f"group-{number % 2}" / f"array-{number}"
        maker.array(folder, 12, seed=number, deletes=number % 3, loose=number)
    store = open_store(bucket, s3.options)
    for path in (path for path in sorted(root.rglob("*")) if path.is_file()):
        store.put_if_absent(str(path.relative_to(root)), path.read_bytes())
    store.put_if_absent("group-0/array-0/notes.txt", b"a stranger")
    home = s3.make_bucket(f"{bucket.removeprefix('s3://')}-home")
    manifest = make_inventory(bucket, home, s3.options, "csv", at_ms=FIRST_MS + 60_000)
    storage = tuple(sorted(proxy.options.items()))

    def lists() -> list[str]:
        asked = [path for _, path, _ in proxy.seen if "list-type" in path]
        proxy.seen.clear()
        return asked

    def job(out: str, **more: Any) -> Job:
        return Job(
            options=Options(storage=storage, **more), out=str(tmp_path / out), since_last=True
        )

    run(spark, job("listed", roots=(bucket,)))
    assert len(lists()) > 8 * 7
    by_inventory = job("inventory", inventory=manifest)
    told = run(spark, by_inventory)
    assert lists() == []
    assert (told.read, told.totals.arrays) == (8, 8)
    assert (told.inventory_age_s or 0) > 3600
    for table in STORED:
        assert rows(tmp_path / "inventory", table) == rows(tmp_path / "listed", table)
    # With sizes, one flat list of an array gives both; an inventory needs none for them either.
    run(spark, job("listed-sizes", roots=(bucket,), sizes=True))
    assert 8 <= len([path for path in lists() if "delimiter" not in path]) <= 8 * 2
    run(spark, job("inventory-sizes", inventory=manifest, sizes=True))
    assert lists() == []
    sized = [rows(tmp_path / out, "arrays") for out in ("inventory-sizes", "listed-sizes")]
    assert sized[0] == sized[1] != rows(tmp_path / "listed", "arrays")
    inside = [entry for entry in store.list_prefix() if "/array-" in entry.path]
    assert sum(entry.size or 0 for entry in inside) == sum(
        stored(tmp_path / "listed-sizes" / "arrays")["bytes"].to_pylist()
    )
    # Unchanged files are known by size and ETag, whoever listed them.
    again = run(spark, by_inventory)
    assert (again.unchanged, again.reads, lists()) == (8, 0, [])
    turned = run(spark, job("listed", inventory=manifest, roots=(bucket,)))
    assert (turned.unchanged, turned.reads) == (8, 0)
    # A commit that is newer than the inventory.
    newer = f"__commits/__{FIRST_MS + 90_000}_{FIRST_MS + 90_000}_{'9' * 32}_22.wrt"
    store.child("group-1/array-3").put_if_absent(newer, b"")
    lists()
    assert run(spark, by_inventory).unchanged == 8, "an inventory does not know"
    fresh = run(spark, job("inventory", inventory=manifest, fresh=True))
    assert (fresh.read, fresh.unchanged, fresh.totals.commits) == (1, 7, told.totals.commits + 1)
    asked = lists()
    assert len([path for path in asked if "start-after" in path]) == 8
    call = [
        "pipeline",
        f"{bucket}/group-1",
        "--inventory",
        manifest,
        "--out",
        str(tmp_path / "cli"),
    ]
    storage_words = [word for pair in s3.options.items() for word in ("--storage", "=".join(pair))]
    capfd.readouterr()
    assert cli.main([*call, *storage_words, "--fail-on", "never"]) == 0
    assert "hours old: newer commits are missing" in capfd.readouterr().out
    assert cli.main([*call, *storage_words, "--json", "--fail-on", "never"]) == 0
    document = json.loads(capfd.readouterr().out)
    costs = stored(tmp_path / "cli" / "arrays")
    for name in ("engine_open_requests", "open_requests"):
        assert document[name] == sum(costs[name].to_pylist())
    assert document["arrays"] == 4
    assert document["inventory_age_s"] == pytest.approx(now_ms() / 1000 - FIRST_MS / 1000, rel=0.1)
    assert stored(tmp_path / "cli" / "arrays").num_rows == 4
    for wrong in (["--fresh"], ["--inventory", "m", "--arrays", "a"]):
        assert cli.main(["pipeline", "x", "--out", "y", *wrong]) == 2


def test_the_data_source_reads_by_an_inventory_and_lists_nothing(
    spark: SparkSession,
    tmp_path: Path,
    s3: S3Server,
    bucket: str,
    proxy: FaultProxy,
    request: pytest.FixtureRequest,
) -> None:
    maker = FleetMaker(make_template(tmp_path / "template"))
    root = tmp_path / "root"
    for number in range(6):
        folder = root / f"group-{number % 2}" / f"array-{number}"
        maker.array(folder, 6, seed=number, deletes=number % 3, loose=number)
    store = open_store(bucket, s3.options)
    for path in (path for path in sorted(root.rglob("*")) if path.is_file()):
        store.put_if_absent(str(path.relative_to(root)), path.read_bytes())
    home = s3.make_bucket(f"{bucket.removeprefix('s3://')}-home")
    manifest = make_inventory(bucket, home, s3.options, "parquet", at_ms=FIRST_MS + 60_000)
    register(spark)
    switch = "spark.sql.python.filterPushdown.enabled"
    request.addfinalizer(lambda: spark.conf.unset(switch))
    spark.conf.set(switch, "true")

    def read(table: str, *where: str, root: str | None = bucket, **more: str) -> list[str]:
        source = spark.read.format("chronotile").option("table", table).options(**more)
        for name, value in proxy.options.items():
            source = source.option(f"storage.{name}", value)
        frame = source.load() if root is None else source.load(root)
        for one in where:
            frame = frame.where(one)
        return sorted(map(repr, frame.collect()))

    def asked(kind: str) -> list[str]:
        found = [path for _, path, _ in proxy.seen if ("list-type" in path) == (kind == "LIST")]
        proxy.seen.clear()
        return found

    by_list = {table: read(table) for table in SCHEMAS}
    assert asked("LIST")
    for table, rows_ in by_list.items():
        assert read(table, root=None, inventory=manifest) == rows_
    assert asked("LIST") == []
    some = [row for row in by_list["commits"] if "/group-1/" in row]
    assert read("commits", root=f"{bucket}/group-1", inventory=manifest) == some
    # By LIST, a filter on `array` decides which arrays are opened.
    second, third = (f"{bucket}/group-{n % 2}/array-{n}" for n in (2, 3))
    for where, arrays in (
        (f"array = '{third}'", (third,)),
        (f"array in ('{second}', '{third}')", (second, third)),
        (f"array like '{bucket}/group-1/arr%'", (f"{bucket}/group-1/",)),
    ):
        asked("GET")
        wanted = [row for row in by_list["commits"] if any(f"'{one}" in row for one in arrays)]
        assert read("commits", where, push_filters="true") == wanted != []
        opened = [path for path in asked("GET") if "/array-" in path]
        starts = tuple(one.removeprefix("s3:/") for one in arrays)
        assert all(path.startswith(starts) for path in opened), opened
    # A filter on `array` decides what is read at all.
    asked("GET")
    one = f"array = '{bucket}/group-1/array-3'"
    rows_ = read("commits", one, root=None, inventory=manifest, push_filters="true")
    assert rows_ == [row for row in by_list["commits"] if "/array-3'" in row]
    assert {path.split("/")[3] for path in asked("GET") if "/array-" in path} == {"array-3"}
    # What is newer is told with `fresh`; a file that is gone makes the task look for itself.
    newer = f"__commits/__{FIRST_MS + 90_000}_{FIRST_MS + 90_000}_{'9' * 32}_22.wrt"
    store.child("group-1/array-3").put_if_absent(newer, b"")
    assert read("commits", root=None, inventory=manifest) == by_list["commits"]
    fresh = read("commits", root=None, inventory=manifest, fresh="true")
    assert len(fresh) == len(by_list["commits"]) + 1
    gone = next(e.path for e in store.list_prefix("group-0") if e.path.endswith(".con"))
    store.remove([gone])
    assert read("commits", root=None, inventory=manifest) == read("commits", inventory=manifest)
    assert len(read("findings", root=None, inventory=manifest)) >= len(by_list["findings"])
    for wrong in ({"table": "usage"}, {"arrays": "x.txt"}):
        with pytest.raises(ChronotileError, match="option 'inventory'"):
            read_options({"inventory": manifest, **wrong})
    with pytest.raises(ChronotileError, match="option 'fresh'"):
        read_options({"path": bucket, "fresh": "true"})
    with pytest.raises(ChronotileError, match="found a stream"):
        read_options({"inventory": manifest, "state": "s"}, streaming=True)


def test_neighbours_are_listed_flat_and_never_again(
    spark: SparkSession,
    tmp_path: Path,
    s3: S3Server,
    bucket: str,
    proxy: FaultProxy,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A walk takes nine lists an array; a flat list one for each 1,000 objects, but of large ones.

    The same rows by both, from the driver and from tasks; a later run asks no more.
    """
    maker = FleetMaker(make_template(tmp_path / "template"))
    root, arrays = tmp_path / "root", flat_listing.FEWEST + 4
    for number in range(arrays):
        folder = root / "lake" / f"{'a' if number % 2 else 'a-'}{number}"
        maker.array(folder / ("deep" if number == 5 else ""), 6, seed=number, loose=number % 4)
    maker.array(root / "lake" / "huge", 60, seed=99, loose=60)
    maker.array(root / "other", 3, seed=98)
    store = open_store(bucket, s3.options)
    paths = [path for path in sorted(root.rglob("*")) if path.is_file()]
    for path in paths:
        store.put_if_absent(str(path.relative_to(root)), path.read_bytes())
    small = len([path for path in paths if "huge" not in path.parts])
    page = 20
    monkeypatch.setattr(flat_listing, "PAGE", page)
    monkeypatch.setattr(bucket_module, "PAGE", page)
    monkeypatch.setattr(flat_listing, "PAGES_OF_ARRAY", 3)
    storage = tuple(sorted(proxy.options.items()))

    def listed(out: str, **more: Any) -> tuple[Any, int]:
        proxy.seen.clear()
        options = Options(storage=storage, roots=(bucket,))
        told = run(spark, Job(options=options, out=str(tmp_path / out), **more))
        return told, len([path for _, path, _ in proxy.seen if "list-type" in path])

    flat, lists = listed("flat", since_last=True)
    assert flat.totals.arrays == arrays + 2
    # The top, `lake`, `other` and its weight, one for each page, and what `other` and `huge` take.
    pages = small // page + 1 + arrays // IN_FLAT + 3 + 1
    assert lists <= 4 + pages + 2 * 8 < arrays * 2, (lists, pages)
    again, lists = listed("flat", since_last=True)
    assert (again.unchanged, again.reads) == (arrays + 2, 0)
    assert lists <= 4 + pages + 2 * 8
    monkeypatch.setattr(fleet_plan, "IN_DRIVER", 2)
    monkeypatch.setattr(fleet_plan, "IN_FLAT", 6)
    by_tasks, lists = listed("tasks")
    assert lists < arrays * 4
    monkeypatch.setattr(flat_listing, "FEWEST", 10**6)
    monkeypatch.setattr(fleet_plan, "IN_DRIVER", 4096)
    walked, lists = listed("walk")
    assert lists > arrays * 8
    assert flat.totals == by_tasks.totals == walked.totals
    for table in SCHEMAS:
        wanted = rows(tmp_path / "walk", table)
        assert rows(tmp_path / "flat", table) == rows(tmp_path / "tasks", table) == wanted


def test_a_file_that_the_inventory_knows_and_that_is_gone(
    spark: SparkSession, tmp_path: Path, s3: S3Server, bucket: str
) -> None:
    maker = FleetMaker(make_template(tmp_path / "template"))
    maker.array(tmp_path / "root" / "a", 6, seed=1, deletes=1)
    store = open_store(bucket, s3.options)
    for path in (path for path in sorted((tmp_path / "root").rglob("*")) if path.is_file()):
        store.put_if_absent(str(path.relative_to(tmp_path / "root")), path.read_bytes())
    home = s3.make_bucket(f"{bucket.removeprefix('s3://')}-home")
    manifest = make_inventory(bucket, home, s3.options, "parquet", at_ms=now_ms())
    (con,) = [e for e in store.list_prefix("a/__commits") if e.path.endswith(".con")]
    data = store.read(con.path)
    renamed = con.path.replace("_22.con", "_21.con")
    store.put_if_absent(renamed, data)
    store.remove([con.path])
    options = Options(storage=tuple(sorted(s3.options.items())), inventory=manifest)
    told = run(spark, Job(options=options, out=str(tmp_path / "out")))
    assert (told.unreadable, told.totals.commits) == (0, 6)
    sources = stored(tmp_path / "out" / "commits")["source"].unique().to_pylist()
    assert sources == [renamed.removeprefix("a/")]
