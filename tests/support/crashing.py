"""Maintenance that is killed at a chosen storage operation.

In: what to run, on which array, and when to die. Out: whether it was killed, and how many changes
it began and ended.
"""

from __future__ import annotations

import json
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from support.killed_forks import Forks, Steps, forks, serve

if TYPE_CHECKING:
    from collections.abc import Iterator


class Crasher:
    """A warm process that runs maintenance and kills it."""

    def __init__(self, process: Forks) -> None:
        self._process = process

    def run(
        self,
        what: str,
        array: str,
        options: dict[str, str] | None = None,
        *,
        die_at: int | None = None,
    ) -> tuple[bool, int]:
        """Run to the end, or to the operation; give whether it was killed, and the count."""
        return self._process.run(what=what, array=array, options=options or {}, die_at=die_at)


@contextmanager
def crasher() -> Iterator[Crasher]:
    """Run the warm process until the block ends."""
    with forks(__file__) as process:
        yield Crasher(process)


def _child(asked: dict[str, Any], steps: Steps) -> None:
    from chronotile.change.consolidate import consolidate
    from chronotile.change.vacuum import vacuum
    from chronotile.rows.apply import apply_updates
    from chronotile.storage.store import open_store

    def hook(operation: str, path: str) -> None:
        del path
        # Whoever is killed at a list or a read leaves what the last change left.
        if operation.partition(".")[0] in ("put", "copy", "remove"):
            steps.step()

    store = open_store(asked["array"], asked["options"], on_operation=hook)
    if "{" in asked["what"]:
        _time_machine(asked, store)
        return
    # Such as `consolidate`, `consolidate fragment-meta` or `vacuum deletes`.
    command, _, more = asked["what"].partition(" ")
    options = {"deletes": True} if more == "deletes" else {"mode": more} if more else {}
    run: Any = {"consolidate": consolidate, "vacuum": vacuum, "apply": apply_updates}[command]
    run(asked["array"], store=store, **options)


def _time_machine(asked: dict[str, Any], store: Any) -> None:
    """Such as `restore {"to": 20}`; of a second run there may be nothing left to do."""
    import chronotile
    from chronotile.check.findings import RefusedError

    command, _, options = asked["what"].partition(" ")
    known = {"target_store" if command == "clone" else "store": store}
    if command in ("clone", "publish"):
        known["storage_options"] = asked["options"]
    place = "target" if command in ("clone", "publish") else "array"
    try:
        getattr(chronotile, command)(**json.loads(options), **{place: asked["array"]}, **known)
    except RefusedError as error:
        done = ("taken back already", "expected a delete or update, found", "found it")
        if not any(words in error.problem for words in done):
            raise


if __name__ == "__main__":
    # Loaded before the forks.
    import chronotile.change.consolidate
    import chronotile.change.vacuum
    import chronotile.rows.apply
    import chronotile.time_machine.clone
    import chronotile.time_machine.publish
    import chronotile.time_machine.undelete
    import chronotile.time_machine.undo  # noqa: F401

    serve(_child)
