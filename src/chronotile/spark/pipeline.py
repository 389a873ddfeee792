"""The pipeline: every table of a fleet as Parquet, in one pass over the storage.

In: roots of arrays, and a folder for output. Out: a complete run (see `runs`) and its `Summary`;
or an error, and the last good run still in place. The driver plans and publishes; tasks read.

An array that cannot be read is not a damaged array. If more of them than the limit allows cannot be
read, the run publishes nothing; else it repeats their rows from the last run that could read them,
and marks them as stale.

What a fleet of 1 million arrays with 10 billion commits costs, on paper. Measured on arrays of
10,000 commits in one `.con`, each with its fragments, a tenth of them with 500 deletes, on one core
of two:

    for each array             measured                     times 1,000,000
    requests to plan           2 lists                      2 million lists
    requests to read           16 lists (10 are pages of    16 million lists,
                               1,000 fragments), 2 reads    2 million reads
    bytes read                 0.8 MB                       0.8 TB
    time of one core           0.11 s                       31 hours
    bytes written, all tables  0.77 MB                      0.77 TB

The driver itself makes the 2 million lists of the plan: 26 minutes with 64 at once, if an answer
takes 50 ms. A task waits for 18 such answers for each array, 8 arrays at once, so 0.11 s of waiting
beside 0.11 s of work: 20 executors of 2 cores are done in about an hour, which is 40 core hours.
Next time, with `since_last`, an array that has not changed costs its lists (18 million in all),
no read, and a copy of its rows.
"""

from __future__ import annotations

import re
import time
from collections import Counter
from dataclasses import dataclass, field, replace
from functools import partial, reduce
from operator import add
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from chronotile import __version__
from chronotile.errors import ChronotileError, StorageError
from chronotile.spark.fleet_maintenance import MAINTENANCE, arrays_in_need, broken_off, maintain
from chronotile.spark.older_run_rows import below, known_arrays, rows_of_unread
from chronotile.spark.pipeline_task import (
    WRITTEN,
    Carry,
    Done,
    Task,
    carry,
    read_fingerprints,
    run_task,
    write_tables,
)
from chronotile.spark.run_summary import Summary
from chronotile.spark.runs import Part, Run, last_run, new_run
from chronotile.spark.shares import Share, find_fleet, packed, shares, split
from chronotile.spark.surviving_tasks import Care, Results, run_job
from chronotile.spark.unreadable_limit import MAX_UNREADABLE, Limit, Unread, check_limit

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Mapping

    from pyspark.sql import SparkSession

    from chronotile.dataset.find_arrays import Fleet
    from chronotile.spark.options import Options

FORMAT = 2
"""The format of what a run leaves for the next one, which uses no run of another format."""
CARRIED_BYTES = 32 << 20
"""Bytes of old files that one task merges."""
CARRIED_FILES = 1 << 20

_ERROR = re.compile(r"[A-Za-z_][\w.]*(Error|Exception|Exit|Interrupt): ")
_FEW = 16
"""Arrays that one task tries again, or maintains."""
_KILLED = "each process that tried was killed, as where memory runs out"


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """What the user asks of the pipeline."""

    options: Options
    out: str
    out_storage: dict[str, str] = field(default_factory=dict, repr=False)
    since_last: bool = False
    """Read only arrays whose listing has changed since the last run."""
    maintain: bool = False
    dry_run: bool = False
    """Maintenance only reports what it would do."""
    fragments: bool = False
    """Maintenance vacuums fragments as well."""
    max_unreadable: Limit = MAX_UNREADABLE
    """How much of the fleet may be unreadable before the run publishes nothing."""


def run(
    spark: SparkSession,
    job: Job,
    progress: Callable[[str, int, int], None] | None = None,
) -> Summary:
    """Runs the pipeline.

    Args:
        spark: The session to run it in.
        job: What to do.
        progress: Called now and then with (what is under way, tasks done, all tasks).

    Raises:
        ArrayNotFoundError: A root does not exist.
        UnreadableError: Too much of the fleet could not be read.
        StorageError: The tables could not be written; the last good ones are still there.
    """
    began = time.monotonic()
    pipeline = _Pipeline(spark, job, progress or (lambda *_: None))
    run_ = new_run(job.out, job.out_storage)
    try:
        done, maintained = pipeline.tables(run_)
    except BaseException as cause:
        run_.abandon()
        if isinstance(cause, ChronotileError) or not isinstance(cause, Exception):
            raise
        problem = f"expected the job to end, found: {_last_error(cause)}"
        raise StorageError(job.out, problem) from cause
    return Summary(
        out=job.out,
        run=run_.uri,
        totals=done.totals,
        read=done.read,
        unchanged=len(done.unchanged),
        unreadable=len(done.unread),
        files_read=done.files_read,
        reads=done.reads,
        seconds=time.monotonic() - began,
        maintained=maintained,
    )


