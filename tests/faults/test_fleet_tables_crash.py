"""Drivers that are killed while they publish the tables of a fleet, or that publish at once."""

from __future__ import annotations

import multiprocessing
import shutil
import signal
from concurrent.futures import ProcessPoolExecutor
from typing import TYPE_CHECKING, Any

import pytest
from support.fleet_drivers import publish
from support.fleets import FleetMaker, age, make_template
from support.stored_tables import as_read, stored

import chronotile as ct
from chronotile.fleet.array_tables import SCHEMAS, ArrayTables
from chronotile.fleet.delta_store import LISTINGS, Run
from chronotile.fleet.options import Options
from chronotile.fleet.run_pipeline import Job, run

if TYPE_CHECKING:
    from pathlib import Path

    from support.servers import S3Server

SPAWN = multiprocessing.get_context("spawn")
COMMITS = 6
"""Commits of a run: two to `listings`, and one to each other table that has rows here."""


def killed(root: Path, out: str, storage: dict[str, str], *more: int) -> None:
    """Publish in a process that dies at a step."""
    process = SPAWN.Process(target=publish, args=(str(root), out, storage, *more))
    process.start()
    process.join()
    assert process.exitcode == -signal.SIGKILL


def assert_as_a_plain_loop(root: Path, out: str, storage: dict[str, str]) -> None:
    """Compare each table, at its last version and as readers pin it, with all arrays read."""
    arrays = [path.parent for path in root.rglob("__schema")]
    pinned = ct.fleet_tables(out, storage_options=storage)
    for name, schema in SCHEMAS.items():
        rows = [ArrayTables(ct.open_log(one)).table(name).to_pylist() for one in arrays]
        plain = sorted(repr(row) for part in rows for row in part)
        newest = stored(f"{out}/{name}", storage)
        for table in (newest, as_read(pinned[name].to_pyarrow_table())):
            assert sorted(map(repr, table.select(schema.names).to_pylist())) == plain, name
    listed = stored(f"{out}/{LISTINGS}", storage)["array"].to_pylist()
    assert sorted(listed) == sorted(map(str, arrays))


@pytest.fixture(scope="module")
def maker(tmp_path_factory: pytest.TempPathFactory) -> FleetMaker:
    return FleetMaker(make_template(tmp_path_factory.mktemp("template") / "array"))


@pytest.fixture
def root(maker: FleetMaker, tmp_path: Path) -> Path:
    root = tmp_path / "root"
    for number in range(6):
        maker.array(root / f"array-{number}", 8, seed=number, deletes=1, loose=3)
    age(root)
    return root


@pytest.mark.parametrize("step", [0, 1, 3, COMMITS])
def test_a_killed_first_run_is_made_good(root: Path, tmp_path: Path, step: int) -> None:
    out = str(tmp_path / "out")
    killed(root, out, {}, step)
    if step < COMMITS:  # else the next run finds nothing to commit, and has to tell of this one
        shutil.rmtree(root / "array-0")
    publish(str(root), out, {})
    assert_as_a_plain_loop(root, out, {})


@pytest.mark.parametrize("step", range(COMMITS + 1))
def test_a_killed_later_run_is_made_good(
    maker: FleetMaker, root: Path, tmp_path: Path, step: int
) -> None:
    """Also where the arrays are, when the next run looks, as the listings say."""
    out = str(tmp_path / "out")
    publish(str(root), out, {})
    maker.array(root / "array-9", 5, seed=9, deletes=1)
    killed(root, out, {}, step)
    shutil.rmtree(root / "array-9")
    publish(str(root), out, {})
    assert_as_a_plain_loop(root, out, {})


@pytest.mark.parametrize("step", [0, 1, 3, COMMITS - 1])
def test_a_run_that_divides_the_fleet_otherwise_is_killed(
    maker: FleetMaker, root: Path, tmp_path: Path, step: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    out = str(tmp_path / "out")
    monkeypatch.setattr("chronotile.fleet.plan.part_count", lambda *_: 2)
    publish(str(root), out, {})
    killed(root, out, {}, step, 4)
    maker.commit(root / "array-3", 7, uuid="3" * 32)
    publish(str(root), out, {})
    assert_as_a_plain_loop(root, out, {})


def test_a_killed_run_in_a_bucket_is_made_good(root: Path, s3: S3Server, bucket: str) -> None:
    out = f"{bucket}/out"
    killed(root, out, s3.options, 3)
    publish(str(root), out, s3.options)
    assert_as_a_plain_loop(root, out, s3.options)


def race(root: Path, out: str, storage: dict[str, str], drivers: int) -> None:
    given = [(str(root), out, storage)] * drivers
    with ProcessPoolExecutor(drivers, mp_context=SPAWN) as pool:
        ends = [pool.submit(publish, *one) for one in given]
        problems = [one.exception() for one in ends]
        runs = [one.result() for one in ends if one.exception() is None]
    assert all(isinstance(one, ct.ChronotileError | None) for one in problems), problems
    assert set(runs) - {"overtaken"}, problems
    assert_no_row_twice_or_lost(root, out, storage)
    publish(str(root), out, storage)
    assert_as_a_plain_loop(root, out, storage)


def assert_no_row_twice_or_lost(root: Path, out: str, storage: dict[str, str]) -> None:
    arrays = stored(f"{out}/arrays", storage)["array"].to_pylist()
    assert sorted(arrays) == sorted(str(path.parent) for path in root.rglob("__schema"))


def test_drivers_that_publish_at_once(maker: FleetMaker, root: Path, tmp_path: Path) -> None:
    out = str(tmp_path / "out")
    race(root, out, {}, 3)
    for number in range(2):
        maker.commit(root / f"array-{number}", 7, uuid=f"{number}" * 32)
        race(root, out, {}, 2)


def test_drivers_that_publish_to_a_bucket_at_once(root: Path, s3: S3Server, bucket: str) -> None:
    race(root, f"{bucket}/out", s3.options, 2)


@pytest.mark.parametrize("step", range(COMMITS))
def test_a_frozen_driver_adds_nothing_when_it_wakes_up(
    maker: FleetMaker, root: Path, tmp_path: Path, step: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A later run publishes everything while the first one stands before a commit."""
    out = str(tmp_path / "out")
    publish(str(root), out, {})
    maker.commit(root / "array-1", 7, uuid="1" * 32)
    commit, steps = Run._commit, 0

    def freeze(self: Run, *given: Any) -> None:
        nonlocal steps
        steps += 1
        if steps == step + 1:
            monkeypatch.setattr(Run, "_commit", commit)
            shutil.rmtree(root / "array-1")
            assert publish(str(root), out, {}) != "overtaken"
        commit(self, *given)

    monkeypatch.setattr(Run, "_commit", freeze)
    options = Options(roots=(str(root),))
    with pytest.raises(ct.ChronotileError):
        run(None, Job(options=options, out=out, since_last=True))
    assert_as_a_plain_loop(root, out, {})
