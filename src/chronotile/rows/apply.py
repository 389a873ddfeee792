"""Updates, applied: their rows are written, for every program that reads the array.

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

A merged fragment that has applied an update hides the rows that the engine takes the update to
remove, also once the update is gone. Of these, rows which the update does not change are written
again too.

The delete of old rows has the update's own time, so that no window sees it without the new rows. It
then acts on these too: they differ from the old ones by the values that the update sets. The engine
removes rows that do not satisfy the stored condition, and a comparison with NULL is never true: so
a condition is only taken if it was tried on every row.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from chronotile.change.plan import Plan, Stage, Step, at_hand, put
from chronotile.change.repair import Mender, harmless_tiles, moves_of
from chronotile.change.sound_array import sealing_key
from chronotile.check.findings import RefusedError, count_text
from chronotile.check.undone_restores import is_passed
from chronotile.conditions import codec
from chronotile.conditions.side_effects import engine_refuses
from chronotile.conditions.stored_conditions import is_harmless
from chronotile.conditions.tree import AllOf, AnyOf, Compare, Condition, Op, fields, flatten
from chronotile.conditions.truth import Column, Sense, column_truth, rows_kept
from chronotile.errors import ChangedError
from chronotile.format import tiles
from chronotile.format.kinds import COMMITS, FRAGMENTS
from chronotile.format.names import format_name
from chronotile.rows.cell_source import applied_updates, cell_source
from chronotile.rows.deletes_and_updates import CellBatch
from chronotile.rows.engine_cells import stored_type
from chronotile.rows.places import is_among, raw_value
from chronotile.rows.read_rows import told_of_damage
from chronotile.rows.scratch_arrays import stage_fragment
from chronotile.rows.snapshot import (
    last_time,
    open_with_enumerations,
    schema_of_rows,
    snapshot,
    uuid_of_rows,
)
from chronotile.safe_text import shell_word

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Sequence

    from chronotile.conditions.truth import Mask
    from chronotile.format.schema import Schema
    from chronotile.log import Log
    from chronotile.rows.snapshot import RowChange, Snapshot
    from chronotile.storage.store import Store

    Columns = tuple[pa.Array, ...]


MOST_PLACES = 1000
"""Places that a condition may name one by one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class UpdatedRows:
    """The rows that the updates of one moment write."""

    at: Snapshot
    """Their moment, and the schema that they are written with."""
    updates: tuple[RowChange, ...]
    columns: Columns
    """The rows with their new values, in the order of the schema's fields."""
    old: Columns
    """The same rows before; only where the array allows duplicates."""
    others: Columns
    """All other rows of that moment; only where the array allows duplicates."""
    unchanged: int
    """The number of rows that are written again as they are."""

    @property
    def count(self) -> int:
        """The number of rows that are written."""
        return len(self.columns[0])


def updated_rows(log: Log, updates: Sequence[RowChange], *, applied: bool) -> UpdatedRows:
    """Find the rows that the updates of one moment write.

    Earlier updates count as applied, even if they are not yet.

    `applied` says whether a fragment has applied one of them.
    """
    t, names = updates[0].t, {update.name for update in updates}
    at = snapshot(log, t, schema_of_rows(log.history, *updates))
    schema, duplicates = at.schema, at.schema.allows_duplicates
    changes = tuple(
        replace(change, is_written=change.is_written and change.name not in names)
        for change in at.changes
        if change.t < t or change.is_update
    )
    earlier = [change for change in changes if change.t < t]
    new: list[Columns] = []
    old: list[Columns] = []
    others: list[Columns] = []
    unchanged = 0
    end = t if duplicates else t - 1
    source = cell_source(replace(at, end=end, changes=changes)) if end >= 0 else None
    for cells in source.batches(schema.fields) if source else ():
        batch = CellBatch(schema.fields, cells)
        hit = np.zeros(len(cells), bool)
        for number, change in enumerate(changes):
            touched = batch.act(number, change)
            hit[touched] |= change.name in names
        if applied:
            lost = _hidden(CellBatch(schema.fields, cells), updates) & batch.alive & ~hit
            unchanged += int(lost.sum())
            hit |= lost
        rows = np.flatnonzero(hit & batch.alive)
        new.append(batch.cells(rows))
        if duplicates:
            old.append(CellBatch(schema.fields, cells).act_all(earlier).cells(rows))
            others.append(batch.cells(np.flatnonzero(~hit & batch.alive)))
    columns = _joined(schema, new)
    if not duplicates and len(columns[0]):
        columns = _without_places_written(at, columns)
    return UpdatedRows(
        at=at,
        updates=tuple(updates),
        columns=columns,
        old=_joined(schema, old),
        others=_joined(schema, others),
        unchanged=unchanged,
    )


def _hidden(batch: CellBatch, updates: Sequence[RowChange]) -> Mask:
    """Mask the cells, as they were written, that the engine takes updates to remove."""
    hidden = np.zeros(len(batch.times), bool)
    for update in updates:
        hidden[batch.hit_by(replace(update, values=None))] = True
    return hidden


def _joined(schema: Schema, parts: Sequence[Columns]) -> Columns:
    if not parts:
        return tuple(pa.array([], stored_type(field)) for field in schema.fields)
    return tuple(pa.concat_arrays(same) for same in zip(*parts, strict=True))


def _without_places_written(at: Snapshot, columns: Columns) -> Columns:
    """Leave out the places that somebody writes in the same millisecond: that write wins."""
    rank = len(at.schema.dimensions)
    if not len(at.log.rules.visible(at.end, at.end)[0]):
        return columns
    written = []
    for cells in cell_source(replace(at, changes=())).batches(at.schema.dimensions):
        rows = pa.array(np.flatnonzero(cells.times == np.uint64(at.end)))
        written.append(tuple(column.take(rows) for column in cells.columns))
    if not written:
        return columns
    places = [pa.concat_arrays(same) for same in zip(*written, strict=True)]
    free = pa.array(~is_among(columns[:rank], places))
    return tuple(column.filter(free) for column in columns)


