"""Processes of this machine, and of others."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from chronotile.storage.processes import runs_here, this_process


def test_a_process_of_another_container_is_not_taken_for_this_one() -> None:
    """A process may have the same number, on a host of the same name, or later on this one."""
    own = this_process()
    assert runs_here(own)
    assert runs_here({"host": own["host"], "pid": own["pid"]}), "of an earlier version"
    assert not runs_here(own | {"started": "1"})
    script = "import json; from chronotile.storage.processes import this_process as one; "
    script += "print(json.dumps(one(1)))"
    command = ["unshare", "--pid", "--fork", "--mount-proc", sys.executable, "-c", script]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        pytest.skip("no other space of process numbers here")
    assert json.loads(done.stdout)["host"] != own["host"]
