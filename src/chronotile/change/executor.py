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
from chronotile.storage.transfer import Transfer

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from chronotile.change.operations import Operation, Who
    from chronotile.change.plan import Before, Plan, Stage, Step
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
    exclusive: bool = False,
    again: Callable[[], Plan] | None = None,
    before: Before = None,
) -> Report:
    """Carry out a plan.

    Args:
        store: The array, or the group.
        plan: What to do.
        who: What the record of the operation says of its author; None leaves no record.
        operation: The operation that this is a part of, if somebody else keeps its record.
        exclusive: Other such changes are refused until this one has ended.
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
        # Files that are put and removed again are named too: a run that is killed may leave them.
        planned = replace(plan.report(), steps=plan.steps)
        begun = operations.begin(store, planned, who, exclusive=exclusive)
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
    if plan.undoes is not None:
        _mark_undone(store, plan.undoes)
    return report if begun is None else replace(report, operation=begun.id)


def _mark_undone(store: Store, undone: str) -> None:
    """Mark an operation that was taken back; taking back an undo brings its change again."""
    by_id = {one.id: one for one in operations.list_operations(store)}
    target = by_id.get(undone)
    if target is None:
        return
    before = operations.read_operation(store, target).get("undoes")
    operations.change_state(store, target, "undone")
    if before in by_id:
        operations.change_state(store, by_id[before], "done")


class _Run:
    """One run of a plan."""

    def __init__(self, store: Store, plan: Plan, operation: Operation | None) -> None:
        self.store, self.plan = store, plan
        self.done: list[Step] = []
        self.notes: list[str] = [*plan.losses, *plan.notes]
        self.findings: list[Finding] = [*plan.findings]
        # Without a record there is no way back, but what goes out is kept all the same.
        self.quarantine = operations.new_quarantine() if operation is None else operation.quarantine
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
            self._run(stage)

    def _run(self, stage: Stage) -> None:
        leave: frozenset[str] = frozenset()
        for look in stage.looks:
            seen = look(self.store)
            if seen is None:
                continue
            self._do(seen.steps)
            for other in seen.stages:
                self._run(other)
            leave |= seen.leave
            self.notes += seen.notes
            if seen.findings is not None:
                self.findings = [*seen.findings]
        self._do([step for step in stage.steps if step.path not in leave])
        for folder in stage.folders:
            if folder not in leave:
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
                    self._replace(step)
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

    def _kept(self, path: str) -> str:
        """Give the place of the next file in the quarantine."""
        number, self.kept = self.kept, self.kept + 1
        return f"{self.quarantine}/{number:04}-{path.rpartition('/')[2]}"

    def _replace(self, step: Step) -> None:
        """Exchange the content of a file in one step; the quarantine keeps what was there."""
        with suppress(ObjectExistsError):
            put_compared(self.store, self._kept(step.path), step.old)
        self.store.exchange(step.path, step.old, step.data)

    def _move(self, step: Step) -> None:
        """Move a file into the quarantine: it leaves the array after its copy was compared."""
        kept = self._kept(step.path)
        if step.source is not None:
            self._move_folder(step, kept)
            return
        with suppress(ObjectExistsError):
            put_compared(self.store, kept, step.data)
        if self.store.read(step.path) != step.data:
            problem = "expected the bytes that were read before, found others"
            raise ChangedError(self.store.uri_of(step.path), problem)
        self.store.remove([step.path])

    def _move_folder(self, step: Step, kept: str) -> None:
        """Move a folder likewise, file by file."""
        assert step.source is not None
        start = len(step.path) + 1
        names = {path: f"{kept}/{path[start:]}" for path in step.source.names}
        _transfer(self.store, self.store, names)
        sizes = {names[path]: size for path, size in step.source.sizes.items()}
        _compare(self.store, kept, sizes)
        self.store.remove_folder(step.path)


def _copy(store: Store, step: Step) -> None:
    source = step.source
    assert source is not None
    for path, data in source.content.items():
        # No commit names the folder yet: a run that was broken off may have left another file.
        try:
            store.put_if_absent(path, data)
        except ObjectExistsError:
            store.remove([path])
            store.put_if_absent(path, data)
    if source.store is not None:
        _transfer(source.store, store, source.names)
    _compare(store, step.path, source.sizes)


def _transfer(source: Store, target: Store, names: Mapping[str, str]) -> None:
    try:
        Transfer(source, target).files(names)
    except MissingObjectError as cause:
        problem = "expected it to stay, found it gone: the array is changing; try again"
        raise ChangedError(cause.where, problem) from cause


def _compare(store: Store, folder: str, sizes: Mapping[str, int | None]) -> None:
    """Compare the sizes of copied files with what they should be."""
    found = {entry.path: entry.size for entry in store.list_prefix(folder, sizes=True)}
    if found != dict(sizes):
        files = count_text(len(found), "file")
        problem = f"expected a copy of the same sizes, found {files} with differences"
        raise StorageError(store.uri_of(folder), problem)
