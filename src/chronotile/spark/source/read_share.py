"""Reading the arrays of one task.

In: a share and options. Out: tables, array by array; an array that cannot be read becomes a
finding, and stops no other. The task itself opens what it needs.
"""

from __future__ import annotations

import logging
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, TypeVar

from chronotile.dataset.check_all import may_pass, unlisted, words
from chronotile.dataset.open_dataset import member_rows, open_dataset
from chronotile.errors import BadTimeError, ChangedError
from chronotile.spark.source.tag_windows import window_of
from chronotile.storage.place import MissingObjectError
from chronotile.storage.prefetch import ahead
from chronotile.storage.store import open_store
from chronotile.tables.array_tables import (
    BATCH_ROWS,
    ArrayTables,
    findings_table,
    members_table,
    tables_of_unreadable,
)
from chronotile.tables.measured_array import measure_array

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    import pyarrow as pa

    from chronotile.dataset.find_arrays import Unlisted
    from chronotile.log import Log
    from chronotile.spark.source.options import Options
    from chronotile.spark.source.shares import Share
    from chronotile.storage.store import Entry

T = TypeVar("T")

_log = logging.getLogger(__name__)

AHEAD = 8
"""Arrays of a bucket that one task reads at once: most of the time it waits for answers."""


def open_array(array: str, options: Options) -> Log:
    """Opens the log of one array."""
    return options.open_log(options.opened(array).store)


def rows_of_array(array: str, options: Options, name: str) -> Iterable[pa.Table]:
    """Give the rows of one table of an array, in whatever state it is, in tables of some rows each.

    Raises:
        BadTimeError: The array has no tag of the name that stands for a time.
    """
    try:
        opened = options.opened(array)
        if options.sizes and name == "arrays" and opened.entries is None:
            opened = measure_array(opened.store)
        log = options.open_log(opened.store)
        tables = array_tables(log, options, opened.entries if options.sizes else None)
        return tables.batches(name)
    except BadTimeError:
        raise
    except Exception as error:  # one bad array must not stop a fleet
        if array in options.known and isinstance(error, MissingObjectError | ChangedError):
            # The inventory is outdated: look again.
            return rows_of_array(array, replace(options, known={}), name)
        if may_pass(error):
            _log.warning("no rows of %s: %s", array, words(error))
        return (tables_of_unreadable(array, error)[name],)


def array_tables(
    log: Log, options: Options, measured: tuple[Entry, ...] | None = None
) -> ArrayTables:
    """The tables of an array, as the options ask for them."""
    return ArrayTables(
        log,
        *window_of(log, options),
        check=options.check,
        cells=options.cells,
        measured=measured,
        max_findings=options.max_findings,
    )


def in_order(make: Callable[[str], T], arrays: Iterable[str]) -> Iterator[tuple[str, T]]:
    """Each array with what `make` returns for it, in order; reads ahead in a bucket.

    >>> list(in_order(str.upper, ["a", "b"]))
    [('a', 'A'), ('b', 'B')]
    """
    wanted = tuple(arrays)
    threads = max((open_store(array).concurrency for array in wanted), default=1)
    yield from zip(wanted, ahead(make, wanted, min(threads, AHEAD)), strict=True)


def read_share(share: Share, options: Options) -> Iterator[pa.RecordBatch]:
    """One table of all arrays of a share, batch by batch."""
    name = options.table
    if name == "members":
        for group in share.arrays:
            yield from members_of(group, options).to_batches(BATCH_ROWS)
        return
    make = partial(rows_of_array, options=options, name=name)
    for _, tables in in_order(make, share.arrays):
        for table in tables:
            yield from table.to_batches(BATCH_ROWS)
    if name == "findings":
        yield from folder_findings(share.problems).to_batches(BATCH_ROWS)


def members_of(group: str, options: Options) -> pa.Table:
    """The members of one group, each with what is there; none of a group that cannot be read."""
    try:
        dataset = open_dataset(group, options.read_key(), options.storage_options)
        rows = [row.to_dict() for row in member_rows(dataset, sizes=False, nested=False)]
    except Exception as error:  # one bad group must not stop a fleet
        _log.warning("no members of %s: %s", group, words(error))
        rows = []
    return members_table(rows)


def folder_findings(problems: Iterable[Unlisted]) -> pa.Table:
    """The findings on folders that could not be listed."""
    return findings_table(tuple(map(unlisted, problems)))
