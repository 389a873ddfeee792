"""The rules that decide what an open at [start, end] sees; they are only here.

In: a `History`. Out: the rule that decides on each fragment, delete, update, schema and metadata
file. No file, no clock.

These are the rules of the engine, as tests observe them, in their order. The first rule that
applies decides.

  fragments
    IGNORED      its commit stands only in `.con` files, and an `.ign` names it. The time in the
                 name of an `.ign` does not matter; a loose commit file is never ignored.
    OUTSIDE      not in the window. A fragment is in it if start <= t1 and t2 <= end. In a sparse
                 array, from version 15 on, an overlap is enough (t1 <= end and start <= t2): the
                 fragment keeps a timestamp for each cell, and the engine reads only the cells
                 inside the window. In a dense array an overlap is never enough.
    SUPERSEDED   a `.vac` that is in the window by the same rule lists it.
    MISSING      its folder is gone. The engine then refuses to open the array.
    OVERLAPS     visible, cell by cell.
    INSIDE       visible.
    UNCOMMITTED  a folder that no commit names.

  deletes and updates
    OUTSIDE      not wholly inside the window; an overlap is not enough.
    INSIDE       in force, on cells written at or before its own time. An `.ign` that names it
                 does not matter.

  schemas
    the last schema with t2 <= end is in force; if all are later, the first.

  metadata
    a file counts if it lies wholly inside the window, and no `.vac` beside it that lies wholly
    inside the window lists it. Of one key, the file with the last t1 decides.

The engine reads every `.con`, whatever the times in its name, as the name need not cover the
records inside (F2); so do we.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass
from functools import cached_property
from itertools import compress
from typing import TYPE_CHECKING, Any, TypeVar, overload

import numpy as np

from chronotile.format.arrow_compute import texts_in
from chronotile.format.kinds import DEL, FRAGMENTS, OK, UPD, WRT
from chronotile.format.names import MAX_TIMESTAMP, time_order, try_parse
from chronotile.history import text_columns
from chronotile.history.lines_to_columns import scan_names
from chronotile.history.missing_fragments import match_names

if TYPE_CHECKING:
    from collections.abc import Iterator

    import numpy.typing as npt

    from chronotile.format.names import Name
    from chronotile.format.schema import Schema
    from chronotile.history.read_history import History, SchemaFile, VacuumFile
    from chronotile.history.uri_columns import I64, U64, Mask

T = TypeVar("T", bound="np.generic[Any]")

TIMESTAMPED_CELLS = 15
"""From this version on, a sparse fragment keeps a timestamp for each cell."""


class Rule(enum.Enum):
    """A rule, and the word that users see for it."""

    IGNORED = "ignored"
    OUTSIDE = "outside-window"
    SUPERSEDED = "superseded"
    MISSING = "missing"
    UNREADABLE = "unreadable"
    UNCOMMITTED = "uncommitted"
    OVERLAPS = "overlaps-window"
    INSIDE = "in-window"

    @property
    def status(self) -> str:
        """`visible`, `partial` or `hidden`."""
        return {Rule.INSIDE: "visible", Rule.OVERLAPS: "partial"}.get(self, "hidden")


@overload
def is_inside(t1: int, t2: int, start: int, end: int) -> bool: ...
@overload
def is_inside(t1: U64, t2: U64, start: int, end: int) -> Mask: ...
def is_inside(t1: Any, t2: Any, start: int, end: int) -> Any:
    """Return True if a time range lies wholly in a window; a mask for columns.

    >>> is_inside(10, 20, 10, 19)
    False
    """
    return (t1 >= start) & (t2 <= end)


@overload
def overlaps(t1: int, t2: int, start: int, end: int) -> bool: ...
@overload
def overlaps(t1: U64, t2: U64, start: int, end: int) -> Mask: ...
def overlaps(t1: Any, t2: Any, start: int, end: int) -> Any:
    """Return True if a time range has a moment in common with a window; a mask for columns.

    >>> overlaps(10, 20, 20, 30)
    True
    """
    return (t1 <= end) & (t2 >= start)


def side(t1: int, t2: int, start: int, end: int) -> str:
    """Give the place of a time range that is not inside a window: `before`, `after`, `across`."""
    if overlaps(t1, t2, start, end):
        return "across"
    return "after" if t1 > end else "before"


def has_cell_times_by_name(name: Name, *, dense: bool) -> bool:
    """Return True if an overlap puts a fragment or `.vac` of that name into a window."""
    return not dense and (name.version or 0) >= TIMESTAMPED_CELLS


def is_seen(name: Name, start: int, end: int, *, dense: bool) -> bool:
    """Return True if a fragment or `.vac` of that name is in a window."""
    test = overlaps if has_cell_times_by_name(name, dense=dense) else is_inside
    return test(name.t1, name.t2, start, end)


def first_end(name: Name, *, dense: bool) -> int:
    """Give the first `end` at which a window that starts at 0 sees a fragment or `.vac`."""
    return name.t1 if has_cell_times_by_name(name, dense=dense) else name.t2


def is_later(schema: SchemaFile, end: int) -> bool:
    """Return True if a schema is later than a window's end; the old single file has no time."""
    return schema.name is not None and schema.name.t2 > end


