"""Checks of tags: whether they, and the moments that they name, can still be read whole.

In: a store, the rules of a history. Out: findings. Reads the array's metadata, and no fragment.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from chronotile.check.findings import Finding, finding
from chronotile.check.read_tags import tags_of
from chronotile.format.kinds import META
from chronotile.format.tag_entries import Tags
from chronotile.format.timestamps import time_text
from chronotile.visibility.gaps import gaps_of, metadata_merged_over

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from chronotile.storage.store import Store
    from chronotile.visibility.rules import Rules


def unreadable_tags(
    store: Store,
    rules: Rules,
    of_group: Mapping[str, int] | None = None,
    group: str | None = None,
) -> Iterator[Finding]:
    """Tags whose moments a vacuum has made unreadable, in full or in part.

    Args:
        store: Where the array is.
        rules: The rules of its history.
        of_group: Only these tags of a group, and of them only those that the array does not know:
            its own check tells of the others.
        group: That group.
    """
    history = rules.history
    tags = tags_of(store, history)
    if of_group is None:
        yield from doubtful_tags(history.array, tags)
    else:
        unknown = {pair for pair in of_group.items() if pair not in tags.of_groups}
        tags = Tags({}, tuple(sorted(unknown)))
    labelled = tags.labelled()
    gaps = list(gaps_of(rules)) if labelled else []
    names = [*tags.own, *(name for name, _ in tags.of_groups)]
    places = [None] * len(tags.own) + [group or "GROUP"] * len(tags.of_groups)
    for (label, moment), name, place in zip(labelled, names, places, strict=True):
        what = [gap.fragment for gap in gaps if gap.t1 <= moment <= gap.t2]
        merged = metadata_merged_over(history, moment)
        what += [f"{META}/{merged}"] if merged is not None else []
        if what:
            message = (
                f"{label} names {moment} ({time_text(moment)}), which can no longer be read "
                f"whole: {what[0]} was merged over it, and what it was merged from is gone"
            )
            yield finding(history.array, "tag-unreadable", META, message, name=name, place=place)


def doubtful_tags(array: str, tags: Tags) -> Iterator[Finding]:
    """Find what may be a tag of an array or a group, and is damaged."""
    for doubt in tags.doubts:
        if not doubt.is_sealed:
            message = (
                f"it may hold a tag and cannot be read: {doubt.problem}; until it can, "
                "a vacuum keeps all that a tag could need"
            )
            yield finding(array, "tag-unreadable", doubt.path, message, hint=doubt.hint)
