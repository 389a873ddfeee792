"""The memory that a task takes to read an array of a million commits: part of `make bench-spark`.

In: a number of commits, on the command line. Out: figures on standard output. Makes an array with
all commits in one `.con`, without the engine, once with and once without the fragments' folders. A
process of its own reads all tables, batch by batch, as a Python worker of Spark does.
"""

from __future__ import annotations

import argparse
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from support.large_arrays import make_large_array

from chronotile.fleet.array_tables import SCHEMAS
from chronotile.fleet.flat_listing import to_be_listed
from chronotile.fleet.options import Options
from chronotile.fleet.read_share import read_share
from chronotile.fleet.shares import shares


def read(array: str) -> None:
    """Read all tables of one array, and print the peak resident memory of this process."""
    began, rows = time.perf_counter(), 0
    (share,) = shares(to_be_listed([array]))
    for name in SCHEMAS:
        rows += sum(len(batch) for batch in read_share(share, Options(table=name)))
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(f"{rows:,} rows of {len(SCHEMAS)} tables: {peak:.0f} MB at most, ", end="")
    print(f"{time.perf_counter() - began:.1f} s")


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--commits", type=int, default=1_000_000)
    parser.add_argument("--read", metavar="ARRAY", help="only read this array, in this process")
    chosen = parser.parse_args()
    if chosen.read is not None:
        read(chosen.read)
        return
    for folders, words in ((True, "its fragments there"), (False, "its fragments lost")):
        with tempfile.TemporaryDirectory(prefix="bench-large-") as root:
            make_large_array(Path(root, "array"), chosen.commits, cons=1, folders=folders)
            print(f"{chosen.commits:,} commits, {words}: ", end="", flush=True)
            command = [sys.executable, "-m", "bench.bench_large", "--read", f"{root}/array"]
            subprocess.run(command, check=True)


if __name__ == "__main__":
    main()
