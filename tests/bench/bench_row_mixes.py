"""Rows under updates of other kinds than `bench_rows` has, side by side with the engine's own read.

In: a folder. Out: figures. One array has a column of each kind: whole numbers over a large range,
floats, NULLs, text. A copy of it for each kind of predicate has a hundred updates of that kind;
most change about one row in two thousand.
"""

from __future__ import annotations

import gc
import shutil
import time
from typing import TYPE_CHECKING

import numpy as np
import tiledb
from bench.bench_rows import UPDATES, engine_rows, our_rows

import chronotile as ct

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

ROWS = 4_000_000
WRITES = 4
LARGE = 2**40
WORDS = 2000


def word(number: int) -> str:
    return f"word {number % WORDS}"


MIXES: dict[str, Callable[[int], str]] = {
    "integers of 64 bits over a large range": lambda n: (
        f"large >= {n * LARGE // UPDATES} and large < {n * LARGE // UPDATES + LARGE // 2000}"
    ),
    "floats of 32 bits": lambda n: f"single >= {n / 100:.4f} and single < {n / 100 + 0.0005:.4f}",
    "integers with NULL among them": lambda n: f"rare == {n * 17}",
    "text, equal": lambda n: f"text == '{word(n * 7)}'",
    "text, one of three": lambda n: (
        f"text in ['{word(n * 9)}', '{word(n * 9 + 1)}', '{word(n * 9 + 2)}'] and single < 0.3"
    ),
    "and, or": lambda n: (
        f"(text == '{word(n * 7)}' and single < 0.5) or (rare == {n * 17} and large > {LARGE // 2})"
    ),
    "not equal, and a range": lambda n: (
        f"text != '{word(n)}' and id >= {n * 30_011} and id < {n * 30_011 + 2000}"
    ),
    "one that changes half of the rows": lambda n: (
        f"single < {0.5 if n == UPDATES // 2 else -1.0} or rare == {n * 17}"
    ),
    "text in a range, which each looks at all rows for": lambda n: (
        f"text >= '{word(n * 7 + 1000)}' and text < '{word(n * 7 + 1001)}'"
    ),
}
"""What updates of a kind ask for."""


def make(folder: Path) -> dict[str, Path]:
    """A copy of the array for each kind; without updates under the name ''."""
    plain = folder / "mixes"
    attributes = [
        tiledb.Attr("large", dtype=np.int64),
        tiledb.Attr("single", dtype=np.float32),
        tiledb.Attr("rare", dtype=np.int32, nullable=True),
        tiledb.Attr("text", dtype=str, var=True),
    ]
    dimension = tiledb.Dim("id", domain=(0, ROWS), tile=100_000, dtype=np.int64)
    schema = tiledb.ArraySchema(
        tiledb.Domain(dimension), attrs=attributes, sparse=True, capacity=100_000
    )
    tiledb.Array.create(str(plain), schema)
    chance = np.random.default_rng(1)
    words = np.array([word(number) for number in range(WORDS)])
    for number in range(WRITES):
        count = ROWS // WRITES
        rare = chance.integers(0, 2000, count)
        with tiledb.open(str(plain), "w", timestamp=10 + number) as array:
            array[np.arange(number * count, (number + 1) * count)] = {
                "large": chance.integers(0, LARGE, count),
                "single": chance.random(count).astype(np.float32),
                "rare": np.where(chance.random(count) < 0.9, rare, np.nan),
                "text": words[chance.integers(0, WORDS, count)],
            }
    paths = {"": plain}
    for at, (kind, where) in enumerate(MIXES.items()):
        paths[kind] = folder / f"mix {at}"
        shutil.copytree(plain, paths[kind])
        for number in range(UPDATES):
            new = {"single": float(number)}
            path, when = str(paths[kind]), 100 + number
            ct.write_update(path, where(number), new, timestamp=when, experimental=True)
    return paths


def mixes(folder: Path, rounds: int, say: Callable[..., None]) -> None:
    """Reading 4,000,000 rows under updates of each kind."""
    paths = make(folder)
    best = dict.fromkeys((*paths, "engine"), float("inf"))
    for _ in range(rounds):
        for kind in best:
            gc.collect()
            begin = time.perf_counter()
            found = engine_rows(paths[""]) if kind == "engine" else our_rows(paths[kind])
            best[kind] = min(best[kind], time.perf_counter() - begin)
            assert found == ROWS
    engine = best.pop("engine")
    for kind, seconds in best.items():
        say(
            f"read {ROWS:,} rows of mixed columns, "
            + (f"{UPDATES} updates: {kind}" if kind else "no updates"),
            "at most 2 times the engine's time",
            ours_s=seconds,
            engine_s=engine,
            of_its_time=seconds / engine,
        )
