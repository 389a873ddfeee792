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
    from chronotile.change.consolidate import consolidate
    from chronotile.change.vacuum import vacuum
    from chronotile.rows.apply import apply_updates
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
        _time_machine(asked, store)
        return
    if asked["what"].endswith("-group"):
        _group(asked, store)
        return
    # Such as `consolidate`, `consolidate fragment-meta` or `vacuum deletes`.
    command, _, more = asked["what"].partition(" ")
    options = {"deletes": True} if more == "deletes" else {"mode": more} if more else {}
    run: Any = {"consolidate": consolidate, "vacuum": vacuum, "apply": apply_updates}[command]
    run(asked["array"], store=store, **options)


def _group(asked: dict[str, Any], store: Any) -> None:
    """Such as `consolidate-group`: the files of a group itself."""
    from chronotile.change.consolidate_group import consolidate_group
    from chronotile.change.repair_group import repair_group
    from chronotile.change.vacuum_group import vacuum_group

    known: dict[str, Any] = {
        "consolidate-group": consolidate_group,
        "repair-group": repair_group,
        "vacuum-group": vacuum_group,
    }
    known[asked["what"]](asked["array"], store=store)


def _time_machine(asked: dict[str, Any], store: Any) -> None:
    """Such as `restore {"to": 20}`; of a second run there may be nothing left to do."""
    import chronotile
    from chronotile.check.findings import RefusedError
    from chronotile.rows.restore_rows import restore_rows
    from chronotile.time_machine import restore
    from chronotile.time_machine.tag import add_tag, remove_tag

    # No test waits for seconds that a real bucket may need.
    restore._LEAD_MS["bucket"] = 200
    command, _, given = asked["what"].partition(" ")
    options = json.loads(given)
    if command.endswith("_dataset"):
        _of_dataset(command, store, options)
        return
    known = {"target_store" if command == "clone" else "store": store}
    if command in ("clone", "publish"):
        known["storage_options"] = asked["options"]
    place = "target" if command in ("clone", "publish") else "array"
    more: dict[str, Any] = {"rewrite": restore_rows, "tag": add_tag, "untag": remove_tag}
    run = more.get(command) or getattr(chronotile, command)
    try:
        run(**options, **{place: asked["array"]}, **known)
    except RefusedError as error:
        done = ["taken back already", "expected a delete or update, found"]
        done += ["expected the name of a tag"]
        if not any(words in error.problem for words in done):
            raise


def _of_dataset(command: str, store: Any, options: dict[str, Any]) -> None:
    """Such as `tag_dataset {"name": "v1"}`."""
    from chronotile.change.beside_array import save_begun
    from chronotile.check.findings import RefusedError
    from chronotile.dataset import publish_members, tag_members
    from chronotile.dataset.open_dataset import Dataset
    from chronotile.history.group_reading import read_group

    known = store.watched(None)
    run = getattr(tag_members, command, None) or getattr(publish_members, command)
    try:
        dataset = Dataset(store, read_group(store))
        run(dataset, before=lambda plan: save_begun(known, plan) and None, **options)
    except RefusedError as error:
        if "expected the name of a group's tag" not in error.problem:
            raise


if __name__ == "__main__":
    # Loaded before the forks.
    import chronotile.change.consolidate
    import chronotile.change.consolidate_group
    import chronotile.change.repair_group
    import chronotile.change.vacuum
    import chronotile.change.vacuum_group
    import chronotile.dataset.publish_members
    import chronotile.dataset.tag_members
    import chronotile.rows.apply
    import chronotile.rows.restore_rows
    import chronotile.time_machine.clone
    import chronotile.time_machine.publish
    import chronotile.time_machine.undelete
    import chronotile.time_machine.undo  # noqa: F401

    serve(_child)
