"""A disk that is full, without the rights to make one.

In: a command line. Out: how it ended. Its process, and each one that it starts, can write no long
file: the system refuses the rest of one (`EFBIG`), as a full disk does, and takes short ones.
"""

from __future__ import annotations

import subprocess
import sys


def on_full_disk(*command: str) -> subprocess.CompletedProcess[str]:
    """Run a command that can write no file of more than 100 kB."""
    script = (
        "import resource, sys; from chronotile.cli import main;"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, resource.RLIM_INFINITY));"
        "sys.exit(main(sys.argv[1:]))"
    )
    return subprocess.run(
        [sys.executable, "-c", script, *command], capture_output=True, text=True, check=False
    )
