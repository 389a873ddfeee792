"""How fast, side by side with the engine: `make bench`.

Every comparison is made in this one run, on the same files, in turns, and the best of the rounds
counts. Each part has a process of its own: what one leaves of its memory slows the next. Nothing
here is a test: it prints a table and JSON, which --json FILE also keeps.

The arrays are made by our own writers, with a schema that the engine wrote. Fragments of so many
commits would fill the disk, and the engine refuses to open a commit without its fragment inside
the window; so both open at a window that ends before the first commit. Both then still list and
read the whole log, which is what is measured.
"""

from __future__ import annotations

import argparse
import gc
import json
import multiprocessing
import os
import platform
import random
import resource
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import tiledb
from bench import (
    bench_compact,
    bench_facts,
    bench_first_hour,
    bench_open_cost,
    bench_replicate,
    bench_rows,
)

import chronotile as ct
from chronotile.conditions import codec
from chronotile.conditions.tree import Compare, Op
from chronotile.format import commit_files, parsers, tiles

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

FIRST_MS = 1_700_000_000_000
SIZES = (1, 10_000, 100_000, 1_000_000, 10_000_000)
BEFORE = (1, 5)
"""A window before every commit."""


def make_array(path: Path) -> None:
    """A sparse array with one attribute, made by the engine."""
    dimension = tiledb.Dim("d", domain=(0, 999), tile=100, dtype=np.int32)
    attribute = tiledb.Attr("a", dtype=np.int32)
    schema = tiledb.ArraySchema(tiledb.Domain(dimension), attrs=[attribute], sparse=True)
    tiledb.Array.create(str(path), schema)


def uri(number: int, extension: str) -> str:
    when = FIRST_MS + number
    return f"__commits/__{when}_{when}_{random.randbytes(16).hex()}_22{extension}"


def put_con(path: Path, data: bytes, count: int) -> Path:
    name = f"__{FIRST_MS}_{FIRST_MS + count}_{random.randbytes(16).hex()}_22.con"
    (path / "__commits" / name).write_bytes(data)
    return path


def consolidated(path: Path, count: int) -> Path:
    make_array(path)
    lines = (f"{uri(number, '.wrt')}\n" for number in range(count))
    return put_con(path, "".join(lines).encode(), count)


def loose(path: Path, count: int) -> Path:
    make_array(path)
    for number in range(count):
        (path / uri(number, ".wrt")).touch()
    return path


def deletes(path: Path, count: int) -> Path:
    make_array(path)
    with tiledb.open(str(path), "w", timestamp=1) as array:
        array[np.arange(10, dtype=np.int32)] = np.arange(10, dtype=np.int32)

    def record(number: int) -> bytes:
        stored = Compare(field="a", op=Op.NE, value=(1000 + number).to_bytes(4, "little"))
        tile = tiles.encode(codec.encode(stored), version=22)
        return commit_files.encode_record(commit_files.ConRecord(uri(number, ".del"), tile))

    return put_con(path, b"".join(record(number) for number in range(count)), count)


def open_ours(path: Path) -> None:
    view = ct.open_log(str(path)).view(*BEFORE)
    assert len(view.fragments) == 0


def open_engine(path: Path) -> None:
    tiledb.open(str(path), timestamp=BEFORE).close()


def generated(path: Path) -> None:
    """What the parser that Kaitai generates takes for the same records, reading included."""
    (con,) = (path / "__commits").glob("*.con")
    parsers.parse(parsers.ConsolidatedCommitsSpec, con.name, con.read_bytes())


def second_view(log: ct.Log) -> None:
    view = log.view(0, FIRST_MS + 500_000)
    assert len(view.fragments) == 0, "no fragment of these has a folder"


def predicates_ours(path: Path) -> None:
    view = ct.open_log(str(path)).view()
    assert len([delete.predicate for delete in view.deletes]) == len(view.deletes) > 0


def read_engine(path: Path) -> None:
    with tiledb.open(str(path)) as array:
        assert len(array[:]["a"]) == 10


