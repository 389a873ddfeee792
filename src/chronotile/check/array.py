"""What is wrong with an array, and what to do about it.

In: a history and its rules, and a store if more than the log is to be looked at. Out: findings, the
worst first. Changes nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from chronotile.check.commit_files import RELATIVE_VAC, consolidated, damage
from chronotile.check.conditions import broken_tiles, conditions
from chronotile.check.findings import SEVERITIES, Finding, finding
from chronotile.check.fragments import fragments, missing
from chronotile.check.stored_files import stored
from chronotile.history.con_coverage import differing_tiles
from chronotile.visibility.rules import Rules

if TYPE_CHECKING:
    from collections.abc import Callable

    from chronotile.history.reading import History
    from chronotile.storage.store import Store

__all__ = ["RELATIVE_VAC", "Finding", "blocking", "check"]


def check(
    history: History,
    rules: Rules | None = None,
    store: Store | None = None,
    on_fragment: Callable[[], None] | None = None,
) -> tuple[Finding, ...]:
    """Finds what is wrong with an array.

    Args:
        history: What was read of it.
        rules: The rules applied to it, if they are at hand.
        store: Where it is: fragments and metadata are looked at too. Without it nothing is read.
        on_fragment: Called after each fragment that was looked at.

    Returns:
        The findings, the worst first.
    """
    rules = rules or Rules(history)
    found = [*damage(history), *fragments(history, rules), *conditions(history, rules)]
    found += [*_differing(history), *consolidated(history)]
    if store is not None:
        found += stored(store, history, rules, on_fragment)
    return tuple(sorted(found, key=_worst_first))


def blocking(history: History, rules: Rules) -> tuple[Finding, ...]:
    """The findings that must be mended before an array is maintained."""
    found = [
        item for item in damage(history) if item.code != "vac-absolute" or item.severity != "info"
    ]
    found += [item for item in missing(history, rules) if item.severity == "error"]
    found += [
        finding(history.array, "tile-corrupt", path, message)
        for path, message in broken_tiles(history, rules)
    ]
    found += _differing(history)
    return tuple(sorted(found, key=_worst_first))


def _differing(history: History) -> list[Finding]:
    """The first `.con` that holds one delete twice, with two conditions."""
    for path, uri in differing_tiles(history.table):
        message = f"expected one record of {uri}, found two that differ"
        return [finding(history.array, "tile-corrupt", path, message)]
    return []


def _worst_first(item: Finding) -> tuple[int, str, str]:
    return SEVERITIES.index(item.severity), item.code, item.path
