"""The pipeline: every table of a fleet as a Delta table, in one pass over the storage.

In: roots of arrays, and a folder for output. Out: commits to the tables of the store, and the
`Summary` of the run; or an error, and the last good rows still in place.

    plan.plan_fleet                on the driver: which task reads which part of the fleet
    surviving_tasks.run_job        a write of Spark's for each wave, by `session.sink`
        work=read_part.run_task    in each task: reads commit logs, writes Parquet files
        commit=_Wave.commit        on Spark's driver, once, when every task has ended
            delta_store.Run.commit     adds the files to each Delta table

A fleet is read in waves, each committed by itself, so that a run that is killed has not worked in
vain: with `since_last` the next one goes on. If more arrays than the limit allows cannot be read,
the run stops; else it repeats their rows from the last run that could read them, as stale.

Nothing in the driver grows with the fleet: it knows parts and their files (see `shares`), and of
arrays their number.
"""

from __future__ import annotations

import time
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, Any

import pyarrow.compute as pc

from chronotile.errors import ChronotileError, StorageError
from chronotile.fleet.array_tables import findings_table
from chronotile.fleet.check_all import group_findings, unlisted
from chronotile.fleet.delta_store import (
    BUCKET,
    LISTINGS,
    DataFile,
    Run,
    StoreSnapshot,
    new_run,
    open_output,
    renamed,
)
from chronotile.fleet.maintenance import (
    Due,
    Maintenance,
    Work,
    arrays_due,
    pause_s,
    run_maintenance,
    stops_of,
)
from chronotile.fleet.plan import IN_DRIVER, FleetPlan, plan_fleet, results_of
from chronotile.fleet.read_part import (
    UNREAD_MAX,
    Done,
    PartWriter,
    Task,
    older_part,
    run_task,
    sum_of,
    unchanged_here,
)
from chronotile.fleet.run_summary import (
    MAX_UNREADABLE,
    Limit,
    Summary,
    UnreadArrays,
    check_limit,
    read_limit,
    totals_in,
    totals_of,
)
from chronotile.fleet.shares import NO_PART, Share, packed, part_of
from chronotile.fleet.surviving_tasks import KILLED, Care, last_error, run_job

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from pyspark.sql import SparkSession

    from chronotile.fleet.check_all import FleetCheck
    from chronotile.fleet.find_arrays import Unlisted
    from chronotile.fleet.options import Options
    from chronotile.fleet.policy import Policy