def old_row_delete(rows: UpdatedRows) -> Condition | None:
    """Find the stored condition of a delete that removes the old rows, and no others."""
    schema = rows.at.schema
    # In fragments that lack a field, a delete on it removes every row (F15).
    schemas = [item.schema for item in rows.at.log.history.schemas if item.schema is not None]
    for stored in _candidates(rows):
        if engine_refuses(stored, schema) or any(
            other.field(name) is None for other in schemas for name in fields(stored)
        ):
            continue
        if (
            not _kept(stored, schema, rows.old).any()
            and _kept(stored, schema, rows.columns).all()
            and _kept(stored, schema, rows.others).all()
        ):
            return stored
    return None


def _kept(stored: Condition, schema: Schema, columns: Columns) -> Mask:
    cells = {
        field.name: Column(field, column)
        for field, column in zip(schema.fields, columns, strict=True)
    }
    mask = rows_kept(stored, lambda node: column_truth(node, cells[node.field], Sense.STORED))
    return np.broadcast_to(mask, len(columns[0]))


def _candidates(rows: UpdatedRows) -> Iterator[Condition]:
    """Give conditions to try: the update's own, then the places; each also less the new values."""
    bases = [rows.updates[0].stored] if len(rows.updates) == 1 else []
    places = _elsewhere(rows)
    bases += [] if places is None else [places]
    for base in bases:
        for update in rows.updates:
            values = _values(update, rows.at.schema)
            if values is not None:
                yield flatten(AnyOf(parts=(base, values)))
        yield base


def _values(update: RowChange, schema: Schema) -> Condition | None:
    """Ask for the values that an update sets, as far as the engine can compare them."""
    leaves = [
        Compare(field=name, op=Op.EQ, value=raw)
        for name, raw in update.values or ()
        if raw and schema.field(name) is not None
    ]
    return AllOf(parts=tuple(leaves)) if leaves else None


def _elsewhere(rows: UpdatedRows) -> Condition | None:
    """Ask for rows at none of the places of the old ones."""
    dimensions = rows.at.schema.dimensions
    columns = [column.to_pylist() for column in rows.old[: len(dimensions)]]
    places = sorted(set(zip(*columns, strict=True)), key=repr)
    if not 0 < len(places) <= MOST_PLACES:
        return None
    parts = tuple(
        AnyOf(
            parts=tuple(
                Compare(field=field.name, op=Op.NE, value=raw_value(field, value))
                for field, value in zip(dimensions, place, strict=True)
            )
        )
        for place in places
    )
    return flatten(AllOf(parts=parts))


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
    log = open_with_enumerations(store, key)
    with told_of_damage(log):
        return _plan(store, log)


def _plan(store: Store, log: Log) -> Plan:
    at = snapshot(log, last_time(log))
    if at.schema.dense:
        return Plan(command="apply", array=log.array, notes=("a dense array: it has no updates",))
    updates = [
        change
        for change in at.changes
        if change.is_update and not is_harmless(change.stored, at.schema)
    ]
    moments, notes = list[_UpdateSteps](), list(at.notes)
    applied = applied_updates(log) if updates else frozenset()
    for t, group in itertools.groupby(updates, key=lambda change: change.t):
        steps = _update_steps(log, list(group), applied, passed=is_passed(log.rules, t))
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
    log: Log, updates: Sequence[RowChange], applied: Collection[str], *, passed: bool
) -> _UpdateSteps | str:
    """Plan the updates of one millisecond; return a sentence if nothing can be done."""
    names = ", ".join(one.name for one in updates)
    if passed:
        return f"the update {names} is left alone: a restore since hides all that it touches"
    is_applied = any(one.name in applied for one in updates)
    cons = {one.name: _cons_with(log, one) for one in updates}
    in_con = tuple(name for name, paths in cons.items() if paths)
    rows = updated_rows(log, updates, applied=is_applied)
    t, schema = rows.at.end, rows.at.schema
    if in_con and (is_applied or schema.allows_duplicates):
        # With duplicates both the old and the new rows would show for a moment.
        why = "a fragment has applied it" if is_applied else "the array allows duplicates"
        return f"the update {names} is left alone: it stands in {cons[in_con[0]][0]}, and {why}"
    key = sealing_key(log.store, log.history)
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
        path, reason = f"{COMMITS}/{file}", "it is applied: its rows have the new values"
        data = log.store.read(path)
        moves.append(Step(op="move", path=path, size=len(data), reason=reason, data=data))
        if one.name in applied:
            harmless = harmless_tiles(log.history, key)[".upd"]
            reason = "a stand-in that matches no row: a merged fragment refers to this name"
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
    table, rows = log.history.table, log.rules.update_rows.tolist()
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
        hint = f"to mend it: chronotile repair {shell_word(log.array)}"
        raise RefusedError(log.array, f"{problem}; {hint}")
    uris = [f"{COMMITS}/{name}.upd" for name in updates]
    mending = mender.leave_out(dict.fromkeys(uris, "it is applied: its rows have the new values"))
    # A run that was broken off may have put them.
    there = {bytes(source.data) for source in log.history.table.sources if not source.loose}
    puts = tuple(step for step in mending.puts.values() if step.data not in there)
    moves = tuple(moves_of(log.store, mending))
    seen = "every window sees the new values"
    yield Stage(name="new .con", seen=seen, steps=puts)
    yield Stage(name="old .con", seen=seen, steps=moves)
