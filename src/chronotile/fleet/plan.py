"""The plan of a run: which task of the pipeline reads which part.

In: options. Out: `FleetPlan`: a share for each part that has arrays. The driver lists the top of
the fleet. If that is not all of it, tasks go on from there, and leave what they find in files, one
for each part: the driver then knows how many arrays there are, and no array by name. With an
inventory of the bucket nobody lists anything: the files hold the listing of each array too.
"""

from __future__ import annotations

import secrets
from functools import partial
from itertools import chain, groupby
from operator import itemgetter
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

import pyarrow as pa

from chronotile.fleet.find_arrays import IN_FLAT, Unlisted, find_fleet, search_folders, search_wide
from chronotile.fleet.flat_listing import Neighbours, to_be_listed
from chronotile.fleet.inventory import (
    Inventory,
    InventoryFile,
    listing_rows,
    prefixes_in,
    read_manifest,
    read_objects,
    whole_arrays,
)
from chronotile.fleet.shares import Share, by_part, count_arrays, part_count, shares, to_stream
from chronotile.fleet.surviving_tasks import Results, run_job

if TYPE_CHECKING:
    from collections.abc import Callable, Container, Iterator, Sequence

    from pyspark.sql import SparkSession

    from chronotile.fleet.delta_store import Run
    from chronotile.fleet.find_arrays import Fleet
    from chronotile.fleet.options import Options


T = TypeVar("T")

IN_DRIVER = 4096
"""Folders that the driver lists by itself: a fleet of about as many arrays needs no task for it."""
GROUPS = 512
"""Tasks that search for arrays, at most."""
PLANNERS = 64
"""Tasks that write the files of a plan, at most: each has one bundle in memory at a time."""
PARTS_IN_BUNDLE = 16
"""Parts whose names are sent together: else a large fleet is sent in a million small pieces."""
PROBLEMS_MAX = 1000
"""Folders that cannot be listed, of which the driver hears; more of them end the run."""

_SHUFFLED = pa.schema([("bundle", pa.int64()), ("rows", pa.binary())])


class FleetPlan(NamedTuple):
    """Everything that the driver knows of a fleet."""

    parts: int
    shares: tuple[Share, ...]
    arrays: int
    problems: tuple[Unlisted, ...]
    groups: tuple[str, ...] = ()
    inventory: Inventory | None = None
    """The inventory that the arrays were found in; it tells of no groups."""


def plan_fleet(
    spark: SparkSession | None,
    options: Options,
    run: Run,
    before: int | None,
    progress: Callable[[int, int], None],
    *,
    known: Container[str] = (),
    follow: bool = False,
) -> FleetPlan:
    """Find the arrays of a fleet, and divide them.

    Tasks of the session, if there is one, search a large fleet; else this process does. `before` is
    the number of parts of the last run. If asked, the search follows members of groups out of the
    roots, unless tasks search: each with folders of its own, they would find one several times.

    Raises:
        ArrayNotFoundError: A root does not exist.
        StorageError: A root cannot be listed.
    """
    if spark is not None and options.inventory is not None:
        return _plan_by_inventory(spark, options, run, before)
    fleet = find_fleet(options, known=known, most=None if spark is None else IN_DRIVER)
    wide = sum(len(one.names) for one in fleet.wide)
    if spark is not None and (fleet.left or wide > IN_DRIVER):
        return _plan_by_tasks(spark, fleet, options, run, before, progress)
    found = search_wide(fleet, options, follow=follow)
    arrays = count_arrays(found.rows)
    parts = part_count(arrays, before)
    return FleetPlan(parts, shares(found.rows, parts), arrays, found.problems, found.groups)


def _plan_by_inventory(
    spark: SparkSession, options: Options, run: Run, before: int | None
) -> FleetPlan:
    """Give a plan without a single LIST: tasks read the files of an inventory."""
    inventory = read_manifest(str(options.inventory), options.storage_options)
    below = prefixes_in(inventory, options.roots)

    def read(file: InventoryFile) -> pa.Table:
        return listing_rows(read_objects(inventory, file), inventory.bucket, below)

    parts = before or part_count(_estimated_arrays(inventory, read))
    written = _write_plan(spark, inventory.files, read, parts, run)
    return FleetPlan(parts, written, sum(share.count for share in written), (), (), inventory)


