"""Updates, carried out: their rows are written, for every program that reads the array.

In: an array. Out: the plan of the array with a fragment for each moment of updates, and the updates
themselves in the quarantine. The rows that an open should see stay the same; the engine shows them
now too.

The order, for each moment that has updates, the earliest first:

  1. the files of a fragment with the rows, of the update's own time: no commit names it yet;
  2. its `.wrt`: rows that the update's predicate still matches stay hidden by the update, others
     show; their old cells were hidden all along;
  3. where duplicates are allowed, a delete of the same time that removes the old rows;
  4. the update goes into the quarantine. Where a fragment has applied it, one that matches no row
     takes its name (F14).

At last every `.con` that holds one of the updates is written again without it. The new file is put
before the old one goes: meanwhile both hold every other commit. The engine sees no update in a
`.con`, so it shows old values until the new rows are committed, and never fewer rows.

A stop at any point leaves rows hidden that were hidden.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from typing import TYPE_CHECKING

from chronotile.change.plan import Plan, Stage, Step, at_hand, put
from chronotile.change.repair import Mender, harmless_tiles, moves_of
from chronotile.change.sound_array import sealing_key
from chronotile.check.findings import RefusedError, count_text
from chronotile.conditions import codec
from chronotile.conditions.delete import is_harmless
from chronotile.errors import ChangedError
from chronotile.format import tiles
from chronotile.format.kinds import COMMITS, FRAGMENTS
from chronotile.format.names import format_name
from chronotile.rows.cell_source import applied_updates
from chronotile.rows.scratch_arrays import stage_fragment
from chronotile.rows.snapshot import last_time, open_labelled, snapshot, uuid_of_rows
from chronotile.rows.updated_rows import old_row_delete, updated_rows

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Sequence

    from chronotile.log import Log
    from chronotile.rows.snapshot import RowChange
    from chronotile.storage.store import Store

_HIDDEN = "rows stay hidden that were hidden"


@dataclass(frozen=True, slots=True, kw_only=True)
class _UpdateSteps:
    """The steps for the updates of one millisecond."""

    count: int
    """The number of rows that are written."""
    writes: tuple[Step, ...]
    puts: tuple[Step, ...]
    moves: tuple[Step, ...]
    stand_ins: tuple[Step, ...]
    """Updates that match no row, under the names of those that go."""
    in_con: tuple[str, ...]
    """The names of its updates that a `.con` holds."""

    def stages(self, look: UnchangedCommits) -> Iterator[Stage]:
        """Give the stages, in the order of the module's text."""
        if self.writes:
            yield Stage(name="write rows", seen=_HIDDEN, steps=self.writes)
        yield Stage(name="commit rows", seen=_HIDDEN, looks=(look,), steps=self.puts)
        yield Stage(name="take the update out", seen="the new values", steps=self.moves)
        yield Stage(name="stand in for it", seen="the new values", steps=self.stand_ins)


@dataclass(frozen=True, slots=True)
class UnchangedCommits:
    """Look if the commits are as they were read, apart from those that the plan puts and moves."""

    names: frozenset[str]
    ours: frozenset[str]

    def __call__(self, store: Store) -> None:
        """Look.

        Raises:
            ChangedError: Somebody else committed meanwhile: those rows were not looked at.
        """
        fresh = (set(store.list_names(COMMITS).files) ^ self.names) - self.ours
        if fresh:
            problem = f"expected the commits as they were read, found {min(fresh)} changed"
            raise ChangedError(store.uri, f"{problem}; try again")


def plan_apply(store: Store, key: bytes | None) -> Plan:
    """Plan to carry out the updates of an array; see `Handle.apply`.

    Memory grows with the rows of all updates.
    """
    log = open_labelled(store, key)
    at = snapshot(log, last_time(log))
    if at.schema.dense:
        raise RefusedError(log.array, "expected a sparse array, found a dense one: no updates")
    updates = [
        change
        for change in at.changes
        if change.is_update and not is_harmless(change.stored, at.schema)
    ]
    moments, notes = list[_UpdateSteps](), list(at.notes)
    applied = applied_updates(log) if updates else frozenset()
    for _, group in itertools.groupby(updates, key=lambda change: change.t):
        steps = _update_steps(log, list(group), applied)
        if isinstance(steps, str):
            notes.append(steps)
        else:
            moments.append(steps)
    own = [step for moment in moments for step in (*moment.puts, *moment.moves)]
    ours = frozenset(step.path.rpartition("/")[2] for step in own)
    look = UnchangedCommits(frozenset(log.history.listing.commits), ours)
    stages = [stage for moment in moments for stage in moment.stages(look)]
    stages += _con_stages(log, [name for moment in moments for name in moment.in_con])
    count = sum(moment.count for moment in moments)
    return Plan(
        command="apply",
        array=store.uri,
        stages=tuple(stages),
        notes=tuple(notes),
        rows={"rewritten": count} if count else {},
        added=tuple(step.path for moment in moments for step in moment.puts),
    )


