"""Checks that look at more of the storage than the log: fragments, and metadata.

In: a store, a history and its rules. Out: findings. Reads the metadata of each fragment that
counts and the files of `__fragment_meta` and `__meta`; never a cell.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from chronotile.check.conditions import commits, said
from chronotile.check.findings import Finding, Severity, finding
from chronotile.check.fragment_health import State, inspect, lacking_fragments, lacking_words
from chronotile.conditions.tree import fields
from chronotile.errors import ChronotileError, KeyNeededError, StorageError
from chronotile.format import tiles
from chronotile.format.kinds import DEL, META
from chronotile.format.names import MAX_TIMESTAMP, is_name
from chronotile.storage.store import MissingObjectError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from chronotile.check.fragment_health import Health
    from chronotile.history.reading import History
    from chronotile.storage.store import Store
    from chronotile.visibility.rules import Rules


def stored(
    store: Store, history: History, rules: Rules, on_fragment: Callable[[], None] | None = None
) -> Iterator[Finding]:
    """What the log alone does not tell.

    Args:
        store: Where the array is.
        history: What was read of it.
        rules: The rules applied to it.
        on_fragment: Called after each fragment that was looked at.
    """
    health = inspect(store, history, _counting(history, rules), on_fragment=on_fragment)
    yield from _fragments(history, rules, health)
    yield from _lost_deletes(history, health)
    yield from _older(history, rules, health)
    yield from metadata(store, history)


def _counting(history: History, rules: Rules) -> list[str]:
    table = history.table
    return [table.fragment_path(int(row)) for row in rules.fragments[~rules.missing].tolist()]


def _fragments(history: History, rules: Rules, health: Mapping[str, Health]) -> Iterator[Finding]:
    """Fragments that are not whole. One that no window of today sees is no error."""
    table, array = history.table, history.array
    hidden = rules.superseded(0, MAX_TIMESTAMP)
    for at in np.flatnonzero(~rules.missing).tolist():
        found = health[table.fragment_path(int(rules.fragments[at]))]
        if found.state is State.FLAWED:
            message = f"{found.problem}: the engine reads its cells all the same"
            hint = "nothing to run: consolidate its fragments with the engine to have them anew"
            code, path = "fragment-damaged", found.file
            yield finding(array, code, path, message, severity="warning", hint=hint)
        elif found.is_broken:
            severity: Severity = "warning" if hidden[at] else "error"
            message = f"{found.problem}: the engine cannot read its cells"
            yield finding(array, found.code, found.file, message, severity=severity)


def _lost_deletes(history: History, health: Mapping[str, Health]) -> Iterator[Finding]:
    """Deletes that a fragment has applied and that are gone (F14)."""
    table = history.table
    rows = table.tile_rows[table.uris.ext[table.tile_rows] == DEL]
    known = {table.name(row) for row in rows.tolist()}
    for path, found in health.items():
        gone = [name for name in found.applied if name not in known]
        if gone:
            few = gone[0] if len(gone) == 1 else f"{gone[0]} and {len(gone) - 1} more"
            message = f"it has applied {few}, which is gone: what that removed stays removed, and "
            message += "the engine's next consolidation of fragments crashes"
            yield finding(history.array, "delete-lost", path, message)


def _older(history: History, rules: Rules, health: Mapping[str, Health]) -> Iterator[Finding]:
    """Deletes on a field that fragments written before it was added lack (F15)."""
    for commit, row in commits(history, rules):
        if history.table.uris.ext[row] != DEL and commit.offset:
            continue  # an update that the engine does not see
        try:
            named = fields(commit.stored)
        except ChronotileError:
            continue
        hit = lacking_fragments(history, rules, named, commit.t2, health)
        if hit:
            message = f"{said(commit)}: {lacking_words(hit)}"
            yield finding(history.array, "delete-hits-older", commit.source, message)


def metadata(store: Store, history: History) -> Iterator[Finding]:
    """Files of `__fragment_meta` and `__meta` whose tile cannot be opened."""
    listing = history.listing
    paths = [path for path in listing.fragment_meta if path.endswith(".meta")]
    paths += [f"{META}/{name}" for name in listing.meta if is_name(name)]
    for path, data in store.read_many(paths):
        if isinstance(data, MissingObjectError):
            continue
        if isinstance(data, StorageError):
            raise data
        try:
            if isinstance(data, ChronotileError):
                raise data
            tiles.decode(data, path, key=history.key)
        except KeyNeededError:
            continue
        except ChronotileError as error:
            yield finding(history.array, "tile-corrupt", path, error.problem)
