"""The cost of an open by the engine: the requests that it sends to a bucket.

In: what was read of an array, and the `.meta` files of it. Out: numbers of requests, now and after
a change. Sends none of them itself, apart from reading `.meta` files; changes nothing.

An open at [0, now], as core 2.30 does it and a server's log shows it:

  1 for each 1,000 names in the root, `__schema`, `__commits`, `__fragment_meta` and `__meta`, and
    for each of these five if it is empty; `__fragments` is not listed
  1 for each schema
  2 for each `.con` and `.ign`, and for each `.vac` in the window
  1 for each `.meta`, whatever its times
  3 for each visible fragment whose footer is in no `.meta`
  1 for `__chronotile`, if it is there: the engine asks if it is a fragment

A commit's own file costs nothing but its place in a listing, a delete's neither; conditions, labels
and metadata are read later, by a query. So consolidating commits saves nothing until there are more
than 1,000 of them. The engine reads ahead 100 KiB: a `.meta` that is larger costs 2. So does a
schema, which is not counted; arrays from before version 12 cost a few more.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, replace
from math import ceil
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from chronotile.check.findings import Finding, finding
from chronotile.errors import ChronotileError
from chronotile.format.kinds import COMMITS, FRAGMENT_META, LINES, META, OLD_SCHEMA, SCHEMA, WRITES
from chronotile.format.names import NEWEST_VERSION
from chronotile.format.timestamps import now_ms
from chronotile.history import text_columns
from chronotile.history.read_footers import read_consolidated
from chronotile.storage.place import PAGE, MissingObjectError
from chronotile.visibility.rules import is_inside, is_seen

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping

    from chronotile.history.read_history import History
    from chronotile.storage.store import Store
    from chronotile.visibility.rules import Rules


Sizes: TypeAlias = "Mapping[str, int | None]"
"""Path -> bytes, where they are known."""

FIRST_BY_NAME = 9
"""From this version on, the engine looks a fragment up in a `.meta` by its name alone."""
READ_AHEAD = 102_400
"""Bytes that the engine asks for at least: a `.meta` that is larger costs a second request."""
MANY_UNCONSOLIDATED = 20
"""From this many fragments without a place in a `.meta` on, they are worth consolidating."""
_LISTED = ("", SCHEMA, COMMITS, FRAGMENT_META, META)
_PER_FRAGMENT = 3
_READ = (".con", ".ign")
_MERGED = (*WRITES, *_READ)
"""Commit files that consolidating and vacuuming commits replaces by one `.con`."""


class FooterCounts(NamedTuple):
    """Visible fragments, and how an open finds their footers."""

    visible: int = 0
    unconsolidated: int = 0
    """Those whose footer is in no `.meta`."""
    mergeable: int = 0
    """Those of them that the engine would find in a `.meta`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenCost:
    """The requests of one open."""

    names: Mapping[str, int]
    """Folder -> the names in it, of those that an open lists."""
    schemas: int
    lines: frozenset[str]
    """The `.con`, `.ign` and `.vac` files that it reads."""
    metas: int
    """The `.meta` files."""
    large: int
    """Those that are larger than what the engine reads ahead."""
    fragments: FooterCounts
    kept_commits: int
    """The files of `__commits` that stay when commits are consolidated and vacuumed."""
    has_operations: bool = False
    """Whether `__chronotile` is there: the engine asks if it is a fragment."""

    @property
    def lists(self) -> int:
        """The requests that list."""
        return sum(_pages(self.names.get(folder, 0)) for folder in _LISTED)

    @property
    def requests(self) -> int:
        """All requests."""
        files = self.schemas + 2 * len(self.lines) + self.metas + self.large + self.has_operations
        return self.lists + files + _PER_FRAGMENT * self.fragments.unconsolidated

    @property
    def requests_after_maintenance(self) -> int:
        """All requests once commits and footers are in one file each, where that saves any."""
        read = sum(path.endswith(_READ) for path in self.lines)
        pages = _pages(self.names.get(COMMITS, 0)) - _pages(self.kept_commits + 1)
        commits = 2 * (read - 1) + pages
        # A `.meta` that holds what a large one holds is large too.
        metas = self.metas - 1 + max(self.large - 1, 0)
        footers = _PER_FRAGMENT * self.fragments.mergeable + metas
        saved = max(commits, 0) + max(footers, 0)
        # The first change leaves a record, which costs a request.
        return self.requests - saved + (saved > 0 and not self.has_operations)

    def after(self, put: Sizes, removed: Sizes) -> OpenCost:
        """Return the cost after some files were put and removed, and the record of that.

        The fragments stay as they are.

        >>> empty = OpenCost(
        ...     names={}, schemas=1, lines=frozenset(), metas=0, large=0,
        ...     fragments=FooterCounts(), kept_commits=0
        ... )
        >>> empty.requests, empty.after({"__commits/a.con": 9}, {}).requests
        (6, 9)
        """
        names, lines = Counter(self.names), set(self.lines)
        metas, large = self.metas, self.large
        for paths, sign in ((put, 1), (removed, -1)):
            for path, size in paths.items():
                names[path.rpartition("/")[0]] += sign
                if path.endswith(LINES):
                    (lines.add if sign > 0 else lines.discard)(path)
                if path.endswith(".meta"):
                    metas += sign
                    large += sign * ((size or 0) > READ_AHEAD)
        return replace(
            self,
            names=names,
            lines=frozenset(lines),
            metas=metas,
            large=large,
            has_operations=True,
        )


