"""The rows that an open at a window should see.

In: an array, a window, a predicate, fields. Out: Arrow batches of rows, and notes on what had to be
left out. Where no update is in force the engine reads the array as it is; else its fragments are
read without deletes and updates, and those are played on every batch.

A row that an update matches has the update's values from its time on, as if it had been written
then: a window that begins after the row was written, but not after the update, shows it.
"""

from __future__ import annotations

import difflib
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from chronotile.conditions.predicate_parser import parse_predicate
from chronotile.conditions.tree import fields as fields_of
from chronotile.conditions.tree import flatten
from chronotile.conditions.truth import Column, Sense, column_truth, rows_asked_for
from chronotile.dataset.moments import purges_of
from chronotile.errors import ChronotileError, PredicateError
from chronotile.rows.cells.bare_array import bare_array
from chronotile.rows.cells.cell_columns import shown, shown_type
from chronotile.rows.cells.cell_source import cell_source
from chronotile.rows.cells.dense_box import written_box
from chronotile.rows.cells.engine import Engine
from chronotile.rows.cells.engine_read import layout_of, read_cells
from chronotile.rows.cells.engine_settings import engine_settings
from chronotile.rows.changes_in_force import ChangesInForce, changes_in_force, fields_needed
from chronotile.rows.open_for_rows import schema_in_force
from chronotile.rows.play_changes import Play
from chronotile.storage.engine_access import engine_uri
from chronotile.visibility.gaps import refuse_gone, window_command
from chronotile.visibility.rules import Rule

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from chronotile.conditions.tree import Condition
    from chronotile.format.schema import Field, Schema
    from chronotile.format.timestamps import Moment
    from chronotile.history.read_history import SchemaFile
    from chronotile.log import Log

NOTES = b"chronotile.notes"
"""Where the metadata of a table of rows holds the notes, one a line."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RowReader:
    """Rows of one window, to be read batch by batch."""

    log: Log
    start: int
    end: int
    schema_file: SchemaFile
    fields: tuple[Field, ...]
    where: Condition | None
    in_force: ChangesInForce
    notes: tuple[str, ...]
    """What is not among the rows, in words."""
    is_refused: bool
    """Whether the engine refuses the array at this window, so that commits had to be left out."""

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

        Args:
            played: Play deletes on the cells even if there are no updates and the engine could.

        Raises:
            EngineError: The engine refused.
            ReadError: A cell cannot be shown.
        """
        plays = (played or self._has_to_play) and not self._schema.dense
        found = self._played() if plays else self._straight()
        for columns in found:
            cells = [shown(field, columns[field.name], self.log.array) for field in self.fields]
            if cells and len(cells[0]):
                yield pa.RecordBatch.from_arrays(cells, schema=self.schema)

    def table(self) -> pa.Table:
        """All rows at once."""
        return pa.Table.from_batches(self.batches(), schema=self.schema)

    @property
    def _schema(self) -> Schema:
        assert self.schema_file.schema is not None
        return self.schema_file.schema

    @property
    def _has_to_play(self) -> bool:
        return self.in_force.has_updates or bool(self.in_force.notes)

    def _read_fields(self, named: Iterable[str] = ()) -> list[Field]:
        """What is shown or looked at, in the order of the schema."""
        named = {*named, *(field.name for field in self.fields)}
        named |= set(fields_of(self.where)) if self.where else set()
        return [field for field in self._schema.fields if field.name in named]

    def _straight(self) -> Iterator[dict[str, pa.Array]]:
        """What the engine gives, as it is."""
        read, schema = self._read_fields(), self._schema
        ranges = written_box(self.log, self.start, self.end) if schema.dense else ()
        if ranges is None:
            return
        with self._opened([field.name for field in read]) as engine:
            engine.open(self.start, self.end)
            layout = layout_of(self.log.history)
            for cells in read_cells(engine, read, layout=layout, ranges=ranges):
                named = dict(zip((field.name for field in read), cells.columns, strict=True))
                yield self._filtered(named, read)

    @contextmanager
    def _opened(self, fields: Sequence[str]) -> Iterator[Engine]:
        """The array itself; without its lost fragments, if there are any (F10)."""
        log, key = self.log, self.log.history.key
        if not self.is_refused:
            settings = engine_settings(log.storage, key)
            with Engine(log.array, engine_uri(log.storage), settings) as engine:
                yield engine
        else:
            rows = log.rules.visible(self.start, self.end)[0].tolist()
            with bare_array(log, rows, self.schema_file, self.end, fields=fields) as bare:
                yield bare.engine

    def _filtered(
        self, columns: Mapping[str, pa.Array], read: Sequence[Field]
    ) -> dict[str, pa.Array]:
        if self.where is None:
            return dict(columns)
        held = {field.name: Column(field, columns[field.name]) for field in read}
        mask = rows_asked_for(
            self.where, lambda node: column_truth(node, held[node.field], Sense.PREDICATE)
        )
        length = len(next(iter(columns.values())))
        kept = pa.array(np.broadcast_to(mask, length))
        return {name: column.filter(kept) for name, column in columns.items()}

    def _played(self) -> Iterator[dict[str, pa.Array]]:
        """Cells as they were written, with the changes played on them."""
        changes = self.in_force.changes
        read = self._read_fields(fields_needed(changes))
        source = cell_source(
            self.log, self.schema_file, self.end, changes, exact_times=self.start > 0
        )
        for batch in source.batches(read):
            play = Play(read, *batch)
            for number, change in enumerate(changes):
                play.act(number, change)
            kept = pa.array(play.alive & (play.times >= np.uint64(self.start)))
            named = zip((field.name for field in read), play.cells(), strict=True)
            yield self._filtered({name: cells.filter(kept) for name, cells in named}, read)


def rows_of(
    log: Log,
    start: Moment,
    end: Moment | None,
    *,
    where: str | None = None,
    fields: Sequence[str] | None = None,
) -> RowReader:
    """A reader of the rows of a log that has been read with its labels.

    Raises:
        TimeGoneError: Some of what was written in the window was merged and vacuumed.
        PredicateError: The predicate or a field does not fit the schema.
    """
    view = log.view(start, end)
    refuse_gone(log.rules, view.start, view.end, partial(window_command, "rows", log.array))
    schema_file = schema_in_force(log, view.end)
    schema = schema_file.schema
    assert schema is not None
    in_force = changes_in_force(log.view(0, view.end), schema)
    lost = np.flatnonzero(log.rules.decide(view.start, view.end) == Rule.MISSING)
    names = [log.history.table.name(int(log.rules.fragments[at])) for at in lost]
    gone = [f"the write {name} is left out: its fragment is gone" for name in names]
    return RowReader(
        log=log,
        start=view.start,
        end=view.end,
        schema_file=schema_file,
        fields=_chosen(schema, fields),
        where=None if where is None else flatten(parse_predicate(where, schema)),
        in_force=in_force,
        notes=(*in_force.notes, *gone, *_purged(log, view.end)),
        is_refused=bool(in_force.notes or gone),
    )


def _purged(log: Log, end: int) -> Iterator[str]:
    """Notes on merges that dropped rows which later deletes removed, and which `end` should see."""
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
            near = difflib.get_close_matches(name, [one.name for one in schema.fields], n=1)
            hint = f"; did you mean {near[0]}?" if near else ""
            raise PredicateError(name, f"expected a field of the schema, found {name!r}{hint}")
        chosen.append(field)
    if not chosen:
        raise ChronotileError("fields", "expected at least one field, found none")
    return tuple(chosen)
