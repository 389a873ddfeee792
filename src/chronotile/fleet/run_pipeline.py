"""The pipeline: every table of a fleet as a Delta table, in one pass over the storage.

In: roots of arrays, and a folder for output. Out: commits to the tables of the store, and the
`Summary` of the run; or an error, and the last good rows still in place. The driver plans and
commits; tasks read, and write files.

A fleet is read in waves, each committed by itself, so that a run that is killed has not worked in
vain: with `since_last` the next one goes on. An array that cannot be read is not a damaged array.
If more of them than the limit allows cannot be read, the run stops; else it repeats their rows from
the last run that could read them, and marks them as stale.

Nothing in the driver grows with the fleet: it knows buckets and their files (see `buckets`), and of
arrays their number. The README says what a fleet costs, in requests and hours.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, Any

from chronotile.errors import ChronotileError, StorageError
from chronotile.fleet.array_tables import findings_table
from chronotile.fleet.delta_store import (
    LAST,
    DataFile,
    Run,
    StoreSnapshot,
    new_run,
    open_output,
    run_row,
)
from chronotile.fleet.maintenance import (
    Maintenance,
    Work,
    arrays_due,
    pause_s,
    run_maintenance,
    stops_of,
)
from chronotile.fleet.plan import FleetPlan, plan_fleet
from chronotile.fleet.policy import Policy, simple_policy
from chronotile.fleet.read_bucket import (
    UNREAD_MAX,
    Done,
    Task,
    older_bucket,
    run_task,
    sum_of,
    unlisted_unread,
    write_rows,
)
from chronotile.fleet.read_share import folder_findings
from chronotile.fleet.run_summary import (
    MAX_UNREADABLE,
    Limit,
    Summary,
    UnreadArrays,
    check_limit,
    totals_of_findings,
)
from chronotile.fleet.shares import NO_BUCKET, BucketShare, bucket_of
from chronotile.fleet.surviving_tasks import Care, Results, last_error, run_job

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    import pyarrow.dataset as ds
    from pyspark.sql import SparkSession

    from chronotile.check.findings import Finding
    from chronotile.fleet.options import Options


MOST_UNREADABLE = Limit(text=str(UNREAD_MAX), count=UNREAD_MAX)
"""The largest limit: the driver holds no more names."""
ARRAYS_IN_WAVE = 1 << 16
"""Arrays that are read before a commit: some minutes of work."""

_KILLED = "each process that tried was killed, as where memory runs out"


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """A run of the pipeline, as the user asks for it."""

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
    policy: Policy | None = None
    """What maintenance does to which arrays; None for commits of those that need it."""
    findings: tuple[Finding, ...] | None = None
    """Findings on groups and folders, if a check has them already."""
    max_unreadable: Limit = MAX_UNREADABLE
    """How much of the fleet may be unreadable before the run stops."""


def run(
    spark: SparkSession | None,
    job: Job,
    progress: Callable[[str, int, int], None] | None = None,
) -> Summary:
    """Run the pipeline.

    Args:
        spark: The session to run it in; None for processes of this machine.
        job: What to do.
        progress: Called now and then with (what is under way, tasks done, all tasks).

    Raises:
        ArrayNotFoundError: A root does not exist.
        UnreadableError: Too much of the fleet could not be read.
        OvertakenError: A run that started later has committed.
        StorageError: The tables could not be written; the last good ones are still there.
    """
    began = time.monotonic()
    output = open_output(job.out, job.out_storage)
    snapshot = output.snapshot()
    run_ = new_run(output, snapshot)
    pipeline = _PipelineRun(spark, job, run_, snapshot, progress or (lambda *_: None))
    try:
        done = pipeline.read()
        maintained = pipeline.maintain(done) if job.maintain else Maintenance()
    except ChronotileError:
        raise
    except Exception as cause:
        problem = f"expected the job to end, found: {last_error(cause)}"
        raise StorageError(job.out, problem) from cause
    finally:
        run_.end()
    return Summary(
        out=job.out,
        run=run_.name,
        totals=done.totals,
        read=done.read,
        unchanged=done.unchanged,
        unreadable=done.unread_count,
        files_read=done.files_read,
        reads=done.reads,
        seconds=time.monotonic() - began,
        maintained=maintained.outcomes,
        planned=maintained.planned,
        inventory_age_s=pipeline.inventory_age_s,
        versions=pipeline.versions,
    )


class _PipelineRun:
    """One run, step by step."""

    def __init__(
        self,
        spark: SparkSession | None,
        job: Job,
        run_: Run,
        snapshot: StoreSnapshot,
        progress: Callable[[str, int, int], None],
    ) -> None:
        self._spark, self._job, self._run, self._snapshot = spark, job, run_, snapshot
        self._progress = progress
        self._killers: list[UnreadArrays] = []
        """Arrays that kill every process that reads them."""
        self._plan = FleetPlan(0, (), 0, ())
        self._files_on_folders: tuple[DataFile, ...] = ()
        self.versions: dict[str, int] = {}
        """Table -> its version, of those that got a commit."""

    @property
    def inventory_age_s(self) -> float | None:
        """How old the inventory is that the arrays were found in."""
        return self._plan.inventory.age_s if self._plan.inventory else None

    @property
    def _is_whole(self) -> bool:
        """Return True if nothing of the tables can stay as it is."""
        before = self._snapshot.division
        return self._snapshot.is_torn or (
            before is not None and before.buckets != self._plan.buckets
        )

    def read(self) -> Done:
        """Read the fleet, wave by wave, and commit the tables."""
        before = self._snapshot.division
        self._progress("looking for arrays", 0, 0)
        look = partial(self._progress, "looking for arrays")
        # Members of groups outside of the roots are read, and never changed.
        follow = not self._job.maintain
        self._plan = plan_fleet(
            self._spark, self._job.options, self._run, before, look, follow=follow
        )
        division = self._plan.division(before)
        done = self._folders()
        folders = {NO_BUCKET}
        known, versions = self._snapshot.versions, dict(self._snapshot.versions)
        for wave in self._waves(whole=self._is_whole):
            added = self._wave(wave)
            done = sum_of((done, added))
            self._check_limit(done)
            replaced = None if self._is_whole else {*added.changed, *folders}
            files = (*added.files, *self._files_on_folders)
            versions = self._run.commit(files, replaced, division) or versions
            self._files_on_folders, folders = (), set()
        self.versions = {name: n for name, n in versions.items() if n != known[name]}
        # A run that died after its last commit has not told of it.
        if not self.versions and self._run.output.told() != versions[LAST]:
            self._run.check_not_overtaken()
            self._tell(done, versions)
        elif self.versions:
            self._tell(done, versions)
        return done

    def _folders(self) -> Done:
        """Write the findings on folders that could not be listed, or those of the check."""
        known = self._job.findings
        findings = folder_findings(self._plan.problems) if known is None else findings_table(known)
        self._files_on_folders = write_rows(self._run, NO_BUCKET, {"findings": findings})
        return Done(totals=totals_of_findings(findings.to_pylist()))

    def _tell(self, done: Done, versions: Mapping[str, int]) -> None:
        """Add a row to `run_history`, with the version of each table."""
        counts = {
            "arrays_read": done.read,
            "arrays_unchanged": done.unchanged,
            "arrays_unreadable": done.unread_count,
            "versions": list(versions.items()),
        }
        self._run.tell(run_row(self._run.name, self._run.started_ms, done.totals, counts))

    def _waves(self, *, whole: bool) -> Iterator[list[Task]]:
        """Divide the tasks of the run; a fleet that is divided in another way is one wave."""
        wave: list[Task] = []
        arrays = 0
        for task in self._tasks():
            if wave and arrays + task.share.size > ARRAYS_IN_WAVE and not whole:
                yield wave
                wave, arrays = [], 0
            wave.append(task)
            arrays += task.share.size
        yield wave

    def _tasks(self) -> Iterator[Task]:
        job, plan, output = self._job, self._plan, self._run.output
        inventory = plan.inventory
        shares = {share.bucket: share for share in plan.shares}
        if self._snapshot.division is not None:
            # Arrays that only the last run knows can be in any bucket.
            known = {file.bucket for files in self._snapshot.files.values() for file in files}
            for bucket in range(plan.buckets):
                if bucket in known or self._is_whole:
                    shares.setdefault(bucket, BucketShare(bucket=bucket))
        for share in shares.values():
            yield Task(
                share=share,
                options=job.options,
                run=self._run,
                older=older_bucket(output, self._snapshot, share.bucket, plan.buckets),
                since_last=job.since_last and not self._snapshot.is_torn,
                problems=tuple(p for p in plan.problems if not p.missing),
                fresh_ms=inventory.created_ms if inventory and job.options.fresh else None,
                allowed=job.max_unreadable.of(plan.arrays),
            )

    def _wave(self, tasks: list[Task]) -> Done:
        care = Care(split=_split, give_up=self._killed)
        before = len(self._killers)
        done = self._all("reading commit logs", tasks, care)
        killers = {one.array: one.words for one in self._killers[before:]}
        groups: dict[int, dict[str, str]] = {}
        for array, words in killers.items():
            groups.setdefault(bucket_of(array, self._plan.buckets), {})[array] = words
        again = [
            replace(task, share=BucketShare(bucket=bucket), given_up=groups[bucket], problems=())
            for task in tasks
            if (bucket := task.share.bucket) in groups
        ]
        return sum_of((done, self._all("carrying rows over", again)))

    def _all(self, words: str, items: list[Task], care: Care[Task, Done] | None = None) -> Done:
        results = _results(self._run)
        step = partial(self._progress, words)
        done = run_job(self._spark, run_task, items, Done.from_json, step, results, care)
        return sum_of(done)

    def _killed(self, task: Task) -> Done:
        """Note an array that kills the process that reads it; others go on."""
        arrays = [place.uri for place in task.share.places(task.run)]
        self._killers += [UnreadArrays(array, _KILLED) for array in arrays]
        check_limit(self._job.out, self._killers, self._plan.arrays, self._job.max_unreadable)
        return Done(changed=(task.share.bucket,))

    def _check_limit(self, done: Done) -> None:
        """Refuse to commit if more could not be read than the limit allows.

        Raises:
            UnreadableError: It is more.
        """
        starts = tuple(one.array for one in done.unread)
        # A folder of which no array is known stands for itself.
        folders = [
            unlisted_unread(folder, folder.uri)
            for folder in self._plan.problems
            if not folder.missing
            and not any(array.startswith(f"{folder.uri.rstrip('/')}/") for array in starts)
        ]
        cut = done.unread_count - len(done.unread)
        total = self._plan.arrays + done.hidden + len(folders)
        limit = MOST_UNREADABLE if cut else self._job.max_unreadable
        check_limit(self._job.out, (*done.unread, *folders), total, limit, more=cut)

    def maintain(self, done: Done) -> Maintenance:
        """Maintain the arrays that the policy wants maintained, unless the run was overtaken."""
        job, run_ = self._job, self._run
        run_.check_not_overtaken()
        policy = job.policy or simple_policy(fragments=job.fragments)
        work = Work(
            options=job.options,
            dry_run=job.dry_run,
            stops=stops_of(policy, job.out, job.out_storage, job.options),
            pause_s=pause_s(policy),
        )
        unread = {one.array for one in done.unread}
        due = arrays_due(policy, self._rows("findings"), self._rows("arrays"), unread)
        return run_maintenance(self._spark, due, policy, work, _results(run_), self._progress)

    def _rows(self, name: str) -> Callable[[list[str], ds.Expression | None], Iterator[Any]]:
        """Read some columns of a table, batch by batch."""

        def read(columns: list[str], only: ds.Expression | None = None) -> Iterator[Any]:
            delta = self._run.output.delta(name)
            if delta is not None:
                yield from delta.to_pyarrow_dataset().to_batches(columns=columns, filter=only)

        return read


def _results(run_: Run) -> Results:
    return Results(run_.store(), f"{run_.folder}/results")


def _split(task: Task) -> list[Task]:
    """Split the work of a task into smaller pieces; the first one looks for hidden arrays."""
    pieces = task.share.split()
    return [
        replace(task, share=share, problems=() if n else task.problems)
        for n, share in enumerate(pieces)
    ]
