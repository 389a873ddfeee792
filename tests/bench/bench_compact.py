"""Compact, side by side with the engine's own consolidation: time, memory, and what a read gains.

In: a folder. Out: figures. Every merge has a process of its own, on a copy of the same array; the
memory is that of the process and of all that it starts, looked at every 20 ms.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import tiledb

import chronotile as ct

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

_FIRST_MS = 1_700_000_000_000
_NO_CRASH = {"sm.query.sparse_global_order.preprocess_tile_merge": "0"}
"""Of core 2.30 (F17); ours sets the same."""
ENGINE = "import sys, tiledb; tiledb.consolidate(sys.argv[1])"
OURS = (
    "import sys, chronotile as ct; r = ct.open(sys.argv[1]).compact(quiet=0); print(len(r.hidden))"
)
PLAN = (
    "import sys, chronotile as ct\n"
    "plan = ct.open(sys.argv[1]).compact(quiet=0, dry_run=True)\n"
    "print(sum(len(one['fragments']) for one in plan.facts['batches']))"
)


def make(path: Path, fragments: int, cells: int) -> None:
    """An array of fragments that lie all over each other."""
    dimension = tiledb.Dim("d", domain=(0, 1 << 40), tile=1 << 20, dtype=np.int64)
    attributes = [tiledb.Attr("a", dtype=np.int32), tiledb.Attr("f", dtype=np.float64)]
    schema = tiledb.ArraySchema(tiledb.Domain(dimension), attrs=attributes, sparse=True)
    tiledb.Array.create(str(path), schema)
    chance = np.random.default_rng(fragments)
    ctx = tiledb.Ctx({"sm.compute_concurrency_level": "2", "sm.io_concurrency_level": "2"})
    for number in range(fragments):
        with tiledb.open(str(path), "w", timestamp=_FIRST_MS + number, ctx=ctx) as array:
            columns = {
                "a": chance.integers(0, 1 << 30, cells).astype(np.int32),
                "f": chance.random(cells),
            }
            array[chance.integers(0, 1 << 40, cells)] = columns


def measured(code: str, path: Path) -> tuple[float, float, str]:
    """Run code on an array; give seconds, bytes of memory at most, and what it printed."""
    begin, most = time.perf_counter(), 0
    with subprocess.Popen(
        [sys.executable, "-c", code, str(path)], stdout=subprocess.PIPE, text=True
    ) as process:
        while process.poll() is None:
            most = max(most, sum(_resident(pid) for pid in _tree(process.pid)))
            time.sleep(0.02)
        spent = time.perf_counter() - begin
        assert process.stdout is not None
        if process.returncode:
            raise RuntimeError(f"{code!r} ended with {process.returncode}")
        return spent, most, process.stdout.read().strip()


def _tree(pid: int) -> Iterator[int]:
    yield pid
    with suppress(OSError):
        for task in Path(f"/proc/{pid}/task").iterdir():
            for child in (task / "children").read_text().split():
                yield from _tree(int(child))


def _resident(pid: int) -> int:
    with suppress(OSError):
        return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * 4096
    return 0


def read_all(path: Path) -> float:
    """Seconds of an open and a read of all cells, the best of three."""
    best = float("inf")
    for _ in range(3):
        ctx = tiledb.Ctx(_NO_CRASH)
        begin = time.perf_counter()
        with tiledb.open(str(path), ctx=ctx) as array:
            array[:]
        best = min(best, time.perf_counter() - begin)
    return best


def compact(folder: Path, rounds: int, say: Callable[..., None]) -> None:
    """Measure merges, reads and plans."""
    make(folder / "large", 200, 50_000)
    spent: dict[str, list[tuple[float, float]]] = {ENGINE: [], OURS: []}
    for _ in range(max(1, min(rounds, 3))):
        for code, figures in spent.items():
            shutil.copytree(folder / "large", folder / "copy")
            seconds, most, _ = measured(code, folder / "copy")
            figures.append((seconds, most))
            shutil.rmtree(folder / "copy")
    (engine_s, engine_bytes), (ours_s, ours_bytes) = (
        (min(s for s, _ in found), min(m for _, m in found)) for found in spent.values()
    )
    say(
        "200 fragments of 50,000 cells, merged and compared",
        "1.5 times the time, a fifth of the memory",
        engine_s=engine_s,
        ours_s=ours_s,
        times=ours_s / engine_s,
        engine_mb=engine_bytes / 1e6,
        ours_mb=ours_bytes / 1e6,
        memory_share=ours_bytes / engine_bytes,
    )
    shutil.rmtree(folder / "large")
    make(folder / "small", 2000, 100)
    before = read_all(folder / "small")
    spent_s, _, _ = measured(OURS, folder / "small")
    after = read_all(folder / "small")
    ct.open(str(folder / "small")).vacuum("fragments")
    vacuumed = read_all(folder / "small")
    say(
        "2,000 fragments of 100 cells: open and read all",
        "20 times as fast",
        before_s=before,
        after_s=after,
        times_faster=before / after,
        vacuumed_s=vacuumed,
        times_faster_vacuumed=before / vacuumed,
        compact_s=spent_s,
    )
    shutil.rmtree(folder / "small")
    many = folder / "many"
    make(many, 1, 100)
    (first,) = (many / "__fragments").iterdir()
    for number in range(1, 100_000):
        at = _FIRST_MS + number
        name = f"__{at}_{at}_{number:032x}_22"
        if number % 50_000 == 0:  # some disks give a file no more than 65,000 names
            first = shutil.copytree(first, many / "__fragments" / name)
        else:
            (many / "__fragments" / name).mkdir()
            for file in first.iterdir():
                (many / "__fragments" / name / file.name).hardlink_to(file)
        (many / "__commits" / f"{name}.wrt").touch()
    seconds, most, printed = measured(PLAN, many)
    assert printed == "100000"
    say("the plan of 100,000 fragments", "10 s, 500 MB", seconds=seconds, mb=most / 1e6)
    shutil.rmtree(many)


if __name__ == "__main__":
    import tempfile

    with tempfile.TemporaryDirectory() as place:
        compact(Path(place), 1, lambda work, aim, **found: print(work, aim, found, flush=True))
