"""Maintenance of a whole fleet, by policy.

In: the tables that a run has just made, and a policy. Out: which arrays are due, and two tables:
what was done to each, and every file by name. Tasks change arrays; the driver chooses them.

A limit on what may be removed is kept by planning first: the driver has every array planned, takes
arrays in order as long as they fit, and has those changed, or in a dry run told of. The pace is
kept by few tasks, each of which waits between two arrays. The stop switch, a file or object, is
looked at before each array: what is under way ends in order.
"""

from __future__ import annotations

import time
from collections import Counter
from dataclasses import dataclass, replace
from functools import partial
from itertools import chain
from typing import TYPE_CHECKING, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from chronotile.errors import ChronotileError
from chronotile.format.timestamps import now_ms
from chronotile.spark.maintenance.one_array import (
    MAINTENANCE,
    MAINTENANCE_FILES,
    Maintained,
    broken_off,
    maintain,
    passed_over,
)
from chronotile.spark.source.shares import packed
from chronotile.spark.surviving_tasks import Care, run_job
from chronotile.storage.place import MissingObjectError, find_place
from chronotile.storage.store import open_store

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence

    from pyspark.sql import SparkSession

    from chronotile.spark.maintenance.policy import Policy, Rule
    from chronotile.spark.pipeline.runs import Part, Run
    from chronotile.spark.source.options import Options
    from chronotile.spark.surviving_tasks import Results

STOP = "stop-maintenance"
"""The stop switch that every run looks at, in the output."""

FILES = "maintenance_files"
"""The table of every file that was put or removed."""

_FEW = 16
"""Arrays of one task, if nothing bounds the pace."""
_PARALLEL = 4
"""Tasks that share a pace, unless the policy says another number."""
_KILLED = "each process that tried was killed, as where memory runs out"


class Due(NamedTuple):
    """An array to maintain."""

    array: str
    rule: Rule


@dataclass(frozen=True, slots=True, kw_only=True)
class Work:
    """What a task needs beside its arrays; it is sent to each."""

    options: Options
    run: Run
    dry_run: bool
    stops: tuple[tuple[str, tuple[tuple[str, str], ...]], ...] = ()
    """The stop switches, each with the options of its storage."""
    pause_s: float = 0.0
    """Seconds from the begin of an array to the begin of the next one, at least."""
    names_files: bool = True
    """Whether tasks write the table of files."""


class GroupDone(NamedTuple):
    """What one task did."""

    arrays: tuple[Maintained, ...]
    """Without files, of which there may be very many."""
    parts: tuple[Part, ...] = ()
    """Its files of the table of files."""


def arrays_due(
    policy: Policy,
    findings: Iterable[pa.Table],
    arrays: Iterable[pa.Table],
    unread: Collection[str] = (),
    at_ms: int | None = None,
) -> list[Due]:
    """The arrays that a policy wants maintained, sorted.

    Args:
        policy: The policy.
        findings: The table of findings, part by part.
        arrays: The table of arrays, part by part.
        unread: Arrays that could not be read, which are left alone.
        at_ms: The time from which ages count; now if left out.

    >>> from chronotile.spark.maintenance.policy import simple_policy
    >>> table = pa.table({"code": ["many-loose-commits", "tile-corrupt"], "array": ["a", "b"]})
    >>> [due.array for due in arrays_due(simple_policy(fragments=False), [table], [])]
    ['a']
    """
    codes = frozenset(chain.from_iterable(rule.codes for rule in policy.rules))
    mended = pa.array(sorted(codes), pa.string())
    found: dict[str, set[str]] = {}
    for table in findings:
        table = table.filter(pc.is_in(table["code"], mended))
        for array, code in zip(table["array"].to_pylist(), table["code"].to_pylist(), strict=True):
            found.setdefault(array, set()).add(code)
    if any(rule.always or rule.quiet_ms for rule in policy.rules):
        last = _last_commits(arrays)
    else:
        last = dict.fromkeys(found)
    now = now_ms() if at_ms is None else at_ms
    due = []
    for array in sorted((last.keys() | found.keys()) - set(unread)):
        rule = policy.rule_of(array)
        if rule is None or not (rule.always or found.get(array, set()) & rule.codes):
            continue
        if (last.get(array) or 0) <= now - rule.quiet_ms:
            due.append(Due(array, rule))
    return due


def _last_commits(arrays: Iterable[pa.Table]) -> dict[str, int | None]:
    """Array -> the time of its last commit."""
    last: dict[str, int | None] = {}
    for table in arrays:
        pairs = zip(table["array"].to_pylist(), table["last_timestamp"].to_pylist(), strict=True)
        last |= dict(pairs)
    return last


def run_maintenance(
    spark: SparkSession,
    due: Sequence[Due],
    policy: Policy,
    work: Work,
    results: Results,
    progress: Callable[[str, int, int], None],
) -> tuple[list[Part], tuple[tuple[str, int], ...]]:
    """Maintains arrays; returns the files of both tables, and (outcome, arrays) pairs."""
    limits = policy.limits
    chosen, left = due[: limits.arrays], due[limits.arrays :] if limits.arrays else ()
    over = [(one, f"the policy allows {limits.arrays} arrays") for one in left]

    def job(words: str, items: Sequence[Due], work: Work) -> list[GroupDone]:
        care = Care(split=_split, give_up=partial(_killed, work))
        groups = list(_groups(items, policy, work))
        named = partial(progress, words)
        return run_job(spark, partial(maintain_group, work=work), groups, named, results, care)

    if limits.removed_files is not None or limits.removed_bytes is not None:
        plan = replace(work, dry_run=True, pause_s=0.0, names_files=False)
        planned = [one for done in job("planning maintenance", chosen, plan) for one in done.arrays]
        chosen, more = _fitting(chosen, planned, policy)
        over += more
    done = job("maintaining arrays", chosen, work)
    done.append(
        GroupDone(tuple(passed_over(d.array, "left", why, dry_run=work.dry_run) for d, why in over))
    )
    return _tables(work.run, done)


