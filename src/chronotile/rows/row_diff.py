"""Rows at two moments, side by side.

In: columns of both moments, who changed each row and when. Out: the table of changes: `change`,
`commit`, `t`, then the row. Knows neither array nor engine.
"""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from chronotile.rows.cell_source import cell_source
from chronotile.rows.changes_in_force import changes_in_force, schema_in_force
from chronotile.rows.engine import ROW_MAJOR
from chronotile.rows.engine_cells import read_cells, shown, shown_type, stored_type
from chronotile.rows.places import box_of, is_in_box, written_box
from chronotile.rows.play_changes import NOBODY, Play
from chronotile.rows.scratch_arrays import bare_array
from chronotile.rows.written_by import Writers
from chronotile.visibility.gaps import refuse_gone

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    import numpy.typing as npt

    from chronotile.format.schema import Schema
    from chronotile.history.read_history import SchemaFile
    from chronotile.log import Log
    from chronotile.rows.changes_in_force import Change
    from chronotile.rows.engine import Range

INSERT, DELETE, BEFORE, AFTER = "insert", "delete", "update_before", "update_after"
_HEAD = (("change", pa.string()), ("commit", pa.string()), ("t", pa.uint64()))


class Pairs(NamedTuple):
    """Rows at two moments, side by side; columns as stored."""

    before: tuple[pa.Array, ...]
    was: npt.NDArray[np.bool_]
    """Whether there was a row before."""
    after: tuple[pa.Array, ...]
    is_there: npt.NDArray[np.bool_]
    """Whether there is one after."""
    commits: list[str | None]
    times: npt.NDArray[np.uint64]


def diff_schema(schema: Schema) -> pa.Schema:
    """The Arrow schema of a table of changed rows."""
    return with_heads(_HEAD, schema)


def with_heads(heads: Sequence[tuple[str, pa.DataType]], schema: Schema) -> pa.Schema:
    """Columns of one's own, then the fields of a schema.

    A field that has the name of such a column, as `t`, gets a `_` behind its own.
    """
    names = [name for name, _ in heads]
    for field in schema.fields:
        name = field.name
        while name in names or (name != field.name and schema.field(name) is not None):
            name += "_"
        names.append(name)
    kinds = [*(kind for _, kind in heads), *map(shown_type, schema.fields)]
    return pa.schema([*zip(names, kinds, strict=True)])


def pairs_table(where: str, schema: Schema, pairs: Pairs) -> pa.Table:
    """The changes; a row that is the same at both moments is left out."""
    kind = diff_schema(schema)
    same = pairs.was & pairs.is_there & _alike(pairs.before, pairs.after)
    both = pairs.was & pairs.is_there & ~same
    parts = []
    for word, rows, columns in (
        (INSERT, pairs.is_there & ~pairs.was, pairs.after),
        (DELETE, pairs.was & ~pairs.is_there, pairs.before),
        (BEFORE, both, pairs.before),
        (AFTER, both, pairs.after),
    ):
        at = np.flatnonzero(rows)
        if len(at):
            cells = [
                shown(field, column.take(pa.array(at)), where)
                for field, column in zip(schema.fields, columns, strict=True)
            ]
            names = pa.array([pairs.commits[place] for place in at.tolist()], pa.string())
            heads = [pa.array([word] * len(at)), names, pa.array(pairs.times[at])]
            parts.append(pa.table([*heads, *cells], schema=kind))
    return pa.concat_tables(parts) if parts else kind.empty_table()


def _alike(one: Sequence[pa.Array], other: Sequence[pa.Array]) -> npt.NDArray[np.bool_]:
    """Mask of the rows that hold the same; NULL and NaN are the same as themselves."""
    same = np.ones(len(one[0]), bool)
    for left, right in zip(one, other, strict=True):
        equal = pc.fill_null(pc.equal(left, right), False)
        if pa.types.is_floating(left.type):
            equal = pc.or_(equal, pc.fill_null(pc.and_(pc.is_nan(left), pc.is_nan(right)), False))
        same &= np.asarray(pc.or_(equal, pc.and_(left.is_null(), right.is_null())))
    return same


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


def dense_pairs(log: Log, schema_file: SchemaFile, first: int, last: int) -> Iterator[Pairs]:
    """The cells that may differ, side by side."""
    schema = schema_file.schema
    assert schema is not None
    earlier = {fragment.name for fragment in log.view(0, first).fragments}
    later = {fragment.name: fragment for fragment in log.view(0, last).fragments}
    new = [name for name in later if name not in earlier]
    if not new:
        return
    known = written_box(log, 0, first)
    whole = written_box(log, 0, last)
    box = whole if known != whole else written_box(log, 0, last, new)
    assert box is not None
    after = _cells(log, schema_file, last, box)
    before = _cells(log, schema_file, first, box) if known else after
    places = after[: len(schema.dimensions)]
    count = len(places[0])
    was = is_in_box(schema.dimensions, places, known) if known else np.zeros(count, bool)
    names, times = np.full(count, None, object), np.zeros(count, np.uint64)
    for name in sorted(new, key=lambda name: (later[name].t1, name)):
        own = written_box(log, 0, last, [name])
        mask = is_in_box(schema.dimensions, places, own) if own else np.zeros(count, bool)
        names[mask], times[mask] = name, later[name].t2
    yield Pairs(before, was, after, np.ones(count, bool), names.tolist(), times)


def _cells(
    log: Log, schema_file: SchemaFile, end: int, box: Sequence[Range]
) -> tuple[pa.Array, ...]:
    schema = schema_file.schema
    assert schema is not None
    rows = log.rules.visible(0, end)[0].tolist()
    with bare_array(log, rows, schema_file, end) as bare:
        bare.engine.open(0, end)
        batches = list(read_cells(bare.engine, schema.fields, layout=ROW_MAJOR, ranges=box))
    columns = zip(*(batch.columns for batch in batches), strict=True)
    return tuple(pa.concat_arrays(same) for same in columns)


def refuse_gone_moments(log: Log, first: int, last: int) -> None:
    """Refuse two moments, one of which can no longer be read whole.

    Raises:
        TimeGoneError: It cannot.
    """
    call = f"chronotile diff {shlex.quote(log.array)}"
    refuse_gone(log.rules, 0, first, lambda _, moment: f"{call} {moment} {max(moment, last)}")
    refuse_gone(log.rules, 0, last, lambda _, moment: f"{call} {min(moment, first)} {moment}")
