"""The table `changes`: what every commit did to the rows of arrays.

In: arrays, a window, or the names of new events. Out: shares, each some events of one array; and
their rows, as Arrow tables. Only who reads rows needs the engine.

As arrays differ in their fields, a row is JSON: `key` its dimensions, `row` all fields. Those of
one array are columns instead, if that is asked for. Spark has no unsigned numbers, no nanoseconds
and no labels: the next wider type, a count of the units and text stand for them. A field that an
older schema lacks is NULL.
"""

from __future__ import annotations

import json
import logging
from typing import TYPE_CHECKING, NamedTuple

import pyarrow as pa

from chronotile.check.findings import error_words
from chronotile.errors import ArrayNotFoundError, BadTimeError, ChronotileError, ReadError
from chronotile.fleet.array_tables import LARGEST_BIGINT, READABLE, timestamps
from chronotile.fleet.read_share import window_of
from chronotile.fleet.shares import packed
from chronotile.rows.commit_changes import commit_changes, row_events
from chronotile.rows.diff import with_heads
from chronotile.rows.engine import require_engine
from chronotile.rows.snapshot import last_time, schema_in_force
from chronotile.show.row_formats import plain_rows

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator

    from chronotile.fleet.options import Options
    from chronotile.format.schema import Schema
    from chronotile.log import Log


_HEAD = [(field.name, field.type) for field in READABLE["changes"]][:-2]
"""The columns before the fields: all but the two of JSON."""
_WIDER = {
    pa.uint8(): pa.int16(),
    pa.uint16(): pa.int32(),
    pa.uint32(): pa.int64(),
    pa.uint64(): pa.decimal128(20, 0),
    pa.large_string(): pa.string(),
    pa.large_binary(): pa.binary(),
}


def change_columns(schema: Schema) -> pa.Schema:
    """Give the columns of a table of changes, with those of one array."""
    return pa.schema([(one.name, _spark_type(one.type)) for one in with_heads(_HEAD, schema)])


def _spark_type(kind: pa.DataType) -> pa.DataType:
    if pa.types.is_dictionary(kind):
        return _spark_type(kind.value_type)
    if pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind):
        return pa.list_(_spark_type(kind.value_type))
    if pa.types.is_duration(kind) or kind == pa.timestamp("ns"):
        return pa.int64()
    if pa.types.is_timestamp(kind):
        return kind if kind.tz else pa.timestamp("us")
    return _WIDER.get(kind, kind)


def in_columns(array: str, batch: pa.RecordBatch, schema: Schema, columns: pa.Schema) -> pa.Table:
    """Give changed rows of one schema, in the columns that Spark was promised."""
    names = with_heads(_HEAD, schema).names[len(_HEAD) :]
    cells = dict(zip(names, batch.columns[-len(schema.fields) :], strict=True))
    known, count = {**_heads(array, batch), **cells}, len(batch)
    made = []
    for field in columns:
        column = known.get(field.name)
        if column is None:
            made.append(pa.nulls(count, field.type))
            continue
        try:
            is_encoded = pa.types.is_dictionary(column.type)
            made.append((column.dictionary_decode() if is_encoded else column).cast(field.type))
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as cause:
            problem = f"expected cells of {field.type}, found {column.type}: {cause}"
            raise ReadError(f"{array}: {field.name}", f"{problem}; the option rows=json") from cause
    return pa.Table.from_arrays(made, schema=columns)


def _heads(array: str, batch: pa.RecordBatch) -> dict[str, pa.Array]:
    """Give the columns before the fields."""
    ms = pa.array([min(t, LARGEST_BIGINT) for t in batch.column("t").to_pylist()], pa.int64())
    own = {name: batch.column(name) for name in ("change", "commit")}
    array_column = pa.repeat(pa.scalar(array), len(batch))
    return {"array": array_column, **own, "t": ms, "t_time": timestamps(ms)}


_log = logging.getLogger(__name__)

EVENTS_IN_SHARE = 16
"""Events that one task reads, one after the other."""


class ChangeShare(NamedTuple):
    """Events of one array that one task reads."""

    array: str
    names: tuple[str, ...]


def change_shares(arrays: Iterable[str], options: Options) -> Iterator[ChangeShare]:
    """Divide the events of arrays, in order."""
    for array in arrays:
        try:
            log = options.open_array(array)
            names = [event.name for event in row_events(log, *window_of(log, options))]
        except BadTimeError:
            raise
        except ChronotileError as error:  # one bad array must not stop a fleet
            _log.warning("no rows of %s: %s", array, error_words(error))
            continue
        yield from (ChangeShare(array, group) for group in packed(names, EVENTS_IN_SHARE))


def read_changes(share: ChangeShare, options: Options) -> Iterator[pa.Table]:
    """Give the rows of one task."""
    log = options.open_array(share.array)
    yield from changes_of(log, share.names, options.row_columns)


def changes_of(
    log: Log, names: Collection[str], columns: pa.Schema | None = None
) -> Iterator[pa.Table]:
    """Give the changes of some events, in order; in columns, if these are given.

    Raises:
        NoEngineError: The engine is not installed where this runs.
    """
    require_engine()
    for event in row_events(log):
        if event.name not in names:
            continue
        schema = schema_in_force(log, event.t).schema
        assert schema is not None
        for table in commit_changes(log, event):
            for batch in table.to_batches():
                if columns is None:
                    yield _as_json(log.array, batch, schema)
                else:
                    yield in_columns(log.array, batch, schema, columns)


def _as_json(array: str, batch: pa.RecordBatch, schema: Schema) -> pa.Table:
    names = [field.name for field in schema.fields]
    cells = pa.RecordBatch.from_arrays(batch.columns[-len(names) :], names=names)
    rows = plain_rows(cells)
    keys = [{name: row[name] for name in names[: len(schema.dimensions)]} for row in rows]
    text = {"key": [*map(json.dumps, keys)], "row": [*map(json.dumps, rows)]}
    return pa.table({**_heads(array, batch), **text}, schema=READABLE["changes"])


def schema_of_changes(options: Options) -> pa.Schema:
    """Give the columns of the table: JSON, or those of the one array that is the root."""
    if options.rows == "json":
        return READABLE["changes"]
    if len(options.roots) != 1:
        found = f"{len(options.roots)} roots" if options.roots else "a table of arrays"
        raise ChronotileError("option 'rows'", f"expected one array with columns, found {found}")
    try:
        log = options.open_array(options.roots[0])
    except ArrayNotFoundError as error:
        problem = f"expected one array with columns, found none at {options.roots[0]}"
        raise ChronotileError("option 'rows'", problem) from error
    schema = schema_in_force(log, min(window_of(log, options)[1], last_time(log))).schema
    assert schema is not None
    return change_columns(schema)
