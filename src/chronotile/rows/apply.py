"""Updates, carried out: their rows are written, for every program that reads the array.

In: an array. Out: the plan of the array with a fragment for each moment of updates, and the updates
themselves in the quarantine. What an open should see stays the same; what the engine shows now is
that.

The order, for each moment that has updates, the earliest first:

  1. the files of a fragment with the rows, of the update's own time: no commit names it yet;
  2. its `.wrt`: rows that the update's predicate still matches stay hidden by the update, others
     show; their old cells were hidden all along;
  3. where duplicates are allowed, a delete of the same time that removes the old rows;
  4. the update goes into the quarantine. Where a fragment has applied it, one that matches no row
     takes its name (F14).

At last every `.con` that holds one of the updates is written anew without it (see `apply_in_con`).

A stop at any point leaves rows hidden that were hidden.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from typing import TYPE_CHECKING

from chronotile.change.plan import Plan, Stage, Step, at_hand, put
from chronotile.change.sound_array import sealing_key
from chronotile.change.stand_in_deletes import harmless_tiles
from chronotile.check.findings import RefusedError, count_text
from chronotile.conditions import codec
from chronotile.conditions.delete import is_harmless
from chronotile.errors import ChangedError
from chronotile.format import tiles
from chronotile.format.kinds import COMMITS, FRAGMENTS
from chronotile.format.names import format_name
from chronotile.history.read_history import read_history
from chronotile.log import Log
from chronotile.rows.apply_in_con import cons_with, without_updates
from chronotile.rows.apply_old_row_delete import old_row_delete
from chronotile.rows.apply_rows import updated_rows
from chronotile.rows.cells.cell_source import applied_updates
from chronotile.rows.cells.engine import require_engine
from chronotile.rows.cells.staged_fragment import stage_fragment
from chronotile.rows.changes_in_force import changes_in_force, uuid_of_rows
from chronotile.rows.open_for_rows import last_time, schema_in_force

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from chronotile.rows.apply_rows import UpdatedRows
    from chronotile.rows.cells.staged_fragment import StagedFragment
    from chronotile.rows.changes_in_force import Change
    from chronotile.storage.store import Store


@dataclass(frozen=True, slots=True, kw_only=True)
class _Moment:
    """What is done about the updates of one millisecond."""

    rows: UpdatedRows
    name: str
    """Of the fragment."""
    fragment: StagedFragment | None
    """None if no row changes."""
    puts: tuple[Step, ...]
    moves: tuple[Step, ...]
    stand_ins: tuple[Step, ...]
    """Updates that match no row, under the names of those that go."""
    in_con: tuple[Change, ...]
    """Those of its updates that a `.con` holds."""

    def stages(self, known: Known) -> Iterator[Stage]:
        """The steps, in the order of the module's text."""
        hidden = "rows stay hidden that were hidden"
        if self.fragment is not None:
            reason = f"{count_text(self.rows.count, 'row')} with new values, at {self.rows.t}"
            path = f"{FRAGMENTS}/{self.name}"
            files = {f"{path}/{name}": data for name, data in self.fragment.files.items()}
            copy = Step(
                op="write", path=path, size=self.fragment.size, reason=reason, source=at_hand(files)
            )
            yield Stage(name="write rows", seen=hidden, steps=(copy,))
        yield Stage(name="commit rows", seen=hidden, looks=(known,), steps=self.puts)
        yield Stage(name="take the update out", seen="the new values", steps=self.moves)
        yield Stage(name="stand in for it", seen="the new values", steps=self.stand_ins)


@dataclass(frozen=True, slots=True)
class Known:
    """Look whether the commits are as they were read, less what the plan puts and moves."""

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
    require_engine()
    log = Log(read_history(store, key=key, labels=True), store)
    moments, notes = _planned(log)
    cons = without_updates(log, [one.name for moment in moments for one in moment.in_con])
    own = [step for moment in moments for step in (*moment.puts, *moment.moves)]
    ours = frozenset(step.path.rpartition("/")[2] for step in own)
    known = Known(frozenset(log.history.listing.commits), ours)
    stages = [stage for moment in moments for stage in moment.stages(known)]
    both = "every window sees the new values"
    stages.append(Stage(name="new .con", seen=both, steps=cons.puts))
    stages.append(Stage(name="old .con", seen=both, steps=cons.moves))
    count = sum(moment.rows.count for moment in moments)
    return Plan(
        command="apply",
        array=store.uri,
        stages=tuple(stages) if moments else (),
        notes=tuple(notes),
        rows={"rewritten": count} if count else {},
        added=tuple(step.path for moment in moments for step in moment.puts),
    )


