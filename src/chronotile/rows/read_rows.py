"""The rows that an open at a window should see.

In: a log, a window, a predicate, fields. Out: Arrow batches of rows, and notes on what had to be
left out. Where no update is in force the engine reads the array as it is; else its fragments are
read without deletes and updates, and those are played on every batch.

The predicate never goes to the engine: every cell of the window is read, and each batch is filtered
here, in the sense of its author (see `conditions.truth`).

A row that an update matches has the update's values from its time on, as if it had been written
then: a window that begins after the row was written, but not after the update, shows it.
"""

from __future__ import annotations

import re
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from chronotile.check.commit_files import damage
from chronotile.conditions.predicate_parser import parse_predicate
from chronotile.conditions.tree import fields as fields_of
from chronotile.errors import (
    BadFileError,
    ChronotileError,
    PredicateError,
    TooLargeError,
    UnknownVersionError,
    UnsupportedFilterError,
    no_field,
)
from chronotile.format.names import parse_name
from chronotile.log import purges_of
from chronotile.rows.cell_source import cell_source
from chronotile.rows.deletes_and_updates import CellBatch
from chronotile.rows.engine import Engine, EngineError
from chronotile.rows.engine_cells import all_shown, layout_of, read_cells, shown_type
from chronotile.rows.places import written_box
from chronotile.rows.scratch_arrays import bare_array
from chronotile.rows.snapshot import fields_needed, snapshot
from chronotile.safe_text import did_you_mean, shell_word
from chronotile.visibility.gaps import refuse_gone, window_command
from chronotile.visibility.rules import Rule

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from chronotile.conditions.tree import Condition
    from chronotile.format.schema import Field, Schema
    from chronotile.format.timestamps import Moment
    from chronotile.log import Log
    from chronotile.rows.snapshot import Snapshot


