"""The judge of replicate: an engine at work, a replicator that is killed, and a reader of the copy.

In: a kind of array, a storage, a number of seconds, a seed. Out: figures as JSON, with all that
went wrong. One process lets the engine write, delete, consolidate and vacuum at random. Another one
replicates, round after round, and is killed with signal 9 at random moments. This one opens the
copy with the engine all the time, without `--prune`:

- no open fails;
- of every write all rows show, or none;
- a row that was seen stays, unless a delete names it;
- at the end the copy shows what its source shows, at every window.

`make replicate-race` runs this file for minutes, and a test for seconds.
"""

from __future__ import annotations

import argparse
import importlib
import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
import uuid
from contextlib import ExitStack
from itertools import combinations_with_replacement
from pathlib import Path
from typing import Any

import numpy as np
import tiledb
from support.engine_arrays import QUIET, s3_settings
from support.engines import engine
from support.servers import s3_server

import chronotile as ct

ROWS = 10
"""Rows of each write."""
MOST = 5000
"""Writes for which an array has room."""
KINDS = ("sparse", "dense", "duplicates")
WINDOWS = 10
"""Moments whose pairs are the windows that are compared at the end."""


def create(uri: str, kind: str, settings: dict[str, str]) -> None:
    """Make an empty array: write k has the value k in cells of its own."""
    dim = tiledb.Dim("x", domain=(0, MOST * ROWS - 1), tile=ROWS, dtype=np.int64)
    schema = tiledb.ArraySchema(
        tiledb.Domain(dim),
        [tiledb.Attr("v", dtype=np.int64)],
        sparse=kind != "dense",
        allows_duplicates=kind == "duplicates",
    )
    tiledb.Array.create(uri, schema, ctx=engine(settings))


def write_at_random(
    uri: str, kind: str, settings: dict[str, str], seconds: float, seed: int, log: Path
) -> dict[str, int]:
    """Let the engine work on an array; a delete is in the log before it is written."""
    chance, ctx, end = random.Random(seed), engine(settings), time.monotonic() + seconds
    done: dict[str, int] = {}
    count = 0
    while time.monotonic() < end and count < MOST:
        weights = {"write": 12, "consolidate": 2, "vacuum": 2, "meta": 1, "delete": 2}
        what = chance.choices([*weights], [*weights.values()])[0]
        if what == "delete" and (kind == "dense" or not count):
            continue
        mode = chance.choice(["fragments", "commits", "fragment_meta", "array_meta"])
        try:
            if what == "write":
                with tiledb.open(uri, "w", ctx=ctx) as array:
                    cells = np.arange(count * ROWS, (count + 1) * ROWS)
                    values = np.full(ROWS, count + 1, np.int64)
                    if kind == "dense":
                        array[cells[0] : cells[-1] + 1] = values
                    else:
                        array[cells] = values
                count += 1
            elif what == "delete":
                chosen = chance.randrange(count) + 1
                with log.open("a") as out:
                    out.write(f"{chosen}\n")
                with tiledb.open(uri, "d", ctx=ctx) as array:
                    array.query(cond=f"v == {chosen}").submit()
            elif what == "meta":
                with tiledb.open(uri, "w", ctx=ctx) as array:
                    array.meta[f"k{chance.randrange(3)}"] = count
            else:
                setting = f"sm.{'consolidation' if what == 'consolidate' else 'vacuum'}.mode"
                config = tiledb.Config(settings | {setting: mode})
                getattr(tiledb, what)(uri, config=config, ctx=ctx)
        except tiledb.TileDBError:
            what = f"{what} failed"  # as F1 and F3 make it
        done[what] = done.get(what, 0) + 1
        time.sleep(0.02)  # the others want their share of a core
    return done


