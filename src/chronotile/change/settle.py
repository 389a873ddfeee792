"""Settle: what a change that was broken off has left is finished, or taken back.

In: an array or a group's own files. Out: the same without halves of changes, and a note on each of
them. Every change begins with this, so that it plans on an array that is as some change left it.

A change is broken off if its record says `begun` and nobody can be running it any more. Then:

    an undo          is finished
    a removal        stays as it is: every stop of it leaves all windows as they were
    all steps done   counts as done
    anything else    is taken back by its record, as `undo` would

A change that others have built on since stays as it is.
"""

from __future__ import annotations

import hashlib
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple

from chronotile.change import operations
from chronotile.change.executor import execute, mark_undone
from chronotile.change.plan import FOLDERS
from chronotile.change.undo import is_whole_folder, plan_inverse, read_record, standing_record
from chronotile.check.findings import RefusedError
from chronotile.errors import ChronotileError
from chronotile.format.timestamps import time_text
from chronotile.storage.store import MissingObjectError
from chronotile.storage.transfer import sweep_scratch

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from chronotile.change.operations import Operation, State, Who
    from chronotile.change.plan import Plan
    from chronotile.change.undo import ChangeRecord
    from chronotile.storage.store import Store


class Settled(NamedTuple):
    """The settlement of a change that was broken off."""

    operation: Operation
    state: State
    words: str
    plan: Plan | None = None
    """The steps that it takes."""
    undoes: str | None = None
    """The operation that it takes back, if it is an undo."""
    options: Mapping[str, Any] | None = None
    """The options of a change that had done everything, and was not a part of a group's."""

    def did(self, command: str, who: Who | None) -> bool:
        """Tell whether it had done all of a change that is asked for once more."""
        if who is None or self.operation.command != command:
            return False
        return self.options is not None and self.options == who.options

    @property
    def is_back(self) -> bool:
        """Return True if it takes something back, so that an undo need not do more."""
        return self.state in ("failed", "undone") or self.undoes is not None

    @property
    def note(self) -> str:
        """The words, with the change that they are about."""
        return f"{_what(self.operation)} was broken off: {self.words}"


def _what(operation: Operation) -> str:
    return f"{operation.command} {operation.id} of {time_text(operation.at_ms)}"


def settle(
    store: Store, key: bytes | None, *, exclusive: bool, dry_run: bool = False
) -> tuple[Settled, ...]:
    """Finish or take back what changes that were broken off have left, and sweep their scratch.

    Args:
        store: The array, or the group.
        key: Its key.
        exclusive: The change that comes next is an exclusive one.
        dry_run: Only say what is to be done.

    Raises:
        RefusedError: Another change is under way.
    """
    found = []
    if store.local_path is not None and not dry_run:
        sweep_scratch(str(store.local_path / operations.SCRATCH))
    for operation, document in broken_off(store, exclusive=exclusive and not dry_run):
        if "members" in document:
            continue  # `dataset` settles what was done to a whole group
        with unless_settled(store, operation):
            settled = _settlement(store, key, operation)
            if not dry_run:
                carry_out_settlement(store, settled)
            found.append(settled)
    return tuple(found)


@contextmanager
def unless_settled(store: Store, operation: Operation) -> Iterator[None]:
    """Pass over an error in the settlement of a change that somebody else has settled meanwhile."""
    try:
        yield
    except ChronotileError:
        if operation in operations.list_operations(store):
            raise


def broken_off(
    store: Store, *, exclusive: bool = False
) -> Iterator[tuple[Operation, Mapping[str, Any]]]:
    """Find the changes that were broken off, with their records.

    Raises:
        RefusedError: An exclusive change is under way, and the next one is exclusive too.
    """
    names: tuple[str, ...] | None = None
    for operation in operations.list_operations(store):
        if operation.state != "begun":
            continue
        names = operations.schema_names(store) if names is None else names
        try:
            document = operations.read_operation(store, operation)
        except MissingObjectError:
            continue  # it has just ended
        if not operations.is_of_this(document, store, names):
            continue
        if not operations.may_be_running(operation, document):
            yield operation, document
        elif exclusive and document.get("exclusive"):
            problem = f"expected no other change, found {_what(operation)} under way"
            raise RefusedError(store.uri, f"{problem}; try again when it has ended")


def _settlement(store: Store, key: bytes | None, operation: Operation) -> Settled:
    """Plan to take back one change that was broken off, or to finish it."""
    record = read_record(store, operation)
    known = operations.list_operations(store)
    undoes = str(record.document.get("undoes"))
    undone = [one for one in known if one.id == undoes] if record.command == "undo" else []
    if undone:
        try:
            plan = plan_inverse(store, key, standing_record(store, known, undone[0]), begun=record)
        except RefusedError as error:
            # Others have built on it since: no later change may fail for that.
            return Settled(operation, "final", f"it stays as it is: {error.problem}")
        return Settled(operation, "done", "it is finished", plan, undoes)
    if record.removes:
        # Every stop of a removal leaves all windows as they were; what it put may be needed.
        return Settled(operation, "failed", "what it removed stays removed")
    if is_complete(store, record):
        options = None if "group" in record.document else record.document.get("options", {})
        return Settled(operation, "done", "it had done everything", options=options)
    try:
        plan = plan_inverse(store, key, record)
    except RefusedError as error:
        return Settled(operation, "final", f"it stays as it is: {error.problem}")
    return Settled(operation, "failed", "it is taken back", plan)


def carry_out_settlement(store: Store, settled: Settled) -> None:
    """Do what a settlement takes, and write down the new state."""
    if settled.plan is not None:
        record = read_record(store, settled.operation)
        numbers = quarantine_numbers(record) if settled.undoes is not None else None
        plan = replace(settled.plan, undoes=None)
        execute(store, plan, None, operation=settled.operation, numbers=numbers)
    if settled.undoes is not None:
        mark_undone(store, settled.undoes)
    operations.change_state(store, settled.operation, settled.state)


def quarantine_numbers(record: ChangeRecord) -> dict[tuple[str, str], int]:
    """Give a number to each step of a change that keeps a file in its quarantine."""
    steps = [(str(step.get("op")), str(step.get("path"))) for step in record.steps]
    kept = (step for step in steps if step[0] in ("move", "replace"))
    return {step: number for number, step in enumerate(kept)}


def is_complete(store: Store, record: ChangeRecord) -> bool:
    """Tell whether a change that was broken off had done every step."""
    last: dict[str, Mapping[str, Any]] = {str(step.get("path")): step for step in record.steps}
    for path, step in last.items():
        if step.get("op") in FOLDERS:
            if not is_whole_folder(store, path, step.get("files") or {}):
                return False
            continue
        try:
            data: bytes | None = store.read(path)
        except MissingObjectError:
            data = None
        if step.get("op") == "move":
            if data is not None:
                return False
        elif data is None or hashlib.sha256(data).hexdigest() != step.get("sha256"):
            return False
    return True
