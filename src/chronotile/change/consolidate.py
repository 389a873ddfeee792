"""Consolidation: one file in place of many, of commits, of fragment metadata, of metadata.

In: an array. Out: new files, and a report; nothing is removed, and every window sees the same.
Knows nothing of cells. Of commits, here: they need no key, and no look at fragments. The others are
in `consolidate_footers` and `consolidate_metadata`.

The new `.con` holds every effective write, unless an `.ign` names it (such a write is effective
only as a loose file, and stays loose). It holds every delete, ignored or not, as the engine applies
ignored ones too. It holds an update only if the caller asks for it, or if a `.con` holds it
already: the engine does not see an update in a `.con`. Records are in time order, updates last: an
engine that takes a tile for text then misreads nothing behind it.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Literal, NamedTuple, TypeAlias, get_args

import numpy as np

from chronotile.change.change_report import Before, Report, Step, check_mode, put, tell
from chronotile.change.consolidate_footers import FootersPlan, plan_footers
from chronotile.change.consolidate_metadata import MetadataPlan, plan_metadata, put_metadata
from chronotile.change.engine_open_cost_change import requests_of_opens
from chronotile.change.merged_files import array_metadata
from chronotile.change.removed_meanwhile import removed_meanwhile
from chronotile.change.sound_array import sound_history, write_version
from chronotile.check.findings import count_text
from chronotile.check.fragment_health import NEWER
from chronotile.errors import ChangedError
from chronotile.format.commit_files import Record, commit_name, encode_lines
from chronotile.format.con_names import later_name, later_name_at, rank
from chronotile.format.kinds import COMMITS, OK, UPD, WRT
from chronotile.format.names import NEWEST_VERSION, time_order
from chronotile.history.columns_to_con import encode_rows
from chronotile.history.con_coverage import commit_ids
from chronotile.storage.compared_put import put_compared
from chronotile.storage.store import Store, open_store

if TYPE_CHECKING:
    import os
    from collections.abc import Iterable, Mapping

    from chronotile.history.commit_table import CommitTable
    from chronotile.history.read_history import History
    from chronotile.history.uri_columns import I64
    from chronotile.visibility.rules import Rules

Mode: TypeAlias = Literal["commits", "fragment-meta", "array-meta", "all"]


def consolidate(
    array: str | os.PathLike[str],
    *,
    mode: Mode = "commits",
    dry_run: bool = False,
    updates: bool = False,
    key: bytes | str | None = None,
    storage_options: Mapping[str, str] | None = None,
    store: Store | None = None,
    before: Before = None,
) -> Report:
    """Writes one file that holds what many hold.

    Every window sees the same before and after. Nothing is removed: `vacuum` does that.

    Args:
        array: A path or a URI.
        mode: `commits` (a `.con` with every effective commit), `fragment-meta` (a `.meta` with the
            footer of every visible fragment), `array-meta` (one file of the array's metadata, and
            a `.vac` for those that it replaces), or `all` of them.
        dry_run: Write nothing.
        updates: Put loose updates in too; the engine then no longer sees them.
        key: The key of an encrypted array. Commits do not need it; with it, damaged deletes are
            noticed.
        storage_options: What the storage needs to know.
        store: The store, if it is open already.
        before: Called with the planned steps, before the first.

    Raises:
        RefusedError: The array is damaged, or too old to have `.con` files.
        KeyNeededError: The array is encrypted, and what is to be merged needs the key.
        ChangedError: Somebody else changes the same files; try again.

    >>> consolidate("memory:doc-nowhere")
    Traceback (most recent call last):
    chronotile.errors.ArrayNotFoundError: memory://doc-nowhere: expected an array, found no schema
    """
    opened = store or open_store(array, storage_options)
    check_mode(opened.uri, mode, get_args(Mode))
    history, rules = sound_history(opened, key, fragments=mode != "commits")
    plan = _planned(opened, history, rules, mode, updates=updates)
    costs = requests_of_opens(opened, rules, plan.steps, plan.footers.fragments)
    report = Report(
        "consolidate",
        opened.uri,
        dry_run=dry_run,
        steps=plan.steps,
        notes=plan.notes,
        engine_open_requests=costs,
    )
    if dry_run or not plan.steps:
        return report
    tell(before, report)
    more, late = _carry_out(opened, history, plan)
    return replace(report, steps=(*plan.steps, *more), notes=(*plan.notes, *late))


class CommitsPlan(NamedTuple):
    """The new `.con`, if one is needed."""

    steps: tuple[Step, ...] = ()
    notes: tuple[str, ...] = ()
    rows: I64 = np.zeros(0, np.int64)
    """The commits that it holds."""


class _Plan(NamedTuple):
    """All that is to be put."""

    commits: CommitsPlan = CommitsPlan()
    footers: FootersPlan = FootersPlan()
    metadata: MetadataPlan = MetadataPlan()

    @property
    def steps(self) -> tuple[Step, ...]:
        return (*self.commits.steps, *self.footers.steps, *self.metadata.steps)

    @property
    def notes(self) -> tuple[str, ...]:
        return (*self.commits.notes, *self.footers.notes, *self.metadata.notes)


def _planned(store: Store, history: History, rules: Rules, mode: Mode, *, updates: bool) -> _Plan:
    plan = _Plan()
    if mode in ("commits", "all"):
        plan = plan._replace(commits=plan_commits(history, updates=updates))
    if mode in ("fragment-meta", "all"):
        plan = plan._replace(footers=plan_footers(store, history, rules))
    if mode in ("array-meta", "all"):
        plan = plan._replace(metadata=plan_metadata(store, array_metadata(history)))
    return plan


def _carry_out(
    store: Store, history: History, plan: _Plan
) -> tuple[tuple[Step, ...], tuple[str, ...]]:
    """Puts what is planned; gives further steps that became necessary, and notes."""
    put_first = (*plan.commits.steps, *plan.footers.steps)
    gone = [step.path for step in put_first if not put_con(store, step)]
    more: tuple[Step, ...] = ()
    if plan.commits.steps:
        more = ignore_removed(store, history, plan.commits.rows)
    if plan.metadata.steps:
        put_metadata(store, array_metadata(history), plan.metadata)
    late = (f"{path} is gone already: another maintainer's file replaced it" for path in gone)
    return more, tuple(late)


def plan_commits(history: History, *, updates: bool = False) -> CommitsPlan:
    """Plans a `.con` with every effective commit, unless one is just that."""
    table = history.table
    rows = wanted_rows(table, updates=updates)
    notes = tuple(_notes(table, updates=updates))
    if not len(rows):
        return CommitsPlan(notes=notes)
    t1, t2 = int(table.uris.t1[rows].min()), int(table.uris.t2[rows].max())
    if _is_there(table, rows, t1, t2):
        return CommitsPlan(notes=notes)
    cons = [source.path for source in table.sources if not source.loose]
    name = later_name_at(t1, t2, cons, write_version(history))
    data = encode_rows(table, rows)
    counts = table.counts_by_kind(rows).items()
    reason = ", ".join(count_text(count, kind) for kind, count in counts)
    return CommitsPlan((put(f"{COMMITS}/{name}.con", data, reason),), notes, rows)


def wanted_rows(table: CommitTable, *, updates: bool) -> I64:
    """The rows of a `.con` with every effective commit: in time order, updates last.

    Of a commit that stands in several places, the engine sees the record of the latest `.con`. One
    of a version that is not known stays where it is.
    """
    uris = table.uris
    is_write = (uris.ext == WRT) | (uris.ext == OK)
    newer = table.is_from_version(NEWEST_VERSION + 1)
    writes = np.flatnonzero(table.counts & is_write & ~table.ignored & ~table.implied & ~newer)
    best: dict[str, tuple[tuple[bool, tuple[int, str]], int]] = {}
    for row in table.tile_rows.tolist():
        loose = table.is_loose(row)
        if newer[row] or (loose and uris.ext[row] == UPD and not updates):
            continue
        claim = ((not loose, rank(table.path(row))), row)
        uri = table.uri(row)
        if uri not in best or claim[0] > best[uri][0]:
            best[uri] = claim
    tiles = np.array([row for _, row in best.values()], np.int64)
    rows = np.sort(np.concatenate((writes, tiles)))
    is_update = uris.ext[rows] == UPD
    return np.concatenate((rows[~is_update], rows[is_update]))


def wanted_order(record: Record) -> tuple[bool, tuple[int, int, str]]:
    """The key that sorts the records of a `.con`: by time, updates last."""
    return record.uri.endswith(".upd"), time_order(commit_name(record.uri))


def _is_there(table: CommitTable, rows: I64, t1: int, t2: int) -> bool:
    """Whether a `.con` holds exactly these records, and a new one would not be kept for it.

    `con_coverage` has the order: of files with deletes or updates the latest is kept, and its name
    must have the true times. Of others the first by the text of the path is kept.
    """
    counts = np.bincount(table.source, minlength=len(table.sources)).tolist()
    fitting = f"{COMMITS}/__{t1}_{t2}_"
    cons = [number for number, source in enumerate(table.sources) if not source.loose]
    paths = {number: table.sources[number].path for number in cons}
    if (table.uris.ext[rows] > OK).any():
        latest = max(cons, key=lambda number: rank(paths[number]), default=-1)
        cons = [n for n in cons if n == latest and paths[n].startswith(fitting)]
    else:
        cons = [n for n in cons if paths[n][: len(fitting)] <= fitting]
    cons = [number for number in cons if counts[number] == len(rows)]
    if not cons:
        return False
    ids = commit_ids(table)
    wanted = np.sort(ids[rows])
    return any(np.array_equal(np.sort(ids[table.source == number]), wanted) for number in cons)


def ignore_removed(store: Store, history: History, rows: I64) -> tuple[Step, ...]:
    """Puts an `.ign` for the writes that somebody removed while the `.con` was made."""
    lines = removed_meanwhile(store, history, rows)
    if not lines:
        return ()
    path = f"{COMMITS}/{later_name(lines, (), write_version(history))}.ign"
    was = "was" if len(lines) == 1 else "were"
    reason = f"{count_text(len(lines), 'write')} {was} removed meanwhile"
    step = put(path, encode_lines(lines), reason)
    put_con(store, step)
    return (step,)


def put_con(store: Store, step: Step) -> bool:
    """Puts a file; false if another maintainer has already vacuumed it for a later one."""
    try:
        put_compared(store, step.path, step.data)
    except ChangedError:
        return False
    return True


def _notes(table: CommitTable, *, updates: bool) -> Iterable[str]:
    loose = table.loose
    kept = int(np.count_nonzero(loose & (table.uris.ext == UPD)))
    if kept and not updates:
        stay = "stays" if kept == 1 else "stay"
        yield f"{count_text(kept, 'update')} {stay} loose: the engine cannot read one inside a .con"
    elif kept:
        where = "is in the .con" if kept == 1 else "are in the .con"
        yield f"{count_text(kept, 'update')} {where}, unseen by the engine"
    ignored = int(np.count_nonzero(loose & (table.uris.ext <= OK) & table.ignored))
    if ignored:
        stay, them = ("stays", "it") if ignored == 1 else ("stay", "them")
        yield f"{count_text(ignored, 'write')} {stay} loose: an .ign names {them}"
    newer = int(np.count_nonzero(loose & table.is_from_version(NEWEST_VERSION + 1)))
    if newer:
        yield f"{count_text(newer, 'commit')} left loose: {NEWER}"
