"""The table `changes`: what every commit did to the rows of arrays.

In: arrays, a window, or the names of new events. Out: partitions, each some events of one array, or
a range of the first dimension in one large event; and their rows, as Arrow tables. Needs the engine
where rows are read; a plan is made without it.

As arrays differ in their fields, a row is JSON: `key` its dimensions, `row` all fields. Those of
one array are columns instead, if that is asked for.
"""

from __future__ import annotations

import json
import logging
import struct
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pyarrow as pa
from pyspark.sql.datasource import InputPartition

from chronotile.dataset.check_all import words
from chronotile.errors import ArrayNotFoundError, BadTimeError, ChronotileError
from chronotile.history.read_history import read_history
from chronotile.log import Log
from chronotile.rows.cells.dense_box import written_box
from chronotile.rows.cells.engine import Range, require_engine
from chronotile.rows.commit_changes import commit_changes, row_events
from chronotile.rows.open_for_rows import last_time, schema_in_force
from chronotile.show.row_formats import plain_rows
from chronotile.spark.source.change_columns import change_columns, in_columns
from chronotile.spark.source.tag_windows import window_of
from chronotile.storage.store import open_store
from chronotile.tables.array_tables import ROW_TABLES
from chronotile.tables.gathered_rows import LAST
from chronotile.tables.time_twins import timestamps

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator

    from chronotile.format.schema import Schema
    from chronotile.rows.commit_changes import RowEvent
    from chronotile.spark.source.options import Options

_log = logging.getLogger(__name__)

CELLS_IN_PARTITION = 2_000_000
"""Cells that one task looks at, about."""
_HEADS = ["change", "commit", "t"]
"""The columns before the fields."""
_WHOLE = frozenset("bhiqBHIQ")
"""Codes of whole numbers, whose ranges can be split without a coordinate in two of them."""


@dataclass
class ChangePartition(InputPartition):
    """Events of one array that one task reads, in a range of the first dimension or everywhere."""

    array: str
    names: tuple[str, ...]
    low: bytes | None = None
    high: bytes | None = None


def change_partitions(
    arrays: Iterable[str], options: Options, most_cells: int = CELLS_IN_PARTITION
) -> Iterator[ChangePartition]:
    """The tasks of a batch: many for a large array, one for several small events."""
    for array in arrays:
        try:
            log = open_array_with_labels(array, options)
            events = row_events(log, *window_of(log, options))
            cells = _cells(log) if events else {}
        except BadTimeError:
            raise
        except ChronotileError as error:  # one bad array must not stop a fleet
            _log.warning("no rows of %s: %s", array, words(error))
            continue
        every = sum(cells.values())
        group: list[str] = []
        held = 0
        for event in events:
            weight = cells.get(event.name, 0) if event.write is not None else every
            if weight > most_cells:
                yield from _split(log, event, -(-weight // most_cells))
                continue
            if group and held + weight > most_cells:
                yield ChangePartition(array, tuple(group))
                group, held = [], 0
            group.append(event.name)
            held += weight
        if group:
            yield ChangePartition(array, tuple(group))


def open_array_with_labels(array: str, options: Options) -> Log:
    """The log of an array, with the labels of its enumerations."""
    store = open_store(array, options.storage_options)
    return Log(read_history(store, key=options.read_key(), labels=True), store)


def _cells(log: Log) -> dict[str, int]:
    facts = log.fragments()
    pairs = zip(facts["name"].to_pylist(), facts["cells"].to_pylist(), strict=True)
    return {name: cells or 0 for name, cells in pairs}


def _split(log: Log, event: RowEvent, parts: int) -> Iterator[ChangePartition]:
    """One large event, by ranges of whole numbers in the first dimension."""
    schema = schema_in_force(log, event.t).schema
    assert schema is not None
    code = schema.dimensions[0].datatype.code
    names = [event.name] if event.write is not None else None
    box = written_box(log, 0, event.t, names) if code in _WHOLE and not schema.dense else None
    if box is None:
        yield ChangePartition(log.array, (event.name,))
        return
    (low,), (high,) = (struct.unpack(f"<{code}", end) for end in (box[0].low, box[0].high))
    size = max(1, -(-(high - low + 1) // parts))
    for first in range(low, high + 1, size):
        ends = (struct.pack(f"<{code}", end) for end in (first, min(first + size - 1, high)))
        yield ChangePartition(log.array, (event.name,), *ends)


def read_changes(partition: ChangePartition, options: Options) -> Iterator[pa.Table]:
    """The rows of one task."""
    log = open_array_with_labels(partition.array, options)
    ranges: tuple[Range, ...] = ()
    if partition.low is not None and partition.high is not None:
        ranges = (Range(0, partition.low, partition.high),)
    yield from changes_of(log, partition.names, ranges, options.row_columns)


def changes_of(
    log: Log,
    names: Collection[str],
    ranges: tuple[Range, ...] = (),
    columns: pa.Schema | None = None,
) -> Iterator[pa.Table]:
    """The changes of some events, in order; in columns, if these are given.

    Raises:
        NoEngineError: The engine is not installed where this runs.
    """
    require_engine()
    for event in row_events(log):
        if event.name not in names:
            continue
        schema = schema_in_force(log, event.t).schema
        assert schema is not None
        for table in commit_changes(log, event, ranges):
            for batch in table.to_batches():
                if columns is None:
                    yield _as_json(log.array, batch, schema)
                else:
                    yield in_columns(log.array, batch, schema, columns)


def _as_json(array: str, batch: pa.RecordBatch, schema: Schema) -> pa.Table:
    heads = plain_rows(batch.select(_HEADS))
    names = [field.name for field in schema.fields]
    cells = pa.RecordBatch.from_arrays(batch.columns[len(_HEADS) :], names=names)
    places = names[: len(schema.dimensions)]
    rows = []
    for head, row in zip(heads, plain_rows(cells), strict=True):
        key = {name: row[name] for name in places}
        head |= {"array": array, "t": min(head["t"], LAST)}
        rows.append(head | {"key": json.dumps(key), "row": json.dumps(row)})
    schema_of_table = ROW_TABLES["changes"]
    table = pa.Table.from_pylist(rows, schema_of_table)
    at = schema_of_table.get_field_index("t_time")
    return table.set_column(at, schema_of_table.field(at), timestamps(table["t"]))


def schema_of_changes(options: Options) -> pa.Schema:
    """The columns of the table: JSON, or those of the one array that is the root.

    Raises:
        ChronotileError: Columns are asked for, and the root is not one array.
    """
    if options.rows == "json":
        return ROW_TABLES["changes"]
    if len(options.roots) != 1:
        found = f"{len(options.roots)} roots" if options.roots else "a table of arrays"
        raise ChronotileError("option 'rows'", f"expected one array with columns, found {found}")
    try:
        log = open_array_with_labels(options.roots[0], options)
    except ArrayNotFoundError as error:
        problem = f"expected one array with columns, found none at {options.roots[0]}"
        raise ChronotileError("option 'rows'", problem) from error
    schema = schema_in_force(log, min(window_of(log, options)[1], last_time(log))).schema
    assert schema is not None
    return change_columns(schema)