_NAME = re.compile(r"__\d+_\d+_([0-9a-f]{32})_\d+", re.ASCII)
NOTES = b"chronotile.notes"
"""The key under which the metadata of a table of rows holds the notes, one a line."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RowReader:
    """Rows of one window, to be read batch by batch."""

    at: Snapshot
    start: int
    fields: tuple[Field, ...]
    where: Condition | None
    notes: tuple[str, ...]
    """Sentences on rows that are missing here."""
    shown_updates: set[str] = field(default_factory=set)
    """Names of the updates that set a row which `batches` has given so far."""
    is_refused: bool
    """Whether the engine refuses the array at this window, so that commits, or fragments that are
    gone, had to be left out."""

    @property
    def end(self) -> int:
        """The end of the window."""
        return self.at.end

    @property
    def schema(self) -> pa.Schema:
        """The Arrow schema of the rows."""
        columns = [
            pa.field(field.name, shown_type(field), nullable=field.nullable)
            for field in self.fields
        ]
        metadata = {NOTES: "\n".join(self.notes).encode()} if self.notes else None
        return pa.schema(columns, metadata)

    def batches(self, *, played: bool = False) -> Iterator[pa.RecordBatch]:
        """Read the rows; memory holds few batches at a time.

            nothing is left out, no update in force   the engine reads the array: `_straight`
            sparse, and anything else                 it reads bare fragments, and the changes are
                                                      played on their cells: `_played`
            dense, and something is left out          it reads bare fragments: `_straight`

        With `played`, deletes are played on the cells of a sparse array even if there are no
        updates and the engine could.

        Raises:
            EngineError: The engine refused.
            ReadError: A cell cannot be shown.
        """
        with told_of_damage(self.at.log):
            yield from self._batches(played=played)

    def _batches(self, *, played: bool) -> Iterator[pa.RecordBatch]:
        at = self.at
        # A bare array has no deletes either.
        must_play = self.is_refused or any(change.is_update for change in at.changes)
        is_played = (played or must_play) and not at.schema.dense
        named = {field.name for field in self.fields}
        named |= set(fields_of(self.where)) if self.where else set()
        named |= fields_needed(at.changes) if is_played else set()
        read = [field for field in at.schema.fields if field.name in named]
        chosen = [read.index(field) for field in self.fields]
        for batch in self._played(read) if is_played else self._straight(read):
            mask = batch.alive if self.where is None else batch.alive & batch.asked(self.where)
            if mask.any():
                by = np.unique(batch.done_by[mask])
                self.shown_updates.update(at.changes[number].name for number in by if number >= 0)
                every = batch.cells()
                columns = [every[number] for number in chosen]
                if not mask.all():
                    columns = [column.filter(pa.array(mask)) for column in columns]
                cells = all_shown(self.fields, columns, at.log.array)
                yield pa.RecordBatch.from_arrays(cells, schema=self.schema)

    def table(self) -> pa.Table:
        """Read all rows at once."""
        return pa.Table.from_batches(self.batches(), schema=self.schema)

    def _straight(self, read: Sequence[Field]) -> Iterator[CellBatch]:
        """Read the rows that the engine gives."""
        log = self.at.log
        ranges = written_box(log, self.start, self.end) if self.at.schema.dense else ()
        if ranges is None:
            return
        with self._opened([field.name for field in read]) as engine:
            layout = layout_of(log.history)
            for cells in read_cells(engine, read, layout=layout, ranges=ranges):
                # Nothing acts on it: all cells are alive, without times.
                yield CellBatch(read, cells)

    @contextmanager
    def _opened(self, fields: Sequence[str]) -> Iterator[Engine]:
        """Open the array itself; without its lost fragments, if there are any (F10)."""
        log = self.at.log
        if self.is_refused:
            rows = log.rules.visible(self.start, self.end)[0].tolist()
            with bare_array(self.at, rows, start=self.start, fields=fields) as engine:
                yield engine
        else:
            with Engine.at(log.store, log.history.key) as engine:
                engine.open(self.start, self.end)
                yield engine

    def _played(self, read: Sequence[Field]) -> Iterator[CellBatch]:
        """Play the changes on cells as they were written."""
        for cells in cell_source(self.at).batches(read):
            batch = CellBatch(read, cells).act_all(self.at.changes)
            batch.alive &= batch.times >= np.uint64(self.start)
            yield batch


def rows_of(
    log: Log,
    start: Moment,
    end: Moment | None,
    *,
    where: str | None = None,
    fields: Sequence[str] | None = None,
) -> RowReader:
    """Make a reader of the rows of a log that was read with its enumerations.

    Raises:
        TimeGoneError: Some of the writes in the window were merged and vacuumed.
        PredicateError: The predicate or a field does not fit the schema.
    """
    view = log.view(start, end)
    refuse_gone(log.rules, view.start, view.end, partial(window_command, "rows", log.array))
    with told_of_damage(log):
        at = snapshot(log, view.end)
    lost = np.flatnonzero(log.rules.decide(view.start, view.end) == Rule.MISSING)
    names = [log.history.table.name(int(log.rules.fragment_rows[number])) for number in lost]
    gone = [f"the write {name} is left out: its fragment is gone" for name in names]
    look = f"to see what is wrong: chronotile check {shell_word(log.array)}"
    cut = [
        f"{problem.path} is cut: commits are missing, so deleted rows may show; {look}"
        for problem in log.history.problems
        if problem.kind == "con"
    ]
    closed = [
        f"TileDB cannot open this array, by {item.path}: rows may be missing here; {look}"
        for item in damage(log.history)
        if item.severity == "error" and item.code == "name-malformed"
    ]
    return RowReader(
        at=at,
        start=view.start,
        fields=_chosen(at.schema, fields),
        where=None if where is None else parse_predicate(where, at.schema),
        notes=(*at.notes, *gone, *cut, *closed, *_purged(log, view.end)),
        is_refused=bool(at.notes or gone),
    )


@contextmanager
def told_of_damage(log: Log) -> Iterator[None]:
    """Add to an error of a read where it was, and how to find the damage.

    The engine may have read a scratch array, where fragments have other times in their names.

    Raises:
        ReadError: A file is damaged, or the engine refused.
    """
    try:
        yield
    except (BadFileError, EngineError) as error:
        if isinstance(error, (TooLargeError, UnsupportedFilterError, UnknownVersionError)):
            raise
        table = log.history.table
        names = map(table.name, log.rules.fragment_rows.tolist())
        own = {parse_name(name).uuid: name for name in names}
        words = str(error).removeprefix(f"{log.array}: ")
        words = _NAME.sub(lambda found: own.get(found[1], found[0]), words)
        look = f"to see what is damaged: chronotile check {shell_word(log.array)}"
        kind = EngineError if isinstance(error, EngineError) else BadFileError
        raise kind(log.array, f"{words}; {look}") from error


def _purged(log: Log, end: int) -> Iterator[str]:
    """Name merges that dropped rows which later deletes removed, and which `end` should see."""
    times = log.history.table.uris.t2
    if len(times) and end < int(times.max()):  # an open now sees none of these rows anyway
        for gap in purges_of(log):
            if gap.t1 <= end <= gap.t2:
                yield f"rows that deletes removed later are missing: {gap.fragment} purged them"


def _chosen(schema: Schema, names: Sequence[str] | None) -> tuple[Field, ...]:
    if names is None:
        return schema.fields
    chosen = []
    for name in dict.fromkeys(names):
        field = schema.field(name)
        if field is None:
            known = [one.name for one in schema.fields]
            hint = did_you_mean(name, known) or f"; there are {', '.join(known)}"
            raise PredicateError("fields", f"there is no field {name!r}{hint}")
        chosen.append(field)
    if not chosen:
        raise ChronotileError("fields", "expected at least one field, found none")
    return tuple(chosen)


def with_notes(table: pa.Table, notes: Sequence[str]) -> pa.Table:
    """Keep notes in the metadata of a table.

    >>> notes_of(with_notes(pa.table({"a": [1]}), ["b is left out"]))
    ('b is left out',)
    """
    if not notes:
        return table
    return table.replace_schema_metadata({NOTES: "\n".join(notes).encode()})


def notes_of(table: pa.Table) -> tuple[str, ...]:
    """Give the notes in the metadata of a table."""
    return tuple((table.schema.metadata or {}).get(NOTES, b"").decode().splitlines())


def in_order(table: pa.Table, order_by: Sequence[str]) -> pa.Table:
    """Sort rows by some fields, each perhaps with `desc` behind it; NULL comes last.

    Raises:
        PredicateError: A field is none of the table, or its values have no order.

    >>> in_order(pa.table({"a": [1, 3, 2]}), ["a desc"])["a"].to_pylist()
    [3, 2, 1]
    """
    keys = []
    for text in order_by:
        name, _, way = text.strip().rpartition(" ")
        if way.lower() not in ("asc", "desc") or not name:
            name, way = text.strip(), "asc"
        if name not in table.column_names:
            raise PredicateError("order_by", no_field(name, table.column_names))
        keys.append((name, "descending" if way.lower() == "desc" else "ascending"))
    plain = pa.table(
        {
            name: column.combine_chunks().dictionary_decode()
            if pa.types.is_dictionary(column.type)
            else column
            for name, column in zip(table.column_names, table.columns, strict=True)
        }
    )
    try:
        order = pc.sort_indices(plain, sort_keys=keys)
    except (pa.ArrowNotImplementedError, pa.ArrowTypeError) as cause:
        names = ", ".join(name for name, _ in keys)
        problem = "expected fields whose values have an order"
        raise PredicateError(names, f"{problem}, found: {cause}") from None
    return table.take(order)
