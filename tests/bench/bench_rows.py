"""Rows, side by side with the engine's own Arrow read: time, and memory with and without updates.

In: a folder. Out: figures. The array has ten writes of a million rows each, in fragments that lie
side by side; a copy of it has ten updates, each of which changes some 5,000 rows. Updates are
right, and need not be fast: each of them looks at all rows.
"""

from __future__ import annotations

import gc
import re
import shutil
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import tiledb
from tiledb.main import PyQuery

import chronotile as ct
from chronotile.rows.read_rows import open_rows

if TYPE_CHECKING:
    from collections.abc import Callable

ROWS = 10_000_000
WRITES = 10
UPDATES = 10
_NO_CRASH = {"sm.query.sparse_global_order.preprocess_tile_merge": "0"}
"""Of core 2.30 (F17); ours sets the same."""


def make(folder: Path) -> tuple[Path, Path]:
    """The array, and its copy with updates."""
    plain, updated = folder / "rows", folder / "updated"
    dimension = tiledb.Dim("id", domain=(0, ROWS), tile=100_000, dtype=np.int64)
    attributes = [tiledb.Attr("a", dtype=np.int32), tiledb.Attr("f", dtype=np.float64)]
    schema = tiledb.ArraySchema(
        tiledb.Domain(dimension), attrs=attributes, sparse=True, capacity=100_000
    )
    tiledb.Array.create(str(plain), schema)
    chance = np.random.default_rng(1)
    for number in range(WRITES):
        ids = np.arange(number * ROWS // WRITES, (number + 1) * ROWS // WRITES)
        with tiledb.open(str(plain), "w", timestamp=10 + number) as array:
            values = chance.integers(0, 1000, len(ids)).astype(np.int32)
            array[ids] = {"a": values, "f": chance.random(len(ids))}
    shutil.copytree(plain, updated)
    for number in range(UPDATES):
        where, new = f"a == {number * 7} and id < {ROWS // 2}", {"f": float(number)}
        ct.write_update(str(updated), where, new, timestamp=100 + number, experimental=True)
    return plain, updated


def engine_rows(path: Path) -> int:
    """The engine's own Arrow read, batch by batch."""
    count = 0
    with tiledb.open(str(path), timestamp=(0, 1000), ctx=tiledb.Ctx(_NO_CRASH)) as array:
        names = tuple(array.attr(at).name for at in range(array.nattr))
        query = PyQuery(array.ctx, array, names, ("id",), 3, True)
        query._return_incomplete = True
        while True:
            query.submit()
            count += len(query._buffers_to_pa_table())
            if not query.is_incomplete:
                return count


def our_rows(path: Path) -> int:
    return sum(len(batch) for batch in open_rows(str(path), end=1000).batches())


def rows(folder: Path, rounds: int, say: Callable[..., None]) -> None:
    """Reading 10,000,000 rows."""
    plain, updated = make(folder)
    works: tuple[Callable[[], int], ...] = (lambda: engine_rows(plain), lambda: our_rows(plain))
    best = [float("inf")] * len(works)
    for _ in range(rounds):
        for at, work in enumerate(works):
            gc.collect()
            begin = time.perf_counter()
            assert work() == ROWS
            best[at] = min(best[at], time.perf_counter() - begin)
    engine, ours = best
    say(
        f"read {ROWS:,} rows, no updates in force",
        "0.8 of the engine's speed",
        ours_s=ours,
        engine_s=engine,
        times=engine / ours,
    )
    say(
        f"peak memory for {ROWS:,} rows, without updates and with {UPDATES}",
        "bounded",
        MiB=max(map(peak, (plain, updated))),
    )


def peak(path: Path) -> float:
    """MiB that a process of its own takes at most to read an array."""
    code = f"from bench.bench_rows import *; our_rows({str(path)!r}); print(usage())"
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=600
    )
    return float(done.stdout)


def usage() -> float:
    """MiB at most, by the kernel's own mark: what getrusage says starts from the parent's peak."""
    (peak_kib,) = re.findall(r"VmHWM:\s+(\d+)", Path("/proc/self/status").read_text())
    return int(peak_kib) / 1024
