"""A warm process that forks for each task, and kills the fork at a chosen step.

In: a script that calls `serve`, and tasks as values of JSON. Out: for each whether it was killed,
and how many steps it began. The process has no threads: a fork of one that has may hang.
"""

from __future__ import annotations

import gc
import json
import os
import signal
import subprocess
import sys
import tempfile
import threading
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


class Forks:
    """The near end of the process."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self._process = process

    def run(self, **asked: Any) -> tuple[bool, int]:
        """Run one task to the end, or to the step `die_at`."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps(asked) + "\n")
        self._process.stdin.flush()
        said = json.loads(self._process.stdout.readline())
        assert said["signal"] in (0, signal.SIGKILL), said
        assert said["status"] == 0, said
        return said["signal"] == signal.SIGKILL, said["count"]


@contextmanager
def warm_process(script: str) -> Iterator[subprocess.Popen[str]]:
    """Run the script until the block ends, with the code that this process runs."""
    paths = [str(Path(__file__).resolve().parents[1]), *sys.path]
    with subprocess.Popen(
        [sys.executable, str(Path(script).resolve())],
        env=os.environ | {"PYTHONPATH": os.pathsep.join(paths)},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdin is not None
        try:
            yield process
        finally:
            process.stdin.close()
            process.wait(60)


@contextmanager
def forks(script: str) -> Iterator[Forks]:
    """Run a script that calls `serve` until the block ends."""
    with warm_process(script) as process:
        yield Forks(process)


class Steps:
    """Counts steps where the parent can read it, and ends the process at one of them."""

    def __init__(self, counted: int, die_at: int | None) -> None:
        self._counted, self._die_at = counted, die_at
        self._count, self._lock = 0, threading.Lock()

    def step(self) -> None:
        """Begin a step."""
        with self._lock:
            self._count += 1
            os.pwrite(self._counted, self._count.to_bytes(8, "little"), 0)
            if self._count == self._die_at:
                os.kill(os.getpid(), signal.SIGKILL)


def serve(child: Callable[[dict[str, Any], Steps], None]) -> None:
    """Fork for each line on standard input, and answer with a line each."""
    # A collection in a fork would touch, and so copy, the pages of all that is loaded.
    gc.freeze()
    for line in sys.stdin:
        asked = json.loads(line)
        with tempfile.TemporaryFile() as counted:
            fork = os.fork()
            if fork == 0:
                status = 1
                try:
                    child(asked, Steps(counted.fileno(), asked["die_at"]))
                    status = 0
                finally:
                    sys.stderr.flush()
                    os._exit(status)
            _, ended = os.waitpid(fork, 0)
            counted.seek(0)
            said = {
                "signal": os.WTERMSIG(ended) if os.WIFSIGNALED(ended) else 0,
                "status": os.WEXITSTATUS(ended) if os.WIFEXITED(ended) else 0,
                "count": int.from_bytes(counted.read(8), "little"),
            }
        print(json.dumps(said), flush=True)
