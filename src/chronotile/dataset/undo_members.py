"""Plans that take back a change of a whole dataset, by the records that it left in each member.

In: a dataset, and an operation of the group, or the name of a delete. Out: the plans that take back
what the operation did to each member and to the group's own files, or the member that holds the
delete. If one plan cannot be made, there is none.
"""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Any

from chronotile.change import operations
from chronotile.change.older_records import last_report, plan_undo_report, read_report
from chronotile.change.undo import ChangeRecord, plan_inverse, read_record, refuse_final
from chronotile.check.findings import RefusedError
from chronotile.dataset.over_members import arrays_and_groups, planned_as
from chronotile.errors import ChronotileError, ReadError
from chronotile.format.names import MAX_TIMESTAMP
from chronotile.format.short_ids import find_name
from chronotile.storage.store import MissingObjectError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from chronotile.change.operations import Operation
    from chronotile.dataset.open_dataset import Dataset
    from chronotile.dataset.over_members import ArrayOrGroup, MemberPlan


def find_operation(dataset: Dataset, wanted: str | None) -> Operation | None:
    """Find the operation of a group that is to be taken back: the last one, or that one.

    An undo that was broken off is gone on with: the change that it takes back is the one.
    """
    store = dataset.store
    known = list(operations.list_operations(store))
    for one in known:
        if wanted is None and one.command == "undo" and one.state in ("begun", "failed"):
            wanted = str(operations.read_operation(store, one).get("undoes"))
            break
        if one.state == "done":
            break
    for one in known:
        is_wanted = one.id.startswith(wanted) if wanted else one.command != "undo"
        if is_wanted and one.state != "undone":
            return one
    return None


def plan_undo_members(dataset: Dataset, operation: Operation) -> list[MemberPlan]:
    """Plan to take back what an operation of a group did, the last member first.

    Raises:
        RefusedError: A member cannot be taken back.
    """
    planned: list[MemberPlan] = []
    for target in arrays_and_groups(dataset, groups=True):
        for record in _records(target, operation, dataset):
            if record.document.get("state") == "undone":
                continue
            try:
                refuse_final(target.store, record)
                plan = plan_inverse(target.store, dataset.key, record)
            except ChronotileError as error:
                problem = f"expected that every member can, found {target.path or dataset.uri}"
                raise RefusedError(dataset.uri, f"{problem}: {error}") from error
            if plan.steps:
                planned.append(planned_as(target, plan))
    return planned[::-1]


def plan_undo_report_of_members(
    dataset: Dataset, report: Mapping[str, Any] | str | None
) -> tuple[str, list[MemberPlan]]:
    """Plan to take back what a report of an earlier version says: the last one, or that one.

    Returns:
        Where the report is, and the plans, the last member first.

    Raises:
        RefusedError: There is none, or a member cannot be taken back.
        BadFileError: It is no report.
    """
    store = dataset.store
    if report is None:
        undos = [one for one in operations.list_operations(store) if one.command == "undo"]
        undone = {str(operations.read_operation(store, one).get("undoes")) for one in undos}
        found = last_report(store, undone)
        if found is None:
            raise RefusedError(store.uri, "expected a change of ours, found none that stands")
        place, document = found
    elif isinstance(report, str):
        place, document = read_report(store, report)
    else:
        place, document = "", dict(report)
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


def _records(
    target: ArrayOrGroup, operation: Operation, dataset: Dataset
) -> Iterator[ChangeRecord]:
    """Read what an operation of a group left in one member, or of the group's own files."""
    if target.store.uri == dataset.uri:
        record = read_record(dataset.store, operation)
        for item in record.document.get("members", ()):
            if item.get("member") == "" and item.get("steps"):
                yield record._replace(document={"state": operation.state, **item})
        return
    for one in operations.list_operations(target.store):
        with suppress(MissingObjectError):
            record = read_record(target.store, one)
            if record.document.get("group") == operation.id:
                yield record


def find_holder(dataset: Dataset, name: str, *, outside: bool = False) -> tuple[str, str]:
    """Find the member that holds a delete or update, and its whole name.

    Args:
        dataset: The group.
        name: The name of the delete or update, or enough of its id.
        outside: Look also at members that lie outside of the dataset's folder.

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
