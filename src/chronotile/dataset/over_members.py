"""One change over all members of a dataset.

In: a dataset, and a planner of one array, such as `plan_vacuum`. Out: `GroupReport`: what happened
to each member, and why something did not. Does not decide anything about an array itself.

First every member is planned: a member that cannot be changed is named before anything changes, and
left alone, or nothing is changed at all. Then the members are changed one by one, each by a plan of
that moment, and an error of one stops no other; `publish_members` takes all of them stage by stage.
Nothing outside of the dataset's folder is changed unless the caller asks for it: a URI in a file
must not lead a command to arrays that its user did not name.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import KW_ONLY, dataclass, field, replace
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

from chronotile.change import operations
from chronotile.change.executor import ATTEMPTS, execute, mark_undone
from chronotile.change.plan import Plan, Report
from chronotile.check.findings import RefusedError, count_text
from chronotile.dataset.member_tree import LOST
from chronotile.dataset.open_dataset import refuse_groups
from chronotile.errors import ChangedError, ChronotileError, ReadError, option
from chronotile.format.documents import json_text
from chronotile.format.timestamps import iso_time, now_ms
from chronotile.storage.store import MissingObjectError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from chronotile.change.operations import Operation, Who
    from chronotile.check.findings import Finding
    from chronotile.dataset.open_dataset import Dataset
    from chronotile.storage.store import Store

OUTSIDE = "it lies outside of the dataset's folder"

Planner: TypeAlias = Callable[..., Plan]
"""Plans the change of one array, or of a group's own files: `planner(store, key, **options)`. It
raises what the change refuses, and changes nothing."""


class ArrayOrGroup(NamedTuple):
    """An array of a dataset, or a group's own files, to be changed."""

    path: str
    """In the dataset; empty for the dataset's own group."""
    store: Store
    is_group: bool
    is_inside: bool
    """True if it lies in the folder of the dataset."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MemberOutcome:
    """The outcome for one member, done or planned."""

    path: str
    array: str
    is_group: bool = False
    report: Report | None = None
    """None if it was not even planned."""
    error: str | None = None
    """Why it was not changed, or not to its end."""
    status: int = 1
    """The exit status that this error gives."""
    skipped: bool = False
    """True if it was left alone on purpose."""

    @property
    def has_steps(self) -> bool:
        """True if anything is, or was, to be done to it."""
        return self.report is not None and bool(self.report.steps)

    def to_dict(self) -> dict[str, Any]:
        """Give the JSON form, a part of the report."""
        document: dict[str, Any] = {
            "member": self.path,
            "kind": "group" if self.is_group else "array",
            "array": self.array,
            "error": self.error,
            "skipped": self.skipped,
        }
        return document if self.report is None else self.report.to_dict() | document


@dataclass(frozen=True, slots=True)
class GroupReport:
    """The report of a change of a dataset's members, done or planned."""

    command: str
    group: str
    _: KW_ONLY
    dry_run: bool
    outcomes: tuple[MemberOutcome, ...]
    notes: tuple[str, ...] = ()
    at_ms: int = field(default_factory=now_ms)
    undoes: str | None = None
    """The operation that this one took back."""
    operation: str | None = None
    """The id of the operation that keeps the record."""

    def __repr__(self) -> str:
        return f"<{self.command} of {self.group}: {self.summary()}>"

    @property
    def failed(self) -> tuple[MemberOutcome, ...]:
        """The members that were not changed, against the wish of the caller."""
        return tuple(one for one in self.outcomes if one.error is not None and not one.skipped)

    def refuse_failed(self) -> None:
        """Refuse a plan in which a member cannot be changed.

        Raises:
            ReadError: It cannot be read.
            RefusedError: It can be read, and not be changed.
        """
        for one in self.failed:
            is_unread = one.status == ReadError.exit_code
            name = f"; to change others only, name them with {option('member', 'PATTERN')}"
            hint = name if len(self.outcomes) > 1 else ""
            raise refusal(self.group, one.path, str(one.error), hint, is_unread=is_unread)

    @property
    def findings(self) -> tuple[Finding, ...]:
        """The findings that could not be mended, in all members."""
        reports = (one.report for one in self.outcomes)
        return tuple(item for report in reports if report is not None for item in report.findings)

    @property
    def losses(self) -> tuple[str, ...]:
        """The losses that cannot be undone, member by member."""
        reports = ((one.path, one.report) for one in self.outcomes if one.report is not None)
        return tuple(f"{path}: {loss}" for path, report in reports for loss in report.losses)

    @property
    def can_be_undone(self) -> bool:
        """True if there is something to undo, and a way to do it."""
        changed = [one.report for one in self.outcomes if one.report is not None and one.has_steps]
        return bool(changed) and all(report.can_be_undone for report in changed)

    @property
    def has_steps(self) -> bool:
        """True if anything is, or was, to be done."""
        return any(one.has_steps for one in self.outcomes)

    def to_dict(self) -> dict[str, Any]:
        """Give the JSON report."""
        document = {
            "command": self.command,
            "group": self.group,
            "dry_run": self.dry_run,
            "time": iso_time(self.at_ms),
            "members": [one.to_dict() for one in self.outcomes],
            "notes": list(self.notes),
        }
        if self.operation is not None:
            document["operation"] = self.operation
        return document if self.undoes is None else document | {"undoes": self.undoes}

    def to_json(self) -> str:
        """Give the JSON report as text."""
        return json_text(self.to_dict())

    def summary(self, *, would: str = "would") -> str:
        """All of it in one line; see `Report.summary`.

        >>> GroupReport("vacuum", "g", dry_run=False, outcomes=()).summary()
        '0 members: nothing to do'
        """
        reports = [one.report for one in self.outcomes if one.report is not None]
        steps = tuple(step for report in reports for step in report.steps)
        findings = tuple(item for report in reports for item in report.findings)
        searched = [one.certificate for one in reports if "matches_left" in one.certificate]
        left = sum(one["matches_left"] for one in searched)
        whole = Report(
            self.command,
            self.group,
            dry_run=self.dry_run,
            steps=steps,
            findings=findings,
            certificate={"matches_left": left} if searched else {},
        )
        parts = []
        if steps or findings or searched or not self.failed:
            parts.append(whole.summary(would=would))
        if self.failed:
            parts.append(f"{len(self.failed):,} failed")
        if skipped := sum(one.skipped for one in self.outcomes):
            parts.append(f"{skipped:,} left alone")
        if self.command == "replicate" and not self.outcomes:
            return ", ".join(parts)  # a note counts what is unchanged
        return f"{self._whom()}: {', '.join(parts)}"

    def _whom(self) -> str:
        """Count the members, without the group's own files."""
        is_own = any(one.is_group and not one.path for one in self.outcomes)
        count = len(self.outcomes) - is_own
        members = count_text(count, "member")
        if not is_own:
            return members
        return f"the group and {members}" if count else "the group itself"


