"""Large arrays: one task reads them in parts, or several tasks some parts each.

In: the place of an array, and options. Out: its log, or its tables in pieces if it is large; and
the tasks among which the data source divides it. A task has one part in memory at a time.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from pyspark.sql.datasource import InputPartition

from chronotile.errors import ChronotileError
from chronotile.history.array_parts import ArrayParts, divide_array
from chronotile.history.listing import LargeArrayError, folder_times
from chronotile.log import Log
from chronotile.spark.source.tag_windows import window_of
from chronotile.storage.store import open_store
from chronotile.tables.array_tables import SCHEMAS
from chronotile.tables.large_tables import BY_PART, LargeTables

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator

    import pyarrow as pa

    from chronotile.dataset.find_arrays import Found
    from chronotile.spark.source.options import Options
    from chronotile.storage.store import Store

LARGE = 8 << 20
"""Bytes of commit records and names from which on an array is read in parts: 100,000 commits."""
PARTS_IN_TASK = {"commits": 2, "fragments": 16}
"""Parts that one task reads. For `fragments` each task lists all of them."""


@dataclass
class PartPartition(InputPartition):
    """The parts of an array that one task reads."""

    parts: ArrayParts
    first: int
    last: int
    window: tuple[int, int]


def open_or_divide(
    store: Store, options: Options, names: Collection[str] = tuple(SCHEMAS)
) -> Log | LargeTables:
    """The log of an array; its tables, in pieces, if it is large.

    A large array is read as a whole if it is damaged, or from before version 12, and if the user
    asks to look into its fragments, to measure it, or for a table that the pipeline does not write.

    Args:
        store: Where the array is.
        options: What the user asks for.
        names: The tables that are wanted.

    Raises:
        ChronotileError: The array cannot be read.
    """
    measured = options.sizes and "arrays" in names
    if options.check != "log" or measured or not SCHEMAS.keys() >= {*names}:
        return options.open_log(store)
    try:
        return options.open_log(store, LARGE)
    except LargeArrayError:
        times = folder_times(store)
        parts = divide_array(store)
    if parts is None:
        return options.open_log(store)
    tables = _large_tables(parts, _window(parts, options), options)
    return replace(tables, folder_times=times)


def _window(parts: ArrayParts, options: Options) -> tuple[int, int]:
    """The window of the array, which may name tags.

    Raises:
        BadTimeError: It has no tag of that name.
    """
    if isinstance(options.start, int) and isinstance(options.end, int):
        return options.start, options.end
    return window_of(Log(parts.frame_history(options.read_key()), parts.store), options)


def _large_tables(parts: ArrayParts, window: tuple[int, int], options: Options) -> LargeTables:
    return LargeTables(
        parts=parts,
        key=options.read_key(),
        start=window[0],
        end=window[1],
        cells=options.cells,
        max_findings=options.max_findings,
    )


def divided(arrays: Iterable[Found], options: Options) -> dict[str, list[PartPartition]]:
    """The arrays that several tasks read, with the tasks of each.

    Reads the commit files of each large array once, for the borders of records.
    """
    tasks: dict[str, list[PartPartition]] = {}
    if options.table not in BY_PART or options.check != "log":
        return tasks
    step = PARTS_IN_TASK[options.table]
    for array in arrays:
        if array.weight <= LARGE:
            continue
        with suppress(ChronotileError):  # a task will say what is wrong
            parts = divide_array(open_store(array.uri, options.storage_options))
            if parts is None:
                continue
            window = _window(parts, options)
            # A task of rows needs no deletes by themselves.
            rows = replace(parts, frame={}, frame_tiles={})
            tasks[array.uri] = [
                PartPartition(rows, first, min(first + step, len(parts)), window)
                for first in range(0, len(parts), step)
                if rows.times(first)[0] <= window[1]
            ]
    return tasks


def read_parts(partition: PartPartition, options: Options) -> Iterator[pa.Table]:
    """The rows of some parts."""
    tables = _large_tables(partition.parts, partition.window, options)
    yield from tables.of_parts(partition.first, partition.last, options.table)