def _planned(log: Log) -> tuple[list[_Moment], list[str]]:
    schema_file = schema_in_force(log, last_time(log))
    schema = schema_file.schema
    assert schema is not None
    if schema.dense:
        raise RefusedError(log.array, "expected a sparse array, found a dense one: no updates")
    in_force = changes_in_force(log.view(0, last_time(log)), schema)
    notes = list(in_force.notes)
    updates = [
        change
        for change in in_force.changes
        if change.is_update and not is_harmless(change.stored, schema)
    ]
    moments, applied = [], applied_updates(log) if updates else frozenset()
    for _, group in itertools.groupby(updates, key=lambda change: change.t):
        moment = _moment(log, list(group), applied)
        if isinstance(moment, str):
            notes.append(moment)
        else:
            moments.append(moment)
    return moments, notes


def _moment(log: Log, updates: list[Change], applied: frozenset[str]) -> _Moment | str:
    """What to do about the updates of one millisecond; or why nothing can be done."""
    is_applied = any(one.name in applied for one in updates)
    cons = {one.name: cons_with(log, one) for one in updates}
    rows = updated_rows(log, updates, applied=is_applied)
    if any(cons.values()) and (is_applied or rows.schema.allows_duplicates):
        return _left_in_con(cons, is_applied=is_applied)
    key = sealing_key(log.storage, log.history)
    fragment, puts, name = None, [], ""
    if rows.count:
        fragment = stage_fragment(log, rows.schema_file, rows.columns, rows.t)
        name = format_name(rows.t, rows.t, uuid_of_rows(updates), fragment.version)
        puts.append(put(f"{COMMITS}/{name}.wrt", b"", "commits them"))
    if rows.count and rows.schema.allows_duplicates:
        schemas = [item.schema for item in log.history.schemas if item.schema is not None]
        stored = None if rows.unchanged else old_row_delete(rows, schemas)
        if stored is None:
            names = ", ".join(one.name for one in updates)
            why = "no delete takes out its old rows alone, as others hold NULL or are like the new"
            return f"the update {names} is left alone: {why}"
        data = tiles.encode(codec.encode(stored), version=rows.schema.version, key=key)
        puts.append(put(f"{COMMITS}/{name}.del", data, "removes the old rows"))
    stand_ins, moves = [], []
    for one in updates:
        path = f"{COMMITS}/{one.name}.upd"
        if path.rpartition("/")[2] not in log.history.listing.commits:
            continue  # only a `.con` holds it
        data = log.storage.read(path)
        reason = "its rows have the values"
        moves.append(Step(op="move", path=path, size=len(data), reason=reason, data=data))
        if one.name in applied:
            harmless = harmless_tiles(log.history, key)[".upd"]
            reason = "matches no row: a fragment has applied the one of this name"
            stand_ins.append(put(path, harmless, reason))
    return _Moment(
        rows=rows,
        name=name,
        fragment=fragment,
        puts=tuple(puts),
        moves=tuple(moves),
        stand_ins=tuple(stand_ins),
        in_con=tuple(one for one in updates if cons[one.name]),
    )


def _left_in_con(cons: Mapping[str, list[str]], *, is_applied: bool) -> str:
    """Why updates of one millisecond cannot be carried out, of which a `.con` holds some."""
    path = next(paths[0] for paths in cons.values() if paths)
    # With duplicates both the old and the new rows would show for a moment.
    why = "a fragment has applied it" if is_applied else "the array allows duplicates"
    return f"the update {', '.join(cons)} is left alone: it stands in {path}, and {why}"
