"""Which commit stands in which file, one Python object a commit: the slow model.

`history.con_coverage` answers the same from columns; the tests compare the two.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, TypeAlias

import numpy as np

from chronotile.check.findings import RefusedError
from chronotile.format.con_names import rank
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

    @cached_property
    def later_first(self) -> tuple[str, ...]:
        """The `.con` files, the latest first."""
        return tuple(sorted(self.cons, key=rank, reverse=True))

    def counts(self, uri: str) -> bool:
        """Whether a commit that stands in a `.con` counts there.

        An ignored delete or update does: the engine applies it all the same.
        """
        return uri not in self.ignored or not uri.endswith(WRITES)

    def superseded(self) -> tuple[str, ...]:
        """The `.con` files of which each commit that counts stands in a later one."""
        known: dict[str, list[Tile]] = {}
        found = []
        for path in self.later_first:
            held = self.cons[path]
            if all(tile in known.get(u, ()) for u, tile in held.items() if self.counts(u)):
                found.append(path)
                continue
            if path == self.later_first[-1]:
                break  # none is left that could be superseded by it
            for uri, tile in held.items():
                if self.counts(uri):
                    known.setdefault(uri, []).append(tile)
        return tuple(found)

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
        )


def read_ledger(history: History) -> Ledger:
    """Sorts the records of a history by the files that they stand in.

    Raises:
        RefusedError: A `.con` has two deletes of one name that differ.
    """
    table = history.table
    cons: dict[str, dict[str, Tile]] = {s.path: {} for s in table.sources if not s.loose}
    loose: dict[str, Tile] = {}
    uris = text_columns.uris(table, np.arange(len(table))).to_pylist()
    columns = (table.source.tolist(), table.uris.ext.tolist(), uris)
    for row, (number, ext, uri) in enumerate(zip(*columns, strict=True)):
        source = table.sources[number]
        if source.implied:
            continue
        tile = table.tile(row)[0] if ext in (DEL, UPD) else None
        held = loose if source.loose else cons[source.path]
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
    )
