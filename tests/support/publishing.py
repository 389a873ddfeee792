"""Drivers that are killed while they publish a run.

In: lines on standard input: an output, and the number of the operation to die at. Out: a line
each: whether it was killed, and how many operations it began. It runs in a process of its own,
warm and without threads, that forks once for each line. On a disk an operation is a call that
changes the file system; in a bucket it is one of the store's.
"""

from __future__ import annotations

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

CHANGES = frozenset({"os.link", "os.symlink", "os.rename", "os.remove", "os.mkdir", "os.rmdir"})


class Publisher:
    """A warm process that publishes runs, and is killed in the middle."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self._process = process

    def publish(
        self, out: str, number: int, options: dict[str, str] | None = None, *, die_at: int = 0
    ) -> tuple[bool, int]:
        """Publish a run of two tables with that number in them; die at the operation."""
        asked = {"out": out, "number": number, "options": options or {}, "die_at": die_at}
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps(asked) + "\n")
        self._process.stdin.flush()
        said = json.loads(self._process.stdout.readline())
        assert said["signal"] in (0, signal.SIGKILL), said
        assert said["status"] == 0, said
        return said["signal"] == signal.SIGKILL, said["count"]


@contextmanager
def publisher() -> Iterator[Publisher]:
    """Run the warm process until the block ends."""
    with subprocess.Popen(
        [sys.executable, str(Path(__file__).resolve())],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdin is not None
        try:
            yield Publisher(process)
        finally:
            process.stdin.close()
            process.wait(10)


def publish(out: str, number: int, options: dict[str, str], before: Callable[[], None]) -> None:
    """Write a run, and from then on publish it."""
    import pyarrow as pa

    from chronotile.spark.runs import new_run

    run = new_run(out, options)
    parts = [run.write(name, pa.table({"n": [number]})) for name in ("t", "u")]
    run.write("t", pa.table({"n": [-1]}))
    before()
    run.publish(parts, {"unreadable": 0})


def _child(asked: dict[str, Any], pipe: int) -> None:
    from chronotile.spark import runs
    from chronotile.storage.store import Store, open_store

    count, lock, counting = 0, threading.Lock(), False

    def step() -> None:
        nonlocal count
        with lock:
            count += 1
            os.pwrite(pipe, count.to_bytes(8, "little"), 0)
            if count == asked["die_at"]:
                os.kill(os.getpid(), signal.SIGKILL)

    def heard(event: str, _: tuple[Any, ...]) -> None:
        if counting and event in CHANGES:
            step()

    def opened(out: str, options: dict[str, str] | None = None) -> Store:
        return open_store(out, options, on_operation=lambda *_: step() if counting else None)

    def begin() -> None:
        nonlocal counting
        counting = True

    if "://" in asked["out"]:
        setattr(runs, "open_store", opened)  # noqa: B010 - to a type checker it is no attribute
    else:
        sys.addaudithook(heard)
    publish(asked["out"], asked["number"], asked["options"], begin)


def _serve() -> None:
    import pyarrow.parquet  # noqa: F401  (loaded before the forks)

    import chronotile.spark.runs  # noqa: F401

    for line in sys.stdin:
        asked = json.loads(line)
        with tempfile.TemporaryFile() as counted:
            child = os.fork()
            if child == 0:
                status = 1
                try:
                    _child(asked, counted.fileno())
                    status = 0
                finally:
                    sys.stderr.flush()
                    os._exit(status)
            _, ended = os.waitpid(child, 0)
            counted.seek(0)
            said = {
                "signal": os.WTERMSIG(ended) if os.WIFSIGNALED(ended) else 0,
                "status": os.WEXITSTATUS(ended) if os.WIFEXITED(ended) else 0,
                "count": int.from_bytes(counted.read(8), "little"),
            }
        print(json.dumps(said), flush=True)


if __name__ == "__main__":
    _serve()
