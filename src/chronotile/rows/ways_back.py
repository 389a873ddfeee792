"""Restore and undelete find the way themselves: by commits alone, or with rows written again.

In: an array, what is to come back. Out: the plan of the cheapest way. Commits alone cannot do it
where fragments were merged and what they were merged from is gone, or where an update would have to
be replayed. Then, with TileDB installed, the rows are written again, and only those that are
needed: for an undelete, the rows that the delete removed and that nothing later overwrote or
deleted. Later writes stay.

A restore through the engine reads the rows as they were, batch by batch, and writes them aside;
their files become fragments of the array, which one exchange of a `.vac` shows in place of the
others (see `change.transition`). Every window that ends before stays as it is.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import zip_longest
from typing import TYPE_CHECKING, NoReturn

import numpy as np
import pyarrow as pa

from chronotile.change import operations
from chronotile.change.past_state import Past, UnreachableError, refuse_newer
from chronotile.change.plan import Plan, Seen, Source, Stage, Step, at_hand, put
from chronotile.change.restore import (
    VACUUM_NOTE,
    latest_and_asked,
    latest_moment,
    metadata_back,
    plan_restore,
    refuse_future,
    schema_back,
)
from chronotile.change.sound_array import sealing_key, sound_history
from chronotile.change.transition import Effect, Showing, Transition, look_under_way
from chronotile.change.undelete import plan_done, plan_undelete, standing_delete
from chronotile.check.findings import RefusedError, count_text
from chronotile.check.tags import moment_in, odd_moment
from chronotile.errors import ChangedError, ChronotileError
from chronotile.format.kinds import COMMITS, FRAGMENTS
from chronotile.format.names import MAX_TIMESTAMP, new_name, parse_name
from chronotile.format.timestamps import now_ms, time_text
from chronotile.history.read_footers import count_cells
from chronotile.rows.apply import UnchangedCommits
from chronotile.rows.cell_source import acting_changes, cell_source, fragments_that_applied
from chronotile.rows.commit_changes import removed_of
from chronotile.rows.counted import MOST_CELLS, MOST_FRAGMENTS
from chronotile.rows.deletes_and_updates import CellBatch
from chronotile.rows.diff import AFTER, DELETE, INSERT, count_changes
from chronotile.rows.engine import Engine, NoEngineError
from chronotile.rows.engine_cells import layout_of, read_cells
from chronotile.rows.scratch_arrays import stage_fragment
from chronotile.rows.snapshot import (
    Snapshot,
    last_time,
    open_with_enumerations,
    schema_in_force,
    snapshot,
    with_dropped_fields,
)
from chronotile.safe_text import shell_word
from chronotile.storage.store import put_compared

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping

    from chronotile.format.timestamps import Moment
    from chronotile.log import Log
    from chronotile.rows.engine_cells import Cells
    from chronotile.storage.store import Store

_WAY = "commits alone cannot bring the rows back: TileDB writes"


def plan_restore_any_way(
    store: Store,
    key: bytes | None,
    *,
    to: Moment,
    at: Moment | None = None,
    keep_metadata: bool = False,
    rewrite: bool = False,
    commits_only: bool = False,
) -> Plan:
    """Plan to make an array as it was at an earlier moment; see `Handle.restore`."""
    if rewrite and commits_only:
        raise ChronotileError(store.uri, "expected rewrite or commits_only, found both")
    if rewrite:
        return plan_restore_rows(store, key, to=to, at=at, keep_metadata=keep_metadata)
    try:
        plan = plan_restore(store, key, to=to, at=at, keep_metadata=keep_metadata)
        return _with_rows_of_restore(store, key, plan, to) if plan.steps else plan
    except UnreachableError as error:
        if commits_only:
            raise
        try:
            plan = plan_restore_rows(store, key, to=to, at=at, keep_metadata=keep_metadata)
        except (NoEngineError, RefusedError):
            raise error from None
    count = plan.rows.get("rewritten", 0)
    return replace(plan, notes=(f"{_WAY} {count_text(count, 'row')} again", *plan.notes))


def _with_rows_of_restore(store: Store, key: bytes | None, plan: Plan, to: Moment) -> Plan:
    """Add to a plan how many rows go and come back.

    Only if the engine is there to count, and the array not very large.
    """
    try:
        log = open_with_enumerations(store, key)
        if not _is_countable(log):
            return plan
        counts = count_changes(log, log.moment(to), last_time(log))
    except ChronotileError:  # without the engine, or where it cannot read what is there now
        return plan
    rows = {"hidden": counts[INSERT], "restored": counts[DELETE], "changed back": counts[AFTER]}
    found = {word: count for word, count in rows.items() if count}
    if not log.history.dense:
        return replace(plan, rows=found)
    words = ", ".join(f"{word}: {count:,}" for word, count in found.items())
    return replace(plan, notes=(f"cells {words}" if words else "no cell differs", *plan.notes))


def _is_countable(log: Log) -> bool:
    """Return True if the rows may be read for a number alone."""
    rows = log.rules.visible(0, MAX_TIMESTAMP)[0].tolist()
    paths = [log.history.table.fragment_path(row) for row in rows[: MOST_FRAGMENTS + 1]]
    cells = count_cells(log.store, log.history, paths) if len(paths) <= MOST_FRAGMENTS else None
    return cells is not None and cells <= MOST_CELLS


def plan_undelete_any_way(
    store: Store,
    key: bytes | None,
    *,
    name: str,
    at: Moment | None = None,
    ever: bool = False,
    commits_only: bool = False,
) -> Plan:
    """Plan to bring back the rows that one delete or update hides; see `Handle.undelete`."""
    standing = name if ever else standing_delete(store, key, name)
    if standing is None:
        if (done := plan_done(store, name)) is not None:
            return done
        problem = f"no row comes back: everything that {name} removed was deleted again since"
        raise RefusedError(store.uri, problem)
    try:
        plan = plan_undelete(store, key, name=standing, at=at, ever=ever)
    except UnreachableError as error:
        if commits_only:
            raise
        try:
            plan = _plan_rows(store, key, standing, at)
        except NoEngineError:
            raise error from None
    if not plan.steps:
        return plan
    try:
        return _with_rows_of_undelete(store, key, standing, plan, ever=ever)
    except RefusedError:
        if (done := plan_done(store, name)) is not None:
            return done
        raise


def _with_rows_of_undelete(
    store: Store, key: bytes | None, name: str, plan: Plan, *, ever: bool
) -> Plan:
    """Add to a plan how many rows come back, and how many do not.

    An array of very many cells is not read.

    The engine must be there to count. What a fragment has applied does not come back for ever.

    Raises:
        RefusedError: No row comes back.
    """
    try:
        log = open_with_enumerations(store, key)
        if not _is_countable(log):
            return plan
        snap = snapshot(log, last_time(log))
        applied = fragments_that_applied(log, name) if ever else {}
        count = plan.rows.get("restored") or _count(_removed_alone(snap, name, applied))
        away = _count(_removed_alone(snap, name)) - count if applied else 0
        removed = removed_of(log, name).count()
        lost = _lost(log, name, removed)
    except ChronotileError:  # without the engine, or where it cannot read what is there now
        return plan
    if not (count or ever):
        _refuse_nothing(snap, name, lost)
    losses, notes = plan.losses, [*_notes_on_rest(snap, name, applied, count, away, removed)]
    rows_lost = f"{count_text(lost, 'row')} that it removed"
    if lost and (undo := _undo_of_purge(log)) is not None:
        notes.insert(0, f"a purge hides {rows_lost}; to bring them back, too: {undo}")
    elif lost:
        losses = (*losses, f"{rows_lost} are lost: a purge took them")
    return replace(
        plan,
        rows=plan.rows or {"restored": count},
        losses=losses,
        notes=(*notes, *plan.notes),
    )


def _notes_on_rest(
    snap: Snapshot,
    name: str,
    applied: Mapping[str, frozenset[str]],
    count: int,
    away: int,
    removed: int,
) -> Iterator[str]:
    """Say which rows that a delete or update removed do not come back, and why."""
    if not (count or away):
        yield f"no row comes back now: {name} alone hides no row of the visible fragments"
    elif away:
        them = count_text(count + away, "row")
        yield (
            f"{count:,} of {them} come back; {away:,} stay away: {min(applied)} was merged after "
            f"the delete, and marks them as deleted; without --ever all {count + away:,} come back"
        )
    if (rest := removed - count - away) > 0 and count + away:
        yield (
            f"{name} removed {count_text(removed, 'row')}: {rest:,} of them stay hidden, as a "
            "later write, delete or update took them too"
        )
    names = {change.name for change in acting_changes(snap)} - {name}
    if any(f"{one}.upd" in found for found in applied.values() for one in names):
        array = shell_word(snap.log.array)
        yield (
            "after this, chronotile rows, diff and blame refuse: they cannot tell which rows the "
            f"updates changed; to apply the updates first: chronotile apply {array}"
        )


def _count(parts: Iterator[tuple[pa.Array, ...]]) -> int:
    return sum(len(columns[0]) for columns in parts)


def _refuse_nothing(snap: Snapshot, name: str, lost: int) -> NoReturn:
    """Refuse to bring back rows of which none comes back, and say why.

    Raises:
        RefusedError: Always.
    """
    undelete = f"chronotile undelete {shell_word(snap.log.array)}"
    problem = f"no row comes back: later writes or a restore took what {name} removed"
    if lost and (undo := _undo_of_purge(snap.log)) is not None:
        rows = count_text(lost, "row")
        problem = f"no row comes back: a purge hides {rows} that {name} removed"
        problem += f"; to bring them back first: {undo}"
    elif lost:
        problem = f"{count_text(lost, 'row')} that {name} removed are gone"
        problem += ": a purge took them"
    elif name not in {change.name for change in acting_changes(snap)}:
        problem = f"no row comes back: {name} matches no row: it stands in for one that is gone"
    elif others := _others(snap, name):
        rest = f", and {len(others) - 1} more" if len(others) > 1 else ""
        problem = f"no row comes back: {others[0]}{rest} hides the rows of {name} too"
        if _count(_removed_alone(snap, others[0])):
            problem += f"; to bring its own rows back first: {undelete} {others[0]}"
        else:
            problem += f"; to take one of them out of every window: {undelete} {name} --ever"
    else:
        problem += f"; to take it out of every window: {undelete} {name} --ever"
    raise RefusedError(snap.log.array, problem)


def _others(snap: Snapshot, name: str) -> list[str]:
    """Name the changes that hide the rows which one would hide too; the last one first."""
    changes = tuple(replace(one, values=None) for one in snap.changes)
    found: set[int] = set()
    for cells in cell_source(snap).batches(snap.schema.fields):
        own, batch = CellBatch(snap.schema.fields, cells), CellBatch(snap.schema.fields, cells)
        for number, change in enumerate(changes):
            (own if change.name == name else batch).act(number, change)
        found.update(batch.done_by[~own.alive & ~batch.alive].tolist())
    return [changes[number].name for number in sorted(found, reverse=True)]


def _lost(log: Log, name: str, there: int) -> int:
    """Count the rows that a delete of ours removed, by its record, and that are there no more."""
    for record in operations.tell_operations(log.store):
        rows = record["rows"] if isinstance(record["rows"], dict) else {}
        known = rows.get("deleted", rows.get("updated"))
        if isinstance(known, int) and any(name in uri for uri in record["added"]):
            return max(known - there, 0)
    return 0


def _undo_of_purge(log: Log) -> str | None:
    """Give the command that undoes the last purge of ours, if what it hid is still there."""
    there = {*log.history.listing.fragments}
    for record in operations.tell_operations(log.store):
        options, hidden = record["options"], record["hidden"]
        purges = isinstance(options, dict) and options.get("purge") and hidden
        if record["state"] == "done" and purges and there.issuperset(hidden):
            return f"chronotile undo {shell_word(log.array)} {record['id']}"
    return None


def _plan_rows(store: Store, key: bytes | None, name: str, at: Moment | None) -> Plan:
    """Plan to write the rows again that one delete removed, and nothing later.

    Memory grows with these rows.
    """
    log = open_with_enumerations(store, key)
    _, rules = sound_history(store, key)
    latest = latest_moment(rules)
    moment = max(now_ms(), latest + 1) if at is None else moment_in(store, log.history, at)
    if moment <= latest:
        problem = f"{moment} is not after the last commit, {latest}; give a later time"
        raise RefusedError(store.uri, problem)
    if (done := plan_done(store, name)) is not None:
        return done
    end = last_time(log)
    schema_file = with_dropped_fields(log.history, schema_in_force(log, end), end)
    at_end = snapshot(log, end, schema_file)
    parts = list(_removed_alone(at_end, name))
    count = sum(len(columns[0]) for columns in parts)
    if not count:
        _refuse_nothing(at_end, name, _lost(log, name, removed_of(log, name).count()))
    columns = [pa.concat_arrays(column) for column in zip(*parts, strict=True)]
    staged = stage_fragment(at_end, columns, moment)
    text = new_name(moment, moment, staged.version)
    folder, commit = f"{FRAGMENTS}/{text}", f"{COMMITS}/{text}.wrt"
    files = {f"{folder}/{file}": data for file, data in staged.files.items()}
    rows = f"{count_text(count, 'row')} that {name} removed"
    step = Step(op="write", path=folder, size=staged.size, reason=rows, source=at_hand(files))
    known = UnchangedCommits(frozenset(log.history.listing.commits), frozenset())
    when = f"from {moment} ({time_text(moment)}) on"
    return Plan(
        command="undelete",
        array=store.uri,
        stages=(
            Stage(name="rows", steps=(step,)),
            Stage(
                name="commit",
                seen="the rows are back",
                looks=(known,),
                steps=(put(commit, b"", "commits them"),),
            ),
        ),
        notes=(
            f"{_WAY} {count_text(count, 'row')} again",
            f"the commit {name} hides no row, {when}",
        ),
        added=(commit,),
        rows={"restored": count},
    )


def _removed_alone(
    snap: Snapshot, name: str, applied: Collection[str] = ()
) -> Iterator[tuple[pa.Array, ...]]:
    """Read the rows that one change removed, and no other change or write since.

    Without the rows that the fragments in `applied` mark as deleted.
    """
    # To the engine an update is a delete: what a later one hides stays hidden.
    snap = replace(snap, changes=tuple(replace(one, values=None) for one in snap.changes))
    fields = snap.schema.fields
    for cells in cell_source(snap, less_removed=applied).batches(fields):
        batches = []
        for without in ({name}, set[str]()):
            batch = CellBatch(fields, cells)
            for number, change in enumerate(snap.changes):
                if change.name not in without:
                    batch.act(number, change)
            batches.append(batch)
        yield batches[0].cells(np.flatnonzero(batches[0].alive & ~batches[1].alive))


def plan_restore_rows(
    store: Store,
    key: bytes | None,
    *,
    to: Moment,
    at: Moment | None = None,
    keep_metadata: bool = False,
) -> Plan:
    """Plan to make a sparse array as it was at an earlier moment by writing its rows again.

    The rows are counted now, and read and written when the plan is carried out.

    Raises:
        RefusedError: The array is dense, or damaged.
    """
    # Two readings: `log` is for the rows of then, `history` and `rules` for the change of now.
    log = open_with_enumerations(store, key)
    history, rules = sound_history(store, key)
    if history.dense:
        raise RefusedError(store.uri, "expected a sparse array, found a dense one")
    past, end = Past(store, rules), log.moment(to)
    now, sealed_by = past.now(), sealing_key(store, history)
    latest, asked = latest_and_asked(store, rules, at)
    refuse_future(store.uri, end, latest)
    past.refuse_lost(end)
    first = max(now_ms(), latest + 1) if asked is None else asked
    refuse_newer(store.uri, now.parts)
    look_under_way(store, rules, Effect(tuple(part.name for part in now.parts)))
    # Without the deletes and updates, which `snapshot` would list: the engine reads these rows, and
    # applies them itself.
    then = Snapshot(log=log, end=end, schema_file=schema_in_force(log, end))
    counts = tuple(map(len, _cells(then)))
    last = first + max(len(counts) - 1, 0)
    back = [*schema_back(store, rules, end)]
    if not keep_metadata:
        back += metadata_back(store, history, end, sealed_by)
    others = tuple(one.step(history, last) for one in back)
    version = then.schema.version
    planned = tuple(
        _planned(new_name(moment, moment, version), count)
        for moment, count in enumerate(counts, first)
    )
    transition = Transition(first=first, last=last, hidden=now.parts, again=())
    showing = Showing(store, history, transition, others, written=planned)
    stages = showing.stages(wait=asked is None)
    # These steps are for the dry run and the record: the look gives others, of what it wrote.
    stage = Stage(
        name="rows",
        looks=(RewrittenRows(then, counts, showing, wait=asked is None),),
        steps=tuple(step for one in stages for step in one.steps),
    )
    hidden = tuple(part.name.text for part in now.parts)
    return Plan(
        command="restore",
        array=store.uri,
        stages=(stage,),
        notes=(_words(first, end), *odd_moment(history, end), *([VACUUM_NOTE] if hidden else [])),
        hidden=hidden,
        rows={"rewritten": sum(counts)},
        added=showing.added,
    )


def _planned(name: str, count: int) -> Step:
    """Plan a fragment with rows that are not written yet."""
    path, source = f"{FRAGMENTS}/{name}", Source(None, {}, {})
    reason = f"{count_text(count, 'row')} as they were"
    return Step(op="write", path=path, size=None, reason=reason, source=source)


@dataclass(frozen=True, slots=True)
class RewrittenRows:
    """Write the rows of a moment as fragments that no commit names, and show them."""

    then: Snapshot
    counts: tuple[int, ...]
    """How many rows each of them has, as they were counted for the plan."""
    showing: Showing
    """The plan to show them, with the names that they get."""
    wait: bool

    def __call__(self, store: Store) -> Seen:
        """Write them; return the planned stages, with the sizes of what was written.

        Raises:
            ChangedError: The rows are not those that were counted.
        """
        written = [
            self._written(store, planned, count, cells)
            for planned, count, cells in zip_longest(
                self.showing.copies, self.counts, _cells(self.then)
            )
        ]
        stages = self.showing.stages(wait=self.wait, copies=tuple(written))
        paths = frozenset(step.path for stage in stages for step in stage.steps)
        return Seen(leave=paths, stages=stages)

    def _written(
        self, store: Store, planned: Step | None, count: int | None, cells: Cells | None
    ) -> Step:
        """Put rows as a fragment that no commit names yet; give the step that compares it."""
        if planned is None or cells is None or len(cells) != count:
            problem = "expected the rows that were counted, found others: the array is changing"
            raise ChangedError(store.uri, f"{problem}; try again")
        name = parse_name(planned.path.rpartition("/")[2])
        staged = stage_fragment(self.then, cells.columns, name.t1)
        assert staged.version == name.version  # the engine writes by the schema
        files = {f"{planned.path}/{path}": data for path, data in staged.files.items()}
        for path, data in files.items():
            put_compared(store, path, data)
        sizes = {path: len(data) for path, data in files.items()}
        return replace(planned, size=staged.size, source=Source(None, {}, sizes))


def _cells(then: Snapshot) -> Iterator[Cells]:
    """Read the rows that the engine sees at a moment, as stored."""
    log = then.log
    with Engine.at(log.store, log.history.key) as engine:
        engine.open(0, then.end)
        yield from read_cells(engine, then.schema.fields, layout=layout_of(log.history))


def _words(first: int, end: int) -> str:
    when = f"from {first} ({time_text(first)}) on"
    return f"the array shows the state of {end} ({time_text(end)}), {when}"
