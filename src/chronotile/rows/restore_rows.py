"""A restore through the engine: the rows of then are written anew.

In: a sparse array, a moment. Out: the array as it was at that moment, from now on, and a report.

This is the way where commits alone cannot do it: fragments that were merged over the moment, whose
parts are gone, hold cells that no commit file can tell apart; cells with times of their own cannot
be moved behind a delete. The engine reads the rows of then, batch by batch, and writes them aside;
their files become fragments of the array, which one exchange of a `.vac` shows in place of the
others (see `time_machine.carry_out`). Every window that ends before stays as it is.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from chronotile.change.change_report import Report, Step, tell
from chronotile.change.sound_array import sound_history
from chronotile.check.findings import RefusedError, count_text
from chronotile.format.kinds import FRAGMENTS
from chronotile.format.names import new_name
from chronotile.format.timestamps import now_ms, time_text
from chronotile.history.read_history import read_history
from chronotile.log import Log
from chronotile.rows.cells.engine import Engine, require_engine
from chronotile.rows.cells.engine_read import layout_of, read_cells
from chronotile.rows.cells.engine_settings import engine_settings, engine_uri
from chronotile.rows.cells.staged_fragment import stage_fragment
from chronotile.rows.open_for_rows import schema_in_force
from chronotile.storage.compared_put import put_compared
from chronotile.storage.store import open_store
from chronotile.time_machine.carry_out import Files, carry_out, plan_steps
from chronotile.time_machine.past_state import Past, refuse_newer
from chronotile.time_machine.replay import Replay
from chronotile.time_machine.restore import Change
from chronotile.time_machine.schema_and_metadata import metadata_back, schema_back
from chronotile.time_machine.under_way import Effect, look_under_way

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from chronotile.change.change_report import Before
    from chronotile.format.timestamps import Moment
    from chronotile.rows.cells.engine_read import Cells
    from chronotile.rows.cells.staged_fragment import StagedFragment
    from chronotile.storage.store import Store


def restore_rows(
    array: str,
    to: Moment,
    *,
    at: Moment | None = None,
    keep_metadata: bool = False,
    dry_run: bool = False,
    key: bytes | str | None = None,
    storage_options: Mapping[str, str] | None = None,
    store: Store | None = None,
    before: Before = None,
) -> Report:
    """Makes a sparse array, from a moment on, as it was at an earlier one, by writing its rows.

    Args:
        array: A path or a URI.
        to: The moment to go back to, in any spelling of a time.
        at: The moment from which on; it must be after every commit. Now, if it is left out.
        keep_metadata: Leave the metadata as it is now.
        dry_run: Change nothing, and count the rows.
        key: The key of an encrypted array.
        storage_options: What the storage needs to know.
        store: The store, if it is open already.
        before: Called with the planned steps, before the first.

    Raises:
        NoEngineError: The engine is not installed.
        RefusedError: The array is dense, or damaged.
    """
    require_engine()
    opened = store or open_store(array, storage_options)
    history, rules = sound_history(opened, key)
    if history.dense:
        raise RefusedError(opened.uri, "expected a sparse array, found a dense one")
    log = Log(read_history(opened, key=key, labels=True), opened)
    past, end = Past(opened, rules), log.moment(to)
    past.refuse_lost(end)
    change = Change(opened, rules, past, at)
    first = max(now_ms(), change.latest + 1) if change.at is None else change.at
    if first <= change.latest:
        problem = f"expected a moment after every commit, found {first}"
        raise RefusedError(opened.uri, problem)
    refuse_newer(opened.uri, change.now.parts)
    look_under_way(opened, rules, Effect(tuple(part.name for part in change.now.parts)))
    report = Report("restore", opened.uri, dry_run=dry_run, steps=(), notes=(_words(first, end),))
    if dry_run:
        counts = [cells.count for cells in _cells(log, end)]
        names = (f"{FRAGMENTS}/…" for _ in counts)
        return replace(report, steps=tuple(map(_step, names, counts)))
    tell(before, replace(report, steps=(_step(f"{FRAGMENTS}/…", 0),)))
    return _carried_out(log, change, report, end, first, keep_metadata=keep_metadata)


def _carried_out(
    log: Log, change: Change, report: Report, end: int, first: int, *, keep_metadata: bool
) -> Report:
    """Writes the rows of then, shows them in place of all others, and completes the report."""
    store, history = log.storage, change.history
    back = [*schema_back(store, change.rules, end)]
    if not keep_metadata:
        back += metadata_back(store, history, end, change.key)
    new = tuple(_rewritten(log, end, first))
    copies = tuple(step for step, _ in new)
    last = first + max(len(copies) - 1, 0)
    others = [one.step(history, last) for one in back]
    written = tuple((step.path.rpartition("/")[2], files) for step, files in new)
    replay = Replay(first=first, last=last, hidden=change.now.parts, again=())
    plan = plan_steps(store, history, replay, tuple(others), written=written)
    late = carry_out(store, history, plan, wait=change.at is None)
    return replace(
        report,
        steps=(*copies, *plan.steps()),
        notes=(*report.notes, *late),
        added=plan.added,
        hidden=tuple(part.name.text for part in change.now.parts),
    )


def _cells(log: Log, end: int) -> Iterator[Cells]:
    """The rows that the engine reads at a moment, as stored."""
    schema = schema_in_force(log, end).schema
    assert schema is not None
    settings = engine_settings(log.storage, log.history.key)
    with Engine(log.array, engine_uri(log.storage), settings) as engine:
        engine.open(0, end)
        yield from read_cells(engine, schema.fields, layout=layout_of(log.history))


def _rewritten(log: Log, end: int, first: int) -> Iterator[tuple[Step, Files]]:
    """Puts the rows of then as fragments that no commit names yet."""
    file = schema_in_force(log, end)
    for number, cells in enumerate(_cells(log, end)):
        moment = first + number
        staged = stage_fragment(log, file, cells.columns, moment)
        name = new_name(moment, moment, staged.version)
        for path, data in staged.files.items():
            put_compared(log.storage, f"{FRAGMENTS}/{name}/{path}", data)
        files = tuple((path, len(data)) for path, data in staged.files.items())
        yield _step(f"{FRAGMENTS}/{name}", cells.count, staged), files


def _step(path: str, count: int, staged: StagedFragment | None = None) -> Step:
    """The step that writes a fragment; how large it gets is known once the engine has made it."""
    rows = count_text(count, "row") if count else "rows"
    return Step(
        op="write",
        path=path,
        size=staged and staged.size,
        reason=f"{rows} as they were",
        fragment_files=len(staged.files) if staged else 0,
    )


def _words(first: int, end: int) -> str:
    when = f"from {first} ({time_text(first)}) on"
    return f"{when} it is as it was at {end} ({time_text(end)}), its rows written anew"
