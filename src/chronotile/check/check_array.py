"""All checks of one array.

In: a history and its rules, and a store for checks that look beyond the log. Out: findings, the
worst first. Changes nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from chronotile.check.commit_files import consolidated, damage
from chronotile.check.conditions import broken_tiles, conditions
from chronotile.check.debt import SUPERSEDED, array_metadata_debt
from chronotile.check.engine_open_cost import unconsolidated
from chronotile.check.findings import Finding, finding, worst_first
from chronotile.check.fragment_health import inspect
from chronotile.check.fragments import fragments, missing, orphan_paths
from chronotile.check.late_writes import hidden_writes, late_writes
from chronotile.check.looked_at import LookedAt
from chronotile.check.stored_files import stored
from chronotile.check.unreadable_tags import unreadable_tags
from chronotile.history.con_files import differing_tiles
from chronotile.visibility.rules import Rules

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from chronotile.history.read_history import History
    from chronotile.storage.store import Store


def check(
    history: History,
    rules: Rules | None = None,
    store: Store | None = None,
    on_fragment: Callable[[], None] | None = None,
    *,
    deep: bool = False,
    looked_at: LookedAt | None = None,
) -> tuple[Finding, ...]:
    """Find what is wrong with an array, the worst first.

    Args:
        history: What was read of it.
        rules: The rules applied to it, if they are at hand.
        store: Where the array is: fragments and metadata are checked too. Without it nothing is
            read.
        on_fragment: Called after each fragment that is checked.
        deep: Open the cell files of each fragment too.
        looked_at: Where to add up what was looked at.
    """
    rules, looked_at = rules or Rules(history), looked_at or LookedAt()
    looked_at.schemas += len(history.schemas)
    found = find_problems(history, rules, store, on_fragment, deep=deep, looked_at=looked_at)
    return tuple(sorted(found, key=worst_first))


def find_problems(
    history: History,
    rules: Rules,
    store: Store | None,
    on_fragment: Callable[[], None] | None = None,
    *,
    deep: bool = False,
    looked_at: LookedAt | None = None,
) -> Iterator[Finding]:
    """Give what `check` finds, one by one, in no order: an array can have a million findings."""
    orphans = None if store is None else inspect(store, history, orphan_paths(rules))
    yield from damage(history)
    yield from fragments(rules, orphans)
    yield from conditions(rules)
    yield from hidden_writes(history.array, late_writes(rules))
    yield from differing(history)
    yield from consolidated(history)
    yield from array_metadata_debt(history)
    if store is None:
        return
    looked_at = looked_at or LookedAt()
    for item in stored(store, rules, on_fragment, deep=deep, looked_at=looked_at):
        # If a vacuum would refuse, it would free nothing.
        if item.code != SUPERSEDED or not blocking(history, rules):
            yield item
    yield from unconsolidated(store, rules)
    yield from unreadable_tags(store, rules)


def blocking(history: History, rules: Rules) -> tuple[Finding, ...]:
    """The findings that must be mended before an array is changed."""
    findings = [f for f in damage(history) if f.code != "vac-absolute" or f.severity != "info"]
    findings += [item for item in missing(rules) if item.severity == "error"]
    findings += [*broken_tiles(rules), *differing(history)]
    return tuple(sorted(findings, key=worst_first))


def differing(history: History) -> list[Finding]:
    """The first `.con` that holds one delete twice, with two conditions."""
    for path, uri in differing_tiles(history.table):
        message = f"expected one record of {uri}, found two that differ"
        return [finding(history.array, "tile-corrupt", path, message)]
    return []
