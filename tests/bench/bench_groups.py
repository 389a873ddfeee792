"""Groups of 10,000 members: listed by us, opened and listed by the engine, side by side.

Each session that adds members writes a list of all that it knows: a group that grew in several
sessions costs more to open. Times are the best of several, taken in turns; a ratio above 1 means
that we need less.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import tempfile
import time
from functools import partial
from typing import TYPE_CHECKING

import tiledb
from support.engine_arrays import s3_settings
from support.servers import FaultProxy, s3_server
from support.verbs import consolidate_group, vacuum_group

import chronotile as ct
from chronotile.storage.store import open_store

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from support.servers import S3Server


MEMBERS = 10_000
SESSIONS = (1, 20, 100)
TRIES = 7
DELAYS = (0.0, 0.02)
"""Seconds that an answer of a bucket takes: on this machine, and in the same region, about."""


def make(group: str, sessions: int, config: Mapping[str, str] = {}, spread: int = 0) -> None:
    """A group that grew to all its members in some sessions; `spread`: names differ in length."""
    tiledb.Group.create(group, ctx=tiledb.Ctx(dict(config)))
    step = MEMBERS // sessions
    for session in range(sessions):
        settings = tiledb.Config({"sm.group.timestamp_end": str(session + 1)})
        writer = tiledb.Group(group, "w", settings)
        for number in range(session * step, (session + 1) * step):
            more = "x" * (number * 7 % (spread + 1))
            writer.add(f"array-{number:06}{more}", f"member-{number:06}{more}", relative=True)
        writer.close()


def best(*calls: Callable[[], object]) -> list[float]:
    """The shortest time of each of several calls, made in turns, in ms."""
    times: list[list[float]] = [[] for _ in calls]
    for _ in range(TRIES):
        for taken, call in zip(times, calls, strict=True):
            start = time.perf_counter()
            call()
            taken.append(time.perf_counter() - start)
    return [min(taken) * 1000 for taken in times]


def engine_open(group: str, ctx: tiledb.Ctx) -> None:
    """Opens a group."""
    tiledb.Group(group, "r", ctx=ctx).close()


def engine_list(group: str, ctx: tiledb.Ctx) -> None:
    """Opens a group, and asks for every member."""
    opened = tiledb.Group(group, "r", ctx=ctx)
    assert len([member.name for member in opened]) == MEMBERS
    opened.close()


def own_list(group: str, options: Mapping[str, str] | None) -> None:
    """Read a group, and make every member."""
    members = ct.open_dataset(group, storage_options=options).members()
    assert len([member.name for member in members]) == MEMBERS


def main() -> None:
    """Print a line for each number of sessions."""
    root = tempfile.mkdtemp()
    try:
        for sessions in SESSIONS:
            group = f"{root}/{sessions}"
            make(group, sessions)
            report(f"{MEMBERS:,} members in {sessions} sessions", group)
        make(f"{root}/spread", SESSIONS[1], spread=20)
        report(f"the same in {SESSIONS[1]} sessions, names of 13 to 33 letters", f"{root}/spread")
        with s3_server() as server:
            for sessions in SESSIONS[:2]:
                remote = f"{server.make_bucket(f'bench-groups-{sessions}')}/group"
                copy(f"{root}/{sessions}", remote, server.options)
                title = f"{MEMBERS:,} members in {sessions} sessions, in a bucket"
                for delay in DELAYS:
                    far(title, remote, server, delay)
        consolidate_group(group)
        vacuum_group(group)
        report("the last, its lists merged by us", group)
    finally:
        shutil.rmtree(root)


_ENGINE = """
import json, sys, time, tiledb
group, settings = json.loads(sys.stdin.read())
times = []
for _ in range(3):
    ctx = tiledb.Ctx(settings)  # each with a memory of its own: a second open asks for less
    begin = time.perf_counter()
    tiledb.Group(group, "r", ctx=ctx).close()
    times.append(time.perf_counter() - begin)
print(min(times))
"""


def far(title: str, group: str, server: S3Server, delay: float) -> None:
    """Opens a group whose bucket takes its time to answer, and counts requests."""
    with FaultProxy(server.endpoint) as proxy:
        proxy.plan, proxy.delay_s = (lambda *_: "delay" if delay else "pass"), delay
        settings = s3_settings(server)
        settings["vfs.s3.endpoint_override"] = proxy.endpoint.removeprefix("http://")
        # In a process of its own: the engine keeps Python's lock, which the proxy needs.
        done = subprocess.run(
            [sys.executable, "-c", _ENGINE],
            input=json.dumps([group, settings]),
            capture_output=True,
            text=True,
            check=True,
        )
        theirs, asked = float(done.stdout) * 1000, len(proxy.seen) // 3
        proxy.seen.clear()
        (ours,) = best(partial(own_list, group, proxy.options))
        requests = len(proxy.seen) // TRIES
    print(f"{title}, where an answer takes {delay * 1000:.0f} ms more: the engine opens in")
    print(f"  {theirs:.0f} ms by {asked} requests; we list members in {ours:.0f} ms by")
    print(f"  {requests} requests: {theirs / ours:.2f} x its open")


def copy(group: str, remote: str, options: Mapping[str, str]) -> None:
    """Copies a group into a bucket; the engine would look there for each member that it adds."""
    source, target = open_store(group), open_store(remote, options)
    for entry in source.list_prefix():
        target.put_if_absent(entry.path, source.read(entry.path))


def report(
    title: str,
    group: str,
) -> None:
    """Measure one group on a disk."""
    ctx = tiledb.Ctx()
    opened, listed, taken = best(
        *(partial(call, group, ctx) for call in (engine_open, engine_list)),
        partial(own_list, group, None),
    )
    print(f"{title}: the engine opens in {opened:.1f} ms, lists in {listed:.1f} ms")
    ratios = f"{opened / taken:.2f} x its open, {listed / taken:.2f} x its list"
    print(f"  we list in {taken:.1f} ms: {ratios}")


if __name__ == "__main__":
    main()
