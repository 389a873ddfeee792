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

if TYPE_CHECKING:
    from chronotile.history.reading import History

PAGE = 1000
"""Names in one answer to a list request."""

_READ = (".con", ".ign")
_MERGED = (*WRITES, *_READ)
"""Files that maintenance merges, whether an open reads them or not."""


def open_requests(history: History) -> int:
    """The requests that an open of the array costs."""
    listing = history.listing
    root = (*listing.root_commits, *listing.root_fragments)
    folders = (listing.commits, listing.fragments, listing.fragment_meta, listing.meta, root)
    further_pages = sum(_pages(len(names)) - 1 for names in folders)
    return history.requests + listing.absent_folders + further_pages


def requests_after_maintenance(history: History) -> int:
    """The requests that an open would cost after commits are consolidated and vacuumed."""
    commits = history.listing.commits
    merged = sum(name.endswith(_MERGED) for name in commits)
    read = sum(name.endswith(_READ) for name in commits)
    if not merged and not any(name.endswith(".del") for name in commits):
        return open_requests(history)
    left = len(commits) - merged + 1
    saved = read - 1 + _pages(len(commits)) - _pages(left)
    return open_requests(history) - max(saved, 0)


def _pages(count: int) -> int:
    return max(1, ceil(count / PAGE))
