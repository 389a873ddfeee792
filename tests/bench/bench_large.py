"""What a task takes to read a very large array: part of `make bench-spark`.

In: numbers of commits, on the command line. Out: memory and seconds on standard output. Makes one
array with so many commits in four `.con` files, without the engine, and lets real jobs of Spark
read it: each table of the data source, and the pipeline. The memory is the largest resident set of
any Python worker of the job, with all that Python, numpy, Arrow and Spark need by themselves; a job
that reads a tiny array tells how much that is.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
import threading
import time
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Self

from support.large_arrays import make_large_array

from chronotile.spark import register
from chronotile.spark.pipeline.run_pipeline import Job, run
from chronotile.spark.session import session
from chronotile.spark.source.options import Options
from chronotile.tables.array_tables import SCHEMAS

if TYPE_CHECKING:
    from collections.abc import Iterator

MB = 1 << 20
_EVERY_S = 0.02


class Workers:
    """The Python processes below this one, and the largest memory that one of them had."""

    def __init__(self) -> None:
        self.peak = 0
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)

    def _watch(self) -> None:
        while not self._stop.wait(_EVERY_S):
            self.peak = max([self.peak, *map(_peak_of, descendants(os.getpid()))])

    def __enter__(self) -> Self:
        # What a worker had at most before belongs to an earlier job.
        for pid in descendants(os.getpid()):
            _reset(pid)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()


def descendants(root: int) -> list[int]:
    """The Python processes that a process has started, at any depth."""
    parents: dict[int, list[int]] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            with_stat = _read(entry / "stat").rpartition(")")[2].split()
            if len(with_stat) > 1:
                parents.setdefault(int(with_stat[1]), []).append(int(entry.name))
    found, waiting = [], list(parents.get(root, []))
    while waiting:
        pid = waiting.pop()
        waiting += parents.get(pid, [])
        if _read(Path(f"/proc/{pid}/comm")).startswith("python"):
            found.append(pid)
    return found


def _read(path: Path) -> str:
    try:
        return path.read_text()
    except OSError:
        return ""


def _peak_of(pid: int) -> int:
    for line in _read(Path(f"/proc/{pid}/status")).splitlines():
        if line.startswith("VmHWM"):
            return int(line.split()[1]) * 1024
    return 0


def _reset(pid: int) -> None:
    try:
        Path(f"/proc/{pid}/clear_refs").write_text("5")
    except OSError:
        return


@contextmanager
def measured(words: str) -> Iterator[None]:
    """Prints what a job took."""
    began = time.perf_counter()
    with Workers() as workers:
        yield
    seconds = time.perf_counter() - began
    print(f"{words:<40}{workers.peak / MB:7.0f} MB{seconds:9.1f} s", flush=True)


def measure(root: Path, commits: int) -> None:
    """Reads one array in every way."""
    array, empty = root / f"array-{commits}", root / "empty"
    began = time.perf_counter()
    make_large_array(array, commits)
    print(f"{commits:,} commits, made in {time.perf_counter() - began:.0f} s", flush=True)
    make_large_array(empty / f"of-{commits}", 1)
    with session("local[2]", {"spark.driver.memory": "1g"}) as spark:
        register(spark)
        for words, place in (
            ("nothing but Python and Spark", empty),
            *((n, array) for n in SCHEMAS),
        ):
            table = words if words in SCHEMAS else "commits"
            with measured(words):
                frame = spark.read.format("chronotile").option("table", table).load(str(place))
                rows = frame.count()
            print(f"{'':<40}{rows:,} rows")
        with measured("pipeline, all tables"):
            summary = run(spark, Job(options=Options(roots=(str(array),)), out=str(root / "out")))
        assert summary.totals.commits == commits + 4, summary


def main() -> None:
    """Measures and prints."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--commits", type=int, nargs="+", default=[1_000_000, 10_000_000])
    chosen = parser.parse_args()
    os.environ["PYSPARK_PYTHON"] = sys.executable
    for commits in chosen.commits:
        with tempfile.TemporaryDirectory(prefix="bench-large-") as folder:
            measure(Path(folder), commits)


if __name__ == "__main__":
    main()
