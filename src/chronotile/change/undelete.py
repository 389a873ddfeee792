"""Undelete: the rows that one delete or update hides come back.

In: an array, the name of a delete or update. Out: the plan of the array without its effect.

From a moment on: everything is replayed without it, after every other commit (see `replay`), and
history stays as it is. Or for ever: its file goes into the quarantine, and every window changes. A
fragment that has applied it notes it by name (F14): one that matches no row takes its place then,
and the rows of that fragment stay away.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from chronotile.change.plan import Plan
from chronotile.change.repair import Mender, harmless_tiles, mending_stages
from chronotile.change.restore import plan_undelete_from
from chronotile.change.sound_array import sealing_key
from chronotile.check.findings import RefusedError
from chronotile.check.fragment_health import inspect
from chronotile.errors import ChronotileError
from chronotile.format.names import MAX_TIMESTAMP
from chronotile.history.read_history import read_history
from chronotile.visibility.rules import Rules
from chronotile.visibility.view import tile_commits

if TYPE_CHECKING:
    from chronotile.change.repair import Mending
    from chronotile.format.timestamps import Moment
    from chronotile.storage.store import Store


def plan_undelete(
    store: Store, key: bytes | None, *, name: str, at: Moment | None = None, ever: bool = False
) -> Plan:
    """Plan to bring back the rows that one delete or update hides; see `Handle.undelete`."""
    bare = name.rpartition("/")[2].removesuffix(".del").removesuffix(".upd")
    if not ever:
        return plan_undelete_from(store, key, bare, at=at)
    if at is not None:
        raise ChronotileError(store.uri, "expected a moment or for ever, found both")
    mending = _mending(store, bare, key)
    return Plan(
        command="undelete",
        array=store.uri,
        stages=mending_stages(store, mending),
        notes=tuple(mending.notes),
    )


def _mending(store: Store, name: str, key: bytes | None) -> Mending:
    history = read_history(store, key=key)
    rules = Rules(history)
    found = [pair for pair in tile_commits(rules, MAX_TIMESTAMP) if pair[0].name == name]
    if not found:
        raise RefusedError(store.uri, f"expected a delete or update, found {name!r:.120}")
    commit, row = found[0]
    table = history.table
    rows = rules.fragments[~rules.missing].tolist()
    health = inspect(store, history, [table.fragment_path(one) for one in rows])
    noted = {name, table.uri(row).rpartition("/")[2]}
    applied = [path for path, item in health.items() if noted.intersection(item.applied)]
    older = [
        table.fragment_path(one)
        for one in rules.visible(0, MAX_TIMESTAMP)[0].tolist()
        if int(table.uris.t1[one]) <= commit.t2
    ]
    if applied and not set(older) - set(applied):
        problem = f"expected rows that come back, found none: {applied[0]} has applied it"
        hint = "chronotile restore may bring back what it was merged from"
        raise RefusedError(store.uri, f"{problem}; {hint}")
    harmless = harmless_tiles(history, sealing_key(store, history)) if applied else {}
    mender = Mender(rules, health, accept_loss=False, harmless=harmless)
    mending = mender.take_out(commit, table.uri(row), "its rows come back")
    if mending.left:
        raise RefusedError(store.uri, mending.left[0].message, tuple(mending.left))
    return mending
