"""How commits bring a state about, from a moment on.

In: what is visible now, and what shall be. Out: `Replay`: fragments to hide, fragments and deletes
to commit again under new names, and the moments that they get. Touches nothing.

Three ways, the cheapest that does:

  hide     every wanted fragment is visible already: a `.vac` dated R hides the others.
  again    some are hidden by the `.vac` of a fragment that was merged from them, or their rows by a
           delete that must go: they are committed again at R, and with them all that is later, so
           that the order stays. A `.vac` hides the others.
  replay   the same, and deletes must be applied again: they have no end, and touch every cell that
           is not later, so that they must show in the same step as the fragments. One `.con` holds
           a delete of everything at R, and after it all fragments and deletes of the wanted state,
           in their order, a millisecond each. No write that is dated before R ever shows then.

A copy of a fragment is as old as its new name says. Only a fragment that keeps a time for each cell
(it was merged from others) stays as old as it was: it cannot be moved behind a delete, or behind a
fragment that moves. Nor can it move past a delete that it has not applied: the engine passes over
deletes that are older than a fragment's name, whatever times its cells have. If what it was merged
from is there, that is used; else the state is refused.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from chronotile.change.past_state import Condition, Part, UnreachableError
from chronotile.check.findings import RefusedError
from chronotile.conditions import codec
from chronotile.conditions.delete import matches_every_row
from chronotile.format import tiles
from chronotile.format.kinds import COMMITS, FRAGMENTS
from chronotile.format.names import MAX_TIMESTAMP, new_name, version_of
from chronotile.visibility.rules import TIMESTAMPED_CELLS, has_cell_times_by_name, schema_at

if TYPE_CHECKING:
    from collections.abc import Callable

    from chronotile.change.past_state import Past, State


class Again(NamedTuple):
    """A fragment that is committed again."""

    part: Part
    name: str
    """The new one."""


class Record(NamedTuple):
    """A delete that is written anew."""

    uri: str
    tile: bytes
    words: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Replay:
    """The commits that bring a state about."""

    first: int
    """The first moment that they take."""
    last: int
    """The moment from which on the state is whole."""
    hidden: tuple[Part, ...]
    """Fragments that go out of sight."""
    again: tuple[Again, ...]
    deletes: tuple[Record, ...] = ()
    """Empty unless everything is replayed; else the first one deletes all that was before."""
    undone: tuple[str, ...] = ()
    """Deletes and updates that no longer count."""


def plan_replay(
    past: Past, now: State, wanted_at: Callable[[frozenset[str]], State], ends: int, version: int
) -> tuple[Replay, State]:
    """Plans the commits that bring a state about, and gives the state.

    Args:
        past: The array.
        now: What is visible now.
        wanted_at: Gives the wanted state, with some merged fragments taken apart.
        ends: The last moment that the commits may take; the others are just before it.
        version: The format version of new deletes.

    Raises:
        UnreachableError: No commit file can bring the state about.
        RefusedError: The state has updates that would have to be replayed, or old fragments.
    """
    apart: frozenset[str] = frozenset()
    while True:
        wanted = wanted_at(apart)
        plan = _Plan(now, wanted, dense=past.history.dense)
        allows_duplicates = any(
            item.schema is not None and item.schema.allows_duplicates
            for item in past.history.schemas
        )
        stuck = plan.stuck(allows_duplicates=allows_duplicates)
        if not stuck:
            return plan.replay(past, ends, version), wanted
        apart |= stuck


class _Plan:
    """Which way a state is brought about."""

    def __init__(self, now: State, wanted: State, *, dense: bool) -> None:
        self.now, self.wanted, self.dense = now, wanted, dense
        before = {item.name.text: item for item in (*now.deletes, *now.updates)}
        after = {item.name.text for item in (*wanted.deletes, *wanted.updates)}
        self.undone = tuple(text for text in before if text not in after)
        plain = [part for part in wanted.parts if not part.cells_timed]
        moved = [p for p in plain if self.undone or p.name.text not in now.names]
        self.cut = min((part.name.t1 for part in moved), default=None)
        conditions = (*wanted.deletes, *wanted.updates)
        again = self.cut is not None and any(item.name.t1 >= self.cut for item in conditions)
        self.is_replay = bool(wanted.parts) and again

    def stuck(self, *, allows_duplicates: bool) -> frozenset[str]:
        """Fragments whose cells would have to move in time, and cannot."""
        timed = [part.name for part in self.wanted.parts if part.cells_timed]
        if self.is_replay or self.undone:
            return frozenset(name.text for name in timed)
        found = {n.text for n in timed if self.cut is not None and n.t2 >= self.cut}
        found |= {part.name.text for part in self.wanted.parts if self._is_past_a_delete(part)}
        if allows_duplicates:
            # A second copy of a cell of the same time is a second row in a later consolidation.
            found |= {name.text for name in timed} - self.now.names
        return frozenset(found)

    def _is_past_a_delete(self, part: Part) -> bool:
        """Whether its cells would move past a delete or update that still has to hide some."""
        if not part.cells_timed or part.name.text in self.now.names:
            return False
        conditions = (*self.wanted.deletes, *self.wanted.updates)
        return any(
            item.name.t1 >= part.name.t1 and item.name.text not in part.applied
            for item in conditions
        )

    def replay(self, past: Past, ends: int, version: int) -> Replay:
        """The commits; the last one gets the moment `ends`."""
        if self.is_replay:
            return self._everything(past, ends, version)
        moved = [part for part in self.wanted.parts if self._is_moved(part)]
        gone = {part.name.text for part in moved}
        kept = self.wanted.names & self.now.names - gone
        hidden = tuple(part for part in self.now.parts if part.name.text not in kept)
        first = ends - max(len(moved) - 1, 0)
        again = tuple(
            Again(part, self._named(part, first + at, ends)) for at, part in enumerate(moved)
        )
        _refuse_old(past, again)
        undone = self.undone if hidden else ()
        return Replay(first=first, last=ends, hidden=hidden, again=again, undone=undone)

    def _is_moved(self, part: Part) -> bool:
        if part.name.text not in self.now.names:
            return True
        return self.cut is not None and not part.cells_timed and part.name.t1 >= self.cut

    def _everything(self, past: Past, ends: int, version: int) -> Replay:
        if self.wanted.updates:
            found = self.wanted.updates[0].name.text
            problem = f"expected no update in force, found {found}, which cannot be replayed"
            raise UnreachableError(past.history.array, f"{problem}; chronotile apply makes it real")
        parts = [(part.name.t1, 0, part) for part in self.wanted.parts]
        start = parts[0][0]
        deletes = [(item.name.t1, 1, item) for item in self.wanted.deletes]
        events: list[tuple[int, int, Part | Condition]] = [*parts]
        events += [event for event in deletes if event[0] >= start]
        events.sort(key=lambda event: event[:2])
        first = ends - len(events)
        wipe = Record(f"{COMMITS}/{new_name(first, first, version)}.del", b"", "deletes all before")
        again: list[Again] = []
        records = [wipe]
        for at, (_, _, item) in enumerate(events, first + 1):
            if isinstance(item, Part):
                again.append(Again(item, self._named(item, at, ends)))
            else:
                uri = f"{COMMITS}/{new_name(at, at, version_of(item.name))}.del"
                records.append(Record(uri, item.tile, f"{item.name.text} again"))
        _refuse_old(past, again)
        return Replay(
            first=first,
            last=ends,
            hidden=self.now.parts,
            again=tuple(again),
            deletes=tuple(records),
            undone=self.undone,
        )

    def _named(self, part: Part, at: int, ends: int) -> str:
        """The new name of a fragment: of a moment, or hidden until the last one if it can be."""
        name = part.name
        by_cell = has_cell_times_by_name(name, dense=self.dense)
        return new_name(at, at if by_cell else ends, name.version)


def _refuse_old(past: Past, again: tuple[Again, ...] | list[Again]) -> None:
    for part in (one.part for one in again):
        if not part.folder.startswith(f"{FRAGMENTS}/"):
            problem = f"expected fragments from version 12 on, found {part.name.text}"
            raise RefusedError(past.history.array, f"{problem}, which cannot be committed again")


def wipe_tile(past: Past, key: bytes | None) -> bytes:
    """The tile of a delete that matches every row.

    Raises:
        RefusedError: The schema cannot be read.
    """
    latest = schema_at(past.history, MAX_TIMESTAMP)
    if latest is None or latest.schema is None:
        raise RefusedError(past.history.array, "expected a readable schema, found none")
    condition = matches_every_row(latest.schema)
    return tiles.encode(codec.encode(condition), version=latest.schema.version, key=key)


def vac_name(replay: Replay, version: int, *, dense: bool) -> str:
    """The name of the `.vac` that hides fragments from the replay's moments on."""
    # Where an overlap is enough, it is in every window that sees one of the new fragments.
    by_cell = not dense and version >= TIMESTAMPED_CELLS
    return new_name(replay.first if by_cell else replay.last, replay.last, version)
