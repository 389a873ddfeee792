"""The cells that the fragments of a window hold, as they were written.

In: a log, the end of a window, the changes in force. Out: batches of cells, each with its time and
the fields that its fragments lack: of one place the newest cell, or every one. Deletes and updates
have not acted on them, not even those that a merged fragment has applied.

Where fragments differ in the fields that they lack, the engine is asked for each kind by itself,
with every version of a cell; this module then picks the newest, one range of the first dimension
after the other, so that memory stays bounded.
"""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from chronotile.conditions.delete import is_harmless
from chronotile.errors import ChronotileError, ReadError
from chronotile.format.fragment_footer import without_delete_metadata
from chronotile.format.names import MAX_TIMESTAMP, parse_name
from chronotile.history.read_footers import FooterReader
from chronotile.rows.cells.bare_array import bare_array
from chronotile.rows.cells.engine_read import layout_of, read_cells
from chronotile.rows.cells.newest_cells import newest_places, ranges_of_first
from chronotile.rows.changes_in_force import fields_needed
from chronotile.visibility.view import tile_commits

if TYPE_CHECKING:
    from collections.abc import Generator, Iterable, Iterator, Sequence

    import numpy.typing as npt
    import pyarrow as pa

    from chronotile.format.schema import Field, Schema
    from chronotile.history.read_footers import StoredFooter
    from chronotile.history.read_history import SchemaFile
    from chronotile.log import Log
    from chronotile.rows.cells.engine import Engine, Range
    from chronotile.rows.changes_in_force import Change

MOST_CELLS = 4_000_000
"""Cells that are held at a time while the newest are picked."""


class CellBatch(NamedTuple):
    """Cells as they were written."""

    columns: tuple[pa.Array, ...]
    """As stored, in the order of the fields that were asked for."""
    times: npt.NDArray[np.uint64]
    lacks: frozenset[str]


class Kind(NamedTuple):
    """Fragments that are read together."""

    rows: tuple[int, ...]
    """Of their commits, in the log's table."""
    lacks: frozenset[str]


@dataclass(frozen=True, slots=True, kw_only=True)
class CellSource:
    """Where the cells of a window come from."""

    log: Log
    schema: SchemaFile
    end: int
    kinds: tuple[Kind, ...]
    metadata: dict[str, bytes | None]
    """Merged fragment -> its metadata, less what it says of removed cells, if it says any."""
    every_version: bool
    """Whether older cells of a place are wanted too."""
    latest: int | None = None
    """When the last of them was written, if nobody asks for more: all cells then have this time."""

    @property
    def _schema(self) -> Schema:
        assert self.schema.schema is not None
        return self.schema.schema

    def batches(
        self, fields: Sequence[Field], ranges: Sequence[Range] = (), most_cells: int = MOST_CELLS
    ) -> Generator[CellBatch, None, None]:
        """Read the cells of some fields, somewhere or everywhere."""
        if len(self.kinds) <= 1 or self.every_version or self._schema.allows_duplicates:
            with ExitStack() as stack:
                opened = self._opened(stack, fields, every_version=self.every_version)
                for engine, kind in opened:
                    yield from self._read(engine, kind, fields, ranges)
        else:
            yield from self._picked(fields, ranges, most_cells)

    def _opened(
        self, stack: ExitStack, fields: Sequence[Field], *, every_version: bool
    ) -> Iterator[tuple[Engine, Kind]]:
        for kind in self.kinds:
            bare = bare_array(
                self.log,
                kind.rows,
                self.schema,
                self.end,
                every_version=every_version,
                metadata=self.metadata,
                fields=[field.name for field in fields],
            )
            engine = stack.enter_context(bare).engine
            engine.open(0, self.end)
            yield engine, kind

    def _read(
        self, engine: Engine, kind: Kind, fields: Sequence[Field], ranges: Sequence[Range]
    ) -> Iterator[CellBatch]:
        layout = layout_of(self.log.history, every_version=True)
        times = self.latest is None
        for cells in read_cells(engine, fields, times=times, layout=layout, ranges=ranges):
            written = cells.times
            if written is None:
                written = np.broadcast_to(np.uint64(self.latest or 0), cells.count)
            yield CellBatch(cells.columns, written, kind.lacks)

    def _picked(
        self, fields: Sequence[Field], ranges: Sequence[Range], most_cells: int
    ) -> Iterator[CellBatch]:
        """Every version of the cells of one range after the other, of each place the newest."""
        dimensions = self._schema.dimensions
        wanted = [*dimensions, *(field for field in fields if not field.is_dimension)]
        with ExitStack() as stack:
            opened = list(self._opened(stack, wanted, every_version=True))
            parts: list[Sequence[Range]] = [ranges]
            if not ranges:
                firsts = (
                    batch.columns[0]
                    for engine, kind in opened
                    for batch in self._read(engine, kind, dimensions[:1], ())
                )
                parts = [*ranges_of_first(dimensions[0], firsts, most_cells)]
            for number, part in enumerate(parts):
                found = [
                    (batch, at)
                    for at, (engine, kind) in enumerate(opened)
                    for batch in self._read(engine, kind, wanted, part)
                ]
                low = part[0].low if number else None  # it belongs to the part before
                for columns, times, at in newest_places(found, len(dimensions), low):
                    by_name = dict(zip((f.name for f in wanted), columns, strict=True))
                    chosen = tuple(by_name[field.name] for field in fields)
                    yield CellBatch(chosen, times, opened[at][1].lacks)


