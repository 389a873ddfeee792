"""The program on a real terminal.

In: arguments, settings of the environment, and what somebody types. Out: the exit status, and all
that the terminal got, in order, with its own line ends. Knows nothing of what is shown.
"""

from __future__ import annotations

import os
import pty
import select
import subprocess
import sys
from contextlib import suppress
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

PROGRAM = (sys.executable, "-m", "chronotile")
_SILENCE_S = 120
_STOPPED = -9


def _read(leader: int, running: subprocess.Popen[bytes]) -> bytes:
    """Read what the terminal gets; stop a program that waits for more than was typed."""
    if not select.select([leader], [], [], _SILENCE_S)[0]:
        running.kill()
        running.wait()
        return b""
    return os.read(leader, 65536)


def on_terminal(
    arguments: Sequence[str],
    *,
    answer: str | None = None,
    columns: int = 100,
    pager: str = "cat",
    **more: str,
) -> tuple[int, str]:
    """Run the program where input, output and errors are one terminal.

    Args:
        arguments: Of the program.
        answer: What is typed once the program asks; a program that does not ask then fails.
        columns: Of the terminal.
        pager: The command that long output goes through.
        more: Further settings of the environment.
    """
    leader, follower = pty.openpty()
    environment = os.environ | {"TERM": "xterm-256color", "COLUMNS": str(columns), "PAGER": pager}
    environment.pop("NO_COLOR", None)
    environment |= more
    running = subprocess.Popen(
        [*PROGRAM, *arguments], stdin=follower, stdout=follower, stderr=follower, env=environment
    )
    os.close(follower)
    seen, is_asked = b"", False
    with suppress(OSError):  # the terminal is gone when the last process that has it ends
        while part := _read(leader, running):
            seen += part
            if answer is not None and not is_asked and b"[y/N]" in seen:
                is_asked = True
                os.write(leader, f"{answer}\n".encode())
    os.close(leader)
    assert running.poll() != _STOPPED, f"it asked again: {seen!r}"
    assert is_asked or answer is None, seen
    return running.wait(60), seen.decode()
