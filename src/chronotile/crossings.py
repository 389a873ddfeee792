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

import numpy as np

from chronotile import text_columns
from chronotile.errors import ArrayNotFoundError, ChangedError
from chronotile.listing import list_array
from chronotile.uris import OK

if TYPE_CHECKING:
    from chronotile.commit_table import CommitTable
    from chronotile.listing import Listing
    from chronotile.store import Store
    from chronotile.uris import I64

WAITS_S = (0.0, 0.1, 0.3, 0.6)
"""How long to wait before each look at the folders of which a commit file is gone."""


def removed_meanwhile(store: Store, table: CommitTable, rows: I64) -> tuple[str, ...]:
    """The writes among some rows whose fragment is gone since they were read.

    Args:
        store: Where the array is.
        table: What the `.con` was made from.
        rows: What is in it.

    Returns:
        Their URIs, sorted.

    Raises:
        ChangedError: The whole array is gone.
    """
    waiting = _moved(store, table, rows)
    gone: set[str] = set()
    for wait in WAITS_S if waiting else ():
        time.sleep(wait)
        folders = _folders(_list(store))
        gone |= {uri for uri in waiting if _folder_name(uri) not in folders}
        waiting -= gone
        if not waiting:
            break
    return tuple(sorted(gone))


def _moved(store: Store, table: CommitTable, rows: I64) -> set[str]:
    """The writes of which the file that they were read from is gone."""
    here = rows[table.uris.ext[rows] <= OK]
    numbers = np.unique(table.source[here]).tolist()
    listed: dict[str, frozenset[str]] = {}

    def names(folder: str) -> frozenset[str]:
        if folder not in listed:
            listed[folder] = frozenset(store.list_names(folder).files)
        return listed[folder]

    moved: set[str] = set()
    for number in numbers:
        source = table.sources[number]
        own = here[table.source[here] == number]
        if source.loose:
            there, base = names(source.path), f"{source.path}/" if source.path else ""
            uris = text_columns.uris(table, own).to_pylist()
            moved.update(uri for uri in uris if uri.removeprefix(base) not in there)
        else:
            folder, _, name = source.path.rpartition("/")
            if name not in names(folder):
                moved.update(text_columns.uris(table, own).to_pylist())
    return moved


def _list(store: Store) -> Listing:
    try:
        return list_array(store)
    except ArrayNotFoundError as cause:
        raise ChangedError(store.uri, "expected the array to stay, found it gone") from cause


def _folders(listing: Listing) -> frozenset[str]:
    return frozenset(listing.fragments) | frozenset(listing.root_fragments)


def _folder_name(uri: str) -> str:
    return uri.rpartition("/")[2].rpartition(".")[0]
