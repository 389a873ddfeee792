"""One task of a stream: open arrays, once, and decide what is new in them.

In: some arrays of a batch, each with the record that it begins with. Out: the rows that are new.
The record of this batch is put before the rows are given: see `batch_records`.

An array that cannot be read stops no other: its record says so, and a later batch reads it again.
Only if another attempt at the same task has already read it, this one fails, as it has to give the
same rows.
"""

from __future__ import annotations

import logging
import operator
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
from pyspark.sql.datasource import InputPartition

from chronotile.check.findings import UNREADABLE, finding
from chronotile.check.unread_arrays import words
from chronotile.errors import ArrayNotFoundError, ChronotileError
from chronotile.fleet.array_tables import ROW_TABLES, SCHEMAS, findings_table
from chronotile.fleet.batch_plans import FORGET_MS, Record, Records, next_record
from chronotile.fleet.change_table import changes_of, open_array_with_labels
from chronotile.fleet.read_share import array_tables, in_order, open_array, window_of
from chronotile.fleet.unchanged_arrays import hashes
from chronotile.format.kinds import COMMIT_WORDS, EXTENSIONS
from chronotile.format.timestamps import now_ms
from chronotile.history import text_columns
from chronotile.rows.commit_changes import row_events
from chronotile.visibility.rules import overlaps

if TYPE_CHECKING:
    from collections.abc import Iterator

    from chronotile.fleet.batch_plans import Planned
    from chronotile.fleet.options import Options
    from chronotile.fleet.unchanged_arrays import Hashes
    from chronotile.log import Log


_log = logging.getLogger(__name__)


@dataclass
class ArrayPartition(InputPartition):
    """The arrays of one task, which finds out what is new in them."""

    batch: int
    arrays: tuple[Planned, ...]


def read_arrays(partition: ArrayPartition, options: Options) -> Iterator[pa.Table]:
    """Give the rows that are new in some arrays."""
    assert options.state is not None
    records = Records(options.state, options.storage)
    planned = {one.array: one for one in partition.arrays}

    def rows(array: str) -> pa.Table | None:
        return _new_rows(planned[array], partition.batch, records, options)

    for _, table in in_order(rows, planned):
        if table is not None and len(table):
            yield table


def _new_rows(one: Planned, batch: int, records: Records, options: Options) -> pa.Table | None:
    if one.problem is not None:
        return _told(one, one.problem, options)
    record = records.read(one.array, batch)
    if record is None:
        before = _before(one, records)
        try:
            log = _opened(one.array, options)
            own, rows = contents(log, options)
        except Exception as error:  # one bad array must not stop a stream
            unread = f"cannot be read: {words(error)}"
            record = records.put(Record(array=one.array, unread=unread), batch)
            if record.unread is None:
                raise
        else:
            forget_ms = 0 if options.table == "findings" else FORGET_MS
            made = next_record(one.array, before, own, now_ms(), forget_ms)
            record = records.put(made, batch)
            if record.unread is None:
                return _chosen(log, rows, _once(own) & np.isin(own, record.new), options)
    if record.unread is not None:
        _log.warning("left for a later batch: %s %s", one.array, record.unread)
        return _told(one, record.unread, options)
    return _given(one.array, record.new, options)


def _before(one: Planned, records: Records) -> Record | None:
    if one.before is None:
        return None
    record = records.read(one.array, one.before)
    if record is None:
        problem = f"expected what batch {one.before} left of {one.array}, found nothing"
        raise ChronotileError(records.place, f"{problem}: the state belongs to another checkpoint")
    return record


def _given(array: str, wanted: Hashes, options: Options) -> pa.Table | None:
    """Give the rows of what was chosen before; an array that has gone meanwhile has none."""
    try:
        log = _opened(array, options)
    except ArrayNotFoundError as error:
        _log.warning("%s: its new commits are gone with it", error)
        return None
    own, rows = contents(log, options)
    return _chosen(log, rows, _once(own) & np.isin(own, wanted), options)


def _chosen(log: Log, rows: pa.Table, mask: np.ndarray, options: Options) -> pa.Table:
    """Give some rows; in a stream of changes those are events, and what they did is read now."""
    chosen = rows.filter(pa.array(mask))
    if options.table != "changes":
        return chosen
    columns = options.row_columns
    names = set(chosen["name"].to_pylist())
    told = changes_of(log, names, columns=columns) if names else ()
    return pa.concat_tables([(columns or ROW_TABLES["changes"]).empty_table(), *told])


def _opened(array: str, options: Options) -> Log:
    opened = open_array_with_labels if options.table == "changes" else open_array
    return opened(array, options)


def contents(log: Log, options: Options) -> tuple[Hashes, pa.Table]:
    """Give the rows of an array that a stream can give, each with its hash, row by row."""
    window = window_of(log, options)
    tables = array_tables(log, options)
    if options.table == "commits":
        uris = log.history.table.uris
        inside = overlaps(uris.t1, uris.t2, *window)
        return commit_hashes(log)[inside], tables.table("commits")
    if options.table == "changes":
        names = [event.name for event in row_events(log, *window)]
        return hashes(names), pa.table({"name": pa.array(names, pa.string())})
    table = tables.table(options.table)
    if options.table == "findings":
        pairs = zip(table["code"].to_pylist(), table["path"].to_pylist(), strict=True)
        return hashes(f"{code} {path}" for code, path in pairs), table
    extensions = dict(zip(COMMIT_WORDS, EXTENSIONS, strict=True))
    named = zip(table["name"].to_pylist(), table["kind"].to_pylist(), strict=True)
    return hashes(name + extensions[kind] for name, kind in named), table


def commit_hashes(log: Log) -> Hashes:
    """Give the hash of each commit record of a log, row by row."""
    table = log.history.table
    names = text_columns.names(table, np.arange(len(table))).to_pylist()
    extensions = [EXTENSIONS[ext] for ext in table.uris.ext.tolist()]
    return hashes(map(operator.add, names, extensions))


def _once(own: Hashes) -> np.ndarray:
    """Give a mask of the first row of each hash."""
    chosen = np.zeros(len(own), bool)
    chosen[np.unique(own, return_index=True)[1]] = True
    return chosen


def _told(one: Planned, problem: str, options: Options) -> pa.Table | None:
    """Give the row on an array that cannot be read; none if it was told before."""
    if options.table != "findings" or problem == one.told:
        return None
    item = finding(one.array, UNREADABLE, "", f"it {problem}")
    return findings_table((item,)).cast(SCHEMAS["findings"])
