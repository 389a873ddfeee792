"""Reading the arrays of one task of the data source.

In: a share and options. Out: tables, array by array; an array that cannot be read becomes a
finding, and stops no other. A listing that is known is not asked for again.

A window may name tags. An array that has no such tag is an error: rows of another window would be
wrong, and no rows would be too. Of a group that is the root, all members are read at its own tag.
"""

from __future__ import annotations

import logging
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, NamedTuple, TypeVar

from chronotile.check.findings import error_words, may_pass
from chronotile.dataset.open_dataset import dataset_at, member_rows
from chronotile.errors import ArrayNotFoundError, BadTimeError, ChangedError, StorageError
from chronotile.fleet.array_tables import (
    LARGEST_BIGINT,
    ArrayTables,
    findings_table,
    members_table,
    tables_of_unreadable,
)
from chronotile.fleet.check_all import unlisted
from chronotile.fleet.shares import ListedArray
from chronotile.format.kinds import COMMITS
from chronotile.history.listing import LISTED, MEASURED
from chronotile.storage.overlay import listed
from chronotile.storage.place import MissingObjectError
from chronotile.storage.prefetch import ahead
from chronotile.storage.store import open_store

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    import pyarrow as pa

    from chronotile.check.findings import Finding
    from chronotile.fleet.find_arrays import Unlisted
    from chronotile.fleet.options import Options
    from chronotile.fleet.shares import Share
    from chronotile.log import Log
    from chronotile.storage.store import Entry, Store


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
        problem = f"the window ends before it starts: {start} to {end}"
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
            dataset = dataset_at(open_store(root, options.storage_options), options.read_key())
        except ArrayNotFoundError:
            return moment
        moments.add(dataset.known_tags.checked(dataset.uri).by_name().get(moment))
    found = moments.pop() if len(moments) == 1 else None
    return moment if found is None else min(found, LARGEST_BIGINT)


T = TypeVar("T")

_log = logging.getLogger(__name__)

AHEAD = 8
"""Arrays of a bucket that one task reads at once: most of the time it waits for answers."""


class OpenPlace(NamedTuple):
    """Where to read an array, and its files with their sizes, if they are known."""

    store: Store
    entries: tuple[Entry, ...] | None = None


def open_place(place: ListedArray, options: Options, fresh_ms: int | None = None) -> OpenPlace:
    """Open an array, by its listing if that is known.

    A commit dated after `fresh_ms`, for which one request asks, shows that it is outdated.
    """
    store = open_store(place.uri, options.storage_options)
    # The names of commits begin with their time, so that one short list has the new ones.
    if place.entries is None or (
        fresh_ms is not None and store.list_after(f"__{fresh_ms}", COMMITS)
    ):
        return OpenPlace(store)
    return OpenPlace(listed(store, place.entries, LISTED), place.entries)


def measure_array(store: Store) -> OpenPlace:
    """List the files of an array with their sizes: in a bucket by one flat list."""
    try:
        entries = store.measure(MEASURED)
    except (ArrayNotFoundError, StorageError):
        return OpenPlace(store)  # who reads the log gets the error, if it matters there
    is_quick = store.traits.pace == "quick"
    return OpenPlace(store if is_quick else listed(store, entries, LISTED), entries)


def read_array(
    place: OpenPlace, options: Options, checked: Sequence[Finding] | None = None
) -> ArrayTables:
    """Read the log of an array; its tables are as the options ask for them."""
    if options.sizes and place.entries is None:
        place = measure_array(place.store)
    log = options.open_log(place.store)
    return array_tables(log, options, place.entries if options.sizes else None, checked)


def array_tables(
    log: Log,
    options: Options,
    measured: tuple[Entry, ...] | None = None,
    checked: Sequence[Finding] | None = None,
) -> ArrayTables:
    """Give the tables of an array, as the options ask for them."""
    return ArrayTables(
        log,
        *window_of(log, options),
        check=options.check,
        cells=options.cells,
        measured=measured,
        max_findings=options.max_findings,
        checked=checked,
    )


def rows_of_array(
    place: ListedArray, options: Options, name: str, fresh_ms: int | None = None
) -> Iterable[pa.Table]:
    """Give the rows of one table of an array, in whatever state it is, in tables of some rows each.

    Raises:
        BadTimeError: The array has no tag of the name that stands for a time.
    """
    try:
        return read_array(open_place(place, options, fresh_ms), options).batches(name)
    except BadTimeError:
        raise
    except Exception as error:  # one bad array must not stop a fleet
        if place.entries is not None and isinstance(error, MissingObjectError | ChangedError):
            # The listing is outdated: look again.
            return rows_of_array(ListedArray(place.uri), options, name)
        if may_pass(error):
            _log.warning("no rows of %s: %s", place.uri, error_words(error))
        return (tables_of_unreadable(place.uri, error)[name],)


def in_order(
    make: Callable[[ListedArray], T], places: Iterable[ListedArray]
) -> Iterator[tuple[ListedArray, T]]:
    """Give each array with what `make` returns for it, in order; reads ahead in a bucket."""
    wanted = tuple(places)
    threads = max((open_store(place.uri).concurrency for place in wanted[:1]), default=1)
    yield from zip(wanted, ahead(make, wanted, min(threads, AHEAD)), strict=True)


def read_share(share: Share, options: Options) -> Iterator[pa.Table]:
    """Give one table of all arrays of a share, in tables of some rows each."""
    name, places = options.table, share.places()
    if name == "members":
        for group in places:
            try:
                yield members_of(group.uri, options)
            except Exception as error:  # one bad group must not stop a fleet
                _log.warning("no members of %s: %s", group.uri, error_words(error))
        return
    make = partial(rows_of_array, options=options, name=name, fresh_ms=share.fresh_ms)
    for _, tables in in_order(make, places):
        yield from tables
    if name == "findings":
        yield folder_findings(share.problems)


def members_of(group: str, options: Options, *, logs: bool = True) -> pa.Table:
    """List the members of a group, with what is there; without logs no commits and times."""
    dataset = dataset_at(open_store(group, options.storage_options), options.read_key())
    found = member_rows(dataset, sizes=False, nested=False, logs=logs)
    return members_table(row.to_dict() for row in found)


def folder_findings(problems: Iterable[Unlisted]) -> pa.Table:
    """Give the findings on folders that could not be listed."""
    return findings_table(map(unlisted, problems))
