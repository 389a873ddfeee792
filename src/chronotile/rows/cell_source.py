"""The cells that the fragments of a window hold, as they were written.

In: a snapshot. Out: batches of cells, each with its time and the fields that its fragments lack: of
one place the newest cell, or every one. Deletes and updates have not acted on them, not even those
that a merged fragment has applied.

Where fragments differ in the fields that they lack, the engine is asked for each kind by itself,
with every version of a cell; this module then picks the newest, one range of the first dimension
after the other, so that memory stays bounded.

A merge fills the fields that a cell lacks. Deletes that the merged fragment has applied acted
before that, on cells without the field (F15). The fragment tells when each cell was removed: those
that such a delete removed are given without the field.
"""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import pyarrow as pa

from chronotile.conditions.stored_conditions import is_harmless
from chronotile.errors import BadFileError, ChronotileError, ReadError
from chronotile.format.fragment_footer import METADATA, without_delete_metadata
from chronotile.format.names import MAX_TIMESTAMP, parse_name
from chronotile.history.read_footers import FooterReader
from chronotile.rows.engine_cells import Cells, layout_of, read_cells
from chronotile.rows.places import newest_cells, ranges_of_first
from chronotile.rows.scratch_arrays import FAR, bare_array
from chronotile.rows.snapshot import fields_needed
from chronotile.safe_text import shell_word
from chronotile.visibility.rules import schema_at
from chronotile.visibility.view import tile_commits

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

    import numpy.typing as npt

    from chronotile.format.schema import Field, Schema
    from chronotile.history.read_footers import StoredFooter
    from chronotile.log import Log
    from chronotile.rows.engine import Engine, Range
    from chronotile.rows.snapshot import RowChange, Snapshot
    from chronotile.storage.store import Store

MOST_CELLS = 4_000_000
"""Cells that are in memory at a time while the newest are picked."""


class _Kind(NamedTuple):
    """Fragments that are read together."""

    lacks: frozenset[str]
    """The fields that they lack."""
    filled: str | None = None
    """The merged fragment, alone of its kind, that has applied deletes to cells without a field."""


class _RemovedCells(NamedTuple):
    """How a merged fragment tells which cells a delete has removed that lacked its fields."""

    files: Mapping[str, bytes]
    """Those that stand in for its own: then the time of a cell's write is that of its removal."""
    times: frozenset[int]
    """The times of those deletes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CellSource:
    """The fragments that hold the cells of a window, and how to read them."""

    at: Snapshot
    kinds: Mapping[_Kind, Sequence[int]]
    """The rows of their commits in the log's table."""
    instead: Mapping[str, Mapping[str, bytes]]
    """Merged fragment -> metadata without the removed cells, if it names any."""
    removals: Mapping[str, _RemovedCells]
    every_version: bool
    """Give older cells of a place too."""

    def batches(
        self, fields: Sequence[Field], ranges: Sequence[Range] = (), most_cells: int = MOST_CELLS
    ) -> Iterator[Cells]:
        """Read the cells of some fields, somewhere or everywhere."""
        is_picked = len(self.kinds) > 1 or any(kind.filled for kind in self.kinds)
        if is_picked and not (self.every_version or self.at.schema.allows_duplicates):
            yield from self._picked(fields, ranges, most_cells)
            return
        with ExitStack() as stack:
            for kind in self.kinds:
                engine = self._opened(stack, kind, fields, every_version=self.every_version)
                yield from self._read(engine, kind, fields, ranges)

    def _opened(
        self, stack: ExitStack, kind: _Kind, fields: Sequence[Field], *, every_version: bool
    ) -> Engine:
        bare = bare_array(
            # Of each cell of a filled fragment the time of its removal is wanted, whatever it is.
            replace(self.at, end=FAR) if kind.filled else self.at,
            self.kinds[kind],
            every_version=every_version,
            merged=self.instead,
            fields=[field.name for field in fields],
        )
        return stack.enter_context(bare)

    def _read(
        self, engine: Engine, kind: _Kind, fields: Sequence[Field], ranges: Sequence[Range]
    ) -> Iterator[Cells]:
        # The layout that every bare array can be read in, with duplicates or without.
        layout = layout_of(self.at.log.history, every_version=True)
        batches = read_cells(engine, fields, times=True, layout=layout, ranges=ranges)
        if kind.filled is None:
            yield from (replace(cells, lacks=kind.lacks) for cells in batches)
            return
        removed, start = self._removed(kind, ranges, layout), 0
        for cells in batches:
            yield from self._unfilled(cells, kind, removed[start : start + len(cells)])
            start += len(cells)

    def _removed(self, kind: _Kind, ranges: Sequence[Range], layout: int) -> npt.NDArray[np.uint64]:
        """Read when each cell of a filled fragment was removed, in the same order."""
        assert kind.filled is not None
        files = {kind.filled: self.removals[kind.filled].files}
        first = self.at.schema.dimensions[:1]
        with ExitStack() as stack:
            engine = replace(self, instead=files)._opened(stack, kind, first, every_version=True)
            batches = read_cells(engine, first, times=True, layout=layout, ranges=ranges)
            return np.concatenate([np.empty(0, np.uint64), *(cells.times for cells in batches)])

    def _unfilled(
        self, cells: Cells, kind: _Kind, removed: npt.NDArray[np.uint64]
    ) -> Iterator[Cells]:
        """Split cells by the fields that they lacked when a delete acted on them."""
        assert kind.filled is not None
        named = fields_needed(self.at.changes)
        is_removed = np.isin(removed, [*self.removals[kind.filled].times])
        moments = np.where(is_removed, cells.times, np.uint64(MAX_TIMESTAMP))
        lacks = {
            moment: kind.lacks | _lacked_at(self.at, moment, named) if moment < FAR else kind.lacks
            for moment in np.unique(moments).tolist()
        }
        for lacked in dict.fromkeys(lacks.values()):
            chosen = [moment for moment, one in lacks.items() if one == lacked]
            mask = np.isin(moments, np.array(chosen, np.uint64))
            mask &= cells.times <= np.uint64(self.at.end)
            columns = tuple(column.filter(pa.array(mask)) for column in cells.columns)
            yield Cells(columns, cells.times[mask], lacked)

    def _picked(
        self, fields: Sequence[Field], ranges: Sequence[Range], most_cells: int
    ) -> Iterator[Cells]:
        """Read every version of the cells of one range after the other, and pick the newest."""
        dimensions = self.at.schema.dimensions
        wanted = [*dimensions, *(field for field in fields if not field.is_dimension)]
        chosen = [wanted.index(field) for field in fields]
        with ExitStack() as stack:
            engines = {
                kind: self._opened(stack, kind, wanted, every_version=True) for kind in self.kinds
            }
            parts: list[Sequence[Range]] = [ranges]
            if not ranges:
                firsts = (
                    cells.columns[0]
                    for kind, engine in engines.items()
                    for cells in self._read(engine, kind, dimensions[:1], ())
                )
                parts = [*ranges_of_first(dimensions[0], firsts, most_cells)]
            for number, part in enumerate(parts):
                every = [
                    cells
                    for kind, engine in engines.items()
                    for cells in self._read(engine, kind, wanted, part)
                ]
                low = part[0].low if number else None  # it belongs to the part before
                for cells in newest_cells(every, len(dimensions), low):
                    yield replace(cells, columns=tuple(cells.columns[at] for at in chosen))


