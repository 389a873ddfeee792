"""Writes that somebody removed while a `.con` with them was being made.

In: the history that a new `.con` was made from, and the rows in it. Out: the writes in it that are
no longer effective. Writes nothing.

Whoever removes a write that stands in a `.con` puts an `.ign` for it. A vacuum that looked before
this `.con` was there could not know that it needs one. The fragment's folder tells whether the
write was removed. A lost commit file alone tells nothing: it goes first in a removal, but it also
goes when somebody vacuums what the new `.con` holds, and then the write must stay effective. So if
a commit file is gone and its folder is there, we look again for a while: a removal that is under
way takes the folder next. A slower removal leaves a commit without its fragment, which `check`
finds and `repair` mends. We never ignore a write that may still be wanted: that would hide data.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from chronotile.errors import ArrayNotFoundError, ChangedError
from chronotile.format.kinds import COMMITS, OK
from chronotile.history import text_columns
from chronotile.history.listing import list_array

if TYPE_CHECKING:
    from chronotile.history.read_history import History
    from chronotile.history.uri_columns import I64
    from chronotile.storage.store import Store

WAITS_S = (0.0, 0.1, 0.3, 0.6)
"""Seconds to wait before each look at the folders whose commit file is gone."""


def removed_meanwhile(store: Store, history: History, rows: I64) -> tuple[str, ...]:
    """The sorted URIs of the writes among some rows whose fragment is gone since the reading.

    Raises:
        ChangedError: The whole array is gone.
    """
    waiting = _without_file(store, history, rows)
    gone: set[str] = set()
    for wait in WAITS_S if waiting else ():
        time.sleep(wait)
        try:
            folders = list_array(store).fragment_paths()
        except ArrayNotFoundError as cause:
            raise ChangedError(store.uri, "expected the array to stay, found it gone") from cause
        gone |= {u for u in waiting if u.rpartition("/")[2].rpartition(".")[0] not in folders}
        waiting -= gone
        if not waiting:
            break
    return tuple(sorted(gone))


def _without_file(store: Store, history: History, rows: I64) -> set[str]:
    """The writes that were read from a file that is gone now."""
    table, gone = history.table, set[str]()
    for folder, names in ((COMMITS, history.listing.commits), ("", history.listing.root_commits)):
        if names:
            lost = frozenset(names).difference(store.list_names(folder).files)
            gone |= {f"{folder}/{name}" if folder else name for name in lost}
    if not gone:
        return set()
    writes = rows[table.uris.ext[rows] <= OK]
    files = text_columns.paths(table, writes).to_pylist()
    uris = text_columns.uris(table, writes).to_pylist()
    return {uri for uri, file in zip(uris, files, strict=True) if file in gone}
