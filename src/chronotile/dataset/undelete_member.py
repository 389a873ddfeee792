"""The member of a dataset that holds a delete or an update.

In: a dataset, the name of a delete or update. Out: the path of the one member that holds it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from chronotile.check.findings import RefusedError
from chronotile.errors import ChronotileError, ReadError
from chronotile.format.names import MAX_TIMESTAMP
from chronotile.format.short_ids import find_name

if TYPE_CHECKING:
    from chronotile.dataset.open_dataset import Dataset


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