def _estimated_arrays(inventory: Inventory, read: Callable[[InventoryFile], pa.Table]) -> int:
    """Estimate how many arrays an inventory names, from those in its first file."""
    if not inventory.files:
        return 0
    rows = read(inventory.files[0])
    sizes = [file.size for file in inventory.files]
    share = sum(sizes) / sizes[0] if all(sizes) else len(sizes)
    return int(count_arrays(rows.filter(rows["strong"])) * share)


def results_of(run: Run) -> Results:
    """Name the folder for what tasks return."""
    return Results(run.store(), f"{run.folder}/results")


def _plan_by_tasks(
    spark: SparkSession,
    top: Fleet,
    options: Options,
    run: Run,
    before: int | None,
    progress: Callable[[int, int], None],
) -> FleetPlan:
    """Give a plan of what tasks find, each of which leaves a file."""
    groups: list[tuple[str, ...] | Neighbours] = [
        top.left[start::GROUPS] for start in range(min(GROUPS, len(top.left)))
    ]
    wide = sum(len(one.names) for one in top.wide)
    most = max(IN_FLAT, -(-wide // GROUPS))
    groups += [some for one in top.wide for some in one.divided(most)]
    work = partial(_search, options=options, run=run)
    found = run_job(spark, groups, progress, results_of(run), work=work)
    files = [one[0] for one in found] + [_write_file(run, "found/", to_be_listed(top.uris))]
    problems = {Unlisted(*problem) for one in found for problem in one[2]}
    met = {*top.groups, *chain.from_iterable(one[3] for one in found)}
    parts = part_count(len(top.uris) + sum(one[1] for one in found), before)

    def read(file: str) -> pa.Table:
        return pa.ipc.open_stream(run.store().read(file)).read_all()

    written = _write_plan(spark, files, read, parts, run)
    # An array that two tasks met was counted twice.
    arrays = sum(share.count for share in written)
    all_problems = tuple(sorted({*problems, *top.problems}))
    return FleetPlan(parts, written, arrays, all_problems, tuple(sorted(met)))


def _search(
    folders: tuple[str, ...] | Neighbours, options: Options, run: Run
) -> tuple[str, int, tuple[Unlisted, ...], tuple[str, ...]]:
    """Leave what is found in a file; give the file, how many arrays, problems and groups."""
    found = search_folders(folders, options)
    arrays = count_arrays(found.rows.filter(found.rows["strong"]))
    file = _write_file(run, "found/", found.rows)
    return file, arrays, found.problems[:PROBLEMS_MAX], found.groups


def _by_bundle(names: pa.Table, parts: int) -> Iterator[pa.RecordBatch]:
    """Pack the rows of each bundle of parts for sending: few, large and compressed."""
    for bundle, own in by_part(names, _bundles(parts)):
        yield pa.record_batch([[bundle], [to_stream(own)]], schema=_SHUFFLED)


def _bundles(parts: int) -> int:
    """Count the bundles; a part's number tells its bundle, as both are powers of two."""
    return max(parts // PARTS_IN_BUNDLE, 1)


def _write_plan(
    spark: SparkSession,
    items: Sequence[T],
    read: Callable[[T], pa.Table],
    parts: int,
    run: Run,
) -> tuple[Share, ...]:
    """Have a task read the rows of each item; leave those of each part in a file."""
    from chronotile.fleet.session import rows_in_tasks, sink

    def write(batches: Iterator[pa.RecordBatch]) -> list[Any]:
        rows = (
            pair
            for batch in batches
            for pair in zip(*(column.to_pylist() for column in batch.columns), strict=True)
        )
        written: list[Any] = []
        for _, bundle in groupby(rows, key=itemgetter(0)):
            tables = [pa.ipc.open_stream(data).read_all() for _, data in bundle]
            for part, own in by_part(whole_arrays(tables), parts):
                file = _write_file(run, f"plan/{part:04d}-", own)
                written.append((part, file, count_arrays(own)))
        return written

    if not items:
        return ()
    rows = rows_in_tasks(spark, items, lambda item: _by_bundle(read(item), parts), _SHUFFLED)
    count = min(_bundles(parts), PLANNERS)
    sorted_rows = rows.repartition(count, "bundle").sortWithinPartitions("bundle")
    store, path = run.store(), f"{run.folder}/plan.json"
    left = sink(sorted_rows, work=write, commit=list, store=store, path=path)
    written = sorted(chain.from_iterable(left))
    return tuple(Share(part=b, file=f, count=n) for b, f, n in written)


def _write_file(run: Run, start: str, table: pa.Table) -> str:
    path = f"{run.folder}/{start}{secrets.token_hex(8)}.arrow"
    run.store().put_if_absent(path, to_stream(table))
    return path
