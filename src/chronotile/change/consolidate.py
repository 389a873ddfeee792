"""Consolidation: one file in place of many, of commits, of fragment metadata, of metadata.

In: an array. Out: the plan of new files; nothing is removed, and every window sees the same.
Knows nothing of cells. Of commits, here: they need no key, and no look at fragments. The others are
in `consolidate_footers` and `consolidate_metadata`.

The new `.con` holds every effective write, unless an `.ign` names it (such a write is effective
only as a loose file, and stays loose). It holds every delete, ignored or not, as the engine applies
ignored ones too. It holds an update only if the caller asks for it, or if a `.con` holds it
already: the engine does not see an update in a `.con`. Records are in time order, updates last: an
engine that takes a tile for text then misreads nothing behind it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, NamedTuple, TypeAlias, get_args

import numpy as np

from chronotile.change.consolidate_footers import FootersPlan, plan_footers
from chronotile.change.consolidate_metadata import plan_metadata
from chronotile.change.engine_open_cost_change import requests_of_opens
from chronotile.change.merged_files import Merge, array_metadata
from chronotile.change.plan import Plan, Seen, Stage, Step, check_mode, put
from chronotile.change.removed_meanwhile import removed_meanwhile
from chronotile.change.sound_array import sound_history, write_version
from chronotile.check.findings import count_text
from chronotile.check.fragment_health import NEWER
from chronotile.format.commit_files import (
    ConRecord,
    commit_name,
    encode_lines,
    later_name,
    later_name_at,
    rank,
)
from chronotile.format.kinds import COMMITS, OK, UPD, WRT
from chronotile.format.names import NEWEST_VERSION, time_order
from chronotile.history.con_files import commit_ids, encode_rows

if TYPE_CHECKING:
    from collections.abc import Iterable

    from chronotile.history.commit_table import CommitTable
    from chronotile.history.read_history import History
    from chronotile.history.uri_columns import I64
    from chronotile.storage.store import Store

Mode: TypeAlias = Literal["commits", "fragment-meta", "array-meta", "all"]

SAME = "every window sees what it saw before"
"""What a reader sees between stages that only repeat what other files say."""


def plan_consolidate(
    store: Store, key: bytes | None, *, mode: Mode = "commits", updates: bool = False
) -> Plan:
    """Plan one file that holds what many hold; see `Handle.consolidate`."""
    check_mode(store.uri, mode, get_args(Mode))
    history, rules = sound_history(store, key, fragments=mode != "commits")
    commits, footers, merge = CommitsPlan(), FootersPlan(), None
    if mode in ("commits", "all"):
        commits = plan_commits(history, updates=updates)
    if mode in ("fragment-meta", "all"):
        footers = plan_footers(store, history, rules)
    if mode in ("array-meta", "all"):
        merge = plan_metadata(store, array_metadata(history))
    stages = (
        *commits.stages(history),
        Stage(name="footers", seen=SAME, steps=footers.steps),
        *(merge.stages() if isinstance(merge, Merge) else ()),
    )
    merged = merge.steps if isinstance(merge, Merge) else ()
    steps = (*commits.steps, *footers.steps, *merged)
    notes = (*commits.notes, *footers.notes, *((merge,) if isinstance(merge, str) else ()))
    return Plan(
        command="consolidate",
        array=store.uri,
        stages=stages,
        notes=notes,
        engine_open_requests=requests_of_opens(store, rules, steps, footers.fragments),
    )


class CommitsPlan(NamedTuple):
    """The new `.con`, if one is needed."""

    steps: tuple[Step, ...] = ()
    notes: tuple[str, ...] = ()
    rows: I64 = np.zeros(0, np.int64)
    """The commits that it holds."""

    def stages(self, history: History) -> tuple[Stage, ...]:
        """Put it, and look whether somebody removed a write of it meanwhile."""
        if not self.steps:
            return ()
        look = RemovedMeanwhile(history, self.rows)
        return (
            Stage(name="commits", seen=SAME, steps=self.steps),
            Stage(name="writes that were removed meanwhile", seen=SAME, looks=(look,)),
        )


def plan_commits(history: History, *, updates: bool = False) -> CommitsPlan:
    """Plan a `.con` with every effective commit, unless one is just that."""
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
    step = put(f"{COMMITS}/{name}.con", data, reason, may_vanish=True)
    return CommitsPlan((step,), notes, rows)


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


def wanted_order(record: ConRecord) -> tuple[bool, tuple[int, int, str]]:
    """The key that sorts the records of a `.con`: by time, updates last."""
    return record.uri.endswith(".upd"), time_order(commit_name(record.uri))


def _is_there(table: CommitTable, rows: I64, t1: int, t2: int) -> bool:
    """Whether a `.con` holds exactly these records, and a new one would not be kept for it.

    `con_files` has the order: of files with deletes or updates the latest is kept, and its name
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


@dataclass(frozen=True, slots=True, eq=False)
class RemovedMeanwhile:
    """Look for writes that somebody removed while a `.con` with them was made: they are ignored."""

    history: History
    rows: I64
    """The commits in the `.con`."""

    def __call__(self, store: Store) -> Seen | None:
        """Look; give the `.ign` that has become necessary."""
        lines = removed_meanwhile(store, self.history, self.rows)
        if not lines:
            return None
        path = f"{COMMITS}/{later_name(lines, (), write_version(self.history))}.ign"
        was = "was" if len(lines) == 1 else "were"
        reason = f"{count_text(len(lines), 'write')} {was} removed meanwhile"
        return Seen(steps=(put(path, encode_lines(lines), reason, may_vanish=True),))


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