def in_turns(rounds: int, *works: Callable[[], None]) -> list[float]:
    """The best time of each work, in seconds; one after the other in each round."""
    best = [float("inf")] * len(works)
    gc.collect()
    gc.disable()  # as `timeit` does
    for _ in range(rounds):
        for at, work in enumerate(works):
            begin = time.perf_counter()
            work()
            best[at] = min(best[at], time.perf_counter() - begin)
    gc.enable()
    return best


def peak(path: Path) -> float:
    """Peak memory of an open and a view, over what the process had before, per file byte."""
    # The kernel's own mark: what getrusage says starts from the parent's peak.
    code = (
        "import re, sys, chronotile as ct\n"
        "def peak():\n"
        "    return int(re.search(r'VmHWM:\\s+(\\d+)', open('/proc/self/status').read())[1])\n"
        "len(ct.open_log(sys.argv[2]).view().fragments)\n"
        "before = peak()\n"
        "len(ct.open_log(sys.argv[1]).view(1, 5).fragments)\n"
        "print(peak() - before)\n"
    )
    small = path.parent / "empty"
    if not small.exists():
        make_array(small)
    command = [sys.executable, "-c", code, str(path), str(small)]
    grown = int(subprocess.run(command, capture_output=True, text=True, check=True).stdout) * 1024
    (con,) = (path / "__commits").glob("*.con")
    return grown / con.stat().st_size


def figures(row: dict[str, Any]) -> dict[str, float]:
    """What was measured, without the words."""
    return {name: value for name, value in row.items() if name not in ("work", "aim")}


PARTS = ("log", "facts", "open-cost", "first-hour", "rows", "compact", "replicate")
"""What can be measured by itself."""


def run(folder: Path, rounds: int, most: int, parts: Sequence[str]) -> list[dict[str, Any]]:
    """Measures some parts, each in a process of its own."""
    rows: list[dict[str, Any]] = []
    for part in parts:
        with ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as pool:
            rows += pool.submit(run_part, folder, rounds, most, part).result()
    return rows


def run_part(folder: Path, rounds: int, most: int, part: str) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = []

    def say(work: str, aim: str, **measured: float) -> None:
        rows.append({"work": work, "aim": aim, **measured})
        print(f"{work}: done", file=sys.stderr, flush=True)

    if part == "log":
        whole_log(folder, rounds, most, say)
    if part == "facts":
        bench_facts.on_disk(folder, rounds, say, in_turns)
        bench_facts.in_bucket(folder, say)
    if part == "open-cost":
        bench_open_cost.making(folder, rounds, say)
        bench_open_cost.requests(folder, say)
    if part == "first-hour":
        bench_first_hour.history(consolidated(folder / "long", 100_000), say)
        bench_first_hour.fleet(folder, say)
    if part == "rows":
        bench_rows.rows(folder, rounds, say)
    if part == "compact":
        bench_compact.compact(folder, rounds, say)
    if part == "replicate":
        bench_replicate.folder_of_arrays(folder, say)
    peak_mib = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss >> 10
    print(f"{part}: peak of its process {peak_mib} MiB", file=sys.stderr, flush=True)
    return rows


