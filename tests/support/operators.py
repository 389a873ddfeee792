"""Two operators at once: real processes that run one command each on one array.

In: two command lines, and the step at which the first one is held. Out: how each ended, and what it
said. A warm process forks for each command, as in `killed_forks`. An operator that is held stands
still before a change of a file, with all of its threads, until the other one has ended.
"""

from __future__ import annotations

import gc
import importlib
import json
import os
import sys
import tempfile
import threading
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any, NamedTuple

from support.killed_forks import warm_process

if TYPE_CHECKING:
    import subprocess
    from collections.abc import Iterator, Sequence


class Ended(NamedTuple):
    """How the command of one operator ended."""

    status: int
    said: str
    """All that it printed."""


class Operators:
    """The near end of the warm process."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self._process = process

    def run(self, *commands: Sequence[str], hold_at: int | None = None) -> tuple[int, list[Ended]]:
        """Run commands at once.

        Args:
            commands: Each as the arguments of `chronotile`.
            hold_at: Hold the first one before this change of a file until the others have ended;
                0 lets all begin at the same moment, None lets one run after the other.

        Returns:
            How many changes of files the first one began, and how each of them ended.
        """
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps({"commands": commands, "hold_at": hold_at}) + "\n")
        self._process.stdin.flush()
        said = json.loads(self._process.stdout.readline())
        return said["steps"], [Ended(*one) for one in said["ended"]]


@contextmanager
def operators() -> Iterator[Operators]:
    """Run the warm process until the block ends."""
    with warm_process(__file__) as process:
        yield Operators(process)


class _Operator:
    """A fork that runs a command."""

    def __init__(self, command: list[str], hold_at: int | None) -> None:
        self._said = tempfile.TemporaryFile()  # noqa: SIM115 (closed by `end`)
        self._steps = tempfile.TemporaryFile()  # noqa: SIM115 (closed by `end`)
        self._status: int | None = None
        self._held, held = os.pipe()
        go, self._go = os.pipe()
        self._pid = os.fork()
        if self._pid == 0:
            os.close(self._held)
            os.close(self._go)
            self._become(command, _Held(self._steps.fileno(), hold_at, held, go))
        os.close(held)
        os.close(go)

    def _become(self, command: list[str], held: _Held) -> None:
        status = 70
        try:
            for number in (1, 2):
                os.dup2(self._said.fileno(), number)
            from chronotile.cli import main

            if held.hold_at == 0:
                held.wait()
            _watch(held)
            status = main(command)
        finally:
            sys.stdout.flush()
            sys.stderr.flush()
            os._exit(status)

    def wait_until_held(self) -> None:
        """Return as soon as it is held, or has ended before that."""
        os.read(self._held, 1)

    def let_go(self) -> None:
        """Let it go on."""
        with suppress(BrokenPipeError):  # it has ended
            os.write(self._go, b".")

    def wait(self) -> None:
        """Wait for the end."""
        if self._status is None:
            self._status = os.waitstatus_to_exitcode(os.waitpid(self._pid, 0)[1])

    def end(self) -> tuple[int, int | None, str]:
        """Wait for the end; give the changes of files, the status and what was said."""
        self.wait()
        os.close(self._held)
        os.close(self._go)
        with self._steps, self._said:
            self._steps.seek(0)
            self._said.seek(0)
            steps = int.from_bytes(self._steps.read(8), "little")
            return steps, self._status, self._said.read().decode()


class _Held:
    """Counts changes of files, and stands still before one of them."""

    def __init__(self, counted: int, hold_at: int | None, held: int, go: int) -> None:
        self.hold_at, self._counted, self._held_end, self._go = hold_at, counted, held, go
        self._count, self._lock = 0, threading.Lock()

    def step(self, operation: str, _: str) -> None:
        """Begin an operation on the storage."""
        if operation not in ("put", "copy", "remove"):
            return
        with self._lock:
            self._count += 1
            os.pwrite(self._counted, self._count.to_bytes(8, "little"), 0)
            if self._count == self.hold_at:
                self.wait()

    def wait(self) -> None:
        """Say that it is held, and stand still until the other end lets go."""
        os.write(self._held_end, b".")
        os.read(self._go, 1)


def _watch(held: _Held) -> None:
    """Let every store of this process report its operations."""
    from chronotile.storage.store import Store

    made = Store.__post_init__

    def watched(store: Store) -> None:
        made(store)
        if store.on_operation is None:
            object.__setattr__(store, "on_operation", held.step)

    Store.__post_init__ = watched  # type: ignore[method-assign,assignment]


def _run(commands: list[list[str]], hold_at: int | None) -> dict[str, Any]:
    started: list[_Operator] = []
    for command in commands:
        is_first = not started
        one = _Operator(command, hold_at if is_first or hold_at == 0 else None)
        started.append(one)
        if hold_at is None or not (is_first or hold_at == 0):
            one.wait()
        else:
            one.wait_until_held()
    for one in started:
        one.let_go()
    ended = [one.end() for one in started]
    return {"steps": ended[0][0], "ended": [(status, said) for _, status, said in ended]}


if __name__ == "__main__":
    # Loaded before the forks. NumPy's library for matrices would start threads.
    os.environ["OPENBLAS_NUM_THREADS"] = "1"
    importlib.import_module("tiledb")
    for name in (
        "array",
        "change.executor",
        "change.publish",
        "change.settle",
        "change.undo",
        "cli.change",
        "cli.profile",
        "rows.apply",
        "rows.compact",
        "rows.counted",
        "rows.erase",
        "rows.ways_back",
        "show.styled",
        "show.terminal_fit",
    ):
        importlib.import_module(f"chronotile.{name}")
    for name in ("getpass", "numpy.ma", "rich.table", "rich.tree"):
        importlib.import_module(name)
    # The first array of Arrow loads more.
    importlib.import_module("pyarrow").array([1])
    # A collection in a fork would touch, and so copy, the pages of all that is loaded.
    gc.freeze()
    for line in sys.stdin:
        print(json.dumps(_run(**json.loads(line))), flush=True)