def schema_at(history: History, end: int) -> SchemaFile | None:
    """Find the schema in force when the array is opened at `end`.

    The engine takes the last schema, by the text of the name, that is not later than `end`; if all
    are later, the first.
    """
    timed = (item for item in reversed(history.schemas) if item.name is not None)
    first = history.schemas[0] if history.schemas else None
    return next((item for item in timed if not is_later(item, end)), first)


def schemas_over(history: History, moment: int) -> Iterator[Schema]:
    """List the schemas of windows that can contain a commit of that moment, the newest first."""
    ends = {item.name.t2 for item in history.schemas if item.name is not None}
    seen: list[SchemaFile] = []
    for end in sorted({max(end, moment) for end in (*ends, moment, MAX_TIMESTAMP)}, reverse=True):
        item = schema_at(history, end)
        if item is not None and item not in seen:
            seen.append(item)
            if item.schema is not None:
                yield item.schema


def hidden_metadata(history: History, start: int, end: int) -> dict[str, str]:
    """Map each metadata file that a `.vac` in a window lists to the `.vac`."""
    hidden: dict[str, str] = {}
    for vacuum in history.meta_vacuums:
        if is_inside(*vacuum.name[:2], start, end):
            hidden |= dict.fromkeys(vacuum.targets, vacuum.path)
    return hidden


def visible_metadata(history: History, start: int, end: int) -> list[Name]:
    """List the metadata files that an open at a window reads, in the order in which they count."""
    hidden = hidden_metadata(history, start, end)
    named = (name for text in history.listing.meta if (name := try_parse(text)) is not None)
    seen = (name for name in named if is_inside(name.t1, name.t2, start, end))
    return sorted((name for name in seen if name.text not in hidden), key=time_order)


