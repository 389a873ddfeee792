"""Lifelines held against views: what each says is visible, at every end that could matter.

In: a log. Out: a line for each end at which the two disagree. Knows nothing of files.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from chronotile.log import Log

NEVER = (1 << 64) - 1


def lifeline_differences(log: Log) -> list[str]:
    """Where lifelines and views disagree, of all fragments at every end that could matter."""
    rows = log.lifelines().to_pylist()
    marks = {mark for row in rows for mark in (row["t1"], row["t2"])}
    marks |= {mark for vac in log.history.vacuums for mark in vac.name[:2]}
    ends = {max(mark + near, 0) for mark in marks for near in (-1, 0, 1)} | {0, NEVER}
    found = []
    for end in sorted(min(end, NEVER) for end in ends):
        visible = Counter(one.name for one in log.view(0, end).fragments)
        alive = Counter(row["name"] for row in rows if is_alive(row, end))
        if visible != alive:
            found.append(f"at {end}: views {visible - alive}, lifelines {alive - visible}")
    return found


def is_alive(row: dict[str, Any], end: int) -> bool:
    since, until = row["visible_from"], row["visible_until"]
    return since is not None and since <= end and (until is None or end <= until)
