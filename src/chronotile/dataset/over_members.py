"""One change over all members of a dataset.

In: a dataset, and a function that changes one array, as `vacuum` does. Out: `GroupReport`: what
happened to each member, and why something did not. Decides nothing about an array itself.

First every member is planned, by the function's own dry run: a member that cannot be changed is
told before anything changes, and left alone. Then the members are changed one by one. An error of
one stops no other. Nothing outside of the dataset's folder is changed unless the caller says so: a
URI in a file must not lead a command to arrays that its user did not name.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import KW_ONLY, dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

from chronotile.change.change_report import Report, json_text
from chronotile.check.findings import RefusedError, count_text
from chronotile.dataset.member_tree import LOST
from chronotile.errors import ChronotileError, ReadError
from chronotile.format.timestamps import iso_time, now_ms

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from chronotile.check.findings import Finding
    from chronotile.dataset.open_dataset import Dataset
    from chronotile.storage.store import Store

OUTSIDE = "it lies outside of the dataset's folder"


Change: TypeAlias = Callable[..., Report]
"""A function that changes one array, or one group: `consolidate`, `vacuum`, `repair` and so on. It
is called as `change(uri, dry_run=…, key=…, store=…, **options)`. With `dry_run` it changes nothing,
and raises what the change itself would refuse."""

Options: TypeAlias = Mapping[str, Any] | Callable[["Target"], Mapping[str, Any]]
"""Further arguments of a change: the same for all members, or made for each."""


class Target(NamedTuple):
    """What is to be changed: an array, or a group's own files."""

    path: str
    """In the dataset; empty for the dataset's own group."""
    store: Store
    is_group: bool
    is_inside: bool
    """Whether it lies in the folder of the dataset."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What happened to one member, or would."""

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
    """Whether it was left alone on purpose."""

    @property
    def has_steps(self) -> bool:
        """Whether anything is, or was, to be done to it."""
        return self.report is not None and bool(self.report.steps)

    def to_dict(self) -> dict[str, Any]:
        """The JSON form, a part of the report."""
        said: dict[str, Any] = {
            "member": self.path,
            "kind": "group" if self.is_group else "array",
            "array": self.array,
            "error": self.error,
            "skipped": self.skipped,
        }
        return said if self.report is None else self.report.to_dict() | said


@dataclass(frozen=True, slots=True)
class GroupReport:
    """What a command is about to do to the members of a dataset, or what it did."""

    command: str
    group: str
    _: KW_ONLY
    dry_run: bool
    outcomes: tuple[Outcome, ...]
    notes: tuple[str, ...] = ()
    at_ms: int = field(default_factory=now_ms)
    undoes: str | None = None
    """The report of the change that this one took back."""

    @property
    def failed(self) -> tuple[Outcome, ...]:
        """The members that were not changed, against the wish of the caller."""
        return tuple(one for one in self.outcomes if one.error is not None and not one.skipped)

    def refuse_failed(self) -> None:
        """Refuse a plan in which a member cannot be changed.

        Raises:
            ReadError: It cannot be read.
            RefusedError: It can be read, and not be changed.
        """
        for one in self.failed:
            problem = f"expected that every member can, found {one.path}"
            hint = "nothing was changed; --member takes some of them only"
            kind = ReadError if one.status == ReadError.exit_code else RefusedError
            raise kind(self.group, f"{problem}: {one.error}; {hint}")

    @property
    def findings(self) -> tuple[Finding, ...]:
        """What could not be mended, in all members."""
        reports = (one.report for one in self.outcomes)
        return tuple(item for report in reports if report is not None for item in report.findings)

    @property
    def has_steps(self) -> bool:
        """Whether anything is, or was, to be done."""
        return any(one.has_steps for one in self.outcomes)

    def to_dict(self) -> dict[str, Any]:
        """The JSON report."""
        document = {
            "command": self.command,
            "group": self.group,
            "dry_run": self.dry_run,
            "time": iso_time(self.at_ms),
            "members": [one.to_dict() for one in self.outcomes],
            "notes": list(self.notes),
        }
        return document if self.undoes is None else document | {"undoes": self.undoes}

    def to_json(self) -> str:
        """The JSON report as text."""
        return json_text(self.to_dict())

    def begun_json(self) -> str:
        """The JSON report of steps that are about to begin."""
        return json_text({"state": "begun", **self.to_dict()})

    def summary(self) -> str:
        """All of it in one line.

        >>> GroupReport("vacuum", "g", dry_run=False, outcomes=()).summary()
        '0 members: nothing to do'
        """
        members = count_text(len(self.outcomes), "member")
        reports = [one.report for one in self.outcomes if one.report is not None]
        steps = tuple(step for report in reports for step in report.steps)
        whole = Report(self.command, self.group, dry_run=self.dry_run, steps=steps)
        parts = [f"{members}: {whole.summary()}"]
        if self.failed:
            parts.append(f"{len(self.failed):,} failed")
        if skipped := sum(one.skipped for one in self.outcomes):
            parts.append(f"{skipped:,} left alone")
        return ", ".join(parts)


