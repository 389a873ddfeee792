"""Consolidation: one file in place of many, of commits, of footers, of metadata.

In: an array. Out: the plan of new files; nothing is removed, and every window sees the same; the
requests of an engine's open before a change and after it. Knows nothing of cells. `merge_metadata`
plans the merge of metadata.

Commits need no key, and no look at fragments. The new `.con` holds every effective write, unless an
`.ign` names it (such a write is effective only as a loose file, and stays loose). It holds every
delete, ignored or not, as the engine applies ignored ones too. It holds an update only if the
caller asks for it, or if a `.con` holds it already: the engine does not see an update in a `.con`.
Records are in time order, updates last: an engine that takes a tile for text then misreads nothing
behind it.

Footers. The new `.meta` holds the footer of every visible fragment, byte for byte from the
fragment's own metadata, if it decodes with the schema that it names. A fragment without a readable
footer is left out: the engine then asks the fragment itself, as it does for one that is written
later. So nothing that happens at the same time can make a `.meta` wrong. Its name has the true
range of its fragments, and a larger uuid than every other `.meta`: see `commit_files`.

Writes that are removed while a `.con` with them is made. A vacuum puts an `.ign` for a write that
stands in a `.con`. A vacuum that looked before this `.con` was there could not know that it needs
one. The fragment's folder shows whether the write was removed. A lost commit file alone shows
nothing: it goes first in a removal, but it also goes when somebody vacuums the commits that the new
`.con` holds, and then the write must stay effective. So if a commit file is gone and its folder is
there, we look again for a while: a removal that is under way takes the folder next. A slower
removal leaves a commit without its fragment, which `check` finds and `repair` mends. We never
ignore a write that may still be wanted: that would hide data.
"""

from __future__ import annotations

import time
from functools import partial
from typing import TYPE_CHECKING, Literal, NamedTuple, TypeAlias, get_args

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from chronotile.change.merge_metadata import Merge, array_metadata, plan_metadata
from chronotile.change.plan import Plan, Seen, Stage, Step, check_mode, put
from chronotile.change.sound_array import array_version, sealing_key, sound_history, write_version
from chronotile.check.engine_open_cost import FIRST_BY_NAME, consolidated_fragments, open_cost
from chronotile.check.findings import count_text
from chronotile.check.fragment_health import NEWER
from chronotile.errors import ArrayNotFoundError, ChangedError, ChronotileError
from chronotile.format.commit_files import (
    FIRST_WITH_COMMITS,
    ConRecord,
    commit_name,
    encode_lines,
    later_name,
    later_name_at,
    rank,
)
from chronotile.format.consolidated_footers import encode_consolidated_footers
from chronotile.format.fragment_footer import FIRST_WITH_FOOTER
from chronotile.format.kinds import COMMITS, FRAGMENT_META, OK, UPD, WRT
from chronotile.format.names import MAX_TIMESTAMP, NEWEST_VERSION, time_order
from chronotile.format.timestamps import now_ms
from chronotile.history import text_columns
from chronotile.history.fragment_facts import NamedFragments
from chronotile.history.listing import list_array
from chronotile.history.read_footers import FooterFile, FooterReader, read_consolidated
from chronotile.history.redundant_con_files import commit_ids, encode_rows
from chronotile.safe_text import shell_word

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from chronotile.history.commit_table import CommitTable
    from chronotile.history.read_history import History
    from chronotile.history.uri_columns import I64
    from chronotile.storage.store import Store
    from chronotile.visibility.rules import Rules

Mode: TypeAlias = Literal["commits", "fragment-meta", "array-meta", "all"]


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
        Stage(name="footers", steps=footers.steps),
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
        return (
            Stage(name="commits", steps=self.steps),
            Stage(
                name="writes that were removed meanwhile",
                looks=(partial(self._ignore_removed, history),),
            ),
        )

    def _ignore_removed(self, history: History, store: Store) -> Seen | None:
        """Look for writes that somebody removed while the `.con` was made: they are ignored."""
        lines = _removed_meanwhile(store, history, self.rows)
        if not lines:
            return None
        path = f"{COMMITS}/{later_name(lines, (), write_version(history))}.ign"
        reason = f"{count_text(len(lines), 'write')} removed meanwhile"
        return Seen(steps=(put(path, encode_lines(lines), reason, may_vanish=True),))


