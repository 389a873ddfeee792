"""Undelete in a dataset: the member that holds a delete is found, and its rows come back.

In: a dataset, the name of a delete or update, or the beginning of its id. Out: `GroupReport` with
that one member. A delete belongs to one array, so that its name says which.
"""

from __future__ import annotations

from glob import escape
from typing import TYPE_CHECKING, Any

from chronotile.check.findings import RefusedError
from chronotile.dataset.over_members import GroupReport, change_members
from chronotile.errors import ChronotileError, ReadError
from chronotile.format.names import MAX_TIMESTAMP
from chronotile.log.short_ids import find_name
from chronotile.time_machine.undelete import undelete

if TYPE_CHECKING:
    from collections.abc import Callable

    from chronotile.dataset.open_dataset import Dataset


def undelete_member(
    dataset: Dataset,
    name: str,
    *,
    dry_run: bool = False,
    outside: bool = False,
    before: Callable[[GroupReport], None] | None = None,
    **options: Any,
) -> GroupReport:
    """Lets the rows that one delete or update of a member hides come back.

    Args:
        dataset: The group.
        name: The name of the delete or update, or enough of its id.
        dry_run: Change nothing.
        outside: Look also at members that lie outside of the dataset's folder.
        before: Called with the planned steps before the first.
        options: Further arguments of `undelete`.

    Raises:
        ChronotileError: No member holds it, or several do.
        RefusedError: Its rows cannot come back.
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
    return change_members(
        dataset,
        "undelete",
        undelete,
        {"name": whole, **options},
        dry_run=dry_run,
        outside=outside,
        pattern=escape(paths[0]),
        all_or_none=True,
        before=before,
    )