def whole_log(folder: Path, rounds: int, most: int, say: Callable[..., None]) -> None:
    """Opening, writing and decoding logs of very many commits."""
    million = consolidated(folder / "million", 1_000_000)
    ours, engine, parser = in_turns(
        rounds,
        lambda: open_ours(million),
        lambda: open_engine(million),
        lambda: generated(million),
    )
    say(
        "open a .con of 1,000,000 commits",
        "10 times the engine",
        ours_s=ours,
        engine_s=engine,
        times=engine / ours,
    )
    say("the same, the generated parser", "40 times", parser_s=parser, times=parser / ours)
    log = ct.open_log(str(million))
    log.view(*BEFORE)
    (view,) = in_turns(rounds, partial(second_view, log))
    say("a second view of 1,000,000 commits", "under 30 ms", ms=view * 1000)
    del log

    many = loose(folder / "loose", 100_000)
    ours, engine = in_turns(rounds, lambda: open_ours(many), lambda: open_engine(many))
    say(
        "open 100,000 loose commits",
        "3 times the engine",
        ours_s=ours,
        engine_s=engine,
        times=engine / ours,
    )

    gone = deletes(folder / "deletes", 50_000)
    ours, engine = in_turns(rounds, lambda: predicates_ours(gone), lambda: read_engine(gone))
    say(
        "open and decode 50,000 deletes",
        "as fast as the engine's open and read",
        ours_s=ours,
        engine_s=engine,
        times=engine / ours,
    )

    loose_one = million / uri(1_000_000, ".wrt")
    loose_one.touch()
    write(million, rounds, say, 1_000_001)
    loose_one.unlink()
    write(many, rounds, say, 100_000)
    sizes = [count for count in SIZES if count <= most]
    paths = {
        count: million if count == 1_000_000 else consolidated(folder / f"{count}", count)
        for count in sizes
    }
    best = dict.fromkeys(sizes, float("inf"))
    for _ in range(rounds):
        for count, path in paths.items():
            # About as long for each, or the small ones would have few tries, and cold ones.
            times = min(max(3, 1_000_000 // count), 50)
            (ours,) = in_turns(times, partial(open_ours, path))
            best[count] = min(best[count], ours)
    fixed = best.pop(1)
    say("open an array with one commit", "what every array costs", ms=fixed * 1000)
    per_commit = {count: ours / count for count, ours in best.items()}
    beyond = {count: (ours - fixed) / count for count, ours in best.items()}
    for count, each in per_commit.items():
        say(
            f"time per commit at {count:,}",
            "flat within 1.5 times",
            ns=each * 1e9,
            less_what_one_commit_takes_ns=beyond[count] * 1e9,
        )
        if count >= 1_000_000:
            say(f"peak memory at {count:,}", "3 times the file", times=peak(paths[count]))
    say(
        "time per commit, most over least",
        "1.5",
        times=max(per_commit.values()) / min(per_commit.values()),
        less_what_one_commit_takes=max(beyond.values()) / min(beyond.values()),
    )


def write(path: Path, rounds: int, say: Callable[..., None], count: int) -> None:
    """Consolidating a log of very many commits: a new `.con` of all of them."""
    before = set((path / "__commits").iterdir())
    best = [float("inf"), float("inf")]
    works: tuple[Callable[[str], object], ...] = (ct.consolidate, engine_consolidate)
    for _ in range(rounds):
        for at, work in enumerate(works):
            gc.collect()
            begin = time.perf_counter()
            work(str(path))
            best[at] = min(best[at], time.perf_counter() - begin)
            (new,) = set((path / "__commits").iterdir()) - before
            assert new.read_bytes().count(b"\n") == count
            new.unlink()
    say(
        f"write a .con of {count:,} commits",
        "3 times the engine at 1,000,000",
        ours_s=best[0],
        engine_s=best[1],
        times=best[1] / best[0],
    )


def engine_consolidate(path: str) -> None:
    tiledb.consolidate(path, config=tiledb.Config({"sm.consolidation.mode": "commits"}))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--most", type=int, default=10_000_000, help="the largest .con")
    parser.add_argument("--json", type=Path)
    parser.add_argument("--part", choices=PARTS, action="append", help="only this; all by default")
    options = parser.parse_args()
    print(f"{platform.machine()}, {os.cpu_count()} cores, Python {platform.python_version()}")
    print(f"engine: libtiledb {'.'.join(map(str, tiledb.libtiledb.version()))}")
    with tempfile.TemporaryDirectory() as folder:
        rows = run(Path(folder), options.rounds, options.most, options.part or PARTS)
    print()
    for row in rows:
        shown = ", ".join(f"{name} {value:.3g}" for name, value in figures(row).items())
        print(f"{row['work']:<40} | {row['aim']:<40} | {shown}")
    print()
    print(json.dumps(rows))
    if options.json:
        options.json.write_text(json.dumps(rows, indent=2))


if __name__ == "__main__":
    main()