def plan_commits(history: History, *, updates: bool = False) -> CommitsPlan:
    """Plan a `.con` with every effective commit, unless one is just that."""
    table = history.table
    rows = wanted_rows(table, updates=updates)
    notes = tuple(_notes(table, updates=updates, array=history.array))
    if not len(rows):
        return CommitsPlan(notes=notes)
    if _is_there(table, rows):
        return CommitsPlan(notes=notes)
    counts = table.counts_by_kind(rows).items()
    reason = ", ".join(count_text(count, kind) for kind, count in counts)
    return plan_con(history, rows, reason)._replace(notes=notes)


def plan_con(history: History, rows: I64, reason: str) -> CommitsPlan:
    """Plan a `.con` with some commits, later than all others."""
    table = history.table
    cons = [source.path for source in table.sources if not source.loose]
    name = later_name_at(*_times(table, rows), cons, write_version(history))
    data = encode_rows(table, rows)
    step = put(f"{COMMITS}/{name}.con", data, reason, may_vanish=True)
    return CommitsPlan((step,), rows=rows)


def _times(table: CommitTable, rows: I64) -> tuple[int, int]:
    return int(table.uris.t1[rows].min()), int(table.uris.t2[rows].max())


def wanted_rows(table: CommitTable, *, updates: bool) -> I64:
    """Give the rows of a `.con` with every effective commit: in time order, updates last.

    Of a commit that stands in several places, the engine sees the record of the latest `.con`. One
    of a version that is not known stays where it is.
    """
    uris = table.uris
    is_write = (uris.ext == WRT) | (uris.ext == OK)
    newer = table.is_from_version(NEWEST_VERSION + 1)
    writes = np.flatnonzero(table.effective & is_write & ~table.ignored & ~table.implied & ~newer)
    best: dict[str, tuple[tuple[bool, tuple[int, str]], int]] = {}
    for row in table.condition_rows.tolist():
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
    """Give the key that sorts the records of a `.con`: by time, updates last."""
    return record.uri.endswith(".upd"), time_order(commit_name(record.uri))


def _is_there(table: CommitTable, rows: I64) -> bool:
    """Tell whether a `.con` holds exactly these records, and a new one would not be kept for it.

    `redundant_con_files` has the order: of files with deletes or updates the latest is kept, and
    its name must have the true times. Of others the first by the text of the path is kept.
    """
    counts = np.bincount(table.source, minlength=len(table.sources)).tolist()
    t1, t2 = _times(table, rows)
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


def _notes(table: CommitTable, *, updates: bool, array: str) -> Iterable[str]:
    loose = table.loose
    rows = np.flatnonzero(~loose & (table.uris.ext == UPD)).tolist()
    if unseen := len({*map(table.uri, rows)}):
        words = f"TileDB does not see {count_text(unseen, 'update')} in a .con"
        yield f"{words}; to write the rows: chronotile apply {shell_word(array)}"
    if kept := int(np.count_nonzero(loose & (table.uris.ext == UPD))):
        where = "put into the .con" if updates else "left loose"
        yield f"{count_text(kept, 'update')} {where}: TileDB sees no update in a .con"
    ignored = int(np.count_nonzero(loose & (table.uris.ext <= OK) & table.ignored))
    if ignored:
        why = "TileDB shows a loose write that an .ign names, and would hide it in a .con"
        yield f"{count_text(ignored, 'write')} left loose: {why}"
    newer = int(np.count_nonzero(loose & table.is_from_version(NEWEST_VERSION + 1)))
    if newer:
        yield f"{count_text(newer, 'commit')} left loose: {NEWER}"


class FootersPlan(NamedTuple):
    """The new `.meta`, if one is needed."""

    steps: tuple[Step, ...] = ()
    notes: tuple[str, ...] = ()
    fragments: frozenset[str] = frozenset()
    """The fragments whose footers it holds."""


def plan_footers(store: Store, history: History, rules: Rules) -> FootersPlan:
    """Plan one `.meta` for all visible fragments.

    Raises:
        KeyNeededError: The array is encrypted, and there is no key.
    """
    visible = _visible_with_footer(rules)
    wanted = visible.only(pa.array(visible.version <= NEWEST_VERSION))
    newer = len(visible.name) - len(wanted.name)
    count = count_text(newer, "fragment")
    left_out = (f"{count} left out of the .meta: {NEWER}",) if newer else ()
    if not len(wanted.name):
        return FootersPlan(notes=left_out)
    key = sealing_key(store, history)
    latest = _latest(store, history)
    names = frozenset(wanted.name.to_pylist())
    if latest.keys() == names:
        return FootersPlan(notes=left_out, fragments=names)
    footers, notes = {}, list[str]()
    for name, found in FooterReader(store, history).read(wanted.name.to_pylist(), own=True):
        if isinstance(found, ChronotileError):
            notes.append(f"{name} is left out of the .meta: {found.problem}")
        else:
            footers[name] = found.raw
    if notes:
        names = frozenset(footers)
        wanted = wanted.only(pc.is_in(wanted.name, value_set=pa.array([*names], pa.string())))
    notes += left_out
    if not footers or footers == latest:
        return FootersPlan(notes=tuple(notes), fragments=names)
    times = int(wanted.t1.min()), int(wanted.t2.max())
    return FootersPlan((_step(store, history, footers, times, key=key),), tuple(notes), names)


