"""What an engine's open costs before a change and after it.

In: an array, and the steps of a change. Out: two numbers of requests, or nothing where they cannot
be told. Changes nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from chronotile.check.engine_open_cost import consolidated_fragments, open_cost
from chronotile.format.timestamps import now_ms

if TYPE_CHECKING:
    from collections.abc import Iterable

    from chronotile.change.plan import Step
    from chronotile.storage.store import Store
    from chronotile.visibility.rules import Rules


def requests_of_opens(
    store: Store, rules: Rules, steps: Iterable[Step], footers: frozenset[str] = frozenset()
) -> tuple[int, int] | None:
    """The requests of an open before and after some steps; None if a `.meta` cannot be opened.

    Args:
        store: Where the array is.
        rules: The rules, applied to what was read of it.
        steps: The change.
        footers: The fragments whose footers a new `.meta` among the steps holds.
    """
    planned = tuple(steps)
    held = consolidated_fragments(store, rules.history) if planned else None
    if held is None:
        return None
    now = now_ms()
    put = {step.path: step.size for step in planned if step.op == "put"}
    removed = {step.path: step.size for step in planned if step.op == "remove"}
    first = open_cost(rules, held, now)
    both = held._replace(fragments=held.fragments | footers)
    then = open_cost(rules, both, now) if footers else first
    return first.requests, then.after(put, removed).requests
