"""Past states: the fragments, deletes, updates and schema of an array that a window sees.

In: a store, the rules of an array's history, a window. Out: `PastState`: the fragments whose cells
are just the visible ones, in order; or a refusal. Changes nothing.

A fragment that was merged from others can hold more than the window sees: cells that were written
outside of it, and notes of deletes that it has applied and that are not in force there. No commit
file can tell such cells apart. If the fragments that it was merged from are all still there, then
these take its place; if not, a state that needs it is refused.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

from chronotile.check.findings import RefusedError
from chronotile.check.fragment_health import NEWER
from chronotile.errors import ChronotileError
from chronotile.format.kinds import FRAGMENTS
from chronotile.format.names import MAX_TIMESTAMP, Name, is_newer, parse_name, time_order
from chronotile.format.timestamps import iso_time
from chronotile.history.read_footers import FooterReader, StoredFooter
from chronotile.visibility.gaps import gap_in
from chronotile.visibility.rules import is_inside, is_seen, schema_at

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping

    from chronotile.history.read_history import SchemaFile
    from chronotile.history.uri_columns import I64
    from chronotile.storage.store import Store
    from chronotile.visibility.rules import Rules


class PastFragment(NamedTuple):
    """A fragment of a state."""

    name: Name
    folder: str
    """Relative to the array."""
    row: int
    """Of its commit, in the table."""
    cells_timed: bool
    """Whether each of its cells keeps a time of its own, so that a new name changes none."""
    cells: int | None
    """How many; None where its footer cannot tell."""
    applied: tuple[str, ...] = ()
    """Names of the deletes that it has applied."""
    size: int | None = None
    """Bytes of all its files; None where its footer cannot tell."""
    keeps_deleted: bool = False
    """Whether it still holds cells of the deletes that it has applied: it then needs them (F14)."""


def sum_cells(parts: Iterable[PastFragment]) -> int | None:
    """Add up the cells of fragments; None if a footer cannot tell."""
    counts = [part.cells for part in parts]
    known = [count for count in counts if count is not None]
    return sum(known) if len(known) == len(counts) else None


class PastDelete(NamedTuple):
    """A delete or an update of a state."""

    name: Name
    uri: str
    tile: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class PastState:
    """The content of an array that a window sees."""

    parts: tuple[PastFragment, ...]
    """In time order."""
    deletes: tuple[PastDelete, ...]
    updates: tuple[PastDelete, ...]
    schema: SchemaFile | None
    still_applied: dict[str, list[str]] = field(default_factory=dict)
    """Deletes that are not in force, and the fragments that have applied them all the same."""
    lost: tuple[str, ...] = ()
    """Fragments that are committed, and gone."""

    @property
    def names(self) -> frozenset[str]:
        """The names of the fragments."""
        return frozenset(part.name.text for part in self.parts)


def refuse_newer(array: str, parts: Iterable[PastFragment]) -> None:
    """Refuse to hide, or to copy under another name, fragments of a version that is not known.

    Raises:
        RefusedError: There is one among them.
    """
    for part in parts:
        if is_newer(part.folder):
            problem = f"expected fragments of known format versions, found {part.folder}"
            raise RefusedError(array, f"{problem}: {NEWER}; pip install --upgrade chronotile")


def refuse_old(array: str, parts: Iterable[PastFragment]) -> None:
    """Refuse to commit fragments again that lie in no folder of their own kind.

    Raises:
        RefusedError: There is one among them.
    """
    for part in parts:
        if not part.folder.startswith(f"{FRAGMENTS}/"):
            problem = f"expected fragments from version 12 on, found {part.name.text}"
            raise RefusedError(array, f"{problem}, which cannot be committed again")


class UnreachableError(RefusedError):
    """A state that no commit file can bring about, as merged fragments hold more than it.

    `why` is the reason, and `near` has the nearest times at which no fragment was merged from
    others that are gone, each with its words; `way` is another way, with its command.
    """

    def __init__(
        self, where: str, why: str, near: Mapping[int, str] = {}, way: str | None = None
    ) -> None:
        said = [f"the nearest times that can be had are {' or '.join(near.values())}"] * bool(near)
        super().__init__(where, "; ".join([why, *said, *([way] if way else [])]))
        self.why, self.near, self.way = why, near, way


class Past:
    """The states of one array."""

    def __init__(self, store: Store, rules: Rules) -> None:
        self.store, self.rules, self.history = store, rules, rules.history
        table = self.history.table
        rows = rules.fragment_rows[~rules.missing].tolist()
        self._rows = {table.name(row): row for row in rows}
        self._sources = {v.name.text: v.targets for v in self.history.vacuums}
        self._facts: dict[str, StoredFooter | None] = {}
        self._reader = FooterReader(store, self.history)

    def now(self) -> PastState:
        """Give the state that an open after every commit sees; take nothing apart."""
        return self._state(0, MAX_TIMESTAMP, frozenset(), frozenset(), strict=False, whole=True)

    def at(
        self,
        start: int,
        end: int,
        *,
        without: Collection[str] = (),
        apart: Collection[str] = (),
        strict: bool = True,
    ) -> PastState:
        """Give the state that a window sees.

        Args:
            start: The window's start.
            end: The window's end.
            without: Names of commits that shall not count.
            apart: Fragments to take apart even if they hold no more than the state.
            strict: Refuse a fragment that has applied a delete of `without`; otherwise take it,
                and say so in `still_applied`.

        Raises:
            UnreachableError: A merged fragment holds more, and what it was merged from is gone.
        """
        return self._state(start, end, frozenset(without), frozenset(apart), strict=strict)

    def _state(
        self,
        start: int,
        end: int,
        without: frozenset[str],
        apart: frozenset[str],
        *,
        strict: bool,
        whole: bool = False,
    ) -> PastState:
        table, rules = self.history.table, self.rules
        deletes = self._conditions(rules.delete_rows, start, end, without)
        updates = self._conditions(rules.update_rows, start, end, without)
        in_force = {item.name.text for item in (*deletes, *updates)}
        rows, _ = rules.visible(start, end)
        names = [parse_name(table.name(row)) for row in rows.tolist()]
        self._read(name.text for name in names)
        taken = _Taken(
            past=self,
            window=(start, end),
            without=without,
            apart=apart,
            in_force=in_force,
            strict=strict,
            whole=whole,
        )
        wanted = [name for name in names if name.text not in without]
        chosen = {part.name.text: part for name in wanted for part in taken.of(name)}
        hidden = rules.superseded(start, end)
        _, in_window = rules.in_window(start, end)
        lost = rules.fragment_rows[in_window & ~hidden & rules.missing].tolist()
        return PastState(
            parts=tuple(sorted(chosen.values(), key=lambda part: time_order(part.name))),
            deletes=deletes,
            updates=updates,
            schema=schema_at(self.history, end),
            still_applied=taken.still_applied,
            lost=tuple(n for n in map(table.name, lost) if n not in without),
        )

    def _conditions(
        self, rows: I64, start: int, end: int, without: frozenset[str]
    ) -> tuple[PastDelete, ...]:
        table = self.history.table
        found = (
            PastDelete(parse_name(table.name(row)), table.uri(row), table.tile(row)[0])
            for row in self.rules.in_force(rows, start, end).tolist()
        )
        return tuple(item for item in found if item.name.text not in without)

    def _read(self, names: Iterable[str]) -> None:
        wanted = [name for name in names if name not in self._facts]
        for name, stored in self._reader.read(wanted, applied=True):
            known = None if isinstance(stored, ChronotileError) else stored
            self._facts[name] = known

    def part(self, name: Name) -> PastFragment:
        """Describe a fragment by its name and its footer."""
        self._read([name.text])
        stored, row = self._facts[name.text], self._rows[name.text]
        folder = self.history.table.fragment_path(row)
        if stored is None:
            return PastFragment(name, folder, row, cells_timed=False, cells=None)
        try:
            cells: int | None = stored.measure().cells
        except ChronotileError:
            cells = None
        applied = tuple(text.removesuffix(".upd") for text in stored.applied or ())
        footer = stored.footer
        return PastFragment(
            name=name,
            folder=folder,
            row=row,
            cells_timed=footer.has_timestamps,
            cells=cells,
            applied=applied,
            size=footer.cell_bytes + stored.metadata_size,
            keeps_deleted=bool(applied) and footer.has_delete_metadata,
        )

    def is_readable(self, part: PastFragment) -> bool:
        """Tell whether a fragment's footer could be read, with the deletes that it has applied."""
        stored = self._facts[part.name.text]
        return stored is not None and stored.applied is not None

    def sources(
        self, name: Name, window: tuple[int, int] = (0, MAX_TIMESTAMP)
    ) -> tuple[Name, ...] | None:
        """List the sources of a merged fragment that a window sees; None if some are gone.

        By default all of it.
        """
        listed, dense = self._sources.get(name.text), self.history.dense
        if not listed:
            return None
        seen = [one for one in map(parse_name, listed) if is_seen(one, *window, dense=dense)]
        return tuple(seen) if all(one.text in self._rows for one in seen) else None

    def refuse_lost(self, end: int, start: int = 0) -> None:
        """Refuse a window that overlaps merged fragments which keep no times of cells.

        Only what they were merged from can be read there, so that all of it must be there.

        Raises:
            UnreachableError: It is not.
        """
        gap = gap_in(self.rules, start, end)
        if gap is not None:
            why = "without it nobody can tell the cells of that time"
            raise self.refused(parse_name(gap.fragment), start, end, why)

    def refused(self, name: Name, start: int, end: int, why: str) -> UnreachableError:
        """Make the refusal of a state because of a merged fragment."""
        spans = [
            (other.t1, other.t2)
            for other in map(parse_name, self._rows)
            if other.t1 != other.t2 and self.sources(other) is None
        ]
        low, high = end, end
        while any(t1 <= low < t2 for t1, t2 in spans):
            low = max(t1 for t1, t2 in spans if t1 <= low < t2) - 1
        while any(t1 <= high < t2 for t1, t2 in spans):
            high = max(t2 for t1, t2 in spans if t1 <= high < t2)
        first = min(map(parse_name, self._rows)).t1
        empty = ", before the first write"
        near = {
            at: f"{at} ({iso_time(at)}{empty * (at < first)})"
            for at in (low, high)
            if at != end and at >= start
        }
        problem = f"{name.text} {why}, and what it was merged from is gone"
        return UnreachableError(self.history.array, problem, near)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Taken:
    """Takes visible fragments, or what they were merged from."""

    past: Past
    window: tuple[int, int]
    without: frozenset[str]
    apart: frozenset[str]
    in_force: set[str]
    strict: bool
    whole: bool
    still_applied: dict[str, list[str]] = field(default_factory=dict)

    def of(self, name: Name, *, inside: bool = False) -> list[PastFragment]:
        """Find the fragments that hold its visible cells, and no others.

        Where its name lies inside the window, the engine shows all of its cells, even if the name
        is wrong (F4): then all that it was merged from counts, whatever the names say.
        """
        part = self.past.part(name)
        if self.whole:
            return [part]
        inside = inside or is_inside(name.t1, name.t2, *self.window)
        if not inside:
            why = "holds cells that were written outside of the window"
            return self._apart(name, why, inside=inside)
        if name.text in self.apart:
            why = "holds cells with the times at which they were first written"
            return self._apart(name, why, inside=inside)
        undone = [text for text in part.applied if self._is_undone(text)]
        if not undone:
            return [part]
        is_asked = not self.strict and self.without.issuperset(undone)
        if is_asked and self.past.sources(name) is None:
            for text in undone:
                self.still_applied.setdefault(text, []).append(part.folder)
            return [part]
        why = f"has applied {undone[0]}, which "
        why += "is left out" if undone[0] in self.without else "is not in the window"
        return self._apart(name, why, inside=inside)

    def _is_undone(self, text: str) -> bool:
        if text in self.in_force:
            return False
        start, end = self.window
        if text in self.without:
            return True
        name = parse_name(text)
        return not is_inside(name.t1, name.t2, start, end)

    def _apart(self, name: Name, why: str, *, inside: bool) -> list[PastFragment]:
        seen = self.past.sources(name) if inside else self.past.sources(name, self.window)
        if seen is None:
            raise self.past.refused(name, *self.window, why)
        wanted = [one for one in seen if one.text not in self.without]
        return [part for one in wanted for part in self.of(one, inside=inside)]
