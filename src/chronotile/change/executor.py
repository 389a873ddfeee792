"""The one place where a plan becomes a change.

In: a store and a plan. Out: the array changed, and the report of what was done. Decides nothing:
the plan says what happens in which order, and what to look at again just before.

The order: write down what is about to happen, then stage by stage look, put, switch, remove; then
write down how it ended. Nothing is taken for done before the storage has confirmed it. A run that
is broken off stops inside of one stage, which says what a reader sees then.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace
from itertools import groupby
from typing import TYPE_CHECKING

from chronotile.change import operations
from chronotile.change.plan import Report, lasting
from chronotile.check.findings import count_text
from chronotile.errors import ChangedError, ChronotileError, StorageError
from chronotile.storage.compared_put import put_compared
from chronotile.storage.store import MissingObjectError, ObjectExistsError
from chronotile.storage.swap import swap
from chronotile.storage.transfer import Transfer

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from chronotile.change.operations import Operation, Who
    from chronotile.change.plan import Before, Plan, Step
    from chronotile.check.findings import Finding
    from chronotile.storage.store import Store

ATTEMPTS = 3
"""How often to plan a change that somebody else disturbs."""


def execute(
    store: Store,
    plan: Plan,
    who: Who | None = None,
    *,
    operation: Operation | None = None,
    again: Callable[[], Plan] | None = None,
    before: Before = None,
) -> Report:
    """Carry out a plan.

    Args:
        store: The array, or the group.
        plan: What to do.
        who: What the record of the operation says of its author; None leaves no record.
        operation: The operation that this is a part of, if somebody else keeps its record.
        again: Plans the change once more, if somebody else changed the same files meanwhile.
        before: Called with the planned steps, before anything is written.

    Raises:
        ChangedError: Somebody else changes the same files; try again.
        StorageError: The storage failed, or the record cannot be written.
    """
    if not plan.steps:
        return replace(plan.report(), dry_run=False)
    if before is not None:
        before(plan.report())
    begun = None
    if operation is None and who is not None:
        begun = operations.begin(store, plan.report(), who)
    run = _Run(store, plan, operation or begun)
    try:
        for attempt in range(1, ATTEMPTS + 1):
            try:
                run.run()
                break
            except ChangedError:
                if again is None or attempt == ATTEMPTS:
                    raise
            run = _Run(store, again(), operation or begun)
    except Exception as error:
        if begun is not None and who is not None:
            failed = replace(run.report(), notes=(*run.notes, f"it failed: {error}"))
            # A storage that fails may refuse this too: then the record says `begun`.
            with suppress(ChronotileError):
                operations.end(store, begun, failed, who, "failed")
        raise
    report = run.report()
    if begun is not None and who is not None:
        operations.end(store, begun, report, who)
    return report


class _Run:
    """One run of a plan."""

    def __init__(self, store: Store, plan: Plan, operation: Operation | None) -> None:
        self.store, self.plan, self.operation = store, plan, operation
        self.done: list[Step] = []
        self.notes: list[str] = [*plan.notes]
        self.findings: list[Finding] = [*plan.findings]
        self.kept = 0
        """Files in the quarantine so far."""

    def report(self) -> Report:
        """Report what was done so far."""
        return replace(
            self.plan.report(),
            dry_run=False,
            steps=lasting(self.done),
            notes=tuple(self.notes),
            findings=tuple(self.findings),
        )

    def run(self) -> None:
        """Carry out every stage."""
        for stage in self.plan.stages:
            for look in stage.looks:
                seen = look(self.store)
                if seen is not None:
                    self._do(seen.steps)
                    self.notes += seen.notes
                    if seen.findings is not None:
                        self.findings = [*seen.findings]
            self._do(stage.steps)
            for folder in stage.folders:
                self.store.remove_folder(folder)

    def _do(self, steps: Sequence[Step]) -> None:
        for op, some in groupby(steps, key=lambda step: step.op):
            batch = tuple(some)
            if op == "remove":
                self.store.remove(step.path for step in batch)
                self.done += batch
                continue
            for step in batch:
                if op == "put":
                    self._put(step)
                elif op == "copy":
                    _copy(self.store, step)
                elif op == "replace":
                    swap(self.store, step.path, step.old, step.data)
                else:
                    self._move(step)
                self.done.append(step)

    def _put(self, step: Step) -> None:
        """Put a file; the same file from a run that was broken off is no error."""
        try:
            put_compared(self.store, step.path, step.data)
        except ObjectExistsError:
            if self.store.read(step.path, limit=len(step.data) * 2 + 1) != step.data:
                problem = "expected to be the one who writes it, found another; try again"
                raise ChangedError(self.store.uri_of(step.path), problem) from None
        except ChangedError:
            if not step.may_vanish:
                raise
            self.notes.append(f"{step.path} is gone already: another maintainer's file replaced it")

    def _move(self, step: Step) -> None:
        """Move a file into the quarantine: it leaves the array after its copy was compared."""
        assert self.operation is not None  # whoever moves files wants them back
        name = f"{self.kept:04}-{step.path.rpartition('/')[2]}"
        put_compared(self.store, f"{self.operation.quarantine}/{name}", step.data)
        self.kept += 1
        if self.store.read(step.path) != step.data:
            problem = "expected the bytes that were read before, found others"
            raise ChangedError(self.store.uri_of(step.path), problem)
        self.store.remove([step.path])


def _copy(store: Store, step: Step) -> None:
    source = step.source
    assert source is not None
    try:
        Transfer(source.store, store).files(source.names)
    except MissingObjectError as cause:
        problem = "expected it to stay, found it gone: the array is changing; try again"
        raise ChangedError(cause.where, problem) from cause
    found = {entry.path: entry.size for entry in store.list_prefix(step.path, sizes=True)}
    if found != dict(source.sizes):
        files = count_text(len(found), "file")
        problem = f"expected a copy of the same sizes, found {files} with differences"
        raise StorageError(store.uri_of(step.path), problem)