def _update_steps(
    log: Log, updates: Sequence[RowChange], applied: Collection[str]
) -> _UpdateSteps | str:
    """Plan the updates of one millisecond; return a sentence if nothing can be done."""
    names = ", ".join(one.name for one in updates)
    is_applied = any(one.name in applied for one in updates)
    cons = {one.name: _cons_with(log, one) for one in updates}
    in_con = tuple(name for name, paths in cons.items() if paths)
    rows = updated_rows(log, updates, applied=is_applied)
    t, schema = rows.at.end, rows.at.schema
    if in_con and (is_applied or schema.allows_duplicates):
        # With duplicates both the old and the new rows would show for a moment.
        why = "a fragment has applied it" if is_applied else "the array allows duplicates"
        return f"the update {names} is left alone: it stands in {cons[in_con[0]][0]}, and {why}"
    key = sealing_key(log.storage, log.history)
    writes, puts = [], []
    if rows.count:
        fragment = stage_fragment(rows.at, rows.columns, t)
        name = format_name(t, t, uuid_of_rows(updates), fragment.version)
        path = f"{FRAGMENTS}/{name}"
        files = {f"{path}/{file}": data for file, data in fragment.files.items()}
        reason = f"{count_text(rows.count, 'row')} with new values, at {t}"
        size, source = fragment.size, at_hand(files)
        writes.append(Step(op="write", path=path, size=size, reason=reason, source=source))
        puts.append(put(f"{COMMITS}/{name}.wrt", b"", "commits them"))
        if schema.allows_duplicates:
            stored = None if rows.unchanged else old_row_delete(rows)
            if stored is None:
                why = "no delete takes out its old rows alone, as others hold NULL or are like "
                return f"the update {names} is left alone: {why}the new"
            data = tiles.encode(codec.encode(stored), version=schema.version, key=key)
            puts.append(put(f"{COMMITS}/{name}.del", data, "removes the old rows"))
    stand_ins, moves = [], []
    for one in updates:
        file = f"{one.name}.upd"
        if file not in log.history.listing.commits:
            continue  # only a `.con` holds it
        path, reason = f"{COMMITS}/{file}", "its rows have the values"
        data = log.storage.read(path)
        moves.append(Step(op="move", path=path, size=len(data), reason=reason, data=data))
        if one.name in applied:
            harmless = harmless_tiles(log.history, key)[".upd"]
            reason = "matches no row: a fragment has applied the one of this name"
            stand_ins.append(put(path, harmless, reason))
    return _UpdateSteps(
        count=rows.count,
        writes=tuple(writes),
        puts=tuple(puts),
        moves=tuple(moves),
        stand_ins=tuple(stand_ins),
        in_con=in_con,
    )


def _cons_with(log: Log, update: RowChange) -> list[str]:
    """Find the `.con` files that hold an update."""
    table, rows = log.history.table, log.rules.updates.tolist()
    (row,) = (row for row in rows if table.name(row) == update.name)
    copies = {row, *table.copies(row)}
    return sorted({table.path(copy) for copy in copies if not table.is_loose(copy)})


def _con_stages(log: Log, updates: Collection[str]) -> Iterator[Stage]:
    """Plan the `.con` files without some updates, and the removal of those that hold them.

    Raises:
        RefusedError: One of them is damaged.
    """
    if not updates:
        return
    mender = Mender(log.rules, {}, accept_loss=False, harmless={})
    if mender.damaged_cons:
        problem = f"expected sound .con files, found {min(mender.damaged_cons)} damaged"
        raise RefusedError(log.array, f"{problem}; chronotile repair mends it")
    uris = [f"{COMMITS}/{name}.upd" for name in updates]
    mending = mender.leave_out(dict.fromkeys(uris, "its rows have the values"))
    # A run that was broken off may have put them.
    there = {bytes(source.data) for source in log.history.table.sources if not source.loose}
    puts = tuple(step for step in mending.puts.values() if step.data not in there)
    moves = tuple(moves_of(log.storage, mending))
    seen = "every window sees the new values"
    yield Stage(name="new .con", seen=seen, steps=puts)
    yield Stage(name="old .con", seen=seen, steps=moves)
