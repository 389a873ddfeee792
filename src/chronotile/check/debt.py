"""Debt: things that make an array larger or slower than it has to be.

In: the rules of a history, and the health of its fragments. Out: findings, all of severity info.
Takes sizes from what was listed for the health; never reads a cell.
"""

from __future__ import annotations

from collections import Counter
from statistics import median_low
from typing import TYPE_CHECKING

from chronotile.check.findings import Finding, count_text, finding
from chronotile.check.fragment_health import inspect
from chronotile.check.tags import tags_of
from chronotile.check.vacuumable_fragments import removable
from chronotile.format.commit_files import FIRST_WITH_COMMITS
from chronotile.format.kinds import FRAGMENTS, META
from chronotile.format.names import MAX_TIMESTAMP, is_name, parse_name, version_of
from chronotile.visibility.lifelines import kept_for
from chronotile.visibility.rules import TIMESTAMPED_CELLS

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from chronotile.check.fragment_health import Health
    from chronotile.history.read_history import History
    from chronotile.storage.store import Store
    from chronotile.visibility.rules import Rules

SUPERSEDED = "superseded-bytes"
"""The code of bytes that a vacuum would free."""

MANY_SMALL = 100
"""From this many small fragments on, they are worth consolidating. An open asks for the metadata of
each, and a read for the files of each: in a bucket some hundred requests, which take seconds."""
TARGET_BYTES = 10**9
"""The size of a merged fragment, unless a compact is asked for another."""
SMALL_TILES = 1
"""Tiles of a small fragment, at most. A tile is what a reader takes at once: a fragment of one
gives it nothing to skip, and needs metadata and files of its own for a tile that may be nearly
empty."""
MANY_META = 100
"""From this many files of array metadata on, they are worth merging: a reader takes all of them."""


def fragment_debt(store: Store, rules: Rules, health: Mapping[str, Health]) -> Iterator[Finding]:
    """Find fragments that a vacuum would remove, and fragments that are too small."""
    yield from _superseded(store, rules, health)
    yield from _small(rules, health)


def _superseded(store: Store, rules: Rules, known: Mapping[str, Health]) -> Iterator[Finding]:
    history = rules.history
    if not history.vacuums:
        return

    def look(paths: Iterable[str]) -> dict[str, Health]:
        wanted = tuple(paths)
        new = inspect(store, history, [path for path in wanted if path not in known])
        return {path: known[path] if path in known else new[path] for path in wanted}

    removal = removable(history, rules, look, kept_for(tags_of(store, history)))
    folders = look(one.folder for one in removal.fragments)
    size = sum(health.size for health in folders.values())
    if size:
        words = count_text(len(folders), "superseded fragment")
        message = f"a vacuum would free {count_text(size, 'byte')} in {words}"
        if removal.losses:
            message += "; windows that end inside of what was consolidated would lose them"
        path = FRAGMENTS if any("/" in folder for folder in folders) else next(iter(folders))
        yield finding(history.array, SUPERSEDED, path, message)


def _small(rules: Rules, known: Mapping[str, Health]) -> Iterator[Finding]:
    table = rules.history.table
    rows = rules.visible(0, MAX_TIMESTAMP)[0]
    if len(rows) < MANY_SMALL:
        return
    health = (known.get(table.fragment_path(row)) for row in rows.tolist())
    small = [
        (one, one.measured.cells)
        for one in health
        if one is not None and one.measured is not None and one.measured.tiles <= SMALL_TILES
    ]
    if len(small) < MANY_SMALL:
        return
    cells = count_text(median_low([count for _, count in small]), "cell")
    message = f"{len(small):,} of {len(rows):,} visible fragments have one tile or none, "
    message += f"{cells} each (median): a read asks for the files of each"
    first = FIRST_WITH_COMMITS if rules.history.dense else TIMESTAMPED_CELLS
    sizes: Counter[str | None] = Counter()
    merged = 0
    for one, _ in small:
        if version_of(parse_name(one.path.rpartition("/")[2])) >= first:
            sizes[one.schema] += one.size
            merged += 1
    hint = None
    if merged >= MANY_SMALL:
        left = sum(-(-size // TARGET_BYTES) or 1 for size in sizes.values())
        message += f"; compact would merge {merged:,} of them into about {left:,}"
    else:
        hint = "consolidate its fragments with TileDB; then, to remove the sources: "
        hint += "chronotile vacuum {array}"
    yield finding(rules.history.array, "many-small-fragments", FRAGMENTS, message, hint=hint)


def array_metadata_debt(history: History) -> Iterator[Finding]:
    """Find files of array metadata by the hundred; those that a `.vac` hides do not count."""
    hidden = {name for vacuum in history.meta_vacuums for name in vacuum.targets}
    count = sum(is_name(name) and name not in hidden for name in history.listing.meta)
    if count >= MANY_META:
        message = f"{count:,} files of array metadata: a reader of one key reads them all"
        hint = "for one file: chronotile consolidate {array} --mode array-meta"
        hint += " && chronotile vacuum {array}"
        yield finding(history.array, "metadata-unconsolidated", META, message, hint=hint)
