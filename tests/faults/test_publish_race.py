"""Publications, raced by a reader: it sees none or all of each, in 500 rounds.

The reader is the engine, in a process of its own, which opens and reads without a pause.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from typing import TYPE_CHECKING

from support.engine_arrays import EngineArray
from support.spec_files import ROOT

import chronotile as ct

if TYPE_CHECKING:
    import pathlib

ROUNDS, TARGETS, FRAGMENTS = 500, 50, 2

READER = """
import json, pathlib, sys, time
import support.engines, tiledb
root = pathlib.Path(sys.argv[1])
reads, torn, seen = 0, [], set()
print("ready", flush=True)
while not (root / "stop").exists():
    number = int((root / "current").read_text() or 0)
    uri = str(root / f"target{number}")
    with tiledb.open(uri, timestamp=1 << 60) as array:
        rows = len(array[:]["a"])
    reads += 1
    time.sleep(0.002)
    seen.add((number, rows))
    if rows % 2:
        torn.append((number, rows))
print(json.dumps({"reads": reads, "torn": torn, "seen": len(seen)}), flush=True)
"""


def test_a_reader_sees_none_or_all(tmp_path: pathlib.Path) -> None:
    stage = EngineArray(tmp_path / "stage").create(duplicates=True)
    for number in range(FRAGMENTS):
        stage.write(10 + number, {number: number})
    targets = [tmp_path / f"target{number}" for number in range(TARGETS)]
    for target in targets:
        ct.clone(stage.uri, str(target), start=99, end=99)
    current = tmp_path / "current"
    current.write_text("0")
    with subprocess.Popen(
        [sys.executable, "-c", READER, str(tmp_path)],
        env=os.environ | {"PYTHONPATH": str(ROOT / "tests")},
        stdout=subprocess.PIPE,
        text=True,
    ) as reader:
        assert reader.stdout is not None
        assert reader.stdout.readline() == "ready\n"
        try:
            for number, target in enumerate(targets):
                fresh = tmp_path / "fresh"
                fresh.write_text(str(number))
                fresh.replace(current)
                for turn in range(ROUNDS // TARGETS):
                    ct.publish(stage.uri, str(target), at=100 + 10 * turn, again=True)
        finally:
            (tmp_path / "stop").touch()
            said = reader.stdout.read()
    figures = json.loads(said)
    assert figures["torn"] == []
    assert figures["seen"] > 50, figures
    wanted = FRAGMENTS * ROUNDS // TARGETS
    for target in targets:
        assert len(EngineArray(target).answer(0, 1 << 60)) == wanted