def _fitting(
    due: Sequence[Due], planned: Sequence[Maintained], policy: Policy
) -> tuple[list[Due], list[tuple[Due, str]]]:
    """The arrays, in order, whose removals fit into the limits; and the others."""
    limits = policy.limits
    plans = {one.rows[0]["array"]: one for one in planned if one.rows}
    files = size = 0
    fit: list[Due] = []
    over: list[tuple[Due, str]] = []
    for one in due:
        plan = plans.get(one.array)
        more_files, more_bytes = plan.removed if plan else (0, 0)
        if limits.removed_files is not None and files + more_files > limits.removed_files:
            over.append((one, f"the policy allows {limits.removed_files} removed files"))
        elif limits.removed_bytes is not None and size + more_bytes > limits.removed_bytes:
            over.append((one, f"the policy allows {limits.removed_bytes} removed bytes"))
        else:
            files, size = files + more_files, size + more_bytes
            fit.append(one)
    return fit, over


def _groups(items: Sequence[Due], policy: Policy, work: Work) -> Iterator[tuple[Due, ...]]:
    """The arrays of each task."""
    limits = policy.limits
    if work.dry_run or (limits.parallel is None and limits.arrays_per_minute is None):
        yield from packed(items, _FEW)
        return
    tasks = limits.parallel or _PARALLEL
    yield from (tuple(items[n::tasks]) for n in range(min(tasks, len(items))))


def pause_s(policy: Policy) -> float:
    """Seconds that each of the parallel tasks takes at least for an array.

    >>> from chronotile.spark.maintenance.policy import Limits, Policy
    >>> pause_s(Policy(rules=(), limits=Limits(arrays_per_minute=120, parallel=2)))
    1.0
    """
    limits = policy.limits
    if limits.arrays_per_minute is None:
        return 0.0
    return 60.0 * (limits.parallel or _PARALLEL) / limits.arrays_per_minute


def _split(group: tuple[Due, ...]) -> list[tuple[Due, ...]]:
    """Halves, so that a pace that few tasks share is not lost."""
    half = len(group) // 2
    return [group[:half], group[half:]] if half else []


def _killed(work: Work, group: tuple[Due, ...]) -> GroupDone:
    return GroupDone(tuple(broken_off(one.array, _KILLED, work.dry_run) for one in group))


def maintain_group(group: tuple[Due, ...], work: Work) -> GroupDone:
    """What one task does: array after array, until the stop switch is there."""
    done = _one_by_one(group, work)
    files = [row for one in done for row in one.files]
    table = pa.Table.from_pylist(files, schema=MAINTENANCE_FILES)
    parts = (work.run.write(FILES, table),) if files and work.names_files else ()
    return GroupDone(tuple(replace(one, files=()) for one in done), parts)


def _one_by_one(group: tuple[Due, ...], work: Work) -> list[Maintained]:
    done: list[Maintained] = []
    for number, one in enumerate(group):
        began = time.monotonic()
        stopped = stopped_by(work.stops)
        if stopped is not None:
            why = f"{stopped} is there"
            done += [
                passed_over(rest.array, "stopped", why, dry_run=work.dry_run)
                for rest in group[number:]
            ]
            break
        done.append(maintain(one.array, work.options, work.run, one.rule, dry_run=work.dry_run))
        if number + 1 < len(group):
            time.sleep(max(0.0, began + work.pause_s - time.monotonic()))
    return done


def stopped_by(stops: Iterable[tuple[str, tuple[tuple[str, str], ...]]]) -> str | None:
    """The stop switch that is there; a switch that nobody can look at counts as one that is.

    >>> stopped_by([("memory://doc-stop/off", ())]) is None
    True
    >>> open_store("memory://doc-stop").put_if_absent("off", b"")
    >>> stopped_by([("memory://doc-stop/off", ())])
    'memory://doc-stop/off'
    """
    for place, storage in stops:
        folder, _, name = find_place(place).uri.rpartition("/")
        try:
            open_store(folder or "/", dict(storage)).head(name)
        except MissingObjectError:
            continue
        except ChronotileError as error:
            if isinstance(error, FileNotFoundError):
                continue
            return f"expected to look for {place}, found: {error}; as if it"
        return place
    return None


def _tables(run: Run, done: Sequence[GroupDone]) -> tuple[list[Part], tuple[tuple[str, int], ...]]:
    rows = [row for group in done for one in group.arrays for row in one.rows]
    rows.sort(key=lambda row: (row["array"], row["command"]))
    outcomes = Counter(f"{row['command']} {row['outcome']}" for row in rows)
    parts = [part for group in done for part in group.parts]
    # A table without rows gets an empty file, so that readers can read it.
    files = parts or [run.write(FILES, MAINTENANCE_FILES.empty_table())]
    report = run.write("maintenance", pa.Table.from_pylist(rows, schema=MAINTENANCE))
    return [report, *files], tuple(sorted(outcomes.items()))


def stops_of(
    policy: Policy, out: str, storage: Mapping[str, str], options: Options
) -> tuple[tuple[str, tuple[tuple[str, str], ...]], ...]:
    """The stop switches of a run: one in the output, and the policy's own."""
    own = ((policy.stop, options.storage),) if policy.stop is not None else ()
    return ((f"{out.rstrip('/')}/{STOP}", tuple(sorted(storage.items()))), *own)
