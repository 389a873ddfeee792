"""The benchmark of the pipeline: `make bench-spark`.

In: sizes, on the command line. Out: times on standard output, for the README. Makes a fleet that
the engine opens, and compares, on the same machine and in the same run:

- the loop that a user would write today: the engine opens every array, in two processes. It tells
  the schema and the domain, and no commit; so a second loop asks for the fragments as well, on
  every tenth array, and is scaled up. Deletes it cannot tell at all.
- the pipeline on one and on two cores: all tables, findings among them, written as Parquet. The
  start of the JVM and of its workers is not counted: a small run comes before.
- the same again, when nothing has changed.

Everything is timed in turn, the two runs of the pipeline in either order, in three rounds; the
best time of each counts.
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
import shutil
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from support.fleets import FleetMaker, make_template

from chronotile.fleet.find_arrays import find_arrays
from chronotile.fleet.options import Options
from chronotile.fleet.run_pipeline import Job, run
from chronotile.fleet.session import session

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

SAMPLE = 10
"""The loop that asks for fragments is run on one array in so many."""
AGAIN = 3
"""Runs with nothing changed after each first one; the best of them counts."""


def make_part(root: str, numbers: range, commits: int) -> None:
    """Makes some arrays of the fleet: every tenth has deletes."""
    first = numbers[0]
    maker = FleetMaker(make_template(Path(root).parent / f"template-{first}"))
    for number in numbers:
        folder = Path(root) / f"part-{first}" / f"group-{number // 100:03d}" / f"a-{number:05d}"
        maker.array(folder, commits, seed=number, deletes=0 if number % 10 else commits // 20)


def open_arrays(uris: list[str]) -> int:
    """The engine opens every array."""
    import tiledb

    seen = 0
    for uri in uris:
        with tiledb.open(uri) as array:
            seen += int(array.schema.sparse) + int(array.nonempty_domain() is not None)
    return seen


def list_fragments(uris: list[str]) -> int:
    """The engine opens every array and tells its fragments."""
    import tiledb

    found: list[Any] = []
    for uri in uris:
        with tiledb.open(uri) as array:
            found.append(array.schema.sparse)
        fragments = tiledb.FragmentInfoList(uri)
        found += [(one.uri, one.timestamp_range, one.version) for one in fragments]
    return len(found)


def in_two_processes(work: Callable[[list[str]], int], uris: Iterable[str]) -> float:
    """The time of a loop over half of the arrays in each of two processes."""
    wanted = list(uris)
    with multiprocessing.get_context("spawn").Pool(2) as pool:
        pool.map(work, [[], []], chunksize=1)  # starts both, and loads the engine
        began = time.perf_counter()
        pool.map(work, [wanted[::2], wanted[1::2]], chunksize=1)
        return time.perf_counter() - began


def pipeline_s(root: str, out: Path, cores: int) -> tuple[float, float, dict[str, Any]]:
    """The time of a run on so many cores, and of one with nothing changed; and the summary."""
    with session(f"local[{cores}]", {"spark.driver.memory": "1g"}) as spark:
        small = find_arrays(root).uris[: 8 * cores]
        run(spark, Job(options=Options(roots=small), out=str(out / "warm")))
        job = Job(options=Options(roots=(root,)), out=str(out / str(cores)), since_last=True)
        shutil.rmtree(job.out, ignore_errors=True)
        began = time.perf_counter()
        summary = run(spark, job)
        first = time.perf_counter() - began
        again = []
        for _ in range(AGAIN):
            # Else the run would wait for the disk to write what others have left.
            os.sync()
            began = time.perf_counter()
            assert run(spark, job).unchanged == summary.totals.arrays
            again.append(time.perf_counter() - began)
        return first, min(again), summary.to_json()


def main() -> None:
    parser = argparse.ArgumentParser(description="The benchmark of the pipeline.")
    parser.add_argument("--arrays", type=int, default=2_000)
    parser.add_argument("--commits", type=int, default=1_000)
    parser.add_argument("--folder", type=Path, help="for the fleet; kept, and used again")
    parser.add_argument("--rounds", type=int, default=3)
    chosen = parser.parse_args()
    folder = chosen.folder or Path(tempfile.mkdtemp(prefix="bench-spark-"))
    root, halves = folder / "fleet", (0, chosen.arrays // 2, chosen.arrays)
    os.environ["PYSPARK_PYTHON"] = sys.executable
    try:
        if not root.exists():
            root.mkdir(parents=True)
            began = time.perf_counter()
            with multiprocessing.get_context("spawn").Pool(2) as pool:
                parts = [range(halves[n], halves[n + 1]) for n in (0, 1)]
                pool.starmap(make_part, [(str(root), part, chosen.commits) for part in parts])
            print(f"fleet made in {time.perf_counter() - began:.0f} s", flush=True)
        began = time.perf_counter()
        uris = find_arrays(str(root)).uris
        print(f"{len(uris):,} arrays found in {time.perf_counter() - began:.1f} s", flush=True)
        measure(str(root), uris, folder, chosen.rounds)
    finally:
        if chosen.folder is None:
            shutil.rmtree(folder)


def measure(root: str, uris: tuple[str, ...], folder: Path, rounds: int) -> None:
    """Times everything, so many times in turn; the best of each counts."""
    best: dict[str, float] = {}

    def timed(words: str, seconds: float) -> None:
        print(f"{words:<50}{seconds:8.1f} s", flush=True)
        best[words] = min(seconds, best.get(words, seconds))

    opens, facts = "engine opens every array", "engine also lists the fragments (1 in 10, x 10)"
    two, one = "pipeline, all tables, 2 cores", "pipeline, all tables, 1 core"
    again = "pipeline, nothing changed, 2 cores"
    for number in range(rounds):
        os.sync()  # what making the fleet, or the last round, left to be written
        timed(opens, in_two_processes(open_arrays, uris))
        for words, cores in ((two, 2), (one, 1)) if number % 2 else ((one, 1), (two, 2)):
            seconds, again_s, told = pipeline_s(root, folder / "out", cores)
            timed(words, seconds)
            if cores == 2:
                timed(again, again_s)
        if number == 0:
            timed(facts, SAMPLE * in_two_processes(list_fragments, uris[::SAMPLE]))
    print(f"{told['commits']:,} commits, {told['reads']:,} reads of {told['files_read']:,} files")
    print(f"2 cores against the engine's opens:  {best[opens] / best[two]:.1f} times as fast")
    print(f"2 cores against opens and fragments: {best[facts] / best[two]:.1f} times as fast")
    print(f"nothing changed against the first:   {best[two] / best[again]:.1f} times as fast")
    print(f"2 cores against 1:                   {best[one] / best[two]:.2f} times as fast")


if __name__ == "__main__":
    main()