def cell_source(
    log: Log,
    schema: SchemaFile,
    end: int,
    changes: Sequence[Change],
    *,
    every_version: bool = False,
    rows: Sequence[int] | None = None,
    exact_times: bool = True,
) -> CellSource:
    """Find out which fragments are read together, and how.

    Args:
        log: The log of the array.
        schema: The schema in force at `end`.
        end: The end of the window, which starts at 0.
        changes: What is going to act on the cells.
        every_version: Whether older cells of a place are wanted too.
        rows: Only these fragments, by the rows of their commits.
        exact_times: Whether the time of each cell matters beyond which changes act on it.

    Raises:
        ReadError: The metadata of a fragment cannot be read.
    """
    visible = log.rules.visible(0, end)[0].tolist() if rows is None else list(rows)
    table, named = log.history.table, fields_needed(changes)
    lacking = {
        item.text: lacked_fields(item.schema, schema.schema, named)
        for item in log.history.schemas
        if item.schema is not None and schema.schema is not None
    }
    merged = {vacuum.name.text for vacuum in log.history.vacuums}
    names = {table.name(row) for row in visible}
    wanted = names if any(lacking.values()) else {n for n in names if n in merged or _is_long(n)}
    reader = FooterReader(log.storage, log.history)
    lacks: dict[str, frozenset[str]] = {}
    metadata: dict[str, bytes | None] = {}
    for name, stored in reader.read(sorted(wanted), applied=True):
        if isinstance(stored, ChronotileError):
            raise ReadError(log.array, f"expected the metadata of {name}: {stored.problem}")
        lacks[name] = lacking.get(stored.schema_file, frozenset())
        if stored.footer.has_timestamps:
            bared = stored.footer.has_delete_metadata and _is_to_be_bared(log, stored, changes)
            metadata[name] = _bared(log, reader, stored) if bared else None
    kinds: dict[frozenset[str], list[int]] = {}
    for row in visible:
        kinds.setdefault(lacks.get(table.name(row), frozenset()), []).append(row)
    return CellSource(
        log=log,
        schema=schema,
        end=end,
        kinds=tuple(Kind(tuple(members), key) for key, members in kinds.items()),
        metadata=metadata,
        every_version=every_version,
        latest=None if exact_times or len(kinds) > 1 else _before_all(log, visible, changes),
    )


def _before_all(log: Log, rows: Sequence[int], changes: Sequence[Change]) -> int | None:
    """The time of the last write, if all are writes of one moment, before every change."""
    uris = log.history.table.uris
    first, last = uris.t1[rows], uris.t2[rows]
    if not len(rows) or (first != last).any():
        return None
    latest = int(last.max())
    return latest if all(latest < change.t for change in changes) else None


def lacked_fields(old: Schema, new: Schema, named: Iterable[str]) -> frozenset[str]:
    """The fields that cells of one schema lack in another: added since, or of another type."""

    def kind(schema: Schema, name: str) -> object:
        field = schema.field(name)
        return field and (field.datatype, field.cell_val_num, field.nullable)

    return frozenset(name for name in named if kind(old, name) != kind(new, name))


def applied_updates(log: Log) -> frozenset[str]:
    """The names of the updates that some fragment has applied, visible or not."""
    table = log.history.table
    merged = {vacuum.name.text for vacuum in log.history.vacuums}
    names = [table.name(row) for row in log.rules.fragments[~log.rules.missing].tolist()]
    wanted = sorted(name for name in names if name in merged or _is_long(name))
    found: set[str] = set()
    for _, stored in FooterReader(log.storage, log.history).read(wanted, applied=True):
        if not isinstance(stored, ChronotileError):
            found.update(one for one in stored.applied or () if one.endswith(".upd"))
    return frozenset(name.removesuffix(".upd") for name in found)


def _is_to_be_bared(log: Log, stored: StoredFooter, changes: Sequence[Change]) -> bool:
    """Whether the cells that a merged fragment calls removed are played on instead.

    Not if a delete that it has applied is gone, or stands there as one that matches no row (F14):
    only the fragment knows what that delete removed. Updates never remove a row.
    """
    applied = set(stored.applied or ())
    updates = {name.removesuffix(".upd") for name in applied if name.endswith(".upd")}
    there = {
        commit.name
        for commit, _ in tile_commits(log.rules, MAX_TIMESTAMP)
        if commit.schema is None or not is_harmless(commit.stored, commit.schema)
    }
    gone = sorted(name for name in applied - there if not name.endswith(".upd"))
    if gone and updates & {change.name for change in changes}:
        problem = f"expected all deletes that {stored.fragment} has applied, found {gone[0]} gone"
        raise ReadError(log.array, f"{problem}: which rows of updates it removed cannot be told")
    return not gone


def _bared(log: Log, reader: FooterReader, stored: StoredFooter) -> bytes:
    """The metadata of a merged fragment, less what it says of removed cells."""
    data = log.storage.read(stored.where)
    layout = reader.layout(stored.schema_file)
    end = without_delete_metadata(stored.raw, stored.footer, layout)
    return data[: len(data) - len(stored.raw) - 8] + end


def _is_long(name: str) -> bool:
    """Whether a fragment covers more than one moment, by its name."""
    return len(set(parse_name(name)[:2])) == 2