def cell_source(
    at: Snapshot,
    *,
    every_version: bool = False,
    rows: Sequence[int] | None = None,
    less_removed: Collection[str] = (),
) -> CellSource:
    """Find out which fragments are read together, and how.

    The changes of `at` are going to act on the cells. `every_version` gives older cells of a place
    too; `rows` chooses fragments by the rows of their commits; of the merged fragments in
    `less_removed` the cells that they mark as removed are left out.

    Raises:
        ReadError: The metadata of a fragment cannot be read.
    """
    log, table = at.log, at.log.history.table
    visible = log.rules.visible(0, at.end)[0].tolist() if rows is None else rows
    named = fields_needed(at.changes)
    lacking = {
        item.text: lacked_fields(item.schema, at.schema, named)
        for item in log.history.schemas
        if item.schema is not None
    }
    names = [table.name(row) for row in visible]
    wanted = names if any(lacking.values()) else _perhaps_merged(log, names)
    reader = FooterReader(log.store, log.history)
    lacks: dict[str, frozenset[str]] = {}
    instead: dict[str, Mapping[str, bytes]] = {}
    removals: dict[str, _RemovedCells] = {}
    for name, stored in reader.read(sorted(set(wanted)), applied=True):
        if isinstance(stored, ChronotileError):
            kind = BadFileError if isinstance(stored, BadFileError) else ReadError
            raise kind(log.array, f"the metadata of {name} cannot be read: {stored.problem}")
        lacks[name] = lacking.get(stored.schema_file, frozenset())
        if stored.footer.has_timestamps:
            instead[name] = {}
            is_marked = stored.footer.has_delete_metadata and name not in less_removed
            if is_marked and _is_to_be_bared(at, stored):
                instead[name] = {METADATA: bared_metadata(log.store, reader, stored)}
                filled = frozenset().union(*lacking.values()) - lacks[name]
                if times := _removed_unfilled(at, stored, filled):
                    removals[name] = _RemovedCells(
                        _files_of_removals(log.store, reader, stored), times
                    )
    kinds: dict[_Kind, list[int]] = {}
    for row, name in zip(visible, names, strict=True):
        one = _Kind(lacks.get(name, frozenset()), name if name in removals else None)
        kinds.setdefault(one, []).append(row)
    return CellSource(
        at=at, kinds=kinds, instead=instead, removals=removals, every_version=every_version
    )


