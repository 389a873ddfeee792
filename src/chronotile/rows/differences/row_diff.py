"""The rows that differ between two moments, and the commits that made them differ.

In: a log, two moments. Out: a table: `change` (`insert`, `delete`, `update_before`,
`update_after`), the commit that did it last, its time, and the row. Rows that are the same at both
moments are left out, whatever happened in between. Memory grows with what changed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from chronotile.rows.cells.cell_columns import stored_type
from chronotile.rows.cells.cell_source import cell_source
from chronotile.rows.cells.newest_cells import box_of
from chronotile.rows.cells.written_by import Writers
from chronotile.rows.changes_in_force import changes_in_force
from chronotile.rows.differences.dense_diff import dense_pairs
from chronotile.rows.differences.log_diff import refuse_gone_moments
from chronotile.rows.differences.row_pairs import Pairs, diff_schema, pairs_table
from chronotile.rows.open_for_rows import schema_in_force
from chronotile.rows.play_changes import NOBODY, Play

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    import numpy.typing as npt

    from chronotile.format.schema import Schema
    from chronotile.history.read_history import SchemaFile
    from chronotile.log import Log
    from chronotile.rows.changes_in_force import Change


def diff_rows(log: Log, first: int, last: int) -> pa.Table:
    """The rows that differ between two moments of a log.

    Raises:
        TimeGoneError: A moment can no longer be read whole.
        ReadError: Cells cannot be read or shown.
    """
    refuse_gone_moments(log, first, last)
    schema_file = schema_in_force(log, last)
    schema = schema_file.schema
    assert schema is not None
    if schema.dense:
        found = dense_pairs(log, schema_file, first, last)
    elif schema.allows_duplicates:
        found = _pairs_of_cells(log, schema_file, first, last)
    else:
        found = _pairs_of_places(log, schema_file, first, last)
    tables = [pairs_table(log.array, schema, pairs) for pairs in found]
    if not tables:
        return diff_schema(schema).empty_table()
    return pa.concat_tables(tables).sort_by([("t", "ascending"), ("commit", "ascending")])


def _commits(
    play: Play, changes: Sequence[Change], writers: Writers, rows: npt.NDArray[np.intp]
) -> tuple[list[str | None], npt.NDArray[np.uint64]]:
    """Who was the last to write, set or remove each row, and when."""
    by = play.done_by[rows]
    moments = np.array([change.t for change in changes] or [0], np.uint64)
    times = np.where(by == NOBODY, play.times[rows], moments[by])
    names = np.array([*(change.name for change in changes), None], object)[by]
    written = np.flatnonzero(by == NOBODY)
    names[written] = writers.names(times[written], play.cells(rows[written]))
    return names.tolist(), times


def _pairs_of_cells(log: Log, schema_file: SchemaFile, first: int, last: int) -> Iterator[Pairs]:
    """Where an array allows duplicates each cell is a row of its own."""
    schema, changes, writers = (
        schema_file.schema,
        _changes(log, schema_file, last),
        Writers(log, schema_file),
    )
    assert schema is not None
    fields = schema.fields
    for batch in cell_source(log, schema_file, last, changes).batches(fields):
        plays = [Play(fields, batch.columns, batch.times, batch.lacks) for _ in range(2)]
        for number, change in enumerate(changes):
            plays[1].act(number, change)
            if change.t <= first:
                plays[0].act(number, change)
        was = plays[0].alive & (batch.times <= np.uint64(first))
        names, times = _commits(plays[1], changes, writers, np.arange(len(batch.times)))
        rows = np.flatnonzero((times > np.uint64(first)) & (was | plays[1].alive))
        if len(rows):
            before, after = (play.cells(rows) for play in plays)
            alive = plays[1].alive[rows]
            yield Pairs(before, was[rows], after, alive, [names[at] for at in rows], times[rows])


def _changes(log: Log, schema_file: SchemaFile, end: int) -> tuple[Change, ...]:
    return changes_in_force(log.view(0, end), schema_file.schema).changes


def _pairs_of_places(log: Log, schema_file: SchemaFile, first: int, last: int) -> Iterator[Pairs]:
    """Where each place holds one row: what changed since, with what was there before."""
    schema = schema_file.schema
    assert schema is not None
    after = _changed_since(log, schema_file, first, last)
    if not len(after):
        return
    places = after.select([field.name for field in schema.dimensions])
    changes = _changes(log, schema_file, first)
    yield side_by_side(schema, after, rows_at(log, schema_file, first, places, changes))


def side_by_side(schema: Schema, after: pa.Table, before: pa.Table) -> Pairs:
    """Rows of two moments at the same places: `after` has the columns of `said`, `before` `was`."""
    names = [field.name for field in schema.fields]
    places = names[: len(schema.dimensions)]
    joined = after.join(
        before, keys=places, join_type="left outer", right_suffix=" before", use_threads=False
    )
    columns = {name: joined[name].combine_chunks() for name in joined.column_names}
    attributes = names[len(places) :]
    return Pairs(
        tuple(columns[n] for n in places) + tuple(columns[f"{n} before"] for n in attributes),
        np.asarray(columns["was"].is_valid()),
        tuple(columns[name] for name in names),
        np.asarray(columns["is there"]),
        columns["commit "].to_pylist(),
        np.asarray(columns["t "]),
    )


def said(
    names: Sequence[str | None],
    times: npt.NDArray[np.uint64],
    there: npt.NDArray[np.bool_],
) -> dict[str, pa.Array]:
    """The columns beside the rows: who changed them, when, and whether they are still there."""
    # No field's name ends in a space, so these names are free.
    return {
        "is there": pa.array(there),
        "commit ": pa.array(names, pa.string()),
        "t ": pa.array(times),
    }


def _changed_since(log: Log, schema_file: SchemaFile, first: int, last: int) -> pa.Table:
    """The rows of the later moment, removed ones too, that a commit since the first one touched."""
    schema, changes, writers = (
        schema_file.schema,
        _changes(log, schema_file, last),
        Writers(log, schema_file),
    )
    assert schema is not None
    found = []
    for batch in cell_source(log, schema_file, last, changes).batches(schema.fields):
        play = Play(schema.fields, batch.columns, batch.times, batch.lacks)
        for number, change in enumerate(changes):
            play.act(number, change)
        moments = np.array([change.t for change in changes] or [0], np.uint64)
        times = np.where(play.done_by == NOBODY, play.times, moments[play.done_by])
        rows = np.flatnonzero(times > np.uint64(first))
        names, when = _commits(play, changes, writers, rows)
        cells = {f.name: cells for f, cells in zip(schema.fields, play.cells(rows), strict=True)}
        found.append(pa.table(cells | said(names, when, play.alive[rows])))
    return pa.concat_tables(found).combine_chunks() if found else pa.table({"x": []})


def rows_at(
    log: Log,
    schema_file: SchemaFile,
    moment: int,
    places: pa.Table,
    changes: Sequence[Change],
) -> pa.Table:
    """The rows of a moment at some places, with a column `was`."""
    schema = schema_file.schema
    assert schema is not None
    source = cell_source(log, schema_file, moment, changes)
    found = []
    for batch in source.batches(schema.fields, box_of(schema.dimensions, places.columns)):
        play = Play(schema.fields, batch.columns, batch.times, batch.lacks)
        for number, change in enumerate(changes):
            play.act(number, change)
        rows = np.flatnonzero(play.alive)
        cells = {f.name: cells for f, cells in zip(schema.fields, play.cells(rows), strict=True)}
        table = pa.table(cells | {"was": pa.array(np.ones(len(rows), bool))})
        found.append(
            table.join(places, keys=places.column_names, join_type="left semi", use_threads=False)
        )
    if found:
        return pa.concat_tables(found)
    kinds = {name: places.schema.field(name).type for name in places.column_names}
    empty = {f.name: pa.array([], kinds.get(f.name) or stored_type(f)) for f in schema.fields}
    return pa.table(empty | {"was": pa.array([], pa.bool_())})
