"""The pipeline: every table of a fleet as Parquet, in one pass over the storage.

In: roots of arrays, and a folder for output. Out: a complete run (see `runs`) and its `Summary`;
or an error, and the last good run still in place. The driver plans and publishes; tasks read.

An array that cannot be read is not a damaged array. If more of them than the limit allows cannot be
read, the run publishes nothing; else it repeats their rows from the last run that could read them,
and marks them as stale.

Nothing in the driver grows with the fleet: it knows buckets and their files (see `buckets`), and of
arrays their number. The README says what a fleet costs, in requests and hours.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from chronotile import __version__
from chronotile.errors import ChronotileError, StorageError
from chronotile.spark.bucket_share import BucketShare
from chronotile.spark.maintenance.policy import Policy, simple_policy
from chronotile.spark.maintenance.whole_fleet import (
    Work,
    arrays_due,
    pause_s,
    run_maintenance,
    stops_of,
)
from chronotile.spark.pipeline.buckets import Division, bucket_of
from chronotile.spark.pipeline.interrupted_run import Interrupted, find_interrupted, note_plan
from chronotile.spark.pipeline.look_first import set_aside_unchanged
from chronotile.spark.pipeline.older_run_rows import WRITTEN, OlderRun, unlisted_unread
from chronotile.spark.pipeline.plan import FleetPlan, plan_fleet
from chronotile.spark.pipeline.run_columns import CHANGES, RUNS, RUNS_MAX, run_row
from chronotile.spark.pipeline.run_summary import Summary
from chronotile.spark.pipeline.runs import KEPT, Part, Run, last_run, new_run
from chronotile.spark.pipeline.task import (
    UNREAD_MAX,
    Done,
    Task,
    run_task,
    sum_of,
    write_tables,
    write_unread,
)
from chronotile.spark.pipeline.unreadable_limit import MAX_UNREADABLE, Limit, Unread, check_limit
from chronotile.spark.source.read_share import folder_findings
from chronotile.spark.surviving_tasks import Care, Results, last_error, run_job
from chronotile.spark.table_formats.open_tables import PARQUET, Target, check_target, commit_tables

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Sequence

    from pyspark.sql import SparkSession

    from chronotile.spark.source.options import Options

FORMAT = 7
"""The format of what a run leaves for the next one, which uses no run of another format."""
MOST_UNREADABLE = Limit(text=str(UNREAD_MAX), count=UNREAD_MAX)
"""The largest limit: the driver holds no more names."""

_KILLED = "each process that tried was killed, as where memory runs out"


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """What the user asks of the pipeline."""

    options: Options
    out: str
    out_storage: dict[str, str] = field(default_factory=dict, repr=False)
    since_last: bool = False
    """Read only arrays whose listing has changed since the last run."""
    resume: bool = False
    """Take over what a run that was interrupted has read of arrays that have not changed."""
    maintain: bool = False
    dry_run: bool = False
    """Maintenance only reports what it would do."""
    fragments: bool = False
    """Maintenance vacuums fragments as well."""
    policy: Policy | None = None
    """What maintenance does to which arrays; None for commits of those that need it."""
    keep_runs: int = KEPT
    """Complete runs whose tables stay."""
    target: Target = PARQUET
    """Where the tables should be besides: in Delta or Iceberg."""
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
    check_target(spark, job.target, job.out)
    pipeline = _Pipeline(spark, job, progress or (lambda *_: None))
    run_ = new_run(job.out, job.out_storage)
    try:
        done, maintained = pipeline.tables(run_)
    except BaseException as cause:
        if isinstance(cause, ChronotileError):
            run_.abandon()
            raise
        # It was interrupted, or Spark has failed: what tasks have done is left for `resume`.
        if not isinstance(cause, Exception):
            raise
        problem = f"expected the job to end, found: {last_error(cause)}"
        raise StorageError(job.out, problem) from cause
    committed = commit_tables(spark, job.target, run_)
    return Summary(
        out=job.out,
        run=run_.uri,
        totals=done.totals,
        read=done.read,
        unchanged=done.unchanged,
        unreadable=len(done.unread),
        files_read=done.files_read,
        reads=done.reads,
        seconds=time.monotonic() - began,
        maintained=maintained,
        inventory_age_s=pipeline.inventory_age_s,
        committed=committed,
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
        self._plan = FleetPlan(0, (), 0, ())
        self._resumed: Interrupted | None = None

    @property
    def inventory_age_s(self) -> float | None:
        """How old the inventory is that the arrays were found in."""
        return self._plan.inventory.age_s if self._plan.inventory else None

    def tables(self, run_: Run) -> tuple[Done, tuple[tuple[str, int], ...]]:
        """Makes and publishes all tables."""
        job, older = self._job, OlderRun(self._last())
        before = older.division
        if job.resume:
            words = self._plan_words()
            self._resumed = find_interrupted(job.out, job.out_storage, words, older.run)
        if self._resumed is not None:
            self._progress(f"going on with run {self._resumed.run.name}", 0, 0)
            before = Division(self._resumed.buckets)
        self._progress("looking for arrays", 0, 0)
        look = partial(self._progress, "looking for arrays")
        # Members of groups outside of the roots are read, and never changed.
        follow = not job.maintain
        self._plan = plan_fleet(self._spark, job.options, run_, before, look, follow=follow)
        note_plan(run_, self._plan.buckets, self._plan_words())
        done = self._read(run_, older)
        unread, hidden = self._unread(done)
        done = sum_of((done, self._write_unread(run_, older, unread, hidden)))
        parts = [*done.parts, *older.parts_of(done.same)]
        folders = {"findings": folder_findings(self._plan.problems)}
        own, totals = write_tables(run_, folders)
        parts += own
        parts.append(self._history(run_, replace(done, totals=done.totals + totals), parts))
        written = {part.table for part in parts}
        tables = {**WRITTEN, "findings_changes": CHANGES}
        # A table without rows gets an empty file, so that readers can read it.
        parts += [run_.write(t, s.empty_table()) for t, s in tables.items() if t not in written]
        maintained: tuple[tuple[str, int], ...] = ()
        everything = (*unread, *hidden)
        if job.maintain:
            made, maintained = self._maintain(run_, parts, {one.array for one in everything})
            parts += made
        words = {
            "format": FORMAT,
            "asked": self._asked(),
            "told": job.options.told(),
            "unreadable": len(everything),
            "buckets": self._plan.buckets,
            "divided_at": self._plan.division(before).arrays,
        }
        run_.publish(parts, words, job.keep_runs)
        if self._resumed is not None:
            self._resumed.run.abandon()
        return replace(done, unread=everything, totals=done.totals + totals), maintained

    def _history(self, run_: Run, done: Done, parts: Sequence[Part]) -> Part:
        """Writes the table of all runs: that of the last run, and a row more."""
        changes = [
            change
            for part in parts
            if part.table == "findings_changes"
            for change in run_.read(part)["change"].to_pylist()
        ]
        counts = {
            "arrays_read": done.read,
            "arrays_unchanged": done.unchanged,
            "arrays_unreadable": done.unread_count + done.hidden_count,
            "new_findings": changes.count("new"),
            "resolved_findings": changes.count("resolved"),
        }
        row = run_row(run_.name, run_.started_ms, done.totals, counts)
        last = last_run(self._job.out, self._job.out_storage)
        before = list(last.tables("run_history")) if last else []
        # Runs of an older version may lack a column, or have one more.
        table = pa.concat_tables([*before, row], promote_options="default").select(RUNS.names)
        return run_.write("run_history", table[-RUNS_MAX:])

    def _read(self, run_: Run, older: OlderRun) -> Done:
        """Reads the whole fleet, and what could not be read once more."""
        job, plan = self._job, self._plan
        inventory = plan.inventory
        after = inventory.created_ms if inventory and job.options.fresh else None
        task = partial(Task, options=job.options, run=run_, fresh_ms=after)
        problems = tuple(p for p in plan.problems if not p.missing)
        before = older.run and older.run.read_end()
        since_last = job.since_last and job.options.is_told_in((before or {}).get("told", {}))
        shares = {share.bucket: share for share in plan.shares}
        if older.run:
            # Arrays that only the last run knows can be in any bucket.
            empty = {number: BucketShare(bucket=number) for number in range(plan.buckets)}
            shares = {n: one for n, one in (empty | shares).items() if one.size or older.has(n)}
        tasks = []
        for share in shares.values():
            resumed = self._resumed and self._resumed.bucket(share.bucket, plan.buckets)
            last = older.bucket(share.bucket, plan.buckets)
            since = since_last or resumed is not None
            tasks.append(
                task(
                    share=share,
                    older=resumed or last,
                    since_last=since,
                    is_whole=True,
                    problems=problems,
                )
            )
        look = partial(self._progress, "looking for changes")
        same, tasks = set_aside_unchanged(self._spark, tasks, look, _results(run_))
        care = Care(split=_split, give_up=self._killed)
        done = sum_of((same, self._all("reading commit logs", run_task, tasks, run_, care)))
        if not done.unread or not (done.read or done.unchanged) or _is_cut(done):
            return done
        # The storage answers: it may now give what it refused a while ago.
        groups = self._by_bucket(one.array for one in done.unread)
        again = [
            task(share=BucketShare(bucket=bucket, arrays=tuple(arrays)))
            for bucket, arrays in groups.items()
        ]
        second = self._all("reading commit logs", run_task, again, run_, care)
        return sum_of((replace(done, unread=(), unread_count=0), second))

    def _by_bucket(self, arrays: Iterable[str]) -> dict[int, list[str]]:
        groups: dict[int, list[str]] = {}
        for array in arrays:
            groups.setdefault(bucket_of(array, self._plan.buckets), []).append(array)
        return groups

    def _killed(self, task: Task) -> Done:
        """Notes an array that kills the process that reads it; others go on."""
        arrays = [place.uri for place in task.share.places(task.run)]
        self._killers += [Unread(array, _KILLED) for array in arrays]
        check_limit(self._job.out, self._killers, self._plan.arrays, self._job.max_unreadable)
        return Done()

    def _unread(self, done: Done) -> tuple[tuple[Unread, ...], tuple[Unread, ...]]:
        """The arrays that could not be read; and those, or folders, that could not be listed.

        Raises:
            UnreadableError: They are more than the limit allows.
        """
        unread = (*done.unread, *self._killers)
        starts = tuple(one.array for one in done.hidden)
        # A folder of which no array is known stands for itself.
        folders = [
            unlisted_unread(folder, folder.uri)
            for folder in self._plan.problems
            if not folder.missing
            and not any(array.startswith(f"{folder.uri.rstrip('/')}/") for array in starts)
        ]
        hidden = (*done.hidden, *folders)
        cut = done.unread_count - len(done.unread) + done.hidden_count - len(done.hidden)
        total = self._plan.arrays + done.hidden_count + len(folders)
        limit = MOST_UNREADABLE if cut else self._job.max_unreadable
        check_limit(self._job.out, (*unread, *hidden), total, limit, more=cut)
        return unread, hidden

    def _write_unread(
        self, run_: Run, older: OlderRun, unread: Sequence[Unread], hidden: Sequence[Unread]
    ) -> Done:
        """Writes the rows of arrays that could not be read, without another try."""
        folders = {folder.uri for folder in self._plan.problems}
        wanted = {one.array: one.words for one in (*unread, *hidden) if one.array not in folders}
        tasks = [
            Task(
                share=BucketShare(bucket=bucket),
                options=self._job.options,
                run=run_,
                older=older.bucket(bucket, self._plan.buckets),
                given_up={array: wanted[array] for array in arrays},
                hidden=frozenset(one.array for one in hidden),
            )
            for bucket, arrays in self._by_bucket(wanted).items()
        ]
        return self._all("carrying tables over", write_unread, tasks, run_)

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
        most = options.max_findings
        return {"has_key": has_key, "max_findings": most, "version": __version__}

    def _plan_words(self) -> dict[str, Any]:
        """What must be equal in two runs if one goes on with what the other has read."""
        return {"format": FORMAT, **self._asked(), **self._job.options.told()}

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
        return sum_of(results)

    def _maintain(
        self, run_: Run, parts: list[Part], unread: Collection[str]
    ) -> tuple[list[Part], tuple[tuple[str, int], ...]]:
        job = self._job
        policy = job.policy or simple_policy(fragments=job.fragments)
        findings = (run_.read(part) for part in parts if part.table == "findings")
        arrays = (run_.read(part) for part in parts if part.table == "arrays")
        work = Work(
            options=job.options,
            run=run_,
            dry_run=job.dry_run,
            stops=stops_of(policy, job.out, job.out_storage, job.options),
            pause_s=pause_s(policy),
        )
        due = arrays_due(policy, findings, arrays, unread)
        return run_maintenance(self._spark, due, policy, work, _results(run_), self._progress)


def _results(run_: Run) -> Results:
    return Results(run_.store(), f"{run_.staging}/results")


def _split(task: Task) -> list[Task]:
    """Splits the work of a task into smaller pieces."""
    return [replace(task, share=share, problems=(), is_whole=False) for share in task.share.split()]


def _is_cut(done: Done) -> bool:
    """Whether more arrays could not be read than the driver hears of."""
    return done.unread_count > len(done.unread)
