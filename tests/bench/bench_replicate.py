"""How long `replicate` takes over a folder of arrays: with nothing new, and at first.

In: a folder, and how to tell a figure. Out: the figures. The arrays are copies of one that the
engine wrote, consolidated and deleted from: its `.con`, `.vac` and `.del` are compared by content.
"""

from __future__ import annotations

import os
import shutil
import time
from typing import TYPE_CHECKING

from support.engine_arrays import EngineArray

import chronotile as ct

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

ARRAYS = 10_000


FIRST = 100
"""Arrays of a first run, which waits for the disk to keep each file."""


def folder_of_arrays(folder: Path, say: Callable[..., None], arrays: int = ARRAYS) -> None:
    """Replicate a folder that has a replica, and a small one that has none."""
    first, source, target = folder / "first", folder / "lake", folder / "replica"
    array = EngineArray(first).create()
    array.write(10, {1: 1, 2: 2})
    array.write(20, {3: 3})
    array.consolidate("fragments")
    array.write(30, {4: 4})
    array.consolidate("commits")
    array.delete(40, "a == 2")
    files = sum(path.is_file() for path in first.rglob("*"))
    for number in range(arrays):
        for root in (source, target):
            shutil.copytree(first, root / f"{number // 100:03}" / f"{number:05}")
    os.sync()  # the disk is not to be busy with what was made here
    taken = []
    for _ in range(2):  # at first the system may have to read from the disk what was made here
        begin = time.monotonic()
        report = ct.replicate(source, str(target))
        taken.append(time.monotonic() - begin)
        if report.has_steps or report.failed:
            message = f"expected nothing to do in the second run, found {report.summary()}"
            raise RuntimeError(message)
    work = f"replicate {arrays:,} unchanged arrays of {files} files"
    say(work, "under 10 s", seconds=taken[1], first_look_s=taken[0])
    (folder / "few").mkdir()
    some = [source / "000" / f"{number:05}" for number in range(FIRST)]
    for path in some:
        path.rename(folder / "few" / path.name)
    begin = time.monotonic()
    ct.replicate(folder / "few", f"{target}-of-few")
    seconds = time.monotonic() - begin
    say(f"replicate {FIRST:,} new arrays of {files} files", "", seconds=seconds)