def replicate_killed(
    source: str, target: str, options: dict[str, str], seconds: float, seed: int, rounds: Path
) -> int:
    """Replicate in a process that is killed at random, again and again; count the kills."""
    for module in ("shims", "dataset.replicate_tree", "check.fragment_health"):
        importlib.import_module(f"chronotile.{module}")  # once, and not in each process
    chance, end, kills = random.Random(seed + os.getpid()), time.monotonic() + seconds, 0
    while time.monotonic() < end:
        child = os.fork()
        if child == 0:
            try:
                while True:
                    try:
                        ct.replicate(source, target, storage_options=options)
                        word = "done"
                    except ct.ChronotileError as error:
                        word = f"{type(error).__name__}: {error}"
                    with rounds.open("a") as out:
                        out.write(word + "\n")
            finally:
                os._exit(1)
        time.sleep(0.1 + chance.expovariate(0.5))
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        kills += 1
    return kills


def rows_of(uri: str, kind: str, ctx: tiledb.Ctx, window: tuple[int, int] | None) -> dict[int, int]:
    """Count the rows that an open shows: the value of a write -> its rows."""
    with tiledb.open(uri, ctx=ctx, timestamp=window) as array:
        answer = array[:]
        values = answer["v"] if isinstance(answer, dict) else answer
    if kind == "dense":
        values = values[values > 0]
    found, counts = np.unique(values, return_counts=True)
    return dict(zip(found.tolist(), counts.tolist(), strict=True))


class Reader:
    """Opens the copy again and again, and compares."""

    def __init__(self, uri: str, kind: str, settings: dict[str, str], deletes: Path) -> None:
        self.uri, self.kind, self.deletes = uri, kind, deletes
        self.ctx = engine(settings)
        self.seen: set[int] = set()
        self.opens, self.wrong = 0, list[str]()
        self.begun = False

    def look(self) -> None:
        """Open once."""
        try:
            rows = rows_of(self.uri, self.kind, self.ctx, None)
        except tiledb.TileDBError as error:
            if self.begun:
                self.wrong.append(f"an open failed: {error}")
            return
        self.begun = True
        self.opens += 1
        named = {int(line) for line in self.deletes.read_text().split()}
        # Between a merged fragment and the file that hides its sources an engine shows both, in the
        # source as in the copy: where duplicates are allowed, rows show twice.
        whole = {ROWS, 2 * ROWS, 3 * ROWS} if self.kind == "duplicates" else {ROWS}
        self.wrong += [
            f"write {k} shows {n} rows"
            for k, n in rows.items()
            if n not in whole and k not in named
        ]
        lost = self.seen - rows.keys() - named
        if lost:
            self.wrong.append(f"rows of {sorted(lost)[:5]} went out of sight")
        self.seen |= rows.keys()


def different_windows(
    source: str, target: str, kind: str, settings: dict[str, str], chance: random.Random
) -> tuple[int, list[str]]:
    """Compare both at windows between moments of the source."""
    ctx = engine(settings)
    found = ct.open_log(source, storage_options=_options(settings)).commits()
    times = sorted({*found["t1"].to_pylist(), *found["t2"].to_pylist()})
    chosen = sorted(
        {0, int(time.time() * 1000) + 1000, *chance.sample(times, min(WINDOWS, len(times)))}
    )
    windows, wrong = 0, []
    for window in combinations_with_replacement(chosen, 2):
        try:
            expected = rows_of(source, kind, ctx, window)
        except tiledb.TileDBError:
            continue
        windows += 1
        try:
            answer = rows_of(target, kind, ctx, window)
        except tiledb.TileDBError as error:
            wrong.append(f"window {window}: {error}")
            continue
        if answer != expected:
            wrong.append(f"window {window}: {len(expected)} writes, and {len(answer)} in the copy")
    return windows, wrong


def _options(settings: dict[str, str]) -> dict[str, str]:
    endpoint = settings.get("vfs.s3.endpoint_override")
    if endpoint is None:
        return {}
    return {
        "endpoint": f"http://{endpoint}",
        "region": "us-east-1",
        "access_key_id": "test-access-key",
        "secret_access_key": "test-secret-key",
    }