class _Pipeline:
    """One run, step by step."""

    def __init__(
        self, spark: SparkSession, job: Job, progress: Callable[[str, int, int], None]
    ) -> None:
        self._spark = spark
        self._job = job
        self._progress = progress
        self._killers: list[Unread] = []
        """Arrays that kill every process that reads them."""
        self._fleet_size = 0

    def tables(self, run_: Run) -> tuple[Done, tuple[tuple[str, int], ...]]:
        """Makes and publishes all tables."""
        old = self._last()
        known = read_fingerprints(old) if old and self._job.since_last else {}
        self._progress("looking for arrays", 0, 0)
        fleet = find_fleet(self._job.options)
        self._fleet_size = len(fleet.arrays)
        done = self._read(run_, shares(fleet, self._job.options.partition_bytes), known)
        if done.unread and (done.read or done.unchanged):
            # The storage answers: it may now give what it refused a while ago.
            again = map(Share, packed([one.array for one in done.unread], _FEW))
            done = replace(done, unread=()) + self._read(run_, again, {})
        done += Done(unread=tuple(self._killers))
        done += self._unread(run_, old, fleet, done)
        written = {part.table for part in done.parts}
        # A table without rows gets an empty file, so that readers can read it.
        empty = [run_.write(t, s.empty_table()) for t, s in WRITTEN.items() if t not in written]
        parts = [*done.parts, *empty]
        maintained: tuple[tuple[str, int], ...] = ()
        if self._job.maintain:
            part, maintained = self._maintain(run_, parts, {one.array for one in done.unread})
            parts.append(part)
        words = {"format": FORMAT, "asked": self._asked(), "unreadable": len(done.unread)}
        run_.publish(parts, words)
        return done, maintained

    def _read(self, run_: Run, wanted: Iterable[Share], known: Mapping[str, str]) -> Done:
        """Reads some shares of the fleet."""
        tasks = [
            Task(
                share=share,
                fingerprints={array: known[array] for array in share.arrays if array in known},
                options=self._job.options,
                run=run_,
            )
            for share in wanted
        ]
        care = Care(split=_split, give_up=self._killed)
        return self._all("reading commit logs", run_task, tasks, run_, care)

    def _killed(self, task: Task) -> Done:
        """Notes an array that kills the process that reads it; others go on."""
        self._killers += [Unread(array, _KILLED) for array in task.share.arrays]
        check_limit(self._job.out, self._killers, self._fleet_size, self._job.max_unreadable)
        return Done()

    def _unread(self, run_: Run, old: Run | None, fleet: Fleet, done: Done) -> Done:
        """Writes the rows of arrays that have not changed, or that could not be read."""
        arrays = frozenset(fleet.uris)
        known = known_arrays(old) if done.unread or fleet.problems else {}
        hidden = below(fleet.problems, known, arrays)
        unread = [*done.unread, *hidden]
        total = len(arrays) + len(hidden)
        check_limit(self._job.out, unread, total, self._job.max_unreadable)
        kept = frozenset(done.unchanged)
        stale = frozenset(one.array for one in unread if one.array in known)
        carries = list(_carries(old, run_)) if old is not None and kept | stale else []
        work = partial(carry, kept=kept, stale=stale)
        carried = self._all("carrying tables over", work, carries, run_)
        own = write_tables(run_, [rows_of_unread(unread, known, arrays)])
        return carried + own + Done(unread=tuple(hidden))

    def _last(self) -> Run | None:
        """The last run, if this one can use its tables."""
        old = last_run(self._job.out, self._job.out_storage)
        end = old.read_end() if old else None
        if end is None or end.get("format") != FORMAT or end.get("asked") != self._asked():
            return None
        return old

    def _asked(self) -> dict[str, Any]:
        """What must be equal in two runs if one uses the tables of the other."""
        options = self._job.options
        has_key = options.key is not None or options.key_file is not None
        return {"has_key": has_key, "version": __version__}

    def _all(
        self,
        words: str,
        work: Callable[[Any], Done],
        items: list[Any],
        run_: Run,
        care: Care[Any, Done] | None = None,
    ) -> Done:
        results = run_job(
            self._spark, work, items, partial(self._progress, words), _results(run_), care
        )
        return reduce(add, results, Done())

    def _maintain(
        self, run_: Run, parts: list[Part], unread: Collection[str]
    ) -> tuple[Part, tuple[tuple[str, int], ...]]:
        job = self._job
        findings = (run_.read(part) for part in parts if part.table == "findings")
        needy = arrays_in_need(findings, fragments=job.fragments)
        groups = list(packed((array for array in needy if array not in unread), _FEW))
        work = partial(
            _maintain_group,
            options=job.options,
            run_=run_,
            dry_run=job.dry_run,
            fragments=job.fragments,
        )
        care = Care(
            split=lambda group: [(array,) for array in group] if len(group) > 1 else [],
            give_up=lambda group: [broken_off(array, _KILLED, job.dry_run) for array in group],
        )
        progress = partial(self._progress, "maintaining arrays")
        results = run_job(self._spark, work, groups, progress, _results(run_), care)
        rows = [row for group in results for row in group]
        outcomes = Counter(f"{row['command']} {row['outcome']}" for row in rows)
        report = run_.write("maintenance", pa.Table.from_pylist(rows, schema=MAINTENANCE))
        return report, tuple(sorted(outcomes.items()))


def _results(run_: Run) -> Results:
    return Results(run_.store(), f"{run_.staging}/results")


def _split(task: Task) -> list[Task]:
    """Splits the work of a task into smaller pieces."""
    return [replace(task, share=share) for share in split(task.share)]


def _maintain_group(
    arrays: tuple[str, ...], options: Options, run_: Run, *, dry_run: bool, fragments: bool
) -> list[dict[str, Any]]:
    return [
        row
        for array in arrays
        for row in maintain(array, options, run_, dry_run=dry_run, fragments=fragments)
    ]


def _carries(old: Run, run_: Run) -> Iterator[Carry]:
    """The files of the last run, a few for each task."""
    parts = old.parts()
    for table in WRITTEN:
        of_table = (part for part in parts if part.table == table)
        for group in packed(of_table, CARRIED_FILES, lambda part: part.size, CARRIED_BYTES):
            yield Carry(table=table, parts=group, old=old, run=run_)


def _last_error(cause: Exception) -> str:
    """The error of a task, out of the traceback that Spark passes on."""
    lines = [line for line in str(cause).splitlines() if line.strip()]
    errors = [line for line in lines if _ERROR.match(line)]
    return (errors or lines or [type(cause).__name__])[-1][:500]
