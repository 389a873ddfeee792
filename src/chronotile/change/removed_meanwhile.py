"""Writes that somebody removed while a `.con` with them was being made.

In: the history that a `.con` was made from, and its rows, once it is written. Out: the writes in
it that count no more. Writes nothing.

Whoever removes a write that stands in a `.con` puts an `.ign` for it; one who looked before this
`.con` was there could not know. What tells is the fragment's folder. That a commit file is gone
tells nothing by itself: it goes first in a removal, but it also goes when somebody vacuums what
the new `.con` holds, and then the write must count. So where a file is gone and the folder is
there, we look again for a while: a removal under way takes the folder next. One that takes longer
leaves a commit without its fragment, which `check` finds and `repair` mends; to ignore a write
that is still wanted would hide data, and is never done.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from chronotile.errors import ArrayNotFoundError, ChangedError
from chronotile.format.kinds import COMMITS, OK
from chronotile.history import text_columns
from chronotile.history.listing import list_array

if TYPE_CHECKING:
    from chronotile.history.listing import Listing
    from chronotile.history.reading import History
    from chronotile.history.uri_columns import I64
    from chronotile.storage.store import Store

WAITS_S = (0.0, 0.1, 0.3, 0.6)
"""How long to wait before each look at the folders of which a commit file is gone."""


def removed_meanwhile(store: Store, history: History, rows: I64) -> tuple[str, ...]:
    """The writes among some rows whose fragment is gone since they were read.

    Args:
        store: Where the array is.
        history: What the `.con` was made from.
        rows: What is in it.

    Returns:
        Their URIs, sorted.

    Raises:
        ChangedError: The whole array is gone.
    """
    waiting = _moved(store, history, rows)
    gone: set[str] = set()
    for wait in WAITS_S if waiting else ():
        time.sleep(wait)
        folders = _folders(_list(store))
        gone |= {uri for uri in waiting if _folder_name(uri) not in folders}
        waiting -= gone
        if not waiting:
            break
    return tuple(sorted(gone))


def _moved(store: Store, history: History, rows: I64) -> set[str]:
    """The writes of which the file that they were read from is gone."""
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


def _list(store: Store) -> Listing:
    try:
        return list_array(store)
    except ArrayNotFoundError as cause:
        raise ChangedError(store.uri, "expected the array to stay, found it gone") from cause


def _folders(listing: Listing) -> frozenset[str]:
    return frozenset(listing.fragments) | frozenset(listing.root_fragments)


def _folder_name(uri: str) -> str:
    return uri.rpartition("/")[2].rpartition(".")[0]