def change_members(
    dataset: Dataset,
    command: str,
    change: Change,
    options: Options | None = None,
    *,
    change_group: Change | None = None,
    group_options: Mapping[str, Any] | None = None,
    dry_run: bool = False,
    outside: bool = False,
    pattern: str | None = None,
    all_or_none: bool = False,
    before: Callable[[GroupReport], None] | None = None,
    on_begin: Callable[[Outcome], None] | None = None,
    on_member: Callable[[str], None] | None = None,
) -> GroupReport:
    """Changes every array of a dataset, one by one.

    Args:
        dataset: The group.
        command: The name of the change, for the report.
        change: Changes one array; see `Change`.
        options: Further arguments of it.
        change_group: Changes the files of one group itself.
        group_options: Further arguments of that.
        dry_run: Plan only.
        outside: Change also members that lie outside of the dataset's folder.
        pattern: Only members whose path fits, such as `ms/*/X`.
        all_or_none: Refuse if a member cannot be changed: the dataset would be torn apart.
        before: Called with the plan of all members before the first; what it raises stops the run.
        on_begin: Called with what is about to happen to a member, by its last plan.
        on_member: Called with each member's path before it is planned, and before it is changed.

    Raises:
        ChronotileError: The lists of members cannot be read.
        RefusedError: A member cannot be changed, and all must.
    """
    tell = on_member or (lambda _: None)
    more = (options, group_options)

    def run(target: Target, *, dry_run: bool) -> Outcome:
        tell(target.path)
        if not (target.is_inside or outside):
            return _outcome(target, error=OUTSIDE, skipped=True)
        function = _function(target, change, change_group)
        return _run(dataset, function, target, more, None if dry_run else on_begin, dry_run=dry_run)

    found = list(targets(dataset, pattern=pattern, groups=change_group is not None))
    planned = [run(target, dry_run=True) for target in found]
    todo = [target for target, one in zip(found, planned, strict=True) if one.has_steps]
    planned += _lost(dataset, pattern)
    plan = GroupReport(command, dataset.uri, dry_run=True, outcomes=tuple(planned))
    if all_or_none and not dry_run:
        plan.refuse_failed()
    if dry_run or not todo:
        return plan if dry_run else _with(plan, plan.outcomes)
    if before is not None:
        before(plan)
    done = {target.store.uri: run(target, dry_run=False) for target in todo}
    return _with(plan, tuple(done.get(one.array, one) for one in planned))


def targets(
    dataset: Dataset, *, pattern: str | None = None, groups: bool = False
) -> Iterator[Target]:
    """The arrays of a dataset that a change applies to, and its groups if that is asked for."""
    if groups and pattern is None:
        yield Target("", dataset.store, is_group=True, is_inside=True)
    for node in dataset.tree():
        if node.store is None or not node.fits(pattern):
            continue
        if node.found == "array" or (groups and node.found == "group"):
            yield Target(node.path, node.store, node.found == "group", node.is_inside)


def _lost(dataset: Dataset, pattern: str | None) -> Iterator[Outcome]:
    """The members that nobody can change, as they are not there."""
    for node in dataset.tree():
        if node.found in LOST and node.fits(pattern):
            yield Outcome(path=node.path, array=node.uri, error=node.problem)


def _function(target: Target, change: Change, change_group: Change | None) -> Change:
    # Groups are targets only if there is something to do to them.
    return change_group if target.is_group and change_group is not None else change


def _outcome(target: Target, **said: Any) -> Outcome:
    return Outcome(path=target.path, array=target.store.uri, is_group=target.is_group, **said)


def _run(
    dataset: Dataset,
    change: Change,
    target: Target,
    options: tuple[Options | None, Options | None],
    on_begin: Callable[[Outcome], None] | None,
    *,
    dry_run: bool,
) -> Outcome:
    """Changes an array, or a group, with the first or the second of the options."""
    try:
        given = options[target.is_group] or {}
        more = dict(given(target) if callable(given) else given)
        if on_begin is not None:
            begin = on_begin
            more["before"] = lambda report: begin(_outcome(target, report=report))
        report = change(
            target.store.uri, dry_run=dry_run, key=dataset.key, store=target.store, **more
        )
    except ChronotileError as error:
        return _outcome(target, error=str(error), status=error.exit_code)
    except Exception as error:  # no error of one member may stop the others
        return _outcome(target, error=f"{type(error).__name__}: {error}")
    return _outcome(target, report=report)


def _with(plan: GroupReport, outcomes: Sequence[Outcome]) -> GroupReport:
    return GroupReport(
        plan.command, plan.group, dry_run=False, outcomes=tuple(outcomes), at_ms=plan.at_ms
    )
