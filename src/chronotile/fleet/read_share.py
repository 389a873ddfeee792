"""Reading the arrays of one task of the data source.

In: a share and options. Out: tables, array by array; an array that cannot be read becomes a
finding, and stops no other. The task itself opens what it needs.

A window may name tags. An array that has no such tag is an error: rows of another window would be
wrong, and no rows would be too. Of a group that is the root, all members are read at its own tag.
"""

from __future__ import annotations

import logging
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, TypeVar

from chronotile.check.unread_arrays import may_pass, words
from chronotile.dataset.open_dataset import member_rows, open_dataset
from chronotile.errors import ArrayNotFoundError, BadTimeError, ChangedError
from chronotile.fleet.array_tables import (
    BATCH_ROWS,
    LAST,
    ArrayTables,
    findings_table,
    members_table,
    tables_of_unreadable,
)
from chronotile.fleet.check_all import unlisted
from chronotile.fleet.measured_array import measure_array
from chronotile.storage.place import MissingObjectError
from chronotile.storage.prefetch import ahead
from chronotile.storage.store import open_store

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    import pyarrow as pa

    from chronotile.fleet.find_arrays import Unlisted
    from chronotile.fleet.options import Options
    from chronotile.fleet.shares import Share
    from chronotile.log import Log
    from chronotile.storage.store import Entry


def window_of(log: Log, options: Options) -> tuple[int, int]:
    """Give the window of one array.

    Raises:
        BadTimeError: It has no tag of that name, or the window would end before it starts.
    """
    start, end = (
        log.moment(moment, f"option {name!r} of {log.array}") if isinstance(moment, str) else moment
        for name, moment in (("start", options.start), ("end", options.end))
    )
    if start > end:
        problem = f"expected a window that ends after it starts, found {start} to {end}"
        raise BadTimeError(f"option 'start' of {log.array}", problem)
    return start, end


def with_tags_of_roots(options: Options) -> Options:
    """Give the options, with the moments of tags that every root has: each is a group then.

    Of such a group all members are read at its own tag, whatever tags they have themselves.
    """
    if not options.roots:
        return options
    return replace(
        options, start=_moment(options, options.start), end=_moment(options, options.end)
    )


def _moment(options: Options, moment: int | str) -> int | str:
    """Give the moment of a tag that every root has, if they agree; else what was given."""
    if isinstance(moment, int):
        return moment
    moments: set[int | None] = set()
    for root in options.roots:
        try:
            dataset = open_dataset(root, options.read_key(), options.storage_options)
        except ArrayNotFoundError:
            return moment
        moments.add(dataset.known_tags.checked(dataset.uri).moment(moment))
    found = moments.pop() if len(moments) == 1 else None
    return moment if found is None else min(found, LAST)


T = TypeVar("T")

_log = logging.getLogger(__name__)

AHEAD = 8
"""Arrays of a bucket that one task reads at once: most of the time it waits for answers."""


def open_array(array: str, options: Options) -> Log:
    """Open the log of one array."""
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
    """Give the tables of an array, as the options ask for them."""
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
    """List the members of a group, with what is there; none if it cannot be read."""
    try:
        dataset = open_dataset(group, options.read_key(), options.storage_options)
        rows = [row.to_dict() for row in member_rows(dataset, sizes=False, nested=False)]
    except Exception as error:  # one bad group must not stop a fleet
        _log.warning("no members of %s: %s", group, words(error))
        rows = []
    return members_table(rows)


def folder_findings(problems: Iterable[Unlisted]) -> pa.Table:
    """Give the findings on folders that could not be listed."""
    return findings_table(tuple(map(unlisted, problems)))
