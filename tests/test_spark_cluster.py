"""The pipeline on more than one process: a lost executor changes nothing."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
from fleets import make_fleet

import chronotile as ct
from chronotile.discovery import find_arrays
from chronotile.spark.rows import SCHEMAS, Rows

SCRIPT = Path(__file__).with_name("spark_on_cluster.py")


def test_a_killed_executor_costs_time_and_nothing_else(tmp_path: Path) -> None:
    root, out = tmp_path / "fleet", tmp_path / "out"
    make_fleet(root, arrays=80, commits=400)
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
        [sys.executable, str(SCRIPT), str(root), str(out)],
        env=environment,
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    told = json.loads(done.stdout.splitlines()[-1])
    assert len(told["before"]) == 2
    assert told["killed"] == [min(told["before"])]
    assert told["killed"][0] not in told["after"]
    logs = [ct.open_log(uri) for uri in find_arrays(str(root)).uris]
    assert told["arrays"] == told["arrays_read"] == len(logs) == 80
    for name in SCHEMAS:
        expected = pa.concat_tables([Rows(log).table(name) for log in logs])
        found = pq.read_table(out / name)
        assert _sorted(found) == _sorted(expected)


def _sorted(table: pa.Table) -> list[str]:
    return sorted(map(repr, table.to_pylist()))
