"""What it costs this package to open an array; `engine_open_cost` counts what it costs an engine.

In: the history of an array. Out: numbers of requests, as an object store bills them. Touches no
storage.

An open lists the folders of the array, and reads every `.con`, `.ign`, `.vac`, `.del` and `.upd`,
the schemas and their enumerations. A listing comes in pages of 1,000 names, each a request; a
`.wrt` is never read, but it takes its place in a page.
"""

from __future__ import annotations

from math import ceil
from typing import TYPE_CHECKING

from chronotile.storage.place import PAGE

if TYPE_CHECKING:
    from chronotile.check.engine_open_cost import OpenCost
    from chronotile.history.read_history import History


def open_requests(history: History) -> int:
    """Count the requests that an open of the array costs."""
    listing = history.listing
    reads = history.requests - listing.requests + listing.heads
    return reads + open_lists(history)


def open_lists(history: History) -> int:
    """Count those of them that list."""
    listing = history.listing
    root = (*listing.root_commits, *listing.root_fragments)
    folders = (listing.commits, listing.fragments, listing.fragment_meta, listing.meta, root)
    further_pages = sum(_pages(len(names)) - 1 for names in folders)
    return listing.requests - listing.heads + listing.absent_folders + further_pages


def cost_columns(history: History, engine: OpenCost | None) -> dict[str, int]:
    """Count the requests of an open, and those of them that list: columns of `arrays`.

    Args:
        history: What was read of the array.
        engine: What an open by an engine costs, if that is known.
    """
    row = {"open_requests": open_requests(history), "open_lists": open_lists(history)}
    if engine is not None:
        row |= {"engine_open_requests": engine.requests, "engine_open_lists": engine.lists}
    return row


def _pages(count: int) -> int:
    return max(1, ceil(count / PAGE))
