"""Undelete: the rows that one delete or update hides come back.

In: an array, the name of a delete or update. Out: the array without its effect, and a report.

From a moment on: all fragments are committed again, after every other commit, and the old ones go
out of sight (see `replay`); history stays as it is. Or for ever: its file goes into the quarantine,
and every window changes. A fragment that has applied it notes it by name (F14): one that matches no
row takes its place then, and the rows of that fragment stay away.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from chronotile.change.change_report import Before, Report, tell
from chronotile.change.quarantine import new_quarantine
from chronotile.change.repair import mend, moves_of
from chronotile.change.repair_files import Mender
from chronotile.change.sound_array import sealing_key
from chronotile.change.stand_in_deletes import harmless_tiles
from chronotile.check.findings import RefusedError
from chronotile.check.fragment_health import inspect
from chronotile.errors import ChronotileError, shell_word
from chronotile.format.names import MAX_TIMESTAMP
from chronotile.history.read_history import read_history
from chronotile.storage.store import Store, open_store
from chronotile.time_machine.restore import undelete_from
from chronotile.visibility.rules import Rules
from chronotile.visibility.view import tile_commits

if TYPE_CHECKING:
    from collections.abc import Mapping

    from chronotile.change.mending import Mending
    from chronotile.format.timestamps import Moment


def undelete(
    array: str,
    name: str,
    *,
    at: Moment | None = None,
    ever: bool = False,
    dry_run: bool = False,
    key: bytes | str | None = None,
    storage_options: Mapping[str, str] | None = None,
    store: Store | None = None,
    before: Before = None,
) -> Report:
    """Lets the rows that one delete or update hides come back.

    Args:
        array: A path or a URI.
        name: The name of the delete or update.
        at: The moment from which on they come back, after every commit; now, if it is left out.
            Every window that ends before stays as it is.
        ever: Take it out of the whole history instead, into the quarantine.
        dry_run: Change nothing.
        key: The key of an encrypted array.
        storage_options: What the storage needs to know.
        store: The store, if it is open already.
        before: Called with the planned steps, before the first.

    Raises:
        RefusedError: There is no such delete, or no row would come back.
        UnreachableError: Fragments keep times for their cells, or have applied it, and what they
            were merged from is gone.

    >>> undelete("memory:doc-nowhere", "x")
    Traceback (most recent call last):
    chronotile.errors.ArrayNotFoundError: memory://doc-nowhere: expected an array, found no schema
    """
    opened = store or open_store(array, storage_options)
    bare = name.rpartition("/")[2].removesuffix(".del").removesuffix(".upd")
    if not ever:
        return undelete_from(opened, bare, at=at, dry_run=dry_run, key=key, before=before)
    if at is not None:
        raise ChronotileError(opened.uri, "expected a moment or for ever, found both")
    return _undelete_ever(opened, bare, key, before, dry_run=dry_run)


def _undelete_ever(
    store: Store, name: str, key: bytes | str | None, before: Before, *, dry_run: bool
) -> Report:
    mending = _mending(store, name, key)
    moves = tuple(moves_of(store, mending))
    steps = (*mending.puts.values(), *moves, *mending.replaced.values())
    report = Report("undelete", store.uri, dry_run=dry_run, steps=steps, notes=tuple(mending.notes))
    kept = new_quarantine(store, report.at_ms)
    if not dry_run:
        tell(before, report)
        mend(store, kept, mending, moves, report.at_ms)
    return replace(report, quarantine=kept.uri, restore=f"chronotile undo {shell_word(store.uri)}")


def _mending(store: Store, name: str, key: bytes | str | None) -> Mending:
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
