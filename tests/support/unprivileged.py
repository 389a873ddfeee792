"""A process that file permissions hold for, also where the tests run as root.

In: arguments of the command line. Out: the command's own exit status: `python -m
support.unprivileged check ARRAY`. Root stays root, and so the owner of its files, without the
capabilities that pass over permissions.
"""

from __future__ import annotations

import ctypes
import os
import sys

_VERSION_3 = 0x20080522


def drop_capabilities() -> None:
    """Give up all capabilities of this thread, and of those that it starts."""
    if os.geteuid() != 0:
        return
    libc = ctypes.CDLL(None, use_errno=True)
    header = (ctypes.c_uint32 * 2)(_VERSION_3, 0)
    nothing = (ctypes.c_uint32 * 6)()
    if libc.capset(header, nothing) != 0:
        raise OSError(ctypes.get_errno(), "capset failed")


if __name__ == "__main__":
    drop_capabilities()
    from chronotile.cli.program import main

    sys.exit(main())
