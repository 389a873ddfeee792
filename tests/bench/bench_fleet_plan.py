"""What planning and publishing a large fleet cost the driver: part of `make bench-spark`.

In: numbers of arrays, on the command line. Out: seconds and memory on standard output. Makes an
inventory of so many small arrays, 8 objects each, and plans a run by it, on two cores; no object
is there, and none is read. The memory is that of the driver's Python process, at its largest, less
what it had before. Then it publishes a run of 4,096 parts, and one in which nothing has changed.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

ARRAYS_IN_FILE = 20_000
_NAME = "__1700000000000_1700000000000_00112233445566778899aabbccddeeff"
KEYS = (
    f"__schema/{_NAME}",
    f"__commits/{_NAME}_22.wrt",
    f"__commits/{_NAME}_22.con",
    *(f"__fragments/{_NAME}_22/{name}" for name in ("__fragment_metadata.tdb", "a0.tdb", "d0.tdb")),
    f"__fragment_meta/{_NAME}_22.meta",
    f"__meta/{_NAME}",
)


def make_inventory(folder: Path, arrays: int) -> Path:
    """Writes an inventory as S3 would, on a disk; gives its manifest."""
    files = []
    for first in range(0, arrays, ARRAYS_IN_FILE):
        numbers = range(first, min(first + ARRAYS_IN_FILE, arrays))
        roots = pa.array([f"group-{n // 1000:05d}/array-{n:08d}/" for n in numbers])
        keys = [pc.binary_join_element_wise(roots, key, "") for key in KEYS]
        table = pa.table({"key": pa.chunked_array(keys)})
        rows = len(table)
        table = table.append_column("size", pa.repeat(7, rows))
        table = table.append_column("e_tag", pa.repeat("00112233445566778899aabbccddeeff", rows))
        path = folder / f"{first}.parquet"
        pq.write_table(table, path, compression="snappy")
        files.append({"key": path.name, "size": path.stat().st_size})
    manifest = folder / "manifest.json"
    words = {"sourceBucket": "lake", "destinationBucket": "arn:aws:s3:::home", "files": files}
    words |= {"creationTimestamp": "1700000000000", "fileFormat": "Parquet", "fileSchema": ""}
    manifest.write_text(json.dumps(words))
    return manifest


def plan(manifest: str) -> None:
    """Plans a run, and prints what it took."""
    from chronotile.fleet.delta_store import Run, open_output
    from chronotile.fleet.options import Options
    from chronotile.fleet.plan import plan_fleet, results_of
    from chronotile.fleet.session import session
    from chronotile.fleet.surviving_tasks import run_job

    out = f"{Path(manifest).parent}/out"
    with session("local[2]", {"spark.driver.memory": "1g"}) as spark:
        run = Run(output=open_output(out, {}), name="1-bench")
        run_job(spark, [0, 1], lambda *_: None, results_of(run), work=str)  # starts workers
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        began = time.perf_counter()
        made = plan_fleet(spark, Options(inventory=manifest), run, None, lambda *_: None)
        seconds = time.perf_counter() - began
        grown = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1024
    print(
        f"{made.arrays:,} arrays by an inventory: planned in {seconds:.1f} s, "
        f"{len(made.shares):,} shares, driver + {grown:.1f} MB",
        flush=True,
    )


def publish(out: Path, parts: int) -> None:
    """Commits tables of so many parts, then a run without a change, and prints what that took."""
    from chronotile.fleet.delta_store import STORED, DataFile, new_run, open_output

    output = open_output(str(out), {})
    rows = json.dumps({"numRecords": 1, "minValues": {}, "maxValues": {}, "nullCount": {}})
    files = [
        DataFile(table, f"bucket={n}/x.parquet", 1000, n, rows)
        for table in STORED
        for n in range(parts)
    ]
    new_run(output, output.snapshot()).commit(
        files, replaced=frozenset(range(parts)), part_count=parts
    )
    before = sorted(out.rglob("*"))
    took = []
    for _ in range(3):
        began = time.perf_counter()
        run = new_run(output, output.snapshot())
        assert run.commit((), replaced=frozenset(), part_count=parts) == {}
        run.end()
        took.append(time.perf_counter() - began)
    assert sorted(out.rglob("*")) == before
    print(f"{parts:,} parts, nothing changed: published in {min(took):.2f} s, nothing written")


def main() -> None:
    parser = argparse.ArgumentParser(description="What planning a large fleet costs the driver.")
    parser.add_argument("--arrays", type=int, nargs="+", default=[100_000, 1_000_000])
    parser.add_argument("--plan", metavar="MANIFEST", help="plan by this inventory, and end")
    chosen = parser.parse_args()
    os.environ["PYSPARK_PYTHON"] = sys.executable
    if chosen.plan:
        plan(chosen.plan)
        return
    for arrays in chosen.arrays:
        with tempfile.TemporaryDirectory(prefix="bench-plan-") as folder:
            manifest = make_inventory(Path(folder), arrays)
            # A process of its own: the largest memory of a process never shrinks.
            command = [sys.executable, "-m", "bench.bench_fleet_plan", "--plan", str(manifest)]
            subprocess.run(command, check=True)
    with tempfile.TemporaryDirectory(prefix="bench-publish-") as folder:
        publish(Path(folder, "out"), 4096)


if __name__ == "__main__":
    main()