class Consolidated(NamedTuple):
    """The content of the `.meta` files of an array."""

    fragments: frozenset[str] = frozenset()
    """Those whose footer is in some `.meta`."""
    large: int = 0
    """How many of the files are larger than what the engine reads ahead."""


def open_cost(rules: Rules, consolidated: Consolidated, now: int | None = None) -> OpenCost:
    """Count the requests of an open at [0, now]."""
    history, end = rules.history, now_ms() if now is None else now
    listing, dense = history.listing, history.dense
    seen = (v.path for v in history.vacuums if is_seen(v.name, 0, end, dense=dense))
    seen_meta = (v.path for v in history.meta_vacuums if is_inside(v.name.t1, v.name.t2, 0, end))
    return OpenCost(
        names=_names(history),
        schemas=len(listing.schemas),
        lines=frozenset((*listing.paths_of(_READ), *seen, *seen_meta)),
        metas=sum(path.endswith(".meta") for path in listing.fragment_meta),
        large=consolidated.large,
        fragments=_count_fragments(rules, consolidated.fragments, end),
        kept_commits=sum(not name.endswith(_MERGED) for name in listing.commits),
        has_operations=listing.has_operations,
    )


def consolidated_fragments(store: Store, history: History) -> Consolidated | None:
    """Read what the `.meta` files hold; None if one cannot be opened."""
    names: set[str] = set()
    large = 0
    for held in read_consolidated(store, history).values():
        if isinstance(held, ChronotileError):
            if not isinstance(held, MissingObjectError):
                return None
        else:
            names.update(held.columns.names.to_pylist())
            large += held.size > READ_AHEAD
    return Consolidated(frozenset(names), large)


def unconsolidated(store: Store, rules: Rules) -> Iterator[Finding]:
    """Find fragments that an engine's open asks for their metadata one by one."""
    held = consolidated_fragments(store, rules.history)
    if held is None:
        return
    cost = open_cost(rules, held)
    now = cost.fragments
    if now.mergeable < MANY_UNCONSOLIDATED:
        return
    after = FooterCounts(now.visible, now.unconsolidated - now.mergeable)
    # The consolidation leaves a record.
    one = replace(cost, metas=1, large=0, fragments=after, has_operations=True)
    message = (
        f"the metadata of {now.mergeable:,} of {now.visible:,} visible fragments is not "
        f"consolidated: an open by TileDB costs {cost.requests:,} requests in a bucket, and would "
        f"cost {one.requests:,}"
    )
    yield finding(rules.history.array, "metadata-unconsolidated", FRAGMENT_META, message)


def _count_fragments(rules: Rules, consolidated: Collection[str], end: int) -> FooterCounts:
    """Count the visible fragments, and those that the engine finds in no `.meta`."""
    rows, _ = rules.visible(0, end)
    table = rules.history.table
    by_name = np.asarray(table.is_from_version(FIRST_BY_NAME))[rows]
    known = ~np.asarray(table.is_from_version(NEWEST_VERSION + 1))[rows]
    held = np.zeros(len(rows), bool)
    if consolidated:
        names = text_columns.names(table, rows)
        held = np.asarray(pc.is_in(names, value_set=pa.array([*consolidated], pa.string())))
    alone = len(rows) - int(np.count_nonzero(held & by_name))
    return FooterCounts(len(rows), alone, int(np.count_nonzero(by_name & known & ~held)))


def _names(history: History) -> dict[str, int]:
    """Count the names in each folder, as a bucket lists it: without folders that are empty."""
    listing = history.listing
    in_folder = {
        SCHEMA: sum(path != OLD_SCHEMA for path in listing.schemas) + bool(listing.enumerations),
        COMMITS: len(listing.commits),
        FRAGMENT_META: sum("/" in path for path in listing.fragment_meta),
        META: len(listing.meta),
    }
    root = sum(map(bool, (*in_folder.values(), listing.fragments)))
    root += len(listing.root_commits) + len(listing.root_fragments)
    whole = (*listing.fragment_meta, *listing.schemas, *listing.others)
    return in_folder | {"": root + sum("/" not in path for path in whole)}


def _pages(count: int) -> int:
    return max(1, ceil(count / PAGE))
