"""Publications into a group, raced by a reader: all members show them at one moment.

The reader is the engine, in a process of its own. It takes a time, and opens every member at it.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from typing import TYPE_CHECKING

import tiledb
from support.engine_arrays import EngineArray
from support.spec_files import ROOT

import chronotile as ct
from chronotile.check.findings import RefusedError
from chronotile.dataset.publish_members import publish_dataset
from chronotile.format.timestamps import now_ms

if TYPE_CHECKING:
    import pathlib

ROUNDS, MEMBERS = 10, ("a", "b", "c")

READER = """
import json, pathlib, sys, time
import support.engines, tiledb
root = pathlib.Path(sys.argv[1])
reads, torn, seen = 0, [], set()
print("ready", flush=True)
while not (root / "stop").exists():
    now = time.time_ns() // 1_000_000
    rows = []
    for name in sys.argv[2:]:
        with tiledb.open(str(root / "group" / name), timestamp=now) as array:
            rows.append(len(array[:]["a"]))
    reads += 1
    time.sleep(0.01)
    seen.add(rows[0])
    if len(set(rows)) > 1:
        torn.append((now, rows))
print(json.dumps({"reads": reads, "torn": torn, "seen": len(seen)}), flush=True)
"""


def make_group(folder: pathlib.Path) -> None:
    tiledb.Group.create(str(folder))
    for name in MEMBERS:
        EngineArray(folder / name).create(duplicates=True)
    with tiledb.Group(str(folder), "w") as group:
        for name in MEMBERS:
            group.add(name, name=name, relative=True)


def test_a_reader_sees_it_in_all_members_or_in_none(tmp_path: pathlib.Path) -> None:
    make_group(tmp_path / "group")
    make_group(tmp_path / "stage")
    for name in MEMBERS:
        EngineArray(tmp_path / "stage" / name).write(10, {1: 1})
    with subprocess.Popen(
        [sys.executable, "-c", READER, str(tmp_path), *MEMBERS],
        env=os.environ | {"PYTHONPATH": str(ROOT / "tests")},
        stdout=subprocess.PIPE,
        text=True,
    ) as reader:
        assert reader.stdout is not None
        assert reader.stdout.readline() == "ready\n"
        published, late, lead_ms = 0, list[tuple[int, int]](), 1_200
        try:
            for _ in range(ROUNDS):
                moment = now_ms() + lead_ms
                dataset = ct.open_dataset(str(tmp_path / "group"))
                try:
                    stage = str(tmp_path / "stage")
                    report = publish_dataset(dataset, stage, at=moment, again=True)
                except RefusedError as error:
                    # The machine is too busy for the copies: nothing may show.
                    assert "nothing is visible" in error.problem  # noqa: PT017
                    lead_ms = min(2 * lead_ms, 20_000)
                    continue
                published += 1
                if len(report.notes) > 1:
                    # A very busy machine, which says so: only then may members differ.
                    assert "the last commit came" in report.notes[1]
                    late.append((moment, now_ms()))
                    lead_ms = min(2 * lead_ms, 20_000)
        finally:
            (tmp_path / "stop").touch()
            said = reader.stdout.read()
    figures = json.loads(said)
    assert published - len(late) >= ROUNDS // 2
    torn = [one for one in figures["torn"] if not any(a <= one[0] <= b for a, b in late)]
    assert torn == []
    assert figures["seen"] > published // 2, figures
    for name in MEMBERS:
        assert len(EngineArray(tmp_path / "group" / name).answer()) == published
