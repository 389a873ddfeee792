"""The benchmark of streams: a part of `make bench-spark`.

In: sizes, on the command line. Out: times on standard output, for the README. Makes a fleet, lets a
real query of Spark read all of it, and takes from the query's own progress how long a trigger takes
that finds nothing new. Then, without Spark, how long a look takes at arrays with few commits and
with many, of which half are files of their own: it should not matter.
"""

from __future__ import annotations

import argparse
import os
import tempfile
import time
from pathlib import Path

from support.fleets import FleetMaker, make_fleet, make_template

from chronotile.fleet.options import read_options
from chronotile.fleet.session import session
from chronotile.fleet.stream import Watch

LONG_AGO = 1_600_000_000
IDLE = 6
"""Idle triggers to measure."""


def make_old(root: Path) -> None:
    """Of a folder that was changed just now nobody knows whether it will change again."""
    for folder, _, files in os.walk(root):
        for name in (*files, "."):
            os.utime(Path(folder, name), (LONG_AGO, LONG_AGO))


def idle_triggers(root: Path, folder: Path) -> tuple[float, list[float]]:
    """Seconds of the batch that reads everything, and of the triggers after it."""
    with session("local[2]", {"spark.sql.streaming.noDataProgressEventInterval": "0"}) as spark:
        reader = spark.readStream.format("chronotile").option("state", str(folder / "state"))
        query = (
            reader.load(str(root))
            .writeStream.format("noop")
            .option("checkpointLocation", str(folder / "checkpoint"))
            .trigger(processingTime="2 seconds")
            .start()
        )
        first: float = 0.0
        idle: list[float] = []
        while len(idle) < IDLE:
            time.sleep(1)
            if query.exception() is not None:
                raise RuntimeError(str(query.exception()))
            done = [p for p in query.recentProgress if "triggerExecution" in p.durationMs]
            first = sum(p.durationMs["triggerExecution"] for p in done if p.numInputRows) / 1000
            idle = [p.durationMs["triggerExecution"] / 1000 for p in done if not p.numInputRows]
        query.stop()
    return first, idle


def look_s(root: Path) -> float:
    """Seconds of a look at a fleet that has not changed: the best of three."""
    watch = Watch(read_options({"path": str(root), "state": str(root)}, streaming=True))
    watch.look()
    times = []
    for _ in range(3):
        began = time.perf_counter()
        watch.look()
        times.append(time.perf_counter() - began)
    return min(times)


def main() -> None:
    """Measures and prints."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--arrays", type=int, default=10_000)
    parser.add_argument("--commits", type=int, default=10)
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        make_fleet(folder / "root", asked.arrays, asked.commits)
        make_old(folder / "root")
        first, idle = idle_triggers(folder / "root", folder)
        print(f"stream of {asked.arrays} arrays: all read in {first:.1f} s")
        print(f"an idle trigger: {min(idle):.2f} to {max(idle):.2f} s")
        for commits in (10, 1000):
            root = folder / f"of-{commits}"
            maker = FleetMaker(make_template(folder / f"template-{commits}"))
            for number in range(100):
                name = root / f"array-{number}"
                maker.array(name, commits, seed=number, loose=commits // 2)
            make_old(root)
            print(f"a look at 100 arrays of {commits} commits: {look_s(root) * 1000:.1f} ms")


if __name__ == "__main__":
    main()
