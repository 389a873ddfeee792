"""Maintenance that is killed at a chosen storage operation.

In: what to run, on which array, and when to die. Out: whether it was killed, and how many changes
it began and ended.
"""

from __future__ import annotations

import importlib
import json
import os
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
        less: tuple[str, ...] = (),
    ) -> tuple[bool, int]:
        """Run to the end, or to the operation; give whether it was killed, and the count.

        Args:
            what: What to run.
            array: Where.
            options: Those of the storage.
            die_at: The operation.
            less: Operations that do not count: `begins` (between the end of one change and the
                begin of the next nothing changes), or those in folders such as `__fragments`.
        """
        asked = {"what": what, "array": array, "options": options or {}, "less": less}
        return self._process.run(**asked, die_at=die_at)


@contextmanager
def crasher() -> Iterator[Crasher]:
    """Run the warm process until the block ends."""
    with forks(__file__) as process:
        yield Crasher(process)


def _child(asked: dict[str, Any], steps: Steps) -> None:
    from chronotile.array import Array
    from chronotile.storage.store import open_store

    less = set(asked.get("less", ()))

    def hook(operation: str, path: str) -> None:
        if not less.isdisjoint(path.split("/")):
            return
        if "begins" in less and not operation.endswith(".done"):
            return
        # Whoever is killed at a list or a read leaves what the last change left.
        if operation.partition(".")[0] in ("put", "copy", "remove"):
            steps.step()

    store = open_store(asked["array"], asked["options"], on_operation=hook)
    if "{" in asked["what"]:
        _with_options(asked, store)
        return
    if asked["what"].endswith("-group"):
        _group(asked, store)
        return
    # Such as `consolidate`, `consolidate fragment-meta` or `vacuum deletes`.
    command, _, more = asked["what"].partition(" ")
    options: dict[str, Any] = {"deletes": True} if more == "deletes" else {}
    options |= {"mode": more} if more and more != "deletes" else {}
    getattr(Array(store), command)(**options)


def _group(asked: dict[str, Any], store: Any) -> None:
    """Such as `consolidate-group`: the files of a group itself."""
    from support import verbs

    getattr(verbs, asked["what"].replace("-", "_"))(asked["array"], store=store)


def _with_options(asked: dict[str, Any], store: Any) -> None:
    """Such as `restore {"to": 20}`; of a second run there may be nothing left to do."""
    from chronotile.array import Array
    from chronotile.change import clone, restore
    from chronotile.errors import ChronotileError
    from chronotile.group import Group
    from chronotile.storage.store import open_store

    # No test waits for seconds that a real bucket may need.
    restore._LEAD_MS["slow"] = 200
    command, _, given = asked["what"].partition(" ")
    options = json.loads(given)
    if command == "clone":
        source = open_store(options.pop("source"), asked["options"])
        clone.clone(source, store, None, **options)
        return
    verb, _, of_group = command.partition("_")
    place = Group(store) if of_group else Array(store)
    if verb == "rewrite":
        verb, options = "restore", {"rewrite": True, **options}
    try:
        getattr(place, verb)(**options)
    except ChronotileError as error:
        done = [
            "is undone already",
            "expected a delete or update, found",
            "nothing to undo",
        ]
        done += ["there is no tag", "the group has no tag"]
        # A delete that was taken out for ever.
        done += ["fits no commit"] if verb == "undelete" else []
        if not any(words in error.problem for words in done):
            raise


if __name__ == "__main__":
    # Loaded before the forks. NumPy's library for matrices would start threads.
    os.environ["OPENBLAS_NUM_THREADS"] = "1"
    for name in (
        "array",
        "group",
        "change.clone",
        "change.older_records",
        "change.publish",
        "change.settle",
        "change.undo",
        "dataset.publish_members",
        "dataset.tag_members",
        "dataset.undo_members",
        "rows.apply",
        "rows.compact",
        "rows.counted",
        "rows.erase",
        "rows.ways_back",
        "storage.bucket",
        "visibility.explanation",
    ):
        importlib.import_module(f"chronotile.{name}")
    for name in ("support.verbs", "getpass", "numpy.ma"):
        importlib.import_module(name)
    # What loading the engine, and the first array of Arrow, takes is as much as most tasks take.
    importlib.import_module("chronotile.rows.engine").require_engine()
    importlib.import_module("pyarrow").array([1])
    serve(_child)
