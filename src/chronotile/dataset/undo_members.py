"""Plans that take back a change of a whole dataset, by the records that it left in each member.

In: a dataset, and an operation of the group, or the name of a delete. Out: the plans that take back
what the operation did to each member and to the group's own files, or the member that holds the
delete. If one plan cannot be made, there is none.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from chronotile.change import operations
from chronotile.change.executor import execute
from chronotile.change.older_records import plan_undo_report, read_report
from chronotile.change.settle import (
    Settled,
    broken_off,
    carry_out_settlement,
    is_complete,
    quarantine_numbers,
    settle,
    unless_settled,
)
from chronotile.change.undo import (
    ChangeRecord,
    nothing_to_undo,
    plan_inverse,
    read_record,
    refuse_built_on,
    refuse_final,
    refuse_nothing,
    standing_record,
)
from chronotile.check.findings import RefusedError
from chronotile.dataset.over_members import arrays_and_groups, planned_as
from chronotile.errors import ChronotileError, ReadError
from chronotile.format.names import MAX_TIMESTAMP, find_name
from chronotile.safe_text import shell_word
from chronotile.storage.store import MissingObjectError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from chronotile.change.operations import Operation
    from chronotile.dataset.open_dataset import Dataset
    from chronotile.dataset.over_members import ArrayOrGroup, MemberPlan
    from chronotile.storage.store import Store


def find_operation(dataset: Dataset, wanted: str | None) -> Operation | None:
    """Find the operation of a group that is to be taken back: the last one, or that one.

    An undo that failed is gone on with: the change that it takes back is the one.
    """
    store = dataset.store
    known = operations.list_operations(store)
    last = next((one for one in known if one.state in ("done", "failed")), None)
    if wanted is None and last is not None and (last.command, last.state) == ("undo", "failed"):
        wanted = str(operations.read_operation(store, last).get("undoes"))
    others = ("undo", *operations.COPIES)
    for one in known:
        is_wanted = one.id.startswith(wanted) if wanted else one.command not in others
        if not is_wanted or one.state == "undone":
            continue
        # Of a change that failed, some members may have been changed.
        if wanted or one.state != "failed" or any(_standing(dataset, one)):
            return one
    return None


def plan_undo_members(
    dataset: Dataset, operation: Operation, *, begun: ChangeRecord | None = None
) -> list[MemberPlan]:
    """Plan to take back what an operation of a group did, the last member first.

    Args:
        dataset: The group.
        operation: What is taken back.
        begun: The undo of the group that was broken off, and is to be finished.

    Raises:
        RefusedError: A member cannot be taken back.
    """
    planned: list[MemberPlan] = []
    own = None if begun is None else _own_part(begun, "begun")
    for target, one, record in _standing(dataset, operation):
        store = target.store
        known = operations.list_operations(store)
        try:
            refuse_final(store, dataset.key, record)
            refuse_built_on(store, dataset.key, known, one, record)
            is_own = store.uri == dataset.uri
            plan = plan_inverse(store, dataset.key, record, begun=own if is_own else None)
            if begun is None and not is_own:
                refuse_nothing(plan)
        except ChronotileError as error:
            problem = error.problem.removeprefix("nothing was changed: ")
            problem = _of_group(dataset, store, known, problem)
            where = target.path or "the group itself"
            raise RefusedError(dataset.uri, f"nothing was changed: {where}: {problem}") from error
        if plan.steps:
            planned.append(planned_as(target, plan, known))
    return planned[::-1]


def _of_group(dataset: Dataset, store: Store, known: Sequence[Operation], problem: str) -> str:
    """Let the commands in a problem of a member name the group, which goes back as a whole."""
    own, whole = shell_word(store.uri), shell_word(dataset.uri)
    problem = problem.replace(f"chronotile restore {own} --to", f"chronotile restore {whole} --to")
    for one in known:
        if (undo := f"chronotile undo {own} {one.id}") in problem:
            group = operations.read_operation(store, one).get("group")
            problem = (
                problem.replace(undo, f"chronotile undo {whole} {group}") if group else problem
            )
    return problem


def name_earlier(dataset: Dataset, operation: Operation, error: RefusedError) -> RefusedError:
    """Name the last change below a final one that can be undone, in the refusal of that one."""
    others = ("undo", *operations.COPIES, *operations.UPKEEP)
    known = operations.list_operations(dataset.store) if operation.state == "final" else ()
    for one in [one for one in known if one.state == "done" and one.command not in others][:5]:
        with suppress(ChronotileError):
            plan_undo_members(dataset, one)
            hint = f"chronotile undo {shell_word(dataset.uri)} {one.id}"
            hint = f"to undo the {one.command} before it: {hint}"
            return RefusedError(dataset.uri, f"{error.problem}; {hint}")
    return error


def refuse_removed(dataset: Dataset, operation: Operation) -> None:
    """Refuse to take back a part of what an operation did: some members are none any more.

    Raises:
        RefusedError: A member that it changed has been taken out of the group.
    """
    document = operations.read_operation(dataset.store, operation)
    changed = {item["member"] for item in document.get("members", ()) if item.get("steps")}
    gone = changed - {target.path for target in arrays_and_groups(dataset, groups=True)}
    # One that was given another name is found by its own record.
    if gone and len([*_standing(dataset, operation)]) < len(changed):
        problem = f"nothing was changed: {min(gone)} is no member any more"
        hint = "add it again, or undo the change in each array: chronotile undo ARRAY"
        raise RefusedError(dataset.uri, f"{problem}; {hint}")


def settle_members(
    dataset: Dataset, *, exclusive: bool, dry_run: bool = False
) -> tuple[Settled, ...]:
    """Finish or take back what changes of members, and of the group, have left; see `settle`.

    Raises:
        RefusedError: Another change is under way.
    """
    found: list[Settled] = []
    for target in arrays_and_groups(dataset, groups=True):
        found += settle(target.store, dataset.key, exclusive=exclusive, dry_run=dry_run)
    for operation, document in broken_off(dataset.store):
        if "members" in document:
            with unless_settled(dataset.store, operation):
                found.append(_settle_group(dataset, operation, dry_run=dry_run))
    return tuple(found)


def _settle_group(dataset: Dataset, operation: Operation, *, dry_run: bool) -> Settled:
    """Finish an undo of a group that was broken off; take any other change back."""
    store = dataset.store
    record = read_record(store, operation)
    undoes = [one for one in operations.list_operations(store) if one.id == record.undoes]
    if not undoes and _is_done(dataset, operation, record):
        options = record.document.get("options", {})
        settled = Settled(operation, "done", "it had done everything", options=options)
    else:
        settled = _take_back(dataset, operation, record, undoes[0] if undoes else None, dry_run)
    if not dry_run:
        carry_out_settlement(store, settled)
    return settled


def _take_back(
    dataset: Dataset,
    operation: Operation,
    record: ChangeRecord,
    undone: Operation | None,
    dry_run: bool,
) -> Settled:
    begun = None if undone is None else record
    try:
        planned = plan_undo_members(dataset, undone or operation, begun=begun)
    except RefusedError as error:
        return Settled(operation, "failed", f"what it did stays: {error.problem}")
    # Members that an undo takes back point to it; of any other change nothing is to stay.
    author, message = record.document.get("author"), record.document.get("message")
    who = operations.Who(author, message, group=operation.id if undone else None)
    for target, _, make, _ in () if dry_run else planned:
        assert make is not None  # it has steps
        if target.store.uri != dataset.uri:
            execute(target.store, make(), who)
            continue
        numbers = quarantine_numbers(_own_part(record, "begun")) if undone else None
        plan = replace(make(), undoes=None)
        execute(target.store, plan, None, operation=operation, numbers=numbers)
    if undone is not None:
        return Settled(operation, "done", "it is finished", undoes=undone.id)
    return Settled(operation, "undone", "it is taken back" if planned else "it had done nothing")


def _is_done(dataset: Dataset, operation: Operation, record: ChangeRecord) -> bool:
    """Tell whether a change of a group had done all that it was about to do."""
    due = {item["member"] for item in record.document["members"] if item.get("steps")}
    done = {target.path for target, _, _ in _standing(dataset, operation)}
    own = _own_part(record, "begun")
    return due - {""} <= done and is_complete(dataset.store, own)


def plan_undo_report_of_members(
    dataset: Dataset, report: Mapping[str, Any] | str | None
) -> tuple[str, list[MemberPlan]]:
    """Plan to take back what a report of an earlier version says.

    Returns:
        Where the report is, and the plans, the last member first.

    Raises:
        RefusedError: There is none, or a member cannot be taken back.
        BadFileError: It is no report.
    """
    store = dataset.store
    if report is None:
        raise nothing_to_undo(store, operations.list_operations(store))
    place, document = read_report(store, report) if isinstance(report, str) else ("", dict(report))
    operations.check_record(document, place or store.uri)
    here = {target.store.uri: target for target in arrays_and_groups(dataset, groups=True)}
    planned = []
    for item in reversed(document.get("members", ())):
        if not item.get("steps") or item.get("error"):
            continue
        target = here.get(str(item.get("array")))
        if target is None:
            problem = f"expected members of the group, found {item.get('array')!r:.120}"
            raise RefusedError(store.uri, problem)
        planned.append(planned_as(target, plan_undo_report(target.store, dataset.key, report=item)))
    if not planned:
        raise RefusedError(store.uri, "expected the report of a group's change, found no steps")
    return place, planned


def _standing(
    dataset: Dataset, operation: Operation
) -> Iterator[tuple[ArrayOrGroup, Operation, ChangeRecord]]:
    """Read what an operation of a group left in each member and in its own files, if it stands."""
    for target in arrays_and_groups(dataset, groups=True):
        store = target.store
        known = operations.list_operations(store)
        if store.uri == dataset.uri:
            own = _own_part(standing_record(store, known, operation), operation.state)
            if own.steps:
                yield target, operation, own
            continue
        for one in known:
            with suppress(MissingObjectError):
                document = operations.read_operation(store, one)
                if document.get("group") == operation.id and one.state in ("done", "final"):
                    yield target, one, standing_record(store, known, one)


def _own_part(record: ChangeRecord, state: str) -> ChangeRecord:
    """Take the part of a group's record that is about the group's own files."""
    items = [one for one in record.document.get("members", ()) if one.get("member") == ""]
    own = {"command": record.command, **(items[0] if items else {}), "state": state}
    return record._replace(document=own)


def find_holder(dataset: Dataset, name: str, *, outside: bool = False) -> tuple[str, str]:
    """Find the member that holds a delete or update, and its whole name.

    Raises:
        ChronotileError: No member holds it, or several do.
    """
    holders: dict[str, list[str]] = {}
    for node, log in dataset.read_logs():
        if isinstance(log, ChronotileError):
            raise ReadError(dataset.uri, f"expected members that can be read, found {log}")
        if not (node.is_inside or outside):
            continue
        view = log.view(end=MAX_TIMESTAMP)
        for item in (*view.deletes, *view.updates):
            holders.setdefault(item.name, []).append(node.path)
    whole = find_name(holders, name, dataset.uri)
    paths = holders[whole]
    if len(paths) > 1:
        problem = f"expected one member that holds {whole}, found {', '.join(paths)}"
        raise RefusedError(dataset.uri, f"{problem}; name the array")
    return paths[0], whole
