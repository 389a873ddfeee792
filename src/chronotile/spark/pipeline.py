"""The pipeline: every table of a fleet as Parquet, in one pass over the storage.

In: roots of arrays, and a folder for output. Out: a complete run (see `runs`) and its `Summary`;
or an error, and the last good run still in place. The driver plans and publishes; tasks read.

An array that cannot be read is no damaged array. If there are more of them than the limit allows,
nothing is published; else their rows are those of the last run that could read them, marked so.

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

The driver's own part are the 2 million lists of the plan: 26 minutes with 64 at once, if an answer
takes 50 ms. A task waits for 18 such answers an array, 8 arrays at once, so 0.11 s of waiting
beside 0.11 s of work: 20 executors of 2 cores are done in about an hour, which is 40 core hours.
Next time, with `since_last`, an array that has not changed costs its lists (18 million in all),
no read, and a copy of its rows.
"""

from __future__ import annotations

import re
import time
from dataclasses import dataclass, field, replace
from functools import partial, reduce
from operator import add
from typing import TYPE_CHECKING, Any

from chronotile import __version__
from chronotile.errors import ChronotileError, StorageError
from chronotile.spark.fleet_maintenance import arrays_in_need, broken_off, maintain, write_report
from chronotile.spark.limits import MAX_UNREADABLE, Limit, Unread, check_limit
from chronotile.spark.pipeline_task import (
    WRITTEN,
    Carry,
    Done,
    Task,
    carry,
    read_marks,
    run_task,
    write_tables,
)
from chronotile.spark.run_summary import Summary
from chronotile.spark.runs import Part, Run, last_run, new_run
from chronotile.spark.shares import Share, find_fleet, shares, split
from chronotile.spark.stale import below, known_arrays, rows_of_unread
from chronotile.spark.surviving_tasks import Care, run_job

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Mapping

    from pyspark.sql import SparkSession

    from chronotile.dataset.find_arrays import Fleet
    from chronotile.spark.options import Options

FORMAT = 2
"""Of what a run leaves for the next one; a run of another format is not built upon."""
CARRIED_BYTES = 32 << 20
"""Bytes of old files that one task puts together."""

