"""A driver that publishes the tables of a fleet, for processes of their own."""

from __future__ import annotations

import os
import signal
from typing import Any

from chronotile.fleet import plan
from chronotile.fleet.delta_store import OvertakenError, Run
from chronotile.fleet.options import Options
from chronotile.fleet.run_pipeline import Job, run


def publish(
    root: str,
    out: str,
    storage: dict[str, str],
    die_at: int | None = None,
    parts: int | None = None,
) -> str:
    """Run the job without Spark; kill this process before its n-th step of publishing.

    The fleet is divided into `parts`, if they are given.
    """
    steps = 0

    def counted(function: Any) -> Any:
        def call(*given: Any, **more: Any) -> Any:
            nonlocal steps
            if steps == die_at:
                os.kill(os.getpid(), signal.SIGKILL)
            steps += 1
            return function(*given, **more)

        return call

    if die_at is not None:
        Run._commit = counted(Run._commit)  # type: ignore[method-assign]
        Run.tell = counted(Run.tell)  # type: ignore[method-assign]
    if parts is not None:
        vars(plan)["part_count"] = lambda *_: parts
    remote = storage if "://" in root else {}
    options = Options(roots=(root,), storage=tuple(remote.items()))
    job = Job(options=options, out=out, out_storage=storage, since_last=True)
    try:
        return run(None, job).run
    except OvertakenError:
        return "overtaken"