def race(
    kind: str, seconds: float, seed: int, *, s3: Any = None, replicators: int = 1
) -> dict[str, Any]:
    """Race, and give the figures."""
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        # An array of a hundred fragments is read with more memory than the tests' small arrays.
        settings = QUIET | {"sm.mem.total_budget": "500000000"}
        if s3 is None:
            source, target = str(folder / "source"), str(folder / "target")
        else:
            settings |= s3_settings(s3)
            bucket = s3.make_bucket(f"race-{uuid.uuid4().hex[:12]}")
            source, target = f"{bucket}/source", f"{bucket}/target"
        create(source, kind, settings)
        deletes, rounds = folder / "deletes", folder / "rounds"
        deletes.touch()
        rounds.touch()
        asked = {
            "source": source,
            "target": target,
            "kind": kind,
            "settings": settings,
            "seconds": seconds,
            "seed": seed,
            "deletes": str(deletes),
            "rounds": str(rounds),
        }
        workers = [
            stack.enter_context(
                subprocess.Popen(
                    [sys.executable, "-m", "bench.replicate_race", "--as", role, json.dumps(asked)],
                    stdout=subprocess.PIPE,
                    text=True,
                    env=os.environ | {"PYTHONPATH": str(Path(__file__).parents[1])},
                )
            )
            for role in ("writer", *["replicator"] * replicators)
        ]
        reader = Reader(target, kind, settings, deletes)
        while any(one.poll() is None for one in workers):
            reader.look()
        engine_did, *kills = (json.loads(one.communicate()[0]) for one in workers)
        wrong = reader.wrong
        ct.replicate(source, target, storage_options=_options(settings))
        reader.look()
        windows, others = different_windows(source, target, kind, settings, random.Random(seed))
        answers = rounds.read_text().splitlines()
        odd = [one for one in answers if one != "done" and not one.startswith("ChangedError")]
        return {
            "kind": kind,
            "storage": "disk" if s3 is None else "s3",
            "seed": seed,
            "engine": engine_did,
            "rounds": answers.count("done"),
            "restarted": len(answers) - answers.count("done") - len(odd),
            "kills": sum(kills),
            "opens": reader.opens,
            "writes_seen": len(reader.seen),
            "windows": windows,
            "wrong": [*wrong, *others, *odd],
        }


def main() -> int:
    """Run races, or be one of the processes of a race."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--seed", type=int, default=int(time.time()))
    parser.add_argument("--kind", choices=KINDS, nargs="*", default=[*KINDS])
    parser.add_argument("--storage", choices=["disk", "s3"], nargs="*", default=["disk", "s3"])
    parser.add_argument("--replicators", type=int, default=1, help="processes that replicate")
    parser.add_argument("--as", dest="role", help=argparse.SUPPRESS)
    parser.add_argument("asked", nargs="?", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.role is not None:
        asked = json.loads(args.asked)
        settings, seconds, seed = asked["settings"], asked["seconds"], asked["seed"]
        place = asked["source"], asked["kind"] if args.role == "writer" else asked["target"]
        if args.role == "writer":
            log = Path(asked["deletes"])
            print(json.dumps(write_at_random(*place, settings, seconds, seed, log)))
        else:
            options, log = _options(settings), Path(asked["rounds"])
            print(json.dumps(replicate_killed(*place, options, seconds, seed, log)))
        return 0
    wrong = 0
    with s3_server() as server:
        for storage in args.storage:
            for kind in args.kind:
                s3 = server if storage == "s3" else None
                figures = race(kind, args.seconds, args.seed, s3=s3, replicators=args.replicators)
                print(json.dumps(figures), flush=True)
                wrong += len(figures["wrong"])
    return int(wrong > 0)


if __name__ == "__main__":
    sys.exit(main())
