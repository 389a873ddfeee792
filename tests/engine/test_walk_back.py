"""Random changes of ours among the engine's, some of them killed, are undone all the way back."""

from __future__ import annotations

import json
import os
import subprocess
import sys

from support.spec_files import ROOT

SEQUENCES = 60


def test_every_window_is_as_it_was() -> None:
    """In processes of their own: a crash of the engine is a failure."""
    call = [sys.executable, "-m", "bench.walk_back", "--sequences", str(SEQUENCES), "--steps", "30"]
    done = subprocess.run(
        call,
        env=os.environ | {"PYTHONPATH": str(ROOT / "tests")},
        capture_output=True,
        text=True,
        check=False,
        timeout=500,
    )
    assert done.returncode == 0, (done.stdout + done.stderr)[-4000:]
    figures = json.loads(done.stdout)
    assert figures["sequences"] == SEQUENCES
    kinds = ("delete", "consolidate", "restore", "undelete", "publish", "repair", "tag")
    for what in (*kinds, "undo", "redo", "older undo", "killed", "killed undo", "walked back"):
        assert figures[what] > 0, what
