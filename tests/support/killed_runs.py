"""Drivers that are killed while they publish a run.

In: an output, and the number of the operation to die at. Out: whether it was killed, and how many
operations it began. On a disk an operation is a call that changes the file system; in a bucket it
is one of the store's.
"""

from __future__ import annotations

import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from support.killed_forks import Forks, Steps, forks, serve

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

CHANGES = frozenset({"os.link", "os.symlink", "os.rename", "os.remove", "os.mkdir", "os.rmdir"})


class Publisher:
    """A warm process that publishes runs, and is killed in the middle."""

    def __init__(self, process: Forks) -> None:
        self._process = process

    def publish(
        self, out: str, number: int, options: dict[str, str] | None = None, *, die_at: int = 0
    ) -> tuple[bool, int]:
        """Publish a run of two tables with that number in them; die at the operation."""
        return self._process.run(out=out, number=number, options=options or {}, die_at=die_at)


@contextmanager
def publisher() -> Iterator[Publisher]:
    """Run the warm process until the block ends."""
    with forks(__file__) as process:
        yield Publisher(process)


def publish(out: str, number: int, options: dict[str, str], before: Callable[[], None]) -> None:
    """Write a run, and from then on publish it."""
    import pyarrow as pa

    from chronotile.spark.pipeline.runs import new_run

    run = new_run(out, options)
    parts = [run.write(name, pa.table({"n": [number]})) for name in ("t", "u")]
    run.write("t", pa.table({"n": [-1]}))
    before()
    run.publish(parts, {"unreadable": 0})


def _child(asked: dict[str, Any], steps: Steps) -> None:
    from chronotile.spark.pipeline import runs
    from chronotile.storage.store import Store, open_store

    counting = False

    def heard(event: str, _: tuple[Any, ...]) -> None:
        if counting and event in CHANGES:
            steps.step()

    def opened(out: str, options: dict[str, str] | None = None) -> Store:
        return open_store(out, options, on_operation=lambda *_: steps.step() if counting else None)

    def begin() -> None:
        nonlocal counting
        counting = True

    if "://" in asked["out"]:
        setattr(runs, "open_store", opened)  # noqa: B010 - to a type checker it is no attribute
    else:
        sys.addaudithook(heard)
    publish(asked["out"], asked["number"], asked["options"], begin)


if __name__ == "__main__":
    # Loaded before the forks.
    import pyarrow.parquet  # noqa: F401

    import chronotile.spark.pipeline.runs  # noqa: F401

    serve(_child)
