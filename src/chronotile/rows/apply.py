"""Updates, carried out: their rows are written, for every program that reads the array.

In: an array. Out: the array with a fragment for each moment of updates, the updates themselves in
the quarantine, and a report. What an open should see stays the same; what the engine shows now is
that.

The order, for each moment that has updates, the earliest first:

  1. the files of a fragment with the rows, of the update's own time: no commit names it yet;
  2. its `.wrt`: rows that the update's predicate still matches stay hidden by the update, others
     show; their old cells were hidden all along;
  3. where duplicates are allowed, a delete of the same time that removes the old rows;
  4. the update goes into the quarantine. Where a fragment has applied it, one that matches no row
     takes its name (F14).

At last every `.con` that holds one of the updates is written anew without it (see `apply_in_con`).

A stop at any point leaves rows hidden that were hidden; the next run goes on from there, as the
fragment's name follows from the updates.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from chronotile.change.change_report import Report, Step, put, tell
from chronotile.change.quarantine import new_quarantine
from chronotile.change.sound_array import sealing_key
from chronotile.change.stand_in_deletes import harmless_tiles
from chronotile.check.findings import RefusedError, count_text
from chronotile.conditions import codec
from chronotile.conditions.match_nothing import is_harmless
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
from chronotile.storage.compared_put import put_compared
from chronotile.storage.store import ObjectExistsError, open_store

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from chronotile.change.change_report import Before
    from chronotile.change.quarantine import Quarantine
    from chronotile.rows.apply_in_con import NewCons
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

    def steps(self) -> Iterator[Step]:
        """What is done, a line each file; of the fragment one for all."""
        if self.fragment is not None:
            reason = f"{count_text(self.rows.count, 'row')} with new values, at {self.rows.t}"
            path = f"{FRAGMENTS}/{self.name}"
            size, files = self.fragment.size, len(self.fragment.files)
            yield Step(op="write", path=path, size=size, reason=reason, fragment_files=files)
        yield from (*self.puts, *self.moves, *self.stand_ins)


def apply_updates(
    array: str,
    *,
    dry_run: bool = False,
    key: bytes | str | None = None,
    storage_options: Mapping[str, str] | None = None,
    store: Store | None = None,
    before: Before = None,
) -> Report:
    """Carries out the updates of an array, so that every TileDB program sees their values.

    The rows that an update matches, as an open right before it sees them, are written with the new
    values at the update's own time. NULL is no match; a row that has the values already is left as
    it is. Memory grows with the rows of one update.

    Args:
        array: A path or a URI.
        dry_run: Change nothing; tell how many rows would be written.
        key: The key of an encrypted array.
        storage_options: What the storage needs to know.
        store: The store, if it is open already.
        before: Called with the planned steps, before the first.

    Raises:
        NoEngineError: The engine, `chronotile[engine]`, is not installed.
        RefusedError: The array is dense, or an earlier run left other rows.
        ChangedError: Somebody wrote to the array meanwhile; try again.

    >>> apply_updates("memory:doc-nowhere")
    Traceback (most recent call last):
    chronotile.errors.ArrayNotFoundError: memory://doc-nowhere: expected an array, found no schema
    """
    require_engine()
    opened = store or open_store(array, storage_options)
    log = Log(read_history(opened, key=key, labels=True), opened)
    moments, notes = _planned(log)
    cons = without_updates(log, [one.name for moment in moments for one in moment.in_con])
    own = itertools.chain.from_iterable(moment.steps() for moment in moments)
    steps = (*own, *cons.puts, *cons.moves)
    report = Report("apply", opened.uri, dry_run=dry_run, steps=steps, notes=tuple(notes))
    if not moments:
        return report
    quarantine = new_quarantine(opened, report.at_ms)
    if not dry_run:
        tell(before, report)
        _declare(quarantine, moments, cons, report.at_ms)
        moved = 0
        for moment in moments:
            _put(log, moment, moments)
            quarantine.move(moment.moves, moved)
            moved += len(moment.moves)
            for step in moment.stand_ins:
                put_compared(opened, step.path, step.data)
        for step in cons.puts:
            put_compared(opened, step.path, step.data)
        quarantine.move(cons.moves, moved)
    return replace(report, quarantine=quarantine.uri, restore=quarantine.restore)


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


def _declare(quarantine: Quarantine, moments: list[_Moment], cons: NewCons, at_ms: int) -> None:
    moves = [step for moment in moments for step in moment.moves]
    puts = [step for moment in moments for step in (*moment.puts, *moment.stand_ins)]
    quarantine.declare([*moves, *cons.moves], [*puts, *cons.puts], at_ms)


def _put(log: Log, moment: _Moment, moments: list[_Moment]) -> None:
    """Puts the fragment of a moment, and what commits it."""
    store, fragment = log.storage, moment.fragment
    is_there = bool(moment.puts) and _is_committed(store, moment)
    if fragment is not None and not is_there:
        folder = f"{FRAGMENTS}/{moment.name}"
        for name, data in fragment.files.items():
            _put_anew(store, f"{folder}/{name}", data)
        _refuse_changed(log, moments)
    for step in moment.puts:
        try:
            put_compared(store, step.path, step.data)
        except ObjectExistsError:
            # An earlier run got this far. A delete that was encrypted anew has other bytes.
            if not is_there:
                raise


def _is_committed(store: Store, moment: _Moment) -> bool:
    """Whether an earlier run has committed the fragment.

    Raises:
        RefusedError: It has, but with other rows.
    """
    fragment = moment.fragment
    assert fragment is not None
    wrt = moment.puts[0].path.rpartition("/")[2]
    if wrt not in store.list_names(COMMITS).files:
        return False
    folder = f"{FRAGMENTS}/{moment.name}"
    found = dict(store.read_many(f"{folder}/{name}" for name in fragment.files))
    if any(found[f"{folder}/{name}"] != data for name, data in fragment.files.items()):
        problem = f"expected {folder} with the rows of now, found other rows"
        raise RefusedError(store.uri, f"{problem}: rows were written since a run was broken off")
    return True


def _put_anew(store: Store, path: str, data: bytes) -> None:
    """Puts a file of a fragment that no commit names; a broken-off run may have left another."""
    try:
        put_compared(store, path, data)
    except ObjectExistsError:
        if store.read(path, limit=2 * len(data) + 1) != data:
            store.remove([path])
            put_compared(store, path, data)


def _refuse_changed(log: Log, moments: list[_Moment]) -> None:
    """Refuses if commits came since the log was read: their rows were not looked at."""
    ours = {
        step.path.rpartition("/")[2] for moment in moments for step in (*moment.puts, *moment.moves)
    }
    fresh = set(log.storage.list_names(COMMITS).files) ^ set(log.history.listing.commits)
    if fresh - ours:
        problem = f"expected the commits as they were read, found {min(fresh - ours)} changed"
        raise ChangedError(log.array, f"{problem}; try again")
