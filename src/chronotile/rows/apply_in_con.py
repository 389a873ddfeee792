"""Updates that stand in a `.con`: how `apply` takes them out of it.

In: a log, the updates that have been carried out. Out: files that take the place of each `.con`
which holds one of them, and the `.con` files that go. Touches nothing.

The new file is put before the old one goes: meanwhile both say the same of every other commit. The
engine sees no update in a `.con`, so it shows old values until the new rows are committed, and
never fewer rows.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from chronotile.change.repair import moves_of
from chronotile.change.repair_files import Mender
from chronotile.check.findings import RefusedError
from chronotile.format.kinds import COMMITS

if TYPE_CHECKING:
    from collections.abc import Collection

    from chronotile.change.plan import Step
    from chronotile.log import Log
    from chronotile.rows.changes_in_force import Change


class NewCons(NamedTuple):
    """What becomes of the `.con` files."""

    puts: tuple[Step, ...] = ()
    moves: tuple[Step, ...] = ()


def cons_with(log: Log, update: Change) -> list[str]:
    """The `.con` files that hold an update."""
    table, rows = log.history.table, log.rules.updates.tolist()
    (row,) = (row for row in rows if table.name(row) == update.name)
    copies = {row, *table.copies(row)}
    return sorted({table.path(copy) for copy in copies if not table.is_loose(copy)})


def without_updates(log: Log, names: Collection[str]) -> NewCons:
    """The `.con` files anew, without some updates.

    Raises:
        RefusedError: One of them is damaged.
    """
    if not names:
        return NewCons()
    mender = Mender(log.rules, {}, accept_loss=False, harmless={})
    if mender.damaged_cons:
        problem = f"expected sound .con files, found {min(mender.damaged_cons)} damaged"
        raise RefusedError(log.array, f"{problem}; chronotile repair mends it")
    uris = [f"{COMMITS}/{name}.upd" for name in names]
    mending = mender.leave_out(dict.fromkeys(uris, "its rows have the values"))
    # A run that was broken off may have put them.
    there = {bytes(source.data) for source in log.history.table.sources if not source.loose}
    puts = tuple(step for step in mending.puts.values() if step.data not in there)
    return NewCons(puts, tuple(moves_of(log.storage, mending)))
