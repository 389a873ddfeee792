"""Which commit stands in which file, one Python object a commit: the slow model.

`history.redundant_con_files` answers the same from columns; the tests compare the two.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, TypeAlias

import numpy as np

from chronotile.check.findings import RefusedError
from chronotile.format.commit_files import rank
from chronotile.format.kinds import DEL, UPD, WRITES
from chronotile.history import text_columns

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from chronotile.history.read_history import History

    Tile: TypeAlias = bytes | None
    Commits: TypeAlias = Mapping[str, Tile]


@dataclass(frozen=True)
class Ledger:
    """Commits by their URIs, each with its tile if it is a delete or an update."""

    cons: Mapping[str, Commits]
    """Path of each `.con` -> its commits."""
    loose: Commits
    """Commits that are files of their own, implied commits of old fragments not among them."""
    ignored: frozenset[str]
    """URIs that some `.ign` names."""
    ignores: Mapping[str, frozenset[str]]
    """Path of each `.ign` -> the URIs that it names."""
    repeating: frozenset[str] = frozenset()
    """Paths of `.con` files in which a commit stands twice."""

    @cached_property
    def later_first(self) -> tuple[str, ...]:
        """The `.con` files, the latest first."""
        return tuple(sorted(self.cons, key=rank, reverse=True))

    @cached_property
    def kept_first(self) -> tuple[str, ...]:
        """The `.con` files in the order in which they are kept."""
        return tuple(sorted(self.cons, key=self._place))

    def _place(self, path: str) -> tuple[int, bool, int, bool, str]:
        named = self.cons[path].keys() & self.ignored
        made = -rank(path)[0] if self._tiles(path) else 0
        return len(named) - len(self.cons[path]), bool(named), made, path in self.repeating, path

    def _tiles(self, path: str) -> int:
        return sum(tile is not None for tile in self.cons[path].values())

    def counts(self, uri: str) -> bool:
        """Whether a commit that stands in a `.con` counts there.

        An ignored delete or update does: the engine applies it all the same.
        """
        return uri not in self.ignored or not uri.endswith(WRITES)

    def superseded(self) -> dict[str, str | None]:
        """The `.con` files that can go, each with the one that holds what counts of it."""
        counting = {
            path: {(uri, tile) for uri, tile in held.items() if self.counts(uri)}
            for path, held in self.cons.items()
        }
        staying: list[str] = []
        gone: dict[str, str | None] = {}
        for path in self.kept_first:
            own = counting[path]
            holders = [
                one for one in staying if counting[one] >= own and self._is_kept_for(one, path)
            ]
            if own and not holders:
                staying.append(path)
            else:
                gone[path] = holders[0] if own else None
        return gone

    def _is_kept_for(self, one: str, other: str) -> bool:
        """Whether nobody can remove one for the other, all of which it holds."""
        (weight, ignored, *_), (other_weight, other_ignored, *_) = map(self._place, (one, other))
        if weight < other_weight:
            return self._tiles(one) == self._tiles(other) or rank(one) > rank(other)
        return not (ignored or other_ignored)

    def free_ignores(self, paths: Iterable[str]) -> tuple[str, ...]:
        """The `.ign` files among some paths that name no write of any `.con`."""
        wanted = tuple(paths)
        if not wanted:
            return ()
        writes = {uri for held in self.cons.values() for uri in held if uri.endswith(WRITES)}
        return tuple(p for p in wanted if not self.ignores.get(p, frozenset()) & writes)

    def without(
        self, *, cons: Iterable[str] = (), loose: Iterable[str] = (), ignoring: Iterable[str] = ()
    ) -> Ledger:
        """The ledger once some files are gone and some commits ignored."""
        gone, single = frozenset(cons), frozenset(loose)
        return Ledger(
            cons={path: held for path, held in self.cons.items() if path not in gone},
            loose={uri: tile for uri, tile in self.loose.items() if uri not in single},
            ignored=self.ignored | frozenset(ignoring),
            ignores=self.ignores,
            repeating=self.repeating - gone,
        )


def read_ledger(history: History) -> Ledger:
    """Sorts the records of a history by the files that they stand in.

    Raises:
        RefusedError: A `.con` has two deletes of one name that differ.
    """
    table = history.table
    cons: dict[str, dict[str, Tile]] = {s.path: {} for s in table.sources if not s.loose}
    loose: dict[str, Tile] = {}
    repeating: set[str] = set()
    uris = text_columns.uris(table, np.arange(len(table))).to_pylist()
    columns = (table.source.tolist(), table.uris.ext.tolist(), uris)
    for row, (number, ext, uri) in enumerate(zip(*columns, strict=True)):
        source = table.sources[number]
        if source.implied:
            continue
        tile = table.tile(row)[0] if ext in (DEL, UPD) else None
        held = loose if source.loose else cons[source.path]
        if uri in held:
            repeating.add(source.path)
        if held.setdefault(uri, tile) != tile:
            problem = f"expected one record of {uri}, found two that differ"
            raise RefusedError(source.path, problem)
    ignores: dict[str, set[str]] = {}
    for uri, path in table.ignores.items():
        ignores.setdefault(path, set()).add(uri)
    return Ledger(
        cons=cons,
        loose=loose,
        ignored=frozenset(table.ignores),
        ignores={path: frozenset(uris) for path, uris in ignores.items()},
        repeating=frozenset(repeating),
    )
