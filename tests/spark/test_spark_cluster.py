"""The pipeline on more than one process: what happens to one of them changes nothing."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pyarrow as pa
from support.engine_arrays import EngineArray
from support.fleets import make_fleet
from support.stored_tables import stored

import chronotile as ct
from chronotile.fleet.array_tables import SCHEMAS, ArrayTables
from chronotile.fleet.find_arrays import find_arrays

SCRIPT = Path(__file__).parents[1] / "support" / "spark_on_cluster.py"


def run_on_cluster(what: str, tmp_path: Path, root: Path, out: Path) -> Any:
    environment = {
        name: value for name, value in os.environ.items() if not name.lower().endswith("_proxy")
    }
    environment |= {
        "PYSPARK_PYTHON": sys.executable,
        "SPARK_LOCAL_IP": "127.0.0.1",
        "SPARK_WORKER_DIR": str(tmp_path / "workers"),
        "SPARK_LOCAL_DIRS": str(tmp_path / "spill"),
    }
    done = subprocess.run(
        [sys.executable, str(SCRIPT), what, str(root), str(out)],
        env=environment,
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    return json.loads(done.stdout.splitlines()[-1])


def check_tables(out: Path, logs: list[ct.Log]) -> None:
    for name in SCHEMAS:
        expected = pa.concat_tables([ArrayTables(log).table(name) for log in logs])
        assert _sorted(stored(out / name).select(SCHEMAS[name].names)) == _sorted(expected)


def _sorted(table: pa.Table) -> list[str]:
    return sorted(map(repr, table.to_pylist()))


def test_a_killed_executor_costs_time_and_nothing_else(tmp_path: Path) -> None:
    root, out = tmp_path / "fleet", tmp_path / "out"
    make_fleet(root, arrays=80, commits=400)
    told = run_on_cluster("kill", tmp_path, root, out)
    assert len(told["before"]) == 2
    assert told["killed"] == [min(told["before"])]
    assert told["killed"][0] not in told["after"]
    logs = [ct.open_log(uri) for uri in find_arrays(str(root)).uris]
    assert told["arrays"] == told["arrays_read"] == len(logs) == 80
    check_tables(out, logs)


def test_a_frozen_executor_that_wakes_up_writes_into_no_published_run(tmp_path: Path) -> None:
    root, out = tmp_path / "fleet", tmp_path / "out"
    make_fleet(root, arrays=12, commits=20)
    told = run_on_cluster("freeze", tmp_path, root, out)
    assert told["late"], "it did go on, and wrote"
    assert all((out / path).exists() for path in told["late"])
    assert told["files_after"] == told["files"]
    logs = [ct.open_log(uri) for uri in find_arrays(str(root)).uris]
    assert told["arrays"] == len(logs) == 12
    check_tables(out, logs)


def test_an_array_that_kills_its_readers_stops_nobody(tmp_path: Path) -> None:
    root, out = tmp_path / "fleet", tmp_path / "out"
    make_fleet(root, arrays=40, commits=20)
    told = run_on_cluster("poison", tmp_path, root, out)
    assert (told["arrays"], told["arrays_read"], told["arrays_unreadable"]) == (40, 39, 1)
    (row,) = (r for r in stored(out / "arrays").to_pylist() if r["commits"] is None)
    assert row["array"].endswith("array-00007")
    found = stored(out / "findings").to_pylist()
    (finding,) = (f for f in found if f["array"] == row["array"])
    assert finding["code"] == "unreadable"
    assert "was killed" in finding["message"]
    rest = [uri for uri in find_arrays(str(root)).uris if uri != row["array"]]
    logs = [ct.open_log(uri) for uri in rest]
    assert stored(out / "commits").num_rows == sum(len(log.commits()) for log in logs)


def test_executors_without_the_engine_say_how_to_get_it(tmp_path: Path) -> None:
    array = EngineArray(tmp_path / "root" / "array").create()
    array.write(10, {1: 1, 2: 2})
    told = run_on_cluster("engineless", tmp_path, tmp_path / "root", tmp_path / "blocked")
    assert told["driver"], "the driver has it"
    assert told["commits"] == 1, "what needs no engine is read there"
    assert "pip install 'chronotile[engine]'" in told["error"]
    assert "NoEngineError" in told["error"]