def refusal(
    group: str, path: str, error: str, hint: str = "", *, is_unread: bool = False
) -> ChronotileError:
    """Make the refusal of a change because of one member, before anything was changed."""
    why = error.replace("; nothing was changed", "")
    problem = f"the member {path} cannot be changed: {why}; nothing was changed"
    return (ReadError if is_unread else RefusedError)(group, f"{problem}{hint}")


class MemberPlan(NamedTuple):
    """The plan for one member."""

    target: ArrayOrGroup
    outcome: MemberOutcome
    """What a dry run reports of it."""
    make: Callable[[], Plan] | None
    """Plans it, with what is there at that moment; None if it is left alone."""
    known: tuple[Operation, ...] | None = None
    """The operations that were there before, if it is a plan that was made once."""


def left_alone(target: ArrayOrGroup) -> MemberPlan:
    """Leave a member alone that lies outside of the dataset's folder."""
    return MemberPlan(target, _outcome(target, error=OUTSIDE, skipped=True), None)


def planned_as(
    target: ArrayOrGroup, plan: Plan, known: tuple[Operation, ...] | None = None
) -> MemberPlan:
    """Take a plan of a member as it is; whatever is not among the operations known came later."""
    return MemberPlan(target, _outcome(target, report=plan.report()), lambda: plan, known)


CarryOut: TypeAlias = (
    "Callable[[list[MemberPlan], GroupRecord], tuple[list[MemberOutcome], tuple[str, ...]]]"
)
"""Carries out plans that have steps; gives the outcome of each, and notes. An error that it raises
fails the whole operation."""


