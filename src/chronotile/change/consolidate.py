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

from chronotile.change.change_report import Report, Step
from chronotile.change.delete_update import put_compared
from chronotile.change.removed_meanwhile import removed_meanwhile
from chronotile.change.sound_array import raw_key, sound_history, tell, write_version
from chronotile.errors import ChangedError
from chronotile.format.commit_files import Record, commit_name, encode_lines
from chronotile.format.con_names import later_name, later_name_at, rank
from chronotile.format.kinds import COMMITS, DEL, OK, UPD, WRT
from chronotile.format.names import time_order
from chronotile.format.timestamps import now_ms
from chronotile.history import text_columns
from chronotile.history.columns_to_con import encode_rows
from chronotile.storage.store import Store, open_store

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from chronotile.change.sound_array import Before
    from chronotile.history.commit_table import CommitTable
    from chronotile.history.reading import History
    from chronotile.history.uri_columns import I64


def consolidate(
    array: str,
    *,
    dry_run: bool = False,
    updates: bool = False,
    key: bytes | str | None = None,
    storage_options: Mapping[str, str] | None = None,
    store: Store | None = None,
    before: Before = None,
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
        before: Called with what is about to be done, before it is.

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
    steps: list[Step] = []
    notes = [*_notes(table, updates=updates)]
    if len(rows) and not _is_there(table, rows):
        t1, t2 = int(table.uris.t1[rows].min()), int(table.uris.t2[rows].max())
        cons = [source.path for source in table.sources if not source.loose]
        name = later_name_at(t1, t2, cons, write_version(history))
        data = encode_rows(table, rows)
        path, reason = f"{COMMITS}/{name}.con", _counted(table, rows)
        steps.append(Step(op="put", path=path, size=len(data), reason=reason, data=data))
    if steps and not dry_run:
        tell(before, "consolidate", opened.uri, steps, notes)
        if not _put(opened, steps[0].path, steps[0].data or b""):
            notes.append(f"{steps[0].path} is gone already: another maintainer's .con replaced it")
        steps += _ignore_removed(opened, history, rows)
    return Report(
        command="consolidate",
        array=opened.uri,
        dry_run=dry_run,
        steps=tuple(steps),
        notes=tuple(notes),
        at_ms=now_ms(),
    )


def wanted_rows(table: CommitTable, *, updates: bool) -> I64:
    """The rows of a `.con` for all that counts, in its order: by time, updates last.

    What the engine sees of a commit that stands in several places is what the `.con` says, and of
    several the latest.
    """
    uris = table.uris
    is_write = (uris.ext == WRT) | (uris.ext == OK)
    writes = np.flatnonzero(table.counts & is_write & ~table.ignored & ~table.implied)
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


def _ignore_removed(store: Store, history: History, rows: I64) -> list[Step]:
    lines = removed_meanwhile(store, history, rows)
    if not lines:
        return []
    data = encode_lines(lines)
    path = f"{COMMITS}/{later_name(lines, (), write_version(history))}.ign"
    _put(store, path, data)
    reason = f"{len(lines)} writes were removed meanwhile"
    return [Step(op="put", path=path, size=len(data), reason=reason)]


def _put(store: Store, path: str, data: bytes) -> bool:
    """Put a file; say whether it is still there.

    Another maintainer may have vacuumed it at once, for a later one that holds the same.
    """
    try:
        put_compared(store, path, data)
    except ChangedError:
        return False
    return True


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
    loose = table.loose
    kept = int(np.count_nonzero(loose & (table.uris.ext == UPD)))
    if kept and not updates:
        yield f"{kept} updates stay loose: the engine cannot read one inside a .con"
    elif kept:
        yield f"{kept} updates are in the .con, where the engine does not see them"
    ignored = int(np.count_nonzero(loose & (table.uris.ext <= OK) & table.ignored))
    if ignored:
        yield f"{ignored} writes stay loose: an .ign names them"
