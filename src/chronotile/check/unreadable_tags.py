"""Checks of tags: whether the moments that they name can still be read whole.

In: a store, the rules of a history. Out: findings. Reads the array's metadata, and no fragment.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from chronotile.check.array_tags import tags_of
from chronotile.check.findings import Finding, finding
from chronotile.format.kinds import META
from chronotile.format.timestamps import time_text
from chronotile.visibility.gaps import gaps_of, metadata_merged_over

if TYPE_CHECKING:
    from collections.abc import Iterator

    from chronotile.storage.store import Store
    from chronotile.visibility.rules import Rules


def unreadable_tags(store: Store, rules: Rules) -> Iterator[Finding]:
    """Tags whose moments a vacuum has made unreadable, in full or in part."""
    history = rules.history
    if not history.listing.meta:
        return
    tags = tags_of(store, history)
    gaps = list(gaps_of(rules)) if tags else []
    for name, moment in tags.items():
        what = [gap.fragment for gap in gaps if gap.t1 <= moment <= gap.t2]
        merged = metadata_merged_over(history, moment)
        what += [f"{META}/{merged}"] if merged is not None else []
        if what:
            message = (
                f"the tag {name} names {moment} ({time_text(moment)}), which can no longer be read "
                f"whole: {what[0]} was merged over it, and what it was merged from is gone"
            )
            yield finding(history.array, "tag-unreadable", META, message)
