"""The judge of erasures: random histories, a text that must go, and all other rows, which stay.

In: a first seed and a number of sequences. Out: figures as JSON, with every difference. Each
sequence makes an array that stores its texts without compression, and writes, deletes, merges,
vacuums, restores, tags, compacts, updates and undoes at random. Copies are planted: an orphan, a
fragment in the quarantine, a clone, a damaged copy. Then the text is erased.

What is asked: no file in the array's folder holds the text, neither as it is nor within a zlib
stream, as UTF-8 or UTF-16; the engine reads every other row as before, at every window; each copy
is gone or named; the engine merges and vacuums the array afterwards. The engine works in processes
of its own, so that a crash is a difference. `make erase-oracle` runs this file, and so does a test,
for fewer sequences.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import shutil
import subprocess
import sys
import tempfile
import time
import traceback
import zlib
from collections import Counter
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import tiledb
from support.array_places import InBucket, OnDisk, read_all
from support.servers import s3_server

import chronotile as ct
from chronotile.check.findings import RefusedError
from chronotile.errors import ChronotileError
from chronotile.format.timestamps import now_ms

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from support.array_places import Files

WHO = "Qz7-Vexley-patient"
NOW = 1 << 60
FIRST = 1_700_000_000_000
"""The first moment: as many digits as now, for a restore is of now (F3)."""
BATCH = 5
"""Sequences that one process lives through."""
OTHERS = ("x", "y", "influenza", "Qz7-Vexley-other")
Row = tuple[Any, ...]
Answers = dict[tuple[int, int], list[Row]]


def payloads(data: bytes) -> Iterator[bytes]:
    """Give the bytes of a file, and the content of each zlib stream in them."""
    yield data
    at = data.find(b"\x78")
    while at >= 0:
        if int.from_bytes(data[at : at + 2], "big") % 31 == 0:
            with suppress(zlib.error):
                yield zlib.decompressobj().decompress(data[at:])
        at = data.find(b"\x78", at + 1)


def holding(files: Mapping[str, bytes], text: str = WHO) -> list[str]:
    """List the files that hold a text, in their names too."""
    wanted = [text.encode(), text.encode("utf-16-le")]
    return sorted(
        path
        for path, data in files.items()
        if text in path or any(one in part for part in payloads(data) for one in wanted)
    )


class Sequence:
    """One array, from its first write to its erasure."""

    def __init__(self, place: OnDisk | InBucket, seed: int) -> None:
        self.place, self.seed, self.chance = place, seed, random.Random(seed)
        self.ctx = place.array.ctx
        self.settings = place.array.settings
        self.uri, self.at = place.uri, FIRST
        self.duplicates = self.chance.random() < 0.35
        self.text_places = self.chance.random() < 0.3
        self.nullable = self.chance.random() < 0.15
        self.differences: list[str] = []
        self.story: list[str] = []
        self.counts: Counter[str] = Counter()
        self.moments: list[int] = []
        self.free = self.chance.random() < 0.3
        """Write the text over other values too: earlier values go then."""
        self.taken: set[int] = set()

    def opened(self) -> Any:
        return ct.open(self.uri, storage_options=self.place.options)

    def files(self) -> Files:
        place = self.place
        if isinstance(place, InBucket):  # it remembers what it has read
            place = InBucket(place.server, place.bucket, place.uri.rpartition("/")[2])
        return place.files()

    # The history

    def make(self) -> None:
        plain = tiledb.FilterList([tiledb.NoOpFilter()])
        if self.text_places:
            dim = tiledb.Dim("d", dtype="ascii", filters=plain)
        else:
            dim = tiledb.Dim("d", domain=(0, 999), tile=10, dtype="int64", filters=plain)
        attrs = [
            tiledb.Attr("s", dtype="ascii", var=True, filters=plain, nullable=self.nullable),
            tiledb.Attr("v", dtype="int32", filters=tiledb.FilterList([tiledb.ZstdFilter()])),
        ]
        schema = tiledb.ArraySchema(
            domain=tiledb.Domain(dim),
            attrs=attrs,
            sparse=True,
            allows_duplicates=self.duplicates,
            capacity=4,
        )
        tiledb.Array.create(self.uri, schema, ctx=self.ctx)

    def _next(self) -> int:
        self.at += self.chance.choice((0, 1, 7, 10))
        self.moments.append(self.at)
        return self.at

    def write(self) -> None:
        rows: dict[int, str] = {}
        for _ in range(self.chance.randint(1, 9)):
            place = self.chance.randrange(30)
            if self.chance.random() < 0.3:
                if not self.free:
                    place = 30 + self.chance.randrange(30)
                    if place in self.taken and not self.duplicates:
                        continue
                rows[place] = WHO
            else:
                if self.chance.random() < 0.2:
                    place = 30 + self.chance.randrange(30)
                rows[place] = self.chance.choice(OTHERS)
        self.taken |= rows.keys()
        if not rows:
            return
        self.at += 1  # one write a millisecond: F13, F16
        at = self._next()
        self.at += 1
        numbers = np.array([self.chance.randrange(5) for _ in rows], "int32")
        places: Any = [*rows]
        if self.text_places:
            if [*rows.values()].count(WHO) > 1 and not self.duplicates:
                return
            places = np.array([self._spelled(p, s) for p, s in rows.items()], "S")
        with tiledb.open(self.uri, "w", timestamp=at, ctx=self.ctx) as array:
            array[places] = {"s": np.array([*rows.values()], dtype="S"), "v": numbers}

    @staticmethod
    def _spelled(place: int, text: str) -> str:
        return WHO if text == WHO else f"p{place:03}"

    def _condition(self) -> str:
        return self.chance.choice(
            (
                f"s == '{WHO}'",
                f"s == '{WHO}' or v == {self.chance.randrange(5)}",
                f"s in ['{WHO}', 'y']",
                f"v == {self.chance.randrange(5)}",
                "s == 'x'",
                f"s != '{WHO}' and v == {self.chance.randrange(5)}",
            )
        )

    def delete(self) -> None:
        self.opened().delete(self._condition(), at=self._next(), message=f"asked by {WHO}_1")

    def update(self) -> None:
        where = self._condition()
        value = self.chance.choice(("s=other", "v=3"))
        self.opened().update(where, [value], at=self._next(), experimental=True)
        self.at += 1
        self.opened().apply()

    def engine_consolidate(self) -> None:
        settings = self.settings | {
            "sm.consolidation.mode": self.chance.choice(("fragments", "fragment_meta", "commits")),
            "sm.consolidation.step_min_frags": "2",
        }
        tiledb.consolidate(self.uri, config=tiledb.Config(settings), ctx=self.ctx)

    def engine_vacuum(self) -> None:
        mode = self.chance.choice(("fragments", "fragment_meta", "commits"))
        settings = self.settings | {"sm.vacuum.mode": mode}
        tiledb.vacuum(self.uri, config=tiledb.Config(settings), ctx=self.ctx)

    def consolidate(self) -> None:
        self.opened().consolidate(self.chance.choice(("commits", "fragment-meta", "all")))

    def vacuum(self) -> None:
        self.opened().vacuum(loose_deletes=self.chance.random() < 0.5)

    def compact(self) -> None:
        self.opened().compact(quiet="0s", vacuum=self.chance.random() < 0.5)

    def restore(self) -> None:
        self.opened().restore(self.chance.choice(self.moments))
        self.at = now_ms() + 5
        self.moments.append(self.at)

    def tag(self) -> None:
        self.opened().tag(
            f"t{self.at}-{self.chance.randrange(999)}", at=self.chance.choice(self.moments)
        )

    def undo(self) -> None:
        self.opened().undo()

    def repair(self) -> None:
        self.opened().repair()

    def live(self) -> None:
        """Go through a random history."""
        self.make()
        self.write()
        kinds: dict[Callable[[], None], int] = {
            self.write: 8,
            self.delete: 4,
            self.update: 2,
            self.engine_consolidate: 3,
            self.engine_vacuum: 2,
            self.consolidate: 2,
            self.vacuum: 1,
            self.compact: 1,
            self.restore: 1,
            self.tag: 1,
            self.undo: 2,
            self.repair: 1,
        }
        for _ in range(self.chance.randint(4, 12)):
            (step,) = self.chance.choices([*kinds], [*kinds.values()])
            try:
                step()
            except ChronotileError as error:
                self.story.append(f"{step.__name__} refused: {error.problem[:80]}")
            except tiledb.TileDBError as error:
                self.story.append(f"{step.__name__} failed: {str(error)[:80]}")
            else:
                self.story.append(step.__name__)

    # What is planted

    def plant(self) -> list[str]:
        """Plant copies of a fragment; give those that only a name can tell."""
        if not isinstance(self.place, OnDisk):
            return []
        folder = self.place.folder
        fragments = sorted(one for one in (folder / "__fragments").iterdir() if one.is_dir())
        if not fragments:
            return []
        source, named = self.chance.choice(fragments), []
        digit = self.chance.choice("bcde")
        if self.chance.random() < 0.3:
            shutil.copytree(
                source, folder / "__fragments" / f"__{FIRST - 1}_{FIRST - 1}_{digit * 32}_22"
            )
        if self.chance.random() < 0.3:
            kept = folder / "__chronotile" / "quarantine" / "01234567" / f"0000-{source.name}"
            shutil.copytree(source, kept)
        if self.chance.random() < 0.2:
            copy = folder / "__fragments" / f"{source.name}.bak"
            shutil.copytree(source, copy)
            named.append(f"__fragments/{copy.name}")
        if self.chance.random() < 0.2:
            torn = folder / "__fragments" / f"__{FIRST - 2}_{FIRST - 2}_{digit * 32}_22"
            shutil.copytree(source, torn)
            (torn / "__fragment_metadata.tdb").unlink()
            named.append(f"__fragments/{torn.name}")
        if self.chance.random() < 0.2:
            self.opened().clone(f"{self.uri}.clone")
        self.story.append(f"planted {named}")
        return named

    # The judge

    def answers(self) -> Answers:
        ends = sorted({*self.moments, NOW})
        ends = ends if len(ends) < 8 else [*self.chance.sample(ends, 7), NOW]
        windows = [(start, end) for start in (0, ends[len(ends) // 2]) for end in ends]
        return self.read([one for one in windows if one[0] <= one[1]])

    def read(self, windows: list[tuple[int, int]]) -> Answers:
        found = {}
        for window in windows:
            with tiledb.open(self.uri, timestamp=window, ctx=self.ctx) as array:
                read = array.query(coords=True)[:]
            columns = [read[name].tolist() for name in ("d", "s", "v")]
            found[window] = sorted(zip(*columns, strict=True), key=repr)
        return found

    def differ(self, what: str) -> None:
        self.differences.append(f"seed {self.seed}: {what}\n  " + "; ".join(self.story))

    def run(self) -> None:
        """Live, erase, judge."""
        self.live()
        try:
            before = self.answers()
        except tiledb.TileDBError as error:
            self.counts["unreadable before"] += 1
            self.story.append(str(error)[:100])
            return
        named = self.plant()
        where = self.chance.choice((f"s == '{WHO}'", f"s in ['{WHO}', 'nobody-else']"))
        if self.text_places:
            where = self.chance.choice((f"d == '{WHO}' or s == '{WHO}'", f"d == '{WHO}'"))
        self.story.append(where)
        array, how = self.opened(), {"orphan_age": 0, "earlier_values": self.free}
        there = self.files()
        try:
            planned = array.erase(where, dry_run=True, **how)
        except RefusedError as error:
            self.counts["refused"] += 1
            self.story.append(f"refused: {error.problem}")
            self.counts[f"refused: {error.problem.split(',')[0][:60]}"] += 1
            if self.files() != there:
                self.differ("a refusal changed something")
            return
        if self.files() != there:
            self.differ("a dry run changed something")
        report = array.erase(where, **how)
        self.judge(before, planned, report, named)

    def judge(self, before: Answers, planned: Any, report: Any, named: list[str]) -> None:
        certificate = report.certificate
        self.counts["erased"] += 1
        self.counts["rows"] += certificate["matches_found"]
        self.counts["windows"] += len(before)
        files = self.files()
        found = certificate["still_named"] + certificate["not_looked_at"]
        places = [one["where"] for one in found]
        held = [path for path in holding(files) if not any(path.startswith(p) for p in places)]
        if held:
            self.differ(f"still in {held}")
        for one in named:
            if one not in places and any(path.startswith(one) for path in files):
                self.differ(f"nobody names {one}")
        still = [
            one
            for one in certificate["still_named"]
            if not any(one["where"].startswith(p) for p in named)
        ]
        if self.story[-1] == f"d == '{WHO}'":
            # A delete that looks for the text in `s`, too, and hides other rows: it is named.
            still = [one for one in still if one["what"] != "delete or update"]
        if certificate["matches_left"] or still:
            self.differ(f"left: {certificate['matches_left']}, {still}")
        if "patient" in json.dumps(certificate) or WHO in json.dumps(report.to_dict()):
            self.differ("the report names it")
        clone = Path(f"{self.uri}.clone")
        if clone.exists() and certificate["matches_found"]:
            # Fragments that were hidden are not in the clone, and have no link there.
            linked = any(one.startswith("__fragments/") for one in holding(read_all(clone)))
            places_named = {"clone", "hard links"} if linked else {"clone"}
            if not places_named <= {one["what"] for one in found}:
                self.differ("nobody names the clone")
        after = self.read([*before])
        loses = [one for one in planned.losses if "deleted already" in one]
        for window, rows in before.items():
            wanted = [row for row in rows if WHO.encode() not in row and WHO not in row]
            self._compare(window, wanted, after[window], is_less=bool(loses) or self.free)
        self._go_on(after)

    def _compare(
        self, window: tuple[int, int], wanted: list[Row], rows: list[Row], *, is_less: bool
    ) -> None:
        if is_less and window[1] != NOW:
            if Counter(rows) - Counter(wanted):
                self.differ(f"window {window} shows more: {Counter(rows) - Counter(wanted)}")
        elif rows != wanted:
            gone, new = Counter(wanted) - Counter(rows), Counter(rows) - Counter(wanted)
            self.differ(f"window {window} lost {dict(gone)}, got {dict(new)}")

    def _go_on(self, after: Answers) -> None:
        """Let the engine merge and vacuum: F14 would crash here."""
        errors = [one for one in self.opened().check() if one.severity == "error"]
        errors = [one for one in errors if ".bak" not in one.path]
        if errors:
            self.differ(f"check finds {errors}")
        if any(one.startswith("planted") and ".bak" in one for one in self.story):
            return  # the engine does not know that folder
        settings = tiledb.Config(self.settings)
        tiledb.consolidate(self.uri, config=settings, ctx=self.ctx)
        tiledb.vacuum(self.uri, config=settings, ctx=self.ctx)
        now = self.read([(0, NOW)])[0, NOW]
        if now != after[0, NOW]:
            self.differ("other rows after the engine has merged")


def live_through(place: OnDisk | InBucket, seeds: list[int]) -> Iterator[dict[str, Any]]:
    """Go through some sequences; the outcome of each."""
    for seed in seeds:
        yield {"begin": seed}
        if isinstance(place, InBucket):
            here: OnDisk | InBucket = InBucket(place.server, place.bucket, f"a{seed}")
        else:
            here = OnDisk(place.folder / f"a{seed}")
        one = Sequence(here, seed)
        try:
            one.run()
        except Exception:  # whatever it is, it is a difference
            one.differ(traceback.format_exc())
        yield {
            "seed": seed,
            "differences": one.differences,
            "counts": dict(one.counts),
            "story": one.story,
        }
        if isinstance(here, OnDisk) and not one.differences:
            shutil.rmtree(here.folder, ignore_errors=True)
            shutil.rmtree(f"{here.folder}.clone", ignore_errors=True)


def judge(
    first: int, sequences: int, *, s3: bool = False, keep: Path | None = None
) -> dict[str, Any]:
    """Run sequences in processes of their own, and sum up."""
    begun = time.monotonic()
    counts: Counter[str] = Counter()
    differences: list[str] = []
    waiting = [*range(first, first + sequences)]
    env = os.environ | {"PYTHONPATH": str(Path(__file__).parents[1])}
    with tempfile.TemporaryDirectory() as folder:
        root = folder if keep is None else str(keep)
        while waiting:
            some, waiting = waiting[:BATCH], waiting[BATCH:]
            call = [sys.executable, "-m", "bench.erase_oracle", "--child", root]
            call += ["--s3"] * s3 + [str(one) for one in some]
            done = subprocess.run(call, capture_output=True, text=True, check=False, env=env)
            last = some[0]
            for line in done.stdout.splitlines():
                told = json.loads(line)
                last = told.get("begin", last)
                differences += told.get("differences", ())
                counts.update(told.get("counts", {}))
                if "seed" in told:
                    counts["sequences"] += 1
            if done.returncode:
                differences.append(f"seed {last}: status {done.returncode}: {done.stderr[-2000:]}")
                waiting = [one for one in some if one > last] + waiting
    seconds = round(time.monotonic() - begun)
    return {**counts, "seconds": seconds, "differences": differences}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sequences", type=int, default=200)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--s3", action="store_true", help="on the S3 server of the tests")
    parser.add_argument("--keep", type=Path, help="a folder that keeps arrays with a difference")
    parser.add_argument("--child", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("seeds", nargs="*", type=int)
    asked = parser.parse_args()
    if asked.child is not None:
        with ExitStack() as stack:
            place: OnDisk | InBucket = OnDisk(asked.child)
            if asked.s3:
                server = stack.enter_context(s3_server())
                place = InBucket(server, server.make_bucket(f"erase-{asked.seeds[0]}"))
            for told in live_through(place, asked.seeds):
                print(json.dumps(told), flush=True)
        return 0
    found = judge(asked.seed, asked.sequences, s3=asked.s3, keep=asked.keep)
    print(json.dumps(found, indent=2))
    return int(bool(found["differences"]))


if __name__ == "__main__":
    sys.exit(main())