MOST_UNREADABLE = read_limit(str(UNREAD_MAX))
"""The largest limit: the driver holds no more names."""
ARRAYS_IN_WAVE = 1 << 16
"""Arrays that are read before a commit: some minutes of work."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """A run of the pipeline, as the user asks for it."""

    options: Options
    out: str
    out_storage: dict[str, str] = field(default_factory=dict, repr=False)
    since_last: bool = False
    """Read only arrays that have changed since the last run."""
    policy: Policy | None = None
    """What maintenance does to which arrays; None for no maintenance."""
    dry_run: bool = False
    """Maintenance only reports what it would do."""
    checked: FleetCheck | None = None
    """The findings on the fleet, if a check has them already."""
    max_unreadable: Limit = MAX_UNREADABLE


def run(
    spark: SparkSession | None,
    job: Job,
    progress: Callable[[str, int, int], None] | None = None,
) -> Summary:
    """Run the pipeline, in a session, or without one in processes of this machine.

    `progress` is called now and then with (what is under way, tasks done, all tasks).

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
        done, versions = pipeline.read()
        inventory = pipeline.plan.inventory
        changed = {name: n for name, n in versions.items() if n != snapshot.versions[name]}
        # A run that died after its last commit has not told of it.
        told = {} if changed else output.last_run()
        told_of = dict(told.get("versions", ()))
        totals = totals_in(told.get("totals") or "{}") if told_of == versions else None
        summary = Summary(
            out=job.out,
            run=run_.name,
            totals=totals or totals_of(output.rows),
            read=done.read,
            unchanged=done.unchanged,
            unreadable=done.unread_count,
            files_read=done.files_read,
            reads=done.reads,
            seconds=time.monotonic() - began,
            inventory_age_s=inventory.age_s if inventory else None,
            versions=changed,
        )
        if told_of.get(LISTINGS) != versions[LISTINGS]:
            if not changed:
                run_.check_not_overtaken()
            run_.tell(summary, versions)
        maintained = pipeline.maintain(job.policy, done) if job.policy else Maintenance()
    except ChronotileError:
        raise
    except Exception as cause:
        problem = f"expected the job to end, found: {last_error(cause)}"
        raise StorageError(job.out, problem) from cause
    finally:
        run_.end()
    return replace(
        summary,
        seconds=time.monotonic() - began,
        maintained=maintained.outcomes,
        planned=maintained.planned,
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
        self._seen: dict[str, bool] = {}
        """Array that the store knows -> whether the driver has seen that it has not changed."""
        self.plan = FleetPlan(0, (), 0, ())

    @property
    def _replaces_all(self) -> bool:
        """True if nothing of the tables can stay as it is."""
        before = self._snapshot.parts
        return self._snapshot.is_torn or (before is not None and before != self.plan.parts)

    @property
    def _unlisted(self) -> tuple[Unlisted, ...]:
        """The folders that are there, and could not be listed."""
        return tuple(one for one in self.plan.problems if not one.missing)

    def read(self) -> tuple[Done, dict[str, int]]:
        """Read the fleet, wave by wave, and commit the tables; give the version of each."""
        look = partial(self._progress, "looking for arrays")
        look(0, 0)
        # Members of groups outside of the roots are read, and never changed.
        follow = self._job.policy is None
        if self._job.since_last and not self._snapshot.is_torn:
            self._seen = unchanged_here(self._run.output, self._job.options, IN_DRIVER)
        self.plan = plan_fleet(
            self._spark,
            self._job.options,
            self._run,
            self._snapshot.parts,
            look,
            known=frozenset(array for array, is_same in self._seen.items() if is_same),
            follow=follow,
        )
        versions = dict(self._snapshot.versions)
        same = self._same_parts()
        done = Done(unchanged=sum(one.count for one in self.plan.shares if one.part in same))
        files, replaced = self._folders()
        for tasks in self._waves(same):
            wave = _Wave(
                run=self._run,
                part_count=self.plan.parts,
                before=done,
                files=files,
                replaced=None if self._replaces_all else replaced,
                folders=self._unlisted,
                arrays=self.plan.arrays,
                limit=self._job.max_unreadable,
            )
            care = Care(split=_split, give_up=self._killed)
            step = partial(self._progress, "reading commit logs")
            results = results_of(self._run)
            answer = run_job(
                self._spark, tasks, step, results, work=run_task, care=care, commit=wave.commit
            )
            done, versions = Done.from_json(answer["done"]), answer["versions"] or versions
            files, replaced = (), frozenset()
        return done, versions

    def _same_parts(self) -> frozenset[int]:
        """Give the parts that need no task: the driver has seen all of their arrays unchanged."""
        plan = self.plan
        if self._replaces_all or plan.problems:
            return frozenset()
        groups = {file.part for file in self._snapshot.files["members"]}
        groups |= {part_of(group, plan.parts) for group in plan.groups}
        known: dict[int, dict[str, bool]] = {}
        for array, is_same in self._seen.items():
            known.setdefault(part_of(array, plan.parts), {})[array] = is_same
        return frozenset(
            share.part
            for share in plan.shares
            if share.part not in groups
            and share.count == len(own := known.get(share.part, {}))
            and all(own.get(place.uri) for place in share.places(self._run))
        )

    def _folders(self) -> tuple[tuple[DataFile, ...], frozenset[int]]:
        """Write the findings on groups and folders, if others are there; tell what they replace."""
        job, writer = self._job, PartWriter(self._run, NO_PART)
        found = job.checked.beside_arrays if job.checked else map(unlisted, self.plan.problems)
        if job.checked is None and self._spark is None:
            # A driver of Spark would read every group of a large fleet.
            key, storage = job.options.key_at_driver(), job.options.storage_options
            found = (*group_findings(self.plan.groups, key, storage), *found)
        table, is_there = findings_table(found), NO_PART in self._snapshot.filled
        now, only = renamed(table), pc.field(BUCKET) == NO_PART
        stored = self._run.output.rows("findings", now.column_names, only) if is_there else ()
        before = [row for batch in stored for row in batch.to_pylist()]
        if before == now.to_pylist() and not self._replaces_all:
            return (), frozenset()
        writer.add("findings", table)
        return writer.close(), frozenset({NO_PART})

    def _waves(self, same: frozenset[int]) -> Iterator[list[Task]]:
        """Divide the tasks; a fleet that is now divided in another way is one wave."""
        wave: list[Task] = []
        arrays = 0
        for task in self._tasks(same):
            if wave and arrays + task.size > ARRAYS_IN_WAVE and not self._replaces_all:
                yield wave
                wave, arrays = [], 0
            wave.append(task)
            arrays += task.size
        yield wave

    def _tasks(self, same: frozenset[int]) -> Iterator[Task]:
        job, plan, output = self._job, self.plan, self._run.output
        inventory = plan.inventory
        shares = {share.part: share for share in plan.shares}
        groups: dict[int, list[str]] = {}
        for group in plan.groups:
            groups.setdefault(part_of(group, plan.parts), []).append(group)
        checked = job.checked.by_array() if job.checked else {}
        wanted = {*shares, *groups}
        if self._snapshot.parts is not None:
            # Arrays that only the last run knows can be in any part.
            every = frozenset(range(plan.parts))
            wanted |= every if self._replaces_all else every & self._snapshot.filled
        for part in sorted(wanted - same):
            yield Task(
                share=shares.get(part, Share(part=part)),
                options=job.options,
                run=self._run,
                older=older_part(output, self._snapshot, part, plan.parts),
                since_last=job.since_last and not self._snapshot.is_torn,
                groups=tuple(groups.get(part, ())),
                problems=self._unlisted,
                fresh_ms=inventory.created_ms if inventory and job.options.fresh else None,
                fleet=plan.arrays,
                limit=job.max_unreadable,
                findings={
                    array: found
                    for array, found in checked.items()
                    if part_of(array, plan.parts) == part
                },
            )

    def _killed(self, task: Task) -> Task:
        """Give the task that repeats the rows of an array that kills whoever reads it."""
        arrays = [place.uri for place in task.share.places(task.run)]
        self._killers += [UnreadArrays(array, KILLED) for array in arrays]
        check_limit(self._job.out, self._killers, self.plan.arrays, self._job.max_unreadable)
        given_up = dict.fromkeys(arrays, KILLED)
        share = Share(part=task.share.part)
        return replace(task, share=share, given_up=given_up, problems=())

    def maintain(self, policy: Policy, done: Done) -> Maintenance:
        """Maintain the arrays that the policy wants maintained, unless the run was overtaken."""
        job, run_ = self._job, self._run
        run_.check_not_overtaken()
        work = Work(
            options=job.options,
            dry_run=job.dry_run,
            stops=stops_of(policy, job.out, job.out_storage, job.options),
            pause_s=pause_s(policy),
        )
        unread = {one.array for one in done.unread}

        def due(parts: Sequence[int]) -> list[Due]:
            def rows(name: str, columns: list[str], only: pc.Expression | None) -> Any:
                own = pc.field(BUCKET).isin(parts)
                return run_.output.rows(name, columns, own if only is None else own & only)

            return arrays_due(policy, partial(rows, "findings"), partial(rows, "arrays"), unread)

        most = max(self.plan.parts * ARRAYS_IN_WAVE // max(self.plan.arrays, 1), 1)
        waves = map(due, packed(range(self.plan.parts), most))
        return run_maintenance(self._spark, waves, policy, work, results_of(run_), self._progress)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Wave:
    """The end of a wave: what Spark's driver does with the results of all tasks."""

    run: Run
    part_count: int
    before: Done
    """What earlier waves have done."""
    files: tuple[DataFile, ...]
    """Files that no task wrote."""
    replaced: frozenset[int] | None
    """Parts that those files stand for; None if the rows of all parts are replaced."""
    folders: tuple[Unlisted, ...]
    arrays: int
    limit: Limit

    def commit(self, documents: list[Any]) -> dict[str, Any]:
        """Commit what the tasks have written, if they could read enough."""
        added = sum_of(map(Done.from_json, documents))
        done = sum_of((self.before, added))
        self._check_limit(done)
        replaced = None if self.replaced is None else {*added.changed, *self.replaced}
        files = (*added.files, *self.files)
        versions = self.run.commit(files, replaced=replaced, part_count=self.part_count)
        return {"done": asdict(replace(done, files=(), changed=())), "versions": versions}

    def _check_limit(self, done: Done) -> None:
        starts = tuple(one.array for one in done.unread)
        # A folder of which no array is known stands for itself.
        folders = [
            UnreadArrays(folder.uri, f"{folder.uri} cannot be listed: {folder.message}")
            for folder in self.folders
            if not any(array.startswith(f"{folder.uri.rstrip('/')}/") for array in starts)
        ]
        cut = done.unread_count - len(done.unread)
        total = self.arrays + done.hidden + len(folders)
        limit = MOST_UNREADABLE if cut else self.limit
        check_limit(self.run.output.out, (*done.unread, *folders), total, limit, more=cut)


def _split(task: Task) -> list[Task]:
    """Split the work of a task; the first piece looks at groups, and for hidden arrays."""
    rest = replace(task, problems=(), groups=())
    return [replace(rest if n else task, share=one) for n, one in enumerate(task.share.split())]