def plan_members(
    dataset: Dataset,
    planner: Planner,
    options: Mapping[str, Any] | None = None,
    *,
    own: Planner | None = None,
    own_options: Mapping[str, Any] | None = None,
    outside: bool = False,
    pattern: str | None = None,
) -> list[MemberPlan]:
    """Plan a change of every array of a dataset.

    `own` plans the files of one group itself. Both planners get their options; `outside` takes
    members along that lie outside of the dataset's folder.

    Raises:
        ChronotileError: The lists of members cannot be read.
    """
    planned = []
    for target in arrays_and_groups(dataset, pattern=pattern, groups=own is not None):
        chosen, given = (own, own_options) if target.is_group and own else (planner, options)
        planned.append(_planned(dataset, target, chosen, given or {}, outside=outside))
    planned += [
        MemberPlan(ArrayOrGroup(one.path, dataset.store, False, True), one, None)
        for one in _lost(dataset, pattern)
    ]
    if pattern is not None and not planned:
        refuse_groups(dataset.uri, pattern)
    return planned


def _planned(
    dataset: Dataset,
    target: ArrayOrGroup,
    planner: Planner,
    options: Mapping[str, Any],
    *,
    outside: bool,
) -> MemberPlan:
    if not (target.is_inside or outside):
        return left_alone(target)

    def make() -> Plan:
        return planner(target.store, dataset.key, **options)

    try:
        report = make().report()
    except Exception as error:  # no error of one member may stop the others
        return MemberPlan(target, _failed(_outcome(target), error), None)
    return MemberPlan(target, _outcome(target, report=report), make)


def change_members(
    dataset: Dataset,
    command: str,
    planned: list[MemberPlan],
    who: Who | None,
    *,
    dry_run: bool = False,
    all_or_none: bool = False,
    notes: tuple[str, ...] = (),
    undoes: str | None = None,
    before: Callable[[GroupReport], None] | None = None,
    carry_out: CarryOut | None = None,
) -> GroupReport:
    """Change the members of a dataset as they were planned.

    Args:
        dataset: The group.
        command: The name of the change.
        planned: The plan of each member.
        who: The author that the record of the operation names; None leaves no record.
        dry_run: Report the plans only.
        all_or_none: Refuse if a member cannot be changed: the dataset would be torn apart.
        notes: Notes for the user.
        undoes: The operation that this one takes back.
        before: Called with the plan of all members before the first; what it raises stops the run.
        carry_out: Carries out the plans; `one_by_one`, if it is left out.

    Raises:
        RefusedError: A member cannot be changed, and all must.
    """
    outcomes = tuple(one.outcome for one in planned)
    plan = GroupReport(
        command, dataset.uri, dry_run=True, outcomes=outcomes, notes=notes, undoes=undoes
    )
    if dry_run:
        none = "the change would be refused: it changes all these members, or none"
        return replace(plan, notes=(*notes, none)) if all_or_none and plan.failed else plan
    if all_or_none:
        plan.refuse_failed()
    if not plan.has_steps:
        if undoes is not None:
            mark_undone(dataset.store, undoes)  # it was broken off before it did anything
        return replace(plan, dry_run=False)
    if before is not None:
        before(plan)
    record = GroupRecord(dataset.store, plan, who)
    try:
        due = [one for one in planned if one.outcome.has_steps]
        _refuse_others(command, due, record)
        done, more = (carry_out or one_by_one)(due, record)
    except (Exception, KeyboardInterrupt) as error:
        record.abandon(f"it failed: {str(error) or type(error).__name__}")
        raise
    ended = iter(done)
    report = replace(
        plan,
        dry_run=False,
        outcomes=tuple(next(ended) if one.has_steps else one for one in outcomes),
        notes=(*notes, *more),
        operation=record.id,
    )
    halves = [one for one in report.failed if all_or_none or one.array == dataset.uri]
    if halves and record.id is not None:
        record.abandon(f"it failed: {halves[0].error}")
        what = "takes it back" if undoes is None else "finishes it"
        note = f"not all of it was done: the next change of the group {what}"
        return replace(report, notes=(*report.notes, note))
    record.end(report)
    if command in operations.UPKEEP:
        _mark_final(record.store, [one.target.store for one in due])
    return report


def _mark_final(group: Store, members: list[Store]) -> None:
    """Mark the operations of a group that can no longer be undone in one of its members."""
    final = {
        str(one["group"])
        for store in members
        for one in operations.tell_operations(store)
        if one["state"] == "final" and one["group"]
    }
    operations.mark_final(group, final)


def _refuse_others(command: str, due: list[MemberPlan], record: GroupRecord) -> None:
    """Refuse all of it if a member was changed since it was planned, before the first is."""
    for one in due:
        if one.known is None:
            continue
        other = operations.find_other(one.target.store, command, (record.id,), one.known)
        if other is not None:
            problem = f"expected no other change of {one.target.path or 'the group'}"
            problem += f", found {other.command} {other.id}; try again"
            raise RefusedError(record.store.uri, problem)