def _visible_with_footer(rules: Rules) -> NamedFragments:
    """List the visible fragments whose version has a footer, in order."""
    table = rules.history.table
    rows, _ = rules.visible(0, MAX_TIMESTAMP)
    versions = np.asarray(text_columns.versions(table, rows))
    rows, versions = rows[versions >= FIRST_WITH_FOOTER], versions[versions >= FIRST_WITH_FOOTER]
    times = table.uris.t1[rows], table.uris.t2[rows]
    return NamedFragments(text_columns.names(table, rows), *times, versions)


def _step(
    store: Store,
    history: History,
    footers: Mapping[str, bytes],
    times: tuple[int, int],
    *,
    key: bytes | None,
) -> Step:
    version = array_version(history)
    listed = [*footers.items()]
    if version < FIRST_BY_NAME:
        listed = [(store.place.uri_in_files(name), raw) for name, raw in listed]
    data = encode_consolidated_footers(listed, version=version, key=key)
    others = [path for path in history.listing.fragment_meta if path.endswith(".meta")]
    text = later_name_at(*times, others, version)
    folder = f"{FRAGMENT_META}/" if version >= FIRST_WITH_COMMITS else ""
    reason = count_text(len(listed), "footer")
    return put(f"{folder}{text}.meta", data, reason, may_vanish=True)


def _latest(store: Store, history: History) -> dict[str, bytes]:
    """Read the footers of the latest `.meta`."""
    held = read_consolidated(store, history)
    latest = held[max(held, key=rank)] if held else None
    return latest.footers if isinstance(latest, FooterFile) else {}


WAITS_S = (0.0, 0.1, 0.3, 0.6)
"""Seconds to wait before each look at the folders whose commit file is gone."""


def _removed_meanwhile(store: Store, history: History, rows: I64) -> tuple[str, ...]:
    """Find the writes among some rows whose fragment is gone since the reading, by sorted URI.

    Raises:
        ChangedError: The whole array is gone.
    """
    waiting = _without_file(store, history, rows)
    gone: set[str] = set()
    for wait in WAITS_S if waiting else ():
        time.sleep(wait)
        try:
            folders = list_array(store).fragment_paths()
        except ArrayNotFoundError as cause:
            raise ChangedError(store.uri, "expected the array to stay, found it gone") from cause
        gone |= {u for u in waiting if u.rpartition("/")[2].rpartition(".")[0] not in folders}
        waiting -= gone
        if not waiting:
            break
    return tuple(sorted(gone))


def _without_file(store: Store, history: History, rows: I64) -> set[str]:
    """Find the writes that were read from a file that is gone now."""
    table, gone = history.table, set[str]()
    for folder, names in ((COMMITS, history.listing.commits), ("", history.listing.root_commits)):
        if names:
            lost = frozenset(names).difference(store.list_names(folder).files)
            gone |= {f"{folder}/{name}" if folder else name for name in lost}
    if not gone:
        return set()
    writes = rows[table.uris.ext[rows] <= OK]
    files = text_columns.paths(table, writes).to_pylist()
    uris = text_columns.uris(table, writes).to_pylist()
    return {uri for uri, file in zip(uris, files, strict=True) if file in gone}


def requests_of_opens(
    store: Store, rules: Rules, steps: Iterable[Step], footers: frozenset[str] = frozenset()
) -> tuple[int, int] | None:
    """Count the requests of an open before and after steps; None if a `.meta` cannot be opened.

    `footers` are the fragments whose footers a new `.meta` among the steps holds.
    """
    planned = tuple(steps)
    held = consolidated_fragments(store, rules.history) if planned else None
    if held is None:
        return None
    now = now_ms()
    added = {step.path: step.size for step in planned if step.op == "put"}
    removed = {step.path: step.size for step in planned if step.op == "remove"}
    first = open_cost(rules, held, now)
    both = held._replace(fragments=held.fragments | footers)
    then = open_cost(rules, both, now) if footers else first
    return first.requests, then.after(added, removed).requests