_ERROR = re.compile(r"[A-Za-z_][\w.]*(Error|Exception|Exit|Interrupt): ")
_AGAIN = 16
"""Arrays that one task tries again."""
_KILLED = "each process that tried was killed, as where memory runs out"
_MAINTAINED_AT_ONCE = 16
"""Arrays that one task maintains."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """What a user asks of the pipeline."""

    options: Options
    out: str
    out_storage: dict[str, str] = field(default_factory=dict, repr=False)
    since_last: bool = False
    """Read only arrays whose listing has changed since the last run."""
    maintain: bool = False
    dry_run: bool = False
    """Of maintenance: only say what would be done."""
    fragments: bool = False
    """Of maintenance: vacuum fragments as well."""
    max_unreadable: Limit = MAX_UNREADABLE
    """How much of the fleet may be unreadable before nothing is published."""


def run(
    spark: SparkSession,
    job: Job,
    progress: Callable[[str, int, int], None] | None = None,
) -> Summary:
    """Runs the pipeline.

    Args:
        spark: The session to run it in.
        job: What to do.
        progress: Called now and then with (what is under way, tasks done, tasks in all).

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
    except ChronotileError:
        run_.abandon()
        raise
    except Exception as cause:
        run_.abandon()
        problem = f"expected the job to end, found: {_said(cause)}"
        raise StorageError(job.out, problem) from cause
    except BaseException:
        run_.abandon()
        raise
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
        """Arrays that kill whoever reads them."""
        self._found = 0
        """Arrays of the fleet."""

    def tables(self, run_: Run) -> tuple[Done, tuple[tuple[str, int], ...]]:
        """Makes and publishes all tables."""
        old = self._last()
        marks = read_marks(old) if old and self._job.since_last else {}
        self._progress("looking for arrays", 0, 0)
        fleet = find_fleet(self._job.options)
        self._found = len(fleet.arrays)
        done = self._read(run_, shares(fleet, self._job.options.partition_bytes), marks)
        if done.unread and (done.read or done.unchanged):
            # The storage answers: what it refused a while ago it may give now.
            arrays = [one.array for one in done.unread]
            again = [Share(tuple(arrays[at : at + _AGAIN])) for at in range(0, len(arrays), _AGAIN)]
            done = replace(done, unread=()) + self._read(run_, again, {})
        done += Done(unread=tuple(self._killers))
        done += self._unread(run_, old, fleet, done)
        parts = [*done.parts, *_empty_parts(run_, done.parts)]
        maintained: tuple[tuple[str, int], ...] = ()
        if self._job.maintain:
            part, maintained = self._maintain(run_, parts, {one.array for one in done.unread})
            parts.append(part)
        words = {"format": FORMAT, "asked": self._asked(), "unreadable": len(done.unread)}
        run_.publish(parts, words)
        return done, maintained

    def _read(self, run_: Run, wanted: Iterable[Share], marks: Mapping[str, str]) -> Done:
        """Reads some shares of the fleet."""
        tasks = [
            Task(
                share=share,
                marks={a: marks[a] for a in share.arrays if a in marks},
                options=self._job.options,
                run=run_,
            )
            for share in wanted
        ]
        care = Care(split=_split, give_up=self._killed)
        return self._all("reading commit logs", run_task, tasks, care)

    def _killed(self, task: Task) -> Done:
        """An array whose reading kills the process, tried alone: it is told, and others go on."""
        self._killers += [Unread(array, _KILLED) for array in task.share.arrays]
        check_limit(self._job.out, self._killers, self._found, self._job.max_unreadable)
        return Done()

    def _unread(self, run_: Run, old: Run | None, fleet: Fleet, done: Done) -> Done:
        """The rows of what was not read: it has not changed, or it could not be read."""
        found = frozenset(fleet.uris)
        known = known_arrays(old) if done.unread or fleet.problems else {}
        hidden = below(fleet.problems, known, found)
        unread = [*done.unread, *hidden]
        total = len(found) + len(hidden)
        check_limit(self._job.out, unread, total, self._job.max_unreadable)
        kept = frozenset(done.unchanged)
        stale = frozenset(one.array for one in unread if one.array in known)
        carries = list(_carries(old, run_)) if old is not None and kept | stale else []
        work = partial(carry, kept=kept, stale=stale)
        carried = self._all("carrying tables over", work, carries)
        said = rows_of_unread(unread, known, found)
        told = write_tables(run_, {name: [table] for name, table in said.items()})
        return carried + told + Done(unread=tuple(hidden))

    def _last(self) -> Run | None:
        """The run to build upon, if there is one that can be built upon."""
        old = last_run(self._job.out, self._job.out_storage)
        end = old.read_end() if old else None
        if end is None or end.get("format") != FORMAT or end.get("asked") != self._asked():
            return None
        return old

    def _asked(self) -> dict[str, Any]:
        """What must be the same for a run to be built upon another."""
        options = self._job.options
        has_key = options.key is not None or options.key_file is not None
        return {"has_key": has_key, "version": __version__}

    def _all(
        self,
        words: str,
        work: Callable[[Any], Done],
        items: list[Any],
        care: Care[Any, Done] | None = None,
    ) -> Done:
        found = run_job(self._spark, work, items, partial(self._progress, words), care)
        return reduce(add, found, Done())

    def _maintain(
        self, run_: Run, parts: list[Part], unread: Collection[str]
    ) -> tuple[Part, tuple[tuple[str, int], ...]]:
        job = self._job
        findings = (run_.read(part) for part in parts if part.table == "findings")
        needy = arrays_in_need(findings, fragments=job.fragments)
        arrays = tuple(array for array in needy if array not in unread)
        groups = [
            arrays[at : at + _MAINTAINED_AT_ONCE]
            for at in range(0, len(arrays), _MAINTAINED_AT_ONCE)
        ]
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
        found = run_job(self._spark, work, groups, progress, care)
        rows = [row for group in found for row in group]
        outcomes: dict[str, int] = {}
        for row in rows:
            name = f"{row['command']} {row['outcome']}"
            outcomes[name] = outcomes.get(name, 0) + 1
        return write_report(run_, rows), tuple(sorted(outcomes.items()))


def _split(task: Task) -> list[Task]:
    """The same work in smaller pieces."""
    return [
        replace(task, share=share, marks={a: m for a, m in task.marks.items() if a in share.arrays})
        for share in split(task.share)
    ]


def _maintain_group(
    arrays: tuple[str, ...], options: Options, run_: Run, *, dry_run: bool, fragments: bool
) -> list[dict[str, Any]]:
    return [
        row
        for array in arrays
        for row in maintain(array, options, run_, dry_run=dry_run, fragments=fragments)
    ]


def _carries(old: Run, run_: Run) -> Iterator[Carry]:
    """The files of the last run, some to a task."""
    parts = old.parts()
    for table in WRITTEN:
        group: list[Part] = []
        for part in (one for one in parts if one.table == table):
            if group and sum(one.size for one in group) + part.size > CARRIED_BYTES:
                yield Carry(table=table, parts=tuple(group), old=old, run=run_)
                group = []
            group.append(part)
        if group:
            yield Carry(table=table, parts=tuple(group), old=old, run=run_)


def _empty_parts(run_: Run, parts: tuple[Part, ...]) -> Iterator[Part]:
    """A file without rows for each table that has none, so that it can be read."""
    there = {part.table for part in parts}
    for table, schema in WRITTEN.items():
        if table not in there:
            yield run_.write(table, schema.empty_table())


def _said(cause: Exception) -> str:
    """What went wrong in a task, out of a traceback that came a long way."""
    lines = [line for line in str(cause).splitlines() if line.strip()]
    errors = [line for line in lines if _ERROR.match(line)]
    return (errors or lines or [type(cause).__name__])[-1][:500]
