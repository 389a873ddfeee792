"""Maintenance of a fleet, by policy.

In: the tables that a run has just committed, and a policy. Out: which arrays are due, and what
`compact`, `consolidate` and `vacuum` did to them, or would do, in numbers. Tasks change arrays; the
driver chooses them. Each array keeps a record of what was done to it (`change.operations`), which
the next run shows in the table `operations`.

A limit on what may be removed is kept by planning first: the driver takes arrays in order as long
as they fit. A dry run plans `vacuum` for the array with the files that `consolidate` would put, and
with the record that it would leave. The pace is kept by few tasks, each of which waits between two
arrays. The stop switch, a file or object, is looked at before each array: what is under way ends in
order.
"""

from __future__ import annotations

import time
from collections import Counter
from dataclasses import dataclass, replace
from functools import partial
from itertools import chain
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

import pyarrow as pa
import pyarrow.compute as pc

from chronotile.array import Array
from chronotile.change.operations import foreseen
from chronotile.change.plan import FOLDERS
from chronotile.errors import ChronotileError
from chronotile.fleet.shares import packed
from chronotile.fleet.surviving_tasks import KILLED, Care, run_job
from chronotile.format.timestamps import now_ms
from chronotile.storage.overlay import overlaid
from chronotile.storage.store import open_file, open_store

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence

    from pyspark.sql import SparkSession

    from chronotile.change.plan import Report
    from chronotile.fleet.options import Options
    from chronotile.fleet.policy import Limits, Policy, PolicyRule
    from chronotile.fleet.surviving_tasks import Results
    from chronotile.storage.store import Store

    ReadRows: TypeAlias = Callable[[list[str], pc.Expression | None], Iterable[pa.RecordBatch]]
    """Reads some columns of a table, and the rows that a filter keeps, batch by batch."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Maintained:
    """The outcome of one command on an array.

    If a task is lost after its work is done, the task that runs again says `nothing`; the record in
    the array tells what the first one did.
    """

    array: str
    command: str
    outcome: str
    """`done`, `planned`, `nothing`, `refused`, `left` (by a limit) or `stopped`."""
    put: int = 0
    removed: int = 0
    bytes_put: int = 0
    bytes_removed: int = 0
    why: str = ""


def maintain(array: str, options: Options, rule: PolicyRule, *, dry_run: bool) -> list[Maintained]:
    """Merge fragments of one array, consolidate and vacuum it, as its rule says."""
    store = open_store(array, options.storage_options)
    done: list[Maintained] = []
    for command in ("compact", "consolidate", "vacuum"):
        if getattr(rule, command) is None:
            continue
        try:
            report = _change(command, store, options, rule, dry_run=dry_run)
        except Exception as error:  # one bad array must not stop a fleet
            why = str(error) or type(error).__name__
            done.append(Maintained(array=array, command=command, outcome="refused", why=why))
            if command == "compact":
                continue  # as where there is no engine: the rest needs none
            break  # vacuum removes nothing from an array that could not be consolidated
        done.append(_maintained(array, report))
        new = {step.path: step.data for step in report.steps if step.op == "put"}
        if dry_run and new and command != "compact":
            record = foreseen(store, report, _PLANNED, report.state)
            store = overlaid(store, new | record)
    return done


def _change(
    command: str, store: Store, options: Options, rule: PolicyRule, *, dry_run: bool
) -> Report:
    array = Array(store, options.read_key())
    if command == "compact" and rule.compact is not None:
        target, memory, quiet = rule.compact
        return array.compact(
            target_bytes=target, max_memory=memory, quiet=quiet, keep=rule.keep, dry_run=dry_run
        )
    if command == "consolidate" and rule.consolidate is not None:
        return array.consolidate(rule.consolidate, dry_run=dry_run)
    assert rule.vacuum is not None
    return array.vacuum(
        rule.vacuum,
        dry_run=dry_run,
        orphans=rule.orphans,
        orphan_age=rule.age_ms / 3_600_000,
        deletes=rule.deletes,
        keep=rule.keep,
        keep_days=rule.keep_days,
    )


def _maintained(array: str, report: Report) -> Maintained:
    put = [step.size or 0 for step in report.steps if step.op in ("put", *FOLDERS)]
    removed = [step.size or 0 for step in report.steps if step.op == "remove"]
    return Maintained(
        array=array,
        command=report.command,
        outcome=("planned" if report.dry_run else "done") if report.steps else "nothing",
        put=len(put),
        removed=len(removed),
        bytes_put=sum(put),
        bytes_removed=sum(removed),
        why="; ".join(report.notes).replace(_PLANNED, "the consolidate before it"),
    )


_PLANNED = "0" * 8
"""The id of a consolidate that a dry run has planned."""


def _passed_over(array: str, outcome: str, why: str) -> Maintained:
    return Maintained(array=array, command="maintain", outcome=outcome, why=why)


STOP = "stop-maintenance"
"""The stop switch that every run looks at, in the output."""

IN_TASK = 16
"""Arrays of one task, if nothing bounds the pace."""
_PARALLEL = 4
"""Tasks that share a pace, unless the policy says another number."""


class Maintenance(NamedTuple):
    """The outcome of maintenance."""

    outcomes: tuple[tuple[str, int], ...] = ()
    """(command and outcome, arrays) pairs."""
    planned: tuple[str, ...] = ()
    """What a dry run would do, a line each."""


class Due(NamedTuple):
    """An array to maintain, or only to tell of, as it killed each process that tried."""

    array: str
    rule: PolicyRule
    killed: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Work:
    """The settings that each task of maintenance gets beside its arrays."""

    options: Options
    dry_run: bool
    stops: tuple[tuple[str, tuple[tuple[str, str], ...]], ...] = ()
    """The stop switches, each with the options of its storage."""
    pause_s: float = 0.0
    """Seconds from the begin of an array to the begin of the next one, at least."""


def arrays_due(
    policy: Policy,
    findings: ReadRows,
    arrays: ReadRows,
    unread: Collection[str] = (),
    at_ms: int | None = None,
) -> list[Due]:
    """List the arrays that a policy wants maintained, sorted, but for those that are unread.

    Two functions read the tables `findings` and `arrays`; ages count from `at_ms`, or from now.

    >>> from chronotile.fleet.policy import simple_policy
    >>> rows = {"code": ["many-loose-commits", "tile-corrupt"], "uri": ["a", "b"]}
    >>> table = pa.table({**rows, "last_timestamp": [1, 2]})
    >>> read = lambda columns, only: table.filter(only).select(columns).to_batches()
    >>> [due.array for due in arrays_due(simple_policy(fragments=False), read, read)]
    ['a']
    """
    codes = {*chain.from_iterable(rule.codes for rule in policy.rules)}
    found: dict[str, set[str]] = {}
    for batch in findings(["uri", "code"], _one_of("code", codes)):
        for array, code in zip(*(batch[n].to_pylist() for n in ("uri", "code")), strict=True):
            found.setdefault(array, set()).add(code)
    now = now_ms() if at_ms is None else at_ms
    only = None if any(rule.always for rule in policy.rules) else _one_of("uri", found)
    due = []
    for batch in arrays(["uri", "last_timestamp"], only):
        columns = (batch[name].to_pylist() for name in ("uri", "last_timestamp"))
        for array, last_ms in zip(*columns, strict=True):
            rule = None if array in unread else policy.rule_of(array)
            if rule is None or not (rule.always or found.get(array, set()) & rule.codes):
                continue
            if (last_ms or 0) <= now - rule.quiet_ms:
                due.append(Due(array, rule))
    return sorted(due, key=lambda one: one.array)


def _one_of(column: str, texts: Iterable[str]) -> pc.Expression:
    """Keep the rows that have one of some texts, of which there may be none."""
    return pc.field(column).isin(pa.array(sorted(texts), pa.string()))


def run_maintenance(
    spark: SparkSession | None,
    waves: Iterable[Sequence[Due]],
    policy: Policy,
    work: Work,
    results: Results,
    progress: Callable[[str, int, int], None],
) -> Maintenance:
    """Maintain arrays, wave by wave, within the limits of the policy."""
    limits, used, outcomes = policy.limits, Counter[str](), Counter[str]()
    lines: list[str] = []

    def job(words: str, items: Sequence[Due], work: Work) -> list[Maintained]:
        care = Care(split=_split, give_up=_killed)
        groups = list(_groups(items, policy, work))
        step, each = partial(progress, words), partial(maintain_group, work=work)
        done = run_job(spark, groups, step, results, work=each, care=care)
        return [Maintained(**one) for group in done for one in group]

    for due in waves:
        chosen = due if limits.arrays is None else due[: limits.arrays - used["arrays"]]
        used["arrays"] += len(chosen)
        left = due[len(chosen) :]
        over = [(one, f"the policy allows {limits.arrays} arrays") for one in left]
        if limits.removed_files is not None or limits.removed_bytes is not None:
            planned = job("planning maintenance", chosen, replace(work, dry_run=True, pause_s=0.0))
            chosen, more = _fitting(chosen, planned, limits, used)
            over += more
        done = job("maintaining arrays", chosen, work)
        done += [_passed_over(one.array, "left", why) for one, why in over]
        outcomes.update(f"{one.command} {one.outcome}" for one in done)
        lines += map(_line, done) if work.dry_run else ()
    return Maintenance(tuple(sorted(outcomes.items())), tuple(sorted(lines)))


def _line(one: Maintained) -> str:
    """Tell in a line what a dry run would do to an array."""
    numbers = f"{one.put} put ({one.bytes_put:,} bytes), "
    numbers += f"{one.removed} removed ({one.bytes_removed:,} bytes)"
    text = numbers if one.outcome == "planned" else one.outcome
    return f"{one.array}: {one.command}: {text}" + (f" ({one.why})" if one.why else "")


def _fitting(
    due: Sequence[Due], planned: Sequence[Maintained], limits: Limits, used: Counter[str]
) -> tuple[list[Due], list[tuple[Due, str]]]:
    """Choose the arrays, in order, whose removals fit into the limits; give the others too."""
    removals: dict[str, list[int]] = {}
    for plan in planned:
        sums = removals.setdefault(plan.array, [0, 0])
        sums[0], sums[1] = sums[0] + plan.removed, sums[1] + plan.bytes_removed
    fit: list[Due] = []
    over: list[tuple[Due, str]] = []
    for one in due:
        files, size = removals.get(one.array, (0, 0))
        if limits.removed_files is not None and used["files"] + files > limits.removed_files:
            over.append((one, f"the policy allows {limits.removed_files} removed files"))
        elif limits.removed_bytes is not None and used["bytes"] + size > limits.removed_bytes:
            over.append((one, f"the policy allows {limits.removed_bytes} removed bytes"))
        else:
            used.update(files=files, bytes=size)
            fit.append(one)
    return fit, over


def _groups(items: Sequence[Due], policy: Policy, work: Work) -> Iterator[tuple[Due, ...]]:
    """Give the arrays of each task."""
    limits = policy.limits
    if work.dry_run or (limits.parallel is None and limits.arrays_per_minute is None):
        yield from packed(items, IN_TASK)
        return
    tasks = limits.parallel or _PARALLEL
    yield from (tuple(items[n::tasks]) for n in range(min(tasks, len(items))))


def pause_s(policy: Policy) -> float:
    """Give the seconds that each of the parallel tasks takes at least for an array.

    >>> from chronotile.fleet.policy import Limits, Policy
    >>> pause_s(Policy(rules=(), limits=Limits(arrays_per_minute=120, parallel=2)))
    1.0
    """
    limits = policy.limits
    if limits.arrays_per_minute is None:
        return 0.0
    return 60.0 * (limits.parallel or _PARALLEL) / limits.arrays_per_minute


def _split(group: tuple[Due, ...]) -> list[tuple[Due, ...]]:
    """Halve a group, so that a pace that few tasks share is not lost."""
    half = len(group) // 2
    return [group[:half], group[half:]] if half else []


def _killed(group: tuple[Due, ...]) -> tuple[Due, ...]:
    return tuple(one._replace(killed=True) for one in group)


def maintain_group(group: tuple[Due, ...], work: Work) -> list[Maintained]:
    """Maintain array after array in one task, until the stop switch is there."""
    done: list[Maintained] = []
    for number, one in enumerate(group):
        began = time.monotonic()
        stopped = stopped_by(work.stops)
        if stopped is not None:
            why = f"{stopped} is there"
            done += [_passed_over(rest.array, "stopped", why) for rest in group[number:]]
            break
        if one.killed:
            done.append(_passed_over(one.array, "refused", KILLED))
            continue
        done += maintain(one.array, work.options, one.rule, dry_run=work.dry_run)
        if number + 1 < len(group):
            time.sleep(max(0.0, began + work.pause_s - time.monotonic()))
    return done


def stopped_by(stops: Iterable[tuple[str, tuple[tuple[str, str], ...]]]) -> str | None:
    """Give the stop switch that is there; an unreadable stop switch counts as set.

    >>> stopped_by([("memory://doc-stop/off", ())]) is None
    True
    >>> open_store("memory://doc-stop").put_if_absent("off", b"")
    >>> stopped_by([("memory://doc-stop/off", ())])
    'memory://doc-stop/off'
    """
    for place, storage in stops:
        try:
            store, name = open_file(place, dict(storage))
            store.head(name)
        except FileNotFoundError:
            continue
        except ChronotileError as error:
            return f"expected to look for {place}, found: {error}; as if it"
        return place
    return None


def stops_of(
    policy: Policy, out: str, storage: Mapping[str, str], options: Options
) -> tuple[tuple[str, tuple[tuple[str, str], ...]], ...]:
    """Give the stop switches of a run: one in the output, and the policy's own."""
    own = ((policy.stop, options.storage),) if policy.stop is not None else ()
    return ((f"{out.rstrip('/')}/{STOP}", tuple(sorted(storage.items()))), *own)
