"""Checks of a group's tags: whether every member can still be read whole at their moments.

In: a dataset. Out: findings on members that do not know of the tag themselves; those that do are
told by their own check. Reads members only if there is a tag.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from chronotile.check.tags import doubtful_tags, unreadable_tags
from chronotile.errors import ChronotileError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from chronotile.check.findings import Finding
    from chronotile.dataset.open_dataset import Dataset


def check_tags(dataset: Dataset) -> Iterator[Finding]:
    """The findings on the tags of a group, and of the groups in it."""
    for group in (dataset, *dataset.inner()):
        tags = group.known_tags
        yield from doubtful_tags(group.uri, tags)
        if not tags.own:
            continue
        for node, log in group.read_logs():
            # An array that cannot be read is told by the check of its group.
            if not isinstance(log, ChronotileError) and node.store is not None:
                yield from unreadable_tags(node.store, log.rules, tags.own, group.uri)
