"""Deletes and updates that say how many rows they touch, before they are written.

In: an array, a predicate. Out: the plan of the commit, with the number of rows that the engine
would remove. Without TileDB the footers tell how many there can be at most. An array with very many
cells is not read for that.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from chronotile.change.delete_update import plan_delete, plan_update
from chronotile.check.findings import count_text
from chronotile.errors import ChronotileError
from chronotile.history.read_footers import count_cells
from chronotile.history.read_history import read_history
from chronotile.log import Log
from chronotile.rows.commit_changes import removed_of
from chronotile.rows.engine import NoEngineError, require_engine
from chronotile.rows.read_rows import told_of_damage
from chronotile.storage.overlay import overlaid

if TYPE_CHECKING:
    from chronotile.change.plan import Plan
    from chronotile.storage.store import Store

MOST_FRAGMENTS = 1_000
"""Fragments whose footers are read for a number alone."""
MOST_CELLS = 10_000_000
"""Cells that are read for a number alone."""


def plan_counted_delete(store: Store, key: bytes | None, **options: Any) -> Plan:
    """Plan a delete commit, and count its rows; see `Handle.delete`."""
    return _counted(store, key, plan_delete(store, key, **options), "deleted")


def plan_counted_update(store: Store, key: bytes | None, **options: Any) -> Plan:
    """Plan an update commit, and count its rows; see `Handle.update`."""
    return _counted(store, key, plan_update(store, key, **options), "updated")


def _counted(store: Store, key: bytes | None, plan: Plan, word: str) -> Plan:
    (step,) = plan.steps
    shown = overlaid(store, {step.path: step.data})
    history = read_history(shown, key=key, labels=True)
    log = Log(history, shown)
    moment = int(step.path.rpartition("/")[2].split("_")[2])
    table = history.table
    rows = log.rules.visible(0, moment)[0].tolist()
    if len(rows) > MOST_FRAGMENTS:
        return _noted(plan, f"the rows of {len(rows):,} fragments were not counted")
    cells = count_cells(store, history, [table.fragment_path(row) for row in rows])
    if cells is None:
        return plan
    most = f"up to {count_text(cells, 'row')}, in {count_text(len(rows), 'fragment')}"
    if cells > MOST_CELLS:
        return _noted(plan, most)
    try:
        require_engine()
        with told_of_damage(log):
            taken = removed_of(log, step.path.rpartition("/")[2])
            found = {word: taken.count()}
            if taken.change.is_update:  # to the engine it is a delete, and so are those before it
                found["hidden"] = taken.as_deletes().count()
    except NoEngineError:
        return _noted(plan, most)
    except ChronotileError as error:
        return _noted(plan, f"{most}: they could not be counted: {error.problem}")
    plan = replace(plan, rows=found)
    return plan if any(found.values()) else _noted(plan, "no row matches")


def _noted(plan: Plan, note: str) -> Plan:
    return replace(plan, notes=(*plan.notes, note))
