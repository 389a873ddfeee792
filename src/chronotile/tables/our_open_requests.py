"""What opening an array costs, and what maintenance would save.

In: the history of an array. Out: numbers of requests, as an object store bills them. Touches no
storage.

An open lists the folders of the array, and reads every `.con`, `.ign`, `.vac`, `.del` and `.upd`,
the schemas and their enumerations. A listing comes in pages of 1,000 names, each a request; a
`.wrt` is never read, but it takes its place in a page. Consolidating and vacuuming commits leaves
one `.con` for all writes, and no `.ign`; the files of deletes and updates, which the engine needs,
stay, as do `.vac` files and what lies in other folders.
"""

from __future__ import annotations

from math import ceil
from typing import TYPE_CHECKING

from chronotile.format.kinds import WRITES
from chronotile.storage.place import PAGE

if TYPE_CHECKING:
    from chronotile.check.engine_open_cost import OpenCost
    from chronotile.history.read_history import History
    from chronotile.tables.prices import Prices

_READ = (".con", ".ign")
_MERGED = (*WRITES, *_READ)
"""Files that maintenance merges, whether an open reads them or not."""


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


def cost_columns(
    history: History, engine: OpenCost | None, prices: Prices
) -> dict[str, int | float | None]:
    """The columns of `arrays` that tell what an open costs, in requests and in money.

    Args:
        history: What was read of the array.
        engine: What an open by an engine costs, if that is known.
        prices: Of requests.
    """
    requests, lists = open_requests(history), open_lists(history)
    row: dict[str, int | float | None] = {
        "open_requests": requests,
        "open_lists": lists,
        "open_cost": prices.cost(lists=lists, reads=requests - lists),
    }
    if engine is not None:
        reads = engine.requests - engine.lists
        row |= {
            "engine_open_requests": engine.requests,
            "engine_open_lists": engine.lists,
            "engine_open_cost": prices.cost(lists=engine.lists, reads=reads),
        }
    return row


def requests_after_maintenance(history: History) -> int:
    """Count the requests that an open would cost after commits are consolidated and vacuumed."""
    commits = history.listing.commits
    count = len(commits)
    unmerged = sum(not name.endswith(_MERGED) for name in commits)
    read = sum(name.endswith(_READ) for name in commits)
    now = open_requests(history)
    if count == unmerged and not any(name.endswith(".del") for name in commits):
        return now
    saved = read - 1 + _pages(count) - _pages(unmerged + 1)
    return now - max(saved, 0)


def _pages(count: int) -> int:
    return max(1, ceil(count / PAGE))
