"""A look before reading: the buckets in which nothing has changed since the last run.

In: the tasks of a run that follows another one. Out: what those of them have to do that have
nothing to do, and the tasks that are left. Lists folders and asks for times; reads no commit file.

A task of Spark takes its time even if it finds nothing to do, and a bucket of large arrays has few
of them. So one task looks at many small buckets; those in which something has changed are then read
by a task each, which looks again. On a disk a look costs little; in a bucket of the cloud it costs
requests, so there nobody looks first.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from chronotile.errors import ChronotileError
from chronotile.format.timestamps import now_ms
from chronotile.spark.pipeline.task import Done, Task, sum_of
from chronotile.spark.pipeline.unchanged_arrays import is_unchanged
from chronotile.spark.surviving_tasks import Care, Results, run_job
from chronotile.storage.store import open_store

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from pyspark.sql import SparkSession

    from chronotile.spark.bucket_share import BucketShare
    from chronotile.spark.pipeline.unchanged_arrays import Noted

ARRAYS_AT_ONCE = 1024
"""Arrays that one task looks at: a tenth of a second on a disk."""


class Looked(NamedTuple):
    """What a look at some buckets found."""

    done: Done = Done()
    """Of the buckets in which nothing has changed."""
    buckets: frozenset[int] = frozenset()
    """These buckets."""


def set_aside_unchanged(
    spark: SparkSession,
    tasks: Sequence[Task],
    progress: Callable[[int, int], None],
    results: Results,
) -> tuple[Done, list[Task]]:
    """Finds tasks that have nothing to do; gives what they would have done, and the other tasks.

    Args:
        spark: The session.
        tasks: A task for each bucket.
        progress: Called now and then with (tasks done, all tasks).
        results: A folder for what tasks return.
    """
    groups = [group for group in small_groups(tasks) if len(group) > 1]
    # A bucket whose look kills its process is left for the task that reads it.
    care: Care[tuple[Task, ...], Looked] = Care(split=lambda _: (), give_up=lambda _: Looked())
    looked = run_job(spark, look_at, groups, progress, results, care)
    same = frozenset(bucket for one in looked for bucket in one.buckets)
    left = [task for task in tasks if task.share.bucket not in same]
    return sum_of(one.done for one in looked), left


def small_groups(tasks: Iterable[Task]) -> Iterator[tuple[Task, ...]]:
    """Tasks that may have nothing to do, in groups with as many arrays as one task looks at."""
    group: list[Task] = []
    arrays = 0
    for task in tasks:
        if not _may_be_unchanged(task):
            continue
        if group and arrays + task.share.size > ARRAYS_AT_ONCE:
            yield tuple(group)
            group, arrays = [], 0
        group.append(task)
        arrays += task.share.size
    if group:
        yield tuple(group)


def look_at(tasks: tuple[Task, ...]) -> Looked:
    """What one task of Spark does: it looks at some buckets."""
    done = {task.share.bucket: found for task in tasks if (found := done_if_unchanged(task))}
    return Looked(sum_of(done.values()), frozenset(done))


def done_if_unchanged(task: Task) -> Done | None:
    """What a task does if no array of its bucket has changed; None if one has, or may have."""
    if not _may_be_unchanged(task) or task.older is None:
        return None
    arrays = task.share.arrays
    noted, totals = task.older.noted()
    if {*arrays} != noted.keys() or not all(_is_unchanged(uri, noted[uri]) for uri in arrays):
        return None
    return Done(same=(task.share.bucket,), totals=totals, unchanged=len(arrays))


def _may_be_unchanged(task: Task) -> bool:
    # Cells can go bad while the listing stays the same.
    is_asked = task.since_last and task.options.check != "deep" and not task.problems
    can_stay = task.older is not None and task.older.can_stay
    return is_asked and can_stay and _is_on_disk(task.share)


def _is_on_disk(share: BucketShare) -> bool:
    stores = [open_store(array) for array in share.arrays]
    return bool(stores) and all(store.traits.has_change_times for store in stores)


def _is_unchanged(array: str, noted: Noted) -> bool:
    try:
        return is_unchanged(open_store(array), noted, now_ms())
    except ChronotileError:  # the task that reads the array finds it again, and tells
        return False
