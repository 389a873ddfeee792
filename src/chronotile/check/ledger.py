"""Which commit stands in which file.

In: a history. Out: `Ledger`: the commits of each `.con`, the loose ones, the ignored ones, and
those that count. Knows nothing of windows, and decides nothing.

Of two `.con` files that hold one commit, the one with the larger uuid counts as the later one.
A `.con` that this package writes gets a larger uuid than all those that it was made from. The
order is thus fixed by the names alone, and whoever retires a `.con` only if each of its commits
stands in a later one can never, together with others who do the same, lose a commit: the last
`.con` that holds it is retired by nobody.
"""

from __future__ import annotations

import secrets
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, TypeAlias

import numpy as np

from chronotile.check.findings import RefusedError
from chronotile.errors import BadNameError
from chronotile.format.commit_files import commit_name
from chronotile.format.kinds import DEL, UPD, WRITES
from chronotile.format.names import format_name
from chronotile.history import text_columns

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from chronotile.history.reading import History

    Tile: TypeAlias = bytes | None
    Commits: TypeAlias = Mapping[str, Tile]

_HIGHEST = (1 << 128) - 1
_STRIDE = 1 << 64


@dataclass(frozen=True)
class Ledger:
    """Commits by their URIs, each with its tile if it is a delete or an update."""

    cons: Mapping[str, Commits]
    """Path of each `.con` -> its commits."""
    loose: Commits
    """Commits that are files of their own, unmarked old fragments not among them."""
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
        if source.unmarked:
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


def check_tiles(history: History) -> None:
    """Looks only at deletes and updates: are any two of one name in one `.con` different?

    Raises:
        RefusedError: They are.
    """
    table = history.table
    held: dict[tuple[str, str], Tile] = {}
    for row in table.tile_rows.tolist():
        if not table.is_loose(row):
            uri, tile = table.uri(row), table.tile(row)[0]
            if held.setdefault((table.path(row), uri), tile) != tile:
                problem = f"expected one record of {uri}, found two that differ"
                raise RefusedError(table.path(row), problem)


def rank(path: str) -> tuple[int, str]:
    """The place of a `.con` in the order of all of them; one without a name is before all.

    >>> low, high = f"__9_9_{'0' * 31}1_22.con", f"__1_1_{'0' * 31}2_22.con"
    >>> rank(low) < rank(high)
    True
    """
    try:
        name = commit_name(path)
    except BadNameError:
        return -1, path
    return int(name.uuid, 16), name.text


def later_name(uris: Iterable[str], others: Iterable[str], version: int) -> str:
    """A name for a new `.con` or `.ign`: true to its times, later than others.

    Args:
        uris: The commits that it holds.
        others: Paths of the `.con` files that it must be later than.
        version: The format version.

    >>> u = "00112233445566778899aabbccddeeff"
    >>> name = later_name([f"__commits/__5_6_{u}_22.wrt"], [f"__commits/__1_1_{u}_22.con"], 22)
    >>> rank(f"{name}.con") > rank(f"__1_1_{u}_22.con"), name[:6]
    (True, '__5_6_')
    """
    names = [commit_name(uri) for uri in uris]
    return later_name_at(min(n.t1 for n in names), max(n.t2 for n in names), others, version)


def later_name_at(t1: int, t2: int, others: Iterable[str], version: int) -> str:
    """A name for a new `.con` or `.ign` of a known range of time, later than others."""
    taken = [rank(path)[0] for path in others]
    low = max(taken, default=secrets.randbits(127))
    value = low + 1 + secrets.randbelow(max(min(_STRIDE, _HIGHEST - low), 1))
    uuid = f"{min(value, _HIGHEST):032x}"
    return format_name(t1, t2, uuid, version)