def _removed_unfilled(
    at: Snapshot, stored: StoredFooter, filled: Collection[str]
) -> frozenset[int]:
    """Return the times of the deletes that a fragment has applied to cells without a field (F15).

    `filled` are the fields that it has, and that some older fragment lacks.
    """
    applied = set(stored.applied or ())
    deletes = (one for one in at.changes if not one.is_update and one.name in applied)
    return frozenset(one.t for one in deletes if not set(filled).isdisjoint(one.fields))


def _files_of_removals(
    store: Store, reader: FooterReader, stored: StoredFooter
) -> dict[str, bytes]:
    """Return the files of a merged fragment in which cells have the times of their removal."""
    metadata = bared_metadata(store, reader, stored, times_of_removal=True)
    return {METADATA: metadata, "t.tdb": store.read(f"{stored.path}/dt.tdb")}


def _lacked_at(at: Snapshot, moment: int, named: Iterable[str]) -> frozenset[str]:
    """Find the fields that cells of a moment were written without."""
    item = schema_at(at.log.history, moment)
    old = None if item is None else item.schema
    return frozenset() if old is None else lacked_fields(old, at.schema, named)


def lacked_fields(old: Schema, new: Schema, named: Iterable[str]) -> frozenset[str]:
    """Find the fields that cells of one schema lack in another: added since, or of another type."""

    def kind(schema: Schema, name: str) -> object:
        field = schema.field(name)
        return field and (field.datatype, field.cell_val_num, field.nullable)

    return frozenset(name for name in named if kind(old, name) != kind(new, name))


def applied_updates(log: Log) -> frozenset[str]:
    """Find the names of the updates that some fragment has applied, visible or not."""
    table = log.history.table
    names = [table.name(row) for row in log.rules.fragment_rows[~log.rules.missing].tolist()]
    applied: set[str] = set()
    reader = FooterReader(log.store, log.history)
    for _, stored in reader.read(sorted(_perhaps_merged(log, names)), applied=True):
        if not isinstance(stored, ChronotileError):
            applied.update(one for one in stored.applied or () if one.endswith(".upd"))
    return frozenset(name.removesuffix(".upd") for name in applied)


def fragments_that_applied(log: Log, name: str) -> dict[str, frozenset[str]]:
    """Find the visible fragments that have applied a delete or an update, with all they applied."""
    table = log.history.table
    names = [table.name(row) for row in log.rules.visible(0, MAX_TIMESTAMP)[0].tolist()]
    reader = FooterReader(log.store, log.history)
    found = {}
    for fragment, stored in reader.read(sorted(_perhaps_merged(log, names)), applied=True):
        applied = () if isinstance(stored, ChronotileError) else stored.applied or ()
        if {name, f"{name}.upd"}.intersection(applied):
            found[fragment] = frozenset(applied)
    return found


def _perhaps_merged(log: Log, names: Iterable[str]) -> list[str]:
    """Find the fragments that may be merged: a `.vac` has their name, or they cover a span."""
    merged = {vacuum.name.text for vacuum in log.history.vacuums}
    return [name for name in names if name in merged or len({*parse_name(name)[:2]}) == 2]


def _is_to_be_bared(at: Snapshot, stored: StoredFooter) -> bool:
    """Return True if the changes are played on the cells that a merged fragment calls removed.

    They are not if a delete that it has applied is gone, or stands there as one that matches no
    row (F14): only the fragment knows the rows of that delete. Updates never remove a row.
    """
    applied = set(stored.applied or ())
    updates = {name.removesuffix(".upd") for name in applied if name.endswith(".upd")}
    there = {
        commit.name
        for commit, _ in tile_commits(at.log.rules, MAX_TIMESTAMP)
        if commit.schema is None or not is_harmless(commit.stored, commit.schema)
    }
    gone = sorted(name for name in applied - there if not name.endswith(".upd"))
    doubtful = sorted(updates & {change.name for change in acting_changes(at)})
    if gone and doubtful:
        array = shell_word(at.log.array)
        raise ReadError(
            at.log.array,
            f"cannot tell which rows the update {doubtful[0]} changed: {stored.fragment} applied "
            f"it and the delete {gone[0]}, and that delete is gone, or matches no row any more; to "
            f"apply the update: chronotile apply {array}; to find the change that replaced the "
            f"delete, and undo it: chronotile operations {array}",
        )
    return not gone


def acting_changes(at: Snapshot) -> list[RowChange]:
    """List the changes that may act on rows: all but those that stand in for another (F14)."""
    return [change for change in at.changes if not is_harmless(change.stored, at.schema)]


def bared_metadata(
    store: Store, reader: FooterReader, stored: StoredFooter, *, times_of_removal: bool = False
) -> bytes:
    """Return the metadata of a merged fragment without the removed cells.

    See `without_delete_metadata`.
    """
    data = store.read(stored.where)
    _, layout = reader.layout(stored.schema_file, stored.where)
    end = without_delete_metadata(
        stored.raw, stored.footer, layout, times_of_removal=times_of_removal
    )
    return data[: len(data) - len(stored.raw) - 8] + end
