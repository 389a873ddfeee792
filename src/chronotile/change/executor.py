"""The one place where a plan becomes a change.

In: a store and a plan. Out: the array changed, and the report of what was done. Decides nothing:
the plan says what happens in which order, and what to look at again just before. A few looks act
themselves: `plan.Look` names them.

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
from chronotile.change.operations import QUARANTINE
from chronotile.change.plan import FOLDERS, Report, lasting
from chronotile.check.findings import count_text
from chronotile.errors import ChangedError, ChronotileError, StorageError
from chronotile.storage.prefetch import ahead
from chronotile.storage.store import MissingObjectError, ObjectExistsError, put_compared
from chronotile.storage.transfer import Transfer

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping, Sequence

    from chronotile.change.operations import Operation, Who
    from chronotile.change.plan import Before, Plan, Seen, Source, Stage, Step
    from chronotile.check.findings import Finding
    from chronotile.storage.store import Store
    from chronotile.storage.transfer import Link

ATTEMPTS = 3
"""How often to plan a change that somebody else disturbs."""


def execute(
    store: Store,
    plan: Plan,
    who: Who | None = None,
    *,
    operation: Operation | None = None,
    numbers: Mapping[tuple[str, str], int] | None = None,
    exclusive: bool = False,
    known: Collection[Operation] | None = None,
    again: Callable[[], Plan] | None = None,
    before: Before = None,
    on_file: Callable[[], None] | None = None,
) -> Report:
    """Carry out a plan.

    Args:
        store: The array, or the group.
        plan: What to do.
        who: What the record of the operation says of its author; None leaves no record.
        operation: The operation that this is a part of, if somebody else keeps its record.
        numbers: Operation and path of a step -> its number in the quarantine, if this goes on with
            a run that was broken off.
        exclusive: Other such changes are refused until this one has ended.
        known: The operations that were there before it was planned.
        again: Plans the change once more, if somebody else changed the same files meanwhile.
        before: Called with the planned steps, before anything is written.
        on_file: Called after each file that is copied.

    Raises:
        ChangedError: Somebody else changes the same files; try again.
        StorageError: The storage failed, or the record cannot be written.
        RefusedError: Another change is under way, or has ended since this one was planned.
    """
    if not plan.steps and not any(stage.folders for stage in plan.stages):
        return replace(plan.report(), dry_run=False)
    if before is not None:
        before(plan.report())
    run = Execution(
        store,
        plan,
        who,
        operation=operation,
        numbers=numbers,
        exclusive=exclusive,
        known=known,
        on_file=on_file,
    )
    for attempt in range(1, ATTEMPTS + 1):
        try:
            run.advance()
        except ChangedError as error:
            if again is None or attempt == ATTEMPTS:
                run.fail(error)
                raise
            run.plan_again(again())
        except Exception as error:
            run.fail(error)
            raise
        else:
            break
    return run.end()


def mark_undone(store: Store, undone: str) -> None:
    """Mark an operation that was taken back; what it took back itself is done again, and so on."""
    by_id = {one.id: one for one in operations.list_operations(store)}
    state: operations.State = "undone"
    while (one := by_id.pop(undone, None)) is not None:
        undone = str(operations.read_operation(store, one).get("undoes"))
        if one.state != state:
            operations.change_state(store, one, state)
        state = "done" if state == "undone" else "undone"


class Execution:
    """One run of a plan: `execute` takes it from the first stage to the last."""

    def __init__(
        self,
        store: Store,
        plan: Plan,
        who: Who | None,
        *,
        operation: Operation | None = None,
        numbers: Mapping[tuple[str, str], int] | None = None,
        exclusive: bool = False,
        known: Collection[Operation] | None = None,
        on_file: Callable[[], None] | None = None,
    ) -> None:
        """Write down what is about to happen, unless somebody else keeps the record."""
        self.store, self.who, self._on_file = store, who, on_file
        self._begun: Operation | None = None
        if operation is None and who is not None:
            # Files that are put and removed again are named too: a killed run may leave them.
            planned = replace(plan.report(), steps=plan.steps, facts={})
            self._begun = operations.begin(store, planned, who, exclusive=exclusive, known=known)
        operation = operation or self._begun
        # Without a record there is no way back, but what goes out is kept where that can be done.
        self.quarantine = operations.new_quarantine() if operation is None else operation.quarantine
        self._keeps = operation is not None or self._can_keep(plan)
        self._quarantined = 0
        """Files in the quarantine so far."""
        self._numbers = numbers or {}
        self._touched = False
        """Whether a step has begun."""
        self.plan_again(plan)

    def _can_keep(self, plan: Plan) -> bool:
        """Tell whether the quarantine can be written, if the plan needs it."""
        if not any(step.op in ("move", "replace") for step in plan.steps):
            return True
        path = f"{self.quarantine}/trial"
        try:
            self.store.put_if_absent(path, b"")
        except ChronotileError:
            return False
        self.store.remove([path])
        return True

    def plan_again(self, plan: Plan) -> None:
        """Begin at the first stage of a plan."""
        self.plan = plan
        self.done: list[Step] = []
        self.checksums: dict[str, str] = {}
        self.notes: list[str] = [*plan.losses, *plan.notes]
        self.findings: list[Finding] = [*plan.findings]
        self.added: list[str] = [*plan.added]
        self.hidden: list[str] = [*plan.hidden]
        self._recorded: list[Step] = [*plan.steps]
        self._next = 0

    def report(self) -> Report:
        """Report what was done so far."""
        planned, steps = self.plan.report(), lasting(self.done)
        if not steps:  # all of it was left alone, or taken back
            planned = replace(planned, rows={}, engine_open_requests=None)
        notes = self.notes
        if not self._keeps:
            notes = [*notes, f"{QUARANTINE} cannot be written: no copy of what went out is kept"]
        return replace(
            planned,
            dry_run=False,
            steps=steps,
            notes=tuple(notes),
            findings=tuple(self.findings),
            added=tuple(self.added),
            checksums=self.checksums,
            hidden=tuple(self.hidden),
            quarantine=self.store.uri_of(self.quarantine) if self._quarantined else None,
            operation=None if self._begun is None else self._begun.id,
        )

    def advance(self, until: int | None = None) -> None:
        """Carry out the stages up to one, by its number; all that are left, without it."""
        last = len(self.plan.stages) if until is None else until
        try:
            while self._next < last:
                self._run(self.plan.stages[self._next])
                self._next += 1
        except KeyboardInterrupt:  # in a notebook the process goes on, and the run does not
            if self._begun is not None:
                operations.give_up(self._begun)
            raise

    def look(self) -> None:
        """Look at what the next stage relies on, before it comes; see `Stage.looks`."""
        if self._next < len(self.plan.stages):
            for look in self.plan.stages[self._next].looks:
                look(self.store)

    def fail(self, error: Exception) -> None:
        """Write down that the run has failed; the next change settles what it has begun."""
        if self._begun is None or self.who is None:
            return
        note = f"it failed: {error}"
        # Looks may have written fragments; of anything else that was put, a step has begun.
        if self._touched or any(step.op in FOLDERS for step in self._recorded):
            operations.abandon(self.store, self._begun, note)
            return
        failed = replace(self.report(), notes=(*self.notes, note))
        with suppress(ChronotileError):  # a storage that fails may refuse this too
            operations.end(self.store, self._begun, failed, self.who, "failed")

    def end(self) -> Report:
        """Write down what was done, and report it."""
        if self.plan.undoes is not None:
            # Before the undo has ended: if it is broken off here, `settle` does this once more.
            try:
                mark_undone(self.store, self.plan.undoes)
            except ChronotileError:
                if self._begun is not None:
                    operations.give_up(self._begun)
                    raise
                self.notes.append(f"the record of {self.plan.undoes} stays: it cannot be written")
        report = self.report()
        if self._begun is not None and self.who is not None:
            # What was taken back again is no change, and an undo passes it over.
            state = report.state if report.steps else "failed"
            operations.end(self.store, self._begun, report, self.who, state)
        if report.steps and self.plan.finals:
            operations.mark_final(self.store, self.plan.finals)
        return report

    def _run(self, stage: Stage) -> None:
        leave: frozenset[str] = frozenset()
        for look in stage.looks:
            seen = look(self.store)
            if seen is None:
                continue
            self._do(seen.steps)
            self._write_down(seen)
            for other in seen.stages:
                self._run(other)
            self._go_aside(seen)
            leave |= seen.leave
            self.notes += seen.notes
            self.added += seen.added
            self.hidden += seen.hidden
            if seen.findings is not None:
                self.findings = [*seen.findings]
        self._do([step for step in stage.steps if step.path not in leave])
        for folder in stage.folders:
            if folder not in leave:
                self.store.remove_folder(folder)
                copied = [one for one in self.done if one.op in FOLDERS and one.path == folder]
                self.done = [one for one in self.done if one not in copied]

    def _write_down(self, seen: Seen) -> None:
        """Add the steps that a look has found to the record, before they begin."""
        fresh = [step for stage in seen.stages for step in stage.steps]
        if not fresh or self._begun is None or self.who is None:
            return
        self._recorded = [step for step in self._recorded if step.path not in seen.leave] + fresh
        self._go_on(hides=seen.hides)

    def _go_aside(self, seen: Seen) -> None:
        """Write down that a compact works away from the array again, if more of it is to come."""
        is_last = self._next == len(self.plan.stages) - 1
        if self.plan.command == "compact" and seen.leave and seen.stages and not is_last:
            self._go_on(aside=True)

    def _go_on(self, *, aside: bool = False, hides: tuple[str, ...] = ()) -> None:
        if self._begun is not None and self.who is not None:
            steps, hidden = tuple(self._recorded), (*self.hidden, *hides)
            planned = replace(self.plan.report(), steps=steps, hidden=hidden, facts={})
            operations.go_on(self.store, self._begun, planned, self.who, aside=aside)

    def _do(self, steps: Sequence[Step]) -> None:
        self._touched |= bool(steps)
        for op, some in groupby(steps, key=lambda step: step.op):
            batch = tuple(some)
            if op == "remove":
                self.store.remove(step.path for step in batch)
                self.done += batch
                continue
            if op in FOLDERS:
                self.checksums |= _copy(self.store, batch, self._on_file)
                self.done += batch
                continue
            for step in batch:
                if op == "put":
                    self._put(step)
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

    def _next_quarantined(self, step: Step) -> str:
        """Give the place of the next file in the quarantine."""
        number = self._numbers.get((step.op, step.path), self._quarantined)
        self._quarantined += 1
        return f"{self.quarantine}/{number:04}-{step.path.rpartition('/')[2]}"

    def _replace(self, step: Step) -> None:
        """Exchange the content of a file in one step; the quarantine keeps the old, if asked."""
        if step.keep and self._keeps:
            with suppress(ObjectExistsError):
                put_compared(self.store, self._next_quarantined(step), step.old)
        self.store.exchange(step.path, step.old, step.data)

    def _move(self, step: Step) -> None:
        """Move a file into the quarantine: it leaves the array after its copy was compared."""
        if step.source is not None:
            self._move_folder(step)
            return
        if self._keeps:
            with suppress(ObjectExistsError):
                put_compared(self.store, self._next_quarantined(step), step.data)
        if self.store.read(step.path) != step.data:
            problem = "expected the bytes that were read before, found others"
            raise ChangedError(self.store.uri_of(step.path), problem)
        self.store.remove([step.path])

    def _move_folder(self, step: Step) -> None:
        """Move a folder into the quarantine, file by file."""
        assert step.source is not None
        if self._keeps:
            kept, start = self._next_quarantined(step), len(step.path) + 1
            names = {path: f"{kept}/{path[start:]}" for path in step.source.names}
            _transfer(self.store, self.store, names)
            sizes = {names[path]: size for path, size in step.source.sizes.items()}
            # A run that was broken off may have moved some of the files already.
            _compare(self.store, kept, sizes, more=True)
        self.store.remove_folder(step.path)


def _copy(
    store: Store, steps: Sequence[Step], on_file: Callable[[], None] | None
) -> dict[str, str]:
    """Copy folders and files, many files at once, and compare the sizes of folders.

    Returns:
        Path -> SHA-256 of the bytes that went through this process.
    """
    checksums: dict[str, str] = {}
    at_hand: list[tuple[Step, str, bytes]] = []
    taken: dict[tuple[Store, Link], list[Source]] = {}
    for step in steps:
        source = step.source
        assert source is not None
        at_hand += [(step, path, data) for path, data in source.content.items()]
        if source.store is not None:
            taken.setdefault((source.store, source.link), []).append(source)
    for _ in ahead(lambda one: _write(store, *one), at_hand, store.concurrency):
        pass
    for (other, link), sources in taken.items():
        if link == "symbolic":  # of whole folders
            transfer = Transfer(other, store, link)
            for old, new in (pair for source in sources for pair in source.names.items()):
                transfer.folder(old, new)
            continue
        names = {old: new for source in sources for old, new in source.names.items()}
        sizes = {path: size for source in sources for path, size in source.sizes.items()}
        checksums |= _transfer(other, store, names, sizes, link, on_file)

    def compare(folder: Step) -> None:
        assert folder.source is not None
        _compare(store, folder.path, folder.source.sizes)

    whole = [one for one in steps if one.fragment_files is not None]
    copied = [one for one in whole if one.source and one.source.link != "symbolic"]
    for _ in ahead(compare, copied, store.concurrency):
        pass
    return checksums


def _write(store: Store, step: Step, path: str, data: bytes) -> None:
    """Put a file that is at hand; one that a run which was broken off has put is no error."""
    try:
        store.put_if_absent(path, data)
    except ObjectExistsError:
        if store.read(path, limit=len(data) * 2 + 1024) == data:
            return
        if step.fragment_files is None:
            problem = "expected to be the one who writes it, found another; try again"
            raise ChangedError(store.uri_of(path), problem) from None
        # No commit names the folder yet: a run that was broken off may have left another file.
        store.remove([path])
        store.put_if_absent(path, data)


def _transfer(
    source: Store,
    target: Store,
    names: Mapping[str, str],
    sizes: Mapping[str, int | None] | None = None,
    link: Link = "hard",
    on_file: Callable[[], None] | None = None,
) -> dict[str, str]:
    try:
        return Transfer(source, target, link).files(names, sizes, on_file)
    except MissingObjectError as cause:
        problem = "expected it to stay, found it gone: the array is changing; try again"
        raise ChangedError(cause.where, problem) from cause


def _compare(
    store: Store, folder: str, sizes: Mapping[str, int | None], *, more: bool = False
) -> None:
    """Compare the sizes of copied files with what they should be; there may be more of them."""
    found = {entry.path: entry.size for entry in store.list_prefix(folder)}
    judged = {path: size for path, size in found.items() if path in sizes} if more else found
    if judged != dict(sizes):
        files = count_text(len(found), "file")
        problem = f"expected a copy of the same sizes, found {files} with differences"
        raise StorageError(store.uri_of(folder), problem)
