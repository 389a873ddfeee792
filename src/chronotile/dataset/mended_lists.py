"""A dataset as it will be once the lists of members in its groups are repaired.

In: a dataset, some of whose groups may have damaged lists. Out: the same dataset, in which these
groups have the members that a repair leaves them. Changes nothing.
"""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

from chronotile.change.repair_group import mended_history
from chronotile.check.findings import RefusedError
from chronotile.dataset.open_dataset import Dataset
from chronotile.errors import ChronotileError
from chronotile.history.listing import is_group

if TYPE_CHECKING:
    from chronotile.dataset.member_tree import Node
    from chronotile.history.group_reading import GroupHistory


def as_mended(dataset: Dataset) -> Dataset:
    """The dataset with the members that a repair of its groups leaves.

    Raises:
        RefusedError: A damaged list of the dataset's own group has just changed.
        StorageError: The storage failed.
    """
    history = mended_history(dataset.store, dataset.key)
    known: dict[str, GroupHistory] = {}
    while True:
        shown = Dataset(dataset.store, history)
        shown.looked_up.groups.update(known)
        broken = [node for node in shown.tree() if _is_broken_group(node) and node.uri not in known]
        if not broken:
            return shown
        before = len(known)
        for node in broken:
            assert node.store is not None  # it was found to be a group
            with suppress(RefusedError):
                known[node.uri] = mended_history(node.store, dataset.key)
        if len(known) == before:
            return shown


def _is_broken_group(node: Node) -> bool:
    if node.found != "unreadable" or node.store is None:
        return False
    try:
        return is_group(node.store.list_dir())
    except ChronotileError:
        return False