def one_by_one(
    planned: list[MemberPlan], record: GroupRecord
) -> tuple[list[MemberOutcome], tuple[str, ...]]:
    """Change one member after the other, each by a plan of that moment; no error stops the rest."""
    done: list[MemberOutcome] = []
    for target, outcome, make, known in planned:
        assert make is not None  # it has steps
        try:
            report = _execute(target, make, known, record)
        except Exception as error:  # no error of one member may stop the others
            done.append(_failed(outcome, error))
        else:
            done.append(replace(outcome, report=report))
    return done, ()


def _execute(
    target: ArrayOrGroup,
    make: Callable[[], Plan],
    known: tuple[Operation, ...] | None,
    record: GroupRecord,
) -> Report:
    """Change one member; plan it anew if somebody else changed it meanwhile."""
    for attempt in range(1, ATTEMPTS + 1):
        before = operations.list_operations(target.store) if known is None else known
        try:
            return execute(
                target.store,
                make(),
                record.who,
                operation=record.of(target),
                known=before,
                again=make if target.is_group else None,
            )
        except (ChangedError, MissingObjectError):
            if known is not None or target.is_group or attempt == ATTEMPTS:
                raise
    raise AssertionError  # the last attempt returns or raises


class GroupRecord:
    """The operation of a group: one record in the group, and one in each member that it changes."""

    def __init__(self, store: Store, plan: GroupReport, who: Who | None) -> None:
        self.store = store
        self._who = who
        self._operation: Operation | None = None
        self.who: Who | None = None
        """What the record of a member says."""
        if who is not None:
            alone = plan.command in operations.EXCLUSIVE
            self._operation = operations.begin(store, plan, who, exclusive=alone, of_group=True)
            self.who = who._replace(group=self._operation.id)

    def of(self, target: ArrayOrGroup) -> Operation | None:
        """Give the operation of the group, if it is the group's own files that are changed."""
        return self._operation if target.store.uri == self.store.uri else None

    @property
    def id(self) -> str | None:
        """The id of the operation."""
        return None if self._operation is None else self._operation.id

    def abandon(self, note: str) -> None:
        """Write down that nobody is at it any more, and why: the next change settles it."""
        if self._operation is not None:
            operations.abandon(self.store, self._operation, note)

    def end(self, report: GroupReport) -> None:
        """Write down how it ended."""
        if report.undoes is not None and not report.failed:
            # Before the undo has ended: if it is broken off here, this is done once more.
            try:
                mark_undone(self.store, report.undoes)
            except ChronotileError as error:  # without a record, nobody can write there
                if self._operation is not None:
                    self.abandon(f"it failed: {error}")
                    raise
        if self._operation is not None and self._who is not None:
            is_final = report.has_steps and not report.can_be_undone
            state: operations.State = "final" if is_final else "done"
            state = "failed" if report.failed else state
            operations.end(self.store, self._operation, report, self._who, state)


def arrays_and_groups(
    dataset: Dataset, *, pattern: str | None = None, groups: bool = False
) -> Iterator[ArrayOrGroup]:
    """List the arrays of a dataset that a change applies to, and its groups if asked for."""
    if groups and pattern is None:
        yield ArrayOrGroup("", dataset.store, is_group=True, is_inside=True)
    for node in dataset.fitting(pattern):
        if node.store is None:
            continue
        if node.found == "array" or (groups and node.found == "group"):
            yield ArrayOrGroup(node.path, node.store, node.found == "group", node.is_inside)


def _lost(dataset: Dataset, pattern: str | None) -> Iterator[MemberOutcome]:
    """List the missing members."""
    for node in dataset.fitting(pattern):
        if node.found in LOST:
            yield MemberOutcome(path=node.path, array=node.uri, error=node.problem)


def _failed(outcome: MemberOutcome, error: Exception) -> MemberOutcome:
    if isinstance(error, ChronotileError):
        return replace(outcome, error=str(error), status=error.exit_code, report=None)
    return replace(outcome, error=f"{type(error).__name__}: {error}", report=None)


def _outcome(target: ArrayOrGroup, **more: Any) -> MemberOutcome:
    return MemberOutcome(path=target.path, array=target.store.uri, is_group=target.is_group, **more)
