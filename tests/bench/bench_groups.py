"""Groups of 10,000 members: listed by us, opened and listed by the engine, side by side.

Each session that adds members writes a list of all that it knows: a group that grew in several
sessions costs more to open. Times are the best of several; a ratio above 1 means that we need less.
"""

from __future__ import annotations

import shutil
import tempfile
import time
from functools import partial
from typing import TYPE_CHECKING

import tiledb

import chronotile as ct
from chronotile.change.consolidate_group import consolidate_group
from chronotile.change.vacuum_group import vacuum_group

if TYPE_CHECKING:
    from collections.abc import Callable

MEMBERS = 10_000
SESSIONS = (1, 20, 100)
TRIES = 7


def make(group: str, sessions: int) -> None:
    """A group that grew to all its members in some sessions."""
    tiledb.Group.create(group)
    step = MEMBERS // sessions
    for session in range(sessions):
        settings = tiledb.Config({"sm.group.timestamp_end": str(session + 1)})
        writer = tiledb.Group(group, "w", settings)
        for number in range(session * step, (session + 1) * step):
            writer.add(f"array-{number:06}", f"member-{number:06}", relative=True)
        writer.close()


def best(call: Callable[[], object]) -> float:
    """The shortest time of several calls, in ms."""
    times = []
    for _ in range(TRIES):
        start = time.perf_counter()
        call()
        times.append(time.perf_counter() - start)
    return min(times) * 1000


def engine_open(group: str) -> None:
    """Opens a group."""
    tiledb.Group(group, "r").close()


def engine_list(group: str) -> None:
    """Opens a group, and asks for every member."""
    opened = tiledb.Group(group, "r")
    assert len([member.name for member in opened]) == MEMBERS
    opened.close()


def ours(group: str) -> None:
    """Reads a group, and makes every member."""
    assert len(ct.open_dataset(group).members()) == MEMBERS


def main() -> None:
    """Print a line for each number of sessions."""
    root = tempfile.mkdtemp()
    try:
        for sessions in SESSIONS:
            group = f"{root}/{sessions}"
            make(group, sessions)
            report(f"{MEMBERS:,} members in {sessions} sessions", group)
        consolidate_group(group)
        vacuum_group(group)
        report("the same, its lists merged by us", group)
    finally:
        shutil.rmtree(root)


def report(title: str, group: str) -> None:
    """Measure one group."""
    opened, listed, own = (best(partial(call, group)) for call in (engine_open, engine_list, ours))
    print(
        f"{title}: engine opens in {opened:.1f} ms, lists in {listed:.1f} ms; "
        f"we list in {own:.1f} ms: {opened / own:.2f} x its open, {listed / own:.2f} x its list"
    )


if __name__ == "__main__":
    main()
