"""Maintenance that is killed at a chosen storage operation.

In: lines of JSON on standard input: what to run, on which array, and when to die. Out: a line
each: the signal that ended it, and how many changes it began and ended. It runs in a process
of its own, warm and without threads, that forks once for each line.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator


class Crasher:
    """A warm process that runs maintenance and kills it."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self._process = process

    def run(
        self,
        what: str,
        array: str,
        options: dict[str, str] | None = None,
        *,
        die_at: int | None = None,
    ) -> tuple[bool, int]:
        """Run to the end, or to the operation; give whether it was killed, and the count."""
        asked = {"what": what, "array": array, "options": options or {}, "die_at": die_at}
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps(asked) + "\n")
        self._process.stdin.flush()
        said = json.loads(self._process.stdout.readline())
        assert said["signal"] in (0, signal.SIGKILL), said
        assert said["status"] == 0, said
        return said["signal"] == signal.SIGKILL, said["count"]


@contextmanager
def crasher() -> Iterator[Crasher]:
    """Run the warm process until the block ends."""
    with subprocess.Popen(
        [sys.executable, str(Path(__file__).resolve())],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdin is not None
        try:
            yield Crasher(process)
        finally:
            process.stdin.close()
            process.wait(10)


def _child(asked: dict[str, Any], pipe: int) -> None:
    from chronotile.change.consolidate import consolidate
    from chronotile.change.vacuum import vacuum
    from chronotile.rows.apply import apply_updates
    from chronotile.storage.store import open_store

    count, lock = 0, threading.Lock()

    def hook(operation: str, path: str) -> None:
        nonlocal count
        del path
        # Whoever is killed at a list or a read leaves what the last change left.
        if operation.partition(".")[0] not in ("put", "copy", "remove"):
            return
        with lock:
            count += 1
            os.pwrite(pipe, count.to_bytes(8, "little"), 0)
            if count == asked["die_at"]:
                os.kill(os.getpid(), signal.SIGKILL)

    store = open_store(asked["array"], asked["options"], on_operation=hook)
    if "{" in asked["what"]:
        _time_machine(asked, store)
        return
    # Such as `consolidate`, `consolidate fragment-meta` or `vacuum deletes`.
    command, _, more = asked["what"].partition(" ")
    options = {"deletes": True} if more == "deletes" else {"mode": more} if more else {}
    run: Any = {"consolidate": consolidate, "vacuum": vacuum, "apply": apply_updates}[command]
    run(asked["array"], store=store, **options)


def _time_machine(asked: dict[str, Any], store: Any) -> None:
    """Such as `restore {"to": 20}`; of a second run there may be nothing left to do."""
    import chronotile
    from chronotile.check.findings import RefusedError

    command, _, options = asked["what"].partition(" ")
    known = {"target_store" if command == "clone" else "store": store}
    if command in ("clone", "publish"):
        known["storage_options"] = asked["options"]
    place = "target" if command in ("clone", "publish") else "array"
    try:
        getattr(chronotile, command)(**json.loads(options), **{place: asked["array"]}, **known)
    except RefusedError as error:
        done = ("taken back already", "expected a delete or update, found", "found it")
        if not any(words in error.problem for words in done):
            raise


def _serve() -> None:
    import tempfile

    import chronotile.change.consolidate
    import chronotile.change.vacuum
    import chronotile.rows.apply
    import chronotile.time_machine.clone
    import chronotile.time_machine.publish
    import chronotile.time_machine.undelete
    import chronotile.time_machine.undo  # noqa: F401  (loaded before the forks)

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
