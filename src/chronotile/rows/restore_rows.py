"""A restore through the engine: the rows as they were are written again.

In: a sparse array, a moment. Out: the plan of the array as it was at that moment, from now on.

This is the way where commits alone cannot do it: fragments that were merged over the moment, whose
parts are gone, hold cells that no commit file can tell apart; cells with times of their own cannot
be moved behind a delete. The engine reads the rows as they were, batch by batch, and writes them
aside; their files become fragments of the array, which one exchange of a `.vac` shows in place of
the others (see `change.replay`). Every window that ends before stays as it is.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from chronotile.change.past_state import Past, refuse_newer
from chronotile.change.plan import Plan, Seen, Source, Stage, Step
from chronotile.change.replay import Effect, Replay, look_under_way, plan_steps
from chronotile.change.restore import Change, metadata_back, schema_back
from chronotile.change.sound_array import sound_history
from chronotile.check.findings import RefusedError, count_text
from chronotile.format.kinds import FRAGMENTS
from chronotile.format.names import new_name
from chronotile.format.timestamps import now_ms, time_text
from chronotile.rows.engine import Engine
from chronotile.rows.engine_cells import layout_of, read_cells
from chronotile.rows.scratch_arrays import stage_fragment
from chronotile.rows.snapshot import Snapshot, open_labelled, schema_in_force
from chronotile.storage.store import put_compared

if TYPE_CHECKING:
    from collections.abc import Iterator

    from chronotile.format.timestamps import Moment
    from chronotile.rows.engine_cells import Cells
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
    log = open_labelled(store, key)
    history, rules = sound_history(store, key)
    if history.dense:
        raise RefusedError(store.uri, "expected a sparse array, found a dense one")
    past, end = Past(store, rules), log.moment(to)
    past.refuse_lost(end)
    change = Change(store, rules, past, at)
    first = max(now_ms(), change.latest + 1) if change.at is None else change.at
    if first <= change.latest:
        problem = f"expected a moment after every commit, found {first}"
        raise RefusedError(store.uri, problem)
    refuse_newer(store.uri, change.now.parts)
    look_under_way(store, rules, Effect(tuple(part.name for part in change.now.parts)))
    then = Snapshot(log=log, end=end, schema_file=schema_in_force(log, end))
    count = sum(map(len, _cells(then)))
    rows = f"{count_text(count, 'row')} as they were"
    source = Source(None, {}, {})
    planned = Step(op="write", path=_REWRITTEN, size=None, reason=rows, source=source)
    stage = Stage(
        name="rows",
        seen="every window sees what it saw before",
        looks=(Rewrite(then, change, first, keep_metadata),),
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

    then: Snapshot
    change: Change
    first: int
    """The time of the first fragment."""
    keep_metadata: bool

    def __call__(self, store: Store) -> Seen:
        """Write them; return the stages that show them in place of all others."""
        history, end = self.change.history, self.then.end
        back = [*schema_back(store, self.change.rules, end)]
        if not self.keep_metadata:
            back += metadata_back(store, history, end, self.change.key)
        written = tuple(_rewritten(self.then, self.first))
        last = self.first + max(len(written) - 1, 0)
        others = tuple(one.step(history, last) for one in back)
        parts = self.change.now.parts
        replay = Replay(first=self.first, last=last, hidden=parts, again=())
        showing = plan_steps(store, history, replay, others, written=written)
        stages = showing.stages(wait=self.change.at is None)
        return Seen(leave=frozenset({_REWRITTEN}), stages=stages, added=showing.added)


def _cells(at: Snapshot) -> Iterator[Cells]:
    """Read the rows that the engine sees at a moment, as stored."""
    log = at.log
    with Engine.at(log.storage, log.history.key) as engine:
        engine.open(0, at.end)
        yield from read_cells(engine, at.schema.fields, layout=layout_of(log.history))


def _rewritten(at: Snapshot, first: int) -> Iterator[Step]:
    """Put the rows of a moment as fragments that no commit names yet."""
    for number, cells in enumerate(_cells(at)):
        moment = first + number
        staged = stage_fragment(at, cells.columns, moment)
        folder = f"{FRAGMENTS}/{new_name(moment, moment, staged.version)}"
        for path, data in staged.files.items():
            put_compared(at.log.storage, f"{folder}/{path}", data)
        sizes = {f"{folder}/{path}": len(data) for path, data in staged.files.items()}
        reason = f"{count_text(len(cells), 'row')} as they were"
        source = Source(None, {}, sizes)
        yield Step(op="write", path=folder, size=staged.size, reason=reason, source=source)


def _words(first: int, end: int) -> str:
    when = f"from {first} ({time_text(first)}) on"
    return f"{when} it is as it was at {end} ({time_text(end)}), its rows written again"
