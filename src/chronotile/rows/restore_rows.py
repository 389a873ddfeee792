"""A restore through the engine: the rows of then are written anew.

In: a sparse array, a moment. Out: the array as it was at that moment, from now on, and a report.

This is the way where commits alone cannot do it: fragments that were merged over the moment, whose
parts are gone, hold cells that no commit file can tell apart; cells with times of their own cannot
be moved behind a delete. The engine reads the rows of then, batch by batch, and writes them aside;
their files become fragments of the array, which one exchange of a `.vac` shows in place of the
others (see `time_machine.carry_out`). Every window that ends before stays as it is.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from chronotile.change.carry_out import plan_steps
from chronotile.change.past_state import Past, refuse_newer
from chronotile.change.plan import Plan, Seen, Source, Stage, Step
from chronotile.change.replay import Replay
from chronotile.change.restore import Change
from chronotile.change.schema_and_metadata import metadata_back, schema_back
from chronotile.change.sound_array import sound_history
from chronotile.change.under_way import Effect, look_under_way
from chronotile.check.findings import RefusedError, count_text
from chronotile.format.kinds import FRAGMENTS
from chronotile.format.names import new_name
from chronotile.format.timestamps import now_ms, time_text
from chronotile.history.read_history import read_history
from chronotile.log import Log
from chronotile.rows.cells.engine import Engine, require_engine
from chronotile.rows.cells.engine_read import layout_of, read_cells
from chronotile.rows.cells.engine_settings import engine_settings
from chronotile.rows.cells.staged_fragment import stage_fragment
from chronotile.rows.open_for_rows import schema_in_force
from chronotile.storage.engine_access import engine_uri
from chronotile.storage.store import put_compared

if TYPE_CHECKING:
    from collections.abc import Iterator

    from chronotile.format.timestamps import Moment
    from chronotile.rows.cells.engine_read import Cells
    from chronotile.storage.store import Store

_REWRITTEN = f"{FRAGMENTS}/rewritten"
"""Stands for the fragments in a plan, before they have names."""


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
        NoEngineError: The engine is not installed.
        RefusedError: The array is dense, or damaged.
    """
    require_engine()
    history, rules = sound_history(store, key)
    if history.dense:
        raise RefusedError(store.uri, "expected a sparse array, found a dense one")
    log = Log(read_history(store, key=key, labels=True), store)
    past, end = Past(store, rules), log.moment(to)
    past.refuse_lost(end)
    change = Change(store, rules, past, at)
    first = max(now_ms(), change.latest + 1) if change.at is None else change.at
    if first <= change.latest:
        problem = f"expected a moment after every commit, found {first}"
        raise RefusedError(store.uri, problem)
    refuse_newer(store.uri, change.now.parts)
    look_under_way(store, rules, Effect(tuple(part.name for part in change.now.parts)))
    count = sum(cells.count for cells in _cells(log, end))
    rows = f"{count_text(count, 'row')} as they were"
    source = Source(None, {}, {})
    planned = Step(op="write", path=_REWRITTEN, size=None, reason=rows, source=source)
    stage = Stage(
        name="rows",
        seen="every window sees what it saw before",
        looks=(Rewrite(log, change, end, first, keep_metadata),),
        steps=(planned,),
    )
    return Plan(
        command="restore",
        array=store.uri,
        stages=(stage,),
        notes=(_words(first, end),),
        hidden=tuple(part.name.text for part in change.now.parts),
        rows={"rewritten": count},
    )


@dataclass(frozen=True, slots=True)
class Rewrite:
    """Write the rows of a moment as fragments that no commit names, and show them."""

    log: Log
    change: Change
    end: int
    first: int
    keep_metadata: bool

    def __call__(self, store: Store) -> Seen:
        """Write them; give the stages that show them in place of all others."""
        history = self.change.history
        back = [*schema_back(store, self.change.rules, self.end)]
        if not self.keep_metadata:
            back += metadata_back(store, history, self.end, self.change.key)
        written = tuple(_rewritten(self.log, self.end, self.first))
        last = self.first + max(len(written) - 1, 0)
        others = tuple(one.step(history, last) for one in back)
        parts = self.change.now.parts
        replay = Replay(first=self.first, last=last, hidden=parts, again=())
        showing = plan_steps(store, history, replay, others, written=written)
        stages = showing.stages(wait=self.change.at is None)
        return Seen(leave=frozenset({_REWRITTEN}), stages=stages, added=showing.added)


def _cells(log: Log, end: int) -> Iterator[Cells]:
    """The rows that the engine reads at a moment, as stored."""
    schema = schema_in_force(log, end).schema
    assert schema is not None
    settings = engine_settings(log.storage, log.history.key)
    with Engine(log.array, engine_uri(log.storage), settings) as engine:
        engine.open(0, end)
        yield from read_cells(engine, schema.fields, layout=layout_of(log.history))


def _rewritten(log: Log, end: int, first: int) -> Iterator[Step]:
    """Put the rows of a moment as fragments that no commit names yet."""
    file = schema_in_force(log, end)
    for number, cells in enumerate(_cells(log, end)):
        moment = first + number
        staged = stage_fragment(log, file, cells.columns, moment)
        folder = f"{FRAGMENTS}/{new_name(moment, moment, staged.version)}"
        for path, data in staged.files.items():
            put_compared(log.storage, f"{folder}/{path}", data)
        sizes = {f"{folder}/{path}": len(data) for path, data in staged.files.items()}
        reason = f"{count_text(cells.count, 'row')} as they were"
        source = Source(None, {}, sizes)
        yield Step(op="write", path=folder, size=staged.size, reason=reason, source=source)


def _words(first: int, end: int) -> str:
    when = f"from {first} ({time_text(first)}) on"
    return f"{when} it is as it was at {end} ({time_text(end)}), its rows written again"
