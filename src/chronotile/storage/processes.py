"""Processes of this machine, told from those of others that share a disk or a bucket with it.

In: the number of a process. Out: what names it beyond this machine, and whether it runs.
"""

from __future__ import annotations

import os
import socket
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any


def this_process(pid: int | None = None) -> dict[str, Any]:
    """Give the machine, the number and the start of this process, or another, for a record.

    Containers may share the name of a host, and each has a process 1: so the machine is a space of
    numbers, too.
    """
    import hashlib

    pid = os.getpid() if pid is None else pid
    machine, started = [socket.gethostname()], None
    with suppress(OSError, IndexError):  # only Linux tells
        machine.append(Path("/proc/sys/kernel/random/boot_id").read_text())
        machine.append(str(Path("/proc/self/ns/pid").readlink()))
        started = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[19]
    host = hashlib.sha256("".join(machine).encode()).hexdigest()[:12]
    return {"host": host, "pid": pid, "started": started}


def runs_here(process: object) -> bool:
    """Tell whether a process of a record is one of this machine, and runs."""
    if not isinstance(process, Mapping) or process.get("host") != this_process()["host"]:
        return False
    try:
        pid = int(process["pid"])
        os.kill(pid, 0)
    except (ProcessLookupError, KeyError, ValueError, TypeError, OverflowError):
        return False
    except PermissionError:
        pass
    # The system may have given the number to another process since.
    return process.get("started") in (None, this_process(pid)["started"])