@dataclass(frozen=True, eq=False)
class Rules:
    """The rules, applied to one history. All that no window changes is computed once."""

    history: History

    @cached_property
    def fragment_rows(self) -> I64:
        """The rows of the effective writes, in time order.

        An `.ok` without a folder is no fragment; a `.wrt` without a folder breaks the array.
        """
        table = self.history.table
        if table.is_all_writes:
            return np.arange(len(table))
        chosen = table.effective & ((table.uris.ext == WRT) | (table.uris.ext == OK))
        chosen[self.ok_without_folder] = False
        return np.flatnonzero(chosen)

    def _of(self, column: npt.NDArray[T]) -> npt.NDArray[T]:
        """Pick the items of a column that belong to fragments."""
        return column if self.history.table.is_all_writes else column[self.fragment_rows]

    @cached_property
    def ok_without_folder(self) -> I64:
        """The rows of `.ok` files without a folder, in time order: the engine passes over them."""
        table, folders = self.history.table, set(self.history.listing.root_fragments)
        rows = np.flatnonzero(table.effective & (table.uris.ext == OK))
        gone = [row for row in rows.tolist() if table.name(row) not in folders]
        return np.array(gone, np.int64)

    @cached_property
    def delete_rows(self) -> I64:
        """The rows of effective deletes, in time order."""
        return self._condition_rows(DEL)

    @cached_property
    def update_rows(self) -> I64:
        """The rows of effective updates, in time order."""
        return self._condition_rows(UPD)

    def _condition_rows(self, ext: int) -> I64:
        table, rows = self.history.table, self.history.table.condition_rows
        chosen: I64 = rows[(table.uris.ext[rows] == ext) & table.effective[rows]]
        return chosen

    @cached_property
    def has_cell_times(self) -> Mask:
        """Mask of the fragments that keep a timestamp for each cell."""
        table = self.history.table
        if self.history.dense:
            return self._of(np.broadcast_to(np.False_, len(table)))
        return self._of(table.is_from_version(TIMESTAMPED_CELLS))

    @cached_property
    def missing(self) -> Mask:
        """Mask of the fragments without a folder."""
        return self._of(self.history.lost)

    @cached_property
    def vacuumed(self) -> tuple[I64, ...]:
        """The fragments that each `.vac` lists, as places in `fragment_rows`."""
        return tuple(self._listed(vacuum) for vacuum in self.history.vacuums)

    def _listed(self, vacuum: VacuumFile) -> I64:
        table, rows = self.history.table, self.fragment_rows
        targets = set(vacuum.targets)
        named, _ = scan_names(sorted(targets))
        near = np.flatnonzero(np.isin(table.uris.uuid_start[rows], named.uuid_start))
        places = [at for at in near.tolist() if table.name(int(rows[at])) in targets]
        return np.array(places, np.int64)

    @property
    def first_ends(self) -> U64:
        """The first `end` at which a window that starts at 0 sees each fragment."""
        uris, rows = self.history.table.uris, self.fragment_rows
        return np.where(self.has_cell_times, uris.t1[rows], uris.t2[rows])

    def in_window(self, start: int, end: int) -> tuple[Mask, Mask]:
        """Mark the fragments wholly in a window, and all fragments in it."""
        uris = self.history.table.uris
        inside = self._of(is_inside(uris.t1, uris.t2, start, end))
        return inside, inside | (
            self.has_cell_times & self._of(overlaps(uris.t1, uris.t2, start, end))
        )

    def decide(self, start: int, end: int) -> npt.NDArray[np.object_]:
        """Find the rule that decides on each committed fragment.

        IGNORED and UNCOMMITTED are about fragments that have no effective commit: `ignored` and
        `uncommitted` list them.
        """
        inside, seen = self.in_window(start, end)
        # Backwards: the rule that is assigned last is the first that applies.
        rules = np.full(len(seen), Rule.OUTSIDE, object)
        rules[seen] = Rule.OVERLAPS
        rules[inside] = Rule.INSIDE
        rules[seen & self.missing] = Rule.MISSING
        rules[seen & self.superseded(start, end)] = Rule.SUPERSEDED
        return rules

    def visible(self, start: int, end: int) -> tuple[I64, Mask]:
        """List the rows of visible fragments, in order, and mark those read cell by cell."""
        inside, seen = self.in_window(start, end)
        if self.history.vacuums:
            seen &= ~self.superseded(start, end)
        seen &= ~self.missing
        places = np.flatnonzero(seen)
        rows = places if self.history.table.is_all_writes else self.fragment_rows[places]
        return rows, ~inside[places]

    def superseded(self, start: int, end: int) -> Mask:
        """Mark the fragments that a `.vac` in the window lists."""
        hidden = np.zeros(len(self.missing), bool)
        dense = self.history.dense
        for vacuum, listed in zip(self.history.vacuums, self.vacuumed, strict=True):
            if is_seen(vacuum.name, start, end, dense=dense):
                hidden[listed] = True
        return hidden

    def in_force(self, rows: I64, start: int, end: int) -> I64:
        """Choose the deletes or updates among some rows that are in force."""
        uris = self.history.table.uris
        return rows[is_inside(uris.t1[rows], uris.t2[rows], start, end)]

    def first_hidden_by(self) -> dict[int, VacuumFile]:
        """Map the place of each superseded fragment to the `.vac` that is first to hide it."""
        first: dict[int, VacuumFile] = {}
        pairs = zip(self.history.vacuums, self.vacuumed, strict=True)
        dense = self.history.dense
        for vacuum, listed in sorted(pairs, key=lambda p: first_end(p[0].name, dense=dense)):
            for at in listed.tolist():
                first.setdefault(at, vacuum)
        return first

    @cached_property
    def uncommitted(self) -> dict[str, str]:
        """The fragment folders that no commit names, ignored or not: name -> path."""
        table, listing = self.history.table, self.history.listing
        uris = table.uris
        writes = np.count_nonzero(table.effective & (uris.ext == WRT))
        is_whole = writes == len(listing.fragments) and not self.history.lost.any()
        if is_whole and not listing.root_fragments:
            # As a rule each write has its own folder; a name may stand in two paths, though.
            again = (uris.t1[1:] == uris.t1[:-1]) & (uris.uuid_start[1:] == uris.uuid_start[:-1])
            if not again.any():
                return {}
        rows = np.flatnonzero(table.uris.ext <= OK)
        inside, in_root = (
            sorted(compress(names, ~match_names(table, rows, names)[1]))
            for names in (listing.fragments, listing.root_fragments)
        )
        return {name: f"{FRAGMENTS}/{name}" for name in inside} | {name: name for name in in_root}

    def ignored(self) -> I64:
        """List the rows of ignored writes that are effective in no other file, each write once."""
        table = self.history.table
        rows = np.flatnonzero(table.ignored & ~table.effective & (table.uris.ext <= OK))
        if not len(rows):
            return rows
        effective = text_columns.names(table, self.fragment_rows)
        chosen = rows[~texts_in(text_columns.names(table, rows), effective)].tolist()
        # Several `.con` files may hold one write.
        return np.array(
            [*{table.name(row): row for row in reversed(chosen)}.values()][::-1], np.int64
        )
