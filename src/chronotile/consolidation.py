"""Consolidation of commits: one `.con` for all that counts.

In: an array. Out: a new `.con`, and a report; nothing is removed. Needs no key. Knows nothing of
cells, and does not look at fragments: what the log says of them stays the same.

What goes in: every write that counts, unless an `.ign` names it (then it counts only as a loose
file, and stays one); every delete, ignored or not, as the engine applies it all the same, with
its tile taken from wherever it stands; updates only if asked, or if they stand in a `.con`
already, since the engine does not see them there. Records are in the order of their times as
numbers, updates last: an engine that takes a tile for text can then misread nothing behind it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyarrow.compute as pc

from chronotile import text_columns
from chronotile.con_columns import encode_rows
from chronotile.errors import ArrayNotFoundError, ChangedError
from chronotile.history import read_history
from chronotile.ledger import later_name, later_name_at, rank
from chronotile.listing import COMMITS
from chronotile.maintenance import raw_key, sound_history, write_version
from chronotile.names import time_order
from chronotile.plans import Report, Step
from chronotile.records import Record, commit_name, encode_lines
from chronotile.store import Store, open_store
from chronotile.times import now_ms
from chronotile.uris import DEL, OK, UPD, WRT
from chronotile.writers import put_compared

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from chronotile.commit_table import CommitTable
    from chronotile.history import History
    from chronotile.uris import I64


def consolidate(
    array: str,
    *,
    dry_run: bool = False,
    updates: bool = False,
    key: bytes | str | None = None,
    storage_options: Mapping[str, str] | None = None,
    store: Store | None = None,
) -> Report:
    """Writes one `.con` that holds every commit that counts.

    What an open sees is the same before and after, at every window. Nothing is removed: `vacuum`
    does that.

    Args:
        array: A path or a URI.
        dry_run: Write nothing.
        updates: Take loose updates in too; an engine loses sight of them at once.
        key: Not needed; it only lets damaged deletes of an encrypted array be noticed.
        storage_options: What the storage needs to know.
        store: The store, if it is open already.

    Raises:
        RefusedError: The array is damaged, or too old to have `.con` files.

    >>> consolidate("memory:doc-nowhere")
    Traceback (most recent call last):
    chronotile.errors.ArrayNotFoundError: memory://doc-nowhere: expected an array, found no schema
    """
    opened = store or open_store(array, storage_options)
    history, _ = sound_history(opened, raw_key(key), fragments=False)
    table = history.table
    rows = wanted_rows(table, updates=updates)
    steps = []
    if len(rows) and not _is_there(table, rows):
        t1, t2 = int(table.uris.t1[rows].min()), int(table.uris.t2[rows].max())
        cons = [source.path for source in table.sources if not source.loose]
        name = later_name_at(t1, t2, cons, write_version(history))
        data = encode_rows(table, rows)
        path, reason = f"{COMMITS}/{name}.con", _counted(table, rows)
        steps.append(Step(op="put", path=path, size=len(data), reason=reason, data=data))
    if steps and not dry_run:
        put_compared(opened, steps[0].path, steps[0].data or b"")
        steps += _ignore_vanished(opened, history, rows, steps[0].path)
    return Report(
        command="consolidate",
        array=opened.uri,
        dry_run=dry_run,
        steps=tuple(steps),
        notes=tuple(_notes(table, updates=updates)),
        at_ms=now_ms(),
    )


def wanted_rows(table: CommitTable, *, updates: bool) -> I64:
    """The rows of a `.con` for all that counts, in its order: by time, updates last.

    What the engine sees of a commit that stands in several places is what the `.con` says, and of
    several the latest.
    """
    uris = table.uris
    is_write = (uris.ext == WRT) | (uris.ext == OK)
    unmarked = np.array([source.unmarked for source in table.sources], bool)[table.source]
    writes = np.flatnonzero(table.counts & is_write & ~table.ignored & ~unmarked)
    best: dict[str, tuple[tuple[bool, tuple[int, str]], int]] = {}
    for row in table.tile_rows.tolist():
        loose = table.is_loose(row)
        if loose and uris.ext[row] == UPD and not updates:
            continue
        claim = ((not loose, rank(table.path(row))), row)
        uri = table.uri(row)
        if uri not in best or claim[0] > best[uri][0]:
            best[uri] = claim
    held = np.array([row for _, row in best.values()], np.int64)
    rows = np.sort(np.concatenate((writes, held)))
    is_update = uris.ext[rows] == UPD
    return np.concatenate((rows[~is_update], rows[is_update]))


def wanted_order(record: Record) -> tuple[bool, tuple[int, int, str]]:
    """The key that sorts the records of a `.con`: by time, updates last."""
    return record.uri.endswith(".upd"), time_order(commit_name(record.uri))


def _is_there(table: CommitTable, rows: I64) -> bool:
    """Whether the latest `.con` holds just these records, and is named for them."""
    cons = [at for at, source in enumerate(table.sources) if not source.loose]
    if not cons:
        return False
    latest = max(cons, key=lambda at: rank(table.sources[at].path))
    own = np.flatnonzero(table.source == latest)
    name = commit_name(table.sources[latest].path)
    spanned = (int(table.uris.t1[rows].min()), int(table.uris.t2[rows].max()))
    if len(own) != len(rows) or (name.t1, name.t2) != spanned:
        return False
    there, wanted = text_columns.uris(table, own), text_columns.uris(table, rows)
    if not np.asarray(pc.is_in(wanted, value_set=there)).all():
        return False
    ext = table.uris.ext[rows]
    return bool((table.source[rows[(ext == DEL) | (ext == UPD)]] == latest).all())


def _ignore_vanished(store: Store, history: History, rows: I64, own: str) -> list[Step]:
    """Ignore the writes that somebody removed while the `.con` was made.

    Their removal and this `.con` crossed each other: no `.ign` of theirs can know of it. That
    can only be so of loose ones; whoever removes a write that stands in a `.con` writes an `.ign`.
    """
    gone = _vanished(store, history.table, rows)
    if gone:
        gone -= _held_elsewhere(store, history, own)
    if not gone:
        return []
    lines = sorted(gone)
    data = encode_lines(lines)
    path = f"{COMMITS}/{later_name(lines, (), write_version(history))}.ign"
    put_compared(store, path, data)
    reason = f"{len(gone)} writes were removed meanwhile"
    return [Step(op="put", path=path, size=len(data), reason=reason)]


def _vanished(store: Store, table: CommitTable, rows: I64) -> set[str]:
    """The loose writes among the rows whose file is gone."""
    gone: set[str] = set()
    for number, source in enumerate(table.sources):
        here = rows[(table.source[rows] == number) & (table.uris.ext[rows] <= OK)]
        if source.loose and len(here):
            base = f"{source.path}/" if source.path else ""
            there = {f"{base}{name}" for name in store.list_names(source.path).files}
            gone.update(
                uri for uri in text_columns.uris(table, here).to_pylist() if uri not in there
            )
    return gone


def _held_elsewhere(store: Store, history: History, own: str) -> set[str]:
    """What other `.con` files hold by now: another maintainer's, who then removed loose files."""
    try:
        table = read_history(store.uri, key=history.key, store=store, fragments=False).table
    except ArrayNotFoundError as cause:
        raise ChangedError(store.uri, "expected the array to stay, found it gone") from cause
    held: set[str] = set()
    for number, source in enumerate(table.sources):
        if not source.loose and source.path != own:
            rows = np.flatnonzero(table.source == number)
            held.update(text_columns.uris(table, rows).to_pylist())
    return held


def _counted(table: CommitTable, rows: I64) -> str:
    ext = table.uris.ext[rows]
    counts = {
        "write": int(np.count_nonzero(ext <= OK)),
        "delete": int(np.count_nonzero(ext == DEL)),
        "update": int(np.count_nonzero(ext == UPD)),
    }
    said = [f"{n} {word}{'' if n == 1 else 's'}" for word, n in counts.items() if n]
    return ", ".join(said)


def _notes(table: CommitTable, *, updates: bool) -> Iterable[str]:
    loose = np.array([source.loose for source in table.sources], bool)[table.source]
    kept = int(np.count_nonzero(loose & (table.uris.ext == UPD)))
    if kept and not updates:
        yield f"{kept} updates stay loose: the engine cannot read one inside a .con"
    elif kept:
        yield f"{kept} updates are in the .con, where the engine does not see them"
    ignored = int(np.count_nonzero(loose & (table.uris.ext <= OK) & table.ignored))
    if ignored:
        yield f"{ignored} writes stay loose: an .ign names them"
